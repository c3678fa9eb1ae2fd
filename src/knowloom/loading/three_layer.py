"""Parse three layers, `metadata`, `pieces` and `graph`, into rows of items and edges.

A bad entry is reported, the others are used.
"""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from knowloom.errors import Invalid, unknown_name
from knowloom.model import Item, Kind
from knowloom.report import Skipped
from knowloom.text.normalisation import slugify
from knowloom.validation import merge_names

LAYERS = ("metadata", "pieces", "graph")
KNOWLEDGE_TYPES = ("fact", "instruction", "preference", "procedure", "note", "episodic")
_TIMES = ("created_at", "updated_at", "valid_from", "valid_to")
_ROW_FIELDS = ("title", "summary", "confidence", *_TIMES, "source")  # as in knowloom's own rows
_PIECE_FIELDS = (
    *("piece_id", "content", "knowledge_type", "info_type"),
    *("tags", "entity_id", "embedding_text", "properties"),
)

Entry = Mapping[str, Any]
PlacedRow = tuple[str, dict[str, Any] | Skipped]


def parse_layers(where: str, layers: Mapping[str, Any]) -> Iterator[PlacedRow]:
    """Yield each entry with its place: profiles, pieces and nodes as items, then edges.

    A node with a profile is one item with it.
    """
    for name in layers:
        if name not in LAYERS:
            reason = str(unknown_name("layer", name, LAYERS))
            yield f"{where}: {name}", Skipped("", str(name)[:80], reason)
    graph, problems = _parse_graph(f"{where}: graph", layers.get("graph"))
    yield from problems
    profiles = dict(_parse_profiles(f"{where}: metadata", layers.get("metadata")))
    nodes = dict(_parse_list(f"{where}: graph.nodes", graph.get("nodes"), "node_id", _parse_node))
    yield from _join_profiles(profiles, nodes)
    yield from _parse_list(f"{where}: pieces", layers.get("pieces"), "piece_id", _parse_piece)
    yield from nodes.items()
    yield from _parse_list(f"{where}: graph.edges", graph.get("edges"), "source_id", _parse_edge)


def _parse_graph(where: str, graph: object) -> tuple[Entry, list[PlacedRow]]:
    names = ("nodes", "edges")
    if graph is None:
        return {}, []
    if not isinstance(graph, Mapping):
        reason = f"not an object with {' and '.join(names)}"
        return {}, [(where, Skipped("", reprlib.repr(graph), reason))]
    return graph, [
        (where, Skipped("", str(name)[:80], str(unknown_name("field", name, names))))
        for name in graph
        if name not in names
    ]


def _parse_profiles(where: str, profiles: object) -> Iterator[PlacedRow]:
    if profiles is None:
        return
    if not isinstance(profiles, Mapping):
        reason = "not an object of entities by their ids"
        yield where, Skipped("", reprlib.repr(profiles), reason)
        return
    for id, entry in profiles.items():
        yield _parse_entry(f"{where}[{id!r}]", entry, str(id), partial(_parse_profile, id))


def _parse_list(
    where: str, entries: object, id_field: str, parse: Callable[[Entry], dict[str, Any]]
) -> Iterator[PlacedRow]:
    if entries is None:
        return
    if not isinstance(entries, list | tuple):
        yield where, Skipped("", reprlib.repr(entries), "not a list")
        return
    for number, entry in enumerate(entries):
        id = entry.get(id_field, "") if isinstance(entry, Mapping) else ""
        yield _parse_entry(f"{where}[{number}]", entry, str(id), parse)


def _parse_entry(
    where: str, entry: object, id: str, parse: Callable[[Entry], dict[str, Any]]
) -> PlacedRow:
    if not isinstance(entry, Mapping):
        return where, Skipped("", reprlib.repr(entry), "not an object")
    try:
        return where, parse(entry)
    except Invalid as error:
        return where, Skipped("", id[:80], str(error))


def _parse_profile(id: str, entry: Entry) -> dict[str, Any]:
    _check_fields(entry, "entity_id", "entity_type", "properties", *_ROW_FIELDS)
    if entry.get("entity_id", id) != id:
        entity_id = reprlib.repr(entry["entity_id"])
        raise Invalid(f"entity_id must be {id!r}, the key of its entry, got {entity_id}")
    properties = _properties(entry)
    row = {
        "id": id,
        "kind": "profile",
        "type": _text(entry, "entity_type"),
        "section": "user_profile",
        "properties": properties,
    }
    # The title of an entity without any other content is its id.
    title = entry.get("title") or ("" if properties or entry.get("summary") else id)
    return row | _row_fields(entry) | {"title": title}


def _parse_node(entry: Entry) -> dict[str, Any]:
    fields = (name for name in _ROW_FIELDS if name != "title")
    entry = merge_names(entry, {"type": "node_type"})
    _check_fields(entry, "node_id", "node_type", "label", "properties", *fields)
    properties, id = _properties(entry), _id(entry, "node_id")
    row = {"id": id, "kind": "entity", "type": _text(entry, "node_type"), "properties": properties}
    title = _text(entry, "label", id if not properties else "")
    return row | _row_fields(entry) | {"title": title}


