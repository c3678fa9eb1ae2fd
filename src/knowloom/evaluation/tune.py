"""Tuning: coordinate search over retrieval settings, adopted only if cross-validation confirms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from knowloom.engine import Engine
from knowloom.errors import Invalid, unknown_name
from knowloom.evaluation import questions
from knowloom.evaluation.compare import format_verdict
from knowloom.evaluation.evaluate import (
    EvaluationArguments,
    QuestionSource,
    evaluate,
    resolve_retrieval,
    validate_engine,
)
from knowloom.evaluation.questions import Question
from knowloom.evaluation.significance import Difference, Floats, compare_paired
from knowloom.ports import Progress
from knowloom.retrieval_settings import SETTINGS_TABLE, resolve_settings, select_recipes
from knowloom.validation import validate_int

Settings = Mapping[str, float]
Table = Mapping[str, Sequence[Settings]]

_SEARCH, _NEIGHBOURS = select_recipes("knowledge")[:2]
DEFAULTS: Settings = {
    name: getattr(_SEARCH, name) for name in ("bm25_weight", "vector_weight", "sharpness")
} | {
    "depth": _NEIGHBOURS.depth,
    **{f"walk_{f.name}": getattr(_NEIGHBOURS.walk, f.name) for f in fields(_NEIGHBOURS.walk)},
}


def _choices(name: str, *values: float) -> tuple[Settings, ...]:
    return tuple({name: value} for value in values)


# Few values of few settings, to leave little room for fitting noise.
TABLE: Table = {
    "shares": tuple(
        {"bm25_weight": weight, "vector_weight": round(1 - weight, 1)}
        for weight in (0.2, 0.3, 0.4, 0.5, 0.7, 0.8)
    ),
    "sharpness": _choices("sharpness", 2.0, 4.0, 9.0, 12.0),
    "depth": _choices("depth", 1, 3),
    "walk_onward": _choices("walk_onward", 0.3, 0.4, 0.6),
    "walk_starts": _choices("walk_starts", 5, 20),
    "walk_sharpness": _choices("walk_sharpness", 3.0, 8.0),
    "walk_named": _choices("walk_named", 0.0, 0.15, 0.5),
    "walk_bridge": _choices("walk_bridge", 0.0, 0.15),
}
RANKING_METRICS = ("recall", "all-found", "nDCG")
CONTEXT_METRICS = ("evidence", "whole", "facts")
MEASURES = ("recall@K", "all-found@K", "nDCG@10", "evidence@TOKENS", "whole@TOKENS", "facts@TOKENS")
MEASURE, FOLDS, PASSES = "evidence@1024", 4, 2
MIN_QUESTIONS = 12
MIN_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of a tuning.

    `held_out` compares the current settings with those that each fold would have received from the
    other folds. That, and not the gain on the training questions, decides the adoption.
    """

    measure: str
    questions: int
    current: Settings  # with those of the options, in all measurements
    changes: Settings  # chosen on all questions
    before: float  # mean over all questions with the current settings
    after: float  # mean over the training questions with the changes
    held_out: Difference
    tried: int  # configurations
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def adopted(self) -> bool:
        """True if the gain on held-out questions is significant."""
        return bool(self.changes) and self.held_out.real and self.held_out.mean > 0

    @property
    def numbers(self) -> dict[str, float]:
        """The settings to use: the current ones, and the changes if they are adopted."""
        return {**self.current, **(self.changes if self.adopted else {})}

    @property
    def verdict(self) -> str:
        if not self.changes:
            return f"Nothing to change: no settings improve {self.measure} on these questions."
        measure = f"{self.measure} on held-out questions"
        verdict = format_verdict("the current settings", "tuning", measure, self.held_out)
        if self.adopted:
            return f"{verdict} The changes are adopted."
        return f"{verdict} The current settings stay: the gain on training questions may be noise."

    def patch(self) -> str:
        """Return a TOML file for `knowloom.open(retrieval=…)` and the setting `retrieval`."""
        comments = [
            f"knowloom tune: {self.measure}, {self.questions:,} questions, "
            f"{self.tried:,} configurations tried, seed {self.seed}"
        ]
        if self.options:
            options = ", ".join(f"{name}={value}" for name, value in self.options.items())
            comments.append(f"options: {options}")
        means = f"{100 * self.before:.1f} before, {100 * self.after:.1f} after"
        comments += [f"mean on the training questions: {means}", self.verdict]
        rows = [f"{name} = {value!r}" for name, value in self.numbers.items()]
        return "\n".join([*(f"# {line}" for line in comments), f"[{SETTINGS_TABLE}]", *rows]) + "\n"


