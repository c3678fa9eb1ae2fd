"""Plain text, and files of settings and queries, which are shown as code."""

from __future__ import annotations

from knowloom.loading.decoding import decode_text, unify_line_breaks
from knowloom.loading.parsed_documents import Heading, ParsedDocument
from knowloom.text.structure import find_structure

_LANGUAGES = {"yml": "yaml", "cfg": "ini", "conf": "ini", "bash": "sh"}


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return a text with the headings that the segmenter finds, as those of AsciiDoc."""
    text = unify_line_breaks(decode_text(raw))
    headings: list[Heading] = []
    line = position = 0
    for section in find_structure(text).sections:
        line += text.count("\n", position, section.start)
        position = section.start
        if section.titled and section.headings:
            rest = text[section.start : section.body].rstrip()
            body = line + 1 + rest.count("\n")
            headings.append(Heading(len(section.headings), section.headings[-1], line, body))
    return ParsedDocument(text, tuple(headings))


def parse_code(raw: bytes, name: str) -> ParsedDocument:
    """Return a file whose lines mean something else than prose, in a code block."""
    return fence(unify_line_breaks(decode_text(raw)), name)


def fence(text: str, name: str) -> ParsedDocument:
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if not text.strip():
        return ParsedDocument("")
    body = text.rstrip("\n").split("\n")
    ticks = "`" * max(3, 1 + longest_run(text, "`"))
    lines = [f"{ticks}{_LANGUAGES.get(suffix, suffix)}", *body, ticks]
    places = ((0, 1), *((number, number) for number in range(2, len(body) + 1)))
    return ParsedDocument("\n".join(lines), places=places)


def longest_run(text: str, character: str) -> int:
    """Return the length of the longest run of a character."""
    longest = 0
    while character * (longest + 1) in text:
        longest += 1
    return longest
