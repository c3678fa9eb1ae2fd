"""Words in an SQLite file of their own, by the inverted index of FTS5.

FTS5 scores with the statistics of the whole file. It is therefore asked for postings only: each
passage is a row, and its tokens have the space and the impact class of the term, so that a range of
tokens has the rows of a term in a space. The bounds of the classes are added up here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import Any

import apsw
import numpy as np

from knowloom.errors import Corrupt, Invalid, Unavailable
from knowloom.model import Filter, Key
from knowloom.ports import Candidates, IndexEntry
from knowloom.stores.sqlite.database import translate_errors, write_transaction
from knowloom.text.impact_classes import classify_terms
from knowloom.text.posting_bounds import (
    PASSAGE_BITS,
    WHOLE,
    Postings,
    Rows,
    Scores,
    choose_entries,
    list_rows,
    score_entries,
)
from knowloom.text.query_terms import TermWeights, weigh_terms
from knowloom.text.words import count_passage_terms

APPLICATION_ID = 0x6B6C6674
VERSION = 1
BUSY_MS = 30_000
_SCHEMA = f"""
CREATE TABLE space (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, items INTEGER NOT NULL,
    passages INTEGER NOT NULL, length INTEGER NOT NULL) STRICT;
CREATE TABLE entry (number INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL,
    version TEXT NOT NULL, passages INTEGER NOT NULL, length INTEGER NOT NULL,
    UNIQUE (space, id)) STRICT;
CREATE VIRTUAL TABLE word USING fts5 (terms, content='', contentless_delete=1, detail=none,
    tokenize='ascii');
CREATE VIRTUAL TABLE posting USING fts5vocab (word, instance);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

_POSTINGS = "SELECT term, doc FROM posting WHERE term >= ? AND term < ?"


class Fts5Layer:
    """A TextLayer. One connection serves all threads in turn."""

    ROLES = ("words",)

    def __init__(self, path: str) -> None:
        self._path, self._lock = path, RLock()
        self._connection: Any | None = None
        with translate_errors(path):
            connection = apsw.Connection(path)
            connection.set_busy_timeout(BUSY_MS)
            _refuse_foreign(connection, path)
            connection.pragma("journal_mode", "wal")
            with write_transaction(connection):
                if not connection.pragma("user_version"):
                    connection.execute(_SCHEMA)
        self._connection = connection

    @classmethod
    def open(cls, path: str) -> Fts5Layer:
        if not path or "\0" in path:
            raise Invalid(f"fts5: must name a file, such as fts5:words.db, got {path!r}")
        if not Path(path).absolute().parent.is_dir():
            raise Unavailable(f"{path!r} cannot be opened: its folder does not exist", "no_folder")
        return cls(path)

    @contextmanager
    def _use(self) -> Iterator[Any]:
        with self._lock, translate_errors(self._path):
            if self._connection is None:
                raise Unavailable(f"{self._path!r} was closed", "closed")
            yield self._connection

    # writing

    def put(self, entries: Sequence[IndexEntry]) -> None:
        with self._use() as connection, write_transaction(connection):
            _remove(connection, [entry.item.key for entry in entries])
            for entry in entries:
                _insert(connection, entry)

    def remove(self, keys: Sequence[Key]) -> None:
        with self._use() as connection, write_transaction(connection):
            _remove(connection, keys)

    # reading

    def indexed_spaces(self) -> list[str]:
        with self._use() as connection:
            rows = connection.execute("SELECT name FROM space WHERE items > 0").fetchall()
        return sorted(name for (name,) in rows)

    def versions(self, space: str, after: str, limit: int) -> list[tuple[str, str]]:
        query = """SELECT id, version FROM entry WHERE id > ? AND
            space = (SELECT number FROM space WHERE name = ?) ORDER BY id LIMIT ?"""
        with self._use() as connection:
            rows: list[tuple[str, str]] = connection.execute(
                query, (after, space, limit)
            ).fetchall()
        return rows

    def match_text(self, text: str, only: Filter, limit: int) -> Candidates:
        terms = weigh_terms(text)
        candidates = Candidates()
        with self._use() as connection, connection:
            spaces = _read_spaces(connection, only.spaces)
            if terms and spaces:
                entries, scores = _score(connection, terms, spaces)
                numbers, bound = choose_entries(entries, scores, limit)
                candidates = Candidates(_read_keys(connection, numbers), bound, len(entries))
        return candidates

    def reading(self) -> AbstractContextManager[object]:
        with self._use():
            return nullcontext()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _refuse_foreign(connection: Any, path: str) -> None:
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
    if tables and connection.pragma("application_id") != APPLICATION_ID:
        raise Corrupt(f"{path!r} is not a file of fts5:, but of another program", "foreign_file")
    if connection.pragma("user_version") > VERSION:
        raise Unavailable(f"{path!r} was written by a newer knowloom", "newer_version")


