"""The bound that spares most comparisons of near-duplicates never changes what is found."""

from __future__ import annotations

import random

import pytest

from knowloom.context import repetition
from knowloom.context.repetition import find_repetitions
from knowloom.model import Hit, Item

WORDS = [f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(120)]


def build_hits(seed: int) -> list[Hit]:
    """Return texts of 4 to 260 words, half of them copies in which some words were replaced."""
    chance = random.Random(seed)
    texts: list[list[str]] = []
    for _ in range(150):
        if texts and chance.random() < 0.5:
            words = list(chance.choice(texts))
            for _ in range(chance.randint(0, 4)):
                words[chance.randrange(len(words))] = chance.choice([*WORDS, "not", "7"])
        else:
            words = chance.choices(WORDS, k=chance.choice([4, 9, 20, 60, 260]))
        texts.append(words)
    return [
        Hit(
            Item(
                f"i{number}",
                "s",
                title=chance.choice(["Desk", "Hall"]),
                text=" ".join(words),
                properties=chance.choice([{}, {}, {"floor": 1}]),
            ),
            round(chance.random(), 2),
        )
        for number, words in enumerate(texts)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_on_differing_words_changes_nothing(seed, monkeypatch):
    hits = build_hits(seed)
    found = find_repetitions(hits, "worda desk")
    monkeypatch.setattr(repetition, "MAX_DIFFERENCE", 1e9)
    assert found and found == find_repetitions(hits, "worda desk")


def test_most_pairs_of_different_texts_are_never_compared(monkeypatch):
    compared = []
    monkeypatch.setattr(repetition, "_repeats", lambda *pair: compared.append(pair))
    chance = random.Random(5)
    hits = [
        Hit(Item(f"i{number}", "s", text=" ".join(chance.choices(WORDS[:40], k=60))), 0.5)
        for number in range(200)
    ]
    find_repetitions(hits)
    assert len(compared) < 20
