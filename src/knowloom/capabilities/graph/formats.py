"""What of each thing is shown, as plain fields: a card is a hit whose item has the fields as its properties and the part it goes to
as its section."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from knowloom.axioms.model import Axiom, Violation
from knowloom.axioms.parsing import describe_rules
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.construction import maker
from knowloom.formats.layout import (
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
from knowloom.formats.markdown_escape import body_text, heading_text, listed_text, one_line
from knowloom.model import Form, Hit, Item, Key, Kind

PROPERTY_DESCRIPTIONS = "property_descriptions"  # of an entity, or of a rule for its type: what properties mean; never shown as a property
_hit, _item = maker(Hit), maker(Item)


def entity_record(hit: Hit, options: GraphOptions, descriptions: Mapping[str, Any]) -> Hit:
    item = hit.item
    names = (
        [name for name in item.properties if name != PROPERTY_DESCRIPTIONS][
            : options.max_properties_per_entity
        ]
        if options.include_properties
        else []
    )
    own = item.properties.get(PROPERTY_DESCRIPTIONS)
    known = (
        {**descriptions, **(own if isinstance(own, Mapping) else {})}
        if options.include_property_descriptions
        else {}
    )
    fields = {
        "type": item.type,
        "name": item.name,
        "id": item.id if options.include_entity_ids else "",
        "text": item.text or item.summary,
        "properties": {name: item.properties[name] for name in names},
        PROPERTY_DESCRIPTIONS: {name: str(known[name]) for name in names if name in known},
    }
    return _card(hit, ENTITIES, fields, text=item.text, summary=item.summary)


def relationship_record(hit: Hit, names: Mapping[Key, str], options: GraphOptions) -> Hit:
    edge = hit.edge
    assert edge is not None
    ids = {"from_id": edge.source, "to_id": edge.target} if options.include_entity_ids else {}
    properties = (
        dict(list(edge.properties.items())[: options.max_properties_per_entity])
        if options.include_properties
        else {}
    )
    fields = {
        "from": names[edge.source_key],
        "type": edge.type,
        "to": names[edge.target_key],
        **ids,
        "properties": properties,
    }
    return _card(hit, RELATIONSHIPS, fields)


def relationship_hit(edge_hit: Hit) -> Hit:
    """A hit for a link: its item only names it."""
    edge = edge_hit.edge
    assert edge is not None
    return _with(edge_hit, Item(edge.name, edge.space, Kind.NODE, edge.type, section=RELATIONSHIPS))


def axiom_record(hit: Hit, one: Axiom) -> Hit:
    rule = one.description or describe_rules(one) or one.name
    return _card(
        hit,
        AXIOMS,
        {"name": one.name, "applies_to": one.target_type, "severity": one.severity, "rule": rule},
    )


def claim_record(hit: Hit, names: Mapping[str, str], options: GraphOptions) -> Hit:
    item, said = hit.item, hit.item.properties
    predicate = str(said.get("predicate", "")) or item.type or "says"
    fields: dict[str, Any] = {
        "subject": names.get(item.subject or "", item.subject or ""),
        "subject_id": (item.subject or "") if options.include_entity_ids else "",
        "predicate": predicate,
        "object": said.get("object", item.text or item.title),
        "confidence": item.confidence,
        "status": said.get("status"),
        "evidence": str(said.get("evidence") or item.text),
        "document": str(said.get("document") or item.source or ""),
    }
    return _card(hit, CLAIMS, fields, kept=("object",))


def violation_record(one: Violation, score: float) -> Hit:
    fields = {
        "severity": one.severity,
        "about": one.name,
        "message": one.message,
        "rule": one.axiom_name,
    }
    item = Item(
        f"{one.id}: {one.axiom or one.constraint}: {one.message}",
        one.space,
        Kind.NODE,
        one.constraint,
    )
    return _card(Hit(item, score), VIOLATIONS, fields)


def _card(
    hit: Hit,
    section: str,
    fields: Mapping[str, Any],
    kept: tuple[str, ...] = (),
    text: str = "",
    summary: str = "",
) -> Hit:
    """Fields that say nothing are left out, but for those that must be kept."""
    said = {
        name: value
        for name, value in fields.items()
        if name in kept or (value is not None and value not in ("", {}, []))
    }
    item = hit.item
    shown = _item(
        item.id,
        item.space,
        item.kind,
        item.type,
        item.title,
        text,
        summary,
        said,
        (),
        section,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        False,
    )
    return _with(hit, shown)


def _with(hit: Hit, item: Item) -> Hit:
    """The hit with another item. `replace` takes five times as long, and a request has dozens."""
    return _hit(item, hit.score, hit.signals, hit.found_by, hit.path, hit.edge, hit.links, hit.via)


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
def graph_layout(format: str, separator: str) -> Layout:
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
