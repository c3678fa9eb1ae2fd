"""Search the few numbers of retrieval for better ones on training questions, and keep them only if they hold on questions left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowloom.embedding import Progress
from knowloom.engine import Engine
from knowloom.errors import Invalid, unknown
from knowloom.evaluation import questions
from knowloom.evaluation.compare import verdict
from knowloom.evaluation.evaluate import Given, check_engine, evaluate, in_force
from knowloom.evaluation.questions import Question
from knowloom.evaluation.significance import Difference, paired
from knowloom.options import TABLE as PATCHED
from knowloom.options import known, named_recipes, whole

Numbers = Mapping[str, float]
Table = Mapping[str, Sequence[Numbers]]
Floats = npt.NDArray[np.float64]

_SEARCHED, _WALKED = named_recipes("knowledge")[:2]
DEFAULTS: Numbers = {
    name: getattr(_SEARCHED, name) for name in ("bm25_weight", "vector_weight", "sharpness")
} | {
    "depth": _WALKED.depth,
    **{f"walk_{one.name}": getattr(_WALKED.walk, one.name) for one in fields(_WALKED.walk)},
}
# What may be tried beside what is set: few values of few numbers, so that there is little to fit to noise.
TABLE: Table = {
    "shares": tuple(
        {"bm25_weight": words, "vector_weight": round(1 - words, 1)}
        for words in (0.2, 0.3, 0.4, 0.5, 0.7, 0.8)
    ),
    "sharpness": tuple({"sharpness": value} for value in (2.0, 4.0, 9.0, 12.0)),
    "depth": tuple({"depth": value} for value in (1, 3)),
    "walk_onward": tuple({"walk_onward": value} for value in (0.3, 0.4, 0.6)),
    "walk_starts": tuple({"walk_starts": value} for value in (5, 20)),
    "walk_sharpness": tuple({"walk_sharpness": value} for value in (3.0, 8.0)),
    "walk_named": tuple({"walk_named": value} for value in (0.0, 0.15, 0.5)),
    "walk_bridge": tuple({"walk_bridge": value} for value in (0.0, 0.15)),
}
OF_RANKINGS, OF_CONTEXTS = ("recall", "all-found", "nDCG"), ("evidence", "facts")
MEASURE, FOLDS, PASSES = "evidence@1024", 4, 2
LEAST = 12  # questions


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was found. `held_out` compares what is set with what each part of the questions would have got from numbers chosen on the others:
    that, and not the gain on the training questions, says whether tuning helps."""

    measure: str
    questions: int
    set_before: Numbers  # with those of the options: all was measured with them
    found: Numbers  # what differs from it, chosen on all questions
    before: float  # the mean of all questions, as it was set
    after: float  # and with what was found; on the questions it was chosen on
    held_out: Difference
    tried: int  # configurations
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def adopted(self) -> bool:
        """Whether it is worth keeping: a gain on questions left out that chance does not explain."""
        return bool(self.found) and self.held_out.real and self.held_out.mean > 0

    @property
    def numbers(self) -> dict[str, float]:
        """What to set: with what was found, if that is kept."""
        return {**self.set_before, **(self.found if self.adopted else {})}

    @property
    def verdict(self) -> str:
        if not self.found:
            return f"Nothing to change: no other numbers give a better {self.measure} on these questions."
        held = verdict(
            "what is set", "tuning", f"{self.measure} of questions left out", self.held_out
        )
        return f"{held} {'The numbers are kept.' if self.adopted else 'What is set stays: the gain on the training questions may be noise.'}"

    def patch(self) -> str:
        """A TOML file that knowloom.open(retrieval=…) and the setting `retrieval` understand."""
        said = [
            f"knowloom tune: {self.measure}, {self.questions:,} questions, {self.tried:,} configurations tried, seed {self.seed}",
            *(
                [
                    f"asked with {', '.join(f'{name}={value}' for name, value in self.options.items())}"
                ]
                if self.options
                else []
            ),
            f"mean on the training questions: {100 * self.before:.1f} before, {100 * self.after:.1f} with what was found",
            self.verdict,
        ]
        rows = [f"{name} = {value!r}" for name, value in self.numbers.items()]
        return "\n".join([*(f"# {line}" for line in said), f"[{PATCHED}]", *rows]) + "\n"


