"""What a check of an answer says."""

from __future__ import annotations

from dataclasses import dataclass

from knowloom.model import Item

SUPPORTED, UNSUPPORTED, CONTRADICTED, NOTHING_TO_CHECK = (
    "supported",
    "unsupported",
    "contradicted",
    "nothing_to_check",
)


@dataclass(frozen=True, slots=True)
class SentenceCheck:
    """One sentence of an answer. `start` and `end` are its place in it; `item` is what supports it, or says otherwise."""

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
        """Nothing in it is unsupported or contradicted."""
        return not (self.unsupported or self.contradicted)

    @property
    def unsupported(self) -> tuple[SentenceCheck, ...]:
        return self._of(UNSUPPORTED)

    @property
    def contradicted(self) -> tuple[SentenceCheck, ...]:
        return self._of(CONTRADICTED)

    @property
    def share(self) -> float:
        """Of the sentences that say something, how many are supported; 1 if none does."""
        said = [one for one in self.sentences if one.verdict != NOTHING_TO_CHECK]
        return sum(one.verdict == SUPPORTED for one in said) / len(said) if said else 1.0

    def _of(self, verdict: str) -> tuple[SentenceCheck, ...]:
        return tuple(one for one in self.sentences if one.verdict == verdict)
