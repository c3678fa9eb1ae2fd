"""Reasons and remedies for items that a context leaves out."""

from __future__ import annotations

import random
import re
from collections import defaultdict

from engine_samples import EXAMPLES, NOW, THEN, ids, node, random_memory
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Kind
from knowloom.ports import PROVENANCE_SPACE


def test_explain_reveals_no_text_of_another_space(refund_kb):
    refund_kb.add(node("secret", "the launch code", space="other", title="Launch"))
    explanation = repr(refund_kb.explain("refund", spaces=["s"], ids=["secret"], now=NOW))
    assert "launch code" not in explanation and "Launch" not in explanation


def test_explain_does_not_reveal_provenance_items(kb, tmp_path):
    (tmp_path / "s.jsonl").write_text('{"id": "a", "text": "refund"}')
    kb.load(tmp_path)
    page = next(
        item.id for item in kb._stores.items.find(knowloom.model.Filter((PROVENANCE_SPACE,)), 10)
    )
    (omission,) = [
        candidate
        for candidate in kb.explain("refund", spaces=["s"], ids=[page], now=NOW).left_out
        if candidate.hit.item.id == page
    ]
    assert (omission.reason, omission.remedy) == ("no such item is stored", "")


def test_explain_returns_the_same_context(refund_kb):
    for budget in (0, 40, 150, 2000):
        plain, explained = (
            call("refund", spaces=["s"], max_tokens=budget, now=NOW)
            for call in (refund_kb.context, refund_kb.explain)
        )
        assert (plain.text, plain.digest, plain.hits) == (
            explained.text,
            explained.digest,
            explained.hits,
        )


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(20, 3000),
    st.sampled_from(["search", "knowledge", "memories"]),
)
def test_every_suggested_budget_shows_its_item(seed, budget, recipe):
    chance = random.Random(seed)
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([random_memory(chance, number) for number in range(120)])
        options = {"spaces": ["s"], "recipe": recipe, "now": NOW}
        remedies: dict[int, set[tuple[str, str]]] = defaultdict(set)
        for omission in kb.explain("refund", max_tokens=budget, **options).left_out:
            if match := re.match(r"max_tokens=(\d+) shows it \((\w+)\)", omission.remedy):
                remedies[int(match[1])].add((omission.hit.item.id, match[2]))
        for larger, shown in remedies.items():
            parts = kb.context("refund", max_tokens=larger, **options).fragments
            assert shown <= {
                (chosen.hit.item.id, chosen.form.value) for part in parts for chosen in part.chosen
            }


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 12),
    st.floats(0, 1),
    st.sampled_from(["search", "memories"]),
)
def test_every_suggested_limit_and_min_score_shows_its_item(seed, limit, min_score, recipe):
    chance = random.Random(seed)
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([random_memory(chance, number) for number in range(40)])
        options = {
            "spaces": ["s"],
            "recipe": recipe,
            "now": NOW,
            "max_tokens": None,
            "limit": limit,
            "min_score": min_score,
        }
        explained = kb.explain("refund", **options)
        assert len(explained.left_out) >= min(2 * limit, 40 - limit)
        for omission in explained.left_out:
            remedy = {
                name: float(value)
                for name, value in re.findall(r"(\w+)=([\d.e-]+)", omission.remedy)
            }
            again = options | remedy | {"limit": int(remedy.get("limit", limit))}
            assert omission.hit.item.id in ids(kb.context("refund", **again).hits)


def test_every_requested_id_gets_a_reason(refund_kb):
    refund_kb.add(
        [
            node("old", "refund", valid_to=THEN),
            node("elsewhere", "refund", space="t"),
            node("thing", "refund", kind=Kind.ENTITY),
        ]
    )
    requested_ids = ["old", "thing", "lunch", "elsewhere", "nowhere"]
    reasons = {
        omission.hit.item.id: omission.reason
        for omission in refund_kb.explain(
            "refund", spaces=["s"], ids=requested_ids, now=NOW
        ).left_out
        if omission.hit.item.id in requested_ids
    }
    assert "was no longer valid" in reasons["old"]
    kind = "kind '{}' was not requested".format
    no_edge = "no edge leads to it from the hits"
    assert reasons["thing"] == (
        f"entry_points: {kind('entity')}; context: {kind('entity')}; entities: {no_edge}"
    )
    others = "other items match the query better"
    assert reasons["lunch"] == (
        f"entry_points: {others}; context: {no_edge}; entities: {kind('node')}"
    )
    assert reasons["elsewhere"] == "it is in space 't', which was not requested"
    assert reasons["nowhere"] == "no such item is stored"


def test_a_single_id_can_be_a_string(refund_kb):
    explained = refund_kb.explain("refund", spaces=["s"], ids="lunch", now=NOW)
    assert explained.left_out[-1].hit.item.id == "lunch"
