"""Values to JSON and back, and copies of them: the one place that knows how an item or an edge looks outside of Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar, cast

from knowloom.construction import maker
from knowloom.errors import Conflict
from knowloom.model import Change, Edge, Item, Key, Kind

T = TypeVar("T", bound=Item | Edge)

_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")
# Made once: `json.dumps` makes an encoder on every call that wants more than the defaults, a third of the time for a short value.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_in_order = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def item_to_dict(item: Item) -> dict[str, Any]:
    """Every field that differs from its default, as JSON would hold it."""
    row = _changed(item, _ITEM_DEFAULTS)
    for name in _TIMES:
        if name in row:
            row[name] = time_to_text(row[name])
    if "kind" in row:
        row["kind"] = str(row["kind"])
    if "tags" in row:
        row["tags"] = list(row["tags"])
    return row


def item_from_dict(row: Mapping[str, Any]) -> Item:
    """The inverse of `item_to_dict`; the row is trusted (see ingest/check for rows of users)."""
    values = {**_ITEM_DEFAULTS, "properties": {}, **row}
    for name in _TIMES:
        if name in row:
            values[name] = text_to_time(values[name])
    if "kind" in row:
        values["kind"] = Kind(values["kind"])
    if "tags" in row:
        values["tags"] = tuple(values["tags"])
    return _item(*values.values())


def edge_to_dict(edge: Edge) -> dict[str, Any]:
    row = _changed(edge, _EDGE_DEFAULTS)
    if "weight" in row:
        row["weight"] = float(
            row["weight"]
        )  # 2 and 2.0 are the same weight, and stores give back the latter
    return row


def edge_from_dict(row: Mapping[str, Any]) -> Edge:
    return Edge(**row)


def apart(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The same properties, which no change to these can change."""
    return (
        {
            name: deepcopy(value) if isinstance(value, dict | list) else value
            for name, value in properties.items()
        }
        if properties
        else {}
    )


def given(value: T) -> T:
    """The same item or edge, for somebody who may change its properties: nobody else has these."""
    made, fields_of, place = _GIVEN[type(value)]
    values = list(fields_of(value))
    values[place] = apart(values[place])
    return cast(T, made(*values))


def given_change(change: Change) -> Change:
    return change if change.before is None else replace(change, before=given(change.before))


def to_json(value: object) -> str:
    """Compact, stable, and readable in any script."""
    return _compact(value)


def time_to_text(time: datetime) -> str:
    """UTC with a Z, microseconds only when there are any."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def text_to_time(text: str) -> datetime:
    """ISO 8601; a time without a zone is taken as UTC."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is UTC:  # as knowloom writes them
        return time
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def fingerprint(row: Mapping[str, Any]) -> int:
    """A 128-bit number for one row. A set of rows is named by the sum of its numbers, so it can be kept up to date row by row."""
    text = _in_order(row)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())


def content_fingerprint(item: Item) -> int:
    """The number of what an item says, without the times at which it was written."""
    return fingerprint(
        {
            name: value
            for name, value in item_to_dict(item).items()
            if name not in ("created_at", "updated_at")
        }
    )


def version(item: Item | None) -> str:
    """Names the stored state of an item; "" for one that is not there."""
    return "" if item is None else f"{fingerprint(item_to_dict(item)):032x}"[:16]


def check_version(key: Key, expected: str, stored: Item | None) -> None:
    """A Conflict when the stored item is not in the expected state."""
    if version(stored) != expected:
        found = f"has the version {version(stored)!r}" if stored else "does not exist"
        wanted = f"not {expected!r}" if expected else "yet it must be new"
        raise Conflict(f"item {key[1]!r} of space {key[0]!r} {found}, {wanted}", "version_mismatch")


SUM_LIMIT = 2**128  # sums of fingerprints wrap around here


def sum_text(digest: int) -> str:
    """A sum of fingerprints as it is stored and shown."""
    return f"{digest % SUM_LIMIT:032x}"


def _changed(value: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    row = {name: getattr(value, name) for name in defaults}
    return {name: found for name, found in row.items() if found != defaults[name]}


def _default(one: Field[Any]) -> Any:
    if one.default is not MISSING:
        return one.default
    return one.default_factory() if one.default_factory is not MISSING else MISSING


_ITEM_DEFAULTS = {one.name: _default(one) for one in fields(Item)}
_item = maker(Item)
_EDGE_DEFAULTS = {one.name: _default(one) for one in fields(Edge)}
_GIVEN: dict[
    type, tuple[Any, Any, int]
] = {  # how to make one, to read its fields, and the place of its properties among them
    Item: (_item, attrgetter(*_ITEM_DEFAULTS), list(_ITEM_DEFAULTS).index("properties")),
    Edge: (maker(Edge), attrgetter(*_EDGE_DEFAULTS), list(_EDGE_DEFAULTS).index("properties")),
}
