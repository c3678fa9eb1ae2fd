"""Text search: BM25 with the statistics of the requested spaces, over the postings of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from knowloom.construction import round_scores
from knowloom.errors import Conflict
from knowloom.model import Filter, Key
from knowloom.ports import IndexResult
from knowloom.stores.postgresql.item_rows import Numbers
from knowloom.stores.postgresql.reading.prefetch import read_hits
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import NO_ITEM, SpaceArrays
from knowloom.stores.postgresql.term_segments import PostingCache
from knowloom.text import words
from knowloom.text.passages import SEGMENTER
from knowloom.text.query_terms import weigh_terms
from knowloom.vectors.top_k import k_largest

Scores = npt.NDArray[np.float64]


def search_text(
    session: ReadSession, text: str, only: Filter, limit: int, also: Sequence[Key]
) -> IndexResult:
    views = session.views(only.spaces)
    session.reads_hits = True
    check_index(session)
    scores, maximum = score_passages(session, list(views.values()), text)
    hits: dict[str, tuple[SpaceArrays, list[int], list[float]]] = {}
    considered, others = 0, dict[Key, float]()
    for (name, view), by_slot in zip(views.items(), scores, strict=True):
        best = _best_by_item(view, by_slot)
        mask = view.mask(session.fetch, only)
        if mask is not None:
            best *= mask
        numbers = _numbers_of(session, view, [key for key in also if key[0] == name])
        raw = best[list(numbers.values())]
        scored = zip(numbers, raw, round_scores(raw / maximum), strict=True)
        others.update({key: value for key, exact, value in scored if exact})
        if limit:
            places, values, matching = k_largest(best, limit, maximum)
            considered += matching
            hits[name] = view, places, values
    read_hits(session, [(view, places) for view, places, _ in hits.values()])
    matches: list[tuple[Key, float]] = []
    for name, (view, places, values) in hits.items():
        ids = view.ids(session.fetch, places)
        matches += [((name, id), value) for id, value in zip(ids, values, strict=True)]
    top = tuple(sorted(matches, key=best_first)[:limit])
    return IndexResult(top, considered, {key: others[key] for key in also if key in others})


def score_text_passages(
    session: ReadSession, text: str, only: Filter, keys: Sequence[Key]
) -> dict[Key, tuple[float, ...]]:
    views = session.views(only.spaces)
    check_index(session)
    long: dict[str, dict[Key, int]] = {}
    for name, view in views.items():
        mask = view.mask(session.fetch, only)
        numbers = _numbers_of(session, view, [key for key in keys if key[0] == name])
        long[name] = {
            key: no
            for key, no in numbers.items()
            if view.several[no] and (mask is None or mask[no])
        }
    if not any(long.values()):
        return {}
    scores, maximum = score_passages(session, list(views.values()), text)
    result: dict[Key, tuple[float, ...]] = {}
    for view, by_slot, numbers in zip(views.values(), scores, long.values(), strict=True):
        for key, no in numbers.items():
            first, count = int(view.records["first"][no]), int(view.records["count"][no])
            result[key] = tuple(round_scores(by_slot[first : first + count] / maximum))
    return {key: result[key] for key in keys if key in result}


def score_passages(
    session: ReadSession, views: Sequence[SpaceArrays], text: str
) -> tuple[list[Scores], float]:
    """Return the raw score of each slot of each space, and the maximum to divide them by."""
    weights = weigh_terms(text)
    documents = sum(view.documents for view in views)
    length = sum(view.length for view in views)
    result = [np.zeros(view.next_slot) for view in views]
    if not weights or not documents or not length:
        return result, 1.0
    PostingCache.load(session.fetch, [(view, list(weights)) for view in views])
    norms = [_length_norms(view.lengths, documents / length) for view in views]
    items = [LongItemScores(view, sum(view.items for view in views) / length) for view in views]
    maximum = 0.0
    for term, weight in weights.items():
        postings = [view.live_postings(term) for view in views]
        full_idf = words.idf(documents, sum(len(slots) for slots, _ in postings))
        # Stop words count in full: without them words would outweigh vectors.
        maximum += max(1.0, weight) * full_idf
        idf = weight * full_idf
        for (slots, counts), norm, score, item in zip(postings, norms, result, items, strict=True):
            _add_gains(score, slots, counts.astype(np.float64), norm, idf)
            item.add(slots, counts, idf)
    for score, item in zip(result, items, strict=True):
        item.blend(score)
    return result, maximum


class LongItemScores:
    """The scores of the items of a space that have several passages, by number."""

    def __init__(self, view: SpaceArrays, inverse_mean_length: float) -> None:
        self._view = view
        if view.has_several:
            self._norms = _length_norms(view.item_lengths, inverse_mean_length)
            self._scores = np.zeros(view.next_no)

    def add(self, slots: Numbers, counts: npt.NDArray[np.uint8], idf: float) -> None:
        """Add a term with its postings; the slots of an item follow each other."""
        if not self._view.has_several or not len(slots):
            return
        owners = self._view.owners.take(slots)
        are_parts = self._view.several[owners]
        owners = owners[are_parts]
        if len(owners):
            first = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
            totals = np.add.reduceat(counts[are_parts], first, dtype=np.float64)
            _add_gains(self._scores, owners[first].astype(np.intp), totals, self._norms, idf)

    def blend(self, scores: Scores) -> None:
        """Add the share of the item to the scores above 0 of its slots."""
        if not self._view.has_several:
            return
        slots = np.flatnonzero(scores > 0)
        owners = self._view.owners.take(slots)
        are_parts = self._view.several[owners]
        slots, owners = slots[are_parts], owners[are_parts]
        shares = words.ITEM_SHARE * self._scores.take(owners)
        scores[slots] = (1 - words.ITEM_SHARE) * scores.take(slots) + shares


def _length_norms(lengths: Scores, inverse_mean_length: float) -> Scores:
    return words.K1 * (1 - words.B + words.B * inverse_mean_length * lengths)


def _add_gains(score: Scores, places: Numbers, counts: Scores, norm: Scores, idf: float) -> None:
    # score[places] += idf * counts / (counts + norm[places]), computed in place.
    divisor = norm.take(places)
    divisor += counts
    gain = counts * idf
    gain /= divisor
    gain += score.take(places)
    score[places] = gain


def _best_by_item(view: SpaceArrays, scores: Scores) -> Scores:
    """Return the score of the best passage of each item, by number."""
    slots = np.flatnonzero(scores > 0)
    owners, best = view.owners.take(slots), np.zeros(view.next_no)
    if view.has_several:
        np.maximum.at(best, owners, scores[slots])
    else:
        best[owners] = scores[slots]
    return best


def _numbers_of(session: ReadSession, view: SpaceArrays, keys: Sequence[Key]) -> Mapping[Key, int]:
    """Return the numbers of the keys that are stored."""
    numbers = view.numbers(session.fetch, [id for _, id in keys])
    return {key: no for key, no in zip(keys, numbers, strict=True) if no != NO_ITEM}


def best_first(match: tuple[Key, float]) -> tuple[float, str, str]:
    (space, id), score = match
    return (-score, id, space)


def check_segmenter(session: ReadSession) -> None:
    """Raise Conflict if another segmenter cut the stored items."""
    version = session.meta("segmenter").rpartition(":")[0]
    if version != SEGMENTER:
        raise Conflict(
            f"the passages were cut by {version!r}, this knowloom uses {SEGMENTER!r}: run reindex",
            "reindex_required",
        )


def check_index(session: ReadSession) -> None:
    """Raise Conflict if another analyser or segmenter made the text index."""
    check_segmenter(session)
    stored = session.meta("analyser")
    if stored != words.ANALYSER:
        raise Conflict(
            f"the text index was built by {stored!r}, this knowloom uses {words.ANALYSER!r}: "
            "run reindex",
            "reindex_required",
        )
