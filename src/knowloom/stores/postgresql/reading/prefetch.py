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

_HITS = f"""SELECT item.no, item.id, {SMALL_BODY}, item.attributes, vector.data
    FROM unnest(%s::integer[], %s::boolean[]) AS query(no, has_vector)
    JOIN item ON item.space = %s AND item.no = query.no
    LEFT JOIN vector ON query.has_vector AND vector.space = item.space AND vector.no = item.no"""

Row = tuple[int, str, str | None, str, bytes | None]  # number, id, body, attributes, vectors


def hit_ids(session: ReadSession, view: SpaceArrays, numbers: Sequence[int]) -> list[str]:
    """Return the ids of hits, and read their texts ahead; their vectors too in hybrid searches."""
    places = np.array([*numbers, *session.deferred.pop(view.no, ())], np.intp)
    lacks_text = np.array([not view.has_item(no) for no in places.tolist()], np.bool_)
    if session.reads_vectors:
        embedded = places[view.embedded[places]]
        missing = view.vectors.missing(embedded, view.vector_versions[embedded])
        lacks_vector = np.isin(places, missing)
    else:
        lacks_vector = np.zeros(len(places), np.bool_)
    unread = lacks_text | lacks_vector
    if unread.any() and len(places) <= MAX_ROWS:
        columns = (places[unread].tolist(), lacks_vector[unread].tolist(), view.no)
        remember(session, view, session.fetch(_HITS, columns))
    return view.ids(session.fetch, numbers)


def defer_hits(session: ReadSession, view: SpaceArrays, numbers: Sequence[int]) -> list[str]:
    """Return the ids of hits, and leave their texts to the next `hit_ids` of the transaction."""
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
