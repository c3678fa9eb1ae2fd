"""Results of an evaluation: metrics per question, their means, and latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knowloom.errors import unknown_name
from knowloom.evaluation.questions import Question
from knowloom.model import Key

FAMILIES = ("recall", "all-found", "nDCG", "evidence", "whole", "facts")


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """One question under one configuration. Times are milliseconds per call."""

    question: Question
    expected: frozenset[Key]
    ranking: tuple[Key, ...]  # best first
    values: Mapping[str, float]  # by measure
    times: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[int, int] = field(default_factory=dict)  # used, by budget
    problems: tuple[str, ...] = ()

    def rank(self, key: Key) -> int | None:
        """Return the rank of an item, from 1; None if it is absent."""
        return self.ranking.index(key) + 1 if key in self.ranking else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All questions under one configuration, with its name and options."""

    name: str
    options: Mapping[str, Any]
    answers: tuple[QuestionResult, ...]
    ks: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that at least one question has, in a fixed order."""

        def position(name: str) -> tuple[int, int]:
            family, _, number = name.partition("@")
            return FAMILIES.index(family), int(number)

        names = dict.fromkeys(name for answer in self.answers for name in answer.values)
        return tuple(sorted(names, key=position))

    def values(self, measure: str) -> list[float]:
        """Return the values of the questions that have the measure, in question order."""
        if measure not in self.measures:
            raise unknown_name("measure", measure, self.measures)
        return [answer.values[measure] for answer in self.answers if measure in answer.values]

    def mean(self, measure: str) -> float:
        return float(np.mean(self.values(measure)))

    def means(self) -> dict[str, float]:
        return {measure: self.mean(measure) for measure in self.measures}

    def latency(self) -> dict[str, tuple[float, float]]:
        """Return p50 and p95 per call in milliseconds, without embedding the query."""
        calls = dict.fromkeys(call for answer in self.answers for call in answer.times)
        times = {
            call: [answer.times[call] for answer in self.answers if call in answer.times]
            for call in calls
        }
        return {call: percentiles(values) for call, values in times.items()}

    @property
    def problems(self) -> tuple[str, ...]:
        """The distinct degradations with the number of questions they affected."""
        counts: dict[str, int] = {}
        for answer in self.answers:
            for problem in answer.problems:
                counts[problem] = counts.get(problem, 0) + 1
        return tuple(f"{problem} ({count:,} questions)" for problem, count in counts.items())


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.percentile(values, [50, 95])
    return float(low), float(high)
