"""Search with candidates of a layer and scores of the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowloom.model import Filter, Key
from knowloom.ports import EXACT, Candidates, IndexResult, TextIndex, TextLayer, Vector, VectorLayer
from knowloom.stores.composite.store_layers import CompleteStore

WIDENING = 4  # times as many candidates if the bound does not exclude all others
MAX_CANDIDATES = 20_000  # beyond this the truth searches itself


def search_text(
    layer: TextLayer,
    truth: TextIndex,
    text: str,
    only: Filter,
    limit: int,
    also: Sequence[Key],
) -> IndexResult:
    """Return what the truth's own `search_text` would."""

    def score(keys: Sequence[Key]) -> Mapping[Key, float]:
        return truth.search_text(text, only, 0, also=[*keys, *also]).others

    if not limit:
        return truth.search_text(text, only, 0, also)
    result = _search(lambda size: layer.match_text(text, only, size), score, limit, also)
    return truth.search_text(text, only, limit, also) if result is None else result


def search_vector(
    layer: VectorLayer, truth: CompleteStore, vector: Vector, only: Filter, limit: int
) -> IndexResult:
    """Return what the truth's own `search_vector` would."""

    def score(keys: Sequence[Key]) -> Mapping[Key, float]:
        return truth.score_vectors(vector, truth.visible(keys, only))

    result = _search(lambda size: layer.match_vector(vector, only, size), score, limit, ())
    return truth.search_vector(vector, only, limit) if result is None else result


def _search(
    match: Callable[[int], Candidates],
    score: Callable[[Sequence[Key]], Mapping[Key, float]],
    limit: int,
    also: Sequence[Key],
) -> IndexResult | None:
    """Ask for candidates until no other item can be among the best; None if that takes too many."""
    size = limit
    while size <= MAX_CANDIDATES:
        candidates = match(size)
        scores = score(candidates.keys)
        current = {key: scores[key] for key in dict.fromkeys(candidates.keys) if key in scores}
        best = sorted(current.items(), key=lambda match: (-match[1], match[0][1], match[0][0]))
        matches = tuple(best[:limit])
        if candidates.bound == EXACT and len(current) < len(candidates.keys):
            return None  # the layer has items that the truth has not, and lacks others for them
        if _is_certain(candidates, matches, limit):
            others = {key: scores[key] for key in also if key in scores}
            return IndexResult(matches, candidates.considered, others)
        size *= WIDENING
    return None


def _is_certain(candidates: Candidates, matches: Sequence[tuple[Key, float]], limit: int) -> bool:
    """Return True if no item beside the candidates belongs to the best."""
    if candidates.bound <= 0:
        return True
    return len(matches) == limit and matches[-1][1] > candidates.bound
