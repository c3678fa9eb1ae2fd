"""Evaluations and comparisons as plain values for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from knowloom.evaluation.compare import Change, Comparison
from knowloom.evaluation.results import Answered, Evaluation
from knowloom.evaluation.significance import Difference, interval
from knowloom.evaluation.tune import Tuning

Row = dict[str, Any]
PLACES = 6  # decimals


def evaluation(found: Evaluation, seed: int) -> Row:
    return {
        "name": found.name,
        "options": dict(found.options),
        "questions": len(found.answers),
        "measures": {
            measure: {"mean": _short(found.mean(measure)), **_interval(found, measure, seed)}
            for measure in found.measures
        },
        "latency_ms": {
            call: {"p50": round(p50, 3), "p95": round(p95, 3)}
            for call, (p50, p95) in found.latency().items()
        },
        "problems": list(found.problems),
    }


def answers(found: Evaluation) -> list[Row]:
    return [
        {
            "id": one.question.id,
            "question": one.question.text,
            "spaces": list(one.question.spaces),
            "expected": expected(one),
            "found": [{"space": space, "id": id} for space, id in one.found],
            "values": {measure: _short(value) for measure, value in one.values.items()},
            "tokens": {str(budget): used for budget, used in one.tokens.items()},
        }
        for one in found.answers
    ]


def expected(one: Answered) -> list[Row]:
    """What the question needs, and where its ranking has it; null: nowhere."""
    return [
        {"space": key[0], "id": key[1], "place": one.place(key)} for key in sorted(one.expected)
    ]


def comparison(found: Comparison) -> Row:
    changes = found.changes()
    return {
        "before": found.before.name,
        "after": found.after.name,
        "headline": found.headline,
        "real": found.differences[found.headline].real,
        "verdict": found.verdict,
        "seed": found.seed,
        "differences": {measure: difference(one) for measure, one in found.differences.items()},
        "worse": [_change(one) for one in changes if one.by < 0],
        "better": [_change(one) for one in reversed(changes) if one.by > 0],
    }


def tuning(found: Tuning) -> Row:
    return {
        "measure": found.measure,
        "questions": found.questions,
        "adopted": found.adopted,
        "numbers": found.numbers,
        "found": dict(found.found),
        "training": {"before": _short(found.before), "after": _short(found.after)},
        "held_out": difference(found.held_out),
        "verdict": found.verdict,
        "tried": found.tried,
        "seed": found.seed,
    }


def difference(found: Difference) -> Row:
    names = ("mean", "low", "high", "p")
    counts = {name: getattr(found, name) for name in ("better", "worse", "equal", "real")}
    return {name: _short(getattr(found, name)) for name in names} | counts


def _change(found: Change) -> Row:
    return {
        "id": found.before.question.id,
        "question": found.before.question.text,
        "by": _short(found.by),
        "before": expected(found.before),
        "after": expected(found.after),
    }


def _interval(found: Evaluation, measure: str, seed: int) -> Row:
    low, high = interval(found.values(measure), np.random.default_rng(seed))
    return {"low": _short(low), "high": _short(high)}


def _short(number: float) -> float:
    return round(number, PLACES)
