"""Arguments about earlier turns of a conversation, and what a context shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypedDict

from knowloom.errors import Invalid
from knowloom.model import (
    Context,
    ContextFormat,
    Earlier,
    Form,
    Shown,
    content_version,
    merge_shown,
)
from knowloom.validation import validate_int, validate_name

MAX_SHOWN = 10_000  # entries of a request
MAX_NEW_TOKENS = 100_000_000
SHOWN_FORMS = (Form.WHOLE, Form.EXCERPT)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TurnFields(TypedDict):
    """The fields of a query that are about earlier turns."""

    seen: tuple[Shown, ...]
    after: Earlier | None
    new_tokens: int | None


def resolve_turn(
    seen: object, after: object, new_tokens: int | None, format: str | ContextFormat
) -> TurnFields:
    """Return the validated fields of a query about earlier turns."""
    if after is not None and format == "json":
        raise Invalid("after needs a format that can be continued, not 'json'")
    if new_tokens is not None:
        validate_int("new_tokens", new_tokens, 0, MAX_NEW_TOKENS)
    earlier = None if after is None else validate_after(after)
    return {"seen": validate_seen(seen), "after": earlier, "new_tokens": new_tokens}


def validate_seen(seen: object) -> tuple[Shown, ...]:
    """Return the items of ids, contexts and entries; the last entry of an item counts."""
    if seen is None:
        return ()
    values = [seen] if isinstance(seen, str | Context | Shown) else seen
    if not isinstance(values, Iterable) or isinstance(values, Mapping | bytes):
        raise Invalid(f"seen must be ids or contexts, got {type(seen).__name__}")
    return _limit(merge_shown(entry for value in values for entry in _parse_entry(value)))


def _parse_entry(value: object) -> Iterable[Shown]:
    if isinstance(value, Context):
        return list_shown(value)
    if isinstance(value, Shown):
        return (value,)
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        raise Invalid("seen: a digest does not tell what was shown; pass the context or its ids")
    return (Shown(validate_name("seen", value)),)


def validate_after(after: object) -> Earlier:
    """Return the text to continue of a context."""
    if isinstance(after, Context):
        return earlier_of(after)
    if not isinstance(after, Earlier):
        raise Invalid(f"after must be a context, got {type(after).__name__}")
    return replace(after, shown=_limit(merge_shown(after.shown)))


def _limit(entries: tuple[Shown, ...]) -> tuple[Shown, ...]:
    if len(entries) > MAX_SHOWN:
        raise Invalid(f"seen must have at most {MAX_SHOWN:,} items, got {len(entries):,}")
    return entries


def earlier_of(context: Context) -> Earlier:
    """Return a context as one that can be continued."""
    before = context.query.after
    cited = before.cited if before is not None and context.prefix else 0
    return Earlier(context.text, shown_by(context), cited + len(context.citations))


def list_shown(context: Context) -> tuple[Shown, ...]:
    """Return what a context shows, and what its request named as seen."""
    return merge_shown([*context.query.seen, *shown_by(context)])


def shown_by(context: Context) -> tuple[Shown, ...]:
    """Return what a context shows, with the earlier text that it begins with."""
    before = context.query.after
    earlier = before.shown if before is not None and context.prefix else ()
    return merge_shown([*earlier, *_shown_blocks(context)])


def _shown_blocks(context: Context) -> Iterator[Shown]:
    for fragment in context.fragments:
        for block in fragment.chosen:
            if block.form in SHOWN_FORMS:
                item = block.hit.item
                ranges = tuple((passage.start, passage.end) for passage in block.passages)
                yield Shown(item.id, item.space, content_version(item), ranges)
