"""Three-layer dicts brought together: the portions of one text, and a text beside what is already stored."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Any

from knowloom import codec
from knowloom.model import Item, Kind
from knowloom.report import Skipped
from knowloom.structuring.schema import Layers


def merged(parts: Sequence[Layers]) -> Layers:
    """One dict. Pieces with the same content are one; different pieces that chose the same id get different ones."""
    whole: Layers = {"metadata": {}, "pieces": [], "graph": {"nodes": [], "edges": []}}
    contents: dict[str, str] = {}
    for part in parts:
        for id, entry in part["metadata"].items():
            before = whole["metadata"].get(id, {})
            whole["metadata"][id] = entry | {
                "properties": before.get("properties", {}) | entry.get("properties", {})
            }
        nodes = {node["node_id"] for node in whole["graph"]["nodes"]}
        whole["graph"]["nodes"] += [
            node for node in part["graph"]["nodes"] if node["node_id"] not in nodes
        ]
        taken = {piece["piece_id"] for piece in whole["pieces"]} | {
            *whole["metadata"],
            *(node["node_id"] for node in whole["graph"]["nodes"]),
        }
        names: dict[str, str] = {}
        for piece in part["pieces"]:
            known = contents.get(_hash(piece))
            names[piece["piece_id"]] = id = known or free(piece["piece_id"], taken)
            if known is None:
                taken.add(id)
                contents[_hash(piece)] = id
                whole["pieces"].append(piece | {"piece_id": id})
        whole["graph"]["edges"] += _explained_by(part["graph"]["edges"], names)
    return whole | {"graph": whole["graph"] | {"edges": _once(whole["graph"]["edges"])}}


def beside(
    layers: Layers, stored: Mapping[str, Item], source: str | None
) -> tuple[Layers, list[Skipped]]:
    """What to load, so that nothing stored is lost: profiles keep the properties that the text does not mention, known nodes stay as
    they are, and a piece never replaces what is about something else or from another source. What cannot be added is reported."""
    metadata, skipped = {}, []
    for id, entry in layers["metadata"].items():
        before = stored.get(id)
        if before is not None and not entry.get("properties"):
            continue
        if before is not None and (
            before.kind not in (Kind.PROFILE, Kind.ENTITY) or before.text or before.tags
        ):
            skipped.append(
                Skipped(
                    f"metadata[{id!r}]",
                    id,
                    f"the {before.kind} of this id has a text or tags, which a profile would replace",
                )
            )
        else:
            kept: dict[str, Any] = (
                {}
                if before is None
                else {"properties": dict(before.properties) | entry.get("properties", {})}
            )
            metadata[id] = entry | kept
    nodes = [node for node in layers["graph"]["nodes"] if node["node_id"] not in stored]
    names = {
        piece["piece_id"]: _own_id(piece, stored.get(piece["piece_id"]), source)
        for piece in layers["pieces"]
    }
    pieces = [
        piece | {"piece_id": names[piece["piece_id"]]} | ({"source": source} if source else {})
        for piece in layers["pieces"]
    ]
    return {
        "metadata": metadata,
        "pieces": pieces,
        "graph": {"nodes": nodes, "edges": _explained_by(layers["graph"]["edges"], names)},
    }, skipped


def ids(layers: Layers) -> list[str]:
    """Every id that loading would write to."""
    return [
        *layers["metadata"],
        *(node["node_id"] for node in layers["graph"]["nodes"]),
        *(piece["piece_id"] for piece in layers["pieces"]),
    ]


def free(id: str, taken: Container[str]) -> str:
    """The id, or the first of id-2, id-3 … that is not taken."""
    number = 1
    while (found := id if number == 1 else f"{id}-{number}") in taken:
        number += 1
    return found


def _own_id(piece: Mapping[str, Any], before: Item | None, source: str | None) -> str:
    """The id where it is new, or names an earlier state of the same piece; else one that no other source and no other entity gets."""
    id, whose = str(piece["piece_id"]), (piece.get("entity_id"), source or None)
    if before is None or (before.kind is Kind.NODE and (before.subject, before.source) == whose):
        return id
    return f"{id}-{hashlib.blake2b(codec.to_json(whose).encode(), digest_size=4).hexdigest()}"


def _hash(piece: Mapping[str, Any]) -> str:
    text = " ".join(str(piece["content"]).split())
    return hashlib.sha256(f"{piece.get('entity_id')}\n{text}".encode()).hexdigest()


def _explained_by(
    edges: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """The edges, with the new names of the pieces that explain them."""
    renamed = []
    for edge in edges:
        properties = edge.get("properties", {})
        piece = properties.get("piece_id")
        renamed.append(
            edge
            if piece not in names
            else {**edge, "properties": {**properties, "piece_id": names[piece]}}
        )
    return renamed


def _once(edges: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of edges with the same ends and type, the first."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for edge in edges:
        found.setdefault((edge["source_id"], edge["target_id"], edge["edge_type"]), edge)
    return list(found.values())
