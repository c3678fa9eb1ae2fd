"""Escape item text so that it cannot be mistaken for the structure of a Markdown document.

Ordinary prose is unchanged.
"""

from __future__ import annotations

import re
from enum import Enum

from knowloom.formats.fields import is_underline

# Deeper lists become text: some parsers give up at twenty levels and drop the rest.
_MAX_DEPTH = 8
_QUOTE = 0  # the width of a quote among the containers

_CLOSING_HASHES = re.compile(r"(?:^|(?<= ))(?=#+$)")
_INLINE_SYNTAX = re.compile(r"[\\`*\[\]<&]")
_LISTED_MARKER = re.compile(r"\d{1,9}(?=[.)] )|(?=#{1,6} |[-+*] |>|```|~~~|<[A-Za-z/!?]|\[.*\]:)")

# Ordinary text costs a single search for lines that may be more than prose, lists or quotes.
_SUSPECT = re.compile(
    r"\n[ >*+\-0-9.)]*(?:\t|#|```|~~~|<[A-Za-z/!?]|\[|=+[ \t]*(?:\n|\Z))"
    r"|\n[ >]*-[ -]*(?:[\t\n]|\Z)"
    rf"|\n[ >*+\-0-9.)]{{{_MAX_DEPTH + 1}}}"
)
_SPECIAL = frozenset("#=`~<>[*+-_0123456789")  # first characters that may begin a structure
_ATX = re.compile(r"#{1,6}(?: |\Z)")
_SETEXT = re.compile(r"(?:=+|-+) *\Z")
_FENCE = re.compile(r"(`{3,})[^`]*\Z|(~{3,})")
_THEMATIC_BREAK = re.compile(r"(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})\Z")
_ITEM = re.compile(r"([-+*]|(\d{1,9})[.)])( +|\Z)")
# Ends where a backslash turns the marker into text.
_MARKER = re.compile(r"\d{1,9}(?=[.)](?: |\Z))|(?=[>#`~<*+_=-])")
_LINK_DEFINITION = re.compile(
    r"""\[(?:[^\[\]\\]|\\.){1,999}\]:[ \t]*(?:\n[ \t>]*)?(?:<[^\n]*>|[^ \t\n]++)"""
    r"""[ \t]*+(?:$|["'(])""",
    re.M | re.S,
)

# Raw HTML that continues over blank lines up to its end tag; other HTML ends at a blank line.
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
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd"
    r"|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]"
    r"|head|header|hr|html|iframe|legend|li|link|main|menu|nav|noframes|ol|optgroup|option|p|param"
    r"|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)(?: |/?>|\Z)",
    re.I,
)
# Always text: CommonMark versions disagree on these tags, and parsers on unusual white space.
_DISPUTED = re.compile(r"</?(?:menuitem|search|source|textarea)\b|.*[^\S ]", re.I)
_ATTRIBUTE = r"""\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^"'=<>`\x00-\x20]+|'[^']*'|"[^"]*"))?"""
_LONE_TAG = re.compile(
    rf"(?:<[A-Za-z][A-Za-z0-9-]*(?:{_ATTRIBUTE})*\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*\Z", re.A
)


def escape_heading(text: str) -> str:
    """Escape a line for use after `### `: trailing hashes would be a closing sequence."""
    return _CLOSING_HASHES.sub(r"\\", text) if text.endswith("#") else text


def escape_list_line(text: str) -> str:
    """Escape a line for use after `- `, so that it is plain text there."""
    marker = _LISTED_MARKER.match(text)
    return f"{text[: marker.end()]}\\{text[marker.end() :]}" if marker else text


def escape_bold_text(text: str) -> str:
    """Escape a line for use between `**` marks, so that it cannot end them."""
    return _INLINE_SYNTAX.sub(r"\\\g<0>", text)


def escape_body(text: str) -> str:
    """Escape a text that forms a block of its own.

    It adds no headings, link definitions or lines like the generated ones, and leaves nothing open
    that would swallow the text after it.
    """
    if ("\n" not in text and text[:1].isalpha()) or not has_structure(text):
        return text
    reader = _LineReader(text)
    lines = [reader.read(line) for line in text.split("\n")]
    return "\n".join([*lines, *reader.close()])


def has_structure(text: str) -> bool:
    """Return True if a text may contain more than prose, lists and quotes, wherever it is cut."""
    return bool(_SUSPECT.search("\n" + text)) or any(map(_looks_generated, text.split("\n")))


