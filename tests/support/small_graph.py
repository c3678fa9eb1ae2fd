"""A small graph and helpers that the tests of graph contexts share."""

from __future__ import annotations

from datetime import UTC, datetime

import knowloom
from knowloom import Edge, GraphContext, Item
from knowloom.engine import Engine
from knowloom.model import Kind

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FORMATS = ("json", "markdown", "plain", "yaml")


def entity(
    id: str, title: str = "", type: str = "System", space: str = "s", **properties: object
) -> Item:
    return Item(
        id,
        space,
        Kind.ENTITY,
        type,
        title or id.title(),
        properties=properties or {"status": "live"},
        created_at=NOW,
    )


def graph(kb: Engine, *items: Item, edges: tuple[Edge, ...] = ()) -> GraphContext:
    kb.add(items, edges)
    return GraphContext(kb, ["s"])


def ids(answer: knowloom.GraphAnswer) -> list[str]:
    return [entity.item.id for entity in answer.entities]


def links(answer: knowloom.GraphAnswer) -> list[tuple[str, str, str]]:
    return [
        (relationship.edge.source, relationship.edge.type, relationship.edge.target)
        for relationship in answer.relationships
    ]


CHAIN = [entity("alpha"), entity("beta"), entity("gamma"), entity("delta", type="Team")]
CHAIN_EDGES = (
    Edge("alpha", "beta", "USES", 0.9, "s", properties={"since": 2020}),
    Edge("beta", "gamma", "USES", 0.9, "s"),
    Edge("gamma", "delta", "OWNED_BY", 0.9, "s"),
    Edge("alpha", "alpha", "CALLS", 0.5, "s"),
    Edge("beta", "alpha", "FEEDS", 0.8, "s"),
)
