"""Which hits hold what another hit names: often the next piece of an answer, though no stored link leads there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ingest.mentions import spans
from weft.model import Filter, Item, Key
from weft.ports import TextIndex
from weft.stages.sight import BEGINNING, LONGEST
from weft.words import rarity, words

_DROPPED = (
    '."(['  # signs that stand before a word or inside a name; names are compared without them
)
_PARTING = "-\n"


def unasked(text: str, question: str) -> list[str]:
    """The names that a text holds and the question does not."""
    asked = set(words(question))
    return [
        name
        for name in spans(text[:LONGEST])
        if not all([asked.issuperset(words(word)) for word in name.split(" ")])
    ]


def held(
    here: Key,
    names: Sequence[str],
    question: str,
    pool: Sequence[Key],
    texts: Mapping[Key, str],
    index: TextIndex,
    only: Filter,
) -> dict[Key, float]:
    """How much of these names, which an item holds, each other one of the pool holds, from 0 to 2: words of the names that the question
    has not, as the index weighs them, and whole names, as far as texts (by `plain`) are known."""
    asked = set(words(question))
    parts = dict.fromkeys(
        [word for name in names for word in name.split(" ") if not asked.issuperset(words(word))]
    )
    others = [key for key in pool if key != here]
    found = (
        index.search_text(" ".join(parts), only, 0, also=others).others if parts and others else {}
    )
    most = max(found.values(), default=0.0)
    whole = whole_names(names, {key: text for key, text in texts.items() if key != here})
    return {key: one / most + whole.get(key, 0.0) for key, one in found.items() if one > 0}


def whole_names(names: Sequence[str], texts: Mapping[Key, str]) -> dict[Key, float]:
    """How much of these names each text holds, from 0 to 1: half for all of them, half for the rarest one, each against the text that
    holds most. A name counts by how few of the texts hold it: one rare name in common says as much as many usual ones."""
    every: dict[Key, float] = {}
    rarest: dict[Key, float] = {}
    for begun in [f" {name}" for name in names]:
        holding = [key for key, text in texts.items() if begun in text]
        worth = rarity(len(texts), len(holding))
        for key in holding:
            every[key] = every.get(key, 0.0) + worth
            rarest[key] = max(rarest.get(key, 0.0), worth)
    most, rare = max(every.values(), default=0.0), max(rarest.values(), default=0.0)
    return {key: (one / most + rarest[key] / rare) / 2 for key, one in every.items()}


def plain(item: Item) -> str:
    """The text in which names are looked for: small letters, one blank before each word."""
    text = f" {item.title} {item.text[:BEGINNING]}".lower()
    for sign in _DROPPED:  # a pattern takes five times as long
        text = text.replace(sign, "")
    for sign in _PARTING:
        text = text.replace(sign, " ")
    return text
