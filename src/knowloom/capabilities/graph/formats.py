"""Formats of a graph context.

A record is a hit whose item has the fields to show as its properties and its part of the answer as
its section; `graph_layout` writes records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from knowloom.axioms.model import Axiom, Violation
from knowloom.axioms.parsing import describe_rules
from knowloom.caching import cached
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.construction import fast_constructor
from knowloom.context.packing import SEE_ALSO
from knowloom.formats.custom import resolve_layout
from knowloom.formats.fields import (
    encode_json,
    format_relationship,
    format_value,
    quote_name,
    to_json_value,
)
from knowloom.formats.layout import FORMATS, Layout
from knowloom.formats.markdown import escape_bold
from knowloom.formats.markdown_escape import escape_body, escape_heading, escape_list_line
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.formats.substitution import substitute
from knowloom.formats.yaml import format_element
from knowloom.model import ContextFormat, Form, Hit, Item, Key, Kind, Passage
from knowloom.text.normalisation import collapse_whitespace

ENTITIES = "entities"
RELATIONSHIPS = "relationships"
AXIOMS = "axioms"
CLAIMS = "claims"
VIOLATIONS = "violations"
HEADINGS = {
    ENTITIES: "Knowledge Entities",
    RELATIONSHIPS: "Relationships",
    AXIOMS: "Domain Rules",
    CLAIMS: "Claims",
    VIOLATIONS: "Violations",
    SEE_ALSO: "See Also",
}
POINTER_FIELDS = ("type", "name", "id")
# A property of an entity, or of a rule for its type, that describes the other ones; never shown.
PROPERTY_DESCRIPTIONS = "property_descriptions"

Fields = Mapping[str, Any]
_hit, _item = fast_constructor(Hit), fast_constructor(Item)


def entity_record(hit: Hit, options: GraphOptions, descriptions: Fields) -> Hit:
    """Return the record of an entity; `descriptions` are those of the properties of its type."""
    item = hit.item
    names: list[str] = []
    if options.include_properties:
        names = [name for name in item.properties if name != PROPERTY_DESCRIPTIONS]
        names = names[: options.max_properties_per_entity]
    if options.include_property_descriptions:
        overrides = item.properties.get(PROPERTY_DESCRIPTIONS)
        if isinstance(overrides, Mapping):
            descriptions = {**descriptions, **overrides}
    else:
        descriptions = {}
    fields = {
        "type": item.type,
        "name": item.name,
        "id": item.id if options.include_entity_ids else "",
        "text": item.text or item.summary,
        "properties": {name: item.properties[name] for name in names},
        PROPERTY_DESCRIPTIONS: {
            name: str(descriptions[name]) for name in names if name in descriptions
        },
    }
    return _make_record(hit, ENTITIES, fields, text=item.text, summary=item.summary)


def relationship_record(hit: Hit, names: Mapping[Key, str], options: GraphOptions) -> Hit:
    """Return the record of an edge; `names` are those of its ends."""
    edge = hit.edge
    assert edge is not None
    ids = {"from_id": edge.source, "to_id": edge.target} if options.include_entity_ids else {}
    properties = {}
    if options.include_properties:
        properties = dict(list(edge.properties.items())[: options.max_properties_per_entity])
    fields = {
        "from": names[edge.source_key],
        "type": edge.type,
        "to": names[edge.target_key],
        **ids,
        "properties": properties,
    }
    return _make_record(hit, RELATIONSHIPS, fields)


def relationship_hit(hit: Hit) -> Hit:
    """Return the hit of an edge with an item that names it."""
    edge = hit.edge
    assert edge is not None
    return _with_item(hit, Item(edge.name, edge.space, Kind.NODE, edge.type, section=RELATIONSHIPS))


def axiom_record(hit: Hit, axiom: Axiom) -> Hit:
    """Return the record of an axiom."""
    fields = {
        "name": axiom.name,
        "applies_to": axiom.target_type,
        "severity": axiom.severity,
        "rule": axiom.description or describe_rules(axiom) or axiom.name,
    }
    return _make_record(hit, AXIOMS, fields)


def claim_record(hit: Hit, names: Mapping[str, str], options: GraphOptions) -> Hit:
    """Return the record of a claim; `names` are those of the entities by id."""
    item, claim, subject = hit.item, hit.item.properties, hit.item.subject or ""
    fields: dict[str, Any] = {
        "subject": names.get(subject, subject),
        "subject_id": subject if options.include_entity_ids else "",
        "predicate": str(claim.get("predicate", "")) or item.type or "says",
        "object": claim.get("object", item.text or item.title),
        "confidence": item.confidence,
        "status": claim.get("status"),
        "evidence": str(claim.get("evidence") or item.text),
        "document": str(claim.get("document") or item.source or ""),
    }
    return _make_record(hit, CLAIMS, fields, required=("object",))


def violation_record(violation: Violation, score: float) -> Hit:
    """Return the record of a violation."""
    fields = {
        "severity": violation.severity,
        "about": violation.name,
        "message": violation.message,
        "rule": violation.axiom_name,
    }
    rule = violation.axiom or violation.constraint
    id = f"{violation.id}: {rule}: {violation.message}"
    item = Item(id, violation.space, Kind.NODE, violation.constraint)
    return _make_record(Hit(item, score), VIOLATIONS, fields)


def _make_record(
    hit: Hit,
    section: str,
    fields: Fields,
    required: tuple[str, ...] = (),
    text: str = "",
    summary: str = "",
) -> Hit:
    """Return a record without the empty fields, except for the required ones."""
    shown = {
        name: value
        for name, value in fields.items()
        if name in required or (value is not None and value not in ("", {}, []))
    }
    item = hit.item
    names = (item.id, item.space, item.kind, item.type, item.title)
    rest = (*(None,) * 6, item.source, None)  # the fields from `subject` to `embedding_text`
    values = (*names, text, summary, shown, item.tags, section, *rest, False, item.trust)
    return _with_item(hit, _item(*values))


def _with_item(hit: Hit, item: Item) -> Hit:
    # `replace` takes five times as long, and a request has dozens of records.
    signals, edge, via = hit.signals, hit.edge, hit.via
    passages = hit.passages if item.text == hit.item.text else ()
    return _hit(item, hit.score, signals, hit.found_by, hit.path, edge, hit.links, via, passages)


@cached("graph formats", 64)
def graph_layout(format: str | ContextFormat, separator: str) -> Layout:
    """Return the layout that writes records; blocks are cached by its name."""
    if isinstance(format, ContextFormat):
        return _custom_layout(format)
    format_block = BLOCKS[format]
    layout = replace(
        FORMATS[format],
        name=f"graph-{format}-{separator!r}",
        block=lambda hit, form, passages=(): format_block(
            hit.item.section, _select_fields(hit, form, passages)
        ),
    )
    if format in ("json", "yaml"):
        return layout
    opening: Callable[[str], str] = {
        "markdown": lambda name: f"## {HEADINGS[name]}\n",
        "plain": lambda name: f"{HEADINGS[name]}:\n",
    }[format]
    return replace(
        layout,
        opening=opening,
        closing="\n" if format == "markdown" else "",
        separators={ENTITIES: separator},
    )


def _custom_layout(format: ContextFormat) -> Layout:
    """Return the layout of a user: entities are its items, lines of other sections its links."""
    layout, style = resolve_layout(format), (format.escape, format.line_break)

    def block(record: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
        item = record.item
        if item.section in LINES:
            line = LINES[item.section](to_json_value(item.properties), quote_name)
            return substitute(format.link, lambda _: line, *style)
        properties = item.properties.get("properties", {})
        entity = _with_item(record, replace(item, properties=properties))
        return layout.block(entity, form, passages)

    return replace(
        layout,
        opening=lambda name: substitute(format.section, lambda _: HEADINGS[name], *style),
        block=block,
    )


def _select_fields(hit: Hit, form: Form, passages: Sequence[Passage]) -> dict[str, Any]:
    shown = hit.item.properties
    if form is not Form.WHOLE:
        shown = {name: shown[name] for name in shown if name in POINTER_FIELDS}
    fields: dict[str, Any] = to_json_value(shown)
    if form is Form.EXCERPT:
        return fields | {"text": join_runs(excerpt_runs(hit, passages))}
    return fields | {"text": hit.item.summary} if form is Form.SUMMARY else fields


def _format_title(fields: Fields) -> str:
    """Return `Product: Kestrel 2 Tent` on one line. A blank name is quoted, as it would leave an
    empty heading."""
    name = collapse_whitespace(fields["name"]) or encode_json(fields["name"])
    id = f" (id: {collapse_whitespace(fields['id'])})" if "id" in fields else ""
    return f"{collapse_whitespace(fields.get('type', '')) or 'entity'}: {name}{id}"


def _format_markdown(section: str, fields: Fields) -> str:
    if section == ENTITIES:
        return _format_markdown_entity(fields)
    return f"- {escape_list_line(LINES[section](fields, escape_bold))}\n"


def _format_markdown_entity(fields: Fields) -> str:
    """Write an entity with its text as a quote, so that no line of it can pass for a property."""
    text = escape_body(fields.get("text", "").strip().replace("\r\n", "\n").replace("\r", "\n"))
    quote = "".join(f"> {line}\n" if line else ">\n" for line in text.split("\n")) if text else ""
    descriptions = fields.get(PROPERTY_DESCRIPTIONS, {})
    properties = "".join(
        [
            f"- **{_escape_name(key)}**: {format_value(value)}{_format_note(descriptions, key)}\n"
            for key, value in fields.get("properties", {}).items()
        ]
    )
    return f"### {escape_heading(_format_title(fields))}\n{quote}{properties}"


@cached("graph fields", 1024)
def _escape_name(name: str) -> str:
    """Escape the name of a property; the same few occur in all entities."""
    return escape_bold(name)


def _format_plain(section: str, fields: Fields) -> str:
    if section == ENTITIES:
        return _format_plain_entity(fields)
    return f"- {LINES[section](fields, quote_name)}\n"


def _format_plain_entity(fields: Fields) -> str:
    """Write an entity with all but the first line indented, and a bar before lines of its text, so
    that none can pass for a property."""
    lines = fields.get("text", "").strip().splitlines()
    text = [f"  | {collapse_whitespace(line)}".rstrip() for line in lines]
    descriptions = fields.get(PROPERTY_DESCRIPTIONS, {})
    properties = [
        f"  {quote_name(key)}: {format_value(value)}{_format_note(descriptions, key)}"
        for key, value in fields.get("properties", {}).items()
    ]
    return "\n".join([_format_title(fields), *text, *properties]) + "\n"


def _format_note(descriptions: Fields, key: str) -> str:
    return f" ({format_value(descriptions[key])})" if key in descriptions else ""


def _format_axiom(fields: Fields, name: Callable[[str], str]) -> str:
    title = f"**{name(fields['name'])}**" if name is escape_bold else name(fields["name"])
    return f"{title}: {collapse_whitespace(fields['rule'])}"


def _format_claim(fields: Fields, name: Callable[[str], str]) -> str:
    line = f"{name(fields['subject'])}, {name(fields['predicate'])}: "
    line += _format_object(fields.get("object"))
    details = [
        f"{key} {format_value(fields[key])}" for key in ("confidence", "status") if key in fields
    ]
    if details:
        line += f" ({', '.join(details)})"
    if "evidence" in fields:
        line += f"; evidence: {encode_json(collapse_whitespace(fields['evidence']))}"
    if "document" in fields:
        line += f"; document: {collapse_whitespace(fields['document'])}"
    return line


def _format_object(value: Any) -> str:
    """Return a number with a unit in words, another value as it is."""
    if isinstance(value, Mapping) and set(value) == {"value", "unit"}:
        return f"{format_value(value['value'])} {format_value(value['unit'])}"
    return format_value(value)


def _format_violation(fields: Fields, name: Callable[[str], str]) -> str:
    rule = f" [{name(fields['rule'])}]" if "rule" in fields else ""
    message = collapse_whitespace(fields["message"])
    return f"{fields['severity']}: {name(fields['about'])}: {message}{rule}"


LINES: dict[str, Callable[[Fields, Callable[[str], str]], str]] = {
    RELATIONSHIPS: format_relationship,
    AXIOMS: _format_axiom,
    CLAIMS: _format_claim,
    VIOLATIONS: _format_violation,
}
BLOCKS: dict[str, Callable[[str, Fields], str]] = {
    "json": lambda _, fields: encode_json(fields),
    "markdown": _format_markdown,
    "plain": _format_plain,
    "yaml": lambda _, fields: format_element(fields, ""),
}
