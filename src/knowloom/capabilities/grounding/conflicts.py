"""Where a context says otherwise: the same sentence with another number, another name, or denied."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowloom.capabilities.grounding.evidence import Evidence, EvidenceLine
from knowloom.capabilities.grounding.facts import SentenceFacts
from knowloom.capabilities.grounding.numbers import Number, NumberIndex

Contradiction = tuple[EvidenceLine, str, tuple[str, ...]]

SAME_FRAME = 0.65  # of a sentence's words are in the line: it speaks of the same
SURE_FRAME = 0.8
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d|21\d\d")


def find_contradiction(
    said: SentenceFacts, known: Evidence, near: Sequence[EvidenceLine], supported: bool
) -> Contradiction | None:
    """The line that says otherwise, why, and what of the sentence it denies. Lines come best first."""
    for line in near:
        if line.frame and (found := _of_property(said, line)):
            return found
    framed = [(known.covered(said.every, line.stems), line) for line in near if not line.frame]
    framed.sort(key=lambda pair: -pair[0])  # stable: ties stay best first
    if found := _of_number(said, known, framed, supported) or _of_denial(said, known, framed):
        return found
    return None if supported else _of_name(said, known, framed)


def _of_number(
    said: SentenceFacts,
    known: Evidence,
    framed: Sequence[tuple[float, EvidenceLine]],
    supported: bool,
) -> Contradiction | None:
    """The line that fits best has another number of the same kind, and no line that fits has the one said."""
    least = SURE_FRAME if supported else SAME_FRAME
    lines = [
        line for covered, line in framed if covered >= least and _names_known(said, known, line)
    ]
    best = framed[0][0] if framed else 0.0
    fitting = 0.85 * best if best >= SURE_FRAME else least / 2
    there, own = (
        NumberIndex(
            other for covered, line in framed if covered >= fitting for other in line.facts.numbers
        ),
        NumberIndex(said.numbers),
    )
    wrong = [number for number in said.numbers if not there.has(number)]
    if not wrong:
        return None
    # The first number of each kind that a line has and the sentence has not: one look for each number said, however many there are.
    firsts = [
        (
            line,
            {_kind(other): other for other in reversed(line.facts.numbers) if not own.has(other)},
        )
        for line in lines
    ]
    for number in wrong:
        for line, others in firsts:
            if other := others.get(_kind(number)):
                return line, f"it says {number.said}, the context {other.said}", (number.said,)
    return None


def _kind(one: Number) -> tuple[str, bool]:
    """Numbers of one kind could answer the same question. Of those without a unit, years and others are not of one kind."""
    return one.unit, one.unit == "" and bool(_YEAR.fullmatch(one.value))


def _of_denial(
    said: SentenceFacts, known: Evidence, framed: Sequence[tuple[float, EvidenceLine]]
) -> Contradiction | None:
    """The line that fits best says the same and denies it, or the other way round. Both must have all of each other's words."""
    for covered, line in framed[:1]:
        back = known.covered(line.facts.every, said.every | line.stems - line.facts.every)
        if (
            covered >= SURE_FRAME
            and back >= SURE_FRAME
            and line.facts.denies != said.denies
            and _names_known(said, known, line)
        ):
            return (
                line,
                "it denies what the context says" if said.denies else "the context denies it",
                (),
            )
    return None


def _of_name(
    said: SentenceFacts, known: Evidence, framed: Sequence[tuple[float, EvidenceLine]]
) -> Contradiction | None:
    """The same sentence with another name in it. Other words must nearly all be there, and one more name or number be the same."""
    for _, line in framed[:3]:
        source = known.sources[line.source]
        missing = [name for name in said.names if not source.has_name(name)]
        others = [name for name in line.facts.names if name not in said.names]
        amounts = NumberIndex(line.facts.numbers)
        shared = len(said.names) - len(missing) + sum(amounts.has(one) for one in said.numbers)
        if (
            not 0 < len(missing) <= 2
            or not others
            or not (shared or len(said.stems & line.stems) >= 3)
        ):
            continue
        back = known.covered(line.facts.stems, said.every | line.stems - line.facts.every)
        if (
            known.covered(said.stems, line.stems) >= SURE_FRAME
            and back >= SAME_FRAME
            and len(said.stems) >= 2
        ):
            return (
                line,
                f"it says {' '.join(missing)}, the context {' '.join(others[:3])}",
                tuple(missing),
            )
    return None


def _of_property(said: SentenceFacts, line: EvidenceLine) -> Contradiction | None:
    """What a property is called stands in the sentence, its value does not, and something else does."""
    if not line.frame <= said.every or said.denies != line.facts.denies:
        return None
    value = line.facts.every - line.frame
    numbers = line.facts.numbers
    extra = said.every - line.frame
    if numbers:
        if not said.numbers or {one.value for one in said.numbers} & {
            other.value for other in numbers
        }:
            return None
        return (
            line,
            f"it says {said.numbers[0].said}, the context {numbers[0].said}",
            (said.numbers[0].said,),
        )
    if value and 0 < len(extra) <= 2 and not value & said.every and not said.numbers:
        return line, f"the context says {line.facts.text}", tuple(sorted(extra))
    return None


def _names_known(said: SentenceFacts, known: Evidence, line: EvidenceLine) -> bool:
    """A sentence about somebody else is no contradiction."""
    return all(known.sources[line.source].has_name(name) for name in said.names)
