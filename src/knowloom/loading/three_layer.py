"""Knowledge in three layers, `metadata`, `pieces` and `graph`, as rows of items and edges. What is wrong with an entry is said, the rest is used."""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from knowloom.errors import Invalid, unknown
from knowloom.model import Item, Kind
from knowloom.report import Skipped
from knowloom.text.slug import slug

LAYERS = ("metadata", "pieces", "graph")
KNOWLEDGE_TYPES = ("fact", "instruction", "preference", "procedure", "note", "episodic")
_MORE = (
    "title",
    "summary",
    "confidence",
    "created_at",
    "updated_at",
    "valid_from",
    "valid_to",
    "source",
)  # as in knowloom's own rows

Entry = Mapping[str, Any]
Placed = tuple[str, dict[str, Any] | Skipped]


def rows(where: str, given: Mapping[str, Any]) -> Iterator[Placed]:
    """Each entry with its place: profiles, pieces and nodes as items, then edges. A node that has a profile becomes one item with it."""
    for name in given:
        if name not in LAYERS:
            yield (
                f"{where}: {name}",
                Skipped("", str(name)[:80], f"no layer {name!r}; known: {', '.join(LAYERS)}"),
            )
    graph, wrong = _object(f"{where}: graph", given.get("graph"), ("nodes", "edges"))
    yield from wrong
    profiles = dict(_entries(f"{where}: metadata", given.get("metadata"), "", _profile))
    nodes = dict(_entries(f"{where}: graph.nodes", graph.get("nodes"), "node_id", _node))
    yield from _joined(profiles, nodes)
    yield from _entries(f"{where}: pieces", given.get("pieces"), "piece_id", _piece)
    yield from nodes.items()
    yield from _entries(f"{where}: graph.edges", graph.get("edges"), "source_id", _edge)


def _entries(
    where: str, given: object, named: str, read: Callable[[str, Entry], dict[str, Any]]
) -> Iterator[Placed]:
    if given is None:
        return
    if not isinstance(given, list | tuple if named else Mapping):
        yield (
            where,
            Skipped(
                "",
                reprlib.repr(given),
                "not a list" if named else "not an object of entities by their ids",
            ),
        )
        return
    pairs: Iterable[tuple[Any, Any]] = (
        given.items() if isinstance(given, Mapping) else enumerate(given)
    )
    for number, entry in pairs:
        place = f"{where}[{number!r}]"
        if not isinstance(entry, Mapping):
            yield place, Skipped("", reprlib.repr(entry), "not an object")
            continue
        try:
            yield place, read(number if isinstance(given, Mapping) else "", entry)
        except Invalid as error:
            yield (
                place,
                Skipped("", str(entry.get(named, "") if named else number)[:80], str(error)),
            )


def _object(where: str, given: object, known: tuple[str, ...]) -> tuple[Entry, list[Placed]]:
    if given is None:
        return {}, []
    if not isinstance(given, Mapping):
        return {}, [
            (where, Skipped("", reprlib.repr(given), f"not an object with {' and '.join(known)}"))
        ]
    return given, [
        (where, Skipped("", str(name)[:80], str(unknown("field", name, known))))
        for name in given
        if name not in known
    ]


def _profile(id: str, entry: Entry) -> dict[str, Any]:
    _known(entry, "entity_id", "entity_type", "properties", *_MORE)
    if entry.get("entity_id", id) != id:
        raise Invalid(f"entity_id {reprlib.repr(entry['entity_id'])} stands under the name {id!r}")
    properties = _properties(entry)
    row = {
        "id": id,
        "kind": "profile",
        "type": _text(entry, "entity_type"),
        "section": "user_profile",
        "properties": properties,
    }
    return row | _more(entry) | _titled(entry, properties, id)


def _node(_: str, entry: Entry) -> dict[str, Any]:
    _known(
        entry,
        "node_id",
        "node_type",
        "label",
        "properties",
        *(name for name in _MORE if name != "title"),
    )
    properties, id = _properties(entry), _id(entry, "node_id")
    row = {"id": id, "kind": "entity", "type": _text(entry, "node_type"), "properties": properties}
    return row | _more(entry) | {"title": _text(entry, "label", id if not properties else "")}


def _piece(_: str, entry: Entry) -> dict[str, Any]:
    _known(
        entry,
        "piece_id",
        "content",
        "knowledge_type",
        "info_type",
        "tags",
        "entity_id",
        "embedding_text",
        "properties",
        *_MORE,
    )
    content = _text(entry, "content")
    if not content.strip():
        raise Invalid("content must not be empty")
    kind = _text(entry, "knowledge_type", "fact").lower()
    if kind not in KNOWLEDGE_TYPES:
        raise unknown("knowledge_type", entry["knowledge_type"], KNOWLEDGE_TYPES)
    row = {
        "id": _id(entry, "piece_id") if entry.get("piece_id") is not None else _made(content),
        "text": content,
        "type": kind,
    }
    row |= {
        "section": _text(entry, "info_type", "context"),
        "subject": entry.get("entity_id"),
        "embedding_text": entry.get("embedding_text"),
    }
    return row | {"tags": entry.get("tags"), "properties": _properties(entry)} | _more(entry)


