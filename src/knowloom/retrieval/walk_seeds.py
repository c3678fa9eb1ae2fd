"""Where a walk starts: at the best hits, and before others at those that the question calls by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from knowloom.model import Edge, Filter, Hit, Item, Key
from knowloom.ports import TextIndex
from knowloom.recipes import Walk
from knowloom.retrieval.query_coverage import MAX_SCANNED, MAX_SCANNED_SYNONYMS
from knowloom.retrieval.ranking import with_score
from knowloom.text.item_names import collect_titles
from knowloom.text.mentions import capitalised_spans, find_query_names, fold_text, may_mention
from knowloom.text.normalisation import strip_accents
from knowloom.text.words import extract_terms, idf

QUERY_NAME_BOOST = 0.06  # chosen on the two tuning sets (docs/walk.md)

QueryNames = dict[
    Key, dict[str, float]
]  # by item: its names that stand in the question, and what each tells, from 0 to 1


def names_in_query(text: str, best: Sequence[Hit]) -> QueryNames:
    """The hits whose titles stand in the question. A name tells less the more of the hits have it. Accents do not count: few people
    type them when they ask."""
    question = strip_accents(text)
    words = fold_text(question)
    begun = [
        name
        for hit in best
        for name in map(strip_accents, collect_titles(hit.item))
        if name.partition(" ")[0].casefold() in words
    ]
    if not any(
        [may_mention(words, (name,)) for name in begun]
    ):  # as in most requests: to look closely takes five times as long
        return {}
    called = {hit.item.key: list(map(strip_accents, collect_titles(hit.item))) for hit in best}
    known = Counter([name for names in called.values() for name in names])
    asked = set(find_query_names(question, known))
    found = {
        key: {name: known[name] ** -0.5 for name in names if name in asked}
        for key, names in called.items()
    }
    return {key: names for key, names in found.items() if names}


def weigh_seeds(best: Sequence[Hit], names: QueryNames, numbers: Walk) -> dict[Key, float]:
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


def boost_by_names(best: Sequence[Hit], held: Mapping[Key, float], linked: float) -> list[Hit]:
    """The hits with the scores they start with: more for those whose texts hold names that the question has (`held`, from 0 to 1), as far as
    items name each other here."""
    return [
        with_score(
            hit, hit.score + QUERY_NAME_BOOST * linked * held.get(hit.item.key, 0.0), hit.signals
        )
        for hit in best
    ]


def discount_common_names(
    names: QueryNames, links: Mapping[Key, Mapping[Key, tuple[float, Edge]]]
) -> QueryNames:
    """The same names, each telling no more than the links by it weigh: a name that many texts hold ("Germany") says little of where to
    start."""
    return {
        key: {
            name: min(told, _heaviest_mention(key, name, links.get(key, {})))
            for name, told in own.items()
        }
        for key, own in names.items()
    }


def _heaviest_mention(key: Key, name: str, links: Mapping[Key, tuple[float, Edge]]) -> float:
    """What the links weigh by which others mention an item under this name; 1 if none does."""
    mentions = [
        edge for _, edge in links.values() if edge.type == "mentions" and edge.target_key == key
    ]
    return max(
        (
            edge.weight
            for edge in mentions
            if strip_accents(str(edge.properties.get("name", ""))) == name
        ),
        default=1.0,
    )


_DROPPED = (
    '."(['  # signs that stand before a word or inside a name; names are compared without them
)
_PARTING = "-\n"


def names_beyond_query(text: str, question: str) -> list[str]:
    """The names that a text holds and the question does not."""
    asked = set(extract_terms(question))
    return [
        name
        for name in capitalised_spans(text[:MAX_SCANNED])
        if not all([asked.issuperset(extract_terms(word)) for word in name.split(" ")])
    ]


def score_shared_names(
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
    asked = set(extract_terms(question))
    parts = dict.fromkeys(
        [
            word
            for name in names
            for word in name.split(" ")
            if not asked.issuperset(extract_terms(word))
        ]
    )
    others = [key for key in pool if key != here]
    found = (
        index.search_text(" ".join(parts), only, 0, also=others).others if parts and others else {}
    )
    most = max(found.values(), default=0.0)
    whole = score_full_names(names, {key: text for key, text in texts.items() if key != here})
    return {key: one / most + whole.get(key, 0.0) for key, one in found.items() if one > 0}


def score_full_names(names: Sequence[str], texts: Mapping[Key, str]) -> dict[Key, float]:
    """How much of these names each text holds, from 0 to 1: half for all of them, half for the rarest one, each against the text that
    holds most. A name counts by how few of the texts hold it: one rare name in common says as much as many usual ones."""
    every: dict[Key, float] = {}
    rarest: dict[Key, float] = {}
    for begun in [f" {name}" for name in names]:
        holding = [key for key, text in texts.items() if begun in text]
        worth = idf(len(texts), len(holding))
        for key in holding:
            every[key] = every.get(key, 0.0) + worth
            rarest[key] = max(rarest.get(key, 0.0), worth)
    most, rare = max(every.values(), default=0.0), max(rarest.values(), default=0.0)
    return {key: (one / most + rarest[key] / rare) / 2 for key, one in every.items()}


def searchable_names(item: Item) -> str:
    """The text in which names are looked for: small letters, one blank before each word."""
    text = f" {item.title} {item.text[:MAX_SCANNED_SYNONYMS]}".lower()
    for sign in _DROPPED:  # a pattern takes five times as long
        text = text.replace(sign, "")
    for sign in _PARTING:
        text = text.replace(sign, " ")
    return text
