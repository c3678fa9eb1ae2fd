"""Three layers side by side: profiles by key, pieces by search, links by walking out from the entity; merged into one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from knowloom.capabilities.provider.model import Relation, Retrieval
from knowloom.engine import Engine
from knowloom.errors import Conflict, Unavailable
from knowloom.model import Edge, EdgeKey, Filter, Hit, Item, Key, Kind, Problem
from knowloom.options import MAX_LIMIT
from knowloom.ports import Stores
from knowloom.recipes import Mode, Recipe
from knowloom.retrieval.neighbours import LIGHTEST
from knowloom.retrieval.sources import EVERYBODY

Scope = Literal["entity", "all"]
READABLE = (Kind.NODE, Kind.MEMORY, Kind.CLAIM, Kind.RULE)
WIDER = 4  # times as many candidates are looked at when too many of them belong to other entities


@dataclass(frozen=True, slots=True)
class Wanted:
    """One retrieval, complete."""

    query: str
    spaces: tuple[str, ...]
    now: datetime
    entity_id: str | None = None
    top_k: int = 10  # pieces that the search may give
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mode: Mode = "hybrid"
    min_score: float = 0.0
    scope: Scope = "entity"  # whose pieces the search may give: the entity's and those of nobody, or everybody's
    graph_traversal_depth: int = 2
    graph_limit: int = 50  # links, at most
    edge_types: tuple[str, ...] = ()
    as_of: datetime | None = None

    def only(self, *kinds: Kind) -> Filter:
        return Filter(self.spaces, kinds, created_to=self.as_of, valid_at=self.as_of or self.now)


@dataclass(frozen=True, slots=True)
class Found:
    """What one layer gave, and which state of the knowledge it saw."""

    metadata: tuple[Item, ...] = ()
    global_metadata: tuple[Item, ...] = ()
    pieces: tuple[Hit, ...] = ()
    relations: tuple[Relation, ...] = ()
    problems: tuple[Problem, ...] = ()
    state: tuple[tuple[str, str], ...] = ()


def retrieve(kb: Engine, wanted: Wanted) -> Retrieval:
    """All layers at once, each in a thread. If a write came in between, once more in this one, so that they agree."""
    with ThreadPoolExecutor(len(LAYERS), "knowloom-provider") as threads:
        found = list(threads.map(lambda name: _layer(name, kb, wanted), LAYERS))
    if len({one.state for one in found if one.state}) > 1:
        with kb.reading():
            found = [_layer(name, kb, wanted) for name in LAYERS]
    return Retrieval(
        wanted.query,
        wanted.entity_id,
        tuple(item for one in found for item in one.metadata),
        tuple(item for one in found for item in one.global_metadata),
        merged([hit for one in found for hit in one.pieces]),
        tuple(relation for one in found for relation in one.relations),
        tuple(problem for one in found for problem in one.problems),
    )


def merged(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Each item once with its higher score and all that led to it, ordered by (-score, id, space)."""
    best: dict[Key, Hit] = {}
    for hit in hits:
        before = best.get(hit.item.key)
        if before is not None:
            high, low = (before, hit) if before.score >= hit.score else (hit, before)
            found_by = tuple(sorted({*high.found_by, *low.found_by}))
            hit = replace(high, signals={**low.signals, **high.signals}, found_by=found_by)
        best[hit.item.key] = hit
    return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.item.id, hit.item.space)))


def _layer(name: str, kb: Engine, wanted: Wanted) -> Found:
    """What a layer found; when its store is down the others still answer."""
    try:
        with kb.reading() as stores:
            state = tuple((info.name, info.digest) for info in stores.items.spaces(wanted.spaces))
            return replace(LAYERS[name](kb, wanted, stores), state=state)
    except (Unavailable, Conflict) as error:
        return Found(problems=(Problem(name, str(error), error.code),))


def _metadata(_: Engine, wanted: Wanted, stores: Stores) -> Found:
    def profiles(id: str) -> tuple[Item, ...]:
        keys = stores.items.visible(
            [(space, id) for space in wanted.spaces], wanted.only(Kind.PROFILE)
        )
        return tuple(stores.items.get(keys))

    if wanted.entity_id is None:
        return Found(global_metadata=profiles(EVERYBODY))
    known = stores.items.visible(
        [(space, wanted.entity_id) for space in wanted.spaces], wanted.only()
    )
    missing = Problem(
        "metadata",
        f"no item {wanted.entity_id!r} in {', '.join(wanted.spaces)}: only what holds for everybody is known",
        "unknown_entity",
    )
    own = () if wanted.entity_id == EVERYBODY else profiles(wanted.entity_id)
    return Found(own, profiles(EVERYBODY), problems=() if known else (missing,))


