"""Argument checks: each returns the value as it will be used, or raises Invalid."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, TypeGuard
from unicodedata import category

import numpy as np

from knowloom import codec
from knowloom.errors import Invalid, list_names, unknown_name
from knowloom.model import TRUSTED, UNTRUSTED, Edge, EdgeKey, Item, Kind
from knowloom.ports import HIDDEN_SPACES, Vector
from knowloom.text.passages import MAX_PASSAGE_SIZE, MIN_PASSAGE_SIZE

DEFAULT_SPACE = "default"  # of calls that name none, unless there is exactly one other
MAX_NAME = 500  # characters of an id, a space, a type, a tag, a subject
MAX_QUERY = 100_000  # characters
MAX_TITLE = 10_000
MAX_TEXT = 1_000_000
MAX_TAGS = 200
MAX_PROPERTIES = 1_000_000  # characters of all properties as JSON
MAX_DEPTH = 32  # of nested properties
MAX_FLOAT32 = float(np.finfo(np.float32).max)
ITEM_FIELDS = tuple(field.name for field in fields(Item))
EDGE_FIELDS = tuple(field.name for field in fields(Edge))

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_INTEGER_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")


# Numbers and flags


def validate_int(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """Return the value if it is an integer, other than a bool, within the bounds."""
    limit = math.inf if maximum is None else maximum
    if is_int(value) and minimum <= value <= limit:
        return value
    bounds = f">= {minimum:,}" if maximum is None else f"from {minimum:,} to {maximum:,}"
    raise Invalid(f"{name} must be an integer {bounds}, got {value!r}")


def validate_number(
    name: str, value: object, minimum: float = -math.inf, maximum: float = math.inf
) -> float:
    """Return the value if it is a finite number, other than a bool, within the bounds."""
    if is_number(value) and minimum <= value <= maximum and -math.inf < value < math.inf:
        return value
    bounds = "a finite number"
    if math.isfinite(minimum):
        bounds = f"a number >= {minimum:g}"
    if math.isfinite(maximum):
        bounds = f"a number from {minimum:g} to {maximum:g}"
    raise Invalid(f"{name} must be {bounds}, got {value!r}")


def validate_passage_size(value: object) -> int:
    """Return the value if items can be cut to this size, in characters."""
    return validate_int("passage_size", value, MIN_PASSAGE_SIZE, MAX_PASSAGE_SIZE)


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


def is_int(value: object) -> TypeGuard[int]:
    """Return True for an int; a bool is no integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True for an int or a float; a bool is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# Texts, names, times, vectors


