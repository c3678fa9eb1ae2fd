"""HTML through Lexbor: the main text with headings, links, code and tables, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

from knowloom.loading.decoding import detect_encoding
from knowloom.loading.formats.plain import longest_run
from knowloom.loading.formats.tables import format_table
from knowloom.loading.parsed_documents import DocumentBuilder, ParsedDocument

MAX_SHOWN_TARGET = 120  # characters of an address that is shown beside its text
MIN_MAIN = 0.3  # share of the text of a page that its main element must have
WINDOW = 100_000  # characters in which the line of a block is searched
_IGNORED = (
    "script, style, noscript, template, svg, canvas, iframe, object, nav, footer, aside, form, "
    "button, input, select, textarea, dialog, [hidden], [aria-hidden=true], [role=navigation], "
    "[role=search], [role=banner], [role=contentinfo], a.headerlink, a.anchor, .toc, .sidebar, "
    ".breadcrumbs, .skip-link, .visually-hidden"
)
_MAIN = ("main", "[role=main]", "article", "#content", "#main-content", ".document .body")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]{1,40})""", re.I)
_BLOCKS = frozenset(
    "address article blockquote body center dd details div dl dt fieldset figcaption figure footer "
    "h1 h2 h3 h4 h5 h6 header hr html li main ol p pre section summary table ul".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*"}


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return the main text of a page, without navigation, forms and scripts."""
    return parse_html(decode_html(raw))


def decode_html(raw: bytes) -> str:
    """Decode as the byte order mark or the page says, else as UTF-8, else as Windows-1252."""
    declared = _CHARSET.search(raw[:4_096])
    encodings = [detect_encoding(raw), declared[1].decode() if declared else "", "utf-8"]
    for encoding in filter(None, encodings):
        try:
            return raw.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return raw.decode("cp1252", errors="replace")


def parse_html(html: str) -> ParsedDocument:
    tree = LexborHTMLParser(html)
    title = tree.css_first("title")
    fields = {}
    description = tree.css_first("meta[name=description]")
    if description is not None and (content := description.attributes.get("content")):
        fields["description"] = " ".join(content.split())
    for node in tree.css(_IGNORED):
        node.decompose()
    writer = _HtmlWriter(html)
    main = _find_main(tree)
    if main is not None:
        writer.write(main)
    names = " ".join(title.text().split()) if title is not None else ""
    has_heading = any(heading.level == 1 for heading in writer.builder.headings)
    return writer.builder.build("" if has_heading else names, fields)


def _find_main(tree: LexborHTMLParser) -> LexborNode | None:
    body = tree.body
    if body is None:
        return None
    size = len(body.text())
    for selector in _MAIN:
        nodes = tree.css(selector)
        if len(nodes) == 1 and len(nodes[0].text()) >= MIN_MAIN * size:
            return nodes[0]
    for header in tree.css("body > header"):
        header.decompose()
    return body


class _HtmlWriter:
    """Writes the elements of a page as blocks of Markdown, with their lines in the file."""

    def __init__(self, html: str) -> None:
        self.builder = DocumentBuilder()
        self.html = html
        self.position, self.line = 0, 1
        self.links: list[str] = []
        self.first = ""  # text of the block

    def write(self, node: LexborNode) -> None:
        """Add the blocks of an element; text beside blocks is a paragraph."""
        inline: list[str] = []
        for child in node.iter(include_text=True):
            if child.tag in _BLOCKS or self._has_blocks(child):
                self._add_paragraph(inline)
                inline = []
                self._write_block(child)
            else:
                inline.append(self.text(child))
        self._add_paragraph(inline)

    def _has_blocks(self, node: LexborNode) -> bool:
        if node.tag in ("-text", "a", "code", "span", "em", "strong", "b", "i"):
            return (
                node.tag in ("a", "span") and node.css_first("div, p, pre, h1, h2, h3") is not None
            )
        return any(child.tag in _BLOCKS for child in node.iter())

    def _write_block(self, node: LexborNode) -> None:
        tag = node.tag or ""
        anchor = node.attributes.get("id") or ""
        if tag in _HEADINGS:
            title = " ".join(self.text(node).replace("`", "").split())
            if title:
                anchors = (*self._anchors(node), anchor) if anchor else self._anchors(node)
                place = self._locate()
                self.builder.add_heading(_HEADINGS[tag], title, place, anchors)
            return
        if anchor:
            self.builder.anchors.append(anchor)
        if tag in _RENDERED:
            lines = self._render(node)
            if any(lines):
                self.builder.add_block("\n".join(lines), self._locate(), self._take_links())
        else:
            self.write(node)

    def _anchors(self, node: LexborNode) -> tuple[str, ...]:
        names = (
            child.attributes.get("id") or child.attributes.get("name") for child in node.css("a")
        )
        return tuple(name for name in names if name)

    def _add_paragraph(self, inline: Sequence[str]) -> None:
        text = collapse("".join(inline))
        if text:
            self.builder.add_block(text, self._locate(), self._take_links())

    def _take_links(self) -> list[str]:
        links, self.links = self.links, []
        return links

    def _locate(self) -> int | None:
        """Return the line of the page where the text of the block begins."""
        first, self.first = self.first, ""
        if not first:
            return None
        end = self.position + WINDOW
        position = self.html.find(first, self.position, end)
        if position < 0:
            return None
        self.line += self.html.count("\n", self.position, position)
        self.position = position
        return self.line

    def _render(self, node: LexborNode) -> list[str]:
        """Return the lines of a list, a table, code or a quotation."""
        match node.tag:
            case "ul" | "ol":
                return self._render_list(node)
            case "pre":
                return self._render_code(node)
            case "table":
                return self._render_table(node)
            case "blockquote":
                return [f"> {line}".rstrip() for line in self._render_children(node)]
            case "dl":
                return self._render_definitions(node)
            case "hr":
                return []
        return self._render_children(node)

    def _render_children(self, node: LexborNode) -> list[str]:
        lines: list[str] = []
        inline: list[str] = []

        def add(block: Sequence[str]) -> None:
            if any(block):
                lines.extend(["", *block] if lines else block)

        for child in node.iter(include_text=True):
            if child.tag in _BLOCKS or self._has_blocks(child):
                add([collapse("".join(inline))])
                inline.clear()
                add(self._render(child))
            else:
                inline.append(self.text(child))
        add([collapse("".join(inline))])
        return lines

    def _render_list(self, node: LexborNode) -> list[str]:
        lines: list[str] = []
        for number, item in enumerate((c for c in node.iter() if c.tag == "li"), 1):
            mark = f"{number}. " if node.tag == "ol" else "- "
            block = _tighten(self._render_children(item))
            for place, line in enumerate(block):
                lines.append(f"{mark if place == 0 else ' ' * len(mark)}{line}".rstrip())
        return lines

    def _render_definitions(self, node: LexborNode) -> list[str]:
        lines: list[str] = []
        for child in node.iter():
            block = self._render_children(child)
            if child.tag == "dt" and any(block):
                lines += [*([""] if lines else []), f"**{' '.join(block)}**"]
            elif any(block):
                lines += ["", *block]
        return lines

    def _render_code(self, node: LexborNode) -> list[str]:
        text = node.text().strip("\n").rstrip()
        self.first = self.first or _first_words(text)
        code = node.css_first("code")
        classes = " ".join(
            (element.attributes.get("class") or "") for element in (node, code) if element
        )
        language = re.search(r"(?:language|lang|highlight|brush:)-?\s*(\w+)", classes)
        ticks = "`" * max(3, 1 + longest_run(text, "`"))
        return [f"{ticks}{language[1] if language else ''}", *text.split("\n"), ticks]

    def _render_table(self, node: LexborNode) -> list[str]:
        rows: list[list[str]] = []
        header = False
        for row in node.css("tr"):
            cells = [cell for cell in row.iter() if cell.tag in ("td", "th")]
            header = header or (not rows and any(cell.tag == "th" for cell in cells))
            rows.append([collapse(self.text(cell)) for cell in cells])
        return format_table(rows, header=header).split("\n") if rows else []

    def text(self, node: LexborNode) -> str:
        """Return the inline text of an element, and note its links."""
        tag = node.tag
        if tag == "-text":
            text = node.text_content or ""
            self.first = self.first or _first_words(text)
            return re.sub(r"\s+", " ", text)
        if tag in ("br", "-comment"):
            return "\n" if tag == "br" else ""
        if tag == "img":
            return node.attributes.get("alt") or ""
        if tag in ("code", "kbd", "samp", "tt"):
            text = " ".join(node.text().split())
            self.first = self.first or _first_words(text)
            return f"`{text}`" if text else ""
        inner = "".join(self.text(child) for child in node.iter(include_text=True))
        if tag == "a":
            return self._link(node, inner)
        mark = _MARKS.get(tag or "", "")
        if mark and inner.strip():
            return f"{mark}{inner.strip()}{mark}{' ' if inner[-1:] == ' ' else ''}"
        return f"{inner} " if tag in _BLOCKS else inner

    def _link(self, node: LexborNode, label: str) -> str:
        target = node.attributes.get("href") or ""
        if target:
            self.links.append(target)
        is_web = target.startswith(("http://", "https://"))
        if is_web and label.strip() and label != target and len(target) <= MAX_SHOWN_TARGET:
            return f"[{label.strip()}]({target})"
        return label


_RENDERED = frozenset("ul ol pre table blockquote dl hr".split())


def _first_words(text: str) -> str:
    """Return the start of a text as it is in the file, up to an entity or a line break."""
    words = text.strip()
    return re.split(r"[&<>\n\xa0\u2018-\u201d]", words, maxsplit=1)[0][:40] if words else ""


def collapse(text: str) -> str:
    """Return a paragraph without runs of spaces; its line breaks stay."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def _tighten(block: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an entry without the empty one before a list inside of it."""
    for place, line in enumerate(block):
        follows = block[place + 1] if place + 1 < len(block) else ""
        if line or not follows.startswith(("- ", "1. ")):
            yield line
