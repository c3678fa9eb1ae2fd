"""Links between what was found, as candidates of their own: each is one line, and needs both of its ends."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model import LINK, Edge, Hit, Item, Query
from weft.ports import GraphStore
from weft.recipes import Recipe
from weft.stages.escape import one_line
from weft.stages.expand import LIGHTEST
from weft.stages.fit import Part
from weft.stages.render import link_line

TOLERANCE = 0.01  # of the worth: where candidates need others, the very best set would cost many more tables


def links(query: Query, found: Sequence[Hit], recipe: Recipe, graph: GraphStore) -> list[Hit]:
    """The best `recipe.limit` links between these items that people gave, each worth its weight times the lesser of its ends."""
    ends = {hit.item.key: hit for hit in found}
    read = graph.edges_of(
        list(ends), query.spaces, recipe.edge_types, recipe.hub_cap, LIGHTEST, made=False
    )
    inside = [
        edge
        for edge in read
        if edge.source_key in ends and edge.target_key in ends and edge.known_at(query.as_of)
    ]
    hits = [_hit(edge, ends[edge.source_key], ends[edge.target_key]) for edge in inside]
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))[: recipe.limit]


def _hit(edge: Edge, source: Hit, target: Hit) -> Hit:
    said = {"from": source.item.name, "type": edge.type, "to": target.item.name}
    fields = said | ({"properties": dict(edge.properties)} if edge.properties else {})
    item = Item(
        edge.name, edge.space, type=edge.type, title=link_line(said, one_line), properties=fields
    )
    worth = min(source.relevance, target.relevance)
    return Hit(
        item,
        round(edge.weight * worth, 6),
        {"weight": edge.weight, "ends": worth},
        LINK,
        (edge.source_key, edge.target_key),
        edge,
    )


def needs(hits: Sequence[Hit], parts: Sequence[Part]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each link the numbers of its ends, counted through the parts before it."""
    numbers = {
        key: number
        for number, key in enumerate(hit.item.key for part in parts for hit in part.hits)
    }
    return tuple(tuple((numbers[key],) for key in dict.fromkeys(hit.path)) for hit in hits)


def tolerance(parts: Sequence[Part]) -> float:
    return TOLERANCE if any(part.needs for part in parts) else 0.0
