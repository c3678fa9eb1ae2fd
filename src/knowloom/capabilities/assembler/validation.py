"""Validate requests and strategies before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from knowloom import tokens
from knowloom.capabilities.assembler.executor import TIMEOUT_S
from knowloom.capabilities.assembler.model import AssemblyRequest, Strategy
from knowloom.errors import Invalid, unknown_name
from knowloom.filters.condition_json import validate_where
from knowloom.formats.layout import get_layout
from knowloom.options import validate_budget
from knowloom.tiers import resolve_tier
from knowloom.validation import (
    find_duplicates,
    is_int,
    validate_bool,
    validate_fraction,
    validate_name,
    validate_names,
    validate_number,
    validate_positive,
    validate_query,
    validate_time,
)

MAX_STRATEGIES = 50
MAX_CONTENT = 10_000_000  # characters of a document


def build_request(request: AssemblyRequest | str, options: Mapping[str, Any]) -> AssemblyRequest:
    """Return the request, or one with this text and options."""
    if isinstance(request, AssemblyRequest):
        if options:
            raise Invalid(
                "options are allowed with a text, not with an AssemblyRequest: "
                + ", ".join(sorted(options))
            )
        return request
    names = [field.name for field in fields(AssemblyRequest) if field.name != "text"]
    for name in options:
        if name not in names:
            raise unknown_name("option", name, names)
    return AssemblyRequest(request, **options)


def validate_request(request: AssemblyRequest) -> AssemblyRequest:
    """Return the request with its spaces and its tier resolved."""
    validate_query(request.text)
    validate_budget(request.max_tokens)
    get_layout(validate_name("format", request.format))
    model = tokens.strict_model(request.model, validate_bool("strict", request.strict))
    tokens.get_counter(model)
    if request.document is not None:
        _validate_document(request)
    if request.selection is not None:
        _validate_selection(request)
    for name in ("now", "as_of"):
        if getattr(request, name) is not None:
            validate_time(name, getattr(request, name))
    for name in ("agent", "entity"):
        if getattr(request, name) is not None:
            validate_name(name, getattr(request, name))
    # Resolved once for all strategies. Documents belong to the user and are seen in every tier.
    tier = resolve_tier(request.tier)
    spaces, where = validate_names("spaces", request.spaces), validate_where(request.where)
    return replace(request, spaces=spaces, tier=tier, where=where or None, model=model)


def _validate_document(request: AssemblyRequest) -> None:
    content = getattr(request.document, "content", request.document)
    if not isinstance(content, str):
        raise Invalid(
            f"document must be a text, or have a text as content, got {type(content).__name__}"
        )
    if not content.strip():
        raise Invalid("the document has no text")
    if len(content) > MAX_CONTENT:
        raise Invalid(
            f"the document must have at most {MAX_CONTENT:,} characters, got {len(content):,}"
        )


def _validate_selection(request: AssemblyRequest) -> None:
    selection, length = request.selection, len(request.content)
    if request.document is None:
        raise Invalid("a selection needs a document")
    if (
        not isinstance(selection, tuple | list)
        or len(selection) != 2
        or not all(map(is_int, selection))
    ):
        raise Invalid(f"selection must be (start, end) in characters, got {selection!r}")
    start, end = selection
    if not 0 <= start < end <= length:
        raise Invalid(
            f"selection must be a range within the {length:,} characters of the document, "
            f"got {start} to {end}"
        )


def validate_strategies(strategies: Sequence[Strategy]) -> tuple[Strategy, ...]:
    """Return the strategies; raise Invalid for a wrong attribute or a duplicate name."""
    if not isinstance(strategies, list | tuple) or not 1 <= len(strategies) <= MAX_STRATEGIES:
        raise Invalid(f"an assembler needs a list of 1 to {MAX_STRATEGIES} strategies")
    for strategy in strategies:
        _validate_strategy(strategy)
    if duplicates := find_duplicates(strategy.name for strategy in strategies):
        raise Invalid(f"duplicate strategy {duplicates[0]!r}")
    return tuple(strategies)


def _validate_strategy(strategy: Strategy) -> None:
    attributes = ("name", "priority", "enabled", "get")
    missing = [name for name in attributes if not hasattr(strategy, name)]
    if missing or not callable(strategy.get):
        what = ", ".join(missing) or "a method get"
        raise Invalid(f"{type(strategy).__name__} is not a strategy: it lacks {what}")
    if not validate_name("strategy name", strategy.name):
        raise Invalid("strategy name must not be empty")
    where = f"strategy {strategy.name!r}"
    validate_number(f"{where}: priority", strategy.priority)
    validate_positive(f"{where}: timeout_s", getattr(strategy, "timeout_s", TIMEOUT_S))
    validate_bool(f"{where}: enabled", strategy.enabled)
    validate_bool(f"{where}: required", getattr(strategy, "required", False))
    strategy_share(strategy, 0.0)


def strategy_share(strategy: Strategy, default: float) -> float:
    """Return the share of the budget that a strategy names, or the default."""
    share = getattr(strategy, "share", None)
    return (
        default if share is None else validate_fraction(f"strategy {strategy.name!r}: share", share)
    )
