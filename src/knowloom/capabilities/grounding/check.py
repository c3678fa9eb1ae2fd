"""`knowloom.check_answer`: which sentences of an answer its context supports, and which it contradicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knowloom.capabilities.grounding.conflicts import conflict
from knowloom.capabilities.grounding.evidence import Evidence, Given, Line, Source, evidence
from knowloom.capabilities.grounding.facts import Facts, Sentence, facts, sentences
from knowloom.capabilities.grounding.model import (
    CONTRADICTED,
    SILENT,
    SUPPORTED,
    UNSUPPORTED,
    AnswerCheck,
    SentenceCheck,
)
from knowloom.errors import Invalid
from knowloom.ports import Embedder, Vector

MOST = 1_000_000  # characters of an answer
LEAST_COVERED = 0.6  # of a sentence's words, rare ones counting more; chosen on a part of bench/grounding.py's data
LEAST_ALIKE = 0.7  # in meaning, where an embedder is given: what is said in other words
LEAST_SHARED = 0.25  # of the words, also then


@dataclass(frozen=True, slots=True)
class _Match:
    """How much of a sentence one item has."""

    source: Source
    covered: float
    missing: tuple[str, ...]  # numbers and names


def check_answer(answer: str, context: Given, *, embedder: Embedder | None = None) -> AnswerCheck:
    """Every sentence of the answer against a context: what `context`, an assembler or a graph context gave, items, or texts. Supported
    means: one item has all its numbers and names and most of its other words, or, with an `embedder`, a line of that meaning. No language
    model is asked: what is said in quite other words counts as unsupported, and logic beyond one sentence is not followed."""
    if not isinstance(answer, str):
        raise Invalid(f"an answer is a text, not {type(answer).__name__}")
    if len(answer) > MOST:
        raise Invalid(f"an answer has at most {MOST:,} characters, not {len(answer):,}")
    known = evidence(context)
    vectors: dict[str, Vector] = {}
    found: dict[str, SentenceCheck] = {}
    told = []
    for one in sentences(answer):
        if one.text not in found:
            found[one.text] = _checked(one, known, embedder, vectors)
        told.append(replace(found[one.text], start=one.start, end=one.end))
    return AnswerCheck(tuple(told))


def _checked(
    one: Sentence, known: Evidence, embedder: Embedder | None, vectors: dict[str, Vector]
) -> SentenceCheck:
    said = facts(one.text)
    if said.empty or one.text.endswith("?"):
        return SentenceCheck(*one, SILENT, "it says nothing that could be checked")
    near = [known.lines[number] for number in known.near(said.every | frozenset(said.names))]
    found = [_match(said, known, source) for source in dict.fromkeys(line.source for line in near)]
    matches = sorted(found, key=lambda match: (len(match.missing), -match.covered))
    best = matches[0] if matches else None
    supported = best is not None and not best.missing and best.covered >= LEAST_COVERED
    if otherwise := conflict(said, known, near, supported):
        line, reason, missing = otherwise
        return SentenceCheck(
            *one,
            CONTRADICTED,
            reason,
            missing,
            known.sources[line.source].item,
            line.facts.text,
            _score(said, known, line),
        )
    if (
        best is not None
        and not supported
        and not best.missing
        and best.covered >= LEAST_SHARED
        and embedder is not None
    ):
        supported = (
            _alike(said, near, known.sources.index(best.source), embedder, vectors) >= LEAST_ALIKE
        )
    if best is None:
        return SentenceCheck(*one, UNSUPPORTED, "no item shares a word with it", _all(said))
    line_text = _line_of(best, said, known, near)
    if supported:
        return SentenceCheck(
            *one, SUPPORTED, "", (), best.source.item, line_text, round(best.covered, 6)
        )
    missing = best.missing or tuple(sorted(said.every - best.source.stems))
    return SentenceCheck(
        *one,
        UNSUPPORTED,
        f"no item has {_listed(missing)}",
        missing,
        best.source.item,
        line_text,
        round(best.covered, 6),
    )


def _match(said: Facts, known: Evidence, number: int) -> _Match:
    source = known.sources[number]
    numbers = [one.said for one in said.numbers if not source.amounts.has(one)]
    names = [name for name in said.names if not source.has_name(name)]
    return _Match(source, known.covered(said.every, source.stems), (*numbers, *names))


def _line_of(best: _Match, said: Facts, known: Evidence, near: list[Line]) -> str:
    own = [line for line in near if known.sources[line.source] is best.source]
    return (
        max(own, key=lambda line: known.covered(said.every, line.stems)).facts.text if own else ""
    )


def _alike(
    said: Facts, near: list[Line], source: int, embedder: Embedder, vectors: dict[str, Vector]
) -> float:
    own = [line.facts.text for line in near if line.source == source]
    for text in (said.text, *own):
        if text not in vectors:
            vectors[text] = embedder.embed([text])[0]
    return max((float(np.dot(vectors[said.text], vectors[text])) for text in own), default=0.0)


def _score(said: Facts, known: Evidence, line: Line) -> float:
    return round(known.covered(said.every, line.stems), 6)


def _all(said: Facts) -> tuple[str, ...]:
    return (*(one.said for one in said.numbers), *said.names) or tuple(sorted(said.stems))


def _listed(missing: tuple[str, ...]) -> str:
    return (
        ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        if missing
        else "enough of it"
    )
