"""Web pages: only on request, within limits, as robots.txt allows."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from loads import counts, ids, reasons

import knowloom
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.loading.sources.web_source import WebPages

Pages = dict[str, tuple[int, dict[str, str], bytes]]


def html(text: str) -> tuple[int, dict[str, str], bytes]:
    return (200, {"Content-Type": "text/html; charset=utf-8"}, text.encode())


class Site:
    """A server of pages that notes what was asked for."""

    def __init__(self) -> None:
        self.pages: Pages = {}
        self.requests: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append(self.path)
                status, headers, body = site.pages.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


def pages(url: str, **limits: Any) -> WebPages:
    return WebPages(url, delay_s=0, **limits)


class TestPages:
    def test_a_page_and_those_it_links_to_are_linked_items(self, kb: Engine, site: Site) -> None:
        site.pages = {
            "/docs/": html(
                '<h1>Docs</h1><a href="a.html">A</a> <a href="/other">other</a>'
                '<a href="https://example.com/">out</a>'
            ),
            "/docs/a.html": html('<h1>A</h1><p>Text. <a href="./">up</a> <a href="b.html">b</a>'),
        }
        report = kb.load(pages(f"{site.url}/docs/"), space="s")
        assert (report.skipped, ids(kb)) == ((), [f"{site.url}/docs/", f"{site.url}/docs/a.html"])
        assert site.requests == ["/robots.txt", "/docs/", "/docs/a.html"]
        assert {(edge.source, edge.target) for edge in kb.edges() if edge.type == "links"} == {
            (f"{site.url}/docs/", f"{site.url}/docs/a.html"),
            (f"{site.url}/docs/a.html", f"{site.url}/docs/"),
        }
        assert counts(kb.load(pages(f"{site.url}/docs/"), space="s")) == (0, 0, 2, 0)

    def test_the_pages_of_a_sitemap_are_read(self, kb: Engine, site: Site) -> None:
        maps = f"<loc>{site.url}/more.xml.gz</loc><loc> {site.url}/a </loc>"
        more = f"<urlset><loc>{site.url}/b?x=1&amp;y=2</loc><loc>http://other.example/c</loc>"
        site.pages = {
            "/sitemap.xml": (200, {"Content-Type": "text/xml"}, maps.encode()),
            "/more.xml.gz": (200, {}, gzip.compress(more.encode())),
            "/a": html("<p>a"),
            "/b?x=1&y=2": html("<p>b"),
        }
        kb.load(pages(f"{site.url}/sitemap.xml"), space="s")
        assert ids(kb) == [f"{site.url}/a", f"{site.url}/b?x=1&y=2"]

    def test_robots_txt_is_obeyed(self, kb: Engine, site: Site) -> None:
        robots = b"User-agent: *\nDisallow: /private\n"
        site.pages = {
            "/robots.txt": (200, {"Content-Type": "text/plain"}, robots),
            "/": html('<p>x <a href="/private/a">a</a>'),
            "/private/a": html("<p>secret"),
        }
        report = kb.load(pages(f"{site.url}/"), space="s")
        assert reasons(report) == ["robots.txt does not allow it"]
        assert "/private/a" not in site.requests

    def test_a_site_whose_robots_txt_is_refused_is_not_read(self, kb: Engine, site: Site) -> None:
        site.pages = {"/robots.txt": (503, {}, b""), "/": html("<p>x")}
        assert reasons(kb.load(pages(f"{site.url}/"), space="s")) == [
            "robots.txt answers with status 503"
        ]
        assert site.requests == ["/robots.txt"]


class TestLimits:
    def test_the_number_of_pages_is_bounded(self, kb: Engine, site: Site) -> None:
        links = "".join(f'<a href="/{number}">n</a>' for number in range(10))
        site.pages = {"/": html(f"<p>x{links}"), **{f"/{n}": html("<p>y") for n in range(10)}}
        report = kb.load(pages(f"{site.url}/", max_pages=3), space="s")
        assert (len(ids(kb)), reasons(report)) == (3, ["max_pages is 3"])

    @pytest.mark.parametrize(
        ("page", "reason"),
        [
            ((404, {}, b""), "status 404"),
            ((302, {"Location": "http://other.example/"}, b""), "redirects to another host"),
            ((302, {"Location": "/"}, b""), "more than 5 redirects"),
            ((200, {"Content-Type": "image/png"}, b"x"), "must be one of"),
            ((200, {"Content-Type": "text/html"}, b"<p>" + b"x" * 1_000_001), "must have <= 1,000"),
            (
                (
                    200,
                    {"Content-Type": "text/html", "Content-Encoding": "gzip"},
                    gzip.compress(b"x" * 50_000_000),
                ),
                "must have <= 1,000,000 bytes",
            ),
        ],
    )
    def test_other_answers_are_reported(
        self, kb: Engine, site: Site, page: tuple[int, dict[str, str], bytes], reason: str
    ) -> None:
        site.pages = {"/": page}
        (why,) = reasons(kb.load(pages(f"{site.url}/", max_mb=1), space="s"))
        assert why.startswith(reason)

    def test_a_host_that_does_not_answer_is_reported(self, kb: Engine, site: Site) -> None:
        site.server.shutdown()
        site.server.server_close()
        (why,) = reasons(kb.load(pages(site.url), space="s"))
        assert why.startswith("cannot be read: ")

    @pytest.mark.parametrize("url", ["ftp://x/", "example.com", "file:///etc/passwd", "http://"])
    def test_other_addresses_are_refused(self, url: str) -> None:
        with pytest.raises(Invalid, match="url must begin with http"):
            knowloom.WebPages(url)

    def test_an_address_alone_is_refused(self, kb: Engine) -> None:
        with pytest.raises(Invalid, match=r"pass knowloom\.WebPages"):
            kb.load("https://example.com/", space="s")
