"""Contexts: fragments, candidates, weights and entities."""

from __future__ import annotations

from datetime import timedelta

import pytest
from engine_samples import NOW, THEN, ids, link, node, request_context

from knowloom import (
    Engine,
    Item,
    Kind,
    Recipe,
    Weights,
)
from knowloom.recipes import DEFAULT_CANDIDATES, MIN_CANDIDATES


def test_a_context_reports_its_counts_and_fragments(refund_kb):
    context = request_context(refund_kb, max_tokens=200)
    assert context.stats.candidates == len(context.hits) + len(context.left_out)
    assert (context.stats.searched, context.stats.token_counter) == (10, "cl100k_base")
    assert [fragment.name for fragment in context.fragments] == [
        "entry_points",
        "context",
        "entities",
    ]


def test_the_number_of_candidates_follows_the_budget(kb):
    kb.add(
        [
            node(f"i{number:03}", "refund" + " harbor" * 40)
            for number in range(DEFAULT_CANDIDATES + 50)
        ]
    )
    expected = {
        0: MIN_CANDIDATES,
        100: MIN_CANDIDATES,
        1500: 32,
        6000: 126,
        60_000: DEFAULT_CANDIDATES + 50,
        None: DEFAULT_CANDIDATES,
    }  # 288 characters each, 6 a token
    assert {
        budget: request_context(kb, recipe="search", max_tokens=budget).stats.candidates
        for budget in expected
    } == expected


def test_sections_split_the_text_by_prompt_section(kb):
    kb.add([node("a", "refund one", section="instructions"), node("b", "refund two")])
    sections = request_context(kb, format="plain").sections()
    assert list(sections) == ["instructions", "context"] or list(sections) == [
        "context",
        "instructions",
    ]
    assert "refund one" in sections["instructions"] and "refund two" in sections["context"]


def test_request_options_reach_the_search_recipes(refund_kb):
    context = request_context(refund_kb, "refund car", types=["guide"], limit=3)
    assert ids(context.hits) == ["parking"]


def test_a_recipe_accepts_lists(refund_kb):
    recipe = Recipe("x", types=["guide"], kinds=["node"], tags=[], exclude_types=["faq"])
    assert ids(request_context(refund_kb, "refund car", recipe=[recipe]).hits) == ["parking"]


def test_no_item_is_rendered_twice(kb):
    kb.add(
        [node("global", "refund for all", kind=Kind.PROFILE), node("b", "refund")],
        [link("global", "b")],
    )
    recipe = [
        Recipe("search"),
        Recipe("again"),
        Recipe("linked", "neighbours", depth=1),
        Recipe("profile", "profile"),
    ]
    assert sorted(ids(request_context(kb, recipe=recipe).hits)) == ["b", "global"]


def test_a_profile_comes_first_and_brings_the_rules_of_its_subject(kb):
    kb.add(
        [
            node("user:maya", "prefers email", kind=Kind.PROFILE),
            node("global", "be polite", kind=Kind.PROFILE),
            node("faq", "refund", type="Policy"),
            node("rule", "keep receipts", kind=Kind.RULE, subject="Policy"),
            node("claim", "takes five days", kind=Kind.CLAIM, subject="faq", confidence=0.9),
            node("other", "not about it", kind=Kind.CLAIM, subject="something"),
        ]
    )
    parts = {
        part.name: ids(part.hits)
        for part in request_context(kb, recipe="profile", entity="user:maya").fragments
    }
    assert parts == {
        "profile": ["global", "user:maya"],
        "entry_points": ["faq"],
        "context": [],
        "rules": ["claim", "rule"],
    }


def test_weights_change_the_order_and_keep_scores_between_0_and_1(kb):
    kb.add([node("old", "refund refund", created_at=THEN), node("new", "refund", created_at=NOW)])
    plain, fresh = (
        request_context(kb, recipe=[Recipe("r", weights=weights)]).hits
        for weights in (Weights(), Weights(match=0.1, recency=5))
    )
    assert (ids(plain), ids(fresh)) == (["old", "new"], ["new", "old"])
    assert all(0 <= hit.score <= 1 for hit in fresh)