def tune(
    kb: Engine,
    source: QuestionSource,
    *,
    measure: str = MEASURE,
    folds: int = FOLDS,
    seed: int = 0,
    spaces: Sequence[str] = (),
    now: datetime | None = None,
    table: Table = TABLE,
    progress: Progress | None = None,
    **options: Unpack[EvaluationArguments],
) -> Tuning:
    """Search the table setting by setting, and cross-validate the result over `folds`.

    Options as for `evaluate`, such as mode="walk".
    """
    validate_engine(kb)
    family, number = _parse_measure(measure)
    tasks = _load_questions(source, measure, family)
    validate_int("folds", folds, 2, len(tasks))
    current = resolve_retrieval(kb, options).changes
    rows = [
        _include_default(choices, current) for choices in _relevant_rows(kb, table, family, options)
    ]
    ks, budgets = ((number,), ()) if family in RANKING_METRICS else ((), (number,))
    arguments = {**options, "ks": ks, "budgets": budgets, "spaces": spaces}
    arguments["now"] = now or kb.reader.now()
    search = _CoordinateSearch(kb, tasks, measure, rows, progress, arguments)
    before = search.values({})
    held_out = search.cross_validate(folds, seed)
    changes = search.best(np.full(len(tasks), True))
    after = search.values(changes)
    return Tuning(
        measure,
        len(tasks),
        current,
        changes,
        float(before.mean()),
        float(after.mean()),
        compare_paired(before.tolist(), held_out.tolist(), np.random.default_rng(seed)),
        len(search.measured),
        seed,
        dict(options),
    )


def _load_questions(source: QuestionSource, measure: str, family: str) -> tuple[Question, ...]:
    if isinstance(source, str | Path):
        source = questions.read_questions(source)
    tasks = tuple(source)
    if family == "facts":
        tasks = tuple(question for question in tasks if question.statements)
    if len(tasks) < MIN_QUESTIONS:
        raise Invalid(
            f"tuning {measure} needs at least {MIN_QUESTIONS} questions, got {len(tasks)}"
        )
    return tuple(replace(question, id=str(number)) for number, question in enumerate(tasks, 1))


def _parse_measure(measure: str) -> tuple[str, int]:
    family, _, number = measure.partition("@")
    is_family = family in (*RANKING_METRICS, *CONTEXT_METRICS)
    if not is_family or not number.isdecimal() or (family == "nDCG" and number != "10"):
        raise unknown_name("measure", measure, MEASURES)
    return family, int(number)


def _relevant_rows(
    kb: Engine, table: Table, family: str, options: Mapping[str, Any]
) -> list[Sequence[Settings]]:
    """Return the rows of the table that can affect the measure."""
    for name, choices in table.items():
        for choice in choices:
            resolve_settings(choice)  # refuse an invalid value before the work begins
            if clash := sorted(set(choice) & set(options)):
                raise Invalid(f"{clash[0]} is both an option and in the row {name!r} of the table")
    mode = options.get("mode", "hybrid")
    is_fused = kb.reader.dimensions is not None and mode in ("hybrid", "walk")
    is_context = family in CONTEXT_METRICS
    affects = {"shares": is_fused, "sharpness": is_context}
    rows = [
        choices
        for name, choices in table.items()
        if affects.get(name, is_context or mode == "walk")
    ]
    if not rows:
        available = ", ".join(table)
        raise Invalid(f"no setting affects a search with mode={mode}; available: {available}")
    return rows


def _include_default(choices: Sequence[Settings], current: Settings) -> Sequence[Settings]:
    """Add the defaults to the choices if other values are set."""
    default = {name: DEFAULTS[name] for name in choices[0]}
    differs = any(current.get(name, value) != value for name, value in default.items())
    return [default, *choices] if differs and default not in choices else choices


@dataclass(slots=True)
class _CoordinateSearch:
    """Values of all questions per configuration, each measured once."""

    kb: Engine
    tasks: Sequence[Question]
    measure: str
    rows: Sequence[Sequence[Settings]]
    progress: Progress | None
    arguments: Mapping[str, Any]
    measured: dict[tuple[tuple[str, float], ...], Floats] = field(default_factory=dict)

    def values(self, settings: Settings) -> Floats:
        key = tuple(sorted(settings.items()))
        if key not in self.measured:
            evaluation = evaluate(self.kb, self.tasks, **{**self.arguments, **settings})
            self.measured[key] = np.array(evaluation.values(self.measure))
            if self.progress is not None:
                self.progress("tried", len(self.measured), 0)
        return self.measured[key]

    def best(self, subset: npt.NDArray[np.bool_]) -> dict[str, float]:
        """Return the best settings on a subset of the questions, one coordinate at a time."""
        best: dict[str, float] = {}
        score = float(self.values(best)[subset].mean())
        for _ in range(PASSES):
            previous = best
            for choices in self.rows:
                others = {name: value for name, value in best.items() if name not in choices[0]}
                for choice in ({}, *choices):
                    candidate = {**others, **choice}
                    mean = float(self.values(candidate)[subset].mean())
                    if mean > score + MIN_GAIN:
                        best, score = candidate, mean
            if best == previous:
                break
        return best

    def cross_validate(self, folds: int, seed: int) -> Floats:
        """Return each question's value under the settings chosen on the other folds."""
        fold = np.random.default_rng(seed).permutation(len(self.tasks)) % folds
        held_out = self.values({}).copy()
        for number in range(folds):
            settings = self.best(fold != number)
            held_out[fold == number] = self.values(settings)[fold == number]
        return held_out
