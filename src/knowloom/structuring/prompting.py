"""Free text to three layers with a language model: asked portion by portion, and again with what is wrong until the answer is right."""

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
from knowloom.structuring.chunking import portions
from knowloom.structuring.merge import merged
from knowloom.structuring.schema import Layers

log = logging.getLogger(__name__)

MAX_CHARS = 12_000  # of a portion: about 3,000 tokens, whose structure still fits the usual limits of an answer
LEAST_CHARS = 1_000  # a portion this short is not parted again when its answer was cut
MOST_COMPLAINTS = 20  # told to the model at a time
CUT = "the answer was cut off at the model's length limit; answer with fewer words"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said about a portion: the how-manieth time, and what was wrong with it."""

    portion: int
    attempt: int
    text: str
    complaints: tuple[str, ...] = ()


@dataclass(slots=True)
class Structuring:
    """One run. `answers` has every answer so far, also when the run fails."""

    llm: LLM
    entity: str | None = None
    max_retries: int = 3
    progress: Callable[[str, int, int], None] | None = None
    answers: list[Answer] = field(default_factory=list)
    portions: int = 0

    def run(self, text: str, max_chars: int = MAX_CHARS) -> tuple[Layers, list[Skipped]]:
        """The layers, and the entries that stayed wrong, each with its portion and place."""
        layers: list[Layers] = []
        skipped: list[Skipped] = []
        whole_text = portions(text, max_chars)
        for number, portion in enumerate(whole_text):
            if self.progress is not None:
                self.progress("portions", number, len(whole_text))
            for found, wrong in self._structured(portion):
                layers.append(found)
                skipped += wrong
        whole = merged(layers)
        if not (whole["metadata"] or whole["pieces"] or whole["graph"]["nodes"]):
            raise self._unusable(f"{skipped[0].where}: {skipped[0].why}")
        if self.entity is not None:
            type, colon, _ = self.entity.partition(":")
            whole["metadata"].setdefault(
                self.entity, {"entity_type": type if type and colon else "entity"}
            )
        return whole, skipped

    def _structured(self, text: str) -> list[tuple[Layers, list[Skipped]]]:
        """The layers of one portion, or of its halves where the answer about the whole does not fit."""
        self.portions += 1
        number = self.portions
        best: tuple[Layers, list[Skipped]] | None = None
        complaints: list[str] = []
        talk = _opening(text, self.entity)
        for attempt in range(1, self.max_retries + 2):
            reply = self.llm.complete(talk)
            if (
                reply.cut
                and len(text) > LEAST_CHARS
                and len(halves := portions(text, len(text) * 3 // 5)) > 1
            ):
                self.answers.append(Answer(number, attempt, reply.text, (CUT,)))
                log.info("portion %d: the answer was cut off, parted in %d", number, len(halves))
                return [found for half in halves for found in self._structured(half)]
            found, wrong, complaints = self._judged(reply.text, reply.cut, number)
            self.answers.append(Answer(number, attempt, reply.text, tuple(complaints)))
            if found is not None and (best is None or len(wrong) <= len(best[1])):
                best = (found, wrong)
            if not complaints:
                break
            log.info("portion %d, answer %d: %d complaints", number, attempt, len(complaints))
            talk = [
                *_opening(text, self.entity),
                Message("assistant", reply.text or "(nothing)"),
                Message("user", _repair(complaints)),
            ]
        if best is None:
            raise self._unusable(f"portion {number}: {complaints[0]}")
        return [best]

    def _unusable(self, why: str) -> Unavailable:
        return Unavailable(
            f"{self.llm.name}: no usable answer in {len(self.answers)} attempts, {why}",
            "unstructured",
        )

    def _judged(
        self, text: str, cut: bool, number: int
    ) -> tuple[Layers | None, list[Skipped], list[str]]:
        """The valid entries, the others, and what to tell the model; None where there is no JSON."""
        try:
            given: dict[str, Any] = parsed(text)
        except Invalid as error:
            return None, [], [CUT if cut else str(error)]
        known = frozenset() if self.entity is None else frozenset([self.entity])
        layers, wrong = schema.checked(given, known)
        if self.entity is not None:
            layers["pieces"] = [
                {**piece, "entity_id": piece.get("entity_id") or self.entity}
                for piece in layers["pieces"]
            ]
        placed = [Skipped(f"portion {number}: {one.where}", one.what, one.why) for one in wrong]
        return layers, placed, [f"{one.where}: {one.why} ({one.what})" for one in wrong]


@cached("structuring prompt", 1)
def prompt() -> str:
    return resources.files("knowloom.structuring").joinpath("prompt.md").read_text("utf-8")


def prompt_version() -> str:
    """Changes whenever the prompt does."""
    return hashlib.sha256(prompt().encode()).hexdigest()[:12]


def _opening(text: str, entity: str | None) -> list[Message]:
    about = (
        f"The notes are about {entity}, or written by them: use this id for them.\n\n"
        if entity
        else ""
    )
    return [Message("system", prompt()), Message("user", f"{about}The notes:\n\n{text}")]


def _repair(complaints: list[str]) -> str:
    shown = "\n".join(f"- {one}" for one in complaints[:MOST_COMPLAINTS])
    more = (
        f"\n- and {len(complaints) - MOST_COMPLAINTS} more like these"
        if len(complaints) > MOST_COMPLAINTS
        else ""
    )
    return f"That answer cannot be used:\n{shown}{more}\nAnswer again with the complete, corrected JSON object and nothing else."


SHOWN = 120  # characters of an answer that is no JSON
_THOUGHTS = re.compile(r"\s*<think>.*?</think>", re.S)
_START = re.compile(r"\{\s*[\"}]")


def parsed(answer: str) -> dict[str, Any]:
    """The object, or Invalid with what a repair needs to know."""
    text = _THOUGHTS.sub("", answer, count=1) if answer.lstrip().startswith("<think>") else answer
    start = _START.search(text)
    if start is None:
        raise Invalid(
            f"there is no JSON object in the answer {_shown(text)}"
            if text.strip()
            else "the answer is empty"
        )
    if text[: start.start()].rstrip().endswith("["):
        raise Invalid(
            "the answer is a JSON list; it must be one object with metadata, pieces and graph"
        )
    try:
        found, end = _DECODER.raw_decode(text, start.start())
    except json.JSONDecodeError as error:
        raise Invalid(
            f"not JSON: {error.msg} at line {error.lineno} column {error.colno}, near {_near(text, error.pos)}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"not JSON: {error if isinstance(error, ValueError) else 'nested too deeply'}"
        ) from None
    if _START.search(text, end):
        raise Invalid("the answer has more than one JSON object; it must have exactly one")
    return dict(found)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else line[: SHOWN - 1] + "…")


def _near(text: str, position: int) -> str:
    return repr(text[max(0, position - 20) : position + 20])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name
            for number, (name, _) in enumerate(pairs)
            if name in [other for other, _ in pairs[:number]]
        )
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
