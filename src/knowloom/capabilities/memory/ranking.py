"""Rankers: a weighted sum of similarity, recency, confidence and use, or a user's function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import Protocol

from knowloom.capabilities.memory.model import SearchResult
from knowloom.errors import Invalid, SearchError, unknown_name
from knowloom.validation import validate_fraction, validate_positive

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Weights of the signals. By default, recency and confidence decide where similarity is close.

    With `half_life_days` the recency of a memory halves in that time; otherwise it is
    1 / (1 + days). `now` is the time of the request.
    """

    similarity_weight: float = 0.94
    recency_weight: float = 0.03
    confidence_weight: float = 0.03
    access_weight: float = 0.0
    half_life_days: float | None = None
    now: datetime | None = None

    def validate(self) -> RankingOptions:
        for name in SIGNALS:
            validate_fraction(f"{name}_weight", getattr(self, f"{name}_weight"))
        if not any(getattr(self, f"{name}_weight") for name in SIGNALS):
            raise Invalid("at least one ranking weight must be > 0")
        if self.half_life_days is not None:
            validate_positive("half_life_days", self.half_life_days)
        return self


class Ranker(Protocol):
    """A function that orders search results.

    It returns the same results, best first. Results without a `rank` are ranked by position.
    """

    def __call__(
        self, results: Sequence[SearchResult], options: RankingOptions, /
    ) -> Sequence[SearchResult]: ...


def similarity(result: SearchResult, _: RankingOptions) -> float:
    return result.score


def recency(result: SearchResult, options: RankingOptions) -> float:
    created, now = result.memory.created_at, options.now
    days = max(0.0, (now - created).total_seconds() / DAY_S) if created and now else 0.0
    if options.half_life_days is None:
        return 1 / (1 + days)
    return float(0.5 ** (days / options.half_life_days))


def confidence(result: SearchResult, _: RankingOptions) -> float:
    return result.memory.confidence


def access(result: SearchResult, _: RankingOptions) -> float:
    """Return 0 for a memory that was never used, 1/2 after one use, towards 1."""
    return result.memory.accesses / (1 + result.memory.accesses)


SIGNALS: dict[str, Callable[[SearchResult, RankingOptions], float]] = {
    "similarity": similarity,
    "recency": recency,
    "confidence": confidence,
    "access": access,
}


def rank_by_weights(results: Sequence[SearchResult], options: RankingOptions) -> list[SearchResult]:
    weights = [(getattr(options, f"{name}_weight"), signal) for name, signal in SIGNALS.items()]
    return _sort_by(
        results, lambda result: sum(w * signal(result, options) for w, signal in weights)
    )


def by_signal(signal: Callable[[SearchResult, RankingOptions], float]) -> Ranker:
    return lambda results, options: _sort_by(results, lambda result: signal(result, options))


def by_score(score: Callable[[SearchResult], float]) -> Ranker:
    """Return a ranker from a function that scores one result."""
    return lambda results, _: _sort_by(results, score)


RANKERS: Mapping[str, Ranker] = {
    "default": rank_by_weights,
    "similarity": by_signal(similarity),
    "recency": by_signal(recency),
    "confidence": by_signal(confidence),
}


def rank_results(
    results: Sequence[SearchResult],
    ranker: str | Ranker,
    options: RankingOptions,
    rankers: Mapping[str, Ranker],
) -> list[SearchResult]:
    """Return the results in the ranker's order, each with a rank.

    A ranker that raises, or that returns other results than it received, is a SearchError.
    """
    rank = ranker if callable(ranker) else rankers.get(ranker) if isinstance(ranker, str) else None
    if rank is None:
        raise unknown_name("ranker", ranker, rankers)
    name = ranker if isinstance(ranker, str) else getattr(ranker, "__name__", "custom")
    try:
        answer = rank(tuple(results), options)
        ranked = list(answer) if _is_list_like(answer) else None
    except Exception as error:  # a user's function may raise anything
        raise SearchError(f"ranker {name!r} failed: {type(error).__name__}: {error}") from error
    if ranked is None:
        raise SearchError(
            f"ranker {name!r} must return a list of SearchResult, got {type(answer).__name__}"
        )
    _validate_ranked(results, ranked, name)
    originals = {result.memory.id: result for result in results}
    return [
        replace(
            originals[result.memory.id],
            rank=round(1 - position / len(ranked), 6) if result.rank is None else result.rank,
        )
        for position, result in enumerate(ranked)
    ]


def relative_values(results: Sequence[SearchResult]) -> list[float]:
    """Return a value in [0, 1] per result, never increasing, whatever scale the ranker uses."""
    values: list[float] = []
    top = max([1.0, *(result.rank or 0.0 for result in results)])
    for result in results:
        previous = values[-1] if values else 1.0
        values.append(min(previous, max(0.0, result.rank or 0.0) / top))
    return values


def _sort_by(
    results: Sequence[SearchResult], score: Callable[[SearchResult], float]
) -> list[SearchResult]:
    scored = [replace(result, rank=round(float(score(result)), 6)) for result in results]
    return sorted(scored, key=_best_first)


def _best_first(result: SearchResult) -> tuple[float, float, str]:
    """Return the sort key: rank, then time, newest first, then id."""
    memory = result.memory
    created = memory.created_at.timestamp() if memory.created_at else 0.0
    return (-(result.rank or 0.0), -created, memory.id)


def _is_list_like(value: object) -> bool:
    """True for lists, tuples and iterators, but not for texts, mappings and coroutines."""
    if isinstance(value, Coroutine):
        value.close()  # or Python warns that it was never awaited
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _validate_ranked(results: Sequence[SearchResult], ranked: Sequence[object], name: str) -> None:
    ids: list[str] = []
    for result in ranked:
        if not isinstance(result, SearchResult):
            kind = type(result).__name__
            raise SearchError(f"ranker {name!r} must return SearchResult values, got {kind}")
        rank, id = result.rank, result.memory.id
        if rank is not None and not (isinstance(rank, int | float) and isfinite(rank)):
            raise SearchError(f"ranker {name!r}: the rank of {id!r} must be finite, got {rank!r}")
        ids.append(id)
    expected = sorted(result.memory.id for result in results)
    if sorted(ids) != expected:
        lost, new = sorted({*expected} - {*ids}), sorted({*ids} - {*expected})
        fault = f"lost {lost[:3]}" if lost else f"added {new[:3]}" if new else "repeated some"
        raise SearchError(f"ranker {name!r} must return the results it received; it {fault}")
