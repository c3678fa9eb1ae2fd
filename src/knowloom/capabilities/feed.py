"""Knowledge into a prompt's feed: what happens to a placeholder that both of them fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowloom.errors import Invalid, unknown


def merge_feed(
    feed: Mapping[str, Any], knowledge: Mapping[str, str], strategy: str = "FEED_ONLY"
) -> dict[str, Any]:
    """A new feed: the values of `feed`, then the sections of `knowledge`. Where both have a name, the strategy decides: FEED_ONLY
    takes the knowledge, ATTRIBUTE_ONLY keeps what the feed had, MERGE takes both with a newline in between."""
    if strategy not in STRATEGIES:
        raise unknown("strategy", strategy, STRATEGIES)
    for name, given in (("feed", feed), ("knowledge", knowledge)):
        if not isinstance(given, Mapping):
            raise Invalid(
                f"{name} must be a mapping of placeholders to values, not {type(given).__name__}"
            )
        for placeholder in given:
            if not isinstance(placeholder, str):
                raise Invalid(f"{name}: a placeholder is named by text, not by {placeholder!r}")
    for section, text in knowledge.items():
        if not isinstance(text, str):
            raise Invalid(
                f"knowledge: the section {section!r} must be text, not {type(text).__name__}"
            )
    decide = STRATEGIES[strategy]
    return dict(feed) | {
        section: decide(section, feed[section], text) if section in feed else text
        for section, text in knowledge.items()
    }


def _knowledge(_: str, __: Any, text: str) -> str:
    return text


def _feed(_: str, existing: Any, __: str) -> Any:
    return existing


def _both(section: str, existing: Any, text: str) -> str:
    """Nothing is not a value: beside an empty one the other stands alone."""
    if existing is not None and not isinstance(existing, str):
        raise Invalid(
            f"feed: {section!r} holds {type(existing).__name__}, which cannot be merged with text"
        )
    return "\n".join(part for part in (existing, text) if part)


STRATEGIES: dict[str, Callable[[str, Any, str], Any]] = {
    "FEED_ONLY": _knowledge,
    "ATTRIBUTE_ONLY": _feed,
    "MERGE": _both,
}
