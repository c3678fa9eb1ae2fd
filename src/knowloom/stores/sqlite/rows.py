"""Conversion between rows of the database file and items, edges and records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.construction import fast_constructor
from knowloom.errors import Corrupt
from knowloom.model import Edge, Item, Kind
from knowloom.ports import SpaceInfo

T = TypeVar("T", Item, Edge)
Records = npt.NDArray[np.void]

CHUNK = 512  # items in one row of `item_meta` and `sign`: a single add rewrites 20 + 24 KB
SLOT_BITS = 0xFFFFFFFF  # the bits of an item's row that are its slot in the space
FILTER_PREFIX = "\x01"  # of terms for a type, a tag or a subject; no text contains it

RECORD = np.dtype(
    [
        ("live", "u1"),
        ("kind", "u1"),
        ("vector", "u1"),
        ("continuation", "u1"),  # 1: the slot of a passage after the first
        ("length", "<u4"),
        ("confidence", "<f8"),
        ("created", "<i8"),
        ("valid_from", "<i8"),
        ("valid_to", "<i8"),
    ]
)
KINDS = tuple(Kind)  # stored by position: append, never reorder
FOREVER = np.iinfo(np.int64).max
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPONENT_SHIFT = np.float32(2.0 ** (127 - 15))  # difference of the exponent biases

EDGE_COLUMNS = "space, source, target_space, target, type, weight, body, origin"
BODY_FIELDS = ("item_id", "properties", "target_space")  # of an edge, beside its columns
_NO_PROPERTIES: Mapping[str, Any] = {}
_edge = fast_constructor(Edge)
_decode = json.JSONDecoder().raw_decode  # `loads` also skips whitespace: two thirds slower


def to_microseconds(time: datetime) -> int:
    span = time - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def item_record(
    item: Item, length: int, has_vector: bool, is_continuation: bool = False
) -> tuple[int, int, int, int, int, float, int, int, int]:
    """Return the record of a passage of this length, in the order of RECORD."""
    return (
        1,
        KINDS.index(item.kind),
        int(has_vector),
        int(is_continuation),
        length,
        0.0 if item.confidence is None else item.confidence,
        to_microseconds(item.created_at) if item.created_at else 0,
        to_microseconds(item.valid_from) if item.valid_from else -FOREVER,
        to_microseconds(item.valid_to) if item.valid_to else FOREVER,
    )


def read_records(connection: apsw.Connection, space: int, chunk: int) -> Records:
    """Return a writable copy of a chunk's records, zeros if it is not stored."""
    query = "SELECT data FROM item_meta WHERE space = ? AND chunk = ?"
    stored = list(connection.execute(query, (space, chunk)))
    return np.frombuffer(stored[0][0], RECORD).copy() if stored else np.zeros(CHUNK, RECORD)


def write_records(
    connection: apsw.Connection, space: int, chunk: int, version: int, records: Records
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO item_meta VALUES (?, ?, ?, ?)",
        (space, chunk, version, records.tobytes()),
    )


def filter_terms(item: Item) -> list[str]:
    """Return the terms under which an item's type, tags and subject are indexed."""
    terms = [filter_term("type", item.type)] + [filter_term("tag", tag) for tag in item.tags]
    return terms if item.subject is None else [*terms, filter_term("subject", item.subject)]


def filter_term(field: str, value: str) -> str:
    return f"{FILTER_PREFIX}{field}={value}"


def item_from_body(body: str, space: str) -> Item:
    try:
        row, end = _decode(body)
        if end != len(body):
            raise ValueError(f"trailing data: {body[end : end + 20]!r}")
        row["space"] = space
        return codec.item_from_dict(row)
    except (ValueError, TypeError) as error:
        raise _unreadable("an item", space, error) from error


def locate_damage(
    connection: apsw.Connection, space: str, rows: Iterable[int], error: Exception
) -> Exception:
    """Return the error with the id of the first of these items that cannot be read.

    The id is looked up only on failure: reading all ids would slow down every read.
    """
    query = "SELECT id, CAST(body AS BLOB) FROM item WHERE row = ?"
    for row in rows:
        for id, body in connection.execute(query, (row,)):
            try:
                item_from_body(body.decode(), space)
            except (Corrupt, UnicodeDecodeError) as cause:
                return _unreadable(f"the item {id!r}", space, cause.__cause__ or cause)
    return error


def _unreadable(what: str, space: str, cause: BaseException) -> Corrupt:
    return Corrupt(
        f"{what} of space {space!r} cannot be read ({cause}): "
        "restore the file from a backup or an export"
    )


def edge_from_row(names: Mapping[int, str], row: tuple[Any, ...]) -> Edge:
    """Return the edge of a row of EDGE_COLUMNS; `names` maps space numbers to names."""
    space, source, target_space, target, type, weight, body, origin = row
    if body is None:
        other_space = "" if target_space == space else names[target_space]
        return _edge(source, target, type, weight, names[space], None, {}, other_space, origin)
    fields = json.loads(body)
    return _edge(
        source,
        target,
        type,
        weight,
        names[space],
        fields.get("item_id"),
        fields.get("properties", {}),
        fields.get("target_space", ""),
        origin,
    )


def decode_float16(data: bytes) -> npt.NDArray[np.float32]:
    """Convert finite 16-bit floats to 32-bit ones.

    The bits are moved into place and the exponent is corrected by one exact multiplication: a
    sixth of the time of numpy's conversion, and a query reads a thousand vectors.
    """
    bits = np.frombuffer(data, "<i2").astype(np.int32)
    bits <<= 13
    bits &= ~0x70000000  # copies of the sign bit
    numbers = bits.view(np.float32)
    numbers *= _EXPONENT_SHIFT
    return numbers


def copy_properties(value: Item | Edge) -> Mapping[str, Any]:
    """Return a deep copy of the properties; one shared value for the many that have none."""
    return codec.copy_properties(value.properties) if value.properties else _NO_PROPERTIES


def with_properties(value: T, properties: Mapping[str, Any]) -> T:
    """Return a cached item or edge with its original properties, after a caller changed them.

    Cached values are shared between callers, since constructing them dominates a read. Only their
    properties are mutable, so the caches keep a copy of these and compare it on each read.
    """
    return replace(value, properties=codec.copy_properties(properties))


def reserve_room(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return the array with room for `size` items in its last axis.

    It grows by at least an eighth, in whole chunks, so that repeated adds stay cheap.
    """
    room = array.shape[-1]
    if room >= size:
        return array
    new_room = -(-max(size, room + room // 8) // CHUNK) * CHUNK
    padding = np.zeros((*array.shape[:-1], new_room - room), array.dtype)
    return np.concatenate([array, padding], axis=-1)


def read_spaces(connection: apsw.Connection, names: Sequence[str] | None) -> list[SpaceInfo]:
    where = "" if names is None else "WHERE name IN (SELECT value FROM json_each(?))"
    values = () if names is None else (codec.to_json(list(names)),)
    query = "SELECT name, items, edges, digest, links, links_digest FROM space"
    rows = connection.execute(f"{query} {where} ORDER BY name", values)
    return [
        SpaceInfo(name, items, edges, digest.zfill(32), links, links_digest.zfill(32))
        for name, items, edges, digest, links, links_digest in rows
    ]
