"""Headers that keep browsers from framing pages, guessing types and running foreign scripts."""

from __future__ import annotations

import base64
import hashlib
import re

RawHeaders = list[tuple[bytes, bytes]]

# For every response; a page may set a policy of its own.
COMMON: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.S)


def add_headers(headers: RawHeaders, request_id: str) -> RawHeaders:
    """Return the headers of a response with the id of the request and the common ones."""
    present = {name.lower() for name, _ in headers}
    common = [(name, value) for name, value in COMMON if name not in present]
    return [*headers, (b"x-request-id", request_id.encode()), *common]


def content_policy(html: str) -> str:
    """Return a policy that admits scripts and styles of this server, and the page's own scripts.

    The documentation page sets styles from its scripts, which only 'unsafe-inline' admits.
    """
    hashes = [
        "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
        for script in _INLINE_SCRIPT.findall(html)
    ]
    directives = {
        "default-src": "'none'",
        "script-src": " ".join(["'self'", *hashes]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())
