"""Logs of the service: one line a request, as JSON for machines or plain for a terminal; and the engine's notes for one answer."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_notes: ContextVar[list[str] | None] = ContextVar("notes", default=None)


class Lines(logging.Formatter):
    """One JSON object a line: time, level, message, and what the record has to say by name."""

    def format(self, record: logging.LogRecord) -> str:
        time = (
            datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        said = getattr(record, "said", {})
        message = "request" if said else record.getMessage()
        return json.dumps(
            {"time": time, "level": record.levelname.lower(), "message": message} | said
        )


class Notes(logging.Handler):
    """Gives what the engine warns of to the request that is being answered."""

    def emit(self, record: logging.LogRecord) -> None:
        notes = _notes.get()
        if notes is not None:
            notes.append(record.getMessage())


NOTES = Notes(logging.WARNING)


@contextmanager
def noted() -> Iterator[list[str]]:
    """What the engine warns of meanwhile."""
    logging.getLogger("knowloom").addHandler(NOTES)  # the same handler is added once
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def to_stderr() -> None:
    """Log to standard error: of knowloom everything from information on, of others only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(message)s")
        if sys.stderr.isatty()
        else Lines()
    )
    logging.getLogger().addHandler(handler)
    logging.getLogger("knowloom.http").setLevel(logging.INFO)
