"""Ask a language model for three layers, chunk by chunk, and again if an answer is invalid."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from knowloom.caching import cached
from knowloom.errors import Invalid, Unavailable
from knowloom.ports import LLM, Message
from knowloom.report import Skipped
from knowloom.structuring import schema
from knowloom.structuring.chunking import split_chunks
from knowloom.structuring.merge import merge_chunks
from knowloom.structuring.schema import Layers

log = logging.getLogger(__name__)

MAX_CHARS = 12_000  # of a chunk: about 3,000 tokens, whose structure fits usual answer limits
MIN_CHARS = 1_000  # a chunk this short is not split again if its answer was cut off
MAX_PROBLEMS = 20  # listed in one repair request
MAX_EXCERPT = 120  # characters of an answer that is no JSON
CUT_OFF = "the answer was cut off at the model's length limit; answer with fewer words"
_THOUGHTS = re.compile(r"\s*<think>.*?</think>", re.S)
_OBJECT_START = re.compile(r"\{\s*[\"}]")


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One answer about a chunk, and its problems."""

    chunk: int
    attempt: int
    text: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The valid entries of an answer, None without JSON, and what is wrong with the others."""

    layers: Layers | None
    skipped: list[Skipped]
    problems: list[str]


@dataclass(slots=True)
class StructuringRun:
    """One run over a text. `answers` has every answer so far, also if the run fails."""

    llm: LLM
    entity: str | None = None
    max_retries: int = 3
    progress: Callable[[str, int, int], None] | None = None
    answers: list[ModelAnswer] = field(default_factory=list)
    chunk_count: int = 0

    def run(self, text: str, max_chars: int = MAX_CHARS) -> tuple[Layers, list[Skipped]]:
        """Return the layers, and the entries that stayed invalid, with chunk and place."""
        parts: list[Layers] = []
        skipped: list[Skipped] = []
        chunks = split_chunks(text, max_chars)
        for number, chunk in enumerate(chunks):
            if self.progress is not None:
                self.progress("chunks", number, len(chunks))
            for layers, invalid in self._structure(chunk):
                parts.append(layers)
                skipped += invalid
        merged = merge_chunks(parts)
        if not (merged["metadata"] or merged["pieces"] or merged["graph"]["nodes"]):
            raise self._unusable(f"{skipped[0].where}: {skipped[0].why}")
        if self.entity is not None:
            type, colon, _ = self.entity.partition(":")
            profile = {"entity_type": type if type and colon else "entity"}
            merged["metadata"].setdefault(self.entity, profile)
        return merged, skipped

    def _structure(self, text: str) -> list[tuple[Layers, list[Skipped]]]:
        """Return the layers of a chunk, or of its halves if the answer about it is cut off."""
        self.chunk_count += 1
        number = self.chunk_count
        best: tuple[Layers, list[Skipped]] | None = None
        problems: list[str] = []
        messages = _build_messages(text, self.entity)
        for attempt in range(1, self.max_retries + 2):
            reply = self.llm.complete(messages)
            if reply.cut and len(halves := _split_half(text)) > 1:
                self.answers.append(ModelAnswer(number, attempt, reply.text, (CUT_OFF,)))
                log.info("chunk %d: answer cut off, split in %d", number, len(halves))
                return [result for half in halves for result in self._structure(half)]
            result = self._check_answer(reply.text, reply.cut, number)
            problems = result.problems
            self.answers.append(ModelAnswer(number, attempt, reply.text, tuple(problems)))
            if result.layers is not None and (best is None or len(result.skipped) <= len(best[1])):
                best = (result.layers, result.skipped)
            if not problems:
                break
            log.info("chunk %d, answer %d: %d problems", number, attempt, len(problems))
            messages = [
                *_build_messages(text, self.entity),
                Message("assistant", reply.text or "(nothing)"),
                Message("user", _build_repair(problems)),
            ]
        if best is None:
            raise self._unusable(f"chunk {number}: {problems[0]}")
        return [best]

    def _unusable(self, reason: str) -> Unavailable:
        attempts = len(self.answers)
        message = f"{self.llm.name}: no usable answer in {attempts} attempts, {reason}"
        return Unavailable(message, "unstructured")

    def _check_answer(self, text: str, is_cut: bool, number: int) -> _Attempt:
        try:
            answer = parse_answer(text)
        except Invalid as error:
            return _Attempt(None, [], [CUT_OFF if is_cut else str(error)])
        external = frozenset() if self.entity is None else frozenset([self.entity])
        layers, invalid = schema.validate_layers(answer, external)
        if self.entity is not None:
            layers["pieces"] = [
                {**piece, "entity_id": piece.get("entity_id") or self.entity}
                for piece in layers["pieces"]
            ]
        return _Attempt(
            layers,
            [Skipped(f"chunk {number}: {entry.where}", entry.what, entry.why) for entry in invalid],
            [f"{entry.where}: {entry.why} ({entry.what})" for entry in invalid],
        )


def _split_half(text: str) -> list[str]:
    return split_chunks(text, len(text) * 3 // 5) if len(text) > MIN_CHARS else [text]


@cached("structuring prompt", 1)
def read_prompt() -> str:
    return resources.files("knowloom.structuring").joinpath("prompt.md").read_text("utf-8")


def prompt_version() -> str:
    """Return a digest of the prompt."""
    return hashlib.sha256(read_prompt().encode()).hexdigest()[:12]


def _build_messages(text: str, entity: str | None) -> list[Message]:
    subject = (
        f"The notes are about {entity}, or written by them: use this id for them.\n\n"
        if entity
        else ""
    )
    return [Message("system", read_prompt()), Message("user", f"{subject}The notes:\n\n{text}")]


def _build_repair(problems: list[str]) -> str:
    lines = [f"- {problem}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"- and {len(problems) - MAX_PROBLEMS} more like these")
    return "\n".join(
        [
            "That answer cannot be used:",
            *lines,
            "Answer again with the complete, corrected JSON object and nothing else.",
        ]
    )


def parse_answer(answer: str) -> dict[str, Any]:
    """Return the JSON object in an answer; Invalid says what the model must repair."""
    text = _THOUGHTS.sub("", answer, count=1) if answer.lstrip().startswith("<think>") else answer
    if not text.strip():
        raise Invalid("the answer is empty")
    start = _OBJECT_START.search(text)
    if start is None:
        raise Invalid(f"there is no JSON object in the answer {_excerpt(text)}")
    if text[: start.start()].rstrip().endswith("["):
        raise Invalid(
            "the answer is a JSON list; it must be one object with metadata, pieces and graph"
        )
    try:
        value, end = _DECODER.raw_decode(text, start.start())
    except json.JSONDecodeError as error:
        near = repr(text[max(0, error.pos - 20) : error.pos + 20])
        place = f"line {error.lineno} column {error.colno}"
        raise Invalid(f"not JSON: {error.msg} at {place}, near {near}") from None
    except ValueError as error:
        raise Invalid(f"not JSON: {error}") from None
    except RecursionError:
        raise Invalid("not JSON: nested too deeply") from None
    if _OBJECT_START.search(text, end):
        raise Invalid("the answer has more than one JSON object; it must have exactly one")
    return dict(value)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= MAX_EXCERPT else line[: MAX_EXCERPT - 1] + "…")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"duplicate name {name!r} in one object")
        result[name] = value
    return result


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_build_object, parse_constant=_reject_constant)
