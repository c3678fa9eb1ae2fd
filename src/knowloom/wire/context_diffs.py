"""Differences between contexts as JSON, and contexts that users stored as JSON."""

from __future__ import annotations

from knowloom.capabilities.differences import ContextDiff, ItemChange, Placement
from knowloom.errors import Invalid
from knowloom.model import Context
from knowloom.wire import JsonObject
from knowloom.wire.contexts import context_from_json


def diff_to_json(diff: ContextDiff) -> JsonObject:
    return {
        "equal": diff.is_empty,
        "items": [_change_to_json(change) for change in diff.items],
        "unchanged": diff.unchanged,
        "text": diff.text,
        "first_byte": diff.first_byte,
        "bytes": {"before": diff.bytes_before, "after": diff.bytes_after},
        "tokens": {"before": diff.tokens_before, "after": diff.tokens_after},
    }


def parse_context(name: str, row: object) -> Context:
    """Return a context from the JSON of `knowloom context --json` or of /api/explain."""
    try:
        if not isinstance(row, dict):
            raise TypeError
        return context_from_json(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        origin = "knowloom context --json, knowloom explain --json or POST /api/explain"
        raise Invalid(f"{name} must be the JSON of a context, as written by {origin}") from error


def _change_to_json(change: ItemChange) -> JsonObject:
    return {
        "change": change.kind,
        "space": change.space,
        "id": change.id,
        "title": change.title,
        "before": _placement_to_json(change.before),
        "after": _placement_to_json(change.after),
        "text_changed": change.is_text_changed,
        "reason": change.reason,
    }


def _placement_to_json(place: Placement | None) -> JsonObject | None:
    if place is None:
        return None
    return {
        "section": place.section,
        "position": place.position,
        "form": place.form.value,
        "score": place.score,
        "tokens": place.tokens,
    }
