"""The formats an answer is written in, each as parts that are glued together. No part of an item can pass for structure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from knowloom.errors import unknown
from knowloom.formats.markdown_escape import (
    body_text,
    bold_text,
    heading_text,
    listed_text,
    one_line,
)
from knowloom.model import LINK, Form, Hit, Item

_LEADING_BLANK_LINES = re.compile(r"\A\s*\n")
_MARKDOWN_BREAK = re.compile(r"\r\n?")
_ANY_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

# What YAML reads back as the same text without quotes: it begins with a letter and has no sign of syntax in it.
_UNQUOTED = re.compile(
    r"(?!(?:yes|no|on|off|y|n|true|false|null)\Z)[^\W\d_](?:[\w .,;/()'?!+*=&%@-]*[\w.,;/()'?!+*=&%@-])?",
    re.I,
)
_NOT_LITERAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
as_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
FORMS = 64  # items whose names are remembered, as each is written in several forms
_LONGEST_KEY = 1000  # YAML readers look for the colon of a key within 1024 characters


@dataclass(frozen=True, slots=True)
class Layout:
    """One output format, as the parts that are glued together; what is counted is what is returned."""

    name: str
    start: str  # before the first section
    end: str  # after the last one
    opening: Callable[[str], str]  # a section's opening, from its name such as "entry_points"
    closing: str  # a section's end
    between_sections: str
    between: str  # between two blocks
    block: Callable[[Hit, Form], str]  # one item in one form
    final_newline: bool = False  # the last line break belongs to a value
    separators: Mapping[str, str] = field(
        default_factory=dict
    )  # by section, where it is not `between`
    lasting: bool = True  # a block shows nothing but the item's id, kind, type, texts, tags, properties and path, and may be remembered

    @property
    def glued(self) -> bool:
        """Whether a document is nothing but openings and blocks."""
        return not (
            self.start
            or self.end
            or self.closing
            or self.between_sections
            or self.between
            or self.separators
        )


def layout(name: str) -> Layout:
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return FORMATS[name]


def forms(item: Item) -> tuple[Form, ...]:
    """The forms worth offering, longest first."""
    text, summary = item.text.strip(), item.summary.strip()
    says_more = bool(item.properties) or (text or summary or item.name) != item.name
    return (
        Form.WHOLE,
        *([Form.SUMMARY] if 0 < len(summary) < len(text) else []),
        *([Form.POINTER] if says_more else []),
    )


def assemble(layout: Layout, sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The document. Sections without blocks are left out, and without any block it is empty. Names of sections must differ."""
    written = [
        f"{layout.opening(name)}{layout.separators.get(name, layout.between).join(blocks)}{layout.closing}"
        for name, blocks in sections
        if blocks
    ]
    if not written:
        return ""
    document = f"{layout.start}{layout.between_sections.join(written)}{layout.end}"
    return document if layout.final_newline else document.rstrip("\n")


def _section_title(name: str) -> str:
    title = one_line(name.replace("_", " "))
    return title[:1].upper() + title[1:]


def _name(item: Item) -> str:
    return one_line(item.title) or one_line(item.id)


def _body(item: Item, form: Form) -> str:
    """The summary where it is asked for or all there is, else the text; with nothing but the white space before it."""
    text = item.summary if form is Form.SUMMARY else item.text
    return text.rstrip() or item.summary.rstrip()


def _shown_properties(item: Item, form: Form) -> Mapping[str, Any]:
    return item.shown_properties if form is Form.WHOLE and item.properties else {}


def on_one_line(value: Any) -> str:
    """A text without line breaks as it is, anything else as JSON."""
    value = json_like(value)
    if isinstance(value, str) and not _ANY_BREAK.search(value):
        return value.strip()
    return _UNPRINTABLE.sub(_escaped, as_json(value))


