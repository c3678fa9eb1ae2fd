"""Comparing stores page by page, and merging their change logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from knowloom import codec
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports import GraphStore, Index, ItemStore

PAGE_SIZE = 1000
# The order of a batch's steps, to merge the changes of one batch from two logs.
_STEPS = {"unlink": 0, "delete": 1, "add": 2, "update": 2, "link": 3, "purge": 4}


class Scannable(Protocol):
    """A store whose items can be listed."""

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]: ...


def scan_items(store: Scannable, spaces: Sequence[str]) -> Iterator[Item]:
    after: Key | None = None
    while page := store.find(Filter(tuple(spaces)), PAGE_SIZE, after):
        yield from page
        after = page[-1].key


def scan_edges(store: GraphStore, spaces: Sequence[str]) -> Iterator[Edge]:
    """Yield the explicit edges of the spaces."""
    after: Edge | None = None
    while page := store.edges(spaces, PAGE_SIZE, after, automatic=False):
        yield from page
        after = page[-1]


def scan_changes(store: ItemStore, space: str) -> Iterator[Change]:
    after = 0
    while page := store.changes(space, after, PAGE_SIZE):
        yield from page
        after = page[-1].number


def compare_items(
    primary: Scannable, index: Scannable, spaces: Sequence[str]
) -> tuple[list[Key], dict[Key, Item]]:
    """Return the keys that the stores disagree about, and all items of the primary store."""
    expected = {item.key: item for item in scan_items(primary, spaces)}
    actual = {item.key: item for item in scan_items(index, spaces)}
    keys = {*expected, *actual}
    return sorted(key for key in keys if expected.get(key) != actual.get(key)), expected


def compare_edges(primary: GraphStore, graph: GraphStore, spaces: Sequence[str]) -> list[EdgeKey]:
    """Return the keys of explicit edges that the stores disagree about."""
    expected = {edge.key: codec.edge_to_dict(edge) for edge in scan_edges(primary, spaces)}
    actual = {edge.key: codec.edge_to_dict(edge) for edge in scan_edges(graph, spaces)}
    return sorted(key for key in {*expected, *actual} if expected.get(key) != actual.get(key))


def describe_items(
    role: str, primary: Scannable, index: Scannable, spaces: Sequence[str]
) -> list[str]:
    """Report the items that an index and the primary store disagree about."""
    return [
        f"item {id!r} of space {space!r} differs between the {role} and the items: run reindex"
        for space, id in compare_items(primary, index, spaces)[0]
    ]


def describe_edges(keys: Sequence[EdgeKey]) -> list[str]:
    """Report the edges that the graph and the primary store disagree about."""
    return [
        f"the edge {source!r} -[{type}]-> {target!r} of space {space!r} differs between "
        "the graph and the items: run reindex"
        for (space, source), (_, target), type in keys
    ]


def describe_duplicates(items: Sequence[Item]) -> list[str]:
    """Report the items that are profiles, too."""
    return [
        f"item {item.id!r} of space {item.space!r} is in two stores: run reindex" for item in items
    ]


def merge_logs(first: Sequence[Change], second: Sequence[Change]) -> list[Change]:
    """Merge two logs by time and number the lines anew.

    Lines of both logs with the same time are one batch, ordered by the steps of a batch.
    """
    both = [(change, 0) for change in first] + [(change, 1) for change in second]
    both.sort(key=lambda pair: pair[0].at)
    merged: list[Change] = []
    for _, group in groupby(both, key=lambda pair: pair[0].at):
        batch = list(group)
        if len({log for _, log in batch}) > 1:
            batch.sort(key=lambda pair: _STEPS[pair[0].action])
        merged += [change for change, _ in batch]
    return [replace(change, number=number) for number, change in enumerate(merged, 1)]


def find_size_problems(words: Index, vectors: Index) -> list[str]:
    """Report words and vectors that are of different passages."""
    size, other = words.passage_size(), vectors.passage_size()
    if size == other:
        return []
    sizes = f"the words are of passages of {size} characters, the vectors of {other}"
    return [f"{sizes}: run reindex with passage_size={size} or {other}"]
