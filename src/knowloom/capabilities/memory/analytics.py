"""Opt-in analytics of memory requests in a local SQLite file: counts, latencies, empty results."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

import apsw

from knowloom import codec
from knowloom.errors import Corrupt, Invalid, Unavailable

log = logging.getLogger(__name__)

APPLICATION_ID = 0x4B4C5341  # "KLSA"
MAX_ROWS = 100_000  # the oldest are deleted first
SCHEMA = """
CREATE TABLE IF NOT EXISTS request(
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    workspace TEXT NOT NULL,
    operation TEXT NOT NULL,
    ms REAL NOT NULL,
    results INTEGER NOT NULL,
    error TEXT NOT NULL,
    query TEXT)
"""
INSERT = """
INSERT INTO request(at, workspace, operation, ms, results, error, query)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class Summary:
    """The requests of one operation on one workspace; latencies in milliseconds."""

    workspace: str
    operation: str
    count: int
    p50_ms: float
    p95_ms: float
    found_nothing: int
    failed: int


class Analytics:
    """A file of requests. The text of queries is stored only if `keep_text` is True."""

    def __init__(self, path: str | Path, keep_text: bool = False) -> None:
        self.path, self.keep_text = str(path), keep_text
        self._lock = Lock()
        if not Path(path).absolute().parent.is_dir():
            raise Invalid(f"analytics: the folder of {str(path)!r} does not exist")
        with self._translate_errors():
            self._file = apsw.Connection(self.path)
            self._file.set_busy_timeout(5_000)
            application_id = self._file.pragma("application_id")
            if application_id not in (0, APPLICATION_ID) or self._has_other_tables():
                raise Corrupt(f"{self.path!r} is an SQLite file of another program", "foreign_file")
            self._file.execute("PRAGMA journal_mode=WAL").fetchall()
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute(SCHEMA)
            self._file.execute(f"PRAGMA application_id={APPLICATION_ID}")

    def close(self) -> None:
        self._file.close()

    def record(
        self,
        at: datetime,
        workspace: str,
        operation: str,
        ms: float,
        results: int,
        error: str = "",
        query: str = "",
    ) -> None:
        """Record a request. A write failure is logged: analytics must not break a request."""
        text = query if self.keep_text else None
        row = (codec.time_to_text(at), workspace, operation, ms, results, error, text)
        try:
            with self._lock, self._translate_errors():
                self._file.execute(INSERT, row)
                if self._file.last_insert_rowid() % 1000 == 0:
                    oldest = "(SELECT max(number) FROM request) - ?"
                    self._file.execute(f"DELETE FROM request WHERE number <= {oldest}", (MAX_ROWS,))
        except Unavailable as problem:
            log.warning("analytics: %s", problem)

    def summaries(self) -> list[Summary]:
        """Return a summary per workspace and operation."""
        statement = """
            SELECT workspace, operation, ms, results, error FROM request
            ORDER BY workspace, operation, ms
        """
        with self._lock, self._translate_errors():
            rows = self._file.execute(statement).fetchall()
        groups: dict[tuple[str, str], list[tuple[float, int, str]]] = {}
        for workspace, operation, ms, results, error in rows:
            entry = (float(ms), int(results), str(error))  # type: ignore[arg-type]
            groups.setdefault((str(workspace), str(operation)), []).append(entry)
        return [_summarise(*names, requests) for names, requests in groups.items()]

    def queries(self, workspace: str, *, found_nothing: bool = False) -> list[str]:
        """Return the stored query texts, oldest first; optionally those without results."""
        empty_only = "AND results = 0 AND error = ''" if found_nothing else ""
        statement = f"""
            SELECT query FROM request WHERE workspace = ? AND query IS NOT NULL {empty_only}
            ORDER BY number
        """
        with self._lock, self._translate_errors():
            return [str(query) for (query,) in self._file.execute(statement, (workspace,))]

    def _has_other_tables(self) -> bool:
        statement = """
            SELECT count(*) FROM sqlite_schema
            WHERE name NOT LIKE 'sqlite_%' AND name != 'request'
        """
        ((tables,),) = self._file.execute(statement).fetchall()
        return bool(tables)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise Corrupt(
                f"{self.path!r} is damaged or not an analytics file ({error}); "
                "delete it to start over"
            ) from error
        except apsw.Error as error:
            raise Unavailable(f"{self.path!r}: {error}") from error


def _summarise(workspace: str, operation: str, requests: list[tuple[float, int, str]]) -> Summary:
    """Summarise requests that are ordered by latency."""
    latencies = [ms for ms, _, _ in requests]
    return Summary(
        workspace,
        operation,
        len(requests),
        round(_quantile(latencies, 0.5), 3),
        round(_quantile(latencies, 0.95), 3),
        found_nothing=sum(not results and not error for _, results, error in requests),
        failed=sum(bool(error) for _, _, error in requests),
    )


def _quantile(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))]
