"""Places: the passages of an item, by number, in which a name or an address occurs.

An item with several passages has its places in the name index, one label for each kind of them.
Edges to and from it say which passages they connect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from knowloom import codec
from knowloom.linking.ports import LinkStore
from knowloom.text.mentions import MAX_NAMES_PER_TEXT

SEVERAL_PASSAGES = "l:"  # the id of an item that has several passages
NAME_PLACES = "n:"  # its names; the place of a heading is the passage below it
MENTION_PLACES = "o:"  # the names that its text mentions
SPAN_PLACES = "q:"  # the names in its text that may have no item
ADDRESS_PLACES = "v:"  # its addresses; those of headings have a place
REFERENCE_PLACES = "w:"  # the references it makes

MAX_PAIRS = 16  # pairs of passages of one edge
_WHOLE = -1  # sorts before the passages

Places = Mapping[str, Sequence[int]]
"""Numbers of passages by name, in order; none if the name stands for the item as a whole."""

PassagePairs = list[list[int | None]]
"""Numbers of a passage of the source and one of the target; None for the target as a whole."""


def encode_places(role: str, places: Places) -> str:
    """Return the label for the places of a role."""
    return f"{role}{codec.to_json(places)}"


def decode_places(values: Iterable[str]) -> Places:
    """Return the places in the values of a role: one, or none for an item of one passage."""
    return next((json.loads(value) for value in values), {})


def find_moved(role: str, before: Iterable[str], after: Iterable[str]) -> set[str]:
    """Return the names whose places differ between two lists of labels of an item."""
    old, new = (
        decode_places(label[len(role) :] for label in labels if label.startswith(role))
        for labels in (before, after)
    )
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def drop_own_names(mentions: Places, own_names: AbstractSet[tuple[int, str]]) -> Places:
    """Return the mentions without the headings of the item itself, which are (passage, name)."""
    places: dict[str, Sequence[int]] = {}
    for name, numbers in mentions.items():
        others = [number for number in numbers if (number, name) not in own_names]
        if others and len(places) < MAX_NAMES_PER_TEXT:
            places[name] = others
    return places


def pair_places(
    sources: Places, targets: Places, names: Iterable[str], prefers_headings: bool
) -> PassagePairs:
    """Return the pairs of passages that the names connect, in order, at most MAX_PAIRS.

    The source of a name without a place is the first passage. With `prefers_headings`, a passage
    that points to a heading of the target does not point to the whole target as well.
    """
    pairs = {
        (start, end)
        for name in names
        for start in sources.get(name) or (0,)
        for end in targets.get(name) or (_WHOLE,)
    }
    if prefers_headings:
        specific = {start for start, end in pairs if end != _WHOLE}
        pairs = {(start, end) for start, end in pairs if end != _WHOLE or start not in specific}
    return [[start, None if end == _WHOLE else end] for start, end in sorted(pairs)[:MAX_PAIRS]]


class PlaceReader:
    """The places of the items at both ends of the edges of a page.

    `entries` are the values of the labels of the sources, by role; the labels of a target are read
    only if it has several passages.
    """

    def __init__(
        self,
        store: LinkStore,
        space: str,
        entries: Mapping[str, Mapping[str, Sequence[str]]],
        targets: Sequence[str],
    ) -> None:
        markers = [f"{SEVERAL_PASSAGES}{id}" for id in targets if id not in entries]
        marked = store.label_holders(space, markers, 1)
        self._values: dict[str, Mapping[str, Sequence[str]]] = {
            id: values for id, values in entries.items() if SEVERAL_PASSAGES in values
        }
        long_targets = [id for ids in marked.values() for id in ids]
        for id, labels in store.labels_of(space, long_targets).items():
            self._values[id] = _group_places(labels)
        self._decoded: dict[tuple[str, str], Places] = {}

    def has_several(self, *ids: str) -> bool:
        return any(id in self._values for id in ids)

    def pair(
        self, source: tuple[str, str], target: tuple[str, str], names: Iterable[str]
    ) -> PassagePairs:
        """Return the pairs of passages that the names connect; an end is (id, role of places).

        A link to a part of a page has the address of the page as well.
        """
        is_reference = target[1] == ADDRESS_PLACES
        return pair_places(self._places(*source), self._places(*target), names, is_reference)

    def _places(self, id: str, role: str) -> Places:
        if (id, role) not in self._decoded:
            self._decoded[id, role] = decode_places(self._values.get(id, {}).get(role, ()))
        return self._decoded[id, role]


def _group_places(labels: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of the labels of places, by role."""
    roles = frozenset((NAME_PLACES, SPAN_PLACES, ADDRESS_PLACES))
    return {label[:2]: [label[2:]] for label in labels if label[:2] in roles}
