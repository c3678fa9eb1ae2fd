"""Problems: the parts of an answer that are missing, degraded or doubtful, by stable codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Severity(StrEnum):
    """The weight of a problem for programs that act on answers."""

    FAILURE = "failure"  # something did not work: the same request may be answered better later
    NOTICE = "notice"  # everything worked: the answer is limited by the request or the knowledge


_FAILURE, _NOTICE = Severity.FAILURE, Severity.NOTICE

PROBLEM_CODES: Mapping[str, tuple[Severity, str]] = {
    "unavailable": (_FAILURE, "a store, an embedder or the disk failed"),
    "corrupt": (_FAILURE, "a file is damaged, or not one of knowloom's"),
    "foreign_file": (_FAILURE, "a file belongs to another program"),
    "embedding_error": (_FAILURE, "a text could not be embedded"),
    "embedding_failed": (_FAILURE, "the embedder failed or gave a wrong answer: words only"),
    "embedding_timeout": (_FAILURE, "the embedder did not answer in time: words only"),
    "embedder_paused": (_FAILURE, "the embedder failed repeatedly and is not asked for a while"),
    "model_changed": (_FAILURE, "another model answers under the name of the embedder: reindex"),
    "embedder_required": (_FAILURE, "vectors are stored, but no embedder was opened: words only"),
    "reindex_required": (_FAILURE, "the stored vectors are of another embedder: words only"),
    "rerank": (_FAILURE, "the reranker failed or was too slow: the order is that of the search"),
    "search_error": (_FAILURE, "a search could not be finished, such as when a ranker failed"),
    "missing_extra": (_FAILURE, "an optional package is not installed"),
    "conflict": (_FAILURE, "the stored state does not fit the request"),
    "invalid": (_FAILURE, "an argument or a stored value is malformed"),
    "not_found": (_FAILURE, "a part of the request does not exist"),
    "forbidden": (_FAILURE, "a part of the request is not allowed"),
    "template_not_found": (_FAILURE, "unknown template"),
    "template_error": (_FAILURE, "a template failed"),
    "format_failed": (_FAILURE, "a format function failed or returned no text"),
    "strategy_failed": (_FAILURE, "a strategy of the assembler raised an exception"),
    "required_left_out": (_FAILURE, "nothing of a required strategy fits the budget"),
    "timeout": (_FAILURE, "a strategy or a service did not answer in time"),
    "deadline": (_FAILURE, "the request took longer than the server allows"),
    "invalid_axiom": (_FAILURE, "a stored rule cannot be used"),
    "error": (_FAILURE, "any other error"),
    "vectors_pending": (_NOTICE, "some items are not embedded yet: they are found by words only"),
    "index_pending": (_NOTICE, "a layer lacks the latest changes: the store of the items answered"),
    "unknown_entity": (_NOTICE, "the entity of the request is not stored"),
    "unknown_space": (_NOTICE, "a requested space does not exist; the others were searched"),
    "default_space": (_NOTICE, "the request names no space: only `default` was searched"),
    "unknown_type": (_NOTICE, "a requested type does not exist; the reason lists those that do"),
    "no_results": (_NOTICE, "nothing matched or passed; the reason names what excluded the rest"),
    "history_erased": (_NOTICE, "states as of that time were erased: what had them is left out"),
    "low_confidence": (_NOTICE, "the evidence for an answer is probably not stored"),
    "estimated_tokens": (_NOTICE, "the model has no known tokenizer: its tokens are estimated"),
    "prefix_dropped": (_NOTICE, "the earlier text and what is new do not fit: begun anew"),
    "too_many": (_NOTICE, "a limit was reached, and the rest is not considered"),
    "tier": (_NOTICE, "the tier of the caller restricts the answer"),
}
"""All codes of problems, their severity and their meaning."""


class CodedError(Protocol):
    """An error of knowloom; `layer` is the part of the stores that failed, "" for any other."""

    code: str
    layer: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the answer that is missing or degraded, and why. Its code is in PROBLEM_CODES."""

    part: str
    reason: str
    code: str = "unavailable"

    @property
    def severity(self) -> Severity:
        """The severity of the code; an unknown one, of a newer server, is a failure."""
        severity, _ = PROBLEM_CODES.get(self.code, (Severity.FAILURE, ""))
        return severity

    @classmethod
    def from_error(cls, part: str, error: CodedError, prefix: str = "") -> Problem:
        """Return the problem of an error, named after the layer that failed, if only one has.

        A code outside the table becomes that of its class.
        """
        codes = (error.code, *(getattr(base, "code", "error") for base in type(error).__mro__))
        code = next(code for code in (*codes, "error") if code in PROBLEM_CODES)
        return cls(error.layer or part, f"{prefix}{error}", code)
