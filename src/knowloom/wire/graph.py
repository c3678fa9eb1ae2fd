"""Graph contexts as JSON, and back."""

from __future__ import annotations

from knowloom.capabilities.graph.model import GraphAnswer, GraphEntity, Relationship
from knowloom.model import Form, Hit, Item, Kind
from knowloom.wire import JsonObject
from knowloom.wire.axioms import (
    axiom_from_json,
    axiom_to_json,
    violation_from_json,
    violation_to_json,
)
from knowloom.wire.contexts import (
    hit_from_json,
    left_out_from_json,
    left_out_to_json,
    match_to_json,
    passage_from_json,
    passage_to_json,
    problem_to_json,
    problems_from_json,
    stats_from_json,
    stats_to_json,
)
from knowloom.wire.knowledge import edge_from_json, edge_to_json, item_from_json, item_to_json


def graph_to_json(graph: GraphAnswer) -> JsonObject:
    return {
        "text": graph.text,
        "tokens": graph.tokens,
        "query": graph.query,
        "truncated": graph.truncated,
        "entities": [_entity_to_json(entity) for entity in graph.entities],
        "relationships": [_relationship_to_json(link) for link in graph.relationships],
        "axioms": [axiom_to_json(axiom) for axiom in graph.axioms],
        "claims": [_claim_to_json(claim) for claim in graph.claims],
        "violations": [violation_to_json(violation) for violation in graph.violations],
        "left_out": [left_out_to_json(omission) for omission in graph.left_out],
        "degraded": [problem_to_json(problem) for problem in graph.degraded],
        "confidence": graph.confidence,
        "digest": graph.digest,
        "stats": stats_to_json(graph.stats),
    }


def graph_from_json(row: JsonObject) -> GraphAnswer:
    """Return the graph context; omitted items have only the fields that name them."""
    return GraphAnswer(
        text=row["text"],
        tokens=row["tokens"],
        query=row["query"],
        entities=tuple(_entity_from_json(entity) for entity in row["entities"]),
        relationships=tuple(_relationship_from_json(link) for link in row["relationships"]),
        axioms=tuple(axiom_from_json(axiom) for axiom in row["axioms"]),
        claims=tuple(_claim_from_json(claim) for claim in row["claims"]),
        truncated=row["truncated"],
        violations=tuple(violation_from_json(violation) for violation in row["violations"]),
        left_out=tuple(
            left_out_from_json(omission, _item_from_reference(omission))
            for omission in row["left_out"]
        ),
        degraded=problems_from_json(row),
        confidence=row["confidence"],
        digest=row["digest"],
        stats=stats_from_json(row),
    )


def _entity_to_json(entity: GraphEntity) -> JsonObject:
    row: JsonObject = {
        "item": item_to_json(entity.item),
        **match_to_json(entity.hit),
        "matched_terms": list(entity.matched_terms),
        "form": entity.form.value,
        "tokens": entity.tokens,
        "shown_properties": list(entity.shown_properties),
    }
    if entity.passages:
        row["shown"] = [passage_to_json(passage) for passage in entity.passages]
    return row


def _entity_from_json(row: JsonObject) -> GraphEntity:
    return GraphEntity(
        hit_from_json(row, item_from_json(row["item"])),
        tuple(row["matched_terms"]),
        Form(row["form"]),
        row["tokens"],
        tuple(row["shown_properties"]),
        tuple(map(passage_from_json, row.get("shown", ()))),
    )


def _relationship_to_json(relationship: Relationship) -> JsonObject:
    return {
        "from": relationship.source_name,
        "type": relationship.edge.type,
        "to": relationship.target_name,
        "score": relationship.score,
        "edge": edge_to_json(relationship.edge),
    }


def _relationship_from_json(row: JsonObject) -> Relationship:
    return Relationship(edge_from_json(row["edge"]), row["from"], row["to"], row["score"])


def _claim_to_json(hit: Hit) -> JsonObject:
    signals = dict(sorted(hit.signals.items()))
    return {"item": item_to_json(hit.item), "score": hit.score, "signals": signals}


def _claim_from_json(row: JsonObject) -> Hit:
    item = item_from_json(row["item"])
    return Hit(item, row["score"], dict(row["signals"]), ("subject",), (item.key,))


def _item_from_reference(row: JsonObject) -> Item:
    return Item(
        row["id"],
        row["space"],
        Kind(row["kind"]),
        row["type"],
        row["title"],
        section=row["section"],
    )
