"""Which prompt section each thing found belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowloom.capabilities.provider import formats
from knowloom.capabilities.provider.model import Entry, Relation, Retrieval
from knowloom.model import Hit, Item

SECTIONS = (
    "user_profile",
    "instructions",
    "context",
    "skills",
)  # these come first; any other name works as well
OTHER = "context"
BY_TYPE = {  # for a piece that names no section
    "instruction": "instructions",
    "procedure": "instructions",
    "preference": "user_profile",
    "skill": "skills",
    "fact": "context",
    "note": "context",
    "episodic": "context",
}


def routed(
    found: Retrieval, metadata_info_type: str = "user_profile"
) -> dict[str, tuple[Entry, ...]]:
    """Entries by section: profiles first, then pieces best first, then links. Sections without an entry are not there."""
    entries = [
        *profile_entries(found.metadata, metadata_info_type, ()),
        *profile_entries(found.global_metadata, metadata_info_type, found.metadata),
        *(piece_entry(hit) for hit in found.pieces),
        *(relation_entry(one, found.entity_id) for one in found.graph_context if one.piece is None),
    ]
    by_section: dict[str, list[Entry]] = {}
    for entry in entries:
        by_section.setdefault(entry.section, []).append(entry)
    names = [name for name in SECTIONS if name in by_section] + sorted(
        name for name in by_section if name not in SECTIONS
    )
    return {name: tuple(by_section[name]) for name in names}


def profile_entries(items: Sequence[Item], section: str, before: Sequence[Item]) -> Iterator[Entry]:
    """One entry per property, by name. What an earlier profile says about a name holds: the entity's before everybody's, the first
    space's before the next."""
    said = {name for item in before for name in item.properties}
    values: dict[str, tuple[Item, object]] = {}
    for item in items:
        for name, value in item.properties.items():
            if name not in said:
                values.setdefault(name, (item, value))
    for name in sorted(values):
        item, value = values[name]
        line = formats.profile_line(name, value)
        yield Entry(
            "metadata",
            section,
            name,
            item.space,
            line,
            type=item.type,
            title=name,
            text=formats.profile_value(value),
        )
    for item in items:
        if item.text.strip():
            line = formats.piece_line(item, item.text)
            yield Entry(
                "metadata",
                section,
                item.id,
                item.space,
                line,
                type=item.type,
                title=item.title,
                text=item.text,
            )


def piece_entry(hit: Hit) -> Entry:
    item = hit.item
    summary = item.summary.strip()
    return Entry(
        "piece",
        piece_section(item),
        item.id,
        item.space,
        formats.piece_line(item, item.text if item.text.strip() else summary),
        hit.score,
        formats.piece_line(item, summary) if 0 < len(summary) < len(item.text.strip()) else "",
        item.type,
        item.title,
        item.text,
        item.summary,
        item.tags,
        item.properties,
    )


def piece_section(item: Item) -> str:
    return item.section or BY_TYPE.get(item.type.lower(), OTHER)


def relation_entry(relation: Relation, entity_id: str | None) -> Entry:
    """Links from the entity tell who it is; others are background."""
    edge = relation.edge
    section = "user_profile" if edge.source == entity_id else OTHER
    line = formats.relation_line(relation, entity_id)
    title = relation.target.title
    return Entry(
        "relation",
        section,
        edge.target,
        edge.space,
        line,
        relation.score,
        type=edge.type,
        title=title,
        text=line,
        properties=edge.properties,
    )
