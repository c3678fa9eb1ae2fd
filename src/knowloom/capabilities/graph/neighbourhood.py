"""What belongs to the candidate entities: links, rules, claims, and what is wrong with any of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowloom.axioms.checker import AxiomChecker, find_contradictions
from knowloom.axioms.model import Axiom, Violation, claim_fact, entity_fact, relationship_fact
from knowloom.capabilities.graph import entities as find
from knowloom.capabilities.graph import formats
from knowloom.capabilities.graph.entities import EntityHit, Neighbours
from knowloom.capabilities.graph.formats import RELATIONSHIPS
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Hit, Item, Key, Problem
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.tracing import span

SEVERITY_WORTH = {"error": 1.0, "warning": 0.9, "info": 0.8}


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """All that an answer may be made of, each part best first."""

    entities: tuple[EntityHit, ...]
    links: tuple[Hit, ...]
    axioms: tuple[tuple[Hit, Axiom], ...]
    claims: tuple[Hit, ...]
    violations: tuple[Violation, ...]
    descriptions: dict[str, dict[str, object]]  # by entity type: what properties mean
    subjects: dict[Key, str]  # of every claim that was looked at
    problems: tuple[Problem, ...] = ()
    more: bool = False  # links or claims beyond the limits


def gather(
    asked: RetrievalRequest, entities: Sequence[EntityHit], options: GraphOptions, near: Neighbours
) -> Neighbourhood:
    """What is known of the entities, and what is wrong with it. A graph that is down leaves the links out, and says so."""
    hits = [one.hit for one in entities]
    problems: list[Problem] = []
    try:
        links = find.find_relationships(asked, hits, options, near)
    except (Unavailable, Conflict) as error:
        problems.append(Problem(RELATIONSHIPS, str(error), error.code))
        links = []
    all_claims, doubts = find.find_claims(asked, hits) if options.include_claims else ([], [])
    claims = _claim_hits(all_claims, hits, options)
    shown = links[: options.max_relationships]
    types = (
        [hit.item.type for hit in hits]
        + [hit.edge.type for hit in shown if hit.edge]
        + [type for one in all_claims for type in claim_fact(one).types]
    )
    wanted = options.include_axioms or options.include_property_descriptions
    items, axioms, wrong = find.find_axioms(asked, types) if wanted else ([], [], [])
    problems += [*doubts, *wrong]
    axioms = axioms if options.include_axioms else []
    by_key = {item.key: item for item in items}
    names = {hit.item.key: hit.item.name for hit in hits}
    facts = (
        [entity_fact(hit.item) for hit in hits]
        + [relationship_fact(hit.edge, names) for hit in shown if hit.edge]
        + [claim_fact(one) for one in all_claims]
    )
    with span("check"):
        judge = AxiomChecker(
            axioms, lambda keys: {item.key for item in asked.stores.items.get(keys)}
        )
        violations = [
            *judge.violations(facts, asked.query.spaces),
            *find_contradictions(all_claims),
        ]
    return Neighbourhood(
        tuple(entities),
        tuple(formats.relationship_hit(hit) for hit in shown),
        tuple(_axiom_hits(axioms, by_key, hits, shown, claims)),
        tuple(claims),
        tuple(sorted(violations, key=lambda one: one.order)),
        _descriptions(items) if options.include_property_descriptions else {},
        {one.key: one.subject or "" for one in all_claims},
        tuple(problems),
        len(links) > len(shown) or len(all_claims) > len(claims),
    )


def _claim_hits(found: Sequence[Item], entities: Sequence[Hit], options: GraphOptions) -> list[Hit]:
    scores = {hit.item.id: hit.score for hit in reversed(entities)}
    counts: dict[str, int] = {}
    hits: list[Hit] = []
    for one in found:
        subject = one.subject or ""
        counts[subject] = counts.get(subject, 0) + 1
        if counts[subject] <= options.max_claims_per_entity:
            sure = 0.5 if one.confidence is None else one.confidence
            hits.append(
                Hit(
                    one,
                    round(scores[subject] * sure, 6),
                    {"confidence": sure, "subject": scores[subject]},
                    ("subject",),
                    (one.key,),
                )
            )
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))


def _axiom_hits(
    axioms: Sequence[Axiom],
    items: dict[Key, Item],
    entities: Sequence[Hit],
    links: Sequence[Hit],
    claims: Sequence[Hit],
) -> list[tuple[Hit, Axiom]]:
    """An axiom is worth as much as the best thing it is about; about nothing here, it is left out."""
    best: dict[tuple[str, str], float] = {}
    pairs = [(("entity", hit.item.type), hit.score) for hit in entities]
    pairs += [(("relationship", hit.edge.type), hit.score) for hit in links if hit.edge]
    pairs += [(("claim", type), hit.score) for hit in claims for type in claim_fact(hit.item).types]
    for about, score in pairs:
        best[about] = max(best.get(about, 0.0), score)
    found = []
    for axiom in axioms:
        worth = best.get((axiom.target_kind, axiom.target_type))
        if worth is not None:
            score = round(worth * SEVERITY_WORTH[axiom.severity], 6)
            found.append(
                (
                    Hit(
                        items[axiom.space, axiom.id],
                        score,
                        {"about": worth},
                        ("subject",),
                        ((axiom.space, axiom.id),),
                    ),
                    axiom,
                )
            )
    return sorted(found, key=lambda pair: (-pair[0].score, pair[1].id, pair[1].space))


def _descriptions(items: Sequence[Item]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for item in items:
        said = item.properties.get(formats.PROPERTY_DESCRIPTIONS)
        if isinstance(said, dict) and item.subject:
            found.setdefault(item.subject, {}).update(said)
    return found
