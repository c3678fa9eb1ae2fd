"""Merge three layers: the chunks of one text with each other, and a text with stored items."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Any

from knowloom import codec
from knowloom.model import Item, Kind
from knowloom.report import Skipped
from knowloom.structuring.schema import Entry, Layers


def merge_chunks(chunks: Sequence[Layers]) -> Layers:
    """Merge the layers of chunks; equal pieces become one, others with the same id get new ids."""
    metadata: dict[str, Any] = {}
    nodes: list[Entry] = []
    pieces: dict[str, Entry] = {}
    edges: list[Entry] = []
    ids_by_content: dict[str, str] = {}
    for chunk in chunks:
        for id, entry in chunk["metadata"].items():
            properties = metadata.get(id, {}).get("properties", {}) | entry.get("properties", {})
            metadata[id] = entry | {"properties": properties}
        node_ids = {node["node_id"] for node in nodes}
        nodes += [node for node in chunk["graph"]["nodes"] if node["node_id"] not in node_ids]
        used = {*pieces, *metadata, *(node["node_id"] for node in nodes)}
        renamed: dict[str, str] = {}
        for piece in chunk["pieces"]:
            content = _content_digest(piece)
            id = ids_by_content.get(content) or unique_id(piece["piece_id"], used)
            renamed[piece["piece_id"]] = id
            if content not in ids_by_content:
                used.add(id)
                ids_by_content[content] = id
                pieces[id] = piece | {"piece_id": id}
        edges += _rename_pieces(chunk["graph"]["edges"], renamed)
    graph = {"nodes": nodes, "edges": _deduplicate(edges)}
    return {"metadata": metadata, "pieces": list(pieces.values()), "graph": graph}


def merge_with_stored(
    layers: Layers, stored: Mapping[str, Item], source: str | None
) -> tuple[Layers, list[Skipped]]:
    """Return the layers to load, so that nothing stored is lost, and the entries left out.

    Profiles keep stored properties that the text does not mention, stored nodes stay as they are,
    and a piece never replaces one about another entity or from another source.
    """
    metadata: dict[str, Any] = {}
    skipped = []
    for id, entry in layers["metadata"].items():
        before = stored.get(id)
        if before is None:
            metadata[id] = entry
        elif not entry.get("properties"):
            continue
        elif before.kind not in (Kind.PROFILE, Kind.ENTITY) or before.text or before.tags:
            problem = f"the {before.kind} of this id has a text or tags, which a profile would lose"
            skipped.append(Skipped(f"metadata[{id!r}]", id, problem))
        else:
            properties = dict(before.properties) | entry["properties"]
            metadata[id] = entry | {"properties": properties}
    nodes = [node for node in layers["graph"]["nodes"] if node["node_id"] not in stored]
    renamed = {
        piece["piece_id"]: _piece_id(piece, stored.get(piece["piece_id"]), source)
        for piece in layers["pieces"]
    }
    extra = {"source": source} if source else {}
    pieces = [
        piece | {"piece_id": renamed[piece["piece_id"]]} | extra for piece in layers["pieces"]
    ]
    graph = {"nodes": nodes, "edges": _rename_pieces(layers["graph"]["edges"], renamed)}
    return {"metadata": metadata, "pieces": pieces, "graph": graph}, skipped


def list_ids(layers: Layers) -> list[str]:
    """Return every id that loading the layers would write."""
    return [
        *layers["metadata"],
        *(node["node_id"] for node in layers["graph"]["nodes"]),
        *(piece["piece_id"] for piece in layers["pieces"]),
    ]


def unique_id(id: str, used: Container[str]) -> str:
    """Return the id, or the first of id-2, id-3 … that is not used."""
    unique, number = id, 1
    while unique in used:
        number += 1
        unique = f"{id}-{number}"
    return unique


def _piece_id(piece: Entry, before: Item | None, source: str | None) -> str:
    """Return the id if it is new or an earlier state of this piece, else one with a digest."""
    id, owner = str(piece["piece_id"]), (piece.get("entity_id"), source or None)
    if before is None or (before.kind is Kind.NODE and (before.subject, before.source) == owner):
        return id
    return f"{id}-{hashlib.blake2b(codec.to_json(owner).encode(), digest_size=4).hexdigest()}"


def _content_digest(piece: Entry) -> str:
    text = " ".join(str(piece["content"]).split())
    return hashlib.sha256(f"{piece.get('entity_id')}\n{text}".encode()).hexdigest()


def _rename_pieces(edges: Sequence[Entry], renamed: Mapping[str, str]) -> list[Entry]:
    """Return the edges with the new ids of the pieces that explain them."""
    result = []
    for edge in edges:
        properties = edge.get("properties", {})
        piece = properties.get("piece_id")
        if piece in renamed:
            edge = {**edge, "properties": {**properties, "piece_id": renamed[piece]}}
        result.append(edge)
    return result


def _deduplicate(edges: Sequence[Entry]) -> list[Entry]:
    """Return the first edge of each source, target and type."""
    first: dict[tuple[str, str, str], Entry] = {}
    for edge in edges:
        first.setdefault((edge["source_id"], edge["target_id"], edge["edge_type"]), edge)
    return list(first.values())