def _looks_generated(line: str) -> bool:
    """Return True if a line looks like a generated property, pointer or relationship.

    Such lines in texts get another list mark, which means the same in Markdown. Without a regular
    expression, which would be quadratic in the length of a hostile line.
    """
    if not line.startswith("- "):
        return False
    is_property = line.startswith("- **") and "**: " in line
    is_pointer = line.endswith(")") and "id: " in line
    return is_property or is_pointer or "]--> " in line.partition("--[")[2]


class _Leaf(Enum):
    NONE = "none"
    PARAGRAPH = "paragraph"
    FENCE = "fence"
    RAW = "raw"  # HTML up to its end tag
    HTML = "html"  # HTML up to a blank line


class _LineReader:
    """A line-by-line CommonMark reader with the state that the next line depends on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = 0  # offset of the current line in the text
        # From the outside in: a quote, or the indent of a list item's lines.
        self.containers: list[int] = []
        self.is_item_empty = False  # the last line opened a list item without content
        self.is_outside = False  # the current line does not continue all containers
        self.leaf = _Leaf.NONE
        self.fence = ""
        self.end = _RAW[0][1]
        self.last_ends: dict[re.Pattern[str], int] = {}

    def close(self) -> list[str]:
        """Return the closing fence of open code; one inside a list or quote ends with it."""
        return [self.fence] if self.leaf is _Leaf.FENCE and not self.containers else []

    def read(self, raw: str) -> str:
        """Return the line, with a backslash before anything that would read as structure."""
        line = raw.expandtabs(4)
        # Parsers disagree on whether blanks continue an empty list item; they agree on empty lines.
        output = raw.rstrip(" \t") if self.is_item_empty and not line.strip(" >") else raw
        is_code = self.leaf in (_Leaf.FENCE, _Leaf.RAW)
        column = self._process(raw, line)
        self.start += len(raw) + 1
        if column is None:
            return f"*{output[1:]}" if not is_code and _looks_generated(output) else output
        at = _raw_index(raw, column)
        return f"{raw[:at]}\\{raw[at:]}"

    def _process(self, raw: str, line: str) -> int | None:
        """Process a line; return the column that needs a backslash, if any."""
        at, depth = self._continue_containers(line)
        rest = line[at:]
        self.is_outside = depth < len(self.containers)
        if self.is_outside and self.leaf is not _Leaf.PARAGRAPH:
            self._close(depth)
        self.is_item_empty = False
        if self.leaf is _Leaf.FENCE:
            self.leaf = _Leaf.NONE if _closes(rest, self.fence) else _Leaf.FENCE
            return None
        if self.leaf is _Leaf.RAW:
            self.leaf = _Leaf.NONE if self.end.search(rest) else _Leaf.RAW
            return None
        if not rest.strip(" "):
            self._close(depth)
            return None
        if self.leaf is _Leaf.HTML:
            at += _indent(line, at)
            return at if _ATX.match(line[at:]) else None
        return self._open_containers(raw, line, at, depth)

    def _continue_containers(self, line: str) -> tuple[int, int]:
        """Return the column after the markers of open containers, and how many are continued."""
        at = 0
        for depth, width in enumerate(self.containers):
            indent = _indent(line, at)
            blank = at + indent == len(line)
            if width == _QUOTE:
                if indent > 3 or blank or line[at + indent] != ">":
                    return at, depth
                at = _after_quote(line, at + indent)
            elif blank:
                if self.is_item_empty and depth == len(self.containers) - 1:
                    return at, depth
                at = min(at + width, len(line))
            elif indent >= width:
                at += width
            else:
                return at, depth
        return at, len(self.containers)

    def _close(self, depth: int) -> None:
        del self.containers[depth:]
        self.leaf = _Leaf.NONE

    def _open_containers(self, raw: str, line: str, at: int, depth: int) -> int | None:
        """Open the containers that begin on this line, then the leaf block in them."""
        while True:
            at += (indent := _indent(line, at))
            if at == len(line):
                self.is_item_empty = True
                return None
            rest = line[at:]
            if indent > 3:
                return self._read_indented(rest, at, depth)
            if rest[0] not in _SPECIAL:
                self._read_paragraph(depth)
                return None
            inside = self.leaf is _Leaf.PARAGRAPH and depth == len(self.containers)
            item = (
                None
                if _THEMATIC_BREAK.match(rest) or (inside and _SETEXT.match(rest))
                else _match_item(rest, inside)
            )
            if rest[0] != ">" and not item:
                return self._open_leaf(raw, rest, at, depth)
            if depth >= _MAX_DEPTH:
                self._read_paragraph(depth)
                return at + _marker_end(rest)
            self._close(depth)
            self.containers.append(_QUOTE)
            depth += 1
            if item:
                width = _item_width(item)
                self.containers[-1] = indent + width
                at = min(at + width, len(line))
            else:
                at = _after_quote(line, at)

    def _read_indented(self, rest: str, at: int, depth: int) -> int | None:
        """Process indented code or a continued paragraph.

        Parsers disagree on markers here if a list or quote was open before.
        """
        if self.leaf is not _Leaf.PARAGRAPH:
            self._close(depth)
        return at + _marker_end(rest) if self.is_outside and _MARKER.match(rest) else None

    def _open_leaf(self, raw: str, rest: str, at: int, depth: int) -> int | None:
        inside = self.leaf is _Leaf.PARAGRAPH and depth == len(self.containers)
        if inside and is_underline(self.text, self.start, self.start + len(raw)):
            self._read_paragraph(depth)
            return at
        if fence := _FENCE.match(rest):
            self._close(depth)
            self.leaf, self.fence = _Leaf.FENCE, fence[1] or fence[2]
            return None
        if rest[0] == "<":
            return self._open_html(raw, rest, at, depth)
        if _ATX.match(rest) or (inside and _SETEXT.match(rest)):
            self._read_paragraph(depth)
            return at
        if _THEMATIC_BREAK.match(rest):
            self._close(depth)
            return None
        begins = self.leaf is not _Leaf.PARAGRAPH
        self._read_paragraph(depth)
        return (
            at
            if begins and _LINK_DEFINITION.match(self.text, self.start + _raw_index(raw, at))
            else None
        )

    def _read_paragraph(self, depth: int) -> None:
        """Continue the open paragraph, even outside its list or quote, or begin a new one."""
        if self.leaf is not _Leaf.PARAGRAPH:
            self._close(depth)
            self.leaf = _Leaf.PARAGRAPH

    def _open_html(self, raw: str, rest: str, at: int, depth: int) -> int | None:
        end = next((end for begin, end in _RAW if begin.match(rest)), None)
        # Other tags are HTML only if alone on their line and in no paragraph.
        is_other = not end and not _BLOCK_TAG.match(rest)
        in_paragraph = self.leaf is _Leaf.PARAGRAPH
        is_lone = is_other and _LONE_TAG.match(rest)
        is_endless = end and self._last_end(end) < self.start + _raw_index(raw, at)
        if is_endless or _DISPUTED.match(rest) or (is_lone and in_paragraph and self.is_outside):
            self._read_paragraph(depth)
            return at
        if is_other and (in_paragraph or not is_lone):
            self._read_paragraph(depth)
            return None
        self._close(depth)
        if not end:
            self.leaf = _Leaf.HTML
        elif not end.search(rest):
            self.leaf, self.end = _Leaf.RAW, end
        return None

    def _last_end(self, end: re.Pattern[str]) -> int:
        """Return the last offset of an end tag, cached: a search per line would be quadratic."""
        if end not in self.last_ends:
            self.last_ends[end] = max(
                (match.start() for match in end.finditer(self.text)), default=-1
            )
        return self.last_ends[end]


def _indent(line: str, at: int) -> int:
    return len(line) - at - len(line[at:].lstrip(" "))


def _after_quote(line: str, at: int) -> int:
    return at + 2 if line[at + 1 : at + 2] == " " else at + 1


def _match_item(rest: str, inside: bool) -> re.Match[str] | None:
    """Match a list item. Inside a paragraph, empty ones and numbers other than 1 are text."""
    item = _ITEM.match(rest)
    if item and inside and (item.end() == len(rest) or (item[2] or "1").lstrip("0") != "1"):
        return None
    return item


def _marker_end(rest: str) -> int:
    marker = _MARKER.match(rest)
    return marker.end() if marker else 0


def _item_width(item: re.Match[str]) -> int:
    spaces = len(item[3])
    blank = item.end() == len(item.string)
    return len(item[1]) + (1 if blank or spaces > 4 else spaces)


def _closes(rest: str, fence: str) -> bool:
    mark = rest.strip(" ")
    return len(mark) >= len(fence) and not mark.strip(fence[0]) and _indent(rest, 0) < 4


def _raw_index(raw: str, column: int) -> int:
    """Return the index of a column in the raw line, which may have tabs."""
    if "\t" not in raw:
        return column
    return next(at for at in range(len(raw) + 1) if len(raw[:at].expandtabs(4)) >= column)