def tune(
    kb: Engine,
    asked: Given,
    *,
    measure: str = MEASURE,
    folds: int = FOLDS,
    seed: int = 0,
    spaces: Sequence[str] = (),
    now: datetime | None = None,
    table: Table = TABLE,
    progress: Progress | None = None,
    **options: Any,
) -> Tuning:
    """Coordinate search over the table, one number after the other, judged by cross-validation over `folds` parts of the questions, and a
    paired bootstrap. Other options as for `evaluate`, such as mode="walk"."""
    check_engine(kb)
    family, at = _measured(measure)
    given = tuple(questions.read(asked) if isinstance(asked, str | Path) else asked)
    if family == "facts":
        given = tuple(question for question in given if question.facts)
    if len(given) < LEAST:
        raise Invalid(
            f"{len(given)} questions that have {measure} are too few to tune on: at least {LEAST} are needed"
        )
    whole("folds", folds, 2, len(given))
    set_before = in_force(kb, options).given
    rows = [_with_default(choices, set_before) for choices in _relevant(kb, table, family, options)]
    search = _Search(kb, given, measure, rows, now or kb.now(), spaces, progress, options)
    search.asked |= (
        {"ks": (at,), "budgets": ()} if family in OF_RANKINGS else {"ks": (), "budgets": (at,)}
    )
    fold = np.random.default_rng(seed).permutation(len(given)) % folds
    before = search.values({})
    left_out = before.copy()
    for number in range(folds):
        chosen = search.best(fold != number)
        left_out[fold == number] = search.values(chosen)[fold == number]
    found = search.best(np.full(len(given), True))
    held_out = paired(before.tolist(), left_out.tolist(), np.random.default_rng(seed))
    means = (float(before.mean()), float(search.values(found).mean()))
    return Tuning(
        measure,
        len(given),
        set_before,
        found,
        *means,
        held_out,
        len(search.known),
        seed,
        dict(options),
    )


def _measured(measure: str) -> tuple[str, int]:
    family, _, number = measure.partition("@")
    if (
        family not in (*OF_RANKINGS, *OF_CONTEXTS)
        or not number.isdecimal()
        or (family == "nDCG" and number != "10")
    ):
        raise unknown(
            "measure",
            measure,
            ("recall@K", "all-found@K", "nDCG@10", "evidence@TOKENS", "facts@TOKENS"),
        )
    return family, int(number)


def _relevant(
    kb: Engine, table: Table, family: str, options: Mapping[str, Any]
) -> list[Sequence[Numbers]]:
    """The rows that can change the measure at all."""
    mode = options.get("mode", "hybrid")
    fused = kb.dimensions is not None and mode in ("hybrid", "walk")
    for name, choices in table.items():
        for choice in choices:
            known(choice)  # a number that makes no sense is refused before the work begins
            if clash := sorted(set(choice) & set(options)):
                raise Invalid(f"{clash[0]} is both given and in the row {name!r} of what is tuned")
    matters = {"shares": fused, "sharpness": family in OF_CONTEXTS}
    rest = family in OF_CONTEXTS or mode == "walk"
    found = [choices for name, choices in table.items() if matters.get(name, rest)]
    if not found:
        raise Invalid(
            f"no number that can be tuned changes a search with mode={mode}; known: {', '.join(table)}"
        )
    return found


def _with_default(choices: Sequence[Numbers], set_before: Numbers) -> Sequence[Numbers]:
    """Where something else is set, knowloom's own numbers are tried as well."""
    own = {name: DEFAULTS[name] for name in choices[0]}
    differs = any(set_before.get(name, value) != value for name, value in own.items())
    return [own, *choices] if differs and own not in choices else choices


@dataclass(slots=True)
class _Search:
    """Values of every question under every configuration that was tried, each measured once."""

    kb: Engine
    given: Sequence[Question]
    measure: str
    rows: Sequence[Sequence[Numbers]]
    now: datetime
    spaces: Sequence[str]
    progress: Progress | None
    asked: dict[str, Any]
    known: dict[tuple[tuple[str, float], ...], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.asked = dict(self.asked)
        self.given = tuple(
            replace(question, id=str(place)) for place, question in enumerate(self.given, 1)
        )

    def values(self, numbers: Numbers) -> Floats:
        key = tuple(sorted(numbers.items()))
        if key not in self.known:
            found = evaluate(
                self.kb, self.given, spaces=self.spaces, now=self.now, **{**self.asked, **numbers}
            )
            self.known[key] = np.array(found.values(self.measure))
            if self.progress is not None:
                self.progress("tried", len(self.known), 0)
        return self.known[key]

    def best(self, part: npt.NDArray[np.bool_]) -> dict[str, float]:
        """One number after the other: the value that is best on this part of the questions, what is set where nothing is better."""
        best: dict[str, float] = {}
        score = float(self.values(best)[part].mean())
        for _ in range(PASSES):
            before = best
            for choices in self.rows:
                others = {name: value for name, value in best.items() if name not in choices[0]}
                for choice in ({}, *choices):
                    tried = {**others, **choice}
                    mean = float(self.values(tried)[part].mean())
                    if mean > score + 1e-9:
                        best, score = tried, mean
            if best == before:
                break
        return best
