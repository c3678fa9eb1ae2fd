"""Checks of an answer against its context as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowloom.wire import JsonObject
from knowloom.wire.contexts import citation_to_json, context_to_json

if TYPE_CHECKING:
    from knowloom.capabilities.grounding.answers import Answer
    from knowloom.capabilities.grounding.model import AnswerCheck, SentenceCheck


def answer_check_to_json(check: AnswerCheck) -> JsonObject:
    return {
        "grounded": check.grounded,
        "share": check.share,
        "sentences": [_sentence_to_json(sentence) for sentence in check.sentences],
    }


def answer_to_json(answer: Answer) -> JsonObject:
    return {
        "question": answer.question,
        "answer": answer.text,
        "llm": answer.llm,
        "cut": answer.cut,
        "citations": [citation_to_json(citation) for citation in answer.citations],
        "unknown_numbers": list(answer.unknown_numbers),
        "check": answer_check_to_json(answer.check),
        "context": context_to_json(answer.context),
    }


def _sentence_to_json(sentence: SentenceCheck) -> JsonObject:
    item = sentence.item
    return {
        "text": sentence.text,
        "start": sentence.start,
        "end": sentence.end,
        "verdict": sentence.verdict,
        "reason": sentence.reason,
        "missing": list(sentence.missing),
        "item": None if item is None else {"space": item.space, "id": item.id},
        "evidence": sentence.evidence,
        "score": sentence.score,
    }
