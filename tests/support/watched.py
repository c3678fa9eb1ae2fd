"""What is asked of a knowloom file."""

from __future__ import annotations

from knowloom.stores.sqlite.store import SqliteStore


def statements(store: SqliteStore) -> list[str]:
    """Every statement that the store's reader runs from now on."""
    seen: list[str] = []
    with store.reading() as reader:
        reader.connection.exec_trace = lambda _, sql, __: seen.append(sql) is None
    return seen
