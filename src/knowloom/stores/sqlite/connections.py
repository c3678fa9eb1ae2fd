"""Read connections, their caches, and the pool they come from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from os import getpid
from threading import Lock, local
from types import TracebackType
from typing import Any, TypeVar

import apsw

from knowloom.errors import Corrupt, Unavailable
from knowloom.stores.sqlite.damage.derived import DECODING_ERRORS, damaged_index
from knowloom.stores.sqlite.database import (
    READER_CACHE_KB,
    close_connection,
    connect,
    translate_errors,
)
from knowloom.stores.sqlite.edges import EdgeCache
from knowloom.stores.sqlite.space_view import SpaceView

T = TypeVar("T")

MAX_CACHED_RESULTS = 64  # results of small queries per connection


class ReadConnection:
    """A connection with caches that stay valid until another connection writes.

    One thread uses it at a time.
    """

    def __init__(self, path: str) -> None:
        self.connection = connect(path, READER_CACHE_KB)
        self.edges = EdgeCache()
        self._views: dict[str, SpaceView] = {}
        self._data_version = -1
        self.is_broken = False  # a statement failed: unfinished ones would hold an old state
        self._has_damage = False  # a view is incomplete, and read again by the next transaction
        # Views that are up to date; None for spaces that do not exist.
        self._current: dict[str, SpaceView | None] = {}
        self._results: dict[Hashable, Any] = {}

    def begin(self) -> None:
        """Begin a read transaction; drop cached results if the file has changed."""
        self.connection.execute("BEGIN")
        # Reading this is what starts the transaction.
        ((data_version,),) = self.connection.execute("PRAGMA data_version")
        if data_version != self._data_version or self._has_damage:
            self._current.clear()
            self._results.clear()
            self.edges.clear()
            self._data_version = data_version
            self._has_damage = False

    def cached(self, name: Hashable, read: Callable[[apsw.Connection], T]) -> T:
        """Return the result of `read`, cached under this name until the file changes."""
        if name not in self._results:
            if len(self._results) >= MAX_CACHED_RESULTS:
                self._results.clear()
            self._results[name] = read(self.connection)
        result: T = self._results[name]
        return result

    def views(self, names: Sequence[str]) -> dict[str, SpaceView]:
        """Return up-to-date views of the named spaces that exist, each once."""
        views = {
            name: self._current[name] if name in self._current else self._refresh(name)
            for name in dict.fromkeys(names)
        }
        return {name: view for name, view in views.items() if view is not None}

    def _refresh(self, name: str) -> SpaceView | None:
        if name not in self._views:
            rows = list(self.connection.execute("SELECT no FROM space WHERE name = ?", (name,)))
            if rows:
                self._views[name] = SpaceView(rows[0][0])
        view = self._views.get(name)
        if view is not None:
            view.refresh(self.connection)
            self._has_damage |= bool(view.damage)
        self._current[name] = view
        return view


def check_process(path: str, process: int) -> None:
    """Raise Unavailable in a process that was forked from the one with this id.

    It shares the locks of SQLite's connections with its parent, which could damage the file.
    """
    if getpid() != process:
        raise Unavailable(
            f"{path!r} was opened before this process was forked: open it again here", "forked"
        )


class ReadPool:
    """Read connections to one file: as many as threads have read at the same time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.thread = local()  # `thread.reader`: the connection that this thread is using
        self._idle: list[ReadConnection] = [ReadConnection(path)]
        self._lock = Lock()
        self._closed = False
        self._process = getpid()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for reader in self._idle:
                close_connection(reader.connection, self.path)
            self._idle.clear()

    def acquire(self) -> ReadConnection:
        check_process(self.path, self._process)
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self.path!r} was closed", "closed")
            if self._idle:
                return self._idle.pop()  # the last used has the warmest caches
        return ReadConnection(self.path)

    def release(self, reader: ReadConnection) -> None:
        if reader.connection.in_transaction:
            reader.connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed and not reader.is_broken:
                self._idle.append(reader)
                return
        reader.connection.close(True)


class ReadTransaction:
    """A context manager: one transaction for all reads of a block; nested blocks join it.

    A class, since a generator takes four times as long and a request reads thirty times.
    """

    __slots__ = ("_nested", "_pool")

    def __init__(self, pool: ReadPool) -> None:
        self._pool = pool

    def __enter__(self) -> ReadConnection:
        pool = self._pool
        current: ReadConnection | None = getattr(pool.thread, "reader", None)
        self._nested = current is not None
        if current is not None:
            return current
        reader = pool.acquire()
        try:
            with translate_errors(pool.path):
                reader.begin()
        except BaseException:
            pool.release(reader)
            raise
        pool.thread.reader = reader
        return reader

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool = self._pool
        if isinstance(error, (apsw.Error, Corrupt, *DECODING_ERRORS)):
            pool.thread.reader.is_broken = True
        if not self._nested:
            reader, pool.thread.reader = pool.thread.reader, None
            pool.release(reader)
        if isinstance(error, (apsw.Error, UnicodeDecodeError)):
            with translate_errors(pool.path):
                raise error


class IndexTransaction(ReadTransaction):
    """A read of derived data. Whatever fails to decode there is an error of this layer."""

    __slots__ = ("_layer",)

    def __init__(self, pool: ReadPool, layer: str) -> None:
        super().__init__(pool)
        self._layer = layer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            super().__exit__(kind, error, trace)
            return
        try:
            super().__exit__(kind, error, trace)
            if isinstance(error, DECODING_ERRORS):
                raise damaged_index(f"the index of {self._pool.path!r}", error) from error
            if isinstance(error, Corrupt):
                error.layer = self._layer
        except Corrupt as translated:
            translated.layer = self._layer
            raise
