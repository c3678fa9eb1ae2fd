"""Requests and strategies, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from knowloom import tiers, tokens, validation
from knowloom.capabilities.assembler.executor import timeout_of
from knowloom.capabilities.assembler.model import AssemblyRequest, Strategy
from knowloom.errors import Invalid, unknown
from knowloom.formats.layout import layout
from knowloom.options import budget, fraction, text

MAX_STRATEGIES = 50
MAX_CONTENT = 10_000_000  # characters of a document


def build_request(given: str, options: Mapping[str, Any]) -> AssemblyRequest:
    names = [one.name for one in fields(AssemblyRequest) if one.name != "text"]
    for name in options:
        if name not in names:
            raise unknown("option", name, names)
    return AssemblyRequest(given, **options)


def validate_request(given: AssemblyRequest) -> AssemblyRequest:
    text(given.text)
    budget(given.max_tokens)
    layout(validation.name("format", given.format))
    tokens.counter(given.model)
    if given.document is not None:
        _check_document(given)
    if given.selection is not None:
        _check_selection(given)
    for name in ("now", "as_of"):
        if getattr(given, name) is not None:
            validation.time(name, getattr(given, name))
    for name in ("agent", "entity"):
        if getattr(given, name) is not None:
            validation.name(name, getattr(given, name))
    # The tier is found out once, for all strategies; documents are the user's own and seen in every tier.
    return replace(
        given, spaces=validation.names("spaces", given.spaces), tier=tiers.in_force(given.tier)
    )


def _check_document(given: AssemblyRequest) -> None:
    content = getattr(given.document, "content", given.document)
    if not isinstance(content, str):
        raise Invalid(
            f"a document is a text or has a text as its content, not {type(content).__name__}"
        )
    if not content.strip():
        raise Invalid("the document has no text")
    if len(content) > MAX_CONTENT:
        raise Invalid(f"the document has {len(content):,} characters; the most is {MAX_CONTENT:,}")


def _check_selection(given: AssemblyRequest) -> None:
    selection, length = given.selection, len(given.content)
    if given.document is None:
        raise Invalid("a selection needs the document it is in")
    if (
        not isinstance(selection, tuple | list)
        or len(selection) != 2
        or any(isinstance(end, bool) or not isinstance(end, int) for end in selection)
    ):
        raise Invalid(f"a selection is (start, end) in characters, not {selection!r}")
    if not 0 <= selection[0] < selection[1] <= length:
        raise Invalid(
            f"the selection {selection[0]} to {selection[1]} does not lie within the {length:,} characters of the document"
        )


def validate_strategies(given: Sequence[Strategy]) -> tuple[Strategy, ...]:
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MAX_STRATEGIES:
        raise Invalid(f"an assembler needs a list of 1 to {MAX_STRATEGIES} strategies")
    for one in given:
        _check_strategy(one)
    if twice := validation.duplicates(one.name for one in given):
        raise Invalid(f"two strategies have the name {twice[0]!r}")
    return tuple(given)


def _check_strategy(one: Strategy) -> None:
    missing = [name for name in ("name", "priority", "enabled", "get") if not hasattr(one, name)]
    if missing or not callable(one.get):
        raise Invalid(
            f"{type(one).__name__} is no strategy: it lacks {', '.join(missing) or 'a method get'}"
        )
    if not validation.name("the name of a strategy", one.name):
        raise Invalid("the name of a strategy must not be empty")
    for what, value in (("priority", one.priority), ("timeout_s", getattr(one, "timeout_s", 1.0))):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise Invalid(f"strategy {one.name!r}: {what} must be a number, not {value!r}")
    if timeout_of(one) <= 0:
        raise Invalid(f"strategy {one.name!r}: timeout_s must be above 0, not {timeout_of(one)!r}")
    for what, flag in (("enabled", one.enabled), ("required", getattr(one, "required", False))):
        if not isinstance(flag, bool):
            raise Invalid(f"strategy {one.name!r}: {what} must be True or False, not {flag!r}")
    strategy_share(one, 0.0)


def strategy_share(one: Strategy, otherwise: float) -> float:
    given = getattr(one, "share", None)
    return otherwise if given is None else fraction(f"the share of strategy {one.name!r}", given)
