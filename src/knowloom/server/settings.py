"""Who may come in from where, and what the service says of itself when it starts. Light: a process that only starts others needs it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knowloom.errors import Invalid
from knowloom.server.auth import Keyring

GRACE_S = 30  # how long running requests may take to finish after a signal to stop
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # of prometheus_client: where several processes add up what they counted
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server accepts."""

    max_body: int = 20_000_000
    requests_per_minute: int = 6000  # of one key; 0 for no limit
    hosts: tuple[str, ...] = LOOPBACK  # names the server answers to; "*" for any
    body_timeout_s: float = (
        60  # how long the headers, and then the body of a request may take to arrive
    )


def keyring_for(host: str, keys: Path) -> Keyring | None:
    """The keys that are needed; None for an open server, which only this machine can reach. A file of keys always counts, also
    when every key in it was revoked: taking away the last key must not open the door."""
    keyring = Keyring(keys)
    if not is_loopback(host) and not keyring.active():
        raise Invalid(
            f"{host} can be reached from other machines, and there is no key in {str(keys)!r}: make one with `knowloom keys add`"
        )
    return keyring if keys.exists() else None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """The names the server answers to."""
    return tuple(dict.fromkeys([*LOOPBACK, host.lower(), *(name.lower() for name in allowed)]))


def greeting(host: str, port: int, keyring: Keyring | None) -> list[str]:
    at = f"http://{address(host, port)}"
    lines = [
        f"knowloom serves at {at}",
        f"  documentation  {at}/docs",
        f"  health check   {at}/healthz",
    ]
    if keyring is None:
        return [
            *lines,
            "warning: open: whoever is on this machine may read and write; `knowloom keys add` and a new start change that",
        ]
    return [*lines, f"  keys           {len(keyring.active())} active, in {keyring.path}"]


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
