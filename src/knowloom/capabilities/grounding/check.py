"""`knowloom.check_answer`: sentences of an answer that its context supports or contradicts."""

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

MAX_ANSWER = 1_000_000  # characters
MIN_COVERAGE = 0.6  # of a sentence's words by idf; tuned on a part of bench/grounding.py's data
MIN_SIMILARITY = 0.7  # of the vectors of a paraphrase, with an embedder
MIN_SHARED = 0.25  # of the words of a paraphrase


@dataclass(frozen=True, slots=True)
class _SourceMatch:
    """The share of a sentence that an item covers, and the numbers and names it lacks."""

    source: EvidenceSource
    coverage: float
    missing: tuple[str, ...]


def check_answer(
    answer: str, context: ContextLike, *, embedder: Embedder | None = None
) -> AnswerCheck:
    """Check each sentence of an answer against a context: the result of `context`, of an assembler
    or a graph context, items, or texts. A sentence is supported if one item has all its numbers
    and names and most of its other words or, with an `embedder`, a line of that meaning. No
    language model is used: paraphrases without shared words count as unsupported, and reasoning
    across sentences is not followed."""
    if not isinstance(answer, str):
        raise Invalid(f"answer must be a text, got {type(answer).__name__}")
    if len(answer) > MAX_ANSWER:
        raise Invalid(f"answer must have at most {MAX_ANSWER:,} characters, got {len(answer):,}")
    checker = _SentenceChecker(build_evidence(context), embedder)
    checks: dict[str, SentenceCheck] = {}
    results = []
    for sentence in split_sentences(answer):
        if sentence.text not in checks:
            checks[sentence.text] = checker.check(sentence)
        results.append(replace(checks[sentence.text], start=sentence.start, end=sentence.end))
    return AnswerCheck(tuple(results))


class _SentenceChecker:
    """Checks sentences against one context and caches the vectors of its lines."""

    def __init__(self, evidence: Evidence, embedder: Embedder | None) -> None:
        self._evidence = evidence
        self._embedder = embedder
        self._vectors: dict[str, Vector] = {}

    def check(self, sentence: Sentence) -> SentenceCheck:
        facts = extract_facts(sentence.text)
        if facts.is_empty or sentence.text.endswith("?"):
            return SentenceCheck(
                *sentence, NOTHING_TO_CHECK, "it says nothing that could be checked"
            )
        lines = self._evidence.nearest_lines(facts.all_stems | frozenset(facts.names))
        best = self._best_source(facts, lines)
        supported = best is not None and not best.missing and best.coverage >= MIN_COVERAGE
        contradiction = find_contradiction(facts, self._evidence, lines, supported)
        if contradiction is not None:
            line, reason, missing = contradiction
            item = self._evidence.sources[line.source].item
            score = round(self._evidence.coverage(facts.all_stems, line.stems), 6)
            return SentenceCheck(
                *sentence, CONTRADICTED, reason, missing, item, line.facts.text, score
            )
        if best is None:
            missing = (*(number.text for number in facts.numbers), *facts.names)
            missing = missing or tuple(sorted(facts.stems))
            return SentenceCheck(*sentence, UNSUPPORTED, "no item shares a word with it", missing)
        return self._judge(sentence, facts, lines, best)

    def _judge(
        self,
        sentence: Sentence,
        facts: SentenceFacts,
        lines: list[EvidenceLine],
        best: _SourceMatch,
    ) -> SentenceCheck:
        """Return the verdict on a sentence that nothing contradicts."""
        own_lines = [line for line in lines if self._evidence.sources[line.source] is best.source]
        score = round(best.coverage, 6)
        evidence = max(
            own_lines, key=lambda line: self._evidence.coverage(facts.all_stems, line.stems)
        ).facts.text
        if not best.missing and (
            best.coverage >= MIN_COVERAGE or self._is_paraphrase(facts, own_lines, best.coverage)
        ):
            return SentenceCheck(*sentence, SUPPORTED, "", (), best.source.item, evidence, score)
        missing = best.missing or tuple(sorted(facts.all_stems - best.source.stems))
        reason = f"no item has {_format_missing(missing)}"
        return SentenceCheck(
            *sentence, UNSUPPORTED, reason, missing, best.source.item, evidence, score
        )

    def _best_source(self, facts: SentenceFacts, lines: list[EvidenceLine]) -> _SourceMatch | None:
        numbers = dict.fromkeys(line.source for line in lines)
        matches = [self._match(facts, self._evidence.sources[number]) for number in numbers]
        return min(matches, key=lambda match: (len(match.missing), -match.coverage), default=None)

    def _match(self, facts: SentenceFacts, source: EvidenceSource) -> _SourceMatch:
        numbers = [number.text for number in facts.numbers if not source.numbers.has(number)]
        names = [name for name in facts.names if not source.has_name(name)]
        coverage = self._evidence.coverage(facts.all_stems, source.stems)
        return _SourceMatch(source, coverage, (*numbers, *names))

    def _is_paraphrase(
        self, facts: SentenceFacts, lines: list[EvidenceLine], coverage: float
    ) -> bool:
        """Return True if a line is close in meaning and the item shares some of the words."""
        if self._embedder is None or coverage < MIN_SHARED:
            return False
        vector = self._embed(facts.text, self._embedder)
        vectors = [self._embed(line.facts.text, self._embedder) for line in lines]
        return max(float(np.dot(vector, other)) for other in vectors) >= MIN_SIMILARITY

    def _embed(self, text: str, embedder: Embedder) -> Vector:
        if text not in self._vectors:
            self._vectors[text] = embedder.embed([text])[0]
        return self._vectors[text]


def _format_missing(missing: tuple[str, ...]) -> str:
    if not missing:
        return "enough of it"
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return ", ".join(missing[:5]) + more
