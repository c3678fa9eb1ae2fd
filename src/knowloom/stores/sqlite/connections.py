"""Connections for reading, and what each remembers of the spaces from one transaction to the next."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock, local
from types import TracebackType
from typing import Any, TypeVar

import apsw

from knowloom.errors import Unavailable
from knowloom.stores.sqlite.edges import EdgeCache
from knowloom.stores.sqlite.schema import READER_CACHE_KB, connect, translate_errors
from knowloom.stores.sqlite.space_view import SpaceView

T = TypeVar("T")

MAX_CACHED_RESULTS = 64  # answers to small questions that a reader remembers


class ReadConnection:
    """A connection and what it remembers of the spaces. One thread uses it at a time."""

    def __init__(self, path: str) -> None:
        self.connection = connect(path, READER_CACHE_KB)
        self.links = EdgeCache()
        self._views: dict[str, SpaceView] = {}
        self._state = -1
        self._current: dict[
            str, SpaceView | None
        ] = {}  # those that are up to date; None for spaces that do not exist
        self._known: dict[Hashable, Any] = {}

    def begin(self) -> None:
        """What was read in earlier transactions stays true until another connection has written, which the file tells in one number."""
        self.connection.execute("BEGIN")
        ((state,),) = self.connection.execute(
            "PRAGMA data_version"
        )  # this is what opens the transaction
        if state != self._state:
            self._current.clear()
            self._known.clear()
            self.links.forget()
            self._state = state

    def known(self, name: Hashable, read: Callable[[apsw.Connection], T]) -> T:
        """What `read` finds in the file: read once, under this name, until something is written."""
        if name not in self._known:
            if len(self._known) >= MAX_CACHED_RESULTS:
                self._known.clear()
            self._known[name] = read(self.connection)
        found: T = self._known[name]
        return found

    def views(self, names: Sequence[str]) -> dict[str, SpaceView]:
        """The asked spaces that exist, each once, as they are now."""
        views = {
            name: self._current[name] if name in self._current else self._refreshed(name)
            for name in dict.fromkeys(names)
        }
        return {name: view for name, view in views.items() if view is not None}

    def _refreshed(self, name: str) -> SpaceView | None:
        if name not in self._views:
            rows = list(self.connection.execute("SELECT no FROM space WHERE name = ?", (name,)))
            if rows:
                self._views[name] = SpaceView(rows[0][0])
        view = self._views.get(name)
        if view is not None:
            view.refresh(self.connection)
        self._current[name] = view
        return view


class ReadPool:
    """The readers of a file: as many as threads were reading at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.mine = local()  # the reader this thread is inside of, if any
        self._idle: list[ReadConnection] = [ReadConnection(path)]
        self._lock = Lock()
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for reader in self._idle:
                reader.connection.close()
            self._idle.clear()

    def borrow(self) -> ReadConnection:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self.path!r} was closed", "closed")
            if self._idle:
                return self._idle.pop()  # the one used last: it remembers most
        return ReadConnection(self.path)

    def give_back(self, reader: ReadConnection) -> None:
        if reader.connection.in_transaction:
            reader.connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed:
                self._idle.append(reader)
                return
        reader.connection.close()


class ReadTransaction:
    """One transaction for all reads of a block; a block inside a block joins it. A class, as a generator takes four times as long, and a request
    reads thirty times."""

    __slots__ = ("_joined", "_readers")

    def __init__(self, readers: ReadPool) -> None:
        self._readers = readers

    def __enter__(self) -> ReadConnection:
        readers = self._readers
        found: ReadConnection | None = getattr(readers.mine, "reader", None)
        self._joined = found is not None
        if found is not None:
            return found
        reader = readers.borrow()
        try:
            with translate_errors(readers.path):
                reader.begin()
        except BaseException:
            readers.give_back(reader)
            raise
        readers.mine.reader = reader
        return reader

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        readers = self._readers
        if not self._joined:
            reader, readers.mine.reader = readers.mine.reader, None
            readers.give_back(reader)
        if isinstance(error, (apsw.Error, UnicodeDecodeError)):
            with translate_errors(readers.path):
                raise error
