"""The client's `history`: the calls of `Engine.history`, answered by a server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from knowloom import codec, validation
from knowloom.client.requests import encode_names, encode_time
from knowloom.client.transport import Transport
from knowloom.history import Rollback, State
from knowloom.model import Item
from knowloom.report import Report
from knowloom.wire.knowledge import (
    history_from_json,
    report_from_json,
    rollback_from_json,
)


class RemoteHistory:
    """Use it as `client.history`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def states(self, id: str, *, space: str | None = None, limit: int = 1000) -> list[State]:
        """Return every change of an item and of its edges, newest first, deletions included."""
        return self._transport.read(
            "/api/history",
            {"space": space, "id": validation.validate_name("id", id), "limit": limit},
            history_from_json,
        )

    def restore(
        self,
        id: str,
        *,
        space: str | None = None,
        at: datetime | None = None,
        version: str | None = None,
        edges_of: Sequence[str] | None = None,
        embed: bool = True,
    ) -> Report:
        """Restore an item with its edges; see `History.restore`.

        Without `edges_of`: edges of all spaces that the key may write.
        """
        owners = None if edges_of is None else encode_names("edges_of", edges_of)
        body = {
            "space": space,
            "id": validation.validate_name("id", id),
            "version": version,
            "edges_of": owners,
            "embed": embed,
        }
        return self._transport.write(
            "/api/restore", body | {"at": encode_time("at", at)}, report_from_json
        )

    def rollback(
        self,
        to: datetime,
        *,
        spaces: Sequence[str] | None = None,
        dry_run: bool = False,
        embed: bool = True,
    ) -> Rollback:
        """Return the spaces (None: all) to their state at a time; see `History.rollback`."""
        names = None if spaces is None else encode_names("spaces", spaces)
        return self._transport.write(
            "/api/rollback",
            {"to": encode_time("to", to), "spaces": names, "dry_run": dry_run, "embed": embed},
            rollback_from_json,
        )

    @staticmethod
    def version(item: Item) -> str:
        """Return the version of an item, as `expected` arguments take it."""
        return codec.version(item)
