"""Web pages by address or sitemap, read only on request, within limits and as robots.txt allows."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import httpx

from knowloom.errors import Invalid
from knowloom.loading import document_reader
from knowloom.loading.document_links import LinkTable
from knowloom.loading.file_formats import FileFormat, formats_by_suffix
from knowloom.loading.source_rows import SourcePart, SourceRow
from knowloom.loading.sources.web_source import MAX_PAGES, WebPages
from knowloom.outbound_http import ssl_context
from knowloom.report import Skipped

USER_AGENT = "knowloom"
MAX_SITEMAPS = 20
MAX_REDIRECTS = 5
_LOCATION = re.compile(rb"<loc>\s*(?:<!\[CDATA\[)?\s*([^<\]\s]+)\s*(?:\]\]>)?\s*</loc>", re.I)
_TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "application/pdf": ".pdf",
}


def build_part(pages: WebPages, space: str | None, links: LinkTable) -> SourcePart:
    """Return the pages as one part; they are fetched when its rows are read."""
    crawl = _Crawl(pages, space or urlsplit(pages.url).hostname or "web", links)
    return SourcePart(pages.url, crawl.read, "web pages", 1)


class _Crawl:
    """One visit of a host."""

    def __init__(self, pages: WebPages, space: str, links: LinkTable) -> None:
        self._pages, self._space, self._links = pages, space, links
        self._origin = _origin(pages.url)
        self._robots = RobotFileParser()
        self._requests = 0

    def read(self) -> Iterator[SourceRow | Skipped]:
        """Yield the rows of the pages, first those nearest to the address."""
        limits = httpx.Timeout(self._pages.timeout_s)
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"}
        with httpx.Client(timeout=limits, headers=headers, verify=ssl_context()) as client:
            try:
                self._read_robots(client)
                waiting = self._first_pages(client)
            except (Invalid, httpx.HTTPError, httpx.InvalidURL) as error:
                yield Skipped(self._pages.url, "the whole site", _describe(error))
                return
            yield from self._visit(client, waiting)

    def _visit(
        self, client: httpx.Client, waiting: deque[tuple[str, int]]
    ) -> Iterator[SourceRow | Skipped]:
        seen = {url.rstrip("/") for url, _ in waiting}
        done = 0
        while waiting:
            url, depth = waiting.popleft()
            if done == self._pages.max_pages:
                count = len(waiting) + 1
                reason = f"max_pages is {self._pages.max_pages}"
                yield Skipped(self._pages.url, f"{count} other pages", reason)
                return
            done += 1
            try:
                name, raw, format = self._fetch_page(client, url)
                yield from document_reader.parse_rows(
                    raw, name, name, self._space, format, self._links
                )
            except (Invalid, httpx.HTTPError, httpx.InvalidURL) as error:
                yield Skipped(url, "the whole page", _describe(error))
                continue
            if depth < self._pages.depth:
                for target in self._links.targets_of(name):
                    link = _normalise(urljoin(name, target))
                    if link.rstrip("/") not in seen and self._is_below(link):
                        seen.add(link.rstrip("/"))
                        waiting.append((link, depth + 1))

    def _first_pages(self, client: httpx.Client) -> deque[tuple[str, int]]:
        if not urlsplit(self._pages.url).path.endswith((".xml", ".xml.gz")):
            return deque([(_normalise(self._pages.url), 0)])
        pages: dict[str, None] = {}
        sitemaps = [self._pages.url]
        for number, url in enumerate(sitemaps):
            if number == MAX_SITEMAPS or len(pages) > MAX_PAGES:
                break
            raw = self._get(client, url)[1]
            for location in _LOCATION.findall(raw):
                link = unescape(location.decode(errors="replace"))
                if _origin(link) != self._origin:
                    continue
                if urlsplit(link).path.endswith((".xml", ".xml.gz")):
                    sitemaps.append(link)
                else:
                    pages[_normalise(link)] = None
        if not pages:
            raise Invalid(f"no pages of {self._origin} in the sitemap")
        return deque((url, self._pages.depth) for url in pages)

    def _read_robots(self, client: httpx.Client) -> None:
        """Read robots.txt; without one everything is allowed, and nothing if it is refused."""
        response = client.get(f"{self._origin}/robots.txt", follow_redirects=True)
        if response.status_code in (401, 403) or response.status_code >= 500:
            raise Invalid(f"robots.txt answers with status {response.status_code}")
        lines = response.text[:500_000].splitlines() if response.is_success else []
        self._robots.parse(lines)

    def _fetch_page(self, client: httpx.Client, url: str) -> tuple[str, bytes, FileFormat]:
        if not self._robots.can_fetch(USER_AGENT, url):
            raise Invalid("robots.txt does not allow it")
        name, raw, type = self._get(client, url)
        suffix = _TYPES.get(type)
        if suffix is None:
            raise Invalid(f"must be one of {', '.join(sorted(_TYPES))}, got {type or 'no type'}")
        return _normalise(name), raw, formats_by_suffix()[suffix]

    def _get(self, client: httpx.Client, url: str) -> tuple[str, bytes, str]:
        """Return the address after redirects, the bytes and the type; other hosts are refused."""
        for _ in range(MAX_REDIRECTS):
            if self._requests:
                self._pages.sleep(self._pages.delay_s)
            self._requests += 1
            with client.stream("GET", url) as response:
                if response.next_request is not None:
                    url = str(response.next_request.url)
                    if _origin(url) != self._origin:
                        raise Invalid(f"redirects to another host: {_origin(url)}")
                    continue
                if not response.is_success:
                    raise Invalid(f"status {response.status_code}")
                type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                return url, self._read_body(response, url), type
        raise Invalid(f"more than {MAX_REDIRECTS} redirects")

    def _read_body(self, response: httpx.Response, url: str) -> bytes:
        """Return the body; its size is bounded after it is unpacked."""
        limit = self._pages.max_mb * 1_000_000
        parts, size = [], 0
        for part in response.iter_bytes(65_536):
            size += len(part)
            if size > limit:
                raise Invalid(f"must have <= {limit:,} bytes")
            parts.append(part)
        raw = b"".join(parts)
        if urlsplit(url).path.endswith(".gz") and raw.startswith(b"\x1f\x8b"):
            unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
            raw = unpack.decompress(raw, limit)
        return raw

    def _is_below(self, url: str) -> bool:
        """Return True for pages of the same host, in the folder of the first page."""
        folder = urlsplit(self._pages.url).path.rpartition("/")[0]
        path = urlsplit(url).path
        return _origin(url) == self._origin and path.startswith(f"{folder}/")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _normalise(url: str) -> str:
    """Return the address without its fragment."""
    return urldefrag(url).url


def _describe(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if isinstance(error, Invalid) else f"cannot be read: {text}"
