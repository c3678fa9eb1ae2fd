"""Keeps stored text from passing for the structure of a markdown document. Ordinary prose comes out unchanged."""

from __future__ import annotations

import re
from enum import Enum

# Deeper lists are written out as text: some parsers give up at twenty levels and drop the rest of the document.
_MAX_DEPTH = 8
_QUOTE = 0

_CLOSING_HASHES = re.compile(r"(?:^|(?<= ))(?=#+$)")
_IN_NAME = re.compile(r"[\\`*\[\]<&]")
_LISTED_MARKER = re.compile(r"\d{1,9}(?=[.)] )|(?=#{1,6} |[-+*] |>|```|~~~|<[A-Za-z/!?]|\[.*\]:)")

# The whole cost for ordinary text: one search for a line that could be more than prose, a list or a quote.
_SUSPECT = re.compile(
    r"\n[ >*+\-0-9.)]*(?:\t|#|```|~~~|<[A-Za-z/!?]|\[|=+[ \t]*(?:\n|\Z))"
    r"|\n[ >]*-[ -]*(?:[\t\n]|\Z)"
    rf"|\n[ >*+\-0-9.)]{{{_MAX_DEPTH + 1}}}"
)
_SPECIAL = frozenset(
    "#=`~<>[*+-_0123456789"
)  # what a line begins with that may be more than a line of a paragraph
_ATX = re.compile(r"#{1,6}(?: |\Z)")
_SETEXT = re.compile(r"(?:=+|-+) *\Z")
_FENCE = re.compile(r"(`{3,})[^`]*\Z|(~{3,})")
_BREAK = re.compile(r"(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})\Z")
_ITEM = re.compile(r"([-+*]|(\d{1,9})[.)])( +|\Z)")
_MARKER = re.compile(
    r"\d{1,9}(?=[.)](?: |\Z))|(?=[>#`~<*+_=-])"
)  # ends where a backslash makes it text
_DEFINITION = re.compile(
    r"""\[(?:[^\[\]\\]|\\.){1,999}\]:[ \t]*(?:\n[ \t>]*)?(?:<[^\n]*>|[^ \t\n]++)[ \t]*+(?:$|["'(])""",
    re.M | re.S,
)

