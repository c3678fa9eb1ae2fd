"""Answers that are empty, or for less than was requested, say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engine_samples import link, node

import knowloom
from knowloom import Engine, GraphContext, Item, Kind, Recipe
from knowloom.errors import Invalid, NotFound
from knowloom.model import Form
from knowloom.recipes import Weights


@pytest.fixture
def shop(store_url: str) -> Iterator[Engine]:
    with knowloom.open(store_url, embedder=None) as kb:
        kb.add(
            [
                node("refund", "A refund needs the approval of a lead.", type="faq"),
                node("label", "A return label is free for members.", type="policy"),
                node("plain", "Parcels leave within one day."),
                Item("lead", "s", Kind.ENTITY, "Team", "Team lead"),
            ]
        )
        kb.add(node("refund", "A refund takes a week.", space="t"))
        yield kb


def reasons(answer: object, code: str) -> list[str]:
    return [problem.reason for problem in answer.degraded if problem.code == code]


class TestTypes:
    @pytest.mark.parametrize(
        ("type", "hint"), [("FAQ", "faq"), ("fqa", "faq"), ("polcy", "policy")]
    )
    def test_a_typo_is_reported_with_the_types_that_exist(
        self, shop: Engine, type: str, hint: str
    ) -> None:
        for ask in (shop.search, shop.context, shop.explain):
            (reason,) = reasons(ask("refund", spaces=["s"], types=[type]), "unknown_type")
            assert repr(type) in reason and f"did you mean {hint!r}?" in reason
            assert 'types: "" (none), Team, faq, policy' in reason

    def test_known_types_are_not_reported(self, shop: Engine) -> None:
        answer = shop.search("label", spaces=["s"], types=["faq", "policy"])
        assert [hit.item.id for hit in answer] == ["label"]
        assert answer.degraded == ()

    def test_types_of_other_spaces_do_not_count(self, shop: Engine) -> None:
        assert reasons(shop.search("refund", spaces=["t"], types=["faq"]), "unknown_type")

    def test_a_type_that_is_partly_unknown_still_finds_the_rest(self, shop: Engine) -> None:
        answer = shop.search("refund", spaces=["s"], types=["faq", "zebra"])
        assert [hit.item.id for hit in answer] == ["refund"]
        assert len(reasons(answer, "unknown_type")) == 1

    def test_a_graph_reports_them_too(self, shop: Engine) -> None:
        answer = GraphContext(shop, ["s"]).for_query("team lead", entity_types=("Taem",))
        assert "did you mean 'Team'?" in reasons(answer, "unknown_type")[0]


class TestEmptiness:
    def test_a_minimum_score_says_how_many_it_left_out(self, shop: Engine) -> None:
        best = shop.search("refund approval", spaces=["s"])[0].score
        expected = f"min_score 0.99 left out 1; the best scores {best:g}; try a lower one"
        assert reasons(
            shop.search("refund approval", spaces=["s"], min_score=0.99), "no_results"
        ) == [expected]
        context = shop.context("refund approval", spaces=["s"], min_score=0.99)
        assert expected in reasons(context, "no_results")

    def test_weighted_scores_are_counted_as_well(self, shop: Engine) -> None:
        weights = Weights(match=0.5, recency=0.5)
        recipe = Recipe("entry_points", weights=weights, min_score=0.999)
        context = shop.context("refund", spaces=["s"], recipe=[recipe])
        assert reasons(context, "no_results") == ["min_score 0.999 left out 1; try a lower one"]

    def test_an_agent_says_it(self, shop: Engine) -> None:
        context = shop.context("lead zebra", spaces=["s"], agent="editor", min_score=1.0)
        assert any("min_score 1 left out 1" in r for r in reasons(context, "no_results")), (
            context.degraded
        )

    def test_other_reasons(self, shop: Engine) -> None:
        shop.delete("refund", space="t")
        for options, expected in (
            ({"spaces": ["s"], "tags": ["x"]}, "no item passes the filters; try fewer"),
            ({"spaces": ["s"]}, "no item matches the query; try other words"),
            ({"spaces": []}, "no space was requested; try one"),
        ):
            for ask in (shop.search, shop.context):
                (reason,) = reasons(ask("zebra", **options), "no_results")
                assert reason.startswith(expected)

    def test_a_graph_says_it(self, shop: Engine) -> None:
        provider = GraphContext(shop, ["s"])
        answer = provider.for_query("lead zebra", min_relevance_score=1.0)
        assert reasons(answer, "no_results") == [
            "min_relevance_score 1 left out 1; try a lower one"
        ]
        assert answer.confidence == 0 and provider.for_query("team lead").confidence > 0

    def test_an_answer_with_items_has_no_such_notice(self, shop: Engine) -> None:
        assert not reasons(shop.context("refund approval lead", spaces=["s"]), "no_results")


class TestSpaces:
    def test_an_unknown_space_is_reported_and_the_others_answer(self, shop: Engine) -> None:
        for ask in (shop.search, shop.context):
            answer = ask("refund", spaces=["s", "nowhere"])
            assert reasons(answer, "unknown_space") == [
                "unknown space 'nowhere': it was not searched"
            ]
        hits = shop.search("refund", spaces=["nowhere", "s"])
        assert hits == shop.search("refund", spaces=["s"]) != []
        context = shop.context("refund", spaces=["nowhere", "s"])
        assert context.query.spaces == ("s",)

    def test_only_unknown_spaces_are_an_error(self, shop: Engine) -> None:
        for ask in (shop.search, shop.context):
            with pytest.raises(NotFound, match="unknown space 'nowhere'"):
                ask("refund", spaces=["nowhere", "neither"])


class TestQueries:
    @pytest.mark.parametrize("query", ["", "   ", "?!", "…", "\n", "\0"])
    def test_a_query_without_a_word_is_refused(self, shop: Engine, query: str) -> None:
        for ask in (shop.search, shop.context, shop.explain):
            with pytest.raises(Invalid, match="must contain a word or a number"):
                ask(query, spaces=["s"])
        with pytest.raises(Invalid, match="must contain a word or a number"):
            GraphContext(shop, ["s"]).for_query(query)

    @pytest.mark.parametrize("query", ["7", "é", "東京", "the", "C++", "🎉"])
    def test_any_word_is_a_query(self, shop: Engine, query: str) -> None:
        assert isinstance(shop.search(query, spaces=["s"]), list)

    def test_a_vector_needs_no_words(self, store_url: str) -> None:
        with knowloom.open(store_url, embedder=None) as kb:
            kb.add([node("a", "x"), node("b", "y")], vectors=[[1.0, 0.0], [0.0, 1.0]])
            hits = kb.search("", spaces=["s"], vector=[1.0, 0.0])
            assert [hit.item.id for hit in hits] == ["a"]  # a score of 0 is no hit

    def test_an_entity_needs_no_words(self, shop: Engine) -> None:
        shop.add(Item("maya", "s", Kind.PROFILE, properties={"plan": "gold"}))
        assert "gold" in shop.context("", spaces=["s"], recipe="profile", entity="maya").text


class TestTotals:
    def test_a_context_that_shows_everything_is_not_truncated(self, shop: Engine) -> None:
        assert not shop.context("refund approval lead", spaces=["s"]).truncated
        assert shop.context("refund approval lead", spaces=["s"], max_tokens=12).truncated

    def test_the_matches_are_counted_before_they_are_filtered(self, shop: Engine) -> None:
        stats = shop.context("refund label parcels", spaces=["s"], min_score=0.99).stats
        assert (stats.matched, stats.candidates) == (3, 0)


def test_the_best_hit_that_is_only_a_pointer_is_explained(shop: Engine) -> None:
    text = " ".join(f"Zebra {number} is striped." for number in range(30))
    shop.add([node("zebras", text, title="Zebras"), node("zoo", "One zebra lives here.")])
    shop.add([], [link("refund", "label")])
    context = shop.explain("zebra stripes", spaces=["s"], max_tokens=60)
    pointers = [
        c.hit.item.id for f in context.fragments for c in f.chosen if c.form is Form.POINTER
    ]
    assert pointers == ["zebras"]
    (entry,) = [entry for entry in context.left_out if entry.hit.item.id == "zebras"]
    assert entry.reason.startswith("shown by its name only: ")
    budget = int(entry.remedy.removeprefix("max_tokens=").split()[0])
    assert entry.remedy == f"max_tokens={budget} shows it (whole)"
    wider = shop.context("zebra stripes", spaces=["s"], max_tokens=budget)
    assert "zebras" in [
        c.hit.item.id for f in wider.fragments for c in f.chosen if c.form is Form.WHOLE
    ]