def json_like(value: Any) -> Any:
    """What JSON and YAML give back as it was; other objects as their text."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_like(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [json_like(child) for child in value]
    return str(value)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def link_line(fields: Mapping[str, Any], name: Callable[[str], str]) -> str:
    """`Tidewater --[USES]--> Gangway`, with ids and properties where they are given; `name` writes each name."""
    ends = [
        name(fields[end]) + (f" (id: {name(fields[f'{end}_id'])})" if f"{end}_id" in fields else "")
        for end in ("from", "to")
    ]
    facts = (
        f" ({', '.join(f'{name(key)}: {on_one_line(value)}' for key, value in fields['properties'].items())})"
        if "properties" in fields
        else ""
    )
    return f"{ends[0]} --[{name(fields['type'])}]--> {ends[1]}{facts}"


def in_bold(text: str) -> str:
    return bold_text(one_line(text))


def in_quotes(text: str) -> str:
    """A name as it is, or in quotes where it has a sign in it that lines are built with."""
    line = one_line(text)
    return (
        _UNPRINTABLE.sub(_escaped, as_json(text))
        if not line
        or any(sign in line for sign in ("--[", "]-->", ": ", '"'))
        or line.endswith(":")
        else line
    )


def _markdown_section(name: str) -> str:
    return f"## {heading_text(_section_title(name))}\n\n"


def _markdown(hit: Hit, form: Form) -> str:
    if hit.found_by == LINK:
        return f"- {listed_text(link_line(hit.item.properties, in_bold))}\n"
    item = hit.item
    pointer, head = _markdown_names(item.title, item.id, item.type)
    if form is Form.POINTER:
        return f"- {listed_text(f'{pointer}, via: {hit.via}' if hit.via else pointer)}\n"  # the last sign of a line without one is a bracket
    head += (
        f"#### via: {hit.via}\n" if hit.via else ""
    )  # a heading, as that is what no text can write
    text = _body(item, form)
    if text[:1].isspace() or "\r" in text:
        text = _LEADING_BLANK_LINES.sub("", _MARKDOWN_BREAK.sub("\n", text))
    facts = [
        f"- **{bold_text(one_line(key))}**: {on_one_line(value)}\n"
        for key, value in _shown_properties(item, form).items()
    ]
    # The blank line keeps the facts out of HTML and of a list's last line.
    return (
        head
        + (f"{body_text(text)}\n\n" if text else "")
        + ("".join([*facts, "\n"]) if facts or not text else "")
    )


@lru_cache(FORMS)
def _markdown_names(title: str, id: str, type: str) -> tuple[str, str]:
    """The line that points to an item, but for its marks, and the heading of its block."""
    name, id, kind = one_line(title), one_line(id), one_line(type)
    name = name or id
    return (
        (f"{name} ({kind}, id: {id})", f"### {heading_text(f'{name} ({kind})')}\n")
        if kind
        else (f"{name} (id: {id})", f"### {heading_text(name)}\n")
    )


def _plain_section(name: str) -> str:
    return f"{_section_title(name)}:\n"


def _plain(hit: Hit, form: Form) -> str:
    """What is not indented is knowloom's: the first line, the one that says by which links it came, and properties. The first always has its brackets,
    or a title ending in a colon would be a section."""
    if hit.found_by == LINK:
        return f"- {link_line(hit.item.properties, in_quotes)}\n"
    item = hit.item
    head = f"[{one_line(item.type) or item.kind}] {_name(item)}"
    way = [f"via: {hit.via}"] if hit.via else []
    if form is Form.POINTER:
        return "\n".join([f"{head} ({one_line(item.id)})", *way]) + "\n"
    text = _body(item, form)
    if not text.isprintable():  # most are one paragraph
        text = _LEADING_BLANK_LINES.sub("", _ANY_BREAK.sub("\n", text))
    lines = [line.rstrip() for line in text.split("\n")] if text else []
    facts = [
        f"- {in_quotes(key)}: {on_one_line(value)}"
        for key, value in _shown_properties(item, form).items()
    ]
    return "\n".join([head, *way, *(line and f"  {line}" for line in lines), *facts]) + "\n"


def _fields(hit: Hit, form: Form) -> dict[str, Any]:
    """What JSON and YAML say of an item, exactly as stored; empty fields are left out."""
    item = hit.item
    text = item.text if form is Form.WHOLE else ""
    fields = {
        "id": item.id,
        "type": item.type if form is not Form.POINTER else "",
        "title": item.title,
        "via": hit.via,
        "text": text,
        "summary": item.summary
        if form is Form.SUMMARY or (form is Form.WHOLE and not text)
        else "",
        "properties": json_like(_shown_properties(item, form)),
        "tags": list(item.tags) if form is Form.WHOLE else [],
    }
    return {name: value for name, value in fields.items() if value}


def _said(hit: Hit, form: Form) -> dict[str, Any]:
    fields: dict[str, Any] = (
        json_like(hit.item.properties) if hit.found_by == LINK else _fields(hit, form)
    )
    return fields


def _json(hit: Hit, form: Form) -> str:
    return as_json(_said(hit, form))


def _json_section(name: str) -> str:
    return f"{as_json(name)}: [\n"


# Written by hand: for an item of 500 characters PyYAML's C emitter takes 130 microseconds and its Python one, used where there
# is no libyaml, 1,000; both quote every text with a blank at the end of a line. This takes 35 and reads back the same.
def _yaml(hit: Hit, form: Form) -> str:
    return yaml_element(_said(hit, form), "")


def _yaml_section(name: str) -> str:
    return _yaml_key(name, "") + ":\n"


def _yaml_entries(mapping: Mapping[str, Any], indent: str) -> str:
    return "".join(
        f"{indent}{_yaml_key(key, indent)}:{_yaml_value(value, indent + '  ')}"
        for key, value in mapping.items()
    )


def yaml_element(value: Any, indent: str) -> str:
    if isinstance(value, dict) and value:
        return f"{indent}- {_yaml_entries(value, indent + '  ').lstrip(' ')}"
    return f"{indent}-{_yaml_value(value, indent + '  ')}"


def _yaml_key(key: str, indent: str) -> str:
    written = _yaml_text(key)
    return written if len(written) < _LONGEST_KEY else f"? {written}\n{indent}"


def _yaml_value(value: Any, indent: str) -> str:
    """What follows a colon or a dash, to the end of its last line."""
    if isinstance(value, str) and _yaml_literal(value):
        lines = value.removesuffix("\n").split("\n")
        mark = "|" if value.endswith("\n") else "|-"
        return f" {mark}\n" + "".join(f"{indent}{line}\n" if line else "\n" for line in lines)
    if isinstance(value, dict) and value:
        return "\n" + _yaml_entries(value, indent)
    if isinstance(value, list) and value:
        return "\n" + "".join(yaml_element(child, indent) for child in value)
    return f" {_yaml_text(value) if isinstance(value, str) else _yaml_number(value)}\n"


def _yaml_literal(text: str) -> bool:
    """Whether the lines of the text may stand as they are: of white space around them YAML keeps only one last line break."""
    edges = (text[0], text.removesuffix("\n")[-1:]) if "\n" in text else ()
    return bool(edges) and all(edge.strip() for edge in edges) and not _NOT_LITERAL.search(text)


def _yaml_text(text: str) -> str:
    return text if _UNQUOTED.fullmatch(text) else _UNPRINTABLE.sub(_escaped, as_json(text))


def _yaml_number(value: Any) -> str:
    """Numbers, booleans, nothing and empty collections are those of JSON, but YAML wants a point before an exponent."""
    written = as_json(value)
    return (
        written.replace("e", ".0e") if isinstance(value, float) and "." not in written else written
    )


FORMATS: dict[str, Layout] = {
    "json": Layout("json", "{\n", "\n}", _json_section, "\n]", ",\n", ",\n", _json),
    "markdown": Layout("markdown", "", "", _markdown_section, "", "", "", _markdown),
    "plain": Layout("plain", "", "", _plain_section, "", "", "", _plain),
    "yaml": Layout("yaml", "", "", _yaml_section, "", "", "", _yaml, final_newline=True),
}
