"""Variables such as `{{title}}` in the formats of users. Values are inserted once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from xml.sax.saxutils import escape

from knowloom.errors import Invalid, unknown_name
from knowloom.formats.fields import LINE_BREAK

VARIABLE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
# `{text}`, `{% if %}` and `{{text|upper}}` of other languages: they would be printed as they stand.
_OTHER_SYNTAX = re.compile(r"(?<!\{)\{(\w+)\}(?!\})|\{%.*?%\}|\{\{(?!\s*\w*\s*\}\}).*?\}\}", re.S)
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape_xml(text: str) -> str:
    """Escape markup; characters that XML does not allow become U+FFFD."""
    allowed = _NOT_IN_XML.sub("\ufffd", text)
    return escape(allowed, {'"': "&quot;", "\r": "&#13;"})


ESCAPES: Mapping[str, Callable[[str], str]] = {"": lambda text: text, "xml": escape_xml}


def check_variables(place: str, text: str, allowed: Collection[str]) -> list[str]:
    """Return the variables of a text; raise Invalid for unknown ones and other languages."""
    variables = VARIABLE.findall(text)
    for variable in variables:
        if variable not in allowed:
            raise unknown_name(f"variable of {place}", variable, allowed)
    for match in _OTHER_SYNTAX.finditer(text):
        if match[1] is None or match[1] in allowed:
            example = f"{{{{{next(iter(allowed))}}}}}"
            rule = f"which is not a variable; variables are written {example}"
            raise Invalid(f"{place} has {match[0]!r}, {rule}")
    return [str(variable) for variable in variables]


def substitute(
    text: str, value: Callable[[str], str], escape: str, line_break: str | None = None
) -> str:
    """Return the text with the value of each variable, escaped and with its line breaks folded."""
    clean = ESCAPES[escape]

    def insert(match: re.Match[str]) -> str:
        return clean(fold_lines(value(match[1]), line_break))

    return VARIABLE.sub(insert, text)


def fold_lines(text: str, line_break: str | None) -> str:
    """Return the text with other line breaks; None keeps them."""
    return text if line_break is None else LINE_BREAK.sub(lambda _: line_break, text)
