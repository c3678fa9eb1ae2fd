"""Find the line of a context that contradicts a sentence: another number, name, or a negation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from knowloom.capabilities.grounding.evidence import Evidence, EvidenceLine
from knowloom.capabilities.grounding.facts import SentenceFacts
from knowloom.capabilities.grounding.numbers import Number, NumberIndex

SAME_FRAME = 0.65  # coverage from which a line is about the same as a sentence
SURE_FRAME = 0.8
NEAR_BEST = 0.85  # of the best coverage: lines that fit the sentence about as well
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d|21\d\d")


class Contradiction(NamedTuple):
    """The contradicting line, the reason, and the parts of the sentence it denies."""

    line: EvidenceLine
    reason: str
    missing: tuple[str, ...]


class _LineMatch(NamedTuple):
    """A line and the share of the sentence's stems it has."""

    coverage: float
    line: EvidenceLine


def find_contradiction(
    facts: SentenceFacts, evidence: Evidence, lines: Sequence[EvidenceLine], supported: bool
) -> Contradiction | None:
    """Return the first contradiction of a sentence; `lines` come best first."""
    for line in lines:
        if line.frame and (contradiction := _find_other_property(facts, line)):
            return contradiction
    matches = [
        _LineMatch(evidence.coverage(facts.all_stems, line.stems), line)
        for line in lines
        if not line.frame
    ]
    matches.sort(key=lambda match: -match.coverage)  # stable: ties stay best first
    contradiction = _find_other_number(facts, evidence, matches, supported)
    contradiction = contradiction or _find_negation(facts, evidence, matches)
    if contradiction or supported:
        return contradiction
    return _find_other_name(facts, evidence, matches)


def _find_other_number(
    facts: SentenceFacts, evidence: Evidence, matches: Sequence[_LineMatch], supported: bool
) -> Contradiction | None:
    """Contradict a number that no fitting line has, if a close line has another of its kind."""
    min_coverage = SURE_FRAME if supported else SAME_FRAME
    wrong = _missing_numbers(facts, matches, min_coverage)
    if not wrong:
        return None
    present = NumberIndex(facts.numbers)
    # One dictionary per line keeps this linear in the numbers of the sentence.
    candidates = [
        (line, _first_of_kind(line, present))
        for coverage, line in matches
        if coverage >= min_coverage and _has_names(facts, evidence, line)
    ]
    for number in wrong:
        for line, numbers in candidates:
            if other := numbers.get(_kind_of(number)):
                reason = f"it says {number.text}, the context {other.text}"
                return Contradiction(line, reason, (number.text,))
    return None


def _missing_numbers(
    facts: SentenceFacts, matches: Sequence[_LineMatch], min_coverage: float
) -> list[Number]:
    """Return the numbers of the sentence that no fitting line has."""
    best = matches[0].coverage if matches else 0.0
    fitting = NEAR_BEST * best if best >= SURE_FRAME else min_coverage / 2
    present = NumberIndex(
        number for coverage, line in matches if coverage >= fitting for number in line.facts.numbers
    )
    return [number for number in facts.numbers if not present.has(number)]


def _first_of_kind(line: EvidenceLine, excluded: NumberIndex) -> dict[tuple[str, bool], Number]:
    """Return the first number of each kind in the line that the sentence does not have."""
    return {
        _kind_of(number): number
        for number in reversed(line.facts.numbers)
        if not excluded.has(number)
    }


def _kind_of(number: Number) -> tuple[str, bool]:
    """Return the unit, and whether a number without a unit is a year."""
    return number.unit, number.unit == "" and bool(_YEAR.fullmatch(number.value))


def _find_negation(
    facts: SentenceFacts, evidence: Evidence, matches: Sequence[_LineMatch]
) -> Contradiction | None:
    """Contradict if only one of the sentence and the best line, of the same words, is negated."""
    if not matches:
        return None
    coverage, line = matches[0]
    if coverage < SURE_FRAME or line.facts.is_negated == facts.is_negated:
        return None
    if _reverse_coverage(line.facts.all_stems, facts, evidence, line) < SURE_FRAME:
        return None
    if not _has_names(facts, evidence, line):
        return None
    negated = facts.is_negated
    reason = "it denies what the context says" if negated else "the context denies it"
    return Contradiction(line, reason, ())


def _find_other_name(
    facts: SentenceFacts, evidence: Evidence, matches: Sequence[_LineMatch]
) -> Contradiction | None:
    """Contradict if a close line is the same sentence with another name in it."""
    for _, line in matches[:3]:
        source = evidence.sources[line.source]
        missing = [name for name in facts.names if not source.has_name(name)]
        others = [name for name in line.facts.names if name not in facts.names]
        if not 0 < len(missing) <= 2 or not others:
            continue
        if _is_same_frame(facts, evidence, line, len(missing)):
            reason = f"it says {' '.join(missing)}, the context {' '.join(others[:3])}"
            return Contradiction(line, reason, tuple(missing))
    return None


def _is_same_frame(
    facts: SentenceFacts, evidence: Evidence, line: EvidenceLine, missing_names: int
) -> bool:
    """Return True if nearly all other words agree, and another name or number is shared."""
    numbers = NumberIndex(line.facts.numbers)
    shared = len(facts.names) - missing_names + sum(map(numbers.has, facts.numbers))
    if not shared and len(facts.stems & line.stems) < 3:
        return False
    return (
        len(facts.stems) >= 2
        and evidence.coverage(facts.stems, line.stems) >= SURE_FRAME
        and _reverse_coverage(line.facts.stems, facts, evidence, line) >= SAME_FRAME
    )


def _reverse_coverage(
    stems: frozenset[str], facts: SentenceFacts, evidence: Evidence, line: EvidenceLine
) -> float:
    """Return the share of the line's stems that the sentence, or the title of the item, has."""
    return evidence.coverage(stems, facts.all_stems | line.stems - line.facts.all_stems)


def _find_other_property(facts: SentenceFacts, line: EvidenceLine) -> Contradiction | None:
    """Contradict if the sentence names the property but has another value for it."""
    if not line.frame <= facts.all_stems or facts.is_negated != line.facts.is_negated:
        return None
    numbers = line.facts.numbers
    if numbers:
        values = {number.value for number in facts.numbers}
        if not values or values & {number.value for number in numbers}:
            return None
        text = facts.numbers[0].text
        return Contradiction(line, f"it says {text}, the context {numbers[0].text}", (text,))
    value = line.facts.all_stems - line.frame
    extra = facts.all_stems - line.frame
    if value and 0 < len(extra) <= 2 and not value & facts.all_stems and not facts.numbers:
        return Contradiction(line, f"the context says {line.facts.text}", tuple(sorted(extra)))
    return None


def _has_names(facts: SentenceFacts, evidence: Evidence, line: EvidenceLine) -> bool:
    """Return True if the source has all names: a sentence about another is no contradiction."""
    return all(evidence.sources[line.source].has_name(name) for name in facts.names)
