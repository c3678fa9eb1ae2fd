"""Reading edges: the heaviest of each item, however many a hub has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from knowloom import caching
from knowloom.construction import open_twin
from knowloom.model import Edge
from knowloom.stores.sqlite.rows import (
    EDGE_COLUMNS,
    copy_properties,
    edge_from_row,
    with_properties,
)

MAX_CACHED_EDGES = 50_000  # per connection, about 400 bytes each; a full cache is emptied
CHARACTERS_PER_EDGE = 300  # JSON characters that take as much memory as an edge
BODY = 6  # the index of `body` in EDGE_COLUMNS

EdgeRow = tuple[Any, ...]
# The heaviest edges of an item down to this weight, each with a copy of its properties (see
# `rows.with_properties`).
CachedEdges = tuple[float, list[tuple[Edge, Mapping[str, Any]]]]

_open_edge, _freeze_edges = open_twin(Edge)
_weight = attrgetter("weight")


@dataclass(frozen=True, slots=True)
class Direction:
    """The columns of the near and the far end of an edge."""

    space: str
    id: str
    far_space: str
    far_id: str
    near_column: int  # the index of the near id in EDGE_COLUMNS


DIRECTIONS = (
    Direction("space", "source", "target_space", "target", 1),
    Direction("target_space", "target", "space", "source", 3),
)


class EdgeSelection(NamedTuple):
    """Selects the `limit` heaviest edges of an item that lead to these spaces."""

    spaces: tuple[int, ...]
    types: tuple[str, ...]
    limit: int
    automatic: bool | None


class EdgeCache:
    """Edges read from the file, until it changes: requests share most of them."""

    def __init__(self, max_edges: int = MAX_CACHED_EDGES) -> None:
        self._max_edges = max_edges
        self._size = 0
        self._edges: dict[tuple[Direction, int, EdgeSelection], dict[str, CachedEdges]] = {}
        caching.register("sqlite edges", max_edges, self)

    def __len__(self) -> int:
        return self._size

    def heaviest(
        self,
        connection: apsw.Connection,
        direction: Direction,
        space: int,
        ids: Sequence[str],
        selection: EdgeSelection,
        min_weight: float,
        names: Mapping[int, str],
    ) -> list[Edge]:
        """Return the heaviest edges of each id; `names` maps the selected spaces to names."""
        if self._size > self._max_edges:
            self.clear()
        cached = self._edges.setdefault((direction, space, selection), {})
        missing = [id for id in ids if id not in cached or cached[id][0] > min_weight]
        if missing:
            rows = read_heaviest(connection, direction, space, missing, selection, min_weight)
            loaded: dict[str, CachedEdges] = {id: (min_weight, []) for id in missing}
            for row, edge in zip(rows, decode_edges(rows, names), strict=True):
                loaded[row[direction.near_column]][1].append((edge, copy_properties(edge)))
            characters = sum([len(row[BODY]) for row in rows if row[BODY]])
            size = len(rows) + characters // CHARACTERS_PER_EDGE
            if size <= self._max_edges:  # all edges of a hub may be too many
                cached.update(loaded)
                self._size += len(missing) + size
            else:
                cached = {**cached, **loaded}
        return [
            edge if edge.properties == properties else with_properties(edge, properties)
            for id in ids
            for edge, properties in cached[id][1]
            if edge.weight >= min_weight
        ]

    def clear(self) -> None:
        self._edges.clear()
        self._size = 0


def read_heaviest(
    connection: apsw.Connection,
    direction: Direction,
    space: int,
    ids: Sequence[str],
    selection: EdgeSelection,
    min_weight: float,
) -> list[EdgeRow]:
    """Return rows of the selected edges of each id, heaviest first, ties by the far end.

    The indexes have this order, so that only `limit` edges of a hub are read.
    """
    spaces, types, limit, automatic = selection
    far_space = direction.far_space
    conditions = [
        f"{direction.space} = {space} AND {direction.id} = ? AND weight >= ?",
        f"{far_space} = {spaces[0]}"
        if len(spaces) == 1
        else f"{far_space} IN ({','.join(map(str, spaces))})",
    ]
    if types:
        conditions.append(f"type IN ({','.join('?' * len(types))})")
    if automatic is not None:
        conditions.append(f"origin {'<>' if automatic else '='} ''")
    order = f"weight DESC, {direction.far_id}, type"
    if len(spaces) > 1:  # by name: the numbers depend on the order of creation
        order += f", (SELECT name FROM space WHERE no = edge.{far_space})"
    query = (
        f"SELECT {EDGE_COLUMNS} FROM edge WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT {limit}"
    )
    rows: list[EdgeRow] = connection.executemany(
        query, [(id, min_weight, *types) for id in ids]
    ).fetchall()
    return rows


def sort_unique(edges: Iterable[Edge]) -> list[Edge]:
    """Return each edge once, heaviest first, ties by source, target, type and the spaces.

    Sorting by weight alone takes a tenth of the time, and a request reads hundreds of edges: only
    those of equal weight are compared further.
    """
    ranked = sorted(edges, key=_weight, reverse=True)
    result: list[Edge] = []
    done = 0
    ties = [
        index
        for index, (edge, following) in enumerate(pairwise(ranked))
        if edge.weight == following.weight
    ]
    for start in ties:
        if start < done:
            continue
        end = start + 2
        while end < len(ranked) and ranked[end].weight == ranked[start].weight:
            end += 1
        tied = {
            (edge.source, edge.target, edge.type, edge.space, edge.target_space or edge.space): edge
            for edge in ranked[start:end]
        }
        result += ranked[done:start]
        result += [tied[key] for key in sorted(tied)]
        done = end
    return result + ranked[done:]


def decode_edges(rows: Sequence[EdgeRow], names: Mapping[int, str]) -> list[Edge]:
    """Return the edges of rows of EDGE_COLUMNS; `names` maps space numbers to names.

    Rows without a body, as most are, are constructed in one pass: two thirds of the time.
    """
    return _freeze_edges(
        [
            _open_edge(
                source,
                target,
                type,
                weight,
                names[space],
                None,
                {},
                "" if target_space == space else names[target_space],
                origin,
            )
            if body is None
            else edge_from_row(
                names, (space, source, target_space, target, type, weight, body, origin)
            )
            for space, source, target_space, target, type, weight, body, origin in rows
        ]
    )


def sort_page(edges: Iterable[Edge], limit: int, after: Edge | None) -> list[Edge]:
    """Return the next page of edges after `after`, by key.

    The edges come ordered by source, so that one source's edges are sorted at a time.
    """
    page: list[Edge] = []
    of_source: list[Edge] = []
    for edge in edges:
        if of_source and edge.source != of_source[0].source:
            page += sorted(of_source, key=lambda edge: edge.key)
            of_source = []
            if len(page) >= limit:
                break
        if after is None or edge.key > after.key:
            of_source.append(edge)
    page += sorted(of_source, key=lambda edge: edge.key)
    return page[:limit]
