"""Limits of the server, the hosts it answers to, and the messages it prints at startup.

Imports little: the process that only supervises the others needs it too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from knowloom.errors import Invalid
from knowloom.files import KEYS_SUFFIX
from knowloom.server.auth import Keyring

GRACE_S = 30  # for running requests to finish after a signal to stop
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the environment variable of prometheus_client
ANY_ORIGIN = "*"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of the requests that the server accepts, and what it needs to serve them."""

    max_body: int = 20_000_000  # bytes
    requests_per_minute: int = 6000  # per key; 0 for no limit
    # A Redis in which several servers count requests; "": each server counts its own.
    rate_limits: str = field(default="", repr=False)
    hosts: tuple[str, ...] = LOOPBACK  # accepted host names; "*" for any
    concurrent_requests: int = 64  # per key and process, running or waiting; 0 for no limit
    query_timeout_s: float = 60  # of a query, which ends at its next step then; 0 for none
    body_timeout_s: float = 60  # for the headers, and then for the body, to arrive
    analytics: str = ""  # a file with statistics of memory requests; "" for none
    analytics_text: bool = False  # True: store the queries too
    llm: str = ""  # the language model of /api/ingest, such as "openai:MODEL@URL"; "" for none
    llm_api_key: str = field(default="", repr=False)
    llm_timeout_s: float = 120  # of one answer
    cors_origins: str = ""  # whose pages may call the server, by commas; "*" for any, "" for none

    def __post_init__(self) -> None:
        parse_origins(self.cors_origins)


def load_keyring(host: str, keys: Path | str) -> Keyring | None:
    """Return the keyring, or None for an open server, which only local processes can reach.

    `keys` is a file, or the URL of a store that has them. The first key that is added to a file
    closes a running server. Keys count even if all are revoked: revoking the last one must not
    open the server.
    """
    with ExitStack() as stack:
        is_file = isinstance(keys, Path)
        keyring = stack.enter_context(closing(Keyring(keys, open_until_added=is_file)))
        if not is_loopback(host) and not keyring.active():
            raise Invalid(
                f"{host} is reachable from other machines and {keyring.name!r} has no active key; "
                'run "knowloom keys add"'
            )
        if is_file or keyring.exists():
            stack.pop_all()
            return keyring
    return None


def jobs_folder(keys: Path | str) -> Path:
    """Return the folder of jobs: beside the file of the keys, else in the working directory."""
    name = keys.name if isinstance(keys, Path) else f"knowloom{KEYS_SUFFIX}"
    folder = keys.parent if isinstance(keys, Path) else Path()
    return folder / f"{name.removesuffix(KEYS_SUFFIX)}.jobs"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def accepted_hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the host names the server answers to."""
    return tuple(dict.fromkeys([*LOOPBACK, host.lower(), *(name.lower() for name in allowed)]))


def startup_lines(host: str, port: int, keys: Path | str) -> list[str]:
    """Return the lines printed when the server starts; raise Invalid if it needs a key first."""
    keyring = load_keyring(host, keys)
    url = f"http://{format_address(host, port)}"
    lines = [
        f"knowloom serves at {url}",
        f"  console        {url}/",
        f"  documentation  {url}/docs",
        f"  health check   {url}/healthz",
    ]
    if keyring is None or keyring.is_open():
        remedy = 'run "knowloom keys add"' + (" and restart" if keyring is None else "")
        warning = "warning: no API keys: any local process can read and write; "
        return [*lines, warning + remedy]
    with closing(keyring):
        return [*lines, f"  keys           {len(keyring.active())} active, in {keyring.name}"]


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_origins(text: str) -> tuple[str, ...]:
    """Return the origins of the setting `cors_origins`, which are separated by commas."""
    origins = [origin.strip().lower() for origin in text.split(",") if origin.strip()]
    for origin in origins:
        if origin != ANY_ORIGIN and not _is_origin(origin):
            example = "such as https://app.example.com, or *"
            raise Invalid(f"cors_origins must be origins {example}, got {origin!r}")
    return tuple(dict.fromkeys(origins))


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    rest: Sequence[str | None] = (parts.path, parts.query, parts.fragment, parts.username)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not any(rest)
