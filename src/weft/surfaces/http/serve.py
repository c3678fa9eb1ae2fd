"""The process: uvicorn around the application of one knowledge file, from the first line it prints to a clean end."""

from __future__ import annotations

import ipaddress
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from weft.engine import Engine
from weft.errors import Invalid, Unavailable
from weft.surfaces.http import app, logs
from weft.surfaces.http.access import Keyring
from weft.surfaces.http.guard import LOOPBACK, Limits

GRACE_S = 30  # how long running requests may take to finish after a signal to stop


def serve(kb: Engine, host: str, port: int, keys: Path, *, workers: int, limits: Limits, say: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; then finish the running ones."""
    keyring = keyring_for(host, keys)
    logs.to_stderr()
    signal.signal(signal.SIGTERM, _stop)  # uvicorn hands the signal on when it has stopped
    signal.signal(signal.SIGINT, _stop)
    server = uvicorn.Server(
        uvicorn.Config(
            app.create(kb, keyring, limits, workers),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    for line in greeting(host, port, keyring):
        say(line)
    try:
        server.run()
    except SystemExit as error:
        if error.code:
            raise Unavailable(f"cannot listen on {_address(host, port)}: the log has the reason") from None


def keyring_for(host: str, keys: Path) -> Keyring | None:
    """The keys that are needed; None for an open server, which only this machine can reach. A file of keys always counts, also
    when every key in it was revoked: taking away the last key must not open the door."""
    keyring = Keyring(keys)
    if not is_loopback(host) and not keyring.active():
        raise Invalid(f"{host} can be reached from other machines, and there is no key in {str(keys)!r}: make one with `weft keys add`")
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
    at = f"http://{_address(host, port)}"
    lines = [f"weft serves at {at}", f"  documentation  {at}/docs", f"  health check   {at}/healthz"]
    if keyring is None:
        return [*lines, "warning: open: whoever is on this machine may read and write; `weft keys add` and a new start change that"]
    return [*lines, f"  keys           {len(keyring.active())} active, in {keyring.path}"]


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _stop(*_: object) -> None:
    raise SystemExit(0)
