"""Markdown: headings as CommonMark reads them, front matter, and links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowloom.caching import cached
from knowloom.errors import Invalid
from knowloom.loading import front_matter
from knowloom.loading.decoding import decode_text, unify_line_breaks
from knowloom.loading.parsed_documents import DocumentLink, Heading, ParsedDocument
from knowloom.loading.sections import normalise_label
from knowloom.report import Skipped

_CODE_TOKENS = ("fence", "code_block")
_ANCHOR = re.compile(r"\s*\{[^{}]*?#([^\s{}]+)[^{}]*\}$")  # `## Title { #anchor }`
_CODE_SPAN = re.compile(r"`[^`]+`")
_TARGETS = re.compile(
    r"\]\(\s*<?([^)\s<>]+)"  # [text](target)
    r"|\[\[([^\[\]|\n]+)"  # [[page|text]]
    r"""|<a\s[^>]*?href=["']([^"'>]+)"""
    r"|\[((?:[^\[\]\\]|\\.){1,200})\](?!\()"  # [label], whose target is defined elsewhere
)


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return a page; unreadable front matter is reported, and the page is still parsed."""
    head, text = front_matter.split_front_matter(unify_line_breaks(decode_text(raw)))
    fields: dict[str, Any] = {}
    problems: list[Skipped] = []
    try:
        fields = front_matter.parse_front_matter(head)
    except Invalid as error:
        problems.append(Skipped("1", "front matter", str(error)))
    return parse_text(text, fields, problems)


def parse_text(
    text: str, fields: Mapping[str, Any] | None = None, problems: Sequence[Skipped] = ()
) -> ParsedDocument:
    """Return the page with a text; headings inside code, lists and quotes do not count."""
    environment: dict[str, Any] = {}
    tokens = _block_parser().parse(text, environment)
    references = environment.get("references", {})
    fields = fields or {}
    title = fields.get("title")
    return ParsedDocument(
        text,
        tuple(_find_headings(tokens)),
        "" if title is None or isinstance(title, dict | list) else " ".join(str(title).split()),
        fields,
        links=tuple(_find_links(text, tokens, references)),
        definitions={
            normalise_label(label): _format_target(definition)
            for label, definition in references.items()
        },
        problems=tuple(problems),
    )


@cached("markdown_parser", 1)
def _block_parser() -> MarkdownIt:
    """Return the parser of blocks, which takes longer to build than a short page to parse."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])  # blocks with their lines are enough
    return parser


def _find_headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0:
            start, end = token.map or (0, 0)
            content = tokens[index + 1].content
            anchor = _ANCHOR.search(content)
            if anchor:
                content = content[: anchor.start()]
            anchors = (anchor[1],) if anchor else ()
            yield Heading(int(token.tag[1:]), strip_markup(content), start, end, anchors)


def _find_links(
    text: str, tokens: Sequence[Token], references: Mapping[str, Mapping[str, str]]
) -> Iterator[DocumentLink]:
    """Yield the targets of links outside of code."""
    targets = {normalise_label(label): entry["href"] for label, entry in references.items()}
    code = {
        line
        for token in tokens
        if token.type in _CODE_TOKENS and token.map
        for line in range(*token.map)
    }
    for number, line in enumerate(text.split("\n")):
        if ("[" not in line and "<a" not in line) or number in code:
            continue
        for match in _TARGETS.finditer(_CODE_SPAN.sub("", line)):
            inline, wiki, anchor, label = match.groups()
            if wiki:
                yield DocumentLink(number, f"wiki:{wiki.strip()}")
            elif target := inline or anchor or targets.get(normalise_label(label), ""):
                yield DocumentLink(number, target)


def _format_target(definition: Mapping[str, str]) -> str:
    """Return the part behind the label of a line such as `[1]: guide.md "The guide"`."""
    href = definition["href"]
    target = href if href and not re.search(r"[\s<>]", href) else f"<{href}>"
    title = definition["title"].replace('"', "'").replace("\n", " ")
    return f'{target} "{title}"' if title else target


def strip_markup(heading: str) -> str:
    """Return a heading without its markup."""
    if not re.search(r"[*_`\[\]<\\&]", heading):
        return " ".join(heading.split())
    children = MarkdownIt("commonmark").parseInline(heading)[0].children or []
    texts = (
        " " if child.type == "softbreak" else child.content
        for child in children
        if child.type != "html_inline"
    )
    return " ".join("".join(texts).split())
