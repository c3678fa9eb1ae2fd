"""The door: turns what users give into items and edges that every store can keep, or says what is wrong with it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, TypeGuard

import numpy as np

from knowloom import codec
from knowloom.errors import Invalid, unknown_name
from knowloom.model import Edge, EdgeKey, Item, Kind
from knowloom.ports import Vector

PROVENANCE_SPACE = "knowloom:loaded"  # the space in which knowloom remembers where items came from (ledger.py); nobody else reads or writes it
MAX_NAME = 500  # characters of an id, a space, a type, a tag, a subject
MAX_QUERY = 100_000  # characters
MAX_TITLE = 10_000
MAX_TEXT = 1_000_000
MAX_TAGS = 200
MAX_PROPERTIES = 1_000_000  # characters of all properties as JSON
MAX_DEPTH = 32  # of nested properties
MAX_FLOAT32 = float(np.finfo(np.float32).max)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
ITEM_FIELDS = tuple(one.name for one in fields(Item))
EDGE_FIELDS = tuple(one.name for one in fields(Edge))


def validate_iterable(what: str, given: object) -> Iterable[Any]:
    """Many of something. A dict or a text can be walked through as well, but not by somebody who knows what he does."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise Invalid(f"{what} must be a list, not {type(given).__name__}")
    return given


def validate_item(given: Item) -> Item:
    """The item as it will be stored, or Invalid with the field and what is wrong with it."""
    if not isinstance(given, Item):
        raise Invalid(f"an item must be an Item, not {type(given).__name__}")
    where = f"item {str(given.id)[:80]!r}"
    for name in ("id", "space"):
        _check_name(where, name, getattr(given, name), empty=False)
    for name in ("type", "section"):
        _check_name(where, name, getattr(given, name))
    for name in ("subject", "source"):
        if getattr(given, name) is not None:
            _check_name(where, name, getattr(given, name))
    for name, most in (("title", MAX_TITLE), ("text", MAX_TEXT), ("summary", MAX_TEXT)):
        _check_text(where, name, getattr(given, name), most)
    if given.embedding_text is not None:
        _check_text(where, "embedding_text", given.embedding_text, MAX_TEXT)
    if given.confidence is not None:
        validate_fraction(f"{where}: confidence", given.confidence)
    checked = replace(
        given,
        kind=_kind(where, given.kind),
        tags=_tags(where, given.tags),
        properties=_properties(where, given.properties),
        **_times(where, given),
    )
    if checked.numbered and not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", checked.id):
        raise Invalid(f"{where}: the id is not a whole number, yet it is said to be one")
    if not (
        checked.properties
        or any(text.strip() for text in (checked.title, checked.text, checked.summary))
    ):
        raise Invalid(f"{where} is empty: it needs a title, a text, a summary or properties")
    return checked


def validate_edge(given: Edge) -> Edge:
    if not isinstance(given, Edge):
        raise Invalid(f"an edge must be an Edge, not {type(given).__name__}")
    where = f"edge {str(given.source)[:80]!r} -> {str(given.target)[:80]!r}"
    for name in ("source", "target", "type", "space"):
        _check_name(where, name, getattr(given, name), empty=False)
    _check_name(where, "target_space", given.target_space)
    if given.item_id is not None:
        _check_name(where, "item_id", given.item_id, empty=False)
    validate_fraction(f"{where}: weight", given.weight)
    if given.origin:
        raise Invalid(
            f"{where}: its origin is {given.origin!r}: such links are made by knowloom alone; leave origin empty to make it yours"
        )
    same = "" if given.target_space == given.space else given.target_space
    return replace(
        given,
        weight=float(given.weight),
        target_space=same,
        properties=_properties(where, given.properties),
    )


def validate_edge_keys(given: object) -> list[EdgeKey]:
    """Which edges a request means."""
    for one in (edges := list(validate_iterable("edges", given))):
        if not isinstance(one, Edge):
            raise Invalid(f"an edge must be an Edge, not {type(one).__name__}")
    return [edge.key for edge in edges]