def _parse_piece(entry: Entry) -> dict[str, Any]:
    _check_fields(entry, *_PIECE_FIELDS, *_ROW_FIELDS)
    content = _text(entry, "content")
    if not content.strip():
        raise Invalid("content must not be empty")
    type = _text(entry, "knowledge_type", "fact").lower()
    if type not in KNOWLEDGE_TYPES:
        raise unknown_name("knowledge_type", entry["knowledge_type"], KNOWLEDGE_TYPES)
    row = {
        "id": _content_id(content) if entry.get("piece_id") is None else _id(entry, "piece_id"),
        "text": content,
        "type": type,
        "section": _text(entry, "info_type", "context"),
        "subject": entry.get("entity_id"),
        "embedding_text": entry.get("embedding_text"),
        "tags": entry.get("tags"),
        "properties": _properties(entry),
    }
    return row | _row_fields(entry)


def _parse_edge(entry: Entry) -> dict[str, Any]:
    fields = ("source_id", "target_id", "edge_type", "weight", "piece_id", "properties")
    _check_fields(entry, *fields)
    properties = dict(_properties(entry))
    piece = entry.get("piece_id", properties.pop("piece_id", None))
    return {
        "source": _id(entry, "source_id"),
        "target": _id(entry, "target_id"),
        "type": _text(entry, "edge_type"),
        "weight": entry.get("weight"),
        "item_id": piece,
        "properties": properties,
    }


def _join_profiles(
    profiles: dict[str, dict[str, Any] | Skipped], nodes: dict[str, dict[str, Any] | Skipped]
) -> Iterator[PlacedRow]:
    """Yield the profiles, joined with their nodes, which are removed from `nodes`."""
    by_id = {row["id"]: place for place, row in reversed(nodes.items()) if isinstance(row, dict)}
    for place, profile in profiles.items():
        if isinstance(profile, dict) and profile["id"] in by_id:
            node_place = by_id[profile["id"]]
            node = nodes.pop(node_place)
            assert isinstance(node, dict)
            properties = profile["properties"]
            if differing := [
                name
                for name, value in node["properties"].items()
                if properties.get(name, value) != value
            ]:
                reason = f"its profile has other values of {', '.join(differing)}, which are used"
                yield node_place, Skipped("", profile["id"], reason)
            profile = _join_rows(profile, node)
        yield place, profile


def _join_rows(profile: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    title = node["title"] if profile["title"] in ("", profile["id"]) else profile["title"]
    extra = {
        name: value
        for name, value in node.items()
        if value is not None and name not in ("id", "kind", "type", "title", "properties")
    }
    properties = node["properties"] | profile["properties"]
    return extra | profile | {"title": title, "properties": properties}


def join_halves(incoming: Item, stored: Item) -> tuple[Item, str]:
    """Join a node or profile with what another file has about the same entity.

    The profile remains, with the title of the node. Also return which of the node's properties are
    not kept, "" for none.
    """
    kinds = (incoming.kind, stored.kind)
    if kinds == (Kind.ENTITY, Kind.PROFILE):
        profile, node = stored, incoming
    elif kinds in ((Kind.PROFILE, Kind.ENTITY), (Kind.PROFILE, Kind.PROFILE)):
        profile, node = incoming, stored
    else:
        return incoming, ""
    joined = profile
    if profile.title in ("", profile.id) and node.title:
        joined = replace(profile, title=node.title)
    if node.kind is Kind.PROFILE:
        return joined, ""
    lost = [
        name for name, value in node.properties.items() if profile.properties.get(name) != value
    ]
    if not lost:
        return joined, ""
    return joined, f"{', '.join(lost)}: not kept, as the entity has a profile; set them there"


def _check_fields(entry: Entry, *names: str) -> None:
    for name in entry:
        if name not in names:
            raise unknown_name("field", name, names)


def _id(entry: Entry, name: str) -> Any:
    """Return a text or a number, which is validated with the row."""
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
        raise Invalid(f"{name} must be text, got {type(value).__name__}")
    return value


def _properties(entry: Entry) -> Mapping[str, Any]:
    value = entry.get("properties")
    if value is not None and not isinstance(value, Mapping):
        raise Invalid(f"properties must be an object, got {type(value).__name__}")
    return value or {}


def _row_fields(entry: Entry) -> dict[str, Any]:
    return {name: entry[name] for name in _ROW_FIELDS if entry.get(name) is not None}


def _content_id(content: str) -> str:
    """Return the id of a piece without one: the same for the same content."""
    words = slugify(content[:200]).split("-")[:6]
    digest = hashlib.blake2b(content.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{'-'.join(words)}-{digest}"
