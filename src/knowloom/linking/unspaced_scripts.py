"""Names in scripts without spaces. One may begin at every sign, so they are looked for sign by sign, only as long as some name begins so:
to ask for every run of up to MAX_SIGNS signs took twenty times the text, in memory too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from knowloom.linking.name_keys import AT_MOST, Runs, Text
from knowloom.text.mentions import MAX_SIGNS, begins_with_sign

SHORTEST = 2  # signs of a name
TOGETHER = 200_000  # places that are looked at together: some 30 MB
Known = Callable[
    [AbstractSet[str]], set[str]
]  # which of some runs are names, or beginnings of names
Places = Mapping[str, Sequence[int]]  # of texts


def beginnings(name: str) -> list[str]:
    """What a name begins with, itself included; nothing if its first word is no sign."""
    words = name.split(" ") if begins_with_sign(name) else []
    return [" ".join(words[:length]) for length in range(SHORTEST, len(words) + 1)]


def grown(
    texts: Mapping[str, Text], places: Places, begun: Known, called: Known
) -> dict[str, dict[int, Runs]]:
    """The names that begin at these places, by the number of the word there, shortest first, with their lengths; a possessive also without its
    ending, which comes last."""
    found: dict[str, dict[int, Runs]] = {id: {} for id in places}
    for growing in _portions(places):
        for length in range(SHORTEST, MAX_SIGNS + 1):
            runs = {id: texts[id].beginning(starts, length) for id, starts in growing.items()}
            going_on = begun(_forms(runs.values()))
            names = called(going_on) if going_on else going_on
            for id, starts in growing.items() if names else ():
                _add(found[id], starts, runs[id], names, length)
            growing = {
                id: [place for place, run in zip(starts, runs[id], strict=True) if run in going_on]
                for id, starts in growing.items()
            }
            if not any(growing.values()):
                break
    return found


def _portions(places: Places) -> Iterator[Places]:
    portion: dict[str, Sequence[int]] = {}
    size = 0
    for id, starts in places.items():
        portion[id] = starts
        size += len(starts)
        if size >= TOGETHER:
            yield portion
            portion, size = {}, 0
    yield portion


def _forms(runs: Iterable[Sequence[str]]) -> set[str]:
    """All runs, possessives also without their endings."""
    every = set().union(*runs) - {""}
    return every.union([run[:-2] for run in every if run.endswith("'s")])


def _add(
    found: dict[int, Runs],
    places: Sequence[int],
    runs: Sequence[str],
    names: AbstractSet[str],
    length: int,
) -> None:
    for place, run in zip(places, runs, strict=True):
        for form in (run, run[:-2]) if run.endswith("'s") else (run,):
            if form in names:
                found.setdefault(place // AT_MOST, {})[form] = length
