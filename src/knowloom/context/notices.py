"""Notices: why an answer is empty or doubtful, and which requested types do not exist."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from knowloom.context.packing import SectionCandidates
from knowloom.model import Filter, Hit, Problem, Query
from knowloom.ports import ItemStore, Stores
from knowloom.retrieval.sources import SourceResult, recipe_filter

SAMPLE = 1000  # items read for the list of types
LISTED_TYPES = 20


def doubt(confidence: float | None, floor: float, minimum: float, part: str) -> list[Problem]:
    """Return the notice of an answer whose evidence is probably not stored.

    `minimum` is the confidence that the request asks for: below it nothing is returned. An answer
    without any match, of confidence 0, has a notice of its own.
    """
    if confidence is None or confidence >= max(floor, minimum) or confidence == minimum == 0:
        return []
    shown = math.floor(confidence * 100) / 100  # a value below a minimum of 1 is not shown as 1
    reason = f"confidence {shown:.2f}: the evidence is probably not stored"
    if confidence < minimum:
        reason += f"; nothing is returned below min_answer_confidence {minimum:g}"
    return [Problem(part, reason, "low_confidence")]


def missing_types(
    part: str, types: Sequence[str], hits: Sequence[Hit], spaces: Sequence[str], stores: Stores
) -> Iterator[Problem]:
    """Yield a notice for each requested type that no item of the spaces has."""
    if not types or not spaces:
        return
    present = {hit.item.type for hit in hits}
    unknown = [
        type
        for type in types
        if type not in present and not stores.items.find(Filter(tuple(spaces), types=(type,)), 1)
    ]
    if not unknown:
        return
    existing = list_types(spaces, stores.items)
    for type in unknown:
        similar = get_close_matches(type.lower(), [name.lower() for name in existing], 1)
        meant = [name for name in existing if name.lower() in similar][:1]
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        reason = f"no item has the type {type!r}; types: {describe_types(existing)}{hint}"
        yield Problem(part, reason, "unknown_type")


def list_types(spaces: Sequence[str], items: ItemStore) -> list[str]:
    """Return the types of the first items of each space, sorted; "" is no type."""
    return sorted(
        {
            item.type
            for space in spaces
            for item in items.find(Filter((space,)), max(1, SAMPLE // len(spaces)))
        }
    )


def describe_types(types: Iterable[str]) -> str:
    names = [type or '"" (none)' for type in types]
    more = f" and {len(names) - LISTED_TYPES} more" if len(names) > LISTED_TYPES else ""
    return (", ".join(names[:LISTED_TYPES]) or "none, nothing is stored") + more


def explain_emptiness(
    part: str, only: Filter, matched: int, best: float, min_score: float, stores: Stores
) -> Problem:
    """Return the notice of a search without hits.

    `matched` items had a score above 0, the best of them `best`; 0 is unknown.
    """
    if matched:
        reason = f"min_score {min_score:g} left out {matched}"
        reason += f"; the best scores {best:g}" if best else ""
        reason += "; try a lower one"
    elif not only.spaces:
        reason = "no space was requested; try one that exists"
    elif not stores.items.find(Filter(only.spaces), 1):
        reason = f"nothing is stored in {', '.join(only.spaces)}; load or add something first"
    elif not stores.items.find(only, 1):
        types = describe_types(list_types(only.spaces, stores.items))
        reason = f"no item passes the filters; try fewer; types: {types}"
    else:
        reason = "no item matches the query; try other words, or words of the texts"
    return Problem(part, reason, "no_results")


def section_notices(
    query: Query,
    sections: Sequence[SectionCandidates],
    results: Sequence[SourceResult],
    stores: Stores,
) -> Iterator[Problem]:
    """Yield notices on types that do not exist, and on searches that found nothing.

    If another search found something, only those are reported that `min_score` emptied.
    """
    searches = [
        (section, result)
        for section, result in zip(sections, results, strict=True)
        if section.recipe.source == "search"
    ]
    for section, result in searches:
        recipe = section.recipe
        yield from missing_types(recipe.name, recipe.types, result.hits, query.spaces, stores)
    is_empty = not any(section.hits for section in sections)
    for section, result in searches:
        recipe, best = section.recipe, result.best_score
        is_weighted = bool(result.hits)
        excluded = len(result.hits) if is_weighted else result.matched * (best < recipe.min_score)
        if not section.hits and (excluded or is_empty) and query.text.strip():
            only, shown = recipe_filter(query, recipe), 0.0 if is_weighted else best
            yield explain_emptiness(recipe.name, only, excluded, shown, recipe.min_score, stores)
