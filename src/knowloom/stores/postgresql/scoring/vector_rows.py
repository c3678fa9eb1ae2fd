"""Vector search: sign bits in memory select candidates, which are scored exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from knowloom.construction import round_scores
from knowloom.errors import Corrupt
from knowloom.model import Filter, Key
from knowloom.ports import IndexResult, Vector
from knowloom.stores.postgresql.approximate import index_search
from knowloom.stores.postgresql.item_rows import Numbers, ranges
from knowloom.stores.postgresql.reading.prefetch import defer_hits
from knowloom.stores.postgresql.scoring.text_scores import best_first, check_segmenter
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import NO_ITEM, Mask, SpaceArrays
from knowloom.vectors.pair_cosines import FLOAT32_ERROR
from knowloom.vectors.signs import count_differing, pack_signs
from knowloom.vectors.top_k import k_smallest

# As in SQLite files, so that both have the same candidates: docs/decisions/006-vector-search.md.
MIN_CANDIDATES = 1024
CANDIDATES_PER_HIT = 8
ITEMS_PER_HIT = 2
WIDENING = 4

Matrix = npt.NDArray[np.float32]


def search_vector(session: ReadSession, vector: Vector, only: Filter, limit: int) -> IndexResult:
    views = session.views(only.spaces)
    session.reads_hits = session.reads_vectors = True
    check_segmenter(session)
    matches: list[tuple[Key, float]] = []
    allowed: dict[SpaceArrays, Mask] = {}
    for view in views.values():
        mask = view.mask(session.fetch, only)
        allowed[view] = view.embedded if mask is None else view.embedded & mask
    considered = sum(int(np.count_nonzero(mask)) for mask in allowed.values())
    slots = _approximate_slots(session, vector, allowed, limit)
    for view in views.values():
        if view.no not in slots:
            slots[view.no] = _nearest_slots(view, vector, allowed[view], limit)
    _load_vectors(session, [(view, np.unique(view.owners[slots[view.no]])) for view in allowed])
    for name, view in views.items():
        scores = _with_ties(_score_best(session, view, vector, slots[view.no], limit), limit)
        ids = defer_hits(session, view, list(scores))
        matches += [((name, id), score) for id, score in zip(ids, scores.values(), strict=True)]
    return IndexResult(tuple(sorted(matches, key=best_first)[:limit]), considered)


def _approximate_slots(
    session: ReadSession, vector: Vector, allowed: Mapping[SpaceArrays, Mask], limit: int
) -> dict[int, Numbers]:
    """Return the nearest slots by space, of those spaces that have an approximate index.

    Passages that an index lacks are added to its candidates.
    """
    if session.hnsw is None:
        return {}
    spaces = index_search.find_indexed(session, allowed, len(vector))
    slots = index_search.nearest_passages(session, session.hnsw, spaces, vector, limit)
    for space in spaces:
        if space.view.no in slots:
            others = _nearest_slots(space.view, vector, space.missing, limit)
            slots[space.view.no] = np.concatenate([slots[space.view.no], others])
    return slots


def _nearest_slots(view: SpaceArrays, vector: Vector, allowed: Mask, limit: int) -> Numbers:
    """Return the slots of the nearest passages by the Hamming distance of their signs.

    Whole ties are included, so the result does not depend on the order of insertion.
    """
    count = max(MIN_CANDIDATES, CANDIDATES_PER_HIT * limit)
    records = view.records[allowed]
    slots = ranges(records["first"], records["count"])
    if len(slots) <= count:
        return slots
    distances = count_differing(view.signs[:, slots], pack_signs(vector))
    while True:
        near = slots[k_smallest(distances, count)] if count < len(slots) else slots
        # Few items may have all of the nearest passages.
        if not view.has_several or len(near) < count:
            return near
        if len(np.unique(view.owners[near])) >= ITEMS_PER_HIT * limit:
            return near
        count *= WIDENING


def _score_best(
    session: ReadSession, view: SpaceArrays, vector: Vector, slots: Numbers, limit: int
) -> dict[int, float]:
    """Return the cosine of each item, by number, that may be among the best of these passages."""
    if not len(slots):
        return {}
    stored, owners = _read_passages(session, view, slots)
    firsts = _changes(owners)
    if 0 < limit < len(firsts):
        # Negative cosines tie at 0: none of them may be lost here.
        rough = np.maximum(np.vecdot(stored, vector), 0.0)
        best = np.maximum.reduceat(rough, firsts)
        last = np.partition(best, len(best) - limit)[len(best) - limit]
        near = rough >= last - FLOAT32_ERROR
        stored, owners = stored[near], owners[near]
        firsts = _changes(owners)
    scores = np.maximum.reduceat(cosine_scores(stored, vector), firsts)
    return dict(zip(owners[firsts].tolist(), scores.tolist(), strict=True))


def _read_passages(
    session: ReadSession, view: SpaceArrays, slots: Numbers
) -> tuple[Matrix, npt.NDArray[np.int32]]:
    """Return the vectors at these slots, ordered by item, and the item of each."""
    owners = view.owners[slots]
    order = np.argsort(owners, kind="stable")
    slots, owners = slots[order], owners[order]
    numbers = owners[_changes(owners)].astype(np.intp)
    stored, firsts = read_vectors(session, view, numbers)
    if len(stored) == len(slots):
        return stored, owners
    rows = firsts[np.searchsorted(numbers, owners)] + slots - view.records["first"][owners]
    return stored[rows], owners


def _changes(owners: npt.NDArray[np.int32]) -> Numbers:
    """Return the positions at which ascending numbers change, the first included."""
    return np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))


def _with_ties(scores: dict[int, float], limit: int) -> dict[int, float]:
    """Return the `limit` best scores, with all of the last tie."""
    if len(scores) <= limit:
        return scores
    if not limit:
        return {}
    last = sorted(scores.values(), reverse=True)[limit - 1]
    return {no: score for no, score in scores.items() if score >= last}


def cosine_scores(stored: Matrix, vector: Vector) -> list[float]:
    """Return the cosine of each stored vector, negative ones as 0, rounded to make ties equal."""
    # In single precision the last digit would depend on the other vectors of the product.
    return round_scores(np.clip(np.vecdot(stored.astype(np.float64), vector), 0.0, 1.0))


def score_passages_by_key(
    session: ReadSession, vector: Vector, keys: Sequence[Key]
) -> Iterable[tuple[Key, list[float]]]:
    """Yield the similarity of each passage of the keys that have vectors."""
    for embedded, stored, firsts in _read_by_space(session, keys):
        scores = cosine_scores(stored, vector)
        ends = [*firsts[1:].tolist(), len(stored)]
        for key, first, end in zip(embedded, firsts.tolist(), ends, strict=True):
            yield key, scores[first:end]


def read_vectors_by_key(session: ReadSession, keys: Sequence[Key]) -> Iterable[tuple[Key, Matrix]]:
    """Yield the vectors of the keys that have some, a row per passage."""
    for embedded, stored, firsts in _read_by_space(session, keys):
        yield from zip(embedded, np.split(stored, firsts[1:]), strict=True)


def _read_by_space(
    session: ReadSession, keys: Sequence[Key]
) -> Iterable[tuple[list[Key], Matrix, Numbers]]:
    """Yield the keys of each space that have vectors, the vectors, and the first of each key."""
    views = session.views([space for space, _ in keys])
    check_segmenter(session)
    for name, view in views.items():
        of_space = list(dict.fromkeys(key for key in keys if key[0] == name))
        numbers = view.numbers(session.fetch, [id for _, id in of_space])
        embedded = {
            key: no
            for key, no in zip(of_space, numbers, strict=True)
            if no != NO_ITEM and view.embedded[no]
        }
        if embedded:
            places = np.fromiter(embedded.values(), np.intp, len(embedded))
            yield list(embedded), *read_vectors(session, view, places)


def read_vectors(
    session: ReadSession, view: SpaceArrays, numbers: Numbers
) -> tuple[Matrix, Numbers]:
    """Return the vectors of items that have some, and the position of each item's first."""
    counts, versions = view.records["count"][numbers], view.vector_versions[numbers]
    firsts = np.cumsum(counts) - counts
    size = 4 * int(counts.sum()) * int(session.meta("dimensions"))
    if size > view.vectors.max_bytes:
        return _fetch_vectors(session, view, numbers), firsts
    # Twice if the cache was full: it is emptied then.
    while len(missing := view.vectors.missing(numbers, versions)):
        fetched = _fetch_vectors(session, view, missing)
        missing_counts = view.records["count"][missing]
        view.vectors.put(missing, view.vector_versions[missing], missing_counts, fetched)
    return view.vectors.get(numbers, counts), firsts


