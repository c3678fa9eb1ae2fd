"""The address of web pages to load, and the limits of their reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from knowloom.errors import Invalid

MAX_PAGES = 10_000


@dataclass(frozen=True, slots=True)
class WebPages:
    """Pages to load: those of a sitemap, else the page and those of its folder that it links to.

    Only pages of the same host are read, `delay_s` apart.
    """

    url: str
    max_pages: int = 50
    delay_s: float = 0.5
    timeout_s: float = 20.0
    max_mb: int = 10  # of one page
    depth: int = 1  # of links from the first page; 0 reads it alone
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f"url must begin with http:// or https://, got {self.url[:200]!r}")
        if not 1 <= self.max_pages <= MAX_PAGES:
            raise Invalid(f"max_pages must be from 1 to {MAX_PAGES:,}, got {self.max_pages!r}")
