"""A log of the SQL statements of a store."""

from __future__ import annotations

from knowloom.stores.sqlite.store import SqliteStore


def statements(store: SqliteStore) -> list[str]:
    """Return a list that grows by each statement that the store's reader runs from now on."""
    executed: list[str] = []
    with store.reading() as reader:
        reader.connection.exec_trace = lambda _, sql, __: executed.append(sql) is None
    return executed
