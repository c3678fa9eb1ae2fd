"""Confidence: higher with the evidence than without it, the same on every surface, and a floor."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator

import pytest
from engine_samples import node

import knowloom
from knowloom import Engine, Recipe
from knowloom.context.confidence import (
    CALIBRATIONS,
    calibration_name,
    estimate_confidence,
    measure_hits,
)
from knowloom.errors import Invalid
from knowloom.model import Hit, Hits, Item, Passage, ScoredPassage
from knowloom.recipes import Weights

TEXTS = {
    "refund": "A refund over 100 dollars needs the approval of a team lead.",
    "returns": "Returns are accepted for 30 days. Members do not pay for the label.",
    "gift": "Gift cards are valid for three years and cannot be exchanged for money.",
    "phone": "The phone is open from 9 to 17 o'clock. Calls are recorded.",
    "privacy": "Delete the data of a customer who asks for it within a week.",
    "warranty": "A device that fails within two years is repaired in Venlo.",
    "invoice": "An invoice is sent with the parcel. Companies also get it by email.",
    "holiday": "Nothing is sent on public holidays. Say so the day before.",
    "review": "Thank for every review. Never offer anything for a better one.",
    "delay": "A discount is for a delay of more than a week: 10 percent.",
    "stock": "An item out of stock is ordered again when ten customers ask for it.",
}
ASKED = "Who approves a refund over 100 dollars?"
UNRELATED = "Which enzyme unwinds the double helix of bacteria?"


@pytest.fixture(params=[True, False], ids=["vectors", "words"])
def shop(request: pytest.FixtureRequest) -> Iterator[Engine]:
    embedder = {} if request.param else {"embedder": None}
    with knowloom.open("memory:", **embedder) as kb:
        kb.add([node(id, text) for id, text in TEXTS.items()])
        yield kb


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "walk"])
def test_the_confidence_falls_when_the_evidence_is_deleted(shop: Engine, mode: str) -> None:
    answers = [shop.search(ASKED, spaces=["s"], mode=mode)]
    contexts = [shop.context(ASKED, spaces=["s"], mode=mode)]
    shop.delete("refund", space="s")
    answers.append(shop.search(ASKED, spaces=["s"], mode=mode))
    contexts.append(shop.context(ASKED, spaces=["s"], mode=mode))
    for before, after in (answers, contexts):
        assert 1 >= before.confidence > 0.5 > after.confidence >= 0


def test_the_confidence_does_not_depend_on_limit_and_min_score(shop: Engine) -> None:
    confidences = {
        shop.search(ASKED, spaces=["s"], limit=limit, min_score=min_score).confidence
        for limit in (1, 2, 3, 10, 100)
        for min_score in (0.0, 0.2)
    }
    assert len(confidences) == 1


def test_the_confidence_does_not_depend_on_other_spaces(shop: Engine) -> None:
    before = shop.search(ASKED, spaces=["s"]).confidence
    shop.add([node("other", f"{ASKED} A team lead.", space="t")])
    assert shop.search(ASKED, spaces=["s"]).confidence == before
    assert shop.search(ASKED, spaces=["s", "t"]).confidence > before


def test_an_answer_without_hits_has_no_confidence(shop: Engine) -> None:
    assert shop.search(ASKED, spaces=["s"], min_score=1.0).confidence == 0
    assert shop.context(ASKED, spaces=["s"], min_score=1.0).confidence == 0
    assert shop.context(ASKED, spaces=["s"], types=["faq"]).confidence == 0


def test_a_context_without_a_search_has_none(shop: Engine) -> None:
    profile = [Recipe("profile", "profile")]
    assert shop.context(ASKED, spaces=["s"], recipe=profile).confidence is None


def test_weights_of_a_recipe_do_not_change_the_confidence(shop: Engine) -> None:
    plain = [Recipe("entry_points")]
    weighted = [Recipe("entry_points", weights=Weights(match=0.1, recency=0.9))]
    first, second = (shop.context(ASKED, spaces=["s"], recipe=r) for r in (plain, weighted))
    assert first.confidence == second.confidence != 0


class TestFloor:
    def test_a_doubtful_answer_says_so(self, shop: Engine) -> None:
        for answer in (shop.search(UNRELATED, spaces=["s"]), shop.context(UNRELATED, spaces=["s"])):
            assert answer.confidence < 0.2
            codes = [problem.code for problem in answer.degraded]
            assert codes in (["low_confidence"], ["no_results"])
            assert all(problem.severity == "notice" for problem in answer.degraded)
        good = (shop.search(ASKED, spaces=["s"]), shop.context(ASKED, spaces=["s"]))
        assert [answer.degraded for answer in good] == [(), ()]

    def test_the_floor_is_a_setting(self, shop: Engine) -> None:
        strict = shop.with_retrieval({"confidence_floor": 1.0})
        assert [p.code for p in strict.search(ASKED, spaces=["s"]).degraded] == ["low_confidence"]
        assert [p.code for p in strict.context(ASKED, spaces=["s"]).degraded] == ["low_confidence"]
        lax = shop.with_retrieval({"confidence_floor": 0.0})
        assert "low_confidence" not in {
            problem.code for problem in lax.context(UNRELATED, spaces=["s"]).degraded
        }

    @pytest.mark.parametrize("floor", [-0.1, 1.1, math.nan, "high", True])
    def test_a_floor_outside_of_0_to_1_is_refused(self, shop: Engine, floor: object) -> None:
        with pytest.raises(Invalid, match="confidence_floor"):
            shop.with_retrieval({"confidence_floor": floor})


class TestMinimum:
    def test_below_the_minimum_nothing_but_the_notice_is_returned(self, shop: Engine) -> None:
        hits = shop.search(UNRELATED, spaces=["s"], min_answer_confidence=0.5)
        context = shop.context(UNRELATED, spaces=["s"], min_answer_confidence=0.5)
        assert hits == [] and (context.text, context.tokens, context.hits) == ("", 0, ())
        assert context.left_out == () and context.fragments == ()
        for answer in (hits, context):
            assert "min_answer_confidence 0.5" in answer.degraded[-1].reason or (
                answer.confidence == 0
            )

    def test_an_answer_above_the_minimum_is_the_same(self, shop: Engine) -> None:
        assert shop.search(ASKED, spaces=["s"], min_answer_confidence=0.3) == shop.search(
            ASKED, spaces=["s"]
        )
        plain = shop.context(ASKED, spaces=["s"])
        assert shop.context(ASKED, spaces=["s"], min_answer_confidence=0.3).text == plain.text

    def test_an_explanation_reveals_no_more(self, shop: Engine) -> None:
        why = shop.explain(UNRELATED, spaces=["s"], min_answer_confidence=0.9)
        assert (why.text, why.left_out) == ("", ())

    def test_the_minimum_is_part_of_the_digest(self, shop: Engine) -> None:
        digests = {
            shop.context(UNRELATED, spaces=["s"], min_answer_confidence=value).digest
            for value in (0.0, 0.9, 1.0)
        }
        assert len(digests) == 3

    @pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "high", None, True])
    def test_a_minimum_outside_of_0_to_1_is_refused(self, shop: Engine, value: object) -> None:
        for ask in (shop.search, shop.context):
            with pytest.raises(Invalid, match="min_answer_confidence must"):
                ask(ASKED, spaces=["s"], min_answer_confidence=value)


class TestHits:
    hits = Hits([Hit(Item("a", "s"), 0.5)], 0.75)

    def test_they_are_a_list(self) -> None:
        assert isinstance(self.hits, list) and self.hits == [Hit(Item("a", "s"), 0.5)]
        assert self.hits[:1] == self.hits and not Hits()

    def test_they_are_copied_with_their_confidence(self) -> None:
        for other in (copy.copy(self.hits), pickle.loads(pickle.dumps(self.hits))):
            assert (other, other.confidence, other.degraded) == (self.hits, 0.75, ())


class TestMeasures:
    def test_terms_are_compared_with_the_title_and_the_best_passage(self) -> None:
        text = "Nothing here. Refunds: approved by a lead."
        item = Item("a", "s", title="Money (dollars)", text=text)
        passages = tuple(
            ScoredPassage(Passage(n, *bounds), 1.0 - n) for n, bounds in enumerate([(14, 42)])
        )
        query = "refund nothing dollar zebra"
        assert measure_hits(query, [Hit(item, 0.5, passages=passages)], 0.5).covered == 0.5
        assert measure_hits(query, [Hit(item, 0.5)], 0.5).covered == 0.75

    def test_three_hits_cover_together(self) -> None:
        hits = [Hit(Item(id, "s", text=id), 0.5) for id in ("red", "green", "blue", "black")]
        measures = measure_hits("red green blue black", hits, 0.5)
        assert measures.covered == 0.75

    def test_accents_scripts_and_queries_without_terms_are_measured(self) -> None:
        hit = Hit(Item("a", "s", title="Café 東京都庁", text="crème"), 0.9)
        assert measure_hits("cafe creme", [hit], 0.9).covered == 1
        assert measure_hits("東京", [hit], 0.9).covered == 1
        assert measure_hits("?", [hit], 0.9).covered == 0

    def test_no_coefficient_is_negative(self) -> None:
        for fitted in CALIBRATIONS.values():
            assert fitted.intercept < 0 <= min(fitted.best, fitted.covered)

    @pytest.mark.parametrize("name", CALIBRATIONS)
    def test_better_hits_give_more_confidence(self, name: str) -> None:
        red, green = (Hit(Item(id, "s", text=id), 0.9) for id in ("red", "green"))
        weak = estimate_confidence("red green blue", [green], 0.1, name)
        strong = estimate_confidence("red green blue", [green, red], 0.8, name)
        assert 0 <= weak < 0.2 < 0.5 < strong <= 1

    def test_a_search_without_a_vector_is_calibrated_as_one_by_words(self) -> None:
        names = [calibration_name(mode, False) for mode in ("hybrid", "bm25", "walk")]
        assert names == ["bm25", "bm25", "walk_bm25"]
        assert calibration_name("bm25", True) == "bm25" and calibration_name("walk", True) == "walk"
