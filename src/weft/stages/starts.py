"""Where a walk starts: at the best hits, and before others at those that the question calls by their names."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from weft.ingest.called import titles
from weft.ingest.mentions import asked_about, folded, holds_one
from weft.model import Edge, Hit, Key
from weft.recipes import Walk
from weft.stages.rank import rescored

HOLDING = 0.06  # chosen on the two tuning sets (docs/walk.md)
FIRST_ACCENT, LAST_ACCENT = "\u0300", "\u036f"

Names = dict[
    Key, dict[str, float]
]  # by item: its names that stand in the question, and what each tells, from 0 to 1


def asked_for(text: str, best: Sequence[Hit]) -> Names:
    """The hits whose titles stand in the question. A name tells less the more of the hits have it. Accents do not count: few people
    type them when they ask."""
    question = unaccented(text)
    words = folded(question)
    begun = [
        name
        for hit in best
        for name in map(unaccented, titles(hit.item))
        if name.partition(" ")[0].casefold() in words
    ]
    if not any(
        [holds_one(words, (name,)) for name in begun]
    ):  # as in most requests: to look closely takes five times as long
        return {}
    called = {hit.item.key: list(map(unaccented, titles(hit.item))) for hit in best}
    known = Counter([name for names in called.values() for name in names])
    asked = set(asked_about(question, known))
    found = {
        key: {name: known[name] ** -0.5 for name in names if name in asked}
        for key, names in called.items()
    }
    return {key: names for key, names in found.items() if names}


def shares(best: Sequence[Hit], names: Names, numbers: Walk) -> dict[Key, float]:
    """The share of the worth that starts at each of the best hits, most first."""
    told = {key: max(own.values(), default=0.0) for key, own in names.items()}
    scores = {
        (key := hit.item.key): hit.score + numbers.named * told.get(key, 0.0)
        for hit in best
        if hit.score > 0
    }
    chosen = sorted(scores, key=lambda key: (-scores[key], key[1], key[0]))[: numbers.starts]
    sharp = {
        key: (scores[key] / scores[chosen[0]]) ** numbers.sharpness for key in chosen
    }  # against the best: small scores would all come to nothing
    total = sum(sharp.values())
    return {key: one / total for key, one in sharp.items()}


def by_names(best: Sequence[Hit], held: Mapping[Key, float], linked: float) -> list[Hit]:
    """The hits with the scores they start with: more for those whose texts hold names that the question has (`held`, from 0 to 1), as far as
    items name each other here."""
    return [
        rescored(hit, hit.score + HOLDING * linked * held.get(hit.item.key, 0.0), hit.signals)
        for hit in best
    ]


def by_use(names: Names, links: Mapping[Key, Mapping[Key, tuple[float, Edge]]]) -> Names:
    """The same names, each telling no more than the links by it weigh: a name that many texts hold ("Germany") says little of where to
    start."""
    return {
        key: {
            name: min(told, _heaviest(key, name, links.get(key, {}))) for name, told in own.items()
        }
        for key, own in names.items()
    }


def _heaviest(key: Key, name: str, links: Mapping[Key, tuple[float, Edge]]) -> float:
    """What the links weigh by which others mention an item under this name; 1 if none does."""
    mentions = [
        edge for _, edge in links.values() if edge.type == "mentions" and edge.target_key == key
    ]
    return max(
        (
            edge.weight
            for edge in mentions
            if unaccented(str(edge.properties.get("name", ""))) == name
        ),
        default=1.0,
    )


def unaccented(text: str) -> str:
    """Without the accents that letters of Latin, Greek and Cyrillic script bear; marks of other scripts make other letters, and stay."""
    if text.isascii():
        return text
    bare = "".join(
        [
            sign
            for sign in unicodedata.normalize("NFD", text)
            if not FIRST_ACCENT <= sign <= LAST_ACCENT
        ]
    )
    return unicodedata.normalize("NFC", bare)