def _edge(_: str, entry: Entry) -> dict[str, Any]:
    _known(entry, "source_id", "target_id", "edge_type", "weight", "piece_id", "properties")
    properties = dict(_properties(entry))
    piece = entry.get("piece_id", properties.pop("piece_id", None))
    row = {
        "source": _id(entry, "source_id"),
        "target": _id(entry, "target_id"),
        "type": _text(entry, "edge_type"),
        "weight": entry.get("weight"),
    }
    return row | {"item_id": piece, "properties": properties}


def _joined(
    profiles: dict[str, dict[str, Any] | Skipped], nodes: dict[str, dict[str, Any] | Skipped]
) -> Iterator[Placed]:
    """The profiles, those that have a node with its label and properties; such nodes are taken out."""
    by_id = {row["id"]: place for place, row in reversed(nodes.items()) if isinstance(row, dict)}
    for place, profile in profiles.items():
        if isinstance(profile, dict) and profile["id"] in by_id:
            at = by_id[profile["id"]]
            node = nodes.pop(at)
            assert isinstance(node, dict)
            if lost := [
                name
                for name, value in node["properties"].items()
                if profile["properties"].get(name, value) != value
            ]:
                yield (
                    at,
                    Skipped(
                        "",
                        profile["id"],
                        f"its profile says something else about {', '.join(lost)}: the profile's is kept",
                    ),
                )
            title = node["title"] if profile["title"] in ("", profile["id"]) else profile["title"]
            more = {
                name: value
                for name, value in node.items()
                if value is not None and name not in ("id", "kind", "type", "title", "properties")
            }
            profile = (
                more
                | profile
                | {"title": title, "properties": node["properties"] | profile["properties"]}
            )
        yield place, profile


def met(coming: Item, stored: Item) -> tuple[Item, str]:
    """A node or a profile as it will be stored beside what another file said about the same entity, and what of it is not kept. The
    profile stays, under the name that the node gave it."""
    kinds = (coming.kind, stored.kind)
    if kinds not in (
        (Kind.ENTITY, Kind.PROFILE),
        (Kind.PROFILE, Kind.ENTITY),
        (Kind.PROFILE, Kind.PROFILE),
    ):
        return coming, ""
    profile, node = (
        (stored, coming)
        if stored.kind is Kind.PROFILE and coming.kind is Kind.ENTITY
        else (coming, stored)
    )
    named = (
        replace(profile, title=node.title)
        if profile.title in ("", profile.id) and node.title
        else profile
    )
    lost = (
        []
        if node.kind is Kind.PROFILE
        else [
            name for name, value in node.properties.items() if profile.properties.get(name) != value
        ]
    )
    return (
        named,
        f"{', '.join(lost)}: not kept, as the entity has a profile; say it there" if lost else "",
    )


def _known(entry: Entry, *names: str) -> None:
    for name in entry:
        if name not in names:
            raise unknown("field", name, names)


def _id(entry: Entry, name: str) -> Any:
    """Texts and whole numbers; the door checks the rest."""
    if entry.get(name) in (None, ""):
        raise Invalid(f"{name} is missing")
    return entry[name]


def _text(entry: Entry, name: str, default: str | None = None) -> str:
    value = entry.get(name)
    if value is None and default is not None:
        return default
    if value is None or value == "":
        raise Invalid(f"{name} {'must not be empty' if value == '' else 'is missing'}")
    if not isinstance(value, str):
        raise Invalid(f"{name} must be text, not {type(value).__name__}")
    return value


def _properties(entry: Entry) -> Mapping[str, Any]:
    value = entry.get("properties")
    if value is not None and not isinstance(value, Mapping):
        raise Invalid(f"properties must be an object, not {type(value).__name__}")
    return value or {}


def _more(entry: Entry) -> dict[str, Any]:
    return {name: entry[name] for name in _MORE if entry.get(name) is not None}


def _titled(entry: Entry, properties: Mapping[str, Any], id: str) -> dict[str, Any]:
    """An entity of which nothing is known but its id is called by it."""
    return {"title": entry.get("title") or ("" if properties or entry.get("summary") else id)}


def _made(content: str) -> str:
    """The id of a piece that has none: the same content always gets the same."""
    return f"{'-'.join(slug(content[:200]).split('-')[:6])}-{hashlib.blake2b(content.encode(errors='replace'), digest_size=4).hexdigest()}"
