"""Temporary SQLite files and raw SQL on them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import apsw

from knowloom.stores.sqlite.damage.page_checksums import register_vfs

# Statements that turn a file of the current schema into one of schema 4.
WITHOUT_SCHEMA_5 = (
    "ALTER TABLE change_log DROP COLUMN actor",
    "ALTER TABLE space DROP COLUMN retention_days",
    "DROP TABLE backup",
)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, in memory if possible: it is faster."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def execute_sql(path: str, *statements: str) -> None:
    """Execute raw SQL."""
    connection = apsw.Connection(path, vfs=register_vfs())
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()
