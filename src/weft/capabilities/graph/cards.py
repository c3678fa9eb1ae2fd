"""What of each thing is shown, as plain fields: a card is a hit whose item has the fields as its properties and the part it goes to
as its section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.axioms.read import described
from weft.axioms.values import Axiom, Violation
from weft.capabilities.graph.layouts import AXIOMS, CLAIMS, ENTITIES, RELATIONSHIPS, VIOLATIONS
from weft.capabilities.graph.options import GraphOptions
from weft.model import Hit, Item, Key, Kind
from weft.quick import maker

DESCRIPTIONS = "property_descriptions"  # of an entity, or of a rule for its type: what properties mean; never shown as a property
_hit, _item = maker(Hit), maker(Item)


def entity(hit: Hit, options: GraphOptions, descriptions: Mapping[str, Any]) -> Hit:
    item = hit.item
    names = (
        [name for name in item.properties if name != DESCRIPTIONS][
            : options.max_properties_per_entity
        ]
        if options.include_properties
        else []
    )
    own = item.properties.get(DESCRIPTIONS)
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
        DESCRIPTIONS: {name: str(known[name]) for name in names if name in known},
    }
    return _card(hit, ENTITIES, fields, text=item.text, summary=item.summary)


def relationship(hit: Hit, names: Mapping[Key, str], options: GraphOptions) -> Hit:
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


def link(edge_hit: Hit) -> Hit:
    """A hit for a link: its item only names it."""
    edge = edge_hit.edge
    assert edge is not None
    return _with(edge_hit, Item(edge.name, edge.space, Kind.NODE, edge.type, section=RELATIONSHIPS))


def axiom(hit: Hit, one: Axiom) -> Hit:
    rule = one.description or described(one) or one.name
    return _card(
        hit,
        AXIOMS,
        {"name": one.name, "applies_to": one.target_type, "severity": one.severity, "rule": rule},
    )


def claim(hit: Hit, names: Mapping[str, str], options: GraphOptions) -> Hit:
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


def violation(one: Violation, score: float) -> Hit:
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
