"""HTML: the main text with headings, links, code and tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowloom.engine import Engine
from knowloom.loading.formats import web_pages

PAGE = """<!doctype html>
<html><head><title>Harbour - Cranes</title><meta name="description" content="About cranes.">
<script>var secret = "tracking";</script><style>p { color: red }</style></head>
<body>
<header><a href="/">Home</a></header>
<nav><ul><li><a href="/tugs.html">Tugs</a></li></ul></nav>
<main>
<h1 id="cranes">Cranes<a class="headerlink" href="#cranes">¶</a></h1>
<p>The <strong>north</strong> crane lifts <code>40 t</code>;
see <a href="tugs.html#night">the tugs</a> or <a href="https://example.com/x">others</a>.</p>
<div>Loose text<br>on two lines</div>
<h2>Checks</h2>
<ul><li>Brake<ul><li>Oil</li></ul></li><li><p>Cable</p></li></ul>
<pre><code class="language-python">def lift():
    return 40
</code></pre>
<table><thead><tr><th>Pier</th><th>Depth</th></tr></thead>
<tr><td>North</td><td>12.5 | 13</td></tr></table>
<blockquote><p>Slowly.</p></blockquote>
<dl><dt>SWL</dt><dd>Safe working load</dd></dl>
</main>
<aside>Buy now</aside><footer>Imprint</footer>
</body></html>
"""


class TestText:
    def test_the_main_text_becomes_markdown(self) -> None:
        document = web_pages.parse(PAGE.encode(), "cranes.html")
        assert document.text.split("\n\n") == [
            "# Cranes",
            "The **north** crane lifts `40 t`; see the tugs or [others](https://example.com/x).",
            "Loose text\non two lines",
            "## Checks",
            "- Brake\n  - Oil\n- Cable",
            "```python\ndef lift():\n    return 40\n```",
            "| Pier | Depth |\n| --- | --- |\n| North | 12.5 \\| 13 |",
            "> Slowly.",
            "**SWL**",
            "Safe working load",
        ]
        assert document.headings[0].anchors == ("cranes",)
        assert [link.target for link in document.links] == [
            "tugs.html#night",
            "https://example.com/x",
        ]
        assert document.fields == {"description": "About cranes."}

    def test_blocks_know_their_lines(self) -> None:
        document = web_pages.parse(PAGE.encode(), "cranes.html")
        lines, source = document.text.split("\n"), PAGE.split("\n")
        for line, place in document.places:
            word = lines[line].strip("#`>-|* ").split()[0].strip("*`") or "def"
            assert word in source[place - 1] or "def lift" in source[place - 1]
        assert len(document.places) >= 6

    @pytest.mark.parametrize(
        ("html", "text"),
        [
            ("just text", "just text"),
            ("<p>unclosed <b>bold<p>next", "unclosed **bold**\n\n**next**"),
            ("<article><p>a</p></article><article><p>b</p></article>", "a\n\nb"),
            ("<div><span>a</span> <span>b</span></div>", "a b"),
            ("", ""),
        ],
    )
    def test_odd_markup_keeps_its_text(self, html: str, text: str) -> None:
        assert web_pages.parse(html.encode(), "a.html").text == text

    @pytest.mark.parametrize(
        "raw",
        [
            "<p>Größe</p>".encode(),
            "<p>Größe</p>".encode("cp1252"),
            '<meta charset="iso-8859-1"><p>Größe</p>'.encode("latin-1"),
            "<p>Größe</p>".encode("utf-16"),
        ],
    )
    def test_the_encoding_is_declared_or_guessed(self, raw: bytes) -> None:
        assert web_pages.parse(raw, "a.html").text == "Größe"


class TestLoading:
    def test_pages_link_to_each_other(self, kb: Engine, tmp_path: Path) -> None:
        (tmp_path / "cranes.html").write_text(PAGE)
        (tmp_path / "tugs.html").write_text("<h1>Tugs</h1><h2 id=night>Night</h2><p>Two tugs.")
        assert kb.load(tmp_path, space="s").skipped == ()
        cranes, tugs = kb.items()
        assert (cranes.title, cranes.summary, tugs.title) == ("Cranes", "About cranes.", "Tugs")
        assert [(edge.source, edge.target, edge.type) for edge in kb.edges()] == [
            ("cranes.html", "tugs.html", "links")
        ]

    def test_one_huge_line_is_read(self, kb: Engine, tmp_path: Path) -> None:
        body = "".join(f"<p>Paragraph {number} of the line.</p>" for number in range(40_000))
        (tmp_path / "line.html").write_text(f"<title>Line</title>{body}")
        assert kb.load(tmp_path, space="s", embed=False).skipped == ()
        assert [item.title for item in kb.items()][:2] == ["Line", "Line (10)"]
        assert sum(len(item.text) for item in kb.items()) > 1_000_000

    def test_deep_nesting_is_reported(self, kb: Engine, tmp_path: Path) -> None:
        (tmp_path / "deep.html").write_text("<div>" * 30_000 + "x")
        report = kb.load(tmp_path, space="s")
        assert [skip.why for skip in report.skipped] == ["nested too deeply"]
