"""Edges by name for a complete set of items, without a store or an index.

The linker keeps the same edges up to date step by step; tests compare the two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from knowloom.linking.name_finders import NO_NAMES, FinderNames, run_finder
from knowloom.linking.name_keys import KeyedText, blocking_key
from knowloom.linking.name_labels import (
    extract_addresses,
    extract_references,
    extract_spans,
    resolve_names,
)
from knowloom.linking.name_weights import (
    MAX_ADDRESSEES,
    MAX_REFERRERS,
    MAX_SHARING,
    MAX_TEXTS_PER_KEY,
    MENTIONS,
    SHARES,
    is_linkable,
    mention_weight,
    shared_name_weight,
)
from knowloom.model import Edge, Item
from knowloom.ports import NameFinder
from knowloom.text.mentions import MAX_NAMES_PER_TEXT, find_names

ItemsByName = Mapping[str, Sequence[Item]]


def build_name_edges(items: Iterable[Item], finder: NameFinder | None = None) -> list[Edge]:
    """Return all edges by name inside each space, ordered by key.

    Between two items there is at most one edge of each type. `finder` finds more names in texts.
    """
    spaces: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        spaces[item.space].append(item)
    edges = {
        edge.key: edge
        for space in sorted(spaces)
        for edge in _edges_of_space(sorted(spaces[space], key=lambda item: item.id), finder)
    }
    return [edges[key] for key in sorted(edges)]


def _edges_of_space(items: Sequence[Item], finder: NameFinder | None) -> Iterator[Edge]:
    finder_names = {
        item.id: NO_NAMES if finder is None else run_finder(finder, item.text) for item in items
    }
    holders: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for name in resolve_names(item, finder_names[item.id]):
            holders[name].append(item)
    yield from _mention_edges(items, holders)
    yield from _share_edges(items, holders, finder_names)
    yield from _reference_edges(items)


def _mention_edges(items: Sequence[Item], holders: ItemsByName) -> Iterator[Edge]:
    texts: dict[str, list[Item]] = defaultdict(list)
    key_counts = Counter(key for item in items for key in KeyedText(item.text).keys)
    names = {name for name in holders if key_counts[blocking_key(name)] <= MAX_TEXTS_PER_KEY}
    for item in items:
        for name in find_names(item.text, names)[:MAX_NAMES_PER_TEXT]:
            texts[name].append(item)
    best: dict[tuple[str, str], Edge] = {}
    for name in sorted(texts):
        counts = len(holders[name]), len(texts[name])
        if not is_linkable(*counts):
            continue
        for source in texts[name]:
            for target in holders[name]:
                if source.id != target.id:
                    _keep_heaviest(best, source, target, MENTIONS, mention_weight(*counts), name)
    yield from best.values()


def _share_edges(
    items: Sequence[Item], holders: ItemsByName, finder_names: Mapping[str, FinderNames]
) -> Iterator[Edge]:
    texts: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for name in extract_spans(item, finder_names[item.id]):
            texts[name].append(item)
    best: dict[tuple[str, str], Edge] = {}
    for name in sorted(texts):
        count = len(texts[name])
        if name in holders or not 2 <= count <= MAX_SHARING:
            continue
        for number, source in enumerate(texts[name]):
            for target in texts[name][number + 1 :]:
                _keep_heaviest(best, source, target, SHARES, shared_name_weight(count), name)
    yield from best.values()


def _keep_heaviest(
    best: dict[tuple[str, str], Edge],
    source: Item,
    target: Item,
    type: str,
    weight: float,
    name: str,
) -> None:
    other = best.get((source.id, target.id))
    if other is None or other.weight < weight:
        properties = {"name": name}
        best[source.id, target.id] = Edge(
            source.id, target.id, type, weight, source.space, properties=properties
        )


def _reference_edges(items: Sequence[Item]) -> Iterator[Edge]:
    by_address: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for address in extract_addresses(item):
            by_address[address].append(item)
    referrers = Counter(reference for item in items for reference in extract_references(item))
    for source in items:
        # Reversed, as the last edge of a key counts: that of the first address of a target.
        for type, address in sorted(extract_references(source), reverse=True):
            if address not in by_address or referrers[type, address] > MAX_REFERRERS:
                continue
            for target in by_address[address][:MAX_ADDRESSEES]:
                if target.id != source.id:
                    properties = {"name": address}
                    yield Edge(source.id, target.id, type, 1.0, source.space, properties=properties)
