"""Match names in scripts without spaces (Thai, Chinese, Japanese).

A name may begin at every character, so runs are extended character by character, and only while
some name starts with them. Looking up every run that may be a name would take twenty times the
text, in memory too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from knowloom.linking.name_keys import POSITION_BASE, KeyedText, RunLengths
from knowloom.text.mentions import MAX_UNSPACED_CHARACTERS, begins_unspaced

MIN_NAME_LENGTH = 2  # characters
BATCH_POSITIONS = 200_000  # positions extended together: about 30 MB
RunFilter = Callable[[AbstractSet[str]], set[str]]
Positions = Mapping[str, Sequence[int]]  # by id of the item


def list_prefixes(name: str) -> list[str]:
    """Return the prefixes of a name, itself included; none if it begins in a spaced script."""
    words = name.split(" ") if begins_unspaced(name) else []
    return [" ".join(words[:length]) for length in range(MIN_NAME_LENGTH, len(words) + 1)]


def match_names(
    texts: Mapping[str, KeyedText], positions: Positions, prefixes: RunFilter, names: RunFilter
) -> dict[str, dict[int, RunLengths]]:
    """Return the names that begin at these positions, by word number, shortest first.

    `prefixes` and `names` select from a set of runs the prefixes of names and the names. A
    possessive is also matched without its ending, which then comes last.
    """
    matches: dict[str, dict[int, RunLengths]] = {id: {} for id in positions}
    for frontier in _batches(positions):
        for length in range(MIN_NAME_LENGTH, MAX_UNSPACED_CHARACTERS + 1):
            runs = {id: texts[id].prefixes(starts, length) for id, starts in frontier.items()}
            live = prefixes(_forms(runs.values()))
            complete = names(live) if live else live
            for id, starts in frontier.items() if complete else ():
                _add_matches(matches[id], starts, runs[id], complete, length)
            frontier = {
                id: [start for start, run in zip(starts, runs[id], strict=True) if run in live]
                for id, starts in frontier.items()
            }
            if not any(frontier.values()):
                break
    return matches


def _batches(positions: Positions) -> Iterator[Positions]:
    batch: dict[str, Sequence[int]] = {}
    size = 0
    for id, starts in positions.items():
        batch[id] = starts
        size += len(starts)
        if size >= BATCH_POSITIONS:
            yield batch
            batch, size = {}, 0
    yield batch


def _forms(runs: Iterable[Sequence[str]]) -> set[str]:
    """Return all runs, possessives also without their endings."""
    forms = set().union(*runs) - {""}
    return forms.union([run[:-2] for run in forms if run.endswith("'s")])


def _add_matches(
    matches: dict[int, RunLengths],
    positions: Sequence[int],
    runs: Sequence[str],
    names: AbstractSet[str],
    length: int,
) -> None:
    for position, run in zip(positions, runs, strict=True):
        for form in (run, run[:-2]) if run.endswith("'s") else (run,):
            if form in names:
                matches.setdefault(position // POSITION_BASE, {})[form] = length
