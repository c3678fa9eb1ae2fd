"""Standard input and output of a command, and output files that appear once complete."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from knowloom.errors import Invalid, Unavailable
from knowloom.files import read_text

if TYPE_CHECKING:
    from knowloom.model import Context


def read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"standard input is not UTF-8: {error}") from None


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Provide standard output, flushed at the end of the block.

    A closed pipe is left to click, which exits quietly.
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        discard_output()
        code = "disk_full" if error.errno == errno.ENOSPC else ""
        reason = error.strerror or error
        raise Unavailable(f"cannot write to standard output: {reason}", code) from error


def discard_output() -> None:
    """Redirect standard output to the null device.

    Python flushes the rest at exit, and would report the same error once more.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def open_output(path: str | None) -> Iterator[TextIO]:
    """Open standard output, or a file that appears once complete.

    A device or pipe is written to directly.
    """
    if path is None or path == "-":
        with standard_output() as out:
            yield out
        return
    try:
        with _replace_file(Path(path).resolve()) as file:
            yield file
    except OSError as error:
        raise Unavailable(f"cannot write {path!r}: {error.strerror}") from error


@contextmanager
def _replace_file(path: Path) -> Iterator[TextIO]:
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as device:
            yield device
        return
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_document(path: str) -> str:
    """Return the text of a file; "-" is standard input."""
    return read_stdin() if path == "-" else read_text(path)


def read_context(name: str) -> Context:
    """Read a context from a file that a command wrote as JSON; - is standard input."""
    from knowloom.wire.context_diffs import parse_context

    try:
        row = json.loads(read_document(name))
    except (ValueError, RecursionError):
        row = None
    return parse_context(name, row)
