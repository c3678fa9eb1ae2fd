"""Items and edges as JSON and back, their copies, fingerprints and versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar, cast

from knowloom.construction import fast_constructor
from knowloom.errors import Conflict
from knowloom.model import Change, Edge, Item, Key, Kind

T = TypeVar("T", bound=Item | Edge)

DIGEST_LIMIT = 2**128  # sums of fingerprints wrap around here
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")
# `json.dumps` constructs an encoder per call for any other than its defaults: a third of the time
# of a short value.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_sorted = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def item_to_dict(item: Item) -> dict[str, Any]:
    """Return every field that differs from its default, as JSON values."""
    row = _without_defaults(item, _ITEM_DEFAULTS)
    for name in _TIMES:
        if name in row:
            row[name] = time_to_text(row[name])
    if "kind" in row:
        row["kind"] = str(row["kind"])
    if "tags" in row:
        row["tags"] = list(row["tags"])
    return row


def item_to_row(item: Item) -> dict[str, Any]:
    """Return the row of an item in exports and responses: id, space and kind come first."""
    row = item_to_dict(item)
    id = int(item.id) if row.pop("numbered", False) else row["id"]
    first = {"id": id, "space": row["space"], "kind": item.kind.value}
    return first | {name: value for name, value in row.items() if name not in first}


def item_from_dict(row: Mapping[str, Any]) -> Item:
    """Invert `item_to_dict`; the row is trusted (`validation` has rows of users)."""
    values = {**_ITEM_DEFAULTS, "properties": {}, **row}
    for name in _TIMES:
        if name in row:
            values[name] = text_to_time(values[name])
    if "kind" in row:
        values["kind"] = Kind(values["kind"])
    if "tags" in row:
        values["tags"] = tuple(values["tags"])
    return _new_item(*values.values())


def edge_to_dict(edge: Edge) -> dict[str, Any]:
    """Return every field that differs from its default."""
    row = _without_defaults(edge, _EDGE_DEFAULTS)
    if "weight" in row:
        row["weight"] = float(row["weight"])  # 1 and 1.0 are the same weight; stores return 1.0
    return row


def edge_from_dict(row: Mapping[str, Any]) -> Edge:
    """Invert `edge_to_dict`."""
    return Edge(**row)


def copy_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy."""
    return {
        name: deepcopy(value) if isinstance(value, dict | list) else value
        for name, value in properties.items()
    }


def copy_value(value: T) -> T:
    """Return an equal item or edge whose properties the caller may change."""
    construct, field_values, index = _COPYING[type(value)]
    values = list(field_values(value))
    values[index] = copy_properties(values[index])
    return cast(T, construct(*values))


def copy_change(change: Change) -> Change:
    """Return an equal change whose item or edge the caller may change."""
    return change if change.before is None else replace(change, before=copy_value(change.before))


def to_json(value: object) -> str:
    """Return compact JSON, with non-ASCII characters as they are."""
    return _encode(value)


def time_to_text(time: datetime) -> str:
    """Return ISO 8601 in UTC with a Z, with microseconds only if there are any."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def text_to_time(text: str) -> datetime:
    """Parse ISO 8601; a time without a zone is UTC."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is UTC:  # as `time_to_text` writes them
        return time
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def fingerprint(row: Mapping[str, Any]) -> int:
    """Return a 128-bit hash of a row.

    The digest of a set of rows is the sum of their fingerprints, so it can be updated row by row.
    """
    text = _encode_sorted(row)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())


def content_fingerprint(item: Item) -> int:
    """Return the fingerprint of an item without the times of its writes."""
    row = item_to_dict(item)
    row.pop("created_at", None)
    row.pop("updated_at", None)
    return fingerprint(row)


def version(item: Item | None) -> str:
    """Return the version of the stored state of an item; "" for a missing one."""
    return "" if item is None else f"{fingerprint(item_to_dict(item)):032x}"[:16]


def check_version(key: Key, expected: str, stored: Item | None) -> None:
    """Raise Conflict if the stored item does not have the expected version."""
    actual = version(stored)
    if actual != expected:
        state = f"has version {actual!r}" if stored else "does not exist"
        rule = f"expected {expected!r}" if expected else "but must be new"
        raise Conflict(f"item {key[1]!r} in space {key[0]!r} {state}, {rule}", "version_mismatch")


def format_digest(digest: int) -> str:
    """Return a sum of fingerprints as it is stored and shown."""
    return f"{digest % DIGEST_LIMIT:032x}"


def _without_defaults(value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    row = {name: getattr(value, name) for name in defaults}
    return {name: item for name, item in row.items() if item != defaults[name]}


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING


# The space of an item is always written, "" too.
_ITEM_DEFAULTS = {field.name: _default(field) for field in fields(Item)} | {"space": MISSING}
_EDGE_DEFAULTS = {field.name: _default(field) for field in fields(Edge)}
_new_item, _new_edge = fast_constructor(Item), fast_constructor(Edge)
_COPYING: dict[type, tuple[Any, Any, int]] = {  # constructor, fields, index of the properties
    Item: (_new_item, attrgetter(*_ITEM_DEFAULTS), list(_ITEM_DEFAULTS).index("properties")),
    Edge: (_new_edge, attrgetter(*_EDGE_DEFAULTS), list(_EDGE_DEFAULTS).index("properties")),
}
