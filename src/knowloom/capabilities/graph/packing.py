"""Pack the candidates of a graph context under one budget, as values and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom import tokens
from knowloom.axioms.model import Violation, claim_fact
from knowloom.capabilities.graph import formats
from knowloom.capabilities.graph.formats import (
    AXIOMS,
    CLAIMS,
    ENTITIES,
    RELATIONSHIPS,
    VIOLATIONS,
    graph_layout,
)
from knowloom.capabilities.graph.model import GraphAnswer, GraphEntity, Relationship
from knowloom.capabilities.graph.neighbourhood import Neighbourhood
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.context.packing import TOLERANCE, PackingResult, SectionCandidates, pack
from knowloom.model import Chosen, Form, Hit, Key, LeftOut, Problem, Stats
from knowloom.recipes import Recipe
from knowloom.tracing import span

SHARES = {ENTITIES: 0.6, RELATIONSHIPS: 0.2, AXIOMS: 0.1, CLAIMS: 0.1, VIOLATIONS: 0.05}
BEYOND = "beyond"  # the first word of the reason if a limit left out a candidate
FactKey = tuple[str, str, str]  # kind, space, id
Needs = tuple[tuple[int, ...], ...]  # one candidate of each tuple must be in


def build_answer(
    neighbourhood: Neighbourhood,
    query: str | None,
    options: GraphOptions,
    left_out: Sequence[LeftOut],
    problems: Sequence[Problem],
    stats: Stats,
) -> GraphAnswer:
    """Pack the neighbourhood within the budget of the options."""
    sections = _sections(neighbourhood, options)
    model = tokens.strict_model(options.model, options.strict)
    counter = tokens.get_counter(model)
    layout = graph_layout(options.format, options.entity_separator)
    with span("fit"):
        result = pack(sections, options.max_tokens, layout, counter, TOLERANCE, query or "")
    chosen = {fragment.name: fragment.chosen for fragment in result.fragments}
    entities = _entities(neighbourhood, chosen[ENTITIES])
    unpacked = _restore_hits(result, neighbourhood)
    names = {entity.item.key: entity.item.name for entity in entities}
    axioms = {hit.item.key: axiom for hit, axiom in neighbourhood.axioms}
    claims = {hit.item.key: hit for hit in neighbourhood.claims}
    return GraphAnswer(
        text=result.text,
        tokens=result.tokens,
        query=query,
        entities=entities,
        relationships=tuple(_relationship(choice.hit, names) for choice in chosen[RELATIONSHIPS]),
        axioms=tuple(axioms[choice.hit.item.key] for choice in chosen[AXIOMS]),
        claims=tuple(claims[choice.hit.item.key] for choice in chosen[CLAIMS]),
        truncated=bool(unpacked)
        or neighbourhood.is_limited
        or any(entity.form is not Form.WHOLE for entity in entities)
        or any(left.reason.startswith(BEYOND) for left in left_out),
        violations=_shown_violations(neighbourhood, chosen),
        left_out=(*left_out, *unpacked),
        degraded=tuple(
            dict.fromkeys((*problems, *neighbourhood.problems, *tokens.estimate_notices(model)))
        ),
        stats=replace(
            stats,
            candidates=sum(len(section.hits) for section in sections),
            token_counter=counter.name,
            optimality_gap=result.gap,
        ),
    )


def _sections(neighbourhood: Neighbourhood, options: GraphOptions) -> list[SectionCandidates]:
    """Return the candidates of each section and what they need: relationships both ends, axioms a
    candidate of their type, claims their subject, violations what they are about."""
    hits = [entity.hit for entity in neighbourhood.entities]
    relationships, axioms = neighbourhood.relationships, neighbourhood.axioms
    claims = neighbourhood.claims
    numbers = _number_candidates(neighbourhood)
    by_type = _numbers_by_type(neighbourhood, numbers)
    names = {hit.item.key: hit.item.name for hit in hits}
    names_by_id = {hit.item.id: hit.item.name for hit in reversed(hits)}
    descriptions = neighbourhood.descriptions
    records = {
        ENTITIES: [
            formats.entity_record(hit, options, descriptions.get(hit.item.type, {})) for hit in hits
        ],
        RELATIONSHIPS: [formats.relationship_record(hit, names, options) for hit in relationships],
        AXIOMS: [formats.axiom_record(hit, axiom) for hit, axiom in axioms],
        CLAIMS: [formats.claim_record(hit, names_by_id, options) for hit in claims],
    }
    needs: dict[str, list[Needs]] = {
        ENTITIES: [() for _ in hits],
        RELATIONSHIPS: [_edge_needs(hit, numbers) for hit in relationships],
        AXIOMS: [(tuple(by_type[axiom.target_kind, axiom.target_type]),) for _, axiom in axioms],
        CLAIMS: [((_subject_number(neighbourhood, hit, numbers),),) for hit in claims],
    }
    violations = neighbourhood.violations if options.include_violations else ()
    targets = [_target_number(violation, numbers, neighbourhood) for violation in violations]
    scores = [record.score for section in records.values() for record in section]
    records[VIOLATIONS] = [
        formats.violation_record(violation, scores[target])
        for violation, target in zip(violations, targets, strict=True)
    ]
    needs[VIOLATIONS] = [((target,),) for target in targets]
    return [_section(name, records[name], needs[name]) for name in records]


def _section(name: str, records: Sequence[Hit], needs: Sequence[Needs]) -> SectionCandidates:
    forms = tuple(Form) if name == ENTITIES else (Form.WHOLE,)
    recipe = Recipe(name, share=SHARES[name] if records else 0.0, forms=forms)
    return SectionCandidates(recipe, tuple(records), tuple(needs))


def _number_candidates(neighbourhood: Neighbourhood) -> dict[FactKey, int]:
    """Return the number of each entity, relationship and claim, counted through all sections."""
    entities, relationships = neighbourhood.entities, neighbourhood.relationships
    keys: list[FactKey] = [("entity", *entity.hit.item.key) for entity in entities]
    keys += [("relationship", *hit.item.key) for hit in relationships]
    numbers = {key: number for number, key in enumerate(keys)}
    start = len(keys) + len(neighbourhood.axioms)
    return numbers | {
        ("claim", *hit.item.key): start + number for number, hit in enumerate(neighbourhood.claims)
    }


def _numbers_by_type(
    neighbourhood: Neighbourhood, numbers: Mapping[FactKey, int]
) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of the candidates by the kind and type that axioms target."""
    targets = [("entity", e.hit.item.type, e.hit) for e in neighbourhood.entities]
    targets += [("relationship", hit.item.type, hit) for hit in neighbourhood.relationships]
    targets += [
        ("claim", type, hit) for hit in neighbourhood.claims for type in claim_fact(hit.item).types
    ]
    by_type: dict[tuple[str, str], list[int]] = {}
    for kind, type, hit in targets:
        by_type.setdefault((kind, type), []).append(numbers[kind, hit.item.space, hit.item.id])
    return by_type


