"""Search analytics, for those who ask for them: how often, how slow, how often nothing was found. Kept in a local file, sent nowhere."""

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

APPLICATION = 0x57465341  # "WFSA"
KEPT = 100_000  # rows; the oldest go first
SCHEMA = """CREATE TABLE IF NOT EXISTS asked(
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, workspace TEXT NOT NULL, operation TEXT NOT NULL, ms REAL NOT NULL, found INTEGER NOT NULL,
    error TEXT NOT NULL, query TEXT)"""


@dataclass(frozen=True, slots=True)
class Summary:
    """What was asked of one workspace by one operation. Times are in milliseconds."""

    workspace: str
    operation: str
    count: int
    p50_ms: float
    p95_ms: float
    found_nothing: int
    failed: int


class Analytics:
    """A file of what was asked. The text of questions is kept only if `keep_text` is True."""

    def __init__(self, path: str | Path, keep_text: bool = False) -> None:
        self.path, self.keep_text = str(path), keep_text
        self._lock = Lock()
        if not Path(path).absolute().parent.is_dir():
            raise Invalid(f"analytics: the folder of {str(path)!r} does not exist")
        with self._told():
            self._file = apsw.Connection(self.path)
            self._file.set_busy_timeout(5_000)
            if self._file.pragma("application_id") not in (0, APPLICATION) or self._foreign():
                raise Corrupt(f"{self.path!r} is an SQLite file of another program", "foreign_file")
            self._file.execute("PRAGMA journal_mode=WAL").fetchall()
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute(SCHEMA)
            self._file.execute(f"PRAGMA application_id={APPLICATION}")

    def close(self) -> None:
        self._file.close()

    def note(
        self,
        at: datetime,
        workspace: str,
        operation: str,
        ms: float,
        found: int,
        error: str = "",
        query: str = "",
    ) -> None:
        """One thing asked. What cannot be written is logged and lost: counting must not break what is counted."""
        row = (
            codec.time_to_text(at),
            workspace,
            operation,
            ms,
            found,
            error,
            query if self.keep_text else None,
        )
        try:
            with self._lock, self._told():
                self._file.execute(
                    "INSERT INTO asked(at, workspace, operation, ms, found, error, query) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                if self._file.last_insert_rowid() % 1000 == 0:
                    self._file.execute(
                        "DELETE FROM asked WHERE number <= (SELECT max(number) FROM asked) - ?",
                        (KEPT,),
                    )
        except Unavailable as problem:
            log.warning("analytics: %s", problem)

    def summaries(self) -> list[Summary]:
        """By workspace and operation."""
        with self._lock, self._told():
            rows = self._file.execute(
                "SELECT workspace, operation, ms, found, error FROM asked ORDER BY workspace, operation, ms"
            ).fetchall()
        groups: dict[tuple[str, str], list[tuple[float, int, str]]] = {}
        for workspace, operation, ms, found, error in rows:
            entry = (float(ms), int(found), str(error))  # type: ignore[arg-type]
            groups.setdefault((str(workspace), str(operation)), []).append(entry)
        return [_summary(*names, asked) for names, asked in groups.items()]

    def queries(self, workspace: str, *, found_nothing: bool = False) -> list[str]:
        """The questions themselves, where they were kept; the oldest first."""
        only = "AND found = 0 AND error = ''" if found_nothing else ""
        with self._lock, self._told():
            rows = self._file.execute(
                f"SELECT query FROM asked WHERE workspace = ? AND query IS NOT NULL {only} ORDER BY number",
                (workspace,),
            )
            return [str(query) for (query,) in rows]

    def _foreign(self) -> bool:
        ((tables,),) = self._file.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name != 'asked'"
        ).fetchall()
        return bool(tables)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise Corrupt(
                f"{self.path!r} is damaged or not a file of search analytics ({error}): delete it to begin anew"
            ) from error
        except apsw.Error as error:
            raise Unavailable(f"{self.path!r}: {error}") from error


def _summary(workspace: str, operation: str, asked: list[tuple[float, int, str]]) -> Summary:
    times = [ms for ms, _, _ in asked]  # in order
    nothing = sum(not found and not error for _, found, error in asked)
    return Summary(
        workspace,
        operation,
        len(asked),
        round(_at(times, 0.5), 3),
        round(_at(times, 0.95), 3),
        nothing,
        sum(bool(error) for _, _, error in asked),
    )


def _at(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))]
