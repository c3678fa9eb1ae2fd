"""What an evaluation found: every question with its measures, their means, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knowloom.errors import unknown
from knowloom.evaluation.questions import Question
from knowloom.model import Key


@dataclass(frozen=True, slots=True)
class Answered:
    """One question under one configuration. Times are milliseconds, by what was asked."""

    question: Question
    expected: frozenset[Key]
    found: tuple[Key, ...]  # best first
    values: Mapping[str, float]  # by measure
    times: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[int, int] = field(default_factory=dict)  # used, by budget
    problems: tuple[str, ...] = ()

    def place(self, key: Key) -> int | None:
        """Where the ranking has an item, from 1."""
        return self.found.index(key) + 1 if key in self.found else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All questions under one configuration: what it is called, and the options that make it."""

    name: str
    options: Mapping[str, Any]
    answers: tuple[Answered, ...]
    ks: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """Those that at least one question has, in a fixed order."""
        order = ("recall", "all-found", "nDCG", "evidence", "facts")
        names = dict.fromkeys(name for answer in self.answers for name in answer.values)
        return tuple(
            sorted(
                names,
                key=lambda name: (order.index(name.partition("@")[0]), int(name.partition("@")[2])),
            )
        )

    def values(self, measure: str) -> list[float]:
        """Of every question that has the measure, in the order of the questions."""
        if measure not in self.measures:
            raise unknown("measure", measure, self.measures)
        return [answer.values[measure] for answer in self.answers if measure in answer.values]

    def mean(self, measure: str) -> float:
        return float(np.mean(self.values(measure)))

    def means(self) -> dict[str, float]:
        return {measure: self.mean(measure) for measure in self.measures}

    def latency(self) -> dict[str, tuple[float, float]]:
        """p50 and p95 in milliseconds of every call that was timed; without the embedding of the question."""
        calls = dict.fromkeys(call for answer in self.answers for call in answer.times)
        return {
            call: percentiles(
                [answer.times[call] for answer in self.answers if call in answer.times]
            )
            for call in calls
        }

    @property
    def problems(self) -> tuple[str, ...]:
        """What was degraded while it ran, each once, with how many questions met it."""
        met: dict[str, int] = {}
        for problem in (problem for answer in self.answers for problem in answer.problems):
            met[problem] = met.get(problem, 0) + 1
        return tuple(f"{problem} ({count:,} questions)" for problem, count in met.items())


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.percentile(values, [50, 95])
    return float(low), float(high)
