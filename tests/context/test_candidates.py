"""Candidates that compete for a budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import knowloom
from knowloom import Edge, Hit, Item
from knowloom.context.packing import SectionCandidates
from knowloom.context.pipeline import _drop_surplus
from knowloom.recipes import (
    CHARACTERS_PER_TOKEN,
    DEFAULT_CANDIDATES,
    FIT_BUDGET,
    MIN_CANDIDATES,
    Recipe,
    resolve_limit,
)

FOUND = resolve_limit(
    Recipe("found", limit=FIT_BUDGET, share=0.0), 600
)  # 3,600 characters: room for 36 texts of 100
LED = Recipe("led", "walk", limit=30, share=0.0)


def hits(name: str, count: int, best: float) -> tuple[Hit, ...]:
    """Each worth less than the one before, with texts of 100 characters in all."""
    return tuple(
        Hit(Item(f"{name}{n:02}", "s", title="x" * 10, text="y" * 90), best - n / 1000)
        for n in range(count)
    )


def test_search_hits_are_dropped_where_better_walked_items_fill_the_budget() -> None:
    searched, led = hits("f", 40, 0.5), hits("l", 20, 0.9)
    trimmed, others = _drop_surplus(
        [SectionCandidates(FOUND, searched), SectionCandidates(LED, led)]
    )
    assert trimmed.hits == searched[:16] and others.hits == led


def test_the_best_search_hits_stay_however_many_items_the_walk_reaches() -> None:
    searched, led = hits("f", 40, 0.5), hits("l", 60, 0.9)
    trimmed, others = _drop_surplus(
        [SectionCandidates(FOUND, searched), SectionCandidates(LED, led)]
    )
    assert trimmed.hits == searched[:MIN_CANDIDATES] and others.hits == led


def test_search_hits_that_outrank_walked_items_stay() -> None:
    searched, led = hits("f", 40, 0.9), hits("l", 20, 0.5)
    assert (
        _drop_surplus([SectionCandidates(FOUND, searched), SectionCandidates(LED, led)])[0].hits
        == searched[:36]
    )
    revalued = tuple(
        replace(hit, signals={"walk": 0.95}) if n > 30 else hit for n, hit in enumerate(searched)
    )
    assert _drop_surplus([SectionCandidates(FOUND, revalued), SectionCandidates(LED, led)])[
        0
    ].hits == (
        *revalued[:27],
        *revalued[31:],
    )


def test_requested_limits_shares_and_needs_prevent_dropping() -> None:
    searched, led = (
        SectionCandidates(FOUND, hits("f", 40, 0.5)),
        SectionCandidates(LED, hits("l", 60, 0.9)),
    )
    sure = replace(searched, recipe=replace(FOUND, share=0.5))
    limited = replace(searched, recipe=replace(FOUND, limit=40, room=0))
    needing = replace(led, needs=(((0,),),) * len(led.hits))
    for parts in (
        [searched],
        [searched, SectionCandidates(LED, ())],
        [sure, led],
        [limited, led],
        [searched, needing],
        [],
    ):
        assert _drop_surplus(parts) == parts


def test_parts_that_are_sure_of_a_share_neither_lose_hits_nor_make_others_lose_them() -> None:
    searched, led = (
        SectionCandidates(FOUND, hits("f", 40, 0.5)),
        SectionCandidates(LED, hits("l", 20, 0.9)),
    )
    sure = SectionCandidates(replace(FOUND, name="sure", share=0.5), hits("s", 40, 0.95))
    assert _drop_surplus([sure, searched, led]) == [sure, *_drop_surplus([searched, led])]


def test_an_item_dropped_for_walked_items_is_explained() -> None:
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        filler = " ".join(["harbor"] * 30)
        kb.add(
            [
                Item(
                    f"f{n:02}",
                    "s",
                    text=f"{'refund' if n else 'refund policy deadline'} {filler} {'x ' * n}",
                )
                for n in range(40)
            ]
        )
        assert (
            kb.context("refund policy deadline", spaces=["s"], max_tokens=2000).stats.candidates
            == 40
        )
        kb.add(
            [Item(f"l{n:02}", "s", text=f"quay {filler}") for n in range(20)],
            [Edge("f00", f"l{n:02}", space="s") for n in range(20)],
        )
        context = kb.explain("refund policy deadline", spaces=["s"], max_tokens=2000)
        assert 2000 * CHARACTERS_PER_TOKEN // 250 < context.stats.candidates < 60
        (omission,) = [entry for entry in context.left_out if entry.hit.item.id == "f39"]
        assert "those before it have text enough" in omission.reason


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("budget", [300, 1000, 3000])
def test_an_item_that_is_longer_than_the_budget_does_not_leave_it_unfilled(
    linked: bool, budget: int
) -> None:
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        long = Item(
            "long",
            "s",
            title="policy",
            text="harbor quay " * 9000 if linked else f"refund policy {'harbor quay ' * 9000}",
        )
        few = [
            Item(f"f{n:03}", "s", text=f"refund number {n} {'of the quay ' * 12}")
            for n in range(150)
        ]
        kb.add(
            [Item("top", "s", title="refund policy", text="refund policy"), long, *few],
            [Edge("top", "long", space="s")],
        )
        assert (
            0.97 * budget
            <= kb.context("refund policy", spaces=["s"], max_tokens=budget).tokens
            <= budget
        )


@pytest.mark.parametrize("store", ["memory:", "file.db"])
@pytest.mark.parametrize(
    ("words", "budget"), [(0, 400), (0, 2000), (0, 6000), (12, 2000), (60, 40_000)]
)
def test_a_budget_is_filled_however_short_items_are_and_however_large_it_is(
    tmp_path: Path, store: str, words: int, budget: int
) -> None:
    with knowloom.open(
        store if store == "memory:" else tmp_path / store, embedder=None, links=[]
    ) as kb:
        kb.add(
            [
                Item(
                    f"f{n:03}", "s", text=f"refund number {n}{' of the harbor quay' * (words // 4)}"
                )
                for n in range(650)
            ]
        )
        context = kb.context("refund", spaces=["s"], max_tokens=budget)
        assert 0.97 * budget <= context.tokens <= budget
        assert context.stats.optimality_gap < 0.002


def test_short_items_do_not_raise_an_explicit_limit() -> None:
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add([Item(f"f{n:03}", "s", text=f"refund number {n}") for n in range(650)])
        assert kb.context("refund", spaces=["s"], max_tokens=4000, limit=20).stats.candidates == 20
        assert (
            kb.context("refund", spaces=["s"], max_tokens=None).stats.candidates
            == DEFAULT_CANDIDATES
        )
        assert kb.context("refund", spaces=["s"], max_tokens=0).stats.candidates == MIN_CANDIDATES


def test_candidates_are_limited_and_items_beyond_the_limit_are_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("knowloom.recipes.MAX_CANDIDATES", 120)
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add([Item(f"f{n:03}", "s", text="refund") for n in range(150)])
        context = kb.explain("refund", spaces=["s"], max_tokens=4000, recipe="search")
        assert context.stats.candidates == 120
        assert [entry.reason for entry in context.left_out if entry.hit.item.id == "f130"] == [
            "number 131 of the candidates, the limit is 120"
        ]
