"""Conversion between rows of the tables and items, edges and records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.construction import fast_constructor
from knowloom.errors import Corrupt
from knowloom.model import Edge, Item, Kind

Numbers = npt.NDArray[np.intp]
Records = npt.NDArray[np.void]

RECORD = np.dtype(
    [
        ("no", "<i4"),
        ("first", "<i4"),  # the slot of the first passage
        ("count", "<i4"),  # passages; 0: there is no such item
        ("version", "<i8"),  # of the space when the item was written
        ("kind", "u1"),
        ("vector", "u1"),
        ("confidence", "<f8"),
        ("created", "<i8"),
        ("valid_from", "<i8"),
        ("valid_to", "<i8"),
    ]
)
KINDS = tuple(Kind)  # stored by position: append, never reorder
FOREVER = np.iinfo(np.int64).max
ATTRIBUTES = ("properties", "source", "subject", "tags", "type")
EDGE_COLUMNS = "space, source, target_space, target, type, weight, body, origin"
EDGE_FIELDS = ("item_id", "properties", "target_space")  # of an edge, in its body
MAX_INDEXED = 256  # bytes of a term or a label; an entry of an index has at most 2,700
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_edge = fast_constructor(Edge)


def to_microseconds(time: datetime) -> int:
    span = time - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def encode_record(
    item: Item, no: int, first: int, count: int, version: int, has_vector: bool
) -> bytes:
    """Return the record of an item in the form of RECORD."""
    values = (
        no,
        first,
        count,
        version,
        KINDS.index(item.kind),
        int(has_vector),
        0.0 if item.confidence is None else item.confidence,
        to_microseconds(item.created_at) if item.created_at else 0,
        to_microseconds(item.valid_from) if item.valid_from else -FOREVER,
        to_microseconds(item.valid_to) if item.valid_to else FOREVER,
    )
    return np.array(values, RECORD).tobytes()


def encode_item(item: Item) -> tuple[str, str]:
    """Return the body and the attributes of an item as JSON."""
    row = codec.item_to_dict(item)
    del row["space"]
    attributes = {name: row.pop(name) for name in ATTRIBUTES if name in row}
    return codec.to_json(row), codec.to_json(attributes)


def decode_item(space: str, id: str, body: str, attributes: str) -> Item:
    try:
        row = {**json.loads(body), **json.loads(attributes), "space": space}
        return codec.item_from_dict(row)
    except (ValueError, TypeError) as error:
        raise Corrupt(
            f"the item {id!r} of space {space!r} cannot be read ({error}): "
            "restore it from a backup or an export"
        ) from error


def item_state(item: Item) -> str:
    """Return an item as JSON, without its space."""
    row = codec.item_to_dict(item)
    del row["space"]
    return codec.to_json(row)


def state_to_item(space: str, state: str) -> Item:
    """Invert `item_state`."""
    return codec.item_from_dict({**json.loads(state), "space": space})


def filter_terms(item: Item) -> list[str]:
    """Return the terms under which an item's type, tags and subject are indexed."""
    terms = [filter_term("type", item.type), *(filter_term("tag", tag) for tag in item.tags)]
    return terms if item.subject is None else [*terms, filter_term("subject", item.subject)]


def filter_term(field: str, value: str) -> str:
    """Return the term of a field; words contain no such character."""
    return f"{field}={value}"


def encode_edge(edge: Edge, row: Mapping[str, Any]) -> tuple[float, str | None, str]:
    """Return the columns of an edge that are not part of its key; `row` is its dictionary."""
    is_plain = edge.item_id is None and not edge.properties and edge.target_space != edge.space
    body = {name: row[name] for name in EDGE_FIELDS if name in row}
    return float(edge.weight), None if is_plain else codec.to_json(body), edge.origin


def decode_edge(names: Mapping[int, str], row: Sequence[Any]) -> Edge:
    """Return the edge of a row of EDGE_COLUMNS; `names` maps space numbers to names."""
    space, source, target_space, target, type, weight, body, origin = row
    item_id, properties = None, {}
    other_space = "" if target_space == space else names[target_space]
    if body is not None:
        fields = json.loads(body)
        item_id, properties = fields.get("item_id"), fields.get("properties", {})
        other_space = fields.get("target_space", "")
    return _edge(
        source, target, type, weight, names[space], item_id, properties, other_space, origin
    )


def edge_key(space: int, source: str, target_space: int, target: str, type: str) -> bytes:
    """Return the hash that identifies an edge."""
    text = codec.to_json([space, source, target_space, target, type])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def shorten(term: str) -> str:
    """Return a term or label for an index, whose entries must not be long."""
    if len(term) * 4 <= MAX_INDEXED or len(data := term.encode()) <= MAX_INDEXED:
        return term
    return f"#{hashlib.blake2b(data, digest_size=32).hexdigest()}"


def ranges(firsts: npt.NDArray[np.integer[Any]], counts: npt.NDArray[np.integer[Any]]) -> Numbers:
    """Return `first`, `first + 1`, … for each first, as many as its count."""
    counts = counts.astype(np.intp)
    starts = np.cumsum(counts) - counts
    numbers: Numbers = np.arange(counts.sum()) + np.repeat(firsts - starts, counts)
    return numbers
