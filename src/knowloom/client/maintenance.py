"""The client's `maintenance`: the calls of `Engine.maintenance` that a server answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowloom.client.requests import encode_names
from knowloom.client.transport import Transport
from knowloom.maintenance import Statistics
from knowloom.ports import Progress
from knowloom.wire.knowledge import statistics_from_json


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


def report_progress(progress: Progress | None, step: str, done: int, total: int) -> None:
    if progress is not None:
        progress(step, done, total)


def read_count(row: dict[str, Any]) -> int:
    return int(next(row[name] for name in ("deleted", "vectors", "items") if name in row))
