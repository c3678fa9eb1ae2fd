"""What a structured text must look like: three layers, checked entry by entry. Every complaint names its place, so that it can be repaired."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from knowloom.loading.three_layer import KNOWLEDGE_TYPES
from knowloom.report import Skipped

Layers = dict[str, Any]

MAX_ID = 200
_KEBAB = r"[^\W_]+(?:-[^\W_]+)*"
_PIECE_ID = re.compile(_KEBAB)
_ENTITY_ID = re.compile(rf"{_KEBAB}(?::{_KEBAB})?")


@dataclass(slots=True)
class _Check:
    """The complaints so far, and the ids that later entries may name."""

    known: frozenset[str]  # entities that need no entry of their own
    complaints: list[Skipped] = field(default_factory=list)
    entities: set[str] = field(default_factory=set)
    pieces: set[str] = field(default_factory=set)

    def no(self, where: str, what: object, why: str) -> None:
        self.complaints.append(Skipped(where, reprlib.repr(what), why))

    def text(self, where: str, entry: Mapping[str, Any], name: str, optional: bool = False) -> None:
        value = entry.get(name)
        if value is None and optional:
            return
        if not isinstance(value, str) or not value.strip():
            self.no(
                f"{where}.{name}",
                value,
                "is missing" if value is None else "must be a text that is not empty",
            )

    def id(self, where: str, value: object, shape: re.Pattern[str]) -> None:
        if isinstance(value, str) and value in self.known:
            return
        example = "user:alice" if shape is _ENTITY_ID else "les-rans-init"
        if (
            not isinstance(value, str)
            or not shape.fullmatch(value)
            or value != value.lower()
            or len(value) > MAX_ID
        ):
            self.no(
                where,
                value,
                f"must be kebab-case (lower-case words joined by hyphens), such as {example}",
            )

    def fields(self, where: str, entry: Mapping[str, Any], *names: str) -> None:
        for name in entry:
            if name not in names:
                self.no(f"{where}.{name}", entry[name], f"no such field; known: {', '.join(names)}")


def checked(
    given: Mapping[str, Any], known: frozenset[str] = frozenset()
) -> tuple[Layers, list[Skipped]]:
    """The entries that are right, in their order, and what is wrong with the others. `known` are entities that edges and pieces may
    name without an entry."""
    check = _Check(known, entities=set(known))
    for name in given:
        if name not in ("metadata", "pieces", "graph"):
            check.no(str(name), given[name], "no such layer; known: metadata, pieces, graph")
    graph = _part(check, "graph", given.get("graph", {}), dict)
    check.fields("graph", graph, "nodes", "edges")
    metadata = {
        id: entry
        for id, entry in _good_profiles(
            check, _part(check, "metadata", given.get("metadata", {}), dict)
        )
    }
    nodes = list(_good(check, "graph.nodes", graph.get("nodes", []), _node))
    pieces = list(_good(check, "pieces", given.get("pieces", []), _piece))
    edges = list(_good(check, "graph.edges", graph.get("edges", []), _edge))
    if not (metadata or nodes or pieces or check.complaints):
        check.no("pieces", given.get("pieces"), "nothing was extracted: give at least one piece")
    return {
        "metadata": metadata,
        "pieces": pieces,
        "graph": {"nodes": nodes, "edges": edges},
    }, check.complaints


def _part(check: _Check, where: str, given: object, kind: type) -> Any:
    if isinstance(given, kind):
        return given
    check.no(where, given, f"must be {'an object' if kind is dict else 'a list'}")
    return kind()


def _good(
    check: _Check, where: str, given: object, one: Callable[[_Check, str, Mapping[str, Any]], None]
) -> Iterator[Mapping[str, Any]]:
    for number, entry in enumerate(_part(check, where, given, list)):
        before = len(check.complaints)
        if isinstance(entry, dict):
            one(check, f"{where}[{number}]", entry)
        else:
            check.no(f"{where}[{number}]", entry, "must be an object")
        if len(check.complaints) == before:
            _remember(check, entry)
            yield entry


def _remember(check: _Check, entry: Mapping[str, Any]) -> None:
    check.entities.update(filter(None, [entry.get("node_id")]))
    if "source_id" not in entry:
        check.pieces.update(filter(None, [entry.get("piece_id")]))


def _good_profiles(
    check: _Check, given: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for id, entry in given.items():
        before, where = len(check.complaints), f"metadata[{id!r}]"
        check.id(where, id, _ENTITY_ID)
        if not isinstance(entry, dict):
            check.no(where, entry, "must be an object with entity_type and properties")
        else:
            check.fields(where, entry, "entity_type", "properties")
            check.text(where, entry, "entity_type")
            _part(check, f"{where}.properties", entry.get("properties", {}), dict)
        if len(check.complaints) == before:
            check.entities.add(id)
            yield id, entry


def _node(check: _Check, where: str, entry: Mapping[str, Any]) -> None:
    check.fields(where, entry, "node_id", "node_type", "label")
    check.id(f"{where}.node_id", entry.get("node_id"), _ENTITY_ID)
    check.text(where, entry, "node_type")
    check.text(where, entry, "label", optional=True)


def _piece(check: _Check, where: str, entry: Mapping[str, Any]) -> None:
    check.fields(
        where,
        entry,
        "piece_id",
        "content",
        "knowledge_type",
        "info_type",
        "tags",
        "entity_id",
        "embedding_text",
    )
    check.id(f"{where}.piece_id", entry.get("piece_id"), _PIECE_ID)
    for name, optional in (("content", False), ("info_type", False), ("embedding_text", True)):
        check.text(where, entry, name, optional)
    if entry.get("knowledge_type") not in KNOWLEDGE_TYPES:
        check.no(
            f"{where}.knowledge_type",
            entry.get("knowledge_type"),
            f"must be one of {', '.join(KNOWLEDGE_TYPES)}",
        )
    for number, tag in enumerate(_part(check, f"{where}.tags", entry.get("tags", []), list)):
        if not isinstance(tag, str) or not tag.strip():
            check.no(f"{where}.tags[{number}]", tag, "must be a text that is not empty")
    _named(
        check,
        f"{where}.entity_id",
        entry.get("entity_id"),
        check.entities,
        "metadata or graph.nodes",
        optional=True,
    )
    if (
        isinstance(entry.get("piece_id"), str)
        and entry["piece_id"] in check.pieces | check.entities
    ):
        check.no(
            f"{where}.piece_id",
            entry["piece_id"],
            "is taken by another entry; every piece needs an id of its own",
        )


def _edge(check: _Check, where: str, entry: Mapping[str, Any]) -> None:
    check.fields(where, entry, "source_id", "target_id", "edge_type", "properties")
    for name in ("source_id", "target_id"):
        _named(check, f"{where}.{name}", entry.get(name), check.entities, "metadata or graph.nodes")
    check.text(where, entry, "edge_type")
    properties = _part(check, f"{where}.properties", entry.get("properties", {}), dict)
    _named(
        check,
        f"{where}.properties.piece_id",
        properties.get("piece_id"),
        check.pieces,
        "pieces",
        optional=True,
    )


def _named(
    check: _Check, where: str, value: object, known: set[str], there: str, optional: bool = False
) -> None:
    if value is None and optional:
        return
    if not isinstance(value, str) or value not in known:
        check.no(where, value, f"is not the id of a valid entry in {there}")
