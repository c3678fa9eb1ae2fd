"""Two configurations on the same questions: what differs, whether that is more than chance, and which questions got worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from knowloom.errors import Invalid, unknown
from knowloom.evaluation.results import Answered, Evaluation
from knowloom.evaluation.significance import CHANCE, ROUNDS, Difference, paired

_FINEST = (
    "nDCG",
    "recall",
    "all-found",
    "evidence",
    "facts",
)  # the first that differs is what a comparison is told by


@dataclass(frozen=True, slots=True)
class Change:
    """One question, before and after."""

    before: Answered
    after: Answered
    by: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`after` against `before`. The headline is the measure that the verdict and the list of questions go by."""

    before: Evaluation
    after: Evaluation
    differences: Mapping[str, Difference]
    headline: str
    seed: int = 0

    def changes(self, measure: str = "") -> list[Change]:
        """Questions whose measure (by default the headline) changed, those that got worst first."""
        name = measure or self.headline
        pairs = [
            (one, other)
            for one, other in zip(self.before.answers, self.after.answers, strict=True)
            if name in one.values
        ]
        changed = [
            Change(one, other, other.values[name] - one.values[name])
            for one, other in pairs
            if one.values[name] != other.values[name]
        ]
        return sorted(changed, key=lambda change: (change.by, change.before.question.id))

    @property
    def verdict(self) -> str:
        return verdict(
            self.before.name, self.after.name, self.headline, self.differences[self.headline]
        )


def compare(
    before: Evaluation, after: Evaluation, *, measure: str = "", seed: int = 0, rounds: int = ROUNDS
) -> Comparison:
    """Paired bootstrap of every measure that both have; each measure has chance of its own from the seed, so none depends on the others."""
    if [(one.question.id, one.question.text) for one in before.answers] != [
        (one.question.id, one.question.text) for one in after.answers
    ]:
        raise Invalid(f"{before.name!r} and {after.name!r} were not asked the same questions")
    shared = [name for name in before.measures if name in after.measures]
    if measure and measure not in shared:
        raise unknown("measure", measure, shared)
    if not shared:
        raise Invalid(f"{before.name!r} and {after.name!r} have no measure in common")
    found = {
        name: paired(before.values(name), after.values(name), np.random.default_rng(seed), rounds)
        for name in shared
    }
    return Comparison(before, after, found, measure or _headline(found), seed)


def _headline(found: Mapping[str, Difference]) -> str:
    """The finest measure of rankings; where the rankings are the same on every question, one of contexts."""
    ordered = sorted(
        found, key=lambda name: (_FINEST.index(name.partition("@")[0]), list(found).index(name))
    )
    families = [[name for name in ordered if name.startswith(f"{family}@")] for family in _FINEST]
    middles = [names[len(names) // 2] for names in families if names]
    return next((name for name in middles if found[name].better or found[name].worse), middles[0])


def verdict(before: str, after: str, measure: str, found: Difference) -> str:
    """In plain words, whether the one is better than the other."""
    if not found.better and not found.worse:
        return f"No difference: {measure} is the same on {asked(found.questions, 'all ')}."
    told = f"{measure} {points(found.mean)} points (95 % interval {points(found.low)} to {points(found.high)}, {likely(found.p)}; {_counts(found)})"
    if found.real:
        return f"{after} is {'better' if found.mean > 0 else 'worse'} than {before}, and not by chance: {told}."
    room = 100 * (found.high - found.low) / 2
    return (
        f"No proven difference: {told}. "
        f"It may be chance: with {asked(found.questions, 'these ')}, about {room:.1f} points would be needed to tell {after} from {before}."
    )


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def likely(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < CHANCE else f"p = {p:.2f}"


def _counts(found: Difference) -> str:
    return f"{asked(found.better)} better, {found.worse:,} worse, {found.equal:,} the same"


def asked(count: int, which: str = "") -> str:
    """So many questions, in words: which ones, if they are several."""
    return "1 question" if count == 1 else f"{which}{count:,} questions"
