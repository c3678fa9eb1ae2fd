"""Neighbours of an item: the items that edges lead to, with the reason for each."""

from __future__ import annotations

from collections.abc import Sequence

from knowloom.context.paths import annotate_hits
from knowloom.engine import Engine
from knowloom.model import Filter, Hits
from knowloom.options import validate_limit
from knowloom.recipes import Recipe
from knowloom.retrieval.neighbours import expand
from knowloom.validation import validate_name

DEFAULT_LIMIT = 10


def find_related(
    kb: Engine,
    id: str,
    *,
    space: str | Sequence[str] | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Hits:
    """Return the items that an edge connects with an item, the heaviest edge first.

    The item must be in exactly one of the spaces (None: of all), and the neighbours are in these.
    `hit.via` is the reason in words, `hit.edge` the edge. Items that are not valid now are left
    out.
    """
    count = validate_limit(limit) or DEFAULT_LIMIT
    reader = kb.reader
    spaces = reader.resolve_spaces([space] if isinstance(space, str) else space)
    with reader.snapshot() as stores:
        item = reader.find_item(validate_name("id", id), spaces)
        only = Filter(tuple(spaces), valid_at=reader.now())
        recipe = Recipe("related", limit=count, depth=1, near=0, hub_cap=count)
        result = expand([item.key], only, recipe, items=stores.items, graph=stores.graph)
        return Hits(annotate_hits(result.hits, stores))
