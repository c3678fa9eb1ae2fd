"""The update of one space: its counters, and the records and terms that a batch changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowloom import codec
from knowloom.model import AUTOMATIC, Item
from knowloom.stores.sqlite.rows import filter_terms, item_record
from knowloom.text import words as analyser


@dataclass
class SpaceUpdate:
    """The counters of one space and the changes of one batch to it, written at the end."""

    no: int
    next_slot: int
    items: int
    edges: int
    links: int
    length: int
    digest: int
    links_digest: int
    records: dict[int, tuple[object, ...] | None] = field(default_factory=dict)  # None: deleted
    added: dict[int, dict[str, int]] = field(default_factory=dict)  # slot -> term -> count
    removed: dict[int, list[str]] = field(default_factory=dict)  # slot -> terms
    dirty: dict[str, str | None] = field(default_factory=dict)  # id -> `dirty.before`

    def take_slots(self, count: int) -> int:
        """Return the first of so many new slots."""
        self.next_slot += count
        return self.next_slot - count

    def mark(self, id: str, before: str | None) -> None:
        """Mark an item as dirty; the first state other than '' (unchanged) is kept."""
        if self.dirty.get(id, "") == "":
            self.dirty[id] = before

    def count_edge(self, edge: Mapping[str, Any], sign: int) -> None:
        """Add (1) or subtract (-1) an edge in the form of `codec.edge_to_dict`."""
        number = sign * codec.fingerprint(edge)
        if edge.get("origin") == AUTOMATIC:
            self.links, self.links_digest = self.links + sign, self.links_digest + number
        else:
            self.edges, self.digest = self.edges + sign, self.digest + number

    def add_terms(
        self,
        slot: int,
        item: Item,
        passages: Sequence[Mapping[str, int]],
        has_vector: bool,
    ) -> None:
        """Index the term counts of an item's passages, in the slots from its head on."""
        terms = dict.fromkeys(filter_terms(item), 1)
        for place, counts in enumerate(passages, slot):
            length = sum(counts.values())
            self.length += length
            self.added[place] = {**counts, **(terms if place == slot else {})}
            self.records[place] = item_record(item, length, has_vector, place > slot)

    def remove_terms(self, slot: int, before: Item, passage_size: int) -> int:
        """Remove the terms of an item that was cut to this size; return its number of passages."""
        passages = analyser.count_passage_terms(before, passage_size)
        for place, counts in enumerate(passages, slot):
            self.length -= counts.total()
            if self.added.pop(place, None) is None:  # written before this batch
                self.removed[place] = [*counts, *(filter_terms(before) if place == slot else ())]
        return len(passages)