def validate_query(value: object) -> str:
    """Return the text of a query."""
    if not isinstance(value, str) or len(value) > MAX_QUERY:
        raise Invalid(f"query must be text of at most {MAX_QUERY:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid("query must not contain lone surrogates")
    return value


def require_searchable(text: str) -> None:
    """Raise Invalid if a query has neither a word nor an emoji, such as "" or "?!"."""
    if not any(character.isalnum() or category(character) == "So" for character in text):
        raise Invalid(
            f"query must contain a word or a number to search for, got {text[:40]!r}; "
            "pass a vector to search without words"
        )


def validate_text(name: str, value: object, max_length: int) -> str:
    """Return the value if it is text that every store can keep."""
    if not isinstance(value, str):
        raise Invalid(f"{name} must be text, got {type(value).__name__}")
    if len(value) > max_length:
        raise Invalid(
            f"{name} must have at most {max_length:,} characters, got {len(value):,}: split it"
        )
    if match := _UNSTORABLE.search(value):
        raise Invalid(
            f"{name} must be storable text, got {match.group()!r} at character {match.start()}"
        )
    return value


def validate_name(name: str, value: object, *, allow_empty: bool = True) -> str:
    """Return the value if it can be the name of a space, a type, a tag and the like."""
    if not isinstance(value, str):
        raise Invalid(f"{name} must be text, got {type(value).__name__}")
    if not value and not allow_empty:
        raise Invalid(f"{name} must not be empty")
    if value in HIDDEN_SPACES and name.split(": ")[-1] in ("space", "target_space"):
        raise Invalid(f"{name} must not be {value!r}, which is reserved")
    if len(value) > MAX_NAME:
        raise Invalid(f"{name} must have at most {MAX_NAME} characters, got {len(value):,}")
    if _CONTROL.search(value) or _UNSTORABLE.search(value):
        rule = "must not contain control characters or lone surrogates"
        raise Invalid(f"{name} {rule}, got {value[:80]!r}")
    return value


def validate_names(name: str, values: object) -> tuple[str, ...]:
    """Return a list of names as a tuple; neither a single text nor a set is one."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise Invalid(f"{name} must be a list of names, got {values!r}")
    return tuple(validate_name(name, value) for value in values)


def choose_space(existing: Sequence[str]) -> str:
    """Return the space of a call that names none: the only one, or the one named "default"."""
    if len(existing) == 1:
        return existing[0]
    if not existing or DEFAULT_SPACE in existing:
        return DEFAULT_SPACE
    raise Invalid(f"several spaces exist: name one of {list_names(existing)}", "several_spaces")


def merge_names(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the values, with those under other names under the `names` they stand for.

    Raise Invalid if both names of a value are passed and differ; None is not passed.
    """
    merged = {name: value for name, value in values.items() if name not in names}
    for other, name in names.items():
        if other in values and merged.get(name) is None:
            merged[name] = values[other]
        elif values.get(other) not in (None, merged.get(name)):
            both = f"{name}={merged[name]!r} and {other}={values[other]!r}"[:200]
            raise Invalid(f"{name} and {other} are the same: pass one of them, got {both}")
    return merged


def validate_iterable(name: str, values: object) -> Iterable[Any]:
    """Return the values; a text or a mapping is iterable too, but never what is meant."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise Invalid(f"{name} must be a list, got {type(values).__name__}")
    return values


def find_duplicates(keys: Iterable[object]) -> list[object]:
    """Return the keys that occurred before, in order."""
    seen: set[object] = set()
    return [key for key in keys if key in seen or seen.add(key)]  # type: ignore[func-returns-value]


def validate_time(name: str, value: object) -> datetime:
    """Return a datetime or ISO 8601 text as a time in UTC, which is also the default zone."""
    try:
        text: Any = value
        time = text if isinstance(text, datetime) else codec.text_to_time(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        example = "2026-01-31T12:00:00Z"
        raise Invalid(f"{name} must be a time such as {example}, got {value!r}") from None


def validate_vector(value: Sequence[float] | Vector, dimensions: int | None = None) -> Vector:
    """Return finite numbers, not all of them 0, as a unit vector."""
    try:
        with np.errstate(over="ignore"):  # too large for float32 is infinite, and rejected below
            array = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        raise Invalid("a vector must be a list of numbers") from None
    if array.ndim != 1 or not len(array):
        raise Invalid(f"a vector must be a list of numbers, got the shape {array.shape}")
    if dimensions is not None and len(array) != dimensions:
        raise Invalid(f"a vector must have {dimensions} dimensions, got {len(array)}")
    exact = array.astype(np.float64)
    length = math.sqrt(float(exact @ exact))
    if not math.isfinite(length) or not length:
        raise Invalid("a vector must have finite numbers, not all of them 0")
    if length > MAX_FLOAT32:  # it would be infinite in single precision
        return validate_vector(array / np.abs(array).max())
    return (array / length).astype(np.float32)


# Items and edges


def validate_item(item: Item) -> Item:
    """Return the item as it will be stored."""
    if not isinstance(item, Item):
        raise Invalid(f"an item must be an Item, got {type(item).__name__}")
    where = f"item {str(item.id)[:80]!r}"
    _check_item_texts(where, item)
    if item.confidence is not None:
        validate_fraction(f"{where}: confidence", item.confidence)
    item = replace(
        item,
        kind=_validate_kind(where, item.kind),
        tags=_validate_tags(where, item.tags),
        properties=_validate_properties(where, item.properties),
        **_validate_times(where, item),
    )
    if item.trust not in (TRUSTED, UNTRUSTED):
        raise Invalid(f"{where}: {unknown_name('trust', item.trust, (TRUSTED, UNTRUSTED))}")
    if item.numbered and not _INTEGER_ID.fullmatch(item.id):
        raise Invalid(f"{where}: the id of a numbered item must be an integer")
    if not (item.properties or any(map(str.strip, (item.title, item.text, item.summary)))):
        raise Invalid(f"{where} is empty: it needs a title, a text, a summary or properties")
    return item


def _check_item_texts(where: str, item: Item) -> None:
    for name in ("id", "space"):
        validate_name(f"{where}: {name}", getattr(item, name), allow_empty=False)
    for name in ("type", "section"):
        validate_name(f"{where}: {name}", getattr(item, name))
    for name in ("subject", "source"):
        if getattr(item, name) is not None:
            validate_name(f"{where}: {name}", getattr(item, name))
    for name, limit in (("title", MAX_TITLE), ("text", MAX_TEXT), ("summary", MAX_TEXT)):
        validate_text(f"{where}: {name}", getattr(item, name), limit)
    if item.embedding_text is not None:
        validate_text(f"{where}: embedding_text", item.embedding_text, MAX_TEXT)


def validate_edge(edge: Edge) -> Edge:
    """Return the edge as it will be stored."""
    if not isinstance(edge, Edge):
        raise Invalid(f"an edge must be an Edge, got {type(edge).__name__}")
    where = f"edge {str(edge.source)[:80]!r} -> {str(edge.target)[:80]!r}"
    for name in ("source", "target", "type", "space"):
        validate_name(f"{where}: {name}", getattr(edge, name), allow_empty=False)
    validate_name(f"{where}: target_space", edge.target_space)
    if edge.item_id is not None:
        validate_name(f"{where}: item_id", edge.item_id, allow_empty=False)
    if edge.origin:
        rule = "must be empty: automatic edges cannot be added"
        raise Invalid(f"{where}: origin {rule}, got {edge.origin!r}")
    return replace(
        edge,
        weight=validate_fraction(f"{where}: weight", edge.weight),
        target_space="" if edge.target_space == edge.space else edge.target_space,
        properties=_validate_properties(where, edge.properties),
    )


def validate_edge_keys(edges: object) -> list[EdgeKey]:
    """Return the keys of the edges of a request."""
    keys = []
    for edge in validate_iterable("edges", edges):
        if not isinstance(edge, Edge):
            raise Invalid(f"an edge must be an Edge, got {type(edge).__name__}")
        keys.append(edge.key)
    return keys


def item_from_row(row: Mapping[str, Any], space: str | None) -> Item:
    """Return the item of a JSON object; `space` is the default, integer ids become strings."""
    values = _row_values(row, ITEM_FIELDS, space, id_fields=("id", "subject"))
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = validate_time(name, values[name])
    if isinstance(values.get("tags"), list):
        values["tags"] = tuple(values["tags"])
    if "id" not in values:
        raise Invalid("an item must have an id")
    if type(row["id"]) is int:
        values["numbered"] = True
    return validate_item(Item(**values))


def edge_from_row(row: Mapping[str, Any], space: str | None) -> Edge:
    """Return the edge of a JSON object; `space` is the default, integer ids become strings."""
    id_fields = ("source", "target", "item_id")
    return validate_edge(Edge(**_row_values(row, EDGE_FIELDS, space, id_fields)))


def _row_values(
    row: Mapping[str, Any], allowed: Sequence[str], space: str | None, id_fields: Sequence[str]
) -> dict[str, Any]:
    for name in row:
        if name not in allowed:
            raise unknown_name("field", name, allowed)
    values = {name: value for name, value in row.items() if value is not None}
    values.setdefault("space", space)
    if values["space"] is None:
        raise Invalid("space is missing: set one for the whole load, or one in each row")
    return {
        name: str(value) if name in id_fields and type(value) is int else value
        for name, value in values.items()
    }


def _validate_kind(where: str, value: object) -> Kind:
    try:
        return Kind(value)  # type: ignore[arg-type]
    except ValueError:
        kinds = [kind.value for kind in Kind]
        raise Invalid(f"{where}: {unknown_name('kind', value, kinds)}") from None


def _validate_tags(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise Invalid(f"{where}: tags must be a list of texts, got {value!r}")
    if len(value) > MAX_TAGS:
        raise Invalid(f"{where}: tags must be at most {MAX_TAGS}, got {len(value)}")
    for tag in value:
        validate_name(f"{where}: a tag", tag, allow_empty=False)
    return tuple(dict.fromkeys(value))


def _validate_times(where: str, item: Item) -> dict[str, Any]:
    times = {
        name: validate_time(f"{where}: {name}", getattr(item, name))
        for name in _TIMES
        if getattr(item, name) is not None
    }
    if "valid_from" in times and "valid_to" in times and times["valid_from"] >= times["valid_to"]:
        bounds = f"valid_from {item.valid_from} must be before valid_to {item.valid_to}"
        raise Invalid(f"{where}: {bounds}")
    return times


def _validate_properties(where: str, value: object) -> Mapping[str, Any]:
    """Return a copy that has passed through JSON, as stores will return it."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{where}: properties must be an object, got {type(value).__name__}")
    if not value:
        return {}
    try:
        plain = _check_json(dict(value), MAX_DEPTH)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{where}: properties must be plain JSON ({error})") from None
    validate_text(f"{where}: properties", text, MAX_PROPERTIES)
    copy: dict[str, Any] = json.loads(text)
    return copy


def _check_json(value: object, depth: int) -> object:
    """Return the value if JSON preserves it: text keys, no NUL, no deep nesting."""
    if depth < 0:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"{value[:80]!r} cannot be stored as text")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"the name {name!r} is not text")
            _check_json(name, 0)
        return {name: _check_json(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_check_json(inner, depth - 1) for inner in value]
    return value