# Raw HTML that goes on over blank lines until its end is met, and raw HTML that a blank line ends.
_RAW = (
    (
        re.compile(r"<(?:script|pre|style)(?:[ >]|\Z)", re.I),
        re.compile(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
)
_BLOCK_TAG = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset"
    r"|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|nav|noframes"
    r"|ol|optgroup|option|p|param|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)(?: |/?>|\Z)",
    re.I,
)
# Versions of CommonMark disagree on these tags, and parsers on white space other than blanks and tabs: always text.
_DISPUTED = re.compile(r"</?(?:menuitem|search|source|textarea)\b|.*[^\S ]", re.I)
_ATTRIBUTE = r"""\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^"'=<>`\x00-\x20]+|'[^']*'|"[^"]*"))?"""
_LONE_TAG = re.compile(
    rf"(?:<[A-Za-z][A-Za-z0-9-]*(?:{_ATTRIBUTE})*\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*\Z", re.A
)


def escape_heading(text: str) -> str:
    """A line that stays whole behind `### `: hashes at its end would be dropped as a closing sequence."""
    return _CLOSING_HASHES.sub(r"\\", text) if text.endswith("#") else text


def escape_list_line(text: str) -> str:
    """A line that is nothing but text behind `- `."""
    marker = _LISTED_MARKER.match(text)
    return f"{text[: marker.end()]}\\{text[marker.end() :]}" if marker else text


def escape_bold_text(text: str) -> str:
    """A line that cannot end the bold type around it."""
    return _IN_NAME.sub(r"\\\g<0>", text)


def escape_body(text: str) -> str:
    """A text that adds no heading or link definition and no line like those that knowloom writes, and that ends where it ends: nothing after it is swallowed."""
    if ("\n" not in text and text[:1].isalpha()) or not (
        _SUSPECT.search("\n" + text) or any(map(_looks_generated, text.split("\n")))
    ):
        return text
    reader = _Reader(text)
    lines = [reader.read(line) for line in text.split("\n")]
    return "\n".join([*lines, *reader.missing()])


def _looks_generated(line: str) -> bool:
    """Whether a line is like those that knowloom writes: a property, a pointer, a link. In a text it gets another mark, which means the same to markdown.
    By hand: a pattern would take the square of the length of a hostile line."""
    if not line.startswith("- "):
        return False
    named, pointed = (
        line.startswith("- **") and "**: " in line,
        line.endswith(")") and "id: " in line,
    )
    return named or pointed or "]--> " in line.partition("--[")[2]


class _Leaf(Enum):
    NONE = "none"
    PARAGRAPH = "paragraph"
    FENCE = "fence"
    RAW = "raw"  # HTML until its end is met
    HTML = "html"  # HTML until a blank line


class _Reader:
    """Reads lines as CommonMark does, and remembers only what the meaning of the next line depends on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = 0  # where the current line begins in the text
        self.containers: list[
            int
        ] = []  # from the outside in: a quote, or the columns a list item's lines are indented by
        self.empty_item = False  # the last line opened a list item and wrote nothing into it
        self.outside = False  # the current line does not go on all of the containers
        self.leaf = _Leaf.NONE
        self.fence = ""
        self.end = _RAW[0][1]
        self.last_ends: dict[re.Pattern[str], int] = {}

    def missing(self) -> list[str]:
        """The fence that would run on into what follows. One inside a list or a quote ends with it."""
        return [self.fence] if self.leaf is _Leaf.FENCE and not self.containers else []

    def read(self, raw: str) -> str:
        """The line, with a backslash before what must not be read as structure."""
        line = raw.expandtabs(4)
        # Parsers disagree on whether blanks may go on a list item that is empty so far; they agree on an empty line.
        written = raw.rstrip(" \t") if self.empty_item and not line.strip(" >") else raw
        code = self.leaf in (_Leaf.FENCE, _Leaf.RAW)
        column = self._meaning(raw, line)
        self.start += len(raw) + 1
        if column is None:
            return f"*{written[1:]}" if not code and _looks_generated(written) else written
        at = _index(raw, column)
        return f"{raw[:at]}\\{raw[at:]}"

    def _meaning(self, raw: str, line: str) -> int | None:
        """Takes in one line; the column that needs a backslash, if one does."""
        at, kept = self._continued(line)
        rest = line[at:]
        self.outside = kept < len(self.containers)
        if self.outside and self.leaf is not _Leaf.PARAGRAPH:
            self._close(kept)
        self.empty_item = False
        if self.leaf is _Leaf.FENCE:
            self.leaf = _Leaf.NONE if _closes(rest, self.fence) else _Leaf.FENCE
            return None
        if self.leaf is _Leaf.RAW:
            self.leaf = _Leaf.NONE if self.end.search(rest) else _Leaf.RAW
            return None
        if not rest.strip(" "):
            self._close(kept)
            return None
        if self.leaf is _Leaf.HTML:
            at += _indent(line, at)
            return at if _ATX.match(line[at:]) else None
        return self._opened(raw, line, at, kept)

    def _continued(self, line: str) -> tuple[int, int]:
        """How far into the line, and into how many of the open containers, the line goes on."""
        at = 0
        for depth, width in enumerate(self.containers):
            indent = _indent(line, at)
            blank = at + indent == len(line)
            if width == _QUOTE:
                if indent > 3 or blank or line[at + indent] != ">":
                    return at, depth
                at = _after_quote(line, at + indent)
            elif blank:
                if self.empty_item and depth == len(self.containers) - 1:
                    return at, depth
                at = min(at + width, len(line))
            elif indent >= width:
                at += width
            else:
                return at, depth
        return at, len(self.containers)

    def _close(self, kept: int) -> None:
        del self.containers[kept:]
        self.leaf = _Leaf.NONE

    def _opened(self, raw: str, line: str, at: int, kept: int) -> int | None:
        """Opens the containers that begin on this line, then what is in them."""
        while True:
            at += (indent := _indent(line, at))
            if at == len(line):
                self.empty_item = True
                return None
            rest = line[at:]
            if indent > 3:
                return self._indented(rest, at, kept)
            if rest[0] not in _SPECIAL:
                self._text(kept)
                return None
            inside = self.leaf is _Leaf.PARAGRAPH and kept == len(self.containers)
            item = (
                None
                if _BREAK.match(rest) or (inside and _SETEXT.match(rest))
                else _item(rest, inside)
            )
            if rest[0] != ">" and not item:
                return self._leaf(raw, rest, at, kept)
            if kept >= _MAX_DEPTH:
                self._text(kept)
                return at + _marker(rest)
            self._close(kept)
            self.containers.append(_QUOTE)
            kept += 1
            if item:
                width = _item_width(item)
                self.containers[-1] = indent + width
                at = min(at + width, len(line))
            else:
                at = _after_quote(line, at)

    def _indented(self, rest: str, at: int, kept: int) -> int | None:
        """Code, or a line of the open paragraph. Parsers disagree on markers here when a list or quote was open before it."""
        if self.leaf is not _Leaf.PARAGRAPH:
            self._close(kept)
        return at + _marker(rest) if self.outside and _MARKER.match(rest) else None

    def _leaf(self, raw: str, rest: str, at: int, kept: int) -> int | None:
        inside = self.leaf is _Leaf.PARAGRAPH and kept == len(self.containers)
        if fence := _FENCE.match(rest):
            self._close(kept)
            self.leaf, self.fence = _Leaf.FENCE, fence[1] or fence[2]
            return None
        if rest[0] == "<":
            return self._html(raw, rest, at, kept)
        if _ATX.match(rest) or (inside and _SETEXT.match(rest)):
            self._text(kept)
            return at
        if _BREAK.match(rest):
            self._close(kept)
            return None
        begins = self.leaf is not _Leaf.PARAGRAPH
        self._text(kept)
        return at if begins and _DEFINITION.match(self.text, self.start + _index(raw, at)) else None

    def _text(self, kept: int) -> None:
        """A line of a paragraph: of the open one, even where its list or quote is not continued, or of a new one."""
        if self.leaf is not _Leaf.PARAGRAPH:
            self._close(kept)
            self.leaf = _Leaf.PARAGRAPH

    def _html(self, raw: str, rest: str, at: int, kept: int) -> int | None:
        end = next((end for begin, end in _RAW if begin.match(rest)), None)
        whole_line = not end and not _BLOCK_TAG.match(
            rest
        )  # a tag that is HTML only when alone on its line, and in no paragraph
        paragraph = self.leaf is _Leaf.PARAGRAPH
        lone = whole_line and _LONE_TAG.match(rest)
        endless = end and self._last(end) < self.start + _index(raw, at)
        if endless or _DISPUTED.match(rest) or (lone and paragraph and self.outside):
            self._text(kept)
            return at
        if whole_line and (paragraph or not lone):
            self._text(kept)
            return None
        self._close(kept)
        if not end:
            self.leaf = _Leaf.HTML
        elif not end.search(rest):
            self.leaf, self.end = _Leaf.RAW, end
        return None

    def _last(self, end: re.Pattern[str]) -> int:
        """Where the text has this end for the last time. Found once per text: looking on from every line would be quadratic."""
        if end not in self.last_ends:
            self.last_ends[end] = max(
                (match.start() for match in end.finditer(self.text)), default=-1
            )
        return self.last_ends[end]


def _indent(line: str, at: int) -> int:
    return len(line) - at - len(line[at:].lstrip(" "))


def _after_quote(line: str, at: int) -> int:
    return at + 2 if line[at + 1 : at + 2] == " " else at + 1


def _item(rest: str, inside: bool) -> re.Match[str] | None:
    """The list item that begins here. Inside of a paragraph an empty one or one not numbered 1 is text."""
    item = _ITEM.match(rest)
    if item and inside and (item.end() == len(rest) or (item[2] or "1").lstrip("0") != "1"):
        return None
    return item


def _marker(rest: str) -> int:
    marker = _MARKER.match(rest)
    return marker.end() if marker else 0


def _item_width(item: re.Match[str]) -> int:
    spaces = len(item[3])
    blank = item.end() == len(item.string)
    return len(item[1]) + (1 if blank or spaces > 4 else spaces)


def _closes(rest: str, fence: str) -> bool:
    mark = rest.strip(" ")
    return len(mark) >= len(fence) and not mark.strip(fence[0]) and _indent(rest, 0) < 4


def _index(raw: str, column: int) -> int:
    """Where a column of the line is in the line as it was written, with its tabs."""
    if "\t" not in raw:
        return column
    return next(at for at in range(len(raw) + 1) if len(raw[:at].expandtabs(4)) >= column)
