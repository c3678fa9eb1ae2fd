"""Rows of items that a request will need next, read with those that it needs now.

The number of round trips, not of bytes, decides how long a context takes over a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knowloom.stores.postgresql.item_rows import Numbers

if TYPE_CHECKING:
    from knowloom.stores.postgresql.sessions import ReadSession
    from knowloom.stores.postgresql.space_arrays import SpaceArrays

MAX_ROWS = 2048  # items whose texts and vectors are read ahead by one statement
MAX_STORED = 4_000  # bytes of a text as it is stored; longer ones are read when they are shown
SMALL_BODY = f"CASE WHEN pg_column_size(item.body) <= {MAX_STORED} THEN item.body END"

_HITS = f"""SELECT query.space, item.no, item.id, {SMALL_BODY}, item.attributes, vector.data
    FROM unnest(%s::integer[], %s::integer[], %s::boolean[]) AS query(space, no, has_vector)
    JOIN item ON item.space = query.space AND item.no = query.no
    LEFT JOIN vector ON query.has_vector AND vector.space = item.space AND vector.no = item.no"""

Row = tuple[int, str, str | None, str, bytes | None]  # number, id, body, attributes, vectors


def read_hits(session: ReadSession, hits: Sequence[tuple[SpaceArrays, Sequence[int]]]) -> None:
    """Read the ids and texts of hits of several spaces; their vectors too in hybrid searches."""
    spaces: list[int] = []
    unread: list[tuple[int, bool]] = []
    for view, numbers in hits:
        rows = _unread(session, view, numbers)
        unread += rows
        spaces += [view.no] * len(rows)
    if not unread or len(unread) > MAX_ROWS:
        return
    by_space: dict[int, list[Sequence[Any]]] = {}
    for space, *row in session.fetch(_HITS, (spaces, *map(list, zip(*unread, strict=True)))):
        by_space.setdefault(space, []).append(row)
    for view, _ in hits:
        remember(session, view, by_space.get(view.no, ()))


def _unread(
    session: ReadSession, view: SpaceArrays, numbers: Sequence[int]
) -> list[tuple[int, bool]]:
    """Return the hits that are not cached, deferred ones included, and if they lack a vector."""
    places = np.array([*numbers, *session.deferred.pop(view.no, ())], np.intp)
    lacks_text = np.array([not view.has_item(no) for no in places.tolist()], np.bool_)
    lacks_vector = np.zeros(len(places), np.bool_)
    if session.reads_vectors:
        embedded = places[view.embedded[places]]
        missing = view.vectors.missing(embedded, view.vector_versions[embedded])
        lacks_vector = np.isin(places, missing)
    unread = lacks_text | lacks_vector
    return list(zip(places[unread].tolist(), lacks_vector[unread].tolist(), strict=True))


def defer_hits(session: ReadSession, view: SpaceArrays, numbers: Sequence[int]) -> list[str]:
    """Return the ids of hits, and leave their texts to the next `read_hits` of the transaction."""
    session.deferred[view.no] = [no for no in numbers if not view.has_item(no)]
    return view.ids(session.fetch, numbers)


def remember(session: ReadSession, view: SpaceArrays, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows of items to the caches of a space."""
    vectors: dict[int, bytes] = {}
    for no, id, body, attributes, data in rows:
        view.remember(no, id)
        row = () if body is None else (id, body, attributes)
        view.items_by_number.put(view.item_version(no), row)
        if data is not None and view.embedded[no]:
            vectors[no] = data
    if vectors:
        _remember_vectors(view, vectors, int(session.meta("dimensions")))


def _remember_vectors(view: SpaceArrays, vectors: dict[int, bytes], dimensions: int) -> None:
    places: Numbers = np.fromiter(vectors, np.intp, len(vectors))
    missing = set(view.vectors.missing(places, view.vector_versions[places]).tolist())
    places = np.array([no for no in vectors if no in missing], np.intp)
    counts = view.records["count"][places]
    data = b"".join(vectors[no] for no in places.tolist())
    # Vectors of another length are damaged: the read that needs them reports it.
    if len(places) and len(data) == 2 * int(counts.sum()) * dimensions:
        matrix = np.frombuffer(data, "<f2").astype(np.float32).reshape(-1, dimensions)
        view.vectors.put(places, view.vector_versions[places], counts, matrix)
