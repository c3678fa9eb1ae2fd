"""The data of Redis servers of tests."""

from __future__ import annotations

from servers.redis import Redis, send


def empty(*servers: Redis) -> None:
    """Delete all keys."""
    for server in servers:
        answer = send(server.port, "FLUSHALL")
        assert answer == "+OK", answer
