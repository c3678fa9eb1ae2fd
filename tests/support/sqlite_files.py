"""Temporary SQLite files and raw SQL on them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import apsw


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, in memory if possible: it is faster."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def execute_sql(path: str, *statements: str) -> None:
    """Execute raw SQL."""
    connection = apsw.Connection(path)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()
