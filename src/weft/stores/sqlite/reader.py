"""A connection for reading, and what it remembers of each space from one transaction to the next."""

from __future__ import annotations

from collections.abc import Sequence

from weft.stores.sqlite.file import connect
from weft.stores.sqlite.view import View


class Reader:
    """A connection and what it remembers of the spaces. One thread uses it at a time."""

    def __init__(self, path: str) -> None:
        self.connection = connect(path)
        self._views: dict[str, View] = {}
        self._current: dict[str, View | None] = {}  # those that are up to date in this transaction; None for spaces that do not exist

    def begin(self) -> None:
        self.connection.execute("BEGIN")
        self._current.clear()

    def views(self, names: Sequence[str]) -> dict[str, View]:
        """The asked spaces that exist, each once, as they are in this transaction."""
        views = {name: self._current[name] if name in self._current else self._refreshed(name) for name in dict.fromkeys(names)}
        return {name: view for name, view in views.items() if view is not None}

    def _refreshed(self, name: str) -> View | None:
        if name not in self._views:
            rows = list(self.connection.execute("SELECT no FROM space WHERE name = ?", (name,)))
            if rows:
                self._views[name] = View(rows[0][0])
        view = self._views.get(name)
        if view is not None:
            view.refresh(self.connection)
        self._current[name] = view
        return view
