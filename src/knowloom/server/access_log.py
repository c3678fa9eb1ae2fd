"""Request logging, as JSON lines or plain text, and collection of warnings for a response."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


class JsonLineFormatter(logging.Formatter):
    """One JSON object per line: time, level, message, and the `fields` of the record."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = getattr(record, "fields", {})
        message = "request" if fields else record.getMessage()
        level = record.levelname.lower()
        row = {"time": time.replace("+00:00", "Z"), "level": level, "message": message}
        return json.dumps(row | fields)


class RequestWarningHandler(logging.Handler):
    """Appends the engine's warnings to the list of the current request."""

    def emit(self, record: logging.LogRecord) -> None:
        messages = _warnings.get()
        if messages is not None:
            messages.append(record.getMessage())


COLLECTOR = RequestWarningHandler(logging.WARNING)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Yield a list of the warnings that the engine logs within the block."""
    logging.getLogger("knowloom").addHandler(COLLECTOR)  # adding the same handler again is a no-op
    messages: list[str] = []
    token = _warnings.set(messages)
    try:
        yield messages
    finally:
        _warnings.reset(token)


def log_to_stderr() -> None:
    """Log to standard error: requests of the server, and warnings of everything else."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(plain if sys.stderr.isatty() else JsonLineFormatter())
    logging.getLogger().addHandler(handler)
    logging.getLogger("knowloom.http").setLevel(logging.INFO)
