"""Provisions, which are knowledge by prompt section, as JSON, and back."""

from __future__ import annotations

from knowloom.capabilities.provider.model import Provision, Relation, Retrieval, Unshown
from knowloom.model import Edge, Hit, Item
from knowloom.wire import JsonObject
from knowloom.wire.contexts import problem_to_json, problems_from_json


def provision_to_json(provision: Provision) -> JsonObject:
    """Return the sections in prompt order and their sources, without item texts."""
    retrieval = provision.retrieval
    return {
        "sections": dict(provision.sections),
        "tokens": provision.tokens,
        "token_counter": provision.token_counter,
        "entity_id": retrieval.entity_id,
        "pieces": [_piece_to_json(hit) for hit in retrieval.pieces],
        "graph_context": [_relation_to_json(relation) for relation in retrieval.graph_context],
        "left_out": [_unshown_to_json(omission) for omission in provision.left_out],
        "confidence": retrieval.confidence,
        "degraded": [problem_to_json(problem) for problem in provision.degraded],
    }


def provision_from_json(query: str, row: JsonObject) -> Provision:
    problems = problems_from_json(row)
    retrieval = Retrieval(
        query,
        row["entity_id"],
        pieces=tuple(_piece_from_json(piece) for piece in row["pieces"]),
        graph_context=tuple(_relation_from_json(relation) for relation in row["graph_context"]),
        degraded=problems,
        confidence=row["confidence"],
    )
    left_out = tuple(Unshown(**omission) for omission in row["left_out"])
    return Provision(
        dict(row["sections"]), row["tokens"], row["token_counter"], retrieval, left_out, problems
    )


def _piece_to_json(hit: Hit) -> JsonObject:
    return {
        "id": hit.item.id,
        "space": hit.item.space,
        "type": hit.item.type,
        "section": hit.item.section,
        "score": hit.score,
        "found_by": list(hit.found_by),
    }


def _piece_from_json(row: JsonObject) -> Hit:
    item = Item(row["id"], row["space"], type=row["type"], section=row["section"])
    return Hit(item, row["score"], {}, tuple(row["found_by"]), (item.key,))


def _relation_to_json(relation: Relation) -> JsonObject:
    return {
        "type": relation.type,
        "source": relation.edge.source,
        "target": relation.edge.target,
        "depth": relation.depth,
        "score": relation.score,
        "piece_id": None if relation.piece is None else relation.piece[1],
    }


def _relation_from_json(row: JsonObject) -> Relation:
    """Return the relation without spaces, which are not sent; the weight follows from the score."""
    weight = round(row["score"] * row["depth"], 6)
    edge = Edge(row["source"], row["target"], row["type"], weight, item_id=row["piece_id"])
    return Relation(
        edge, row["depth"], row["score"], Item(row["source"], ""), Item(row["target"], "")
    )


def _unshown_to_json(omission: Unshown) -> JsonObject:
    return {
        "section": omission.section,
        "kind": omission.kind,
        "id": omission.id,
        "space": omission.space,
        "score": omission.score,
        "tokens": omission.tokens,
    }
