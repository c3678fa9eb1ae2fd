"""Copying the current state of a space: passage size, items, explicit edges and vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

import numpy as np

from knowloom.commit import LOCAL
from knowloom.errors import Conflict
from knowloom.linking.rules import find_dirty_items
from knowloom.model import Edge, EdgeKey, Filter, Item, Key, Kind
from knowloom.ports import Batch, Stores, Vector

PAGE = 500  # items or edges

Write = Callable[[datetime], Batch]


def fit_passage_size(source: Stores, target: Stores) -> None:
    """Give an empty target the passage size of the source; it must be that of any other."""
    size, stored = source.words.passage_size(), target.words.passage_size()
    if size == stored:
        return
    if any(info.items for info in target.items.spaces()):
        raise Conflict(
            f"the target has passages of {stored} characters, the source of {size}: run reindex "
            f"with passage_size={size} there, or copy to an empty store",
            "reindex_required",
        )
    for index in {id(index): index for index in (target.words, target.vectors)}.values():
        index.resegment(size)


def scan_items(stores: Stores, space: str) -> Iterator[list[Item]]:
    """Yield the items of a space in pages, ordered by id."""
    after: Key | None = None
    while page := stores.items.find(Filter((space,)), PAGE, after):
        yield page
        after = page[-1].key


def scan_edges(stores: Stores, space: str) -> Iterator[list[Edge]]:
    """Yield the explicit edges of a space in pages, ordered by key."""
    after: Edge | None = None
    while page := stores.graph.edges([space], PAGE, after, automatic=False):
        yield page
        after = page[-1]


def item_batches(source: Stores, target: Stores, space: str) -> Iterator[Write]:
    """Yield the writes that give the target the items of the source, and no others.

    A space that also has items from elsewhere, as that of the origins, keeps those.
    """
    for page in scan_items(source, space):
        stored = {item.key: item for item in target.items.get([item.key for item in page])}
        changed = tuple(item for item in page if stored.get(item.key) != item)
        if changed:
            yield partial(_put_items, changed)
    if space.startswith("knowloom:"):
        return
    for page in scan_items(target, space):
        present = {item.key for item in source.items.get([item.key for item in page])}
        if surplus := tuple(item.key for item in page if item.key not in present):
            yield partial(_delete_items, surplus)


def _put_items(items: Sequence[Item], at: datetime) -> Batch:
    return Batch(at, tuple(items), actor=LOCAL)


def _delete_items(keys: Sequence[Key], at: datetime) -> Batch:
    return Batch(at, deleted=tuple(keys), actor=LOCAL)


def edge_batches(source: Stores, target: Stores, space: str) -> Iterator[Write]:
    """Yield the writes that give the target the explicit edges of the source, and no others."""
    for page in scan_edges(source, space):
        stored = {edge.key: edge for edge in target.graph.get_edges([edge.key for edge in page])}
        if changed := tuple(edge for edge in page if stored.get(edge.key) != edge):
            yield partial(_put_edges, changed)
    for page in scan_edges(target, space):
        edges = source.graph.get_edges([edge.key for edge in page])
        present = {edge.key for edge in edges if not edge.origin}
        if surplus := tuple(edge.key for edge in page if edge.key not in present):
            yield partial(_delete_edges, surplus)


def _put_edges(edges: Sequence[Edge], at: datetime) -> Batch:
    marked = tuple(find_dirty_items([edge.key for edge in edges]))
    return Batch(at, edges=tuple(edges), marked=marked, actor=LOCAL)


def _delete_edges(keys: Sequence[EdgeKey], at: datetime) -> Batch:
    marked = tuple(find_dirty_items(keys))
    return Batch(at, deleted_edges=tuple(keys), marked=marked, actor=LOCAL)


def copy_vectors(source: Stores, target: Stores, space: str) -> Iterator[tuple[int, bool]]:
    """Copy vectors with their calibration; yield the size of each page, and if it was written."""
    fingerprint = source.vectors.fingerprint()
    if not fingerprint:
        return
    calibration = source.vectors.calibration(fingerprint)
    if calibration and not target.vectors.calibration(fingerprint):
        target.vectors.put_calibration(fingerprint, calibration)
    unindexed = {Kind.PROFILE} if getattr(target.items, "splits_profiles", False) else set()
    for page in scan_items(source, space):
        keys = [item.key for item in page if item.kind not in unindexed]
        stored = target.vectors.get_vectors(keys)
        vectors = {
            key: vector
            for key, vector in source.vectors.get_vectors(keys).items()
            if not _is_same(stored.get(key), vector)
        }
        if vectors:
            target.vectors.put_vectors(vectors, fingerprint)
        yield len(page), bool(vectors)


def _is_same(stored: Vector | None, vector: Vector) -> bool:
    """Compare as stores do that keep 16 bits of each number."""
    if stored is None:
        return False
    return np.array_equal(stored.astype(np.float16), vector.astype(np.float16))
