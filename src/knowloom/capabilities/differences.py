"""The difference between two contexts: the items that changed, and the bytes of the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import takewhile

from knowloom.model import Chosen, Context, Form, Key

MAX_LINES = 5_000  # of a text; comparing lines takes quadratic time


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of an item in a context: its section, position from 1, form, score and tokens."""

    section: str
    position: int
    form: Form
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item whose place or text differs; None on the side that does not show it.

    `reason` says why the later context does not show it, if it was a candidate there.
    """

    space: str
    id: str
    title: str
    before: Placement | None
    after: Placement | None
    is_text_changed: bool = False
    reason: str = ""

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class ContextDiff:
    """The changes from one context to another, in the order of the texts.

    `text` is a unified diff, `first_byte` the offset of the first byte that differs, None if all
    are equal. Scores and positions alone change no bytes, but are changes of items.
    """

    items: tuple[ItemChange, ...] = ()
    text: str = ""
    first_byte: int | None = None
    bytes_before: int = 0
    bytes_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    unchanged: int = 0  # items

    @property
    def is_empty(self) -> bool:
        """True if the contexts have the same bytes and the same items, with equal scores."""
        return not self.items and self.first_byte is None


def diff_contexts(before: Context, after: Context) -> ContextDiff:
    """Return the changes from one context to another."""
    old, new = dict(_placements(before)), dict(_placements(after))
    changes = list(_changes(old, new, after))
    first, second = before.text.encode(), after.text.encode()
    return ContextDiff(
        items=tuple(changes),
        text=_diff_text(before.text, after.text),
        first_byte=_first_difference(first, second),
        bytes_before=len(first),
        bytes_after=len(second),
        tokens_before=before.tokens,
        tokens_after=after.tokens,
        unchanged=len(old.keys() | new.keys()) - len(changes),
    )


def _placements(context: Context) -> Iterator[tuple[Key, tuple[Placement, Chosen]]]:
    """Yield the place of each item; of one that is shown twice, the first one."""
    seen: set[Key] = set()
    for fragment in context.fragments:
        for choice in fragment.chosen:
            key = choice.hit.item.key
            if key in seen:
                continue
            seen.add(key)
            values = (len(seen), choice.form, choice.hit.score, choice.tokens)
            yield key, (Placement(fragment.name, *values), choice)


def _changes(
    old: dict[Key, tuple[Placement, Chosen]],
    new: dict[Key, tuple[Placement, Chosen]],
    after: Context,
) -> Iterator[ItemChange]:
    """Yield the items that are in one context only, or elsewhere, or with another text."""
    reasons = {omission.hit.item.key: omission.reason for omission in after.left_out}
    for key in [*new, *(key for key in old if key not in new)]:
        place_before, chosen_before = old.get(key, (None, None))
        place_after, chosen_after = new.get(key, (None, None))
        chosen = chosen_after or chosen_before
        assert chosen is not None
        texts = {choice.text for choice in (chosen_before, chosen_after) if choice is not None}
        is_text_changed = len(texts) == 2
        if place_before == place_after and not is_text_changed:
            continue
        title, reason = chosen.hit.item.title, "" if place_after else reasons.get(key, "")
        yield ItemChange(*key, title, place_before, place_after, is_text_changed, reason)


def _first_difference(first: bytes, second: bytes) -> int | None:
    if first == second:
        return None
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _diff_text(before: str, after: str) -> str:
    """Return a unified diff by lines, which end at newlines only; "" for equal texts."""
    first, second = before.split("\n"), after.split("\n")
    if max(len(first), len(second)) > MAX_LINES and before != after:
        return f"(texts of more than {MAX_LINES:,} lines are not compared line by line)"
    return "\n".join(unified_diff(first, second, "before", "after", n=2, lineterm=""))
