"""Resolve the links between documents of one load to edges between their items."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urljoin

from knowloom.loading.sections import DocumentRow, DocumentRows
from knowloom.text.normalisation import slugify

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_WEB = ("http://", "https://")
# What a link to a page may leave out, or say of the page that is built from it.
_SUFFIXES = (
    *("", ".md", ".rst", ".markdown", ".html", ".ipynb", ".txt", ".py"),
    *(".ts", ".tsx", ".js", ".jsx", ".mjs"),
)
_INDEXES = (
    "index.md",
    "README.md",
    "index.rst",
    "index.html",
    "__init__.py",
    "index.ts",
    "index.js",
)


@dataclass(frozen=True, slots=True)
class _PendingLink:
    name: str  # the document
    id: str
    target: str
    type: str
    space: str | None


@dataclass(slots=True)
class LinkTable:
    """The documents of a load by their names, and the links that wait for them."""

    _documents: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)  # items by label or module
    _stems: dict[str, str] = field(default_factory=dict)  # documents by the name of their file
    _pending: list[_PendingLink] = field(default_factory=list)

    def add(
        self, name: str, rows: DocumentRows, space: str | None, names: tuple[str, ...] = ()
    ) -> None:
        """Add a document with its anchors and its links."""
        self._documents[name] = rows.anchors
        if "" in rows.anchors:
            page = rows.anchors[""]
            stem = name.rpartition("/")[2].rpartition(".")[0].casefold()
            self._stems.setdefault(stem, name)
            for other in names:
                self._names.setdefault(other, page)
        for anchor, id in rows.anchors.items():
            self._names.setdefault(f"ref:{anchor}", id)
        self._pending.extend(_PendingLink(name, *link, space) for link in rows.links)

    def targets_of(self, name: str) -> list[str]:
        """Return the targets of the links of a document that was added last."""
        targets: list[str] = []
        for link in reversed(self._pending):
            if link.name != name:
                break
            targets.append(link.target)
        return targets[::-1]

    def resolve(self) -> Iterator[tuple[str, str | None, DocumentRow]]:
        """Yield the document, the space and the edge of each link that leads to another item."""
        edges: dict[tuple[str, str, str, str | None], str] = {}
        for link in self._pending:
            target = self._find(link.name, link.target)
            if target and target != link.id:
                edges.setdefault((link.id, target, link.type, link.space), link.name)
        for (source, target, type, space), name in edges.items():
            yield name, space, {"source": source, "target": target, "type": type}

    def _find(self, name: str, target: str) -> str:
        """Return the id of the item that a link leads to, "" if it is in no document."""
        scheme, _, label = target.partition(":")
        if scheme == "wiki":
            page, _, heading = label.partition("#")
            stem = page.rpartition("/")[2].strip().casefold()
            anchors = self._documents.get(self._stems.get(stem, ""), {})
            return anchors.get(slugify(heading)) or anchors.get("", "")
        if scheme in ("ref", "module"):
            return self._names.get(target, "")
        path, _, anchor = target.partition("#")
        if scheme == "doc":
            return self._find_page(name, label.partition("#")[0], "")
        if name.startswith(_WEB):
            page = urljoin(name, path or name).rstrip("/")
            anchors = self._documents.get(page) or self._documents.get(f"{page}/", {})
            return anchors.get(unquote(anchor)) or anchors.get("", "")
        if _SCHEME.match(target) or target.startswith("//"):
            return ""
        return self._find_page(name, unquote(path), unquote(anchor))

    def _find_page(self, name: str, path: str, anchor: str) -> str:
        document = name if not path else self._find_name(name, path)
        anchors = self._documents.get(document, {})
        if anchor:
            return anchors.get(anchor) or anchors.get(slugify(anchor)) or anchors.get("", "")
        return "" if document == name else anchors.get("", "")

    def _find_name(self, name: str, path: str) -> str:
        """Return the name of the document at a path relative to another one."""
        folder = "" if path.startswith("/") else posixpath.dirname(name)
        full = posixpath.normpath(posixpath.join(folder, path.lstrip("/"))).removeprefix("./")
        stems = (full, full.removesuffix(".html"))
        candidates = [f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES]
        candidates += [posixpath.join(full, index).removeprefix("./") for index in _INDEXES]
        return next((name for name in candidates if name in self._documents), "")
