"""The documentation: snippets print what they show, links resolve, the map is complete."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from paths import ROOT
from source_tree import FILES, module_name

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
LISTED_FOLDERS = ("cli.commands.", "server.routes.", "server.schemas.", "testing.")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def snippets(page: Path) -> list[tuple[str, str]]:
    """Return (code, output) of each Python block; a text block right after it is its output."""
    blocks = [
        (match[1], match[2], match.start(), match.end())
        for match in _FENCE.finditer(page.read_text("utf-8"))
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_prints_what_the_page_shows(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for code, shown in snippets(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        assert _trimmed(printed.getvalue()) == _trimmed(shown)


def test_links_between_pages_resolve():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_the_architecture_page_is_a_map_of_every_module():
    text = ARCHITECTURE.read_text("utf-8")
    lines = text.splitlines()
    assert len(lines) <= 250 and max(map(len, lines)) <= 100
    modules = [name for file in FILES if (name := module_name(file)) and file.stem[0] != "_"]
    listed = [name for name in modules if not name.startswith(LISTED_FOLDERS)]
    assert [name for name in listed if not re.search(rf"\b{name.split('.')[-1]}\b", text)] == []
    packages = {file.parent for file in FILES if file.stem == "__init__"}
    folders = {module_name(folder / "__init__.py").replace(".", "/") for folder in packages}
    linked = set(re.findall(r"src/knowloom/([\w/]+)", text))
    assert {f for f in folders if f and not any(p.startswith(f) for p in linked)} == set()
