"""The best of what was gathered, fitted under one budget: as values and as text."""

from __future__ import annotations

from collections.abc import Sequence
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
from knowloom.context.packing import Fitted, Part, fit
from knowloom.model import Chosen, Form, Hit, Key, LeftOut, Stats
from knowloom.recipes import Recipe
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.tracing import span

SHARES = {ENTITIES: 0.6, RELATIONSHIPS: 0.2, AXIOMS: 0.1, CLAIMS: 0.1, VIOLATIONS: 0.05}
TOLERANCE = 0.01  # of the worth: where links and rules need entities, the very best set would cost many more tables
BEYOND = "beyond"  # begins the reason of what a limit on numbers left out
Place = tuple[str, str, str]  # what a fact is, its space, its id


def build_answer(
    asked: RetrievalRequest,
    matter: Neighbourhood,
    query: str | None,
    options: GraphOptions,
    left_out: Sequence[LeftOut],
    stats: Stats,
) -> GraphAnswer:
    parts = _parts(matter, options)
    counter = tokens.counter(options.model)
    with span("fit"):
        fitted = fit(
            parts,
            options.max_tokens,
            graph_layout(options.format, options.entity_separator),
            counter,
            TOLERANCE,
        )
    chosen = {fragment.name: fragment.chosen for fragment in fitted.fragments}
    entities = _entities(matter, chosen[ENTITIES])
    absent = _left_out(fitted, matter)
    axioms = {hit.item.key: axiom for hit, axiom in matter.axioms}
    claims = {hit.item.key: hit for hit in matter.claims}
    names = {one.item.key: one.item.name for one in entities}
    return GraphAnswer(
        text=fitted.text,
        tokens=fitted.tokens,
        query=query,
        entities=entities,
        relationships=tuple(_relationship(one.hit, names) for one in chosen[RELATIONSHIPS]),
        axioms=tuple(axioms[one.hit.item.key] for one in chosen[AXIOMS]),
        claims=tuple(claims[one.hit.item.key] for one in chosen[CLAIMS]),
        truncated=bool(absent)
        or matter.more
        or _shortened(chosen[ENTITIES])
        or any(one.reason.startswith(BEYOND) for one in left_out),
        violations=_violations(matter, chosen),
        left_out=(*left_out, *absent),
        degraded=(*asked.problems, *matter.problems),
        stats=replace(
            stats,
            candidates=sum(len(part.hits) for part in parts),
            token_counter=counter.name,
            optimality_gap=fitted.gap,
        ),
    )


def _parts(matter: Neighbourhood, options: GraphOptions) -> list[Part]:
    """Links need both of their ends, axioms one of what they are about, claims their subject, notes what they are about."""
    hits = [one.hit for one in matter.entities]
    names = {hit.item.key: hit.item.name for hit in hits}
    names_by_id = {hit.item.id: hit.item.name for hit in reversed(hits)}
    places = _places(matter)
    notes = matter.violations if options.include_violations else ()
    scores = [
        hit.score
        for hit in (*hits, *matter.links, *(hit for hit, _ in matter.axioms), *matter.claims)
    ]
    by_type = _by_type(matter)
    return [
        _part(
            ENTITIES,
            [
                formats.entity_record(hit, options, matter.descriptions.get(hit.item.type, {}))
                for hit in hits
            ],
            [() for _ in hits],
        ),
        _part(
            RELATIONSHIPS,
            [formats.relationship_record(hit, names, options) for hit in matter.links],
            [_ends(hit, places) for hit in matter.links],
        ),
        _part(
            AXIOMS,
            [formats.axiom_record(hit, axiom) for hit, axiom in matter.axioms],
            [(tuple(by_type[axiom.target_kind, axiom.target_type]),) for _, axiom in matter.axioms],
        ),
        _part(
            CLAIMS,
            [formats.claim_record(hit, names_by_id, options) for hit in matter.claims],
            [((_subject(matter, hit, places),),) for hit in matter.claims],
        ),
        _part(
            VIOLATIONS,
            [formats.violation_record(one, scores[_about(one, places, matter)]) for one in notes],
            [((_about(one, places, matter),),) for one in notes],
        ),
    ]


def _part(name: str, hits: Sequence[Hit], needs: Sequence[tuple[tuple[int, ...], ...]]) -> Part:
    forms = (Form.WHOLE, Form.SUMMARY, Form.POINTER) if name == ENTITIES else (Form.WHOLE,)
    return Part(
        Recipe(name, share=SHARES[name] if hits else 0.0, forms=forms), tuple(hits), tuple(needs)
    )


