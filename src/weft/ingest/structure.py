"""Free text to three layers with a language model: asked portion by portion, and again with what is wrong until the answer is right."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from weft.errors import Invalid, Unavailable
from weft.ingest import answers, schema
from weft.ingest.files import Skipped
from weft.ingest.merge import merged
from weft.ingest.portions import portions
from weft.ingest.schema import Layers
from weft.ports import LLM, Message

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
            given: dict[str, Any] = answers.parsed(text)
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


@cache
def prompt() -> str:
    return resources.files("weft.ingest").joinpath("structuring.md").read_text("utf-8")


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
