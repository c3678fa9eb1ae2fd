"""`knowloom.check_answer`: which sentences of an answer its context supports, and which it contradicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knowloom.capabilities.grounding.conflicts import find_contradiction
from knowloom.capabilities.grounding.evidence import (
    ContextLike,
    Evidence,
    EvidenceLine,
    EvidenceSource,
    build_evidence,
)
from knowloom.capabilities.grounding.facts import (
    Sentence,
    SentenceFacts,
    extract_facts,
    split_sentences,
)
from knowloom.capabilities.grounding.model import (
    CONTRADICTED,
    NOTHING_TO_CHECK,
    SUPPORTED,
    UNSUPPORTED,
    AnswerCheck,
    SentenceCheck,
)
from knowloom.errors import Invalid
from knowloom.ports import Embedder, Vector

MAX_ANSWER = 1_000_000  # characters of an answer
MIN_COVERAGE = 0.6  # of a sentence's words, rare ones counting more; chosen on a part of bench/grounding.py's data
MIN_SIMILARITY = 0.7  # in meaning, where an embedder is given: what is said in other words
MIN_SHARED = 0.25  # of the words, also then


@dataclass(frozen=True, slots=True)
class _Match:
    """How much of a sentence one item has."""

    source: EvidenceSource
    covered: float
    missing: tuple[str, ...]  # numbers and names


def check_answer(
    answer: str, context: ContextLike, *, embedder: Embedder | None = None
) -> AnswerCheck:
    """Every sentence of the answer against a context: what `context`, an assembler or a graph context gave, items, or texts. Supported
    means: one item has all its numbers and names and most of its other words, or, with an `embedder`, a line of that meaning. No language
    model is asked: what is said in quite other words counts as unsupported, and logic beyond one sentence is not followed."""
    if not isinstance(answer, str):
        raise Invalid(f"an answer is a text, not {type(answer).__name__}")
    if len(answer) > MAX_ANSWER:
        raise Invalid(f"an answer has at most {MAX_ANSWER:,} characters, not {len(answer):,}")
    known = build_evidence(context)
    vectors: dict[str, Vector] = {}
    found: dict[str, SentenceCheck] = {}
    told = []
    for one in split_sentences(answer):
        if one.text not in found:
            found[one.text] = _checked(one, known, embedder, vectors)
        told.append(replace(found[one.text], start=one.start, end=one.end))
    return AnswerCheck(tuple(told))


def _checked(
    one: Sentence, known: Evidence, embedder: Embedder | None, vectors: dict[str, Vector]
) -> SentenceCheck:
    said = extract_facts(one.text)
    if said.empty or one.text.endswith("?"):
        return SentenceCheck(*one, NOTHING_TO_CHECK, "it says nothing that could be checked")
    near = [known.lines[number] for number in known.near(said.every | frozenset(said.names))]
    found = [_match(said, known, source) for source in dict.fromkeys(line.source for line in near)]
    matches = sorted(found, key=lambda match: (len(match.missing), -match.covered))
    best = matches[0] if matches else None
    supported = best is not None and not best.missing and best.covered >= MIN_COVERAGE
    if otherwise := find_contradiction(said, known, near, supported):
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
        and best.covered >= MIN_SHARED
        and embedder is not None
    ):
        supported = (
            _alike(said, near, known.sources.index(best.source), embedder, vectors)
            >= MIN_SIMILARITY
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


def _match(said: SentenceFacts, known: Evidence, number: int) -> _Match:
    source = known.sources[number]
    numbers = [one.said for one in said.numbers if not source.amounts.has(one)]
    names = [name for name in said.names if not source.has_name(name)]
    return _Match(source, known.covered(said.every, source.stems), (*numbers, *names))


def _line_of(best: _Match, said: SentenceFacts, known: Evidence, near: list[EvidenceLine]) -> str:
    own = [line for line in near if known.sources[line.source] is best.source]
    return (
        max(own, key=lambda line: known.covered(said.every, line.stems)).facts.text if own else ""
    )


def _alike(
    said: SentenceFacts,
    near: list[EvidenceLine],
    source: int,
    embedder: Embedder,
    vectors: dict[str, Vector],
) -> float:
    own = [line.facts.text for line in near if line.source == source]
    for text in (said.text, *own):
        if text not in vectors:
            vectors[text] = embedder.embed([text])[0]
    return max((float(np.dot(vectors[said.text], vectors[text])) for text in own), default=0.0)


def _score(said: SentenceFacts, known: Evidence, line: EvidenceLine) -> float:
    return round(known.covered(said.every, line.stems), 6)


def _all(said: SentenceFacts) -> tuple[str, ...]:
    return (*(one.said for one in said.numbers), *said.names) or tuple(sorted(said.stems))


def _listed(missing: tuple[str, ...]) -> str:
    return (
        ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        if missing
        else "enough of it"
    )
