"""Parts that our HTTP clients share: retries with backoff, TLS certificates, keys in headers."""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

from knowloom.caching import cached
from knowloom.errors import Invalid, Unavailable

log = logging.getLogger(__name__)

MAX_BACKOFF_S = 60.0

T = TypeVar("T")


class TransientError(Unavailable):
    """A failure worth retrying, unless `is_final`. `summary` is the part of it that is logged."""

    def __init__(
        self,
        message: str,
        code: str = "",
        *,
        retry_after_s: float = 0.0,
        is_final: bool = False,
        summary: str = "",
    ) -> None:
        super().__init__(message, code)
        self.retry_after_s = retry_after_s
        self.is_final = is_final
        self.summary = summary or message


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries and the waits before them: `first_wait_s`, doubled each time.

    A server that asks for a longer wait than `timeout_s` is not retried.
    """

    max_retries: int
    first_wait_s: float
    timeout_s: float

    def run(self, attempt: Callable[[], T], sleep: Callable[[float], object] = time.sleep) -> T:
        """Return the first result; raise the TransientError of the last attempt."""
        for number in range(self.max_retries + 1):
            try:
                return attempt()
            except TransientError as error:
                has_time = error.retry_after_s <= self.timeout_s
                if number == self.max_retries or error.is_final or not has_time:
                    raise
                backoff_s = min(self.first_wait_s * 2**number, MAX_BACKOFF_S)
                wait_s = max(error.retry_after_s, backoff_s)
                counts = (number + 1, self.max_retries, wait_s)
                log.warning("%s; retry %d of %d in %.1f s", error.summary, *counts)
                sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")


def retry_after_s(response: httpx.Response) -> float:
    """Return the Retry-After header in seconds; 0 if it is absent or a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else 0.0


def validate_key(name: str, key: str) -> str:
    """Return the key without surrounding blanks; an invalid one is not quoted in the error.

    The HTTP client would quote it.
    """
    if not re.fullmatch(r"[!-~]*", key.strip()):
        raise Invalid(f"{name} must not contain spaces, line breaks or non-ASCII characters")
    return key.strip()


@cached("TLS certificates", 1)
def ssl_context() -> ssl.SSLContext:
    """Return the context of all clients: loading the certificates takes 30 ms."""
    return httpx.create_ssl_context()
