"""The state of one space of a memory store: items, term index, counters and dirty items."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from knowloom import codec
from knowloom.model import AUTOMATIC, Edge, Item
from knowloom.text import words

PassageKey = tuple[str, int]  # id of the item, number of the passage


@dataclass
class MemorySpace:
    """One space. `version` changes with each write."""

    items: dict[str, Item] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # item id -> number of passages
    terms: dict[PassageKey, Counter[str]] = field(default_factory=dict)  # of each passage
    postings: dict[str, dict[PassageKey, int]] = field(default_factory=dict)  # by term
    length: int = 0  # terms in all passages
    digest: int = 0
    links_digest: int = 0
    edges: int = 0  # explicit edges
    links: int = 0  # automatic edges
    # id -> the item when its automatic edges were last computed
    dirty: dict[str, Item | None] = field(default_factory=dict)
    frequent_labels: set[str] = field(default_factory=set)
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # id -> labels
    ids_by_label: dict[str, set[str]] = field(default_factory=dict)
    dirty_names: set[str] = field(default_factory=set)
    version: int = 0

    def add(self, item: Item, passage_size: int) -> None:
        self.items[item.id] = item
        self.digest += codec.fingerprint(codec.item_to_dict(item))
        self.index(item, passage_size)

    def remove(self, id: str) -> None:
        self.unindex(id)
        del self.sizes[id]
        self.digest -= codec.fingerprint(codec.item_to_dict(self.items.pop(id)))

    def index(self, item: Item, passage_size: int) -> None:
        """Add the terms of an item to the text index."""
        passages = words.count_passage_terms(item, passage_size)
        self.sizes[item.id] = len(passages)
        for number, counts in enumerate(passages):
            self.terms[item.id, number] = counts
            self.length += counts.total()
            for term, count in counts.items():
                frequency = min(count, words.MAX_TERM_FREQUENCY)
                self.postings.setdefault(term, {})[item.id, number] = frequency

    def unindex(self, id: str) -> None:
        """Remove the terms of an item from the text index."""
        for number in range(self.sizes[id]):
            counts = self.terms.pop((id, number), Counter())
            self.length -= counts.total()
            for term in counts:
                del self.postings[term][id, number]
                if not self.postings[term]:
                    del self.postings[term]

    def count_edge(self, edge: Edge, sign: int) -> None:
        """Add (1) or subtract (-1) an edge in the counters and the digest of its origin."""
        self.version += 1
        number = sign * codec.fingerprint(codec.edge_to_dict(edge))
        if edge.origin == AUTOMATIC:
            self.links_digest += number
            self.links += sign
        else:
            self.digest += number
            self.edges += sign

    def mark(self, id: str, before: Item | None) -> None:
        """Mark an item as dirty; the first state before it is kept."""
        self.version += 1
        self.dirty.setdefault(id, before)

    def set_labels(self, id: str, labels: tuple[str, ...]) -> None:
        """Replace the labels of an item in the name index."""
        for label in self.labels.pop(id, ()):
            self.ids_by_label[label].discard(id)
            if not self.ids_by_label[label]:
                del self.ids_by_label[label]
        if labels:
            self.labels[id] = labels
        for label in labels:
            self.ids_by_label.setdefault(label, set()).add(id)

    def forget_links(self) -> None:
        """Drop the name index and mark every item as dirty."""
        self.dirty = dict.fromkeys(self.items)
        self.labels, self.ids_by_label = {}, {}
        self.frequent_labels, self.dirty_names = set(), set()
        self.version += 1
