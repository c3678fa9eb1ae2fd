"""Evaluations, comparisons and tunings as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np

from knowloom.evaluation.compare import Comparison, QuestionChange
from knowloom.evaluation.results import Evaluation, QuestionResult
from knowloom.evaluation.significance import Difference, bootstrap_interval
from knowloom.evaluation.tune import Tuning

Json = dict[str, Any]
DECIMALS = 6


def evaluation_to_json(evaluation: Evaluation, seed: int) -> Json:
    return {
        "name": evaluation.name,
        "options": dict(evaluation.options),
        "questions": len(evaluation.answers),
        "measures": {
            measure: _measure_to_json(evaluation, measure, seed) for measure in evaluation.measures
        },
        "latency_ms": {
            call: {"p50": round(p50, 3), "p95": round(p95, 3)}
            for call, (p50, p95) in evaluation.latency().items()
        },
        "problems": list(evaluation.problems),
    }


def answers_to_json(evaluation: Evaluation) -> list[Json]:
    return [
        {
            "id": answer.question.id,
            "question": answer.question.text,
            "spaces": list(answer.question.spaces),
            "expected": expected_to_json(answer),
            "found": [{"space": space, "id": id} for space, id in answer.ranking],
            "values": {measure: _round(value) for measure, value in answer.values.items()},
            "tokens": {str(budget): used for budget, used in answer.tokens.items()},
        }
        for answer in evaluation.answers
    ]


def expected_to_json(answer: QuestionResult) -> list[Json]:
    """Return the expected items with their ranks; null if absent."""
    return [
        {"space": key[0], "id": key[1], "place": answer.rank(key)}
        for key in sorted(answer.expected)
    ]


def comparison_to_json(comparison: Comparison) -> Json:
    changes = comparison.changes()
    return {
        "before": comparison.before.name,
        "after": comparison.after.name,
        "headline": comparison.headline,
        "real": comparison.differences[comparison.headline].real,
        "verdict": comparison.verdict,
        "seed": comparison.seed,
        "differences": {
            measure: difference_to_json(difference)
            for measure, difference in comparison.differences.items()
        },
        "worse": [_change_to_json(change) for change in changes if change.by < 0],
        "better": [_change_to_json(change) for change in reversed(changes) if change.by > 0],
    }


def tuning_to_json(tuning: Tuning) -> Json:
    return {
        "measure": tuning.measure,
        "questions": tuning.questions,
        "adopted": tuning.adopted,
        "numbers": tuning.numbers,
        "found": dict(tuning.changes),
        "training": {"before": _round(tuning.before), "after": _round(tuning.after)},
        "held_out": difference_to_json(tuning.held_out),
        "verdict": tuning.verdict,
        "tried": tuning.tried,
        "seed": tuning.seed,
    }


def difference_to_json(difference: Difference) -> Json:
    numbers = {name: _round(getattr(difference, name)) for name in ("mean", "low", "high", "p")}
    counts = {name: getattr(difference, name) for name in ("better", "worse", "equal", "real")}
    return numbers | counts


def _change_to_json(change: QuestionChange) -> Json:
    return {
        "id": change.before.question.id,
        "question": change.before.question.text,
        "by": _round(change.by),
        "before": expected_to_json(change.before),
        "after": expected_to_json(change.after),
    }


def _measure_to_json(evaluation: Evaluation, measure: str, seed: int) -> Json:
    low, high = bootstrap_interval(evaluation.values(measure), np.random.default_rng(seed))
    mean = evaluation.mean(measure)
    return {"mean": _round(mean), "low": _round(low), "high": _round(high)}


def _round(number: float) -> float:
    return round(number, DECIMALS)
