"""The walk outwards from an entity: every link on the way, one store call per hop, and the pieces that explain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.capabilities.provider.values import Relation
from weft.model import Edge, EdgeKey, Filter, Hit, Key
from weft.ports import Stores
from weft.stages.expand import LIGHTEST

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
        )  # what people said, not what weft noticed
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
