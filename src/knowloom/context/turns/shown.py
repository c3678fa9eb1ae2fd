"""Candidates that were shown before: split from the new ones, passage by passage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from knowloom.context.packing import ItemNeeds, SectionCandidates
from knowloom.model import Chosen, Hit, Key, Passage, Shown, content_version, merge_shown

COVERED = 0.5  # share of a passage that must have been shown, for the passage to count as shown


@dataclass(frozen=True, slots=True)
class SplitCandidates:
    """Candidates that are new to the reader, and those that were shown before, by section."""

    new: list[SectionCandidates]
    shown: list[tuple[str, Hit]]


def index_shown(seen: Iterable[Shown]) -> dict[Key, Shown]:
    """Return the entries by key."""
    return {(entry.space, entry.id): entry for entry in merge_shown(seen)}


def split_candidates(
    sections: Sequence[SectionCandidates], seen: Mapping[Key, Shown]
) -> SplitCandidates:
    """Split off the candidates that were shown before and have not changed since.

    A long item of which other passages matter now is new with these passages.
    """
    new: list[tuple[Hit, ...]] = []
    shown: list[tuple[str, Hit]] = []
    numbers: list[int | None] = []  # of each candidate among the new ones
    count = 0
    for section in sections:
        hits = []
        for hit in section.hits:
            rest = _drop_shown(hit, seen)
            if rest is None:
                shown.append((section.recipe.name, hit))
                numbers.append(None)
            else:
                hits.append(rest)
                numbers.append(count)
                count += 1
        new.append(tuple(hits))
    return SplitCandidates(renumber(sections, new, numbers), shown)


def renumber(
    sections: Sequence[SectionCandidates],
    hits: Sequence[tuple[Hit, ...]],
    numbers: Sequence[int | None],
) -> list[SectionCandidates]:
    """Return sections with other hits; `numbers` are those of the former hits, None if dropped.

    Needs of a dropped hit count as fulfilled: the reader knows it.
    """
    former, result = iter(numbers), []
    for section, remaining in zip(sections, hits, strict=True):
        remain = [next(former) is not None for _ in section.hits]
        needs = compress(section.needs, remain) if section.needs else ()
        renumbered = tuple(tuple(_renumber_needs(entry, numbers)) for entry in needs)
        result.append(replace(section, hits=remaining, needs=renumbered))
    return result


def _renumber_needs(needs: ItemNeeds, numbers: Sequence[int | None]) -> Iterator[tuple[int, ...]]:
    for alternatives in needs:
        remaining = [numbers[number] for number in alternatives]
        if None not in remaining:
            yield tuple(number for number in remaining if number is not None)


def was_shown(block: Chosen, seen: Mapping[Key, Shown]) -> bool:
    """Return True if all text of a block was shown before."""
    entry = _find_entry(block.hit, seen)
    if entry is None or not entry.ranges:
        return entry is not None
    return bool(block.passages) and all(
        _is_covered(passage, entry.ranges) for passage in block.passages
    )


def _find_entry(hit: Hit, seen: Mapping[Key, Shown]) -> Shown | None:
    """Return the entry of a hit that has not changed since it was shown."""
    item = hit.item
    entry = seen.get(item.key) or seen.get(("", item.id))
    if entry is None or (entry.version and entry.version != content_version(item)):
        return None
    return entry


def _drop_shown(hit: Hit, seen: Mapping[Key, Shown]) -> Hit | None:
    """Return the hit without passages that were shown, None if nothing of it is new."""
    entry = _find_entry(hit, seen)
    if entry is None:
        return hit
    if not entry.ranges:
        return None
    passages = [part for part in hit.passages if not _is_covered(part.passage, entry.ranges)]
    return replace(hit, passages=tuple(passages)) if passages else None


def _is_covered(passage: Passage, ranges: Sequence[tuple[int, int]]) -> bool:
    shown = sum(max(0, min(passage.end, end) - max(passage.start, start)) for start, end in ranges)
    return shown >= COVERED * (passage.end - passage.start)
