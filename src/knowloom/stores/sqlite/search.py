"""Finding items: by filter in the order of ids, by text, and by vector."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise

import apsw
import numpy as np

from knowloom.construction import round_scores
from knowloom.errors import Conflict, Corrupt
from knowloom.model import Filter, Item, Key
from knowloom.ports import IndexResult, Vector
from knowloom.stores.sqlite import postings, vector_search
from knowloom.stores.sqlite.connections import ReadConnection
from knowloom.stores.sqlite.id_cache import NO_SLOT
from knowloom.stores.sqlite.passage_slots import (
    Mask,
    SlotArray,
    check_segmenter,
    read_segmenter,
)
from knowloom.stores.sqlite.rows import filter_term, item_from_body, locate_damage
from knowloom.stores.sqlite.space_view import Scores, SpaceView
from knowloom.text import words as analyser
from knowloom.vectors import top_k

# A filter that allows fewer items than this is answered by sorting their ids, a wider one by
# scanning the ids in order.
SMALL_RESULT = 20_000
PASSAGES_PER_HIT = 2  # of the best passages, to have enough items among them
WIDENING = 4  # times as many passages if they belong to fewer items
SORTS_PER_SCAN = 10  # ids sorted in the time of scanning past one item


def visible_keys(reader: ReadConnection, keys: Sequence[Key], only: Filter) -> list[Key]:
    parts = [
        _visible_in_space(reader, name, view, keys, only)
        for name, view in reader.views(only.spaces).items()
    ]
    if len(parts) == 1:
        return parts[0]
    visible = frozenset([key for part in parts for key in part])
    return [key for key in keys if key in visible]


def _visible_in_space(
    reader: ReadConnection, name: str, view: SpaceView, keys: Sequence[Key], only: Filter
) -> list[Key]:
    keys = [key for key in keys if key[0] == name]
    slots = view.slots(reader.connection, [id for _, id in keys])
    mask = view.mask(reader.connection, only)
    if NO_SLOT in slots:
        keys = [key for key, slot in zip(keys, slots, strict=True) if slot != NO_SLOT]
        slots = [slot for slot in slots if slot != NO_SLOT]
    return keys if mask is None else list(compress(keys, mask[slots].tolist()))


def find_items(
    reader: ReadConnection, only: Filter, limit: int, after: Key | None = None
) -> list[Item]:
    items: list[Item] = []
    for name, view in sorted(reader.views(only.spaces).items()):
        if len(items) < limit and (after is None or name >= after[0]):
            after_id = after[1] if after is not None and name == after[0] else ""
            items += _find_in_space(reader, name, view, only, limit - len(items), after_id)
    return items


def count_items(reader: ReadConnection, only: Filter) -> int:
    total = 0
    for view in reader.views(only.spaces).values():
        mask = view.mask(reader.connection, only)
        total += view.items if mask is None else view.count_items(mask)
    return total


def _find_in_space(
    reader: ReadConnection, name: str, view: SpaceView, only: Filter, limit: int, after_id: str
) -> list[Item]:
    slots = _slots_by_subject(reader, view, only) if only.subjects else None
    mask = view.mask(reader.connection, only) if slots is None else None
    mask = None if mask is None else view.heads_in(mask)
    if mask is not None and (allowed := int(np.count_nonzero(mask))) < SMALL_RESULT:
        if allowed >= SORTS_PER_SCAN:
            max_scanned = allowed // SORTS_PER_SCAN
            items = _scan(reader, name, view, mask, limit, after_id, max_scanned)
            if items is not None:
                return items
        slots = np.flatnonzero(mask).tolist()
    if slots is not None:
        ids = sorted(id for id in view.ids(reader.connection, slots) if id > after_id)[:limit]
        items_by_id = view.read_items(reader.connection, name, ids)
        return [items_by_id[id] for id in ids]
    return _scan(reader, name, view, mask, limit, after_id, sys.maxsize) or []


def _scan(
    reader: ReadConnection,
    name: str,
    view: SpaceView,
    mask: Mask | None,
    limit: int,
    after_id: str,
    max_scanned: int,
) -> list[Item] | None:
    """Return the next items by id; None if more than `max_scanned` items must be scanned."""
    items: list[Item] = []
    first = view.no << 32
    query = "SELECT row, body FROM item WHERE space = ? AND id > ? ORDER BY id"
    rows = reader.connection.execute(query, (view.no, after_id))
    try:
        for scanned, (row, body) in enumerate(rows):
            if len(items) >= limit:
                break
            if scanned >= max_scanned:
                return None
            if mask is None or mask[row - first]:
                items.append(item_from_body(body, name))
    except (Corrupt, UnicodeDecodeError) as error:
        damaged = _rows_after(reader.connection, view.no, after_id)
        raise locate_damage(reader.connection, name, damaged, error) from error
    return items


def _rows_after(connection: apsw.Connection, no: int, after_id: str) -> Iterator[int]:
    query = "SELECT row FROM item WHERE space = ? AND id > ? ORDER BY id"
    return (row for (row,) in connection.execute(query, (no, after_id)))


def _slots_by_subject(reader: ReadConnection, view: SpaceView, only: Filter) -> list[int] | None:
    """Return the slots that a filter by subjects allows; None if there are very many.

    Nearly every request has other subjects, and a mask for them would cost a pass over all items.
    """
    view.damage.require("records", "terms")
    terms = [filter_term("subject", subject) for subject in only.subjects]
    blocks = view.read_blocks(reader.connection, terms)
    size = sum(len(data) for rows in blocks.values() for _, data in rows)
    if size // 3 >= SMALL_RESULT:  # three bytes an item
        return None
    mask = view.mask(reader.connection, replace(only, subjects=()))
    slots: set[int] = set()
    for term in terms:
        if term in blocks:
            slots.update(view.decode_postings(term, blocks[term])[0].tolist())
        else:
            slots.update(view.delta_slots(term))
    return sorted(slots) if mask is None else [slot for slot in sorted(slots) if mask[slot]]


def search_text(
    reader: ReadConnection, text: str, only: Filter, limit: int, also: Sequence[Key]
) -> IndexResult:
    _check_index(reader)
    views = reader.views(only.spaces)
    if not limit:
        return IndexResult(others=_score_keys(reader, views, text, only, also))
    scores, maximum = postings.score_all(reader.connection, list(views.values()), text)
    matches, considered, others = [], 0, {}
    for (name, view), score in zip(views.items(), scores, strict=True):
        mask = view.mask(reader.connection, only)
        if mask is not None:
            score *= mask
        slots, values, matching = _best_items(view, score, limit, maximum)
        considered += matching
        ids = view.ids(reader.connection, slots)
        matches += [((name, id), value) for id, value in zip(ids, values, strict=True)]
        keys = keys_by_slot(reader, name, view, also)
        raw = _best_at(view, score, _heads(keys)) / maximum
        scored = zip(keys.values(), raw, round_scores(raw), strict=True)
        others.update({key: value for key, exact, value in scored if exact})
    best = tuple(sorted(matches, key=_best_first)[:limit])
    return IndexResult(best, considered, {key: others[key] for key in also if key in others})


def _best_items(
    view: SpaceView, scores: Scores, limit: int, maximum: float
) -> tuple[list[int], list[float], int]:
    """Return heads and scores of the `limit` best items, with all of the last tie, as `k_largest`.

    The third result counts the items with a score above 0.
    """
    passages = view.passages
    if passages is None:
        return top_k.k_largest(scores, limit, maximum)
    positive, count = np.flatnonzero(scores > 0), PASSAGES_PER_HIT * limit
    while True:
        slots, values, _ = top_k.k_largest(scores, count, maximum, len(positive))
        heads, best = passages.best_by_item(np.array(slots, np.intp), np.array(values))
        if len(heads) >= limit or count >= len(positive):
            break
        count *= WIDENING
    if len(heads) > limit:
        chosen = best >= np.partition(best, len(best) - limit)[len(best) - limit]
        heads, best = heads[chosen], best[chosen]
    return heads.tolist(), best.tolist(), passages.count_items(positive)


def _best_at(view: SpaceView, scores: Scores, heads: SlotArray) -> Scores:
    """Return the score of each of these items."""
    if view.passages is None or not len(heads):
        return scores[heads]
    slots, firsts = view.passages.expand(heads)
    best: Scores = np.maximum.reduceat(scores[slots], firsts)
    return best


def _score_keys(
    reader: ReadConnection,
    views: Mapping[str, SpaceView],
    text: str,
    only: Filter,
    keys: Sequence[Key],
) -> dict[Key, float]:
    allowed: list[dict[int, Key]] = []
    for name, view in views.items():
        by_slot = keys_by_slot(reader, name, view, keys)
        mask = view.mask(reader.connection, only)
        if mask is not None:
            by_slot = {slot: key for slot, key in by_slot.items() if mask[slot]}
        allowed.append(by_slot)
    expanded = [
        view.expand(_heads(by_slot)) for view, by_slot in zip(views.values(), allowed, strict=True)
    ]
    slots = [some for some, _ in expanded]
    scores = postings.score_slots(reader.connection, list(views.values()), text, slots)
    result: dict[Key, float] = {}
    for by_slot, score, (_, firsts) in zip(allowed, scores, expanded, strict=True):
        if len(by_slot):
            best = np.maximum.reduceat(score, firsts)
            scored = zip(by_slot.values(), best.tolist(), round_scores(best), strict=True)
            result.update({key: value for key, exact, value in scored if exact})
    return {key: result[key] for key in keys if key in result}


def score_text_passages(
    reader: ReadConnection, text: str, only: Filter, keys: Sequence[Key]
) -> dict[Key, tuple[float, ...]]:
    _check_index(reader)
    views = reader.views(only.spaces)
    long: dict[str, dict[int, Key]] = {}
    for name, view in views.items():
        mask = view.mask(reader.connection, only)
        by_slot = _long_items(reader, name, view, keys)
        long[name] = {slot: key for slot, key in by_slot.items() if mask is None or mask[slot]}
    if not any(long.values()):
        return {}
    expanded = [views[name].expand(_heads(by_slot)) for name, by_slot in long.items()]
    slots = [some for some, _ in expanded]
    scores = postings.score_slots(reader.connection, list(views.values()), text, slots)
    result: dict[Key, tuple[float, ...]] = {}
    for by_slot, score, (_, firsts) in zip(long.values(), scores, expanded, strict=True):
        result |= _split_scores(by_slot, round_scores(score), firsts)
    return {key: result[key] for key in keys if key in result}


def _heads(by_slot: Mapping[int, Key]) -> SlotArray:
    return np.fromiter(by_slot, np.intp, len(by_slot))


def _long_items(
    reader: ReadConnection, name: str, view: SpaceView, keys: Sequence[Key]
) -> dict[int, Key]:
    """Return the keys of stored items with several passages, by head."""
    if view.passages is None:
        return {}
    by_slot = keys_by_slot(reader, name, view, keys)
    return {slot: key for slot, key in by_slot.items() if view.passages.has_several(slot)}


def _split_scores(
    by_slot: Mapping[int, Key], scores: Sequence[float], firsts: SlotArray
) -> dict[Key, tuple[float, ...]]:
    """Return the scores of each item; `firsts` has the position of its first one."""
    bounds = [*firsts.tolist(), len(scores)]
    return {
        key: tuple(scores[start:end])
        for key, (start, end) in zip(by_slot.values(), pairwise(bounds), strict=True)
    }


def _check_index(reader: ReadConnection) -> None:
    """Raise Conflict if another analyser or segmenter made the text index."""
    _check_segmenter(reader)
    query = "SELECT value FROM meta WHERE key = 'analyser'"
    ((stored,),) = reader.cached("analyser", lambda connection: list(connection.execute(query)))
    if stored != analyser.ANALYSER:
        raise Conflict(
            f"the text index was built by {stored!r}, this knowloom uses {analyser.ANALYSER!r}: "
            "run reindex",
            "reindex_required",
        )


def _check_segmenter(reader: ReadConnection) -> None:
    check_segmenter(reader.cached("segmenter", read_segmenter)[0])


def search_vector(reader: ReadConnection, vector: Vector, only: Filter, limit: int) -> IndexResult:
    _check_segmenter(reader)
    matches, considered = [], 0
    for name, view in reader.views(only.spaces).items():
        view.damage.require("records", "signs")
        mask = view.mask(reader.connection, only)
        scores = vector_search.nearest_items(reader.connection, view, vector, mask, limit)
        considered += view.count_items(view.embedded if mask is None else view.embedded & mask)
        best = _best_with_ties(scores, limit)
        ids = view.ids(reader.connection, list(best))
        matches += [((name, id), cosine) for id, cosine in zip(ids, best.values(), strict=True)]
    return IndexResult(tuple(sorted(matches, key=_best_first)[:limit]), considered)


def get_vectors(reader: ReadConnection, keys: Sequence[Key]) -> dict[Key, Vector]:
    """Return the vectors of these items, a row per passage."""
    _check_segmenter(reader)
    vectors: dict[Key, Vector] = {}
    for name, view in reader.views([space for space, _ in keys]).items():
        by_slot = keys_by_slot(reader, name, view, keys)
        by_slot = {slot: key for slot, key in by_slot.items() if view.embedded[slot]}
        if by_slot:
            slots, firsts = view.expand(_heads(by_slot))
            stored = view.read_vectors(reader.connection, slots)
            rows = np.split(stored, firsts[1:])
            vectors |= zip(by_slot.values(), rows, strict=True)
    return {key: vectors[key].copy() for key in keys if key in vectors}


def score_vectors(reader: ReadConnection, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
    _check_segmenter(reader)
    scores: dict[Key, float] = {}
    for name, view in reader.views([space for space, _ in keys]).items():
        by_slot = keys_by_slot(reader, name, view, keys)
        if len(view.unembedded):
            by_slot = {slot: key for slot, key in by_slot.items() if view.embedded[slot]}
        if by_slot:
            slots, firsts = view.expand(_heads(by_slot))
            stored = view.read_vectors(reader.connection, slots)
            cosines = vector_search.cosine_scores(stored, vector)
            if len(slots) > len(by_slot):
                cosines = np.maximum.reduceat(cosines, firsts).tolist()
            scores |= zip(by_slot.values(), cosines, strict=True)
    return scores


def score_vector_passages(
    reader: ReadConnection, vector: Vector, keys: Sequence[Key]
) -> dict[Key, tuple[float, ...]]:
    _check_segmenter(reader)
    result: dict[Key, tuple[float, ...]] = {}
    for name, view in reader.views([space for space, _ in keys]).items():
        by_slot = _long_items(reader, name, view, keys)
        by_slot = {slot: key for slot, key in by_slot.items() if view.embedded[slot]}
        if by_slot:
            slots, firsts = view.expand(_heads(by_slot))
            stored = view.read_vectors(reader.connection, slots)
            cosines = vector_search.cosine_scores(stored, vector)
            result |= _split_scores(by_slot, cosines, firsts)
    return {key: result[key] for key in keys if key in result}


def keys_by_slot(
    reader: ReadConnection, name: str, view: SpaceView, keys: Sequence[Key]
) -> dict[int, Key]:
    """Return the keys that are stored in a space, by head."""
    of_space = [key for key in keys if key[0] == name]
    slots = view.slots(reader.connection, [id for _, id in of_space])
    by_slot = dict(zip(slots, of_space, strict=True))
    by_slot.pop(NO_SLOT, None)
    return by_slot


def _best_with_ties(scores: dict[int, float], limit: int) -> dict[int, float]:
    """Return the `limit` best scores, with all of the last tie."""
    if len(scores) <= limit:
        return scores
    last = sorted(scores.values(), reverse=True)[limit - 1]
    return {slot: score for slot, score in scores.items() if score >= last}


def _best_first(match: tuple[Key, float]) -> tuple[float, str, str]:
    (space, id), score = match
    return (-score, id, space)
