"""Compare incoming items and edges with the stored ones: new, changed, unchanged, dangling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from knowloom import codec
from knowloom.errors import Invalid
from knowloom.model import AUTOMATIC, LINES, PLACES, Edge, Item, Key
from knowloom.ports import Stores
from knowloom.report import Report
from knowloom.validation import find_duplicates


def find_changed_items(
    items: Sequence[Item], now: datetime, stores: Stores
) -> tuple[list[Item], Report]:
    """Return the items that must be written, with their times, and the counts of all."""
    stored = {item.key: item for item in stores.items.get([item.key for item in items])}
    changed = []
    for item in items:
        before = stored.get(item.key)
        if (stamped := _with_times(item, before, now)) != before:
            changed.append(stamped)
    updated = sum(item.key in stored for item in changed)
    return changed, Report(len(changed) - updated, updated, len(items) - len(changed))


def _with_times(item: Item, before: Item | None, now: datetime) -> Item:
    """Return the item with the times that it does not have itself: first seen, last changed."""
    if before is None:
        return replace(item, created_at=item.created_at or now)
    stamped = replace(
        item,
        created_at=item.created_at or before.created_at,
        updated_at=item.updated_at or before.updated_at,
    )
    is_changed = _fingerprint_content(stamped) != _fingerprint_content(before)
    if is_changed and item.updated_at is None:
        return replace(stamped, updated_at=now)
    return stamped


def _fingerprint_content(item: Item) -> int:
    """Return the fingerprint without the place in the file: text that moved is not changed."""
    places = (LINES, PLACES)
    if any(name in item.properties for name in places):
        others = {name: value for name, value in item.properties.items() if name not in places}
        item = replace(item, properties=others)
    return codec.content_fingerprint(item)


def find_changed_edges(edges: Sequence[Edge], stores: Stores) -> list[Edge]:
    """Return the edges that must be written, compared as JSON, where 1 and true differ."""
    stored = {
        edge.key: codec.fingerprint(codec.edge_to_dict(edge))
        for edge in stores.graph.get_edges([edge.key for edge in edges])
    }
    return [
        edge
        for edge in edges
        if stored.get(edge.key) != codec.fingerprint(codec.edge_to_dict(edge))
    ]


def find_dangling_edges(
    edges: Sequence[Edge], incoming: set[Key], stores: Stores
) -> dict[int, str]:
    """Return the reason why an edge cannot be stored, by its index.

    Both ends, and the item that explains the edge, must be stored or `incoming`.
    """
    needs = [required_keys(edge) for edge in edges]
    unresolved = list(dict.fromkeys(key for keys in needs for key in keys if key not in incoming))
    missing_keys = set(unresolved) - {item.key for item in stores.items.get(unresolved)}
    missing = {
        index: next((key for key in keys if key in missing_keys), None)
        for index, keys in enumerate(needs)
    }
    return {
        index: f"no item {key[1]!r} in space {key[0]!r}"
        for index, key in missing.items()
        if key is not None
    }


def required_keys(edge: Edge) -> list[Key]:
    """Return the keys of the items that an edge needs."""
    keys = [edge.source_key, edge.target_key]
    return keys if edge.item_id is None else [*keys, (edge.space, edge.item_id)]


def reject_duplicates(items: Sequence[Item], edges: Sequence[Edge]) -> None:
    """Raise Invalid if one write contains an id or an edge twice."""
    if duplicates := find_duplicates(item.key for item in items):
        raise Invalid(f"duplicate ids in one write: {duplicates[:3]}")
    if duplicates := find_duplicates(edge.key for edge in edges):
        raise Invalid(f"duplicate edges in one write: {duplicates[:3]}")


def reject_dangling(edges: Sequence[Edge], incoming: set[Key], stores: Stores) -> None:
    """Raise Invalid for an edge whose ends are neither stored nor `incoming`."""
    for number, reason in find_dangling_edges(edges, incoming, stores).items():
        raise Invalid(f"{_describe(edges[number])}: {reason}")


def reject_automatic(edges: Sequence[Edge]) -> None:
    """Raise Invalid for an automatic edge that is to be deleted."""
    for edge in edges:
        if edge.origin == AUTOMATIC:
            raise Invalid(
                f"{_describe(edge)} is automatic and would come back: to forbid it, add it with "
                "weight 0"
            )


def _describe(edge: Edge) -> str:
    return f"edge {edge.source!r} -[{edge.type}]-> {edge.target!r}"


def drop_explanation(edge: Edge) -> Edge:
    """Return the edge without the item that explains it, whose id becomes a property."""
    return replace(edge, item_id=None, properties={**edge.properties, "piece_id": edge.item_id})
