"""Standard input and output of a command, and files that appear when they are complete."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from knowloom.errors import Invalid, Unavailable


def stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"standard input is not UTF-8: {error}") from None


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Standard output, of which all is written at the end of the block. A closed pipe is left to click, which ends quietly."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        drop_output()
        code = "disk_full" if error.errno == errno.ENOSPC else ""
        raise Unavailable(
            f"standard output cannot be written: {error.strerror or error}", code
        ) from error


def drop_output() -> None:
    """Let what waits to be written go nowhere: Python writes it when it ends, and would complain once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def output_to(path: str | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears when it is complete. A device or a pipe is written to as it is."""
    if path is None or path == "-":
        with standard_output() as out:
            yield out
        return
    try:
        with _replacing(Path(path).resolve()) as file:
            yield file
    except OSError as error:
        raise Unavailable(f"cannot write {path!r}: {error.strerror}") from error


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
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
