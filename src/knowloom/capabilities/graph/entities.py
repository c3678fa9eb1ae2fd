"""Which entities belong to a request, and what is known of them: links, rules, claims. Every source is asked once, never per entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from knowloom.axioms.checker import parse_rules
from knowloom.axioms.model import Axiom
from knowloom.capabilities.graph.documents import QueryText
from knowloom.capabilities.graph.options import GraphOptions, resolve_ranker
from knowloom.capabilities.graph.rankers import EntityScore, RankingRequest
from knowloom.construction import maker
from knowloom.errors import Invalid
from knowloom.model import MADE, Edge, Hit, Item, Key, Kind, Problem
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import search
from knowloom.retrieval.neighbours import LIGHTEST, expand
from knowloom.retrieval.ranking import rescored
from knowloom.retrieval.sources import RetrievalRequest, allowed
from knowloom.tracing import span

OVERFETCH = 3  # candidates of the search per entity wanted: the ranker may see them differently
SPARE = (
    10  # neighbours more than there are entities wanted: by their own score they may pass others
)
HUB_CAP = 30  # links followed per entity and direction, heaviest first
MAX_CLAIMS = 1000
MAX_RULES = 500
PROBED_HUBS, PROBED_TYPES = (
    8,
    12,
)  # links between two hubs may be hidden behind heavier ones: these are asked for by name
_SOURCE, _TARGET = attrgetter("source"), attrgetter("target")


@dataclass(frozen=True, slots=True)
class EntityHit:
    """A candidate entity with the terms it matched. `raw` orders those whose scores are cut at 1."""

    hit: Hit
    matched_terms: tuple[str, ...] = ()
    raw: float = 0.0

    @property
    def order(self) -> tuple[float, float, str, str]:
        return (-self.hit.score, -self.raw, self.hit.item.id, self.hit.item.space)


_found = maker(EntityHit)


def entity_recipe(options: GraphOptions) -> Recipe:
    return Recipe(
        "entities",
        kinds=(Kind.ENTITY,),
        types=options.entity_types or (),
        exclude_types=options.exclude_entity_types,
        mode=options.mode,
        limit=max(1, OVERFETCH * options.max_entities),
        depth=options.relationship_depth,
        hub_cap=HUB_CAP,
    )


def search_entities(
    asked: RetrievalRequest, reading: QueryText, options: GraphOptions
) -> tuple[list[EntityHit], int]:
    """Entities that a text is about, best first, and how many items the indexes looked at."""
    if not options.max_entities:
        return [], 0
    with span("search"):
        vector = None if options.mode == "bm25" else asked.vector
        result = search(
            reading.query,
            vector,
            allowed(asked.query, entity_recipe(options)),
            entity_recipe(options),
            stores=asked.stores,
        )
    with span("rank"):
        return _kept(
            rank_entities(asked, reading, options, result.hits), options
        ), result.considered


def rank_entities(
    asked: RetrievalRequest, reading: QueryText, options: GraphOptions, hits: Sequence[Hit]
) -> list[EntityHit]:
    """The hits with the ranker's scores, in their order. The score of the search stays among the signals."""
    if not hits:
        return []
    chosen = resolve_ranker(options)
    wanted = getattr(chosen, "by_meaning", True)
    semantic = (
        None
        if asked.vector is None or not wanted
        else asked.stores.vectors.score_vectors(asked.vector, [hit.item.key for hit in hits])
    )
    scores = chosen.rank(
        RankingRequest(
            reading.passages, reading.text, asked.query.now, options.preferred_types, semantic
        ),
        hits,
    )
    if len(scores) != len(hits):
        raise Invalid(f"the ranker gave {len(scores)} scores for {len(hits)} entities")
    return [
        _found(_scored(hit, one), one.matched_terms, one.raw)
        for hit, one in zip(hits, scores, strict=True)
    ]


def _scored(hit: Hit, one: EntityScore) -> Hit:
    if not 0 <= one.score <= 1:
        raise Invalid(
            f"the ranker gave {hit.item.id!r} the score {one.score!r}; scores are from 0 to 1"
        )
    return rescored(hit, one.score, {**hit.signals, "match": hit.score, **one.signals})


