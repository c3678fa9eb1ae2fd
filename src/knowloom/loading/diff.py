"""Comparing what comes in with what is stored: what is new, what changed, what can be left alone, what points to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from knowloom import codec
from knowloom.model import Edge, Item, Key
from knowloom.ports import Stores
from knowloom.report import Report


def changed_items(
    items: Sequence[Item], now: datetime, stores: Stores
) -> tuple[list[Item], Report]:
    """The items that must be written, with their times. What says the same as before is left alone."""
    stored = {item.key: item for item in stores.items.get([item.key for item in items])}
    written = [
        timed
        for item in items
        if (timed := _timed(item, stored.get(item.key), now)) != stored.get(item.key)
    ]
    updated = sum(item.key in stored for item in written)
    return written, Report(len(written) - updated, updated, len(items) - len(written))


def _timed(item: Item, before: Item | None, now: datetime) -> Item:
    """The item with the times it did not bring along: first seen, last changed."""
    if before is None:
        return replace(item, created_at=item.created_at or now)
    timed = replace(
        item,
        created_at=item.created_at or before.created_at,
        updated_at=item.updated_at or before.updated_at,
    )
    if (
        codec.content_fingerprint(timed) != codec.content_fingerprint(before)
        and item.updated_at is None
    ):
        return replace(timed, updated_at=now)
    return timed


def changed_edges(edges: Sequence[Edge], stores: Stores) -> list[Edge]:
    """The edges that must be written. Compared as they are stored, where 1 and true differ."""
    stored = {
        edge.key: codec.fingerprint(codec.edge_to_dict(edge))
        for edge in stores.graph.get_edges([edge.key for edge in edges])
    }
    return [
        edge
        for edge in edges
        if stored.get(edge.key) != codec.fingerprint(codec.edge_to_dict(edge))
    ]


def dangling(edges: Sequence[Edge], coming: set[Key], stores: Stores) -> dict[int, str]:
    """Why an edge cannot be kept, by its place in the list: each end, and the item that explains it, must exist."""
    asked = [_ends(edge) for edge in edges]
    unknown = list(dict.fromkeys(key for keys in asked for key in keys if key not in coming))
    known = coming | {item.key for item in stores.items.get(unknown)}
    missing = {
        number: next((key for key in keys if key not in known), None)
        for number, keys in enumerate(asked)
    }
    return {
        number: f"there is no item {key[1]!r} in space {key[0]!r}"
        for number, key in missing.items()
        if key is not None
    }


def _ends(edge: Edge) -> list[Key]:
    return [edge.source_key, edge.target_key] + (
        [(edge.space, edge.item_id)] if edge.item_id is not None else []
    )
