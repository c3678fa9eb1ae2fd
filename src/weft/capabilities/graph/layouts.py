"""The four formats of a graph context. Every block is written from plain fields (see cards); no field can pass for structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from weft.model import Form, Hit
from weft.stages.escape import body_text, heading_text, listed_text, one_line
from weft.stages.render import (
    FORMATS,
    Layout,
    as_json,
    in_bold,
    in_quotes,
    json_like,
    link_line,
    on_one_line,
    yaml_element,
)

Fields = Mapping[str, Any]
ENTITIES, RELATIONSHIPS, AXIOMS, CLAIMS, VIOLATIONS = (
    "entities",
    "relationships",
    "axioms",
    "claims",
    "violations",
)
HEADINGS = {
    ENTITIES: "Knowledge Entities",
    RELATIONSHIPS: "Relationships",
    AXIOMS: "Domain Rules",
    CLAIMS: "Claims",
    VIOLATIONS: "Violations",
}
POINTER_FIELDS = ("type", "name", "id")


@lru_cache(maxsize=64)
def layout(format: str, separator: str) -> Layout:
    """The name holds all that the blocks depend on, as they are remembered by it."""
    made = replace(
        FORMATS[format],
        name=f"graph-{format}-{separator!r}",
        block=lambda hit, form: BLOCKS[format](section_of(hit), _fields(hit, form)),
    )
    if format in ("json", "yaml"):
        return made
    opening: Callable[[str], str] = {
        "markdown": lambda name: f"## {HEADINGS[name]}\n",
        "plain": lambda name: f"{HEADINGS[name]}:\n",
    }[format]
    return replace(
        made,
        opening=opening,
        closing="\n" if format == "markdown" else "",
        separators={ENTITIES: separator},
    )


def section_of(hit: Hit) -> str:
    return hit.item.section


def _fields(hit: Hit, form: Form) -> dict[str, Any]:
    said = hit.item.properties
    if form is not Form.WHOLE:
        said = {name: said[name] for name in said if name in POINTER_FIELDS}
    fields: dict[str, Any] = json_like(said)
    return fields | {"text": hit.item.summary} if form is Form.SUMMARY else fields


def _named(fields: Fields) -> str:
    """`Product: Kestrel 2 Tent`, in one line. A name of blanks alone is shown in quotes: it must not leave a heading behind."""
    name = one_line(fields["name"]) or as_json(fields["name"])
    id = f" (id: {one_line(fields['id'])})" if "id" in fields else ""
    return f"{one_line(fields.get('type', '')) or 'entity'}: {name}{id}"


def _markdown(section: str, fields: Fields) -> str:
    return (
        f"- {listed_text(LINES[section](fields, in_bold))}\n"
        if section != ENTITIES
        else _markdown_entity(fields)
    )


def _markdown_entity(fields: Fields) -> str:
    """The text stands in a quote, so that no line of it can pass for a property."""
    text = body_text(fields.get("text", "").strip().replace("\r\n", "\n").replace("\r", "\n"))
    quote = "".join(f"> {line}\n" if line else ">\n" for line in text.split("\n")) if text else ""
    about = fields.get("property_descriptions", {})
    facts = "".join(
        [
            f"- **{_property(key)}**: {on_one_line(value)}{_about(about, key)}\n"
            for key, value in fields.get("properties", {}).items()
        ]
    )
    return f"### {heading_text(_named(fields))}\n{quote}{facts}"


@lru_cache(maxsize=1024)
def _property(name: str) -> str:
    """The name of a property. The same few come back in every entity."""
    return in_bold(name)


def _plain(section: str, fields: Fields) -> str:
    return (
        f"- {LINES[section](fields, in_quotes)}\n" if section != ENTITIES else _plain_entity(fields)
    )


def _plain_entity(fields: Fields) -> str:
    """Only the first line is not indented; lines of the text have a bar in front, so that none can pass for a property."""
    text = [
        f"  | {one_line(line)}".rstrip() for line in fields.get("text", "").strip().splitlines()
    ]
    about = fields.get("property_descriptions", {})
    facts = [
        f"  {in_quotes(key)}: {on_one_line(value)}{_about(about, key)}"
        for key, value in fields.get("properties", {}).items()
    ]
    return "\n".join([_named(fields), *text, *facts]) + "\n"


def _about(descriptions: Fields, key: str) -> str:
    return f" ({on_one_line(descriptions[key])})" if key in descriptions else ""


def _axiom(fields: Fields, name: Callable[[str], str]) -> str:
    title = f"**{name(fields['name'])}**" if name is in_bold else name(fields["name"])
    return f"{title}: {one_line(fields['rule'])}"


def _claim(fields: Fields, name: Callable[[str], str]) -> str:
    said = [
        f"{what} {on_one_line(fields[what])}" for what in ("confidence", "status") if what in fields
    ]
    detail = f" ({', '.join(said)})" if said else ""
    evidence = (
        f"; evidence: {as_json(one_line(fields['evidence']))}" if "evidence" in fields else ""
    )
    document = f"; document: {one_line(fields['document'])}" if "document" in fields else ""
    return f"{name(fields['subject'])}, {name(fields['predicate'])}: {_object(fields.get('object'))}{detail}{evidence}{document}"


def _object(value: Any) -> str:
    """A number with its unit in words, anything else as it is."""
    if isinstance(value, Mapping) and set(value) == {"value", "unit"}:
        return f"{on_one_line(value['value'])} {on_one_line(value['unit'])}"
    return on_one_line(value)


def _violation(fields: Fields, name: Callable[[str], str]) -> str:
    rule = f" [{name(fields['rule'])}]" if "rule" in fields else ""
    return f"{fields['severity']}: {name(fields['about'])}: {one_line(fields['message'])}{rule}"


LINES: dict[str, Callable[[Fields, Callable[[str], str]], str]] = {
    RELATIONSHIPS: link_line,
    AXIOMS: _axiom,
    CLAIMS: _claim,
    VIOLATIONS: _violation,
}
BLOCKS: dict[str, Callable[[str, Fields], str]] = {
    "json": lambda _, fields: as_json(fields),
    "markdown": _markdown,
    "plain": _plain,
    "yaml": lambda _, fields: yaml_element(fields, ""),
}
