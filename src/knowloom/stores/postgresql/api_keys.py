"""API keys in the schema: all server processes share them, and see each change at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from knowloom.stores.postgresql.address import parse_address
from knowloom.stores.postgresql.administration import WHOLE_STORE
from knowloom.stores.postgresql.pool import Pool, SnapshotBlock
from knowloom.stores.postgresql.writing.cleaning import log_action


class PostgresqlKeys:
    """Keys as JSON by id. Each call reads the table."""

    def __init__(self, url: str) -> None:
        self._pool = Pool(parse_address(url))

    @property
    def name(self) -> str:
        return self._pool.address.name

    def close(self) -> None:
        self._pool.close()

    def read(self, ids: Sequence[str] | None = None) -> dict[str, str]:
        where = "" if ids is None else "WHERE id = ANY(%s)"
        with SnapshotBlock(self._pool) as session:
            rows = session.fetch(
                f"SELECT id, data FROM api_key {where}", () if ids is None else (list(ids),)
            )
            return dict(rows)

    def put(self, id: str, data: str, at: datetime, actor: str, action: str) -> None:
        with self._pool.writing() as connection:
            connection.execute(
                """INSERT INTO api_key VALUES (%s, %s)
                ON CONFLICT (id) DO UPDATE SET data = excluded.data""",
                (id, data),
            )
            log_action(connection, WHOLE_STORE, at, id, action, actor)
