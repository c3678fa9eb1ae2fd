"""The texts of items and edges that are scanned for secrets, and their redaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from knowloom.model import Edge, Item

# Scanned first: errors name the id, which must be clean by then.
ITEM_NAMES = ("id", "space", "type", "section", "subject")
ITEM_TEXTS = ("title", "text", "summary", "embedding_text", "source")
EDGE_NAMES = ("source", "target", "type", "space", "target_space", "item_id")
# {"name": "DB_PASSWORD", "value": "…"} means the same as {"DB_PASSWORD": "…"}.
_PAIRS = (("name", "value"), ("key", "value"))

Redact = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class ScannedText:
    """A text of an item or an edge, and its place; an error must not repeat a part `is_name`."""

    place: str
    text: str
    is_name: bool = False


def list_parts(value: Item | Edge) -> list[ScannedText]:
    """Return all texts of an item or an edge."""
    return list(_item_parts(value) if isinstance(value, Item) else _edge_parts(value))


def _item_parts(item: Item) -> Iterator[ScannedText]:
    yield from (
        ScannedText(name, value, True) for name in ITEM_NAMES if (value := getattr(item, name))
    )
    yield from (ScannedText(name, value) for name in ITEM_TEXTS if (value := getattr(item, name)))
    yield from (ScannedText("tags", tag) for tag in item.tags)
    yield from _property_parts(item.properties)


def _edge_parts(edge: Edge) -> Iterator[ScannedText]:
    yield from (
        ScannedText(name, value, True) for name in EDGE_NAMES if (value := getattr(edge, name))
    )
    yield from _property_parts(edge.properties)


def _property_parts(
    value: object, place: str = "properties", name: str = ""
) -> Iterator[ScannedText]:
    """Yield the texts inside, each after the names that lead to it.

    `password` and its value are a secret only together. A name comes before the places that it is
    part of, so that it is scanned before an error repeats it.
    """
    if isinstance(value, Mapping):
        for first, second in _PAIRS:
            if isinstance(value.get(first), str) and isinstance(value.get(second), str):
                inner_place = f"{place}.{second}" if place else second
                yield ScannedText(inner_place, f"{value[first]}: {value[second]}")
        for key, inner in value.items():
            yield ScannedText(f"a name in {place}", key)
            yield from _property_parts(inner, f"{place}.{key}", f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _property_parts(inner, f"{place}[{number}]", name)
    elif isinstance(value, str) and value:
        yield ScannedText(place, f"{name}: {value}")


def redact_item(item: Item, redact: Redact) -> Item:
    """Return the item with redacted texts; its names stay as they are."""
    values = {name: value for name in ITEM_TEXTS if isinstance(value := getattr(item, name), str)}
    texts: dict[str, Any] = {name: _redact_text(text, "", redact) for name, text in values.items()}
    return replace(
        item,
        tags=tuple(_redact_text(tag, "", redact) for tag in item.tags),
        properties=_redact_properties(item.properties, "", redact),
        **texts,
    )


def redact_edge(edge: Edge, redact: Redact) -> Edge:
    """Return the edge with redacted properties; its names stay as they are."""
    return replace(edge, properties=_redact_properties(edge.properties, "", redact))


def _redact_properties(value: Any, name: str, redact: Redact) -> Any:
    if isinstance(value, Mapping):
        inner = {
            key: _redact_properties(child, f"{name}.{key}" if name else key, redact)
            for key, child in value.items()
        }
        for first, second in _PAIRS:
            if isinstance(inner.get(first), str) and isinstance(inner.get(second), str):
                inner[second] = _redact_text(inner[second], f"{inner[first]}: ", redact)
        return inner
    if isinstance(value, list | tuple):
        return type(value)(_redact_properties(child, name, redact) for child in value)
    return _redact_text(value, f"{name}: ", redact) if isinstance(value, str) else value


def _redact_text(text: str, prefix: str, redact: Redact) -> str:
    """Return the text without secrets; unchanged if they are in the prefix or cannot be removed."""
    redacted = redact(prefix + text)
    if redacted is None or not redacted.startswith(prefix):
        return text
    return redacted.removeprefix(prefix)
