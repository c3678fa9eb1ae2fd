"""Gather the neighbourhood of entities: relationships, axioms, claims, and their violations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowloom.axioms.checker import AxiomChecker, find_contradictions, parse_rules
from knowloom.axioms.model import Axiom, Violation, claim_fact, entity_fact, relationship_fact
from knowloom.capabilities.graph.entities import EntityHit, Neighbours
from knowloom.capabilities.graph.formats import (
    PROPERTY_DESCRIPTIONS,
    RELATIONSHIPS,
    relationship_hit,
)
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.capabilities.graph.relationships import find_relationships
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Hit, Item, Key, Kind, Problem
from knowloom.recipes import Recipe
from knowloom.retrieval.sources import RetrievalRequest, recipe_filter
from knowloom.tracing import span

MAX_CLAIMS = 1000
MAX_RULES = 500
DEFAULT_CONFIDENCE = 0.5
SEVERITY_WEIGHTS = {"error": 1.0, "warning": 0.9, "info": 0.8}


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The candidates of an answer, each part best first."""

    entities: tuple[EntityHit, ...]
    relationships: tuple[Hit, ...]
    axioms: tuple[tuple[Hit, Axiom], ...]
    claims: tuple[Hit, ...]
    violations: tuple[Violation, ...]
    descriptions: dict[str, dict[str, object]]  # entity type -> property -> description
    subjects: dict[Key, str]  # claim -> subject, also of claims beyond the limit
    problems: tuple[Problem, ...] = ()
    is_limited: bool = False  # relationships or claims exceed the limits


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rule items and the enabled axioms in them."""

    items: Sequence[Item] = ()
    axioms: Sequence[Axiom] = ()


def gather(
    request: RetrievalRequest,
    entities: Sequence[EntityHit],
    options: GraphOptions,
    near: Neighbours,
) -> Neighbourhood:
    """Gather what is stored about the entities and check it. If the graph is unavailable,
    relationships are left out and a problem is recorded."""
    hits = [entity.hit for entity in entities]
    edges, problems = _find_edges(request, hits, options, near)
    shown = edges[: options.max_relationships]
    all_claims, claim_problems = find_claims(request, hits) if options.include_claims else ([], [])
    claims = _claim_hits(all_claims, hits, options)
    rules, rule_problems = _find_rules(request, hits, shown, all_claims, options)
    return Neighbourhood(
        tuple(entities),
        tuple(map(relationship_hit, shown)),
        tuple(_axiom_hits(rules, hits, shown, claims)),
        tuple(claims),
        _find_violations(request, rules.axioms, hits, shown, all_claims),
        _descriptions(rules.items) if options.include_property_descriptions else {},
        {claim.key: claim.subject or "" for claim in all_claims},
        (*problems, *claim_problems, *rule_problems),
        len(edges) > len(shown) or len(all_claims) > len(claims),
    )


def _find_edges(
    request: RetrievalRequest, hits: Sequence[Hit], options: GraphOptions, near: Neighbours
) -> tuple[list[Hit], list[Problem]]:
    try:
        return find_relationships(request, hits, options, near), []
    except (Unavailable, Conflict) as error:
        return [], [Problem.from_error(RELATIONSHIPS, error)]


def _find_rules(
    request: RetrievalRequest,
    hits: Sequence[Hit],
    edges: Sequence[Hit],
    claims: Sequence[Item],
    options: GraphOptions,
) -> tuple[_Rules, list[Problem]]:
    """Find the rules about the types of these entities, relationships and claims."""
    if not (options.include_axioms or options.include_property_descriptions):
        return _Rules(), []
    types = [hit.item.type for hit in hits]
    types += [hit.edge.type for hit in edges if hit.edge]
    types += [type for claim in claims for type in claim_fact(claim).types]
    items, axioms, problems = find_axioms(request, types)
    return _Rules(items, axioms if options.include_axioms else ()), problems


def _find_violations(
    request: RetrievalRequest,
    axioms: Sequence[Axiom],
    hits: Sequence[Hit],
    edges: Sequence[Hit],
    claims: Sequence[Item],
) -> tuple[Violation, ...]:
    names = {hit.item.key: hit.item.name for hit in hits}
    facts = [entity_fact(hit.item) for hit in hits]
    facts += [relationship_fact(hit.edge, names) for hit in edges if hit.edge]
    facts += [claim_fact(claim) for claim in claims]
    items = request.stores.items
    with span("check"):
        checker = AxiomChecker(axioms, lambda keys: {item.key for item in items.get(keys)})
        violations = checker.check(facts, request.query.spaces)
        violations += find_contradictions(claims)
    return tuple(sorted(violations, key=lambda violation: violation.order))


def find_axioms(
    request: RetrievalRequest, types: Sequence[str]
) -> tuple[list[Item], list[Axiom], list[Problem]]:
    """Return the rules about these types, as items and as enabled axioms, and the unusable ones
    as problems."""
    with span("axioms"):
        items, problems = _find_by_subject(request, Kind.RULE, types, MAX_RULES)
        axioms, unusable = parse_rules(items)
    problems += [
        Problem("axioms", f"rule {id!r} of space {space!r} cannot be used: {why}", "invalid_axiom")
        for space, id, why in unusable
    ]
    return items, [axiom for axiom in axioms if axiom.enabled], problems


def find_claims(
    request: RetrievalRequest, entities: Sequence[Hit]
) -> tuple[list[Item], list[Problem]]:
    """Return the active claims about the entities, the most certain first."""
    with span("claims"):
        ids = [hit.item.id for hit in entities]
        items, problems = _find_by_subject(request, Kind.CLAIM, ids, MAX_CLAIMS)
    active = [item for item in items if _is_active(item)]
    return sorted(active, key=lambda item: (-_confidence(item), item.id, item.space)), problems


def _is_active(claim: Item) -> bool:
    properties = claim.properties
    return properties.get("active", True) is not False and properties.get("status") != "invalid"


def _confidence(claim: Item) -> float:
    return DEFAULT_CONFIDENCE if claim.confidence is None else claim.confidence


def _find_by_subject(
    request: RetrievalRequest, kind: Kind, ids: Sequence[str], limit: int
) -> tuple[list[Item], list[Problem]]:
    """Return items with these subjects; more than `limit` of them are a problem."""
    subjects = tuple(sorted({id for id in ids if id}))
    if not subjects:
        return [], []
    filter = replace(recipe_filter(request.query, Recipe("", kinds=(kind,))), subjects=subjects)
    items = request.stores.items.find(filter, limit + 1)
    if len(items) <= limit:
        return items, []
    part = f"{kind.value}s"
    reason = f"only the first {limit:,} {part} about these entities were looked at"
    return items[:limit], [Problem(part, reason, "too_many")]


def _claim_hits(
    claims: Sequence[Item], entities: Sequence[Hit], options: GraphOptions
) -> list[Hit]:
    """Return the best claims of each entity, scored by confidence times the entity's score."""
    scores = {hit.item.id: hit.score for hit in reversed(entities)}
    counts: dict[str, int] = {}
    hits: list[Hit] = []
    for claim in claims:
        subject = claim.subject or ""
        counts[subject] = counts.get(subject, 0) + 1
        if counts[subject] <= options.max_claims_per_entity:
            confidence, score = _confidence(claim), scores[subject]
            signals = {"confidence": confidence, "subject": score}
            hits.append(
                Hit(claim, round(score * confidence, 6), signals, ("subject",), (claim.key,))
            )
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))


