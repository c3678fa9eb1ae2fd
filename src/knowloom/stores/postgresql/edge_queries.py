"""Reading edges: the heaviest of each item, however many a hub has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowloom import codec
from knowloom.caching import TwoGenerationCache
from knowloom.model import Edge, EdgeKey, Key
from knowloom.stores.postgresql.item_rows import EDGE_COLUMNS, decode_edge, edge_key
from knowloom.stores.postgresql.reading.prefetch import MAX_ROWS, SMALL_BODY, Row, remember

if TYPE_CHECKING:
    from knowloom.stores.postgresql.sessions import ReadSession

Fetch = Callable[..., list[tuple[Any, ...]]]
MAX_CACHED_EDGES = 50_000  # per session, about 400 bytes each
COLUMNS = ", ".join(f"edge.{column}" for column in EDGE_COLUMNS.split(", "))

# A LIMIT for each key and direction: only as many edges of a hub are read, by its index.
_HEAVIEST = """SELECT query.place, heaviest.*, heaviest.{far_space} AS far_no,
        heaviest.{far_id} AS far_id
    FROM unnest(%(spaces)s::integer[], %(ids)s::text[])
        WITH ORDINALITY AS query(space, id, place)
    CROSS JOIN LATERAL (
        SELECT {columns} FROM edge JOIN space AS far ON far.no = edge.{far_space}
        WHERE edge.{space} = query.space AND edge.{id} = query.id
            AND edge.{far_space} = ANY(%(far)s) AND edge.weight >= %(weight)s {conditions}
        ORDER BY edge.weight DESC, left(edge.{far_id}, 64), edge.{far_id}, edge.type, far.name
        LIMIT %(limit)s
    ) AS heaviest"""
# With the items at the other ends, in the columns of edges: text, attributes and vectors.
_WITH_ENDS = """WITH heaviest AS MATERIALIZED ({heaviest}),
    ends AS MATERIALIZED (SELECT far_no, far_id FROM heaviest GROUP BY far_no, far_id
        ORDER BY max(weight) DESC, far_id LIMIT {limit})
    SELECT place, {columns}, NULL::bytea FROM heaviest
    UNION ALL SELECT NULL, item.space, item.id, item.no, item.attributes, NULL, NULL, {body},
        NULL, vector.data
    FROM ends JOIN item ON item.space = ends.far_no AND item.id = ends.far_id
    LEFT JOIN vector ON %(vectors)s AND vector.space = item.space AND vector.no = item.no"""
_DIRECTIONS = (
    {"space": "space", "id": "source", "far_space": "target_space", "far_id": "target"},
    {"space": "target_space", "id": "target", "far_space": "space", "far_id": "source"},
)
_ORIGINS = {None: "", True: "AND edge.origin <> ''", False: "AND edge.origin = ''"}


@dataclass(frozen=True, slots=True)
class EdgeQuery:
    """Selects the `limit` heaviest edges of an item, in each direction, that lead to `spaces`."""

    spaces: tuple[tuple[int, int], ...]  # numbers and versions
    types: tuple[str, ...]
    limit: int
    automatic: bool | None


class HeaviestEdges:
    """Edges read before, until one of the spaces that they may lead to changes."""

    def __init__(self) -> None:
        self._edges: TwoGenerationCache[tuple[EdgeQuery, Key], tuple[float, list[Edge]]]
        self._edges = TwoGenerationCache(
            "postgresql edges", MAX_CACHED_EDGES, lambda cached: 1 + len(cached[1])
        )

    def heaviest(
        self, session: ReadSession, keys: Sequence[Key], selection: EdgeQuery, min_weight: float
    ) -> list[Edge]:
        """Return the selected edges of each key, once each, heaviest first."""
        edges: dict[EdgeKey, Edge] = {}
        missing: list[Key] = []
        for key in dict.fromkeys(keys):
            cached = self._edges.get((selection, key))
            if cached is None or cached[0] > min_weight:
                missing.append(key)
            else:
                edges.update((edge.key, edge) for edge in cached[1] if edge.weight >= min_weight)
        if missing:
            for key, read in _read_heaviest(session, missing, selection, min_weight).items():
                self._edges.put((selection, key), (min_weight, read))
                edges.update((edge.key, edge) for edge in read)
        return [codec.copy_value(edge) for edge in sorted(edges.values(), key=_heaviest_first)]


def _read_heaviest(
    session: ReadSession, keys: Sequence[Key], selection: EdgeQuery, min_weight: float
) -> dict[Key, list[Edge]]:
    views = session.current_views()
    names = {view.no: name for name, view in views.items()}
    values = {
        "spaces": [views[space].no for space, _ in keys],
        "ids": [id for _, id in keys],
        "far": [no for no, _ in selection.spaces],
        "types": list(selection.types),
        "weight": min_weight,
        "limit": selection.limit,
        "vectors": session.reads_vectors,
    }
    edges: dict[Key, list[Edge]] = {key: [] for key in keys}
    ends: dict[int, list[Row]] = {}
    for place, *row, vectors in session.fetch(_heaviest_query(selection, session), values):
        if place is not None:
            edges[keys[place - 1]].append(decode_edge(names, row))
        else:
            space, id, no, attributes, _, _, body, _ = row
            ends.setdefault(space, []).append((no, id, body, attributes, vectors))
    for space, rows in ends.items():
        remember(session, views[names[space]], rows)
    return edges


def _heaviest_query(selection: EdgeQuery, session: ReadSession) -> str:
    conditions = _ORIGINS[selection.automatic]
    if selection.types:
        conditions += " AND edge.type = ANY(%(types)s)"
    heaviest = " UNION ALL ".join(
        _HEAVIEST.format(columns=COLUMNS, conditions=conditions, **direction)
        for direction in _DIRECTIONS
    )
    limit = MAX_ROWS if session.reads_hits else 0
    return _WITH_ENDS.format(heaviest=heaviest, limit=limit, columns=EDGE_COLUMNS, body=SMALL_BODY)


def _heaviest_first(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)


def read_edges(
    fetch: Fetch, numbers: Mapping[str, int], names: Mapping[int, str], keys: Sequence[EdgeKey]
) -> dict[EdgeKey, Edge]:
    """Return the stored edges with these keys; `numbers` and `names` are of all their spaces."""
    hashes = [
        edge_key(numbers[source[0]], source[1], numbers[target[0]], target[1], type)
        for source, target, type in keys
        if source[0] in numbers and target[0] in numbers
    ]
    if not hashes:
        return {}
    rows = fetch(f"SELECT {EDGE_COLUMNS} FROM edge WHERE key = ANY(%s)", (hashes,))
    return {edge.key: edge for edge in (decode_edge(names, row) for row in rows)}


def read_page(
    fetch: Fetch, space: str, limit: int, after: Edge | None, automatic: bool | None
) -> list[Edge]:
    """Return the next edges of a space, by key."""
    position = ("", "", "", "")
    if after is not None and after.space == space:
        position = (after.source, *after.target_key, after.type)
    query = f"""SELECT near.name, far.name, {COLUMNS} FROM edge
        JOIN space AS near ON near.no = edge.space
        JOIN space AS far ON far.no = edge.target_space
        WHERE near.name = %s AND edge.source >= %s {_ORIGINS[automatic]}
            AND (edge.source, far.name, edge.target, edge.type) > (%s, %s, %s, %s)
        ORDER BY edge.source, far.name, edge.target, edge.type LIMIT %s"""
    rows = fetch(query, (space, position[0], *position, limit))
    return [decode_edge({row[0]: near, row[2]: far}, row) for near, far, *row in rows]
