"""The structure of a text in Markdown, reStructuredText or AsciiDoc: headings and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from knowloom.caching import TwoGenerationCache

MAX_HEADING = 200  # characters; a longer line is text
MAX_MARKS = 100_000  # headings, fences and rules that are read; a text with more is data
CACHED_CHARACTERS = 48_000_000  # texts whose structure is cached

# Possessive quantifiers keep the time of a line without line break linear.
_LINE_MARKS = r"""
    [ \t]*+(?:(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+)(?P<info>[^\n]*+))
    | [ ]{0,3}+(?P<hashes>\#{1,6}+)[ \t]++(?P<title>\S[^\n]{0,199})$
    | (?P<equals>={1,6}+)[ \t]++(?P<name>\S[^\n]{0,199})$
    | [ ]{0,3}+(?P<rule>(?P<mark>[=\-^"'*+.\#_:])(?P=mark){2,}+)[ \t\r]*$
    | (?P<blank>[ \t\r]*+\n)(?=(?:[ ]{4}|\t)[ \t]*+(?!```|~~~)\S)
"""
_LITERAL_MARKS = r"""
    | (?P<directive>[ \t]*+\.\.[ ]+
        (?:code|code-block|sourcecode|parsed-literal|prompt|testcode|doctest|math)::)[^\n]*$
    | (?P<literal>[ \t]*+(?!\.\.[ ])[^\n]*::)[ \t\r]*$
"""
# A literal line break is searched for in a third of the time of `^`.
_MARKS = re.compile(rf"\n(?P<line>{_LINE_MARKS})", re.M | re.X)
_ALL_MARKS = re.compile(rf"\n(?P<line>{_LINE_MARKS}{_LITERAL_MARKS})", re.M | re.X)
_FIRST_MARK = re.compile(rf"(?P<line>{_LINE_MARKS}{_LITERAL_MARKS})", re.M | re.X)
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t\r]*+$", re.M)
_FRONT_MATTER = re.compile(r"\s*+^---[ \t\r]*+\n(?:[^\n]*+\n){1,100}?---[ \t\r]*+$", re.M)
_INDENTED_LINE = re.compile(r"^([ \t]*+)\S", re.M)
_INDENTED_CODE = re.compile(r"(?:[ ]{4}|\t)[ \t]*+(?!```|~~~)\S")
_CONTINUED_LINE = re.compile(r"[ \t]*(?:[-*+\u2022]|(?:\d{1,3}|[a-z])[.)]|\.\.)[ \t]")
_NO_TITLE = re.compile(r"[-*+>|#:][ \t]|\||\.\.[ ]|[ \t]{4}")
_ANCHOR = re.compile(r"[ \t]*\{#[^}\s]*\}$")
_VISIBLE = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class TextSection:
    """A heading and the text below it, up to the next heading."""

    start: int
    body: int  # the start of the text below the heading; the end if there is none
    end: int
    headings: tuple[str, ...] = ()  # from the outermost one to that of the section
    titled: bool = True  # False for the text before the first heading


@dataclass(frozen=True, slots=True)
class Structure:
    """The sections and the code blocks of a text, in order."""

    sections: tuple[TextSection, ...]
    code: tuple[tuple[int, int], ...]  # start of the first line and end of the last one
    length: int


@dataclass(frozen=True, slots=True)
class _Heading:
    start: int
    end: int  # of its last line
    title: str
    level: int = 0  # of a prefix such as `##`
    rule: str = ""  # the character of the underline, twice with an overline


@dataclass(slots=True)
class _Scan:
    """The marks of a text that were read so far."""

    text: str
    headings: list[_Heading] = field(default_factory=list)
    code: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0  # all marks before it were read
    block_end: int = 0  # of the last heading or code block
    prose_end: int = 0  # indented lines up to here continue a list item or a directive
    has_listings: bool = False  # True in AsciiDoc, where `----` encloses code


_structures: TwoGenerationCache[str, Structure] = TwoGenerationCache(
    "text_structures", CACHED_CHARACTERS, lambda structure: structure.length
)


def find_structure(text: str) -> Structure:
    """Return the sections and the code blocks of a text."""
    structure = _structures.get(text)
    if structure is None:
        scan = _scan(text)
        structure = Structure(tuple(_build_sections(scan)), tuple(scan.code), len(text))
        _structures.put(text, structure)
    return structure


def _scan(text: str) -> _Scan:
    """Read the headings and code blocks, mark by mark."""
    scan = _Scan(text)
    marks = _ALL_MARKS if "::" in text else _MARKS
    if front_matter := _FRONT_MATTER.match(text):
        scan.end = scan.block_end = front_matter.end()
    elif _INDENTED_CODE.match(text):
        scan.end = _add_code(scan, 0, _find_block_end(text, 0, 3))
    if scan.end == 0 and (first := _FIRST_MARK.match(text)):
        scan.end = max(first.end(), _read_mark(scan, first))
    for _ in range(MAX_MARKS):
        match = marks.search(text, max(0, scan.end - 1))
        if match is None:
            scan.end = len(text)
            break
        scan.end = max(match.end(), _read_mark(scan, match))
    return scan


def _read_mark(scan: _Scan, match: re.Match[str]) -> int:
    """Add the heading or code block of a mark; return the end of what was read."""
    if match["hashes"] or match["equals"]:
        return _add_heading(scan, _read_prefixed(scan, match))
    if match["blank"]:
        return _read_indented(scan, match)
    if match["fence"]:
        heading = None if match["info"].strip() else _read_underlined(scan, match, match["fence"])
        if heading is None:
            return _add_code(scan, match.start("line"), _find_fence_end(scan.text, match))
        return _add_heading(scan, heading)
    if match["rule"]:
        if scan.has_listings and match["rule"] in ("----", "...."):
            return _read_listing(scan, match)
        return _add_heading(scan, _read_underlined(scan, match, match["rule"]))
    return _read_literal(scan, match)


def _add_heading(scan: _Scan, heading: _Heading | None) -> int:
    if heading is None:
        return 0
    scan.headings.append(heading)
    scan.block_end = heading.end
    return heading.end


def _add_code(scan: _Scan, start: int, end: int) -> int:
    scan.code.append((start, start + len(scan.text[start:end].rstrip())))
    scan.block_end = end
    return end


def _find_fence_end(text: str, opening: re.Match[str]) -> int:
    """Return the end of a fenced block: after its closing fence, or the end of the text."""
    fence: str = opening["fence"]
    for match in _FENCE.finditer(text, opening.end()):
        if match[1][0] == fence[0] and len(match[1]) >= len(fence):
            return match.end()
    return len(text)


def _find_block_end(text: str, position: int, indent: int) -> int:
    """Return the start of the next line that is indented by at most `indent` columns."""
    for match in _INDENTED_LINE.finditer(text, position):
        if len(match[1].expandtabs(4)) <= indent:
            return match.start()
    return len(text)


def _read_indented(scan: _Scan, match: re.Match[str]) -> int:
    """Add the indented block after a blank line, unless it continues a list item."""
    if match.end() < scan.prose_end:
        return 0
    end = _find_block_end(scan.text, match.end(), 3)
    if _CONTINUED_LINE.match(_visible_line_before(scan.text, match.start("line"))):
        scan.prose_end = end
        return 0
    return _add_code(scan, match.end(), end)


def _read_literal(scan: _Scan, match: re.Match[str]) -> int:
    """Add the block below a directive for code or a paragraph that ends with two colons."""
    line = match["line"].expandtabs(4)
    end = _find_block_end(scan.text, match.end(), len(line) - len(line.lstrip()))
    body = _VISIBLE.search(scan.text, match.end(), end)
    if body is None:
        return 0
    start = scan.text.rindex("\n", 0, body.start()) + 1
    return _add_code(scan, match.start("line") if match["directive"] else start, end)


def _read_listing(scan: _Scan, match: re.Match[str]) -> int:
    """Add a block of AsciiDoc between two lines such as `----`."""
    closing = scan.text.find(f"\n{match['rule']}\n", match.end())
    scan.has_listings = closing >= 0
    return _add_code(scan, match.start("line"), closing + 5) if closing >= 0 else 0


def _read_prefixed(scan: _Scan, match: re.Match[str]) -> _Heading | None:
    """Return a heading such as `## Title` or `== Title`."""
    mark = match["hashes"] or match["equals"]
    title = _ANCHOR.sub("", (match["title"] or match["name"]).strip())
    bare = title.rstrip(mark[0])
    if bare != bare.rstrip():
        title = bare.rstrip()  # `## Title ##`
    # In code outside of a block, `# ` starts a comment, but seldom after a blank line.
    if mark[0] == "=" or len(mark) == 1:
        if not _is_separated(scan, match.start("line")):
            return None
        scan.has_listings = scan.has_listings or mark[0] == "="
    start = match.end() - len(match["line"].lstrip())
    return _Heading(start, match.end(), title, level=len(mark))


def _read_underlined(scan: _Scan, match: re.Match[str], rule: str) -> _Heading | None:
    """Return the heading that a line such as `=====` underlines."""
    text, start = scan.text, _start_of_line_before(scan.text, match.start("line"))
    title = text[start : max(start, match.start("line") - 1)].rstrip()
    if start < scan.block_end or not is_underlined(title, rule):
        return None
    above = _start_of_line_before(text, start)
    overline = text[above:start].strip() if start - above <= MAX_HEADING else ""
    if len(overline) >= 3 and set(overline) == {rule[0]}:
        return _Heading(above, match.end(), title.strip(), rule=rule[0] * 2)
    if not _is_separated(scan, start):
        return None
    start += len(title) - len(title.lstrip())
    return _Heading(start, match.end(), title.strip(), rule=rule[0])


def is_underlined(title: str, rule: str) -> bool:
    """Return True if a line of this length and form can be a title above the rule."""
    if not 0 < len(title) <= MAX_HEADING or _NO_TITLE.match(title):
        return False
    if not any(map(str.isalnum, title)):
        return False
    if len(rule) >= len(title.strip()) - 2:
        return rule[0] not in "`~" or len(rule) > 3
    return rule[0] in "=-" and len(title) <= MAX_HEADING // 2 and title[-1] not in ".,;:!?"


def _is_separated(scan: _Scan, start: int) -> bool:
    """Return True for the first line, and after a blank line, a heading or a code block."""
    if start <= scan.block_end + 1:
        return True
    return not scan.text[_start_of_line_before(scan.text, start) : start].strip()


def _start_of_line_before(text: str, start: int) -> int:
    return text.rfind("\n", 0, max(0, start - 1)) + 1


def _visible_line_before(text: str, end: int) -> str:
    """Return the last line before `end` that is not blank, up to the length of a heading."""
    before = text[max(0, end - 4 * MAX_HEADING) : end].rstrip()
    return before[before.rfind("\n") + 1 :]


def _build_sections(scan: _Scan) -> Iterator[TextSection]:
    text, headings = scan.text, scan.headings
    first = headings[0].start if headings else scan.end
    if match := _VISIBLE.search(text, 0, first):
        yield TextSection(match.start(), match.start(), first, titled=False)
    path: list[tuple[int, str]] = []  # level and title of the enclosing headings
    for number, (heading, level) in enumerate(zip(headings, _levels(headings), strict=True)):
        end = headings[number + 1].start if number + 1 < len(headings) else scan.end
        while path and path[-1][0] >= level:
            path.pop()
        path.append((level, heading.title))
        match = _VISIBLE.search(text, heading.end, end)
        body = match.start() if match else end
        yield TextSection(heading.start, body, end, tuple([title for _, title in path]))
    if match := _VISIBLE.search(text, scan.end):  # beyond the last mark that was read
        yield TextSection(match.start(), match.start(), len(text), titled=False)


def _levels(headings: Sequence[_Heading]) -> Iterator[int]:
    """Return the level of each heading; underlines have levels in the order of their use.

    Beside headings with a prefix, `=` and `-` underline the first two levels, as in Markdown.
    """
    rules = ["=", "-"] if any(heading.level for heading in headings) else []
    for heading in headings:
        if not heading.level and heading.rule not in rules:
            rules.append(heading.rule)
        yield heading.level or rules.index(heading.rule) + 1
