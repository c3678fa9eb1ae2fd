"""What the documentation shows is what happens: every Python snippet runs, and prints what stands below it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def snippets(page: Path) -> list[tuple[str, str]]:
    """(code, what it prints) for each Python block; the text block behind it, if there is one, is its output."""
    blocks = [
        (found[1], found[2], found.start(), found.end())
        for found in _FENCE.finditer(page.read_text("utf-8"))
    ]
    pairs = []
    for number, (language, code, _, end) in enumerate(blocks):
        follows = blocks[number + 1] if number + 1 < len(blocks) else ("", "", 0, 0)
        shown = (
            follows[1]
            if follows[0] == "text" and not page.read_text("utf-8")[end : follows[2]].strip()
            else ""
        )
        if language == "python":
            pairs.append((code, shown))
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_prints_what_the_page_shows(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for code, shown in snippets(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        assert _trimmed(printed.getvalue()) == _trimmed(shown)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
