"""What is asked of a weft file."""

from __future__ import annotations

from weft.stores.sqlite.store import SqliteStore


def statements(store: SqliteStore) -> list[str]:
    """Every statement that the store's reader runs from now on."""
    seen: list[str] = []
    with store.reading() as reader:
        reader.connection.exec_trace = lambda _, sql, __: seen.append(sql) is None
    return seen
