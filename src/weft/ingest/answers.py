"""The one JSON object in what a language model answered, read strictly: fences and prose around it are left out, nothing inside is guessed."""

from __future__ import annotations

import json
import re
from typing import Any

from weft.errors import Invalid

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
