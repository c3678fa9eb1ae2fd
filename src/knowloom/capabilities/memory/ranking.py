"""Order what was found: by a weighted sum of similarity, recency and confidence, by one of them, or by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from knowloom.capabilities.memory.model import SearchResult
from knowloom.errors import Invalid, SearchError, unknown

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How much each signal counts. With `half_life_days` a memory's recency halves in that time; else it is 1 / (1 + days). `now` is the
    request's time: rankers are given it."""

    similarity_weight: float = 0.5
    recency_weight: float = 0.3
    confidence_weight: float = 0.2
    access_weight: float = 0.0
    half_life_days: float | None = None
    now: datetime | None = None

    def checked(self) -> RankingOptions:
        for name in WEIGHTS:
            value = getattr(self, f"{name}_weight")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise Invalid(f"{name}_weight must be a number from 0 to 1, not {value!r}")
        if not any(getattr(self, f"{name}_weight") for name in WEIGHTS):
            raise Invalid("the weights of a ranking must not all be 0")
        half = self.half_life_days
        if half is not None and (
            isinstance(half, bool)
            or not isinstance(half, int | float)
            or not 0 < half < float("inf")
        ):
            raise Invalid(f"half_life_days must be a number above 0, not {half!r}")
        return self


class Ranker(Protocol):
    """Gives back the same results, best first. Where it sets no `rank`, its order counts."""

    def __call__(
        self, results: Sequence[SearchResult], options: RankingOptions, /
    ) -> Sequence[SearchResult]: ...


def similarity(result: SearchResult, _: RankingOptions) -> float:
    return result.score


def recency(result: SearchResult, options: RankingOptions) -> float:
    created, now = result.memory.created_at, options.now
    days = max(0.0, (now - created).total_seconds() / DAY_S) if created and now else 0.0
    return (
        1 / (1 + days) if options.half_life_days is None else 0.5 ** (days / options.half_life_days)
    )


def confidence(result: SearchResult, _: RankingOptions) -> float:
    return result.memory.confidence


def access(result: SearchResult, _: RankingOptions) -> float:
    """0 for what was never used again, 1/2 after once, towards 1."""
    return result.memory.accesses / (1 + result.memory.accesses)


WEIGHTS: dict[str, Callable[[SearchResult, RankingOptions], float]] = {
    "similarity": similarity,
    "recency": recency,
    "confidence": confidence,
    "access": access,
}


def weighted(results: Sequence[SearchResult], options: RankingOptions) -> list[SearchResult]:
    return _ordered(
        results,
        lambda one: sum(
            getattr(options, f"{name}_weight") * signal(one, options)
            for name, signal in WEIGHTS.items()
        ),
    )


def by_signal(signal: Callable[[SearchResult, RankingOptions], float]) -> Ranker:
    return lambda results, options: _ordered(results, lambda one: signal(one, options))


def by_score(score: Callable[[SearchResult], float]) -> Ranker:
    """A ranker from a function that scores one result."""
    return lambda results, _: _ordered(results, score)


RANKERS: Mapping[str, Ranker] = {
    "default": weighted,
    "similarity": by_signal(similarity),
    "recency": by_signal(recency),
    "confidence": by_signal(confidence),
}


def ranked(
    results: Sequence[SearchResult],
    ranker: str | Ranker,
    options: RankingOptions,
    known: Mapping[str, Ranker],
) -> list[SearchResult]:
    """The results in the ranker's order, each with a rank score. A ranker that fails, or gives back other results than it got, is an error."""
    chosen = ranker if callable(ranker) else known.get(ranker) if isinstance(ranker, str) else None
    if chosen is None:
        raise unknown("ranker", ranker, known)
    name = ranker if isinstance(ranker, str) else getattr(ranker, "__name__", "given")
    try:
        found = list(chosen(tuple(results), options))
    except Exception as error:  # a function of the user's may raise anything
        raise SearchError(f"the ranker {name!r} failed: {type(error).__name__}: {error}") from error
    _check_ranked(results, found, name)
    given = {one.memory.id: one for one in results}
    places = {one.memory.id: round(1 - place / len(found), 6) for place, one in enumerate(found)}
    return [
        replace(given[one.memory.id], rank=places[one.memory.id] if one.rank is None else one.rank)
        for one in found
    ]


def worths(results: Sequence[SearchResult]) -> list[float]:
    """What each result is worth beside the others, from 0 to 1, never rising: the order of a ranker is kept whatever its numbers mean."""
    found: list[float] = []
    top = max([1.0, *(one.rank or 0.0 for one in results)])
    for one in results:
        found.append(min(found[-1] if found else 1.0, max(0.0, one.rank or 0.0) / top))
    return found


def _ordered(
    results: Sequence[SearchResult], score: Callable[[SearchResult], float]
) -> list[SearchResult]:
    scored = [replace(one, rank=round(float(score(one)), 6)) for one in results]
    return sorted(scored, key=lambda one: (-(one.rank or 0.0), one.memory.id))


def _check_ranked(results: Sequence[SearchResult], found: Sequence[object], name: str) -> None:
    for one in found:
        if not isinstance(one, SearchResult):
            raise SearchError(
                f"the ranker {name!r} gave back {type(one).__name__} values instead of results"
            )
        if one.rank is not None and not (
            isinstance(one.rank, int | float)
            and one.rank == one.rank
            and abs(one.rank) != float("inf")
        ):
            raise SearchError(
                f"the ranker {name!r} gave memory {one.memory.id!r} the rank {one.rank!r}, which is not a number"
            )
    before, after = (
        sorted(one.memory.id for one in results),
        sorted(one.memory.id for one in found if isinstance(one, SearchResult)),
    )
    if before != after:
        lost, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
        what = f"lost {lost[:3]}" if lost else f"added {new[:3]}" if new else "repeated some"
        raise SearchError(f"the ranker {name!r} must give back the results it got: it {what}")