def item_from_row(row: Mapping[str, Any], space: str | None) -> Item:
    """An item from a JSON object; `space` is used where the row names none. Integer ids become strings."""
    values = _row(row, ITEM_FIELDS, space, numbers=("id", "subject"))
    for name in ("created_at", "updated_at", "valid_from", "valid_to"):
        if values.get(name) is not None:
            values[name] = validate_time(name, values[name])
    if isinstance(values.get("tags"), list):
        values["tags"] = tuple(values["tags"])
    if "id" not in values:
        raise Invalid("an item needs an id")
    if type(row["id"]) is int:
        values["numbered"] = True
    return validate_item(Item(**values))


def edge_from_row(row: Mapping[str, Any], space: str | None) -> Edge:
    return validate_edge(
        Edge(**_row(row, EDGE_FIELDS, space, numbers=("source", "target", "item_id")))
    )


def _row(
    row: Mapping[str, Any], known: Sequence[str], space: str | None, numbers: Sequence[str]
) -> dict[str, Any]:
    for name in row:
        if name not in known:
            raise unknown_name("field", name, known)
    values = {name: value for name, value in row.items() if value is not None}
    values.setdefault("space", space)
    if values["space"] is None:
        raise Invalid("no space: name one for the whole load, or give each row its own")
    return {
        name: str(value) if name in numbers and type(value) is int else value
        for name, value in values.items()
    }


def validate_name(field: str, value: object) -> str:
    """A name that a request may ask for."""
    _check_name("the request", field, value)
    return str(value)


def validate_names(field: str, values: object) -> tuple[str, ...]:
    """A list of such names; one text is not a list of its letters, and a set has no order."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise Invalid(f"{field} must be a list of names, not {values!r}")
    return tuple(validate_name(field, value) for value in values)


def validate_time(name: str, value: object) -> datetime:
    """A time with a zone, from a datetime or ISO 8601 text; without a zone it is UTC."""
    try:
        found = value if isinstance(value, datetime) else codec.text_to_time(value)  # type: ignore[arg-type]
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise Invalid(
            f"{name} must be a time such as 2026-01-31T12:00:00Z, not {value!r}"
        ) from None


def validate_vector(given: Sequence[float] | Vector, dimensions: int | None = None) -> Vector:
    """A unit vector of finite numbers."""
    try:
        with np.errstate(
            over="ignore"
        ):  # a number too large for single precision is infinite, and refused below
            array = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise Invalid("a vector must be a list of numbers") from None
    if array.ndim != 1 or not len(array):
        raise Invalid(f"a vector must be one list of numbers, not of shape {array.shape}")
    if dimensions is not None and len(array) != dimensions:
        raise Invalid(f"a vector of {len(array)} dimensions does not fit: {dimensions} are needed")
    exact = array.astype(np.float64)
    length = math.sqrt(float(exact @ exact))
    if not math.isfinite(length) or not length:
        raise Invalid("a vector must have finite numbers, not all of them 0")
    if length > MAX_FLOAT32:  # as a number of single precision it would be infinite
        return validate_vector(array / np.abs(array).max())
    return (array / length).astype(np.float32)


def find_duplicates(keys: Iterable[object]) -> list[object]:
    seen: set[object] = set()
    return [key for key in keys if key in seen or seen.add(key)]  # type: ignore[func-returns-value]


def validate_query(value: object) -> str:
    """Return the text of a query."""
    if not isinstance(value, str) or len(value) > MAX_QUERY:
        raise Invalid(f"query must be text of at most {MAX_QUERY:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid("query must not contain lone surrogates")
    return value


def validate_int(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """Return the value if it is an integer, other than a bool, within the bounds."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
        if maximum is None or value <= maximum:
            return value
    bounds = f">= {minimum:,}" if maximum is None else f"from {minimum:,} to {maximum:,}"
    raise Invalid(f"{name} must be an integer {bounds}, got {value!r}")


def validate_number(
    name: str, value: object, minimum: float = -math.inf, maximum: float = math.inf
) -> float:
    """Return the value if it is a finite number, other than a bool, within the bounds."""
    if is_number(value) and minimum <= value <= maximum and abs(value) < math.inf:
        return value
    bounds = "a finite number"
    if math.isfinite(minimum):
        bounds = f"a number >= {minimum:g}"
    if math.isfinite(maximum):
        bounds = f"a number from {minimum:g} to {maximum:g}"
    raise Invalid(f"{name} must be {bounds}, got {value!r}")


