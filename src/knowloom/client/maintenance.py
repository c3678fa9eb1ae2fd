"""The client's `maintenance`: the calls of `Engine.maintenance` that a server answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlencode

from knowloom.client.requests import encode_ids, encode_names, encode_time
from knowloom.client.transport import Transport
from knowloom.maintenance import Statistics
from knowloom.operations.backups import Backup, RecordedBackup
from knowloom.operations.export import Exported, open_text
from knowloom.operations.purging import Purged
from knowloom.ports import AuditEntry, Progress
from knowloom.wire.knowledge import statistics_from_json
from knowloom.wire.upkeep import (
    audit_from_json,
    backup_from_json,
    backups_from_json,
    purged_from_json,
)


class RemoteMaintenance:
    """Use it as `client.maintenance`. A call may take long: see `timeout_s` of the client."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Embed items that have no vector; return their number."""
        names = None if spaces is None else encode_names("spaces", spaces)
        embedded = self._transport.write("/api/embed", {"spaces": names}, read_count)
        report_progress(progress, "vectors", embedded, embedded)
        return embedded

    def relink(self, progress: Progress | None = None) -> int:
        """Delete and rebuild the automatic edges of all spaces; return the items examined."""
        examined = self._transport.write("/api/relink", {}, read_count)
        report_progress(progress, "links", examined, examined)
        return examined

    def stats(self) -> Statistics:
        return self._transport.read("/api/stats", None, statistics_from_json)

    def export(self, to: str | Path | TextIO, *, spaces: Sequence[str] | None = None) -> Exported:
        """Write one state of the spaces (None: of all readable ones) as JSON Lines, locally."""
        names = self._readable_spaces() if spaces is None else encode_names("spaces", spaces)
        query = urlencode([("space", name) for name in names])
        text = self._transport.read_text(f"/api/export?{query}") if names else ""
        lines = text.split("\n")[:-1]  # `splitlines` would split at characters of the texts
        with open_text(to) as file:
            file.writelines(f"{line}\n" for line in lines)
        edges = sum(line.startswith('{"source":') for line in lines)
        return Exported(len(lines) - edges, edges)

    def _readable_spaces(self) -> list[str]:
        return self._transport.read(
            "/api/spaces", None, lambda row: [space["name"] for space in row["spaces"]]
        )

    def backup(self, *, keep: int | None = None) -> Backup:
        """Write a verified backup beside the knowledge of the server; see `Maintenance.backup`."""
        return self._transport.write("/api/backup", {"keep": keep}, backup_from_json)

    def backups(self) -> list[RecordedBackup]:
        """Return the backups of the server, oldest first."""
        return self._transport.read("/api/backups", None, backups_from_json)

    def purge(self, ids: str | Sequence[str], *, space: str | None = None) -> Purged:
        """Erase items for good; see `Maintenance.purge`."""
        body = {"ids": encode_ids(ids), "space": space}
        return self._transport.write("/api/purge", body, purged_from_json)

    def retention(self) -> dict[str, int]:
        """Return the days that the history of each limited space is kept."""
        return self._transport.read("/api/retention", None, lambda row: dict(row["retention"]))

    def set_retention(self, space: str | None, days: int | None) -> int:
        """Limit the history of a space; return the number of states that were erased."""
        body = {"space": space, "days": days}
        return self._transport.write("/api/retention", body, lambda row: int(row["erased"]))

    def audit(
        self,
        spaces: Sequence[str] = (),
        *,
        id: str = "",
        actor: str = "",
        actions: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[AuditEntry]:
        """Return who did what to which item and when, the newest first."""
        values: list[tuple[str, object]] = [
            *(("space", name) for name in encode_names("spaces", spaces)),
            *(("action", name) for name in encode_names("actions", actions)),
            *(("id", id), ("actor", actor), ("limit", limit), ("before", before)),
            *(("since", encode_time("since", since)), ("until", encode_time("until", until))),
        ]
        query = urlencode([(name, value) for name, value in values if value not in (None, "")])
        return self._transport.read(f"/api/audit?{query}", None, audit_from_json)


def report_progress(progress: Progress | None, step: str, done: int, total: int) -> None:
    if progress is not None:
        progress(step, done, total)


def read_count(row: dict[str, Any]) -> int:
    return int(next(row[name] for name in ("deleted", "vectors", "items") if name in row))
