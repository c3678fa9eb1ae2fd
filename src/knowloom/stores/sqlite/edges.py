"""Links in the SQLite file: the heaviest of each item, however many a hub has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from knowloom.construction import opened
from knowloom.model import Edge
from knowloom.stores.sqlite.rows import (
    EDGE_COLUMNS,
    copy_properties,
    edge_from_row,
    with_properties,
)

MAX_CACHED_EDGES = 50_000  # links that a reader remembers, about 400 bytes each; when there are more it begins anew
CHARACTERS_PER_EDGE = 300  # characters of properties that take as much room as a link does
BODY = 6  # their place among the columns

EdgeRow = tuple[Any, ...]
CachedEdges = tuple[
    float, list[tuple[Edge, Mapping[str, Any]]]
]  # the heaviest links of an item, down to this weight; see `rows.unchanged` for the second of a pair

_open, _made = opened(Edge)
_weight = attrgetter("weight")


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction: the columns of the end we stand at, and of the other end."""

    space: str
    id: str
    far_space: str
    far_id: str
    near: int  # the place of our end's id among the columns of a row


DIRECTIONS = (
    Direction("space", "source", "target_space", "target", 1),
    Direction("target_space", "target", "space", "source", 3),
)


class EdgeSelection(NamedTuple):
    """Which links of an item are asked for: the `limit` heaviest that lead to these spaces."""

    spaces: tuple[int, ...]
    types: tuple[str, ...]
    limit: int
    made: bool | None


class EdgeCache:
    """Links that were read before, until they are forgotten: the same items are asked for in request after request."""

    def __init__(self, most_rows: int = MAX_CACHED_EDGES) -> None:
        self._most_rows = most_rows
        self._rows = 0
        self._links: dict[tuple[Direction, int, EdgeSelection], dict[str, CachedEdges]] = {}

    def heaviest(
        self,
        connection: apsw.Connection,
        side: Direction,
        space: int,
        ids: Sequence[str],
        wanted: EdgeSelection,
        min_weight: float,
        names: Mapping[int, str],
    ) -> list[Edge]:
        """For each id its heaviest links of at least that weight; `names` are those of the wanted spaces by number."""
        if self._rows > self._most_rows:
            self.forget()
        known = self._links.setdefault((side, space, wanted), {})
        missing = [id for id in ids if id not in known or known[id][0] > min_weight]
        if missing:
            rows = read_heaviest(connection, side, space, missing, wanted, min_weight)
            read: dict[str, CachedEdges] = {id: (min_weight, []) for id in missing}
            for row, edge in zip(rows, decode_edges(rows, names), strict=True):
                read[row[side.near]][1].append((edge, copy_properties(edge)))
            size = (
                len(rows)
                + sum([len(row[BODY]) for row in rows if row[BODY]]) // CHARACTERS_PER_EDGE
            )
            if size <= self._most_rows:  # all links of a hub are too many to keep
                known.update(read)
                self._rows += len(missing) + size
            else:
                known = {**known, **read}
        return [
            edge if edge.properties == said else with_properties(edge, said)
            for id in ids
            for edge, said in known[id][1]
            if edge.weight >= min_weight
        ]

    def forget(self) -> None:
        self._links.clear()
        self._rows = 0


def read_heaviest(
    connection: apsw.Connection,
    side: Direction,
    space: int,
    ids: Sequence[str],
    wanted: EdgeSelection,
    min_weight: float,
) -> list[EdgeRow]:
    """For each id its `limit` heaviest links to the spaces, ties by the other end: its index has them in this order, so that of a hub no more is read."""
    spaces, types, limit, made = wanted
    inside = (
        f"{side.far_space} = {spaces[0]}"
        if len(spaces) == 1
        else f"{side.far_space} IN ({','.join(map(str, spaces))})"
    )
    chosen = f"AND type IN ({','.join('?' * len(types))})" if types else ""
    whose = "" if made is None else f"AND origin {'<>' if made else '='} ''"
    # Numbers of spaces tell when they were made, names do not. One space needs neither.
    by_name = (
        f", (SELECT name FROM space WHERE no = edge.{side.far_space})" if len(spaces) > 1 else ""
    )
    where = (
        f"{side.space} = {space} AND {side.id} = ? AND weight >= ? AND {inside} {chosen} {whose}"
    )
    best = f"SELECT {EDGE_COLUMNS} FROM edge WHERE {where} ORDER BY weight DESC, {side.far_id}, type {by_name} LIMIT {limit}"
    found: list[EdgeRow] = connection.executemany(
        best, [(id, min_weight, *types) for id in ids]
    ).fetchall()
    return found


def sort_unique(found: Iterable[Edge]) -> list[Edge]:
    """Each link once, heaviest first, ties by source, target and type, then by the spaces. Weights alone are sorted in a tenth of the time, and
    there are hundreds of links in a request: only those that weigh the same are compared by more."""
    ranked = sorted(found, key=_weight, reverse=True)
    result: list[Edge] = []
    done = 0
    for place in [
        place for place, (one, behind) in enumerate(pairwise(ranked)) if one.weight == behind.weight
    ]:
        if place >= done:
            end = place + 2
            while end < len(ranked) and ranked[end].weight == ranked[place].weight:
                end += 1
            tied = {
                (
                    edge.source,
                    edge.target,
                    edge.type,
                    edge.space,
                    edge.target_space or edge.space,
                ): edge
                for edge in ranked[place:end]
            }
            result += ranked[done:place]
            result += [tied[key] for key in sorted(tied)]
            done = end
    return result + ranked[done:]


def decode_edges(rows: Sequence[EdgeRow], names: Mapping[int, str]) -> list[Edge]:
    """What the rows say; `names` are the names of the spaces by number. Most rows have no body: these are made in one go, which takes two
    thirds of the time."""
    return _made(
        [
            _open(
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


def sort_page(rows: Iterable[Edge], limit: int, after: Edge | None) -> list[Edge]:
    """The next edges behind `after`; rows come ordered by source, so only one source's edges need sorting at a time."""
    found: list[Edge] = []
    own: list[Edge] = []
    for edge in rows:
        if own and edge.source != own[0].source:
            found += sorted(own, key=lambda one: one.key)
            own = []
            if len(found) >= limit:
                break
        if after is None or edge.key > after.key:
            own.append(edge)
    found += sorted(own, key=lambda one: one.key)
    return found[:limit]