def _places(matter: Neighbourhood) -> dict[Place, int]:
    """The number of each candidate, counted through all parts."""
    found: dict[Place, int] = {
        ("entity", *one.hit.item.key): number for number, one in enumerate(matter.entities)
    }
    found |= {
        ("relationship", *hit.item.key): len(matter.entities) + number
        for number, hit in enumerate(matter.links)
    }
    before = len(matter.entities) + len(matter.links) + len(matter.axioms)
    return found | {
        ("claim", *hit.item.key): before + number for number, hit in enumerate(matter.claims)
    }


def _by_type(matter: Neighbourhood) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    places = _places(matter)
    pairs = [("entity", one.hit.item.type, one.hit) for one in matter.entities]
    pairs += [("relationship", hit.item.type, hit) for hit in matter.links]
    pairs += [("claim", type, hit) for hit in matter.claims for type in claim_fact(hit.item).types]
    for kind, type, hit in pairs:
        found.setdefault((kind, type), []).append(places[kind, hit.item.space, hit.item.id])
    return found


def _ends(hit: Hit, places: dict[Place, int]) -> tuple[tuple[int, ...], ...]:
    assert hit.edge is not None
    return tuple(
        (places[("entity", *key)],)
        for key in dict.fromkeys((hit.edge.source_key, hit.edge.target_key))
    )


def _subject(matter: Neighbourhood, claim: Hit, places: dict[Place, int]) -> int:
    """The entity a claim is about: of its own space, or the best of that id."""
    id = claim.item.subject or ""
    own = places.get(("entity", claim.item.space, id))
    return (
        own
        if own is not None
        else next(number for number, one in enumerate(matter.entities) if one.hit.item.id == id)
    )


def _about(one: Violation, places: dict[Place, int], matter: Neighbourhood) -> int:
    """What a violation is about. A claim that is no candidate stands for the entity it is about."""
    found = places.get((one.kind, one.space, one.id))
    if found is None:
        subject = matter.subjects[one.space, one.id]
        found = next(
            number for number, other in enumerate(matter.entities) if other.hit.item.id == subject
        )
    return found


def _violations(
    matter: Neighbourhood, chosen: dict[str, tuple[Chosen, ...]]
) -> tuple[Violation, ...]:
    """Those of what is in the answer."""
    kinds = {"entity": ENTITIES, "relationship": RELATIONSHIPS}
    shown = {
        (kind, one.hit.item.space, one.hit.item.id)
        for kind, name in kinds.items()
        for one in chosen[name]
    }
    ids = {one.hit.item.id for one in chosen[ENTITIES]}
    return tuple(
        one
        for one in matter.violations
        if (one.kind, one.space, one.id) in shown
        or (one.kind == "claim" and matter.subjects[one.space, one.id] in ids)
    )


def _entities(matter: Neighbourhood, chosen: Sequence[Chosen]) -> tuple[GraphEntity, ...]:
    found = {one.hit.item.key: one for one in matter.entities}
    pairs = [(found[one.hit.item.key], one) for one in chosen]
    return tuple(
        GraphEntity(own.hit, own.matched_terms, one.form, one.tokens, _named(one))
        for own, one in pairs
    )


def _named(one: Chosen) -> tuple[str, ...]:
    return tuple(one.hit.item.properties.get("properties", ())) if one.form is Form.WHOLE else ()


def _relationship(card: Hit, names: dict[Key, str]) -> Relationship:
    edge = card.edge
    assert edge is not None
    return Relationship(edge, names[edge.source_key], names[edge.target_key], card.score)


def _shortened(chosen: Sequence[Chosen]) -> bool:
    return any(one.form is not Form.WHOLE for one in chosen)


def _left_out(fitted: Fitted, matter: Neighbourhood) -> list[LeftOut]:
    """With the things themselves in place of their cards."""
    found: dict[tuple[str, Key], Hit] = {
        (ENTITIES, one.hit.item.key): one.hit for one in matter.entities
    }
    found |= {(RELATIONSHIPS, hit.item.key): hit for hit in matter.links} | {
        (CLAIMS, hit.item.key): hit for hit in matter.claims
    }
    found |= {(AXIOMS, hit.item.key): hit for hit, _ in matter.axioms}
    return [
        replace(one, hit=found.get((one.fragment, one.hit.item.key), one.hit))
        for one in fitted.left_out
    ]
