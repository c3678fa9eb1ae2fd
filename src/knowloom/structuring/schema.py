"""Validate three layers entry by entry; each problem names its place, for a model to fix it."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from knowloom.loading.three_layer import KNOWLEDGE_TYPES
from knowloom.report import Skipped

Layers = dict[str, Any]
Entry = Mapping[str, Any]

MAX_ID = 200  # characters
_KEBAB = r"[^\W_]+(?:-[^\W_]+)*"
_PIECE_ID = re.compile(_KEBAB)
_ENTITY_ID = re.compile(rf"{_KEBAB}(?::{_KEBAB})?")
_REQUIRED_PIECE_FIELDS = ("piece_id", "content", "knowledge_type", "info_type")
_PIECE_FIELDS = (*_REQUIRED_PIECE_FIELDS, "tags", "entity_id", "embedding_text")
_ENTITY_LAYERS = "metadata or graph.nodes"


@dataclass(slots=True)
class _Validator:
    """The problems so far, and the ids that later entries may refer to."""

    external: frozenset[str]  # entities that need no entry
    problems: list[Skipped] = field(default_factory=list)
    entities: set[str] = field(default_factory=set)
    pieces: set[str] = field(default_factory=set)

    def add(self, where: str, value: object, problem: str) -> None:
        self.problems.append(Skipped(where, reprlib.repr(value), problem))

    def check_text(self, where: str, entry: Entry, name: str, optional: bool = False) -> None:
        value = entry.get(name)
        if value is None and optional:
            return
        if value is None:
            self.add(f"{where}.{name}", value, "is missing")
        elif not isinstance(value, str) or not value.strip():
            self.add(f"{where}.{name}", value, "must be a text that is not empty")

    def check_id(self, where: str, value: object, shape: re.Pattern[str]) -> None:
        if isinstance(value, str):
            if value in self.external:
                return
            if shape.fullmatch(value) and value == value.lower() and len(value) <= MAX_ID:
                return
        example = "user:alice" if shape is _ENTITY_ID else "les-rans-init"
        problem = f"must be kebab-case (lower-case words joined by hyphens), such as {example}"
        self.add(where, value, problem)

    def check_fields(self, where: str, entry: Entry, *names: str) -> None:
        for name in entry:
            if name not in names:
                problem = f"unknown field; available: {', '.join(names)}"
                self.add(f"{where}.{name}", entry[name], problem)

    def check_reference(
        self, where: str, value: object, ids: set[str], layer: str, optional: bool = False
    ) -> None:
        if value is None and optional:
            return
        if not isinstance(value, str) or value not in ids:
            self.add(where, value, f"is not the id of a valid entry in {layer}")

    def as_object(self, where: str, value: object) -> dict[str, Any]:
        """Return the value; report anything but a dict and return an empty one."""
        if isinstance(value, dict):
            return value
        self.add(where, value, "must be an object")
        return {}

    def as_list(self, where: str, value: object) -> list[Any]:
        """Return the value; report anything but a list and return an empty one."""
        if isinstance(value, list):
            return value
        self.add(where, value, "must be a list")
        return []


def validate_layers(
    layers: Mapping[str, Any], external: frozenset[str] = frozenset()
) -> tuple[Layers, list[Skipped]]:
    """Return the valid entries, in their order, and the problems of the others.

    `external` are entities that edges and pieces may refer to without an entry.
    """
    validator = _Validator(external, entities=set(external))
    for name in layers:
        if name not in ("metadata", "pieces", "graph"):
            problem = "unknown layer; available: metadata, pieces, graph"
            validator.add(str(name), layers[name], problem)
    graph = validator.as_object("graph", layers.get("graph", {}))
    validator.check_fields("graph", graph, "nodes", "edges")
    profiles = validator.as_object("metadata", layers.get("metadata", {}))
    metadata = dict(_valid_profiles(validator, profiles))
    nodes = list(_valid_entries(validator, "graph.nodes", graph.get("nodes", []), _check_node))
    pieces = list(_valid_entries(validator, "pieces", layers.get("pieces", []), _check_piece))
    edges = list(_valid_entries(validator, "graph.edges", graph.get("edges", []), _check_edge))
    if not (metadata or nodes or pieces or validator.problems):
        problem = "nothing was extracted: give at least one piece"
        validator.add("pieces", layers.get("pieces"), problem)
    valid = {"metadata": metadata, "pieces": pieces, "graph": {"nodes": nodes, "edges": edges}}
    return valid, validator.problems


def _valid_profiles(
    validator: _Validator, profiles: Mapping[str, Any]
) -> Iterator[tuple[str, Entry]]:
    for id, entry in profiles.items():
        count, where = len(validator.problems), f"metadata[{id!r}]"
        validator.check_id(where, id, _ENTITY_ID)
        if not isinstance(entry, dict):
            validator.add(where, entry, "must be an object with entity_type and properties")
        else:
            validator.check_fields(where, entry, "entity_type", "properties")
            validator.check_text(where, entry, "entity_type")
            validator.as_object(f"{where}.properties", entry.get("properties", {}))
        if len(validator.problems) == count:
            validator.entities.add(id)
            yield id, entry


def _valid_entries(
    validator: _Validator,
    where: str,
    entries: object,
    check: Callable[[_Validator, str, Entry], None],
) -> Iterator[Entry]:
    for number, entry in enumerate(validator.as_list(where, entries)):
        count = len(validator.problems)
        if isinstance(entry, dict):
            check(validator, f"{where}[{number}]", entry)
        else:
            validator.add(f"{where}[{number}]", entry, "must be an object")
        if len(validator.problems) == count:
            _register_ids(validator, entry)
            yield entry


def _register_ids(validator: _Validator, entry: Entry) -> None:
    validator.entities.update(filter(None, [entry.get("node_id")]))
    if "source_id" not in entry:
        validator.pieces.update(filter(None, [entry.get("piece_id")]))


def _check_node(validator: _Validator, where: str, entry: Entry) -> None:
    validator.check_fields(where, entry, "node_id", "node_type", "label")
    validator.check_id(f"{where}.node_id", entry.get("node_id"), _ENTITY_ID)
    validator.check_text(where, entry, "node_type")
    validator.check_text(where, entry, "label", optional=True)


def _check_piece(validator: _Validator, where: str, entry: Entry) -> None:
    validator.check_fields(where, entry, *_PIECE_FIELDS)
    id = entry.get("piece_id")
    validator.check_id(f"{where}.piece_id", id, _PIECE_ID)
    validator.check_text(where, entry, "content")
    validator.check_text(where, entry, "info_type")
    validator.check_text(where, entry, "embedding_text", optional=True)
    type = entry.get("knowledge_type")
    if type not in KNOWLEDGE_TYPES:
        problem = f"must be one of {', '.join(KNOWLEDGE_TYPES)}"
        validator.add(f"{where}.knowledge_type", type, problem)
    for number, tag in enumerate(validator.as_list(f"{where}.tags", entry.get("tags", []))):
        if not isinstance(tag, str) or not tag.strip():
            validator.add(f"{where}.tags[{number}]", tag, "must be a text that is not empty")
    subject, entities = entry.get("entity_id"), validator.entities
    validator.check_reference(f"{where}.entity_id", subject, entities, _ENTITY_LAYERS, True)
    if isinstance(id, str) and id in validator.pieces | validator.entities:
        validator.add(f"{where}.piece_id", id, "duplicate id: another entry has it")


def _check_edge(validator: _Validator, where: str, entry: Entry) -> None:
    validator.check_fields(where, entry, "source_id", "target_id", "edge_type", "properties")
    for name in ("source_id", "target_id"):
        id, entities = entry.get(name), validator.entities
        validator.check_reference(f"{where}.{name}", id, entities, _ENTITY_LAYERS)
    validator.check_text(where, entry, "edge_type")
    place = f"{where}.properties"
    piece = validator.as_object(place, entry.get("properties", {})).get("piece_id")
    validator.check_reference(f"{place}.piece_id", piece, validator.pieces, "pieces", True)