def _load_vectors(
    session: ReadSession, numbers_by_view: Sequence[tuple[SpaceArrays, Numbers]]
) -> None:
    """Read the vectors of several spaces that are not cached, in one statement."""
    missing: list[tuple[SpaceArrays, Numbers]] = []
    for view, numbers in numbers_by_view:
        uncached = view.vectors.missing(numbers, view.vector_versions[numbers])
        size = 4 * int(view.records["count"][uncached].sum()) * int(session.meta("dimensions"))
        if len(uncached) and size <= view.vectors.max_bytes:
            missing.append((view, uncached))
    if len(missing) < 2:  # a single one is read when it is needed
        return
    for (view, numbers), matrix in zip(missing, _fetch(session, missing), strict=True):
        counts = view.records["count"][numbers]
        view.vectors.put(numbers, view.vector_versions[numbers], counts, matrix)


def _fetch_vectors(session: ReadSession, view: SpaceArrays, numbers: Numbers) -> Matrix:
    return _fetch(session, [(view, numbers)])[0]


def _fetch(session: ReadSession, requests: Sequence[tuple[SpaceArrays, Numbers]]) -> list[Matrix]:
    """Return the vectors of items of several spaces, by space."""
    query = """SELECT query.space, count(*), string_agg(vector.data, '' ORDER BY query.place),
            array_agg(item.id ORDER BY query.place)
        FROM unnest(%s::integer[], %s::integer[]) WITH ORDINALITY AS query(space, no, place)
        JOIN vector ON vector.space = query.space AND vector.no = query.no
        JOIN item ON item.space = vector.space AND item.no = vector.no
        GROUP BY query.space"""
    spaces = [view.no for view, numbers in requests for _ in range(len(numbers))]
    places = [no for _, numbers in requests for no in numbers.tolist()]
    rows = {space: row for space, *row in session.fetch(query, (spaces, places))}
    dimensions = int(session.meta("dimensions"))
    return [_decode(view, numbers, rows.get(view.no), dimensions) for view, numbers in requests]


def _decode(
    view: SpaceArrays, numbers: Numbers, row: Sequence[Any] | None, dimensions: int
) -> Matrix:
    count, data, ids = row or (0, b"", [])
    rows = int(view.records["count"][numbers].sum())
    # A vector of another length would shift all that follow it.
    if count != len(numbers) or len(data) != 2 * rows * dimensions:
        raise _damaged()
    for no, id in zip(numbers.tolist(), ids, strict=True):
        view.remember(no, id)  # the best of them are hits: their ids are needed next
    return np.frombuffer(data, "<f2").astype(np.float32).reshape(rows, dimensions)


def _damaged() -> Corrupt:
    return Corrupt(
        "stored vectors are missing or truncated: `knowloom verify` reports which, "
        "`knowloom reindex` rebuilds all of them"
    )


def encode_vectors(vectors: Mapping[int, Vector]) -> tuple[list[bytes], list[bytes]]:
    """Return the sign bits and the 16-bit floats of each matrix."""
    signs = [pack_signs(matrix).tobytes() for matrix in vectors.values()]
    return signs, [matrix.astype("<f2").tobytes() for matrix in vectors.values()]