def _kept(found: Sequence[EntityHit], options: GraphOptions) -> list[EntityHit]:
    return sorted(
        (
            one
            for one in found
            if one.hit.score >= options.min_relevance_score and one.hit.score > 0
        ),
        key=lambda one: one.order,
    )


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Entities that links lead to, best first, how many were reached and how far. The links of the starts were read for it: they are kept,
    as those between entities are among them."""

    found: tuple[EntityHit, ...] = ()
    reached: int = 0
    depth: int = 0
    starts: tuple[Key, ...] = ()
    links: tuple[Edge, ...] = ()


def expand_neighbours(
    asked: RetrievalRequest, starts: Sequence[EntityHit], reading: QueryText, options: GraphOptions
) -> Neighbours:
    """A neighbour is worth what its link makes of its start, or what it is worth to the request by itself, whichever is more."""
    if not starts or not options.relationship_depth:
        return Neighbours()
    worth = {one.hit.item.key: one.hit.score for one in starts}
    with span("neighbours"):
        wanted = replace(entity_recipe(options), limit=options.max_entities + SPARE)
        reached = expand(
            list(worth),
            allowed(asked.query, wanted),
            wanted,
            items=asked.stores.items,
            graph=asked.stores.graph,
            sure=True,
        )
    own = (
        rank_entities(asked, reading, options, reached.hits)
        if reading.text
        else [EntityHit(rescored(hit, 0.0, hit.signals)) for hit in reached.hits]
    )
    found = [
        _linked(one, way, worth[way.path[0]]) for one, way in zip(own, reached.hits, strict=True)
    ]
    return Neighbours(
        tuple(_kept(found, options)),
        reached.reached,
        reached.max_depth,
        tuple(worth),
        reached.first,
    )


def _linked(own: EntityHit, way: Hit, start: float) -> EntityHit:
    linked = round(start * way.score, 6)
    signals = {**own.hit.signals, "graph": way.score, "link_start": start}
    signals.pop("match", None)
    return _found(
        rescored(own.hit, max(own.hit.score, linked), signals),
        own.matched_terms,
        max(own.raw, linked),
    )


def find_relationships(
    asked: RetrievalRequest, entities: Sequence[Hit], options: GraphOptions, near: Neighbours
) -> list[Hit]:
    """The links between these entities, best first: a link is worth its weight, times the lesser of its ends."""
    if not entities or not options.include_relationships or not options.max_relationships:
        return []
    scores = {hit.item.key: hit.score for hit in entities}
    ids = {id for _, id in scores}
    with span("links"):
        # What people said, not what knowloom noticed; a weight of 0 forbids a link.
        known = _known(near).intersection(scores)
        others = [key for key in scores if key not in known]
        read = (
            asked.stores.graph.edges_of(
                others, asked.query.spaces, (), HUB_CAP, LIGHTEST, made=False
            )
            if others
            else []
        )
        hidden = _between_hubs(asked, near, known, read, others)
        # By ids first, which are at hand: nearly all links lead elsewhere.
        inside = [
            edge
            for edge in (*near.links, *read, *hidden)
            if edge.source in ids and edge.target in ids and edge.origin != MADE and edge.weight > 0
        ]
        between = [
            edge for edge in inside if edge.source_key in scores and edge.target_key in scores
        ]
        edges = {edge.key: edge for edge in between if edge.known_at(asked.query.as_of)}
    hits = [
        Hit(
            Item("", edge.space),
            round(min(scores[edge.source_key], scores[edge.target_key]) * edge.weight, 6),
            edge=edge,
        )
        for edge in edges.values()
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.edge.key if hit.edge else ()))


def _known(near: Neighbours) -> set[Key]:
    """The starts whose links have all been read: as many as were asked for may not be all."""
    leaving, arriving = Counter(map(_SOURCE, near.links)), Counter(map(_TARGET, near.links))
    return {key for key in near.starts if leaving[key[1]] < HUB_CAP and arriving[key[1]] < HUB_CAP}


def _between_hubs(
    asked: RetrievalRequest,
    near: Neighbours,
    known: set[Key],
    read: Sequence[Edge],
    keys: Sequence[Key],
) -> list[Edge]:
    """Of an entity with more links than were read, those to another such entity may be missing. `read` are the links of the keys."""
    leaving, arriving = (
        Counter(edge.source_key for edge in read),
        Counter(edge.target_key for edge in read),
    )
    sources, targets = (
        [key for key in keys if counts[key] >= HUB_CAP][:PROBED_HUBS]
        for counts in (leaving, arriving)
    )
    if not sources or not targets:
        return []
    touching = [
        edge
        for edge in near.links
        if edge.origin != MADE and (edge.source_key in known or edge.target_key in known)
    ]
    types = sorted({edge.type for edge in (*touching, *read)})[:PROBED_TYPES]
    return asked.stores.graph.get_edges(
        [(source, target, type) for source in sources for target in targets for type in types]
    )


def find_axioms(
    asked: RetrievalRequest, types: Sequence[str]
) -> tuple[list[Item], list[Axiom], list[Problem]]:
    """The rules of these types, as items and as axioms, and what is wrong with those that cannot be used."""
    with span("axioms"):
        items, problems = _subject_items(asked, Kind.RULE, types, MAX_RULES)
        axioms, wrong = parse_rules(items)
    problems += [
        Problem("axioms", f"rule {id!r} of space {space!r} cannot be used: {why}", "invalid_axiom")
        for space, id, why in wrong
    ]
    return items, [axiom for axiom in axioms if axiom.enabled], problems


def find_claims(
    asked: RetrievalRequest, entities: Sequence[Hit]
) -> tuple[list[Item], list[Problem]]:
    """All active claims about the entities, the surest first."""
    with span("claims"):
        found, problems = _subject_items(
            asked, Kind.CLAIM, [hit.item.id for hit in entities], MAX_CLAIMS
        )
    live = [
        one
        for one in found
        if one.properties.get("active", True) is not False
        and one.properties.get("status") != "invalid"
    ]
    return sorted(
        live,
        key=lambda one: (-(0.5 if one.confidence is None else one.confidence), one.id, one.space),
    ), problems


def _subject_items(
    asked: RetrievalRequest, kind: Kind, about: Sequence[str], most: int
) -> tuple[list[Item], list[Problem]]:
    """Items about these subjects. That there are more than can be looked at is a problem, not a secret."""
    subjects = tuple(sorted({one for one in about if one}))
    if not subjects:
        return [], []
    found = asked.stores.items.find(
        replace(allowed(asked.query, Recipe("", kinds=(kind,))), subjects=subjects), most + 1
    )
    more = (
        [
            Problem(
                f"{kind.value}s",
                f"only the first {most:,} {kind.value}s about these entities were looked at",
                "too_many",
            )
        ]
        if len(found) > most
        else []
    )
    return found[:most], more
