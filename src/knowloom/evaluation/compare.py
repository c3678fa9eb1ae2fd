"""Comparison of two configurations on the same questions, with significance and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from knowloom.errors import Invalid, unknown_name
from knowloom.evaluation.results import Evaluation, QuestionResult
from knowloom.evaluation.significance import ROUNDS, SIGNIFICANCE, Difference, compare_paired

# The first family with a difference gives the headline.
HEADLINE_ORDER = ("nDCG", "recall", "all-found", "evidence", "whole", "facts")


@dataclass(frozen=True, slots=True)
class QuestionChange:
    """One question before and after, and the change of its measure."""

    before: QuestionResult
    after: QuestionResult
    by: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`after` compared with `before`. The verdict and the list of changes use the headline."""

    before: Evaluation
    after: Evaluation
    differences: Mapping[str, Difference]
    headline: str
    seed: int = 0

    def changes(self, measure: str = "") -> list[QuestionChange]:
        """Return the questions whose measure (default: the headline) changed, worst first."""
        name = measure or self.headline
        pairs = zip(self.before.answers, self.after.answers, strict=True)
        changes = [
            QuestionChange(before, after, after.values[name] - before.values[name])
            for before, after in pairs
            if name in before.values and before.values[name] != after.values[name]
        ]
        return sorted(changes, key=lambda change: (change.by, change.before.question.id))

    @property
    def verdict(self) -> str:
        difference = self.differences[self.headline]
        return format_verdict(self.before.name, self.after.name, self.headline, difference)


def compare(
    before: Evaluation, after: Evaluation, *, measure: str = "", seed: int = 0, rounds: int = ROUNDS
) -> Comparison:
    """Compare each measure that both have.

    Each measure has its own random generator from the seed, so that none depends on the others.
    """
    if _questions(before) != _questions(after):
        raise Invalid(f"{before.name!r} and {after.name!r} have different questions")
    shared = [name for name in before.measures if name in after.measures]
    if measure and measure not in shared:
        raise unknown_name("measure", measure, shared)
    if not shared:
        raise Invalid(f"{before.name!r} and {after.name!r} have no measure in common")
    differences = {
        name: compare_paired(
            before.values(name), after.values(name), np.random.default_rng(seed), rounds
        )
        for name in shared
    }
    headline = measure or _choose_headline(differences)
    return Comparison(before, after, differences, headline, seed)


def _questions(evaluation: Evaluation) -> list[tuple[str, str]]:
    return [(answer.question.id, answer.question.text) for answer in evaluation.answers]


def _choose_headline(differences: Mapping[str, Difference]) -> str:
    """Choose the middle measure of the first family that differs on some question."""
    families = [
        [name for name in differences if name.startswith(f"{family}@")] for family in HEADLINE_ORDER
    ]
    middles = [names[len(names) // 2] for names in families if names]
    return next(
        (name for name in middles if differences[name].better or differences[name].worse),
        middles[0],
    )


def format_verdict(before: str, after: str, measure: str, difference: Difference) -> str:
    """State in a sentence whether `after` is better than `before`."""
    if not difference.better and not difference.worse:
        questions = format_count(difference.questions, "all ")
        return f"No difference: {measure} is the same on {questions}."
    low, high = format_points(difference.low), format_points(difference.high)
    summary = (
        f"{measure} {format_points(difference.mean)} points (95 % interval {low} to {high}, "
        f"{format_p(difference.p)}; {_format_counts(difference)})"
    )
    if difference.real:
        direction = "better" if difference.mean > 0 else "worse"
        return f"{after} is significantly {direction} than {before}: {summary}."
    resolution = 100 * (difference.high - difference.low) / 2
    questions = format_count(difference.questions, "these ")
    return (
        f"No significant difference: {summary}. It may be chance: with {questions}, "
        f"about {resolution:.1f} points are needed to distinguish {after} from {before}."
    )


def format_points(share: float) -> str:
    """Format a difference of shares in percentage points with its sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def format_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < SIGNIFICANCE else f"p = {p:.2f}"


def _format_counts(difference: Difference) -> str:
    better = format_count(difference.better)
    return f"{better} better, {difference.worse:,} worse, {difference.equal:,} the same"


def format_count(count: int, determiner: str = "") -> str:
    """Format a number of questions; the determiner is used for several."""
    return "1 question" if count == 1 else f"{determiner}{count:,} questions"