def validate_positive(name: str, value: object, maximum: float = math.inf) -> float:
    """Return the value if it is a finite number > 0."""
    if is_number(value) and 0 < value <= maximum and value < math.inf:
        return value
    bounds = "> 0" if maximum == math.inf else f"> 0 and <= {maximum:,}"
    raise Invalid(f"{name} must be a number {bounds}, got {value!r}")


def validate_fraction(name: str, value: object) -> float:
    """Return the value as a float if it is a number from 0 to 1."""
    return float(validate_number(name, value, 0, 1))


def validate_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{name} must be true or false, got {value!r}")
    return value


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True for an int or a float; a bool is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_name(where: str, field: str, value: object, empty: bool = True) -> None:
    if not isinstance(value, str):
        raise Invalid(f"{where}: {field} must be text, not {type(value).__name__}")
    if not value and not empty:
        raise Invalid(f"{where}: {field} must not be empty")
    if value == PROVENANCE_SPACE and field in ("space", "target_space"):
        raise Invalid(f"{where}: the space {value!r} is knowloom's own; take another name")
    if len(value) > MAX_NAME:
        raise Invalid(f"{where}: {field} has {len(value):,} characters; the most is {MAX_NAME}")
    if _CONTROL.search(value) or _UNSTORABLE.search(value):
        raise Invalid(
            f"{where}: {field} must not contain control characters or lone surrogates: {value[:80]!r}"
        )


def _check_text(where: str, field: str, value: object, most: int) -> None:
    if not isinstance(value, str):
        raise Invalid(f"{where}: {field} must be text, not {type(value).__name__}")
    if len(value) > most:
        raise Invalid(
            f"{where}: {field} has {len(value):,} characters; the most is {most:,}: split it"
        )
    if found := _UNSTORABLE.search(value):
        raise Invalid(
            f"{where}: {field} contains {found.group()!r} at character {found.start()}, which cannot be stored as text"
        )


def _kind(where: str, value: object) -> Kind:
    try:
        return Kind(value)  # type: ignore[arg-type]
    except ValueError:
        raise Invalid(
            f"{where}: {unknown_name('kind', value, [kind.value for kind in Kind])}"
        ) from None


def _tags(where: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise Invalid(f"{where}: tags must be a list of texts, not {value!r}")
    if len(value) > MAX_TAGS:
        raise Invalid(f"{where}: {len(value)} tags; the most is {MAX_TAGS}")
    for tag in value:
        _check_name(where, "a tag", tag, empty=False)
    return tuple(dict.fromkeys(value))


def _times(where: str, given: Item) -> dict[str, Any]:
    names = ("created_at", "updated_at", "valid_from", "valid_to")
    times = {
        name: validate_time(f"{where}: {name}", getattr(given, name))
        for name in names
        if getattr(given, name) is not None
    }
    if "valid_from" in times and "valid_to" in times and times["valid_from"] >= times["valid_to"]:
        raise Invalid(
            f"{where}: valid_from {given.valid_from} is not before valid_to {given.valid_to}"
        )
    return times


def _properties(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{where}: properties must be an object, not {type(value).__name__}")
    if not value:
        return {}
    try:
        text = json.dumps(_plain(dict(value), MAX_DEPTH), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{where}: properties must be plain JSON ({error})") from None
    _check_text(where, "properties", text, MAX_PROPERTIES)
    copy: dict[str, Any] = json.loads(text)
    return copy


def _plain(value: object, depth: int) -> object:
    """The value unchanged, if JSON gives back what went in: keys are texts, no text has a NUL and nothing is nested too deeply."""
    if depth < 0:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"{value[:80]!r} cannot be stored as text")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"the name {name!r} is not text")
            _plain(name, 0)
        return {name: _plain(one, depth - 1) for name, one in value.items()}
    return [_plain(one, depth - 1) for one in value] if isinstance(value, list | tuple) else value