def _edge_needs(hit: Hit, numbers: Mapping[FactKey, int]) -> Needs:
    assert hit.edge is not None
    ends = dict.fromkeys((hit.edge.source_key, hit.edge.target_key))
    return tuple((numbers[("entity", *key)],) for key in ends)


def _subject_number(
    neighbourhood: Neighbourhood, claim: Hit, numbers: Mapping[FactKey, int]
) -> int:
    """Return the entity a claim is about: the one of the same space, or the best with that id."""
    id = claim.item.subject or ""
    number = numbers.get(("entity", claim.item.space, id))
    return _entity_number(neighbourhood, id) if number is None else number


def _target_number(
    violation: Violation, numbers: Mapping[FactKey, int], neighbourhood: Neighbourhood
) -> int:
    """Return the candidate a violation is about; for a claim that is none, its subject."""
    number = numbers.get((violation.kind, violation.space, violation.id))
    if number is not None:
        return number
    return _entity_number(neighbourhood, neighbourhood.subjects[violation.space, violation.id])


def _entity_number(neighbourhood: Neighbourhood, id: str) -> int:
    entities = enumerate(neighbourhood.entities)
    return next(number for number, entity in entities if entity.hit.item.id == id)


def _shown_violations(
    neighbourhood: Neighbourhood, chosen: Mapping[str, Sequence[Chosen]]
) -> tuple[Violation, ...]:
    """Return the violations of what is in the answer."""
    kinds = {"entity": ENTITIES, "relationship": RELATIONSHIPS}
    shown = {
        (kind, *choice.hit.item.key) for kind, name in kinds.items() for choice in chosen[name]
    }
    ids = {choice.hit.item.id for choice in chosen[ENTITIES]}
    subjects = neighbourhood.subjects
    return tuple(
        violation
        for violation in neighbourhood.violations
        if (violation.kind, violation.space, violation.id) in shown
        or (violation.kind == "claim" and subjects[violation.space, violation.id] in ids)
    )


def _entities(neighbourhood: Neighbourhood, chosen: Sequence[Chosen]) -> tuple[GraphEntity, ...]:
    candidates = {entity.hit.item.key: entity for entity in neighbourhood.entities}
    entities = []
    for choice in chosen:
        entity = candidates[choice.hit.item.key]
        properties = choice.hit.item.properties.get("properties", ())
        shown = tuple(properties) if choice.form is Form.WHOLE else ()
        values = (entity.matched_terms, choice.form, choice.tokens, shown, choice.passages)
        entities.append(GraphEntity(entity.hit, *values))
    return tuple(entities)


def _relationship(record: Hit, names: Mapping[Key, str]) -> Relationship:
    edge = record.edge
    assert edge is not None
    return Relationship(edge, names[edge.source_key], names[edge.target_key], record.score)


def _restore_hits(result: PackingResult, neighbourhood: Neighbourhood) -> list[LeftOut]:
    """Return what was left out with the original hits in place of their records."""
    hits: dict[str, Sequence[Hit]] = {
        ENTITIES: [entity.hit for entity in neighbourhood.entities],
        RELATIONSHIPS: neighbourhood.relationships,
        CLAIMS: neighbourhood.claims,
        AXIOMS: [hit for hit, _ in neighbourhood.axioms],
    }
    originals = {(name, hit.item.key): hit for name in hits for hit in hits[name]}
    return [
        replace(left, hit=originals.get((left.fragment, left.hit.item.key), left.hit))
        for left in result.left_out
    ]
