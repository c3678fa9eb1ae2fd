"""Results of checking an answer against its context."""

from __future__ import annotations

from dataclasses import dataclass

from knowloom.model import Item

SUPPORTED = "supported"
UNSUPPORTED = "unsupported"
CONTRADICTED = "contradicted"
NOTHING_TO_CHECK = "nothing_to_check"


@dataclass(frozen=True, slots=True)
class SentenceCheck:
    """A sentence of an answer and its position; `item` supports or contradicts it."""

    text: str
    start: int
    end: int
    verdict: str  # supported, unsupported, contradicted, nothing_to_check
    reason: str = ""
    missing: tuple[str, ...] = ()  # numbers, names and words that the best item does not have
    item: Item | None = None
    evidence: str = ""  # the sentence of the item
    score: float = 0.0  # the share of the sentence that the item has, rare words counting more


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """All sentences of an answer, in order."""

    sentences: tuple[SentenceCheck, ...] = ()

    @property
    def grounded(self) -> bool:
        """True if no sentence is unsupported or contradicted."""
        return not (self.unsupported or self.contradicted)

    @property
    def unsupported(self) -> tuple[SentenceCheck, ...]:
        return self._with_verdict(UNSUPPORTED)

    @property
    def contradicted(self) -> tuple[SentenceCheck, ...]:
        return self._with_verdict(CONTRADICTED)

    @property
    def share(self) -> float:
        """The supported share of the sentences that can be checked; 1 if there are none."""
        checkable = len(self.sentences) - len(self._with_verdict(NOTHING_TO_CHECK))
        return len(self._with_verdict(SUPPORTED)) / checkable if checkable else 1.0

    def _with_verdict(self, verdict: str) -> tuple[SentenceCheck, ...]:
        return tuple(sentence for sentence in self.sentences if sentence.verdict == verdict)
