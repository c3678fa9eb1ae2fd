"""Merging knowledge into the placeholders of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowloom.errors import Invalid, unknown_name


def merge_feed(
    feed: Mapping[str, Any], knowledge: Mapping[str, str], strategy: str = "FEED_ONLY"
) -> dict[str, Any]:
    """Return a new feed: the values of `feed`, then the sections of `knowledge`.

    For a name in both, FEED_ONLY takes the knowledge, ATTRIBUTE_ONLY keeps the value of the feed,
    and MERGE joins both with a newline.
    """
    if strategy not in STRATEGIES:
        raise unknown_name("strategy", strategy, STRATEGIES)
    _validate_placeholders("feed", feed)
    _validate_placeholders("knowledge", knowledge)
    for section, text in knowledge.items():
        if not isinstance(text, str):
            kind = type(text).__name__
            raise Invalid(f"knowledge: section {section!r} must be a string, got {kind}")
    resolve = STRATEGIES[strategy]
    return dict(feed) | {
        section: resolve(section, feed[section], text) if section in feed else text
        for section, text in knowledge.items()
    }


def _validate_placeholders(name: str, values: object) -> None:
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise Invalid(f"{name} must be a mapping of placeholders to values, got {kind}")
    for placeholder in values:
        if not isinstance(placeholder, str):
            raise Invalid(f"{name}: a placeholder must be a string, got {placeholder!r}")


def _take_knowledge(_: str, __: Any, text: str) -> str:
    return text


def _keep_feed(_: str, existing: Any, __: str) -> Any:
    return existing


def _join(section: str, existing: Any, text: str) -> str:
    """Join both values with a newline; an empty value adds no line."""
    if existing is not None and not isinstance(existing, str):
        kind = type(existing).__name__
        raise Invalid(f"feed: {section!r} is of type {kind}, which cannot be merged with text")
    return "\n".join(part for part in (existing, text) if part)


STRATEGIES: dict[str, Callable[[str, Any, str], Any]] = {
    "FEED_ONLY": _take_knowledge,
    "ATTRIBUTE_ONLY": _keep_feed,
    "MERGE": _join,
}
