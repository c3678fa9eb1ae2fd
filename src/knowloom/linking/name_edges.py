"""Edges by name for a complete set of items, without a store or an index.

The linker keeps the same edges up to date step by step; tests compare the two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from knowloom.linking.name_finders import NO_NAMES, run_finder
from knowloom.linking.name_keys import KeyedText, blocking_key, readable_passages
from knowloom.linking.name_labels import (
    locate_addresses,
    locate_references,
    locate_spans,
    resolve_names,
)
from knowloom.linking.name_weights import (
    MAX_ADDRESSEES,
    MAX_HEADING_HOLDERS,
    MAX_REFERRERS,
    MAX_SHARING,
    MAX_TEXTS_PER_KEY,
    MENTIONS,
    REFERS_TO,
    SHARES,
    is_linkable,
    mention_weight,
    shared_name_weight,
)
from knowloom.linking.places import Places, drop_own_names, pair_places
from knowloom.model import Edge, Item, Passage
from knowloom.ports import NameFinder
from knowloom.text.item_names import list_own_names
from knowloom.text.mentions import MAX_NAMES_PER_TEXT, find_names
from knowloom.text.passages import PASSAGE_SIZE, locate_headings, split_passages


class _Source(NamedTuple):
    """An item, its passages if it has several, and the places of all that edges are made by."""

    item: Item
    passages: Sequence[Passage]
    names: Places  # without headings
    headings: Places
    spans: Places
    addresses: Places
    references: Mapping[tuple[str, str], Sequence[int]]


class _Link(NamedTuple):
    """A proposed edge, and the passages that it connects."""

    source: _Source
    target: _Source
    type: str
    weight: float
    name: str
    sources: Places
    targets: Places


def build_name_edges(
    items: Iterable[Item], finder: NameFinder | None = None, passage_size: int = PASSAGE_SIZE
) -> list[Edge]:
    """Return all edges by name inside each space, ordered by key.

    Between two items there is at most one edge of each type. `finder` finds more names in texts.
    """
    spaces: dict[str, list[_Source]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.id):
        spaces[item.space].append(_read_item(item, finder, passage_size))
    edges = {edge.key: edge for space in sorted(spaces) for edge in _edges_of_space(spaces[space])}
    return [edges[key] for key in sorted(edges)]


def _read_item(item: Item, finder: NameFinder | None, passage_size: int) -> _Source:
    finder_names = NO_NAMES if finder is None else run_finder(finder, item.text)
    passages = split_passages(item.text, passage_size)
    several = passages if len(passages) > 1 else ()
    names, headings = resolve_names(item, finder_names, several)
    return _Source(
        item,
        several,
        dict.fromkeys(names, ()),
        headings,
        locate_spans(item, finder_names, several),
        locate_addresses(item, several),
        locate_references(item, several),
    )


def _edges_of_space(sources: Sequence[_Source]) -> Iterator[Edge]:
    names = {name for source in sources for name in (*source.names, *source.headings)}
    links: dict[tuple[str, str, str], list[_Link]] = defaultdict(list)
    for link in (
        *_mention_links(sources, names),
        *_share_links(sources, names),
        *_reference_links(sources),
    ):
        if link.source is not link.target:
            links[link.source.item.id, link.target.item.id, link.type].append(link)
    for proposed in links.values():
        best = min(proposed, key=lambda link: (-link.weight, link.name))
        source, target = best.source, best.target
        properties: dict[str, object] = {"name": best.name}
        if (source.passages or target.passages) and best.type in (MENTIONS, REFERS_TO, SHARES):
            linked_names = [link.name for link in proposed]
            properties["passages"] = pair_places(
                best.sources, best.targets, linked_names, best.type == REFERS_TO
            )
        yield Edge(
            source.item.id,
            target.item.id,
            best.type,
            best.weight,
            source.item.space,
            properties=properties,
        )


def _mention_links(sources: Sequence[_Source], names: Iterable[str]) -> Iterator[_Link]:
    keys = Counter(
        key for source in sources for key in KeyedText(source.item.text, source.passages).keys
    )
    searched = {name for name in names if keys[blocking_key(name)] <= MAX_TEXTS_PER_KEY}
    mentions = {source.item.id: _find_mentions(source, searched) for source in sources}
    texts = Counter(name for places in mentions.values() for name in places)
    titles, headings = _group(sources, "names"), _group(sources, "headings")
    for source in sources:
        places = mentions[source.item.id]
        for name in places:
            recurs = len(headings[name]) > MAX_HEADING_HOLDERS
            targets = [*titles[name], *(() if recurs else headings[name])]
            if is_linkable(len(targets), texts[name]):
                for target in targets:
                    weight = mention_weight(len(targets), texts[name])
                    yield _Link(source, target, MENTIONS, weight, name, places, target.headings)


def _find_mentions(source: _Source, names: AbstractSet[str]) -> Places:
    if not source.passages:
        return dict.fromkeys(find_names(source.item.text, names)[:MAX_NAMES_PER_TEXT], ())
    places: dict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(readable_passages(source.item.text, source.passages)):
        for name in find_names(text, names):
            places[name].append(number)
    headings = locate_headings(source.item.text, source.passages)
    return drop_own_names(places, list_own_names(headings))


def _share_links(sources: Sequence[_Source], names: AbstractSet[str]) -> Iterator[_Link]:
    for name, texts in _group(sources, "spans").items():
        if name not in names and 2 <= len(texts) <= MAX_SHARING:
            for number, source in enumerate(texts):
                for target in texts[number + 1 :]:
                    weight = shared_name_weight(len(texts))
                    yield _Link(source, target, SHARES, weight, name, source.spans, target.spans)


def _reference_links(sources: Sequence[_Source]) -> Iterator[_Link]:
    by_address = _group(sources, "addresses")
    referrers = Counter(reference for source in sources for reference in source.references)
    for source in sources:
        # Foreign keys have no place, and may have the address of a link.
        references = source.references.items()
        places = {address: numbers for (_, address), numbers in references if numbers}
        for type, address in source.references:
            if referrers[type, address] <= MAX_REFERRERS:
                for target in by_address[address][:MAX_ADDRESSEES]:
                    yield _Link(source, target, type, 1.0, address, places, target.addresses)


def _group(sources: Sequence[_Source], field: str) -> dict[str, list[_Source]]:
    """Return the items by the names or addresses in one of their fields."""
    holders: dict[str, list[_Source]] = defaultdict(list)
    for source in sources:
        for name in getattr(source, field):
            holders[name].append(source)
    return holders