def _pieces(kb: Engine, wanted: Wanted, _: Stores) -> Found:
    """The best `top_k` that belong to the entity or to nobody. Whose they are is no filter of the indexes, so more are asked for until
    there are enough or no more."""
    if not wanted.query.strip():
        return Found()
    every = Recipe(
        "pieces",
        kinds=READABLE,
        types=wanted.types,
        tags=wanted.tags,
        mode=wanted.mode,
        min_score=wanted.min_score,
        required=True,
    )
    limit = wanted.top_k
    while True:
        recipe = replace(every, limit=limit)
        context = kb.context(
            wanted.query,
            spaces=wanted.spaces,
            recipe=[recipe],
            max_tokens=None,
            now=wanted.now,
            as_of=wanted.as_of,
        )
        own = [
            hit
            for hit in context.hits
            if wanted.scope == "all" or hit.item.subject in (None, "", wanted.entity_id)
        ]
        if len(own) >= wanted.top_k or len(context.hits) < limit or limit == MAX_LIMIT:
            return Found(pieces=tuple(own[: wanted.top_k]), problems=context.degraded)
        limit = min(MAX_LIMIT, limit * WIDER)


def _graph(_: Engine, wanted: Wanted, stores: Stores) -> Found:
    if wanted.entity_id is None or not wanted.graph_traversal_depth:
        return Found()
    starts = [(space, wanted.entity_id) for space in wanted.spaces]
    relations = walk(
        starts,
        wanted.only(),
        wanted.graph_traversal_depth,
        wanted.graph_limit,
        wanted.edge_types,
        stores,
    )
    relations, pieces = linked(relations, wanted.only(*READABLE), stores)
    return Found(pieces=pieces, relations=relations)


LAYERS: dict[str, Callable[[Engine, Wanted, Stores], Found]] = {
    "metadata": _metadata,
    "pieces": _pieces,
    "graph": _graph,
}

HUB_CAP = 30  # links followed per item and direction, heaviest first


def walk(
    starts: Sequence[Key],
    only: Filter,
    depth: int,
    limit: int,
    edge_types: Sequence[str],
    stores: Stores,
) -> tuple[Relation, ...]:
    """The best `limit` links within `depth` hops both of whose ends may be seen, ordered by (type, target, source). A link at hop n scores
    its weight / n: 1/n where nobody gave a weight."""
    met: dict[EdgeKey, tuple[Edge, int]] = {}
    seen = set(stores.items.visible(list(starts), only))
    frontier = sorted(seen)
    for hop in range(1, depth + 1):
        read = stores.graph.edges_of(
            frontier, only.spaces, edge_types, HUB_CAP, LIGHTEST, made=False
        )  # what people said, not what knowloom noticed
        edges = [edge for edge in read if edge.key not in met and edge.known_at(only.created_to)]
        ends = dict.fromkeys(
            end for edge in edges for end in (edge.source_key, edge.target_key) if end not in seen
        )
        reached = stores.items.visible(list(ends), only)
        seen.update(reached)
        met |= {
            edge.key: (edge, hop)
            for edge in edges
            if edge.source_key in seen and edge.target_key in seen
        }
        frontier = reached[:limit]  # in the order of the links, the heaviest first
        if not frontier:
            break
    best = sorted(met.values(), key=lambda one: (-_score(*one), one[0].type, one[0].key))[:limit]
    items = {
        item.key: item
        for item in stores.items.get(
            sorted({end for edge, _ in best for end in (edge.source_key, edge.target_key)})
        )
    }
    found = [
        Relation(edge, hop, _score(edge, hop), items[edge.source_key], items[edge.target_key])
        for edge, hop in best
    ]
    return tuple(
        sorted(found, key=lambda one: (one.type, one.edge.target, one.edge.source, one.edge.key))
    )


def linked(
    relations: Sequence[Relation], only: Filter, stores: Stores
) -> tuple[tuple[Relation, ...], tuple[Hit, ...]]:
    """The links with the keys of their pieces, where those can be seen, and the pieces with the score of the link."""
    named = {
        relation.edge.key: (relation.edge.space, relation.edge.item_id)
        for relation in relations
        if relation.edge.item_id is not None
    }
    items = {
        item.key: item
        for item in stores.items.get(stores.items.visible(sorted(set(named.values())), only))
    }
    told = tuple(
        replace(one, piece=named.get(one.edge.key) if named.get(one.edge.key) in items else None)
        for one in relations
    )
    pieces = tuple(
        Hit(
            items[one.piece],
            one.score,
            {"graph": one.score},
            ("graph",),
            (one.edge.source_key, one.edge.target_key),
            one.edge,
            (one.edge,),
        )
        for one in sorted(told, key=lambda one: (-one.score, one.type, one.edge.key))
        if one.piece is not None
    )
    return told, pieces


def _score(edge: Edge, hop: int) -> float:
    return round(edge.weight / hop, 6)
