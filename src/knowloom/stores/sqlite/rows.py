"""What the rows of the file say of items and edges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.construction import maker
from knowloom.errors import Corrupt
from knowloom.model import Edge, Item, Kind

T = TypeVar("T", Item, Edge)

FILTER_PREFIX = (
    "\x01"  # begins the words that stand for a type, a tag or a subject; no text contains it
)

RECORD = np.dtype(
    [
        ("live", "u1"),
        ("kind", "u1"),
        ("vector", "u1"),
        ("spare", "u1"),
        ("length", "<u4"),
        ("confidence", "<f8"),
        ("created", "<i8"),
        ("valid_from", "<i8"),
        ("valid_to", "<i8"),
    ]
)
KINDS = tuple(Kind)  # stored by place: append, never reorder
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOREVER = np.iinfo(np.int64).max
_EXPONENT = np.float32(2.0 ** (127 - 15))  # between what the two kinds of floats begin to count at

EDGE_COLUMNS = "space, source, target_space, target, type, weight, body, origin"  # the columns `edge_from_row` wants
BODY_FIELDS = (
    "item_id",
    "properties",
    "target_space",
)  # what an edge may have beside its columns: its body, which has all fields in older files
_NONE: Mapping[str, Any] = {}
_edge = maker(Edge)
_decode = (
    json.JSONDecoder().raw_decode
)  # `loads` looks for blanks around the item, too: it takes two thirds longer


def to_microseconds(time: datetime) -> int:
    span = time - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def item_record(
    item: Item, length: int, has_vector: bool
) -> tuple[int, int, int, int, int, float, int, int, int]:
    """The fixed-size part of an item, in the order of RECORD."""
    return (
        1,
        KINDS.index(item.kind),
        int(has_vector),
        0,
        length,
        0.0 if item.confidence is None else item.confidence,
        to_microseconds(item.created_at) if item.created_at else 0,
        to_microseconds(item.valid_from) if item.valid_from else -FOREVER,
        to_microseconds(item.valid_to) if item.valid_to else FOREVER,
    )


def filter_terms(item: Item) -> list[str]:
    """Words that stand for what users filter on."""
    found = [filter_term("type", item.type)] + [filter_term("tag", tag) for tag in item.tags]
    return found if item.subject is None else [*found, filter_term("subject", item.subject)]


def item_from_body(body: str, space: str) -> Item:
    try:
        row, end = _decode(body)
        if end != len(body):
            raise ValueError(f"more than an item: {body[end : end + 20]!r}")
        row["space"] = space
        return codec.item_from_dict(row)
    except (ValueError, TypeError) as error:
        raise _unreadable("an item", space, error) from error


def locate_damage(
    connection: apsw.Connection, space: str, rows: Iterable[int], error: Exception
) -> Exception:
    """The error with the id of the first of these items that cannot be read. Looked up only now: to read all ids would slow what can be read."""
    for row in rows:
        for id, body in connection.execute(
            "SELECT id, CAST(body AS BLOB) FROM item WHERE row = ?", (row,)
        ):
            try:
                item_from_body(body.decode(), space)
            except (Corrupt, UnicodeDecodeError) as found:
                return _unreadable(f"the item {id!r}", space, found.__cause__ or found)
    return error


def _unreadable(what: str, space: str, why: BaseException) -> Corrupt:
    return Corrupt(
        f"{what} of space {space!r} cannot be read ({why}): restore the file from a backup or an export"
    )


def edge_from_row(names: Mapping[int, str], row: tuple[Any, ...]) -> Edge:
    """An edge from its columns; `names` are the names of the spaces by number."""
    space, source, target_space, target, type, weight, body, origin = row
    if body is None:
        return _edge(
            source,
            target,
            type,
            weight,
            names[space],
            None,
            {},
            "" if target_space == space else names[target_space],
            origin,
        )
    more = json.loads(body)
    return _edge(
        source,
        target,
        type,
        weight,
        names[space],
        more.get("item_id"),
        more.get("properties", {}),
        more.get("target_space", ""),
        origin,
    )


def decode_float16(halves: bytes) -> npt.NDArray[np.float32]:
    """16-bit floats as 32-bit ones, all of them finite. Their bits are put in place, and the exponent then set right by one product, which is exact:
    a sixth of the time that numpy takes for the conversion, and a new question reads a thousand vectors."""
    bits = np.frombuffer(halves, "<i2").astype(np.int32)
    bits <<= 13
    bits &= ~0x70000000  # copies of the sign
    found = bits.view(np.float32)
    found *= _EXPONENT
    return found


def copy_properties(value: Item | Edge) -> Mapping[str, Any]:
    """The properties of an item or an edge, apart from it; one value for all that have none, as most have."""
    return codec.apart(value.properties) if value.properties else _NONE


def with_properties(value: T, properties: Mapping[str, Any]) -> T:
    """An item or an edge as it was read, after somebody who was given it has changed its properties. Values are given to many, as to make
    new ones takes longer than all else: their properties alone can be changed, so these are kept apart and compared every time."""
    return replace(value, properties=codec.apart(properties))


def filter_term(field: str, value: str) -> str:
    return f"{FILTER_PREFIX}{field}={value}"