def _axiom_hits(
    rules: _Rules, entities: Sequence[Hit], edges: Sequence[Hit], claims: Sequence[Hit]
) -> list[tuple[Hit, Axiom]]:
    """Score each axiom by the best candidate of its type; leave out those without one."""
    pairs = [(("entity", hit.item.type), hit.score) for hit in entities]
    pairs += [(("relationship", hit.edge.type), hit.score) for hit in edges if hit.edge]
    pairs += [(("claim", type), hit.score) for hit in claims for type in claim_fact(hit.item).types]
    best: dict[tuple[str, str], float] = {}
    for target, score in pairs:
        best[target] = max(best.get(target, 0.0), score)
    items = {item.key: item for item in rules.items}
    hits = []
    for axiom in rules.axioms:
        target_score = best.get((axiom.target_kind, axiom.target_type))
        if target_score is not None:
            key = (axiom.space, axiom.id)
            score = round(target_score * SEVERITY_WEIGHTS[axiom.severity], 6)
            hits.append(
                (Hit(items[key], score, {"about": target_score}, ("subject",), (key,)), axiom)
            )
    return sorted(hits, key=lambda pair: (-pair[0].score, pair[1].id, pair[1].space))


def _descriptions(items: Sequence[Item]) -> dict[str, dict[str, object]]:
    """Return the descriptions of properties by entity type."""
    descriptions: dict[str, dict[str, object]] = {}
    for item in items:
        properties = item.properties.get(PROPERTY_DESCRIPTIONS)
        if isinstance(properties, dict) and item.subject:
            descriptions.setdefault(item.subject, {}).update(properties)
    return descriptions
