"""A bounded record of what a conversation was shown, so that contexts do not repeat themselves."""

from __future__ import annotations

from threading import Lock

from knowloom.conversation.earlier_turns import MAX_SHOWN, shown_by
from knowloom.model import Context, Key, Shown, merge_shown
from knowloom.validation import validate_int

MAX_RECORDED = 500  # items; the oldest are forgotten, and may be shown again


class ShownRecord:
    """The items that one conversation was shown, at most `limit`. Safe between threads."""

    def __init__(self, limit: int = MAX_RECORDED) -> None:
        self._limit = validate_int("limit", limit, 1, MAX_SHOWN)
        self._lock = Lock()
        self._entries: dict[Key, Shown] = {}

    def entries(self) -> tuple[Shown, ...]:
        with self._lock:
            return tuple(self._entries.values())

    def add(self, context: Context) -> None:
        """Record what a context shows, as the newest entries."""
        with self._lock:
            entries = merge_shown([*self._entries.values(), *shown_by(context)])
            self._entries = {(entry.space, entry.id): entry for entry in entries[-self._limit :]}

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
