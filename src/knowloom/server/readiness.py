"""The check that a server which was started answers requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException

from knowloom.errors import Unavailable
from knowloom.server.settings import format_address

START_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 1.0  # of one request; a process that hangs is asked again
RETRY_S = 0.02
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def wait_until_ready(
    host: str, port: int, is_started: Callable[[], bool], timeout_s: float = START_TIMEOUT_S
) -> None:
    """Return as soon as `GET /readyz` is answered with 200.

    Raises Unavailable after the timeout. `is_started` is called before each request, and may raise
    to end the wait; no request is sent while it returns False.
    """
    deadline, reason = time.monotonic() + timeout_s, "not started"
    while True:
        if is_started():
            reason = probe(host, port)
            if not reason:
                return
        if time.monotonic() >= deadline:
            address = format_address(host, port)
            raise Unavailable(
                f"the server at {address} did not answer GET /readyz within {timeout_s:g} s: "
                f"{reason}"
            )
        time.sleep(RETRY_S)


def probe(host: str, port: int) -> str:
    """Return why the server is not ready; "" if it is."""
    connection = HTTPConnection(ANY_ADDRESS.get(host, host), port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Connection": "close"})
        response = connection.getresponse()
        body = response.read(1000).decode(errors="replace")
    except (OSError, HTTPException) as error:
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    finally:
        connection.close()
    return "" if response.status == 200 else f"status {response.status}: {body}"