def _remove(connection: Any, keys: Sequence[Key]) -> None:
    query = """SELECT entry.number, space, passages, length FROM entry WHERE id = ? AND
        space = (SELECT number FROM space WHERE name = ?)"""
    for name, id in keys:
        for number, space, passages, length in connection.execute(query, (id, name)).fetchall():
            first = number << PASSAGE_BITS
            connection.execute(
                "DELETE FROM word WHERE rowid BETWEEN ? AND ?", (first, first | WHOLE)
            )
            connection.execute("DELETE FROM entry WHERE number = ?", (number,))
            _count(connection, space, -1, -passages, -length)


def _count(connection: Any, space: int, items: int, passages: int, length: int) -> None:
    connection.execute(
        "UPDATE space SET items = items + ?, passages = passages + ?, length = length + ? "
        "WHERE number = ?",
        (items, passages, length, space),
    )


def _insert(connection: Any, entry: IndexEntry) -> None:
    item = entry.item
    terms = classify_terms(count_passage_terms(item, entry.passage_size))
    connection.execute(
        "INSERT OR IGNORE INTO space (name, items, passages, length) VALUES (?, 0, 0, 0)",
        (item.space,),
    )
    ((space,),) = connection.execute("SELECT number FROM space WHERE name = ?", (item.space,))
    row = (space, item.id, entry.version, len(terms.passages), terms.length)
    connection.execute(
        "INSERT INTO entry (space, id, version, passages, length) VALUES (?, ?, ?, ?, ?)", row
    )
    rows = [
        (number, _join(family, space, classes))
        for number, family, classes in list_rows(connection.last_insert_rowid(), terms)
    ]
    connection.executemany("INSERT INTO word (rowid, terms) VALUES (?, ?)", rows)
    _count(connection, space, 1, len(terms.passages), terms.length)


def _join(family: str, space: int, classes: Mapping[str, str]) -> str:
    return " ".join(_token(family, space, term, name) for term, name in classes.items())


def _token(family: str, space: int, term: str, name: str) -> str:
    """Return a token: no term has the separator, and all other characters belong to tokens."""
    return f"{family}{space}·{term}·{name}"


def _read_spaces(connection: Any, names: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return number, items, passages and length of each space that has items."""
    query = """SELECT number, items, passages, length FROM space
        WHERE items > 0 AND name IN (SELECT value FROM json_each(?))"""
    rows: list[tuple[int, int, int, int]] = connection.execute(
        query, (json.dumps(names),)
    ).fetchall()
    return rows


def _score(
    connection: Any, terms: TermWeights, spaces: Sequence[tuple[int, int, int, int]]
) -> tuple[Rows, Scores]:
    """Return the entries that share a term, and the bounds of their scores."""
    items, passages, length = (sum(space[column] for space in spaces) for column in (1, 2, 3))

    def read(family: str, names: Sequence[str], bounds: Mapping[str, float]) -> Postings:
        numbers = [space[0] for space in spaces]
        return {name: _read_rows(connection, family, numbers, name, bounds) for name in names}

    return score_entries(terms, items, passages, length, read)


def _read_rows(
    connection: Any,
    family: str,
    spaces: Sequence[int],
    term: str,
    bounds: Mapping[str, float],
) -> tuple[Rows, Scores]:
    """Return the rows of a term and the bound of its impact in each."""
    rows: list[int] = []
    impacts: list[float] = []
    for space in spaces:
        prefix = _token(family, space, term, "")
        for token, row in connection.execute(_POSTINGS, (prefix, f"{prefix}~")):
            rows.append(row)
            impacts.append(bounds[token[len(prefix) :]])
    return np.array(rows, np.int64), np.array(impacts)


def _read_keys(connection: Any, numbers: Sequence[int]) -> tuple[Key, ...]:
    query = """SELECT space.name, entry.id FROM json_each(?) JOIN entry ON entry.number = value
        JOIN space ON space.number = entry.space"""
    return tuple(connection.execute(query, (json.dumps(numbers),)).fetchall())