def test_a_memory_scores_by_match_age_and_confidence(kb):
    kb.add(
        node("a", "refund", kind=Kind.MEMORY, confidence=0.8, created_at=NOW - timedelta(days=1))
    )
    hit = request_context(kb, recipe="memories").hits[0]
    assert hit.score == pytest.approx(0.5 * hit.signals["match"] + 0.3 * 0.5 + 0.2 * 0.8, abs=1e-6)


def test_min_score_applies_to_the_final_score(kb):
    kb.add(
        node("a", "refund and " + "word " * 50, kind=Kind.MEMORY, confidence=1.0, created_at=NOW)
    )
    hit = request_context(kb, recipe="memories").hits[0]
    assert hit.signals["match"] < hit.score
    assert ids(request_context(kb, recipe="memories", min_score=hit.score).hits) == ["a"]


def test_the_forms_of_a_recipe_can_be_a_list(kb: Engine) -> None:
    kb.add(Item("a", "acme", text="A refund takes five days."))
    from_list, from_tuple = (
        kb.context("refund", spaces=["acme"], now=NOW, recipe=[Recipe("x", forms=forms)])
        for forms in (["whole"], ("whole",))
    )
    assert from_list.text and (from_list.text, from_list.digest) == (
        from_tuple.text,
        from_tuple.digest,
    )


def test_an_entity_named_in_the_query_is_included_with_its_neighbours(
    kb,
):
    acme, office = (
        node("acme", "Our biggest customer.", kind=Kind.ENTITY, title="Acme Corp"),
        node("office", kind=Kind.ENTITY, title="Office"),
    )
    others = [
        node(f"c{n}", "A corp that buys.", kind=Kind.ENTITY, title=f"Corp {n}") for n in range(30)
    ]
    kb.add(
        [acme, office, *others, node("based", "where things are based")],
        [link("acme", "office", type="HAS")],
    )
    context = request_context(kb, "Where is acme corp based?")
    hits = {choice.hit.item.id: choice.hit for choice in context.fragments[-1].chosen}
    assert list(hits) == ["acme", "office"] and hits["acme"].found_by == ("name",)
    assert hits["acme"].relevance == pytest.approx(hits["acme"].signals["bm25"])
    assert hits["office"].relevance < hits["acme"].relevance


def test_entities_that_share_a_name_share_its_score(kb):
    kb.add(
        [
            node(id, f"The {id} one.", kind=Kind.ENTITY, title="Acme Corp")
            for id in ("old", "new", "third", "fourth")
        ]
    )
    assert [
        choice.hit.score
        for choice in request_context(kb, "Where is Acme Corp?").fragments[-1].chosen
    ] == [0.25] * 4


def test_an_unknown_entity_is_reported(refund_kb):
    assert request_context(refund_kb, entity="lunch").degraded == ()
    (problem,) = request_context(refund_kb, entity="nobody").degraded
    assert (problem.part, problem.code, "'nobody'" in problem.reason) == (
        "entity",
        "unknown_entity",
        True,
    )


@pytest.mark.parametrize("source", ["walk", "neighbours", "subjects"])
def test_an_excluded_type_is_excluded_from_every_source(kb, source):
    kb.add(
        [
            node("a", "refund"),
            node("b", "hidden", type="secret", subject="a"),
            node("c", "shown", subject="a"),
        ],
        [link("a", "b"), link("a", "c")],
    )
    recipe = [Recipe("found"), Recipe("more", source, depth=2)]
    options = {"recipe": recipe, "kinds": ()}
    assert sorted(ids(request_context(kb, **options).hits)) == ["a", "b", "c"]
    assert sorted(ids(request_context(kb, **options, exclude_types=["secret"]).hits)) == ["a", "c"]
