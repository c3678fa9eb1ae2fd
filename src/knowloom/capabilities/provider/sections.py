"""Routing of retrieved profiles, pieces and relations to prompt sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowloom.capabilities.provider import formats
from knowloom.capabilities.provider.model import Entry, Relation, Retrieval
from knowloom.capabilities.provider.packing import SHARPNESS
from knowloom.context.excerpts import Part, grow_excerpts, merge_ranges, select_parts
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.model import UNTRUSTED, Hit, Item

SECTIONS = ("user_profile", "instructions", "context", "skills")  # first; others follow by name
DEFAULT_SECTION = "context"
SECTION_BY_TYPE = {  # for a piece without a section
    "instruction": "instructions",
    "procedure": "instructions",
    "preference": "user_profile",
    "skill": "skills",
    "fact": "context",
    "note": "context",
    "episodic": "context",
}


def route_entries(
    retrieval: Retrieval, metadata_section: str, max_tokens: int | None = None
) -> dict[str, tuple[Entry, ...]]:
    """Return entries by section: profiles, then pieces best first, then relations.

    Sections without entries are absent. With a budget, long pieces have excerpts.
    """
    entries = [
        *profile_entries(retrieval.metadata, metadata_section, ()),
        *profile_entries(retrieval.global_metadata, metadata_section, retrieval.metadata),
        *piece_entries(retrieval, max_tokens),
        *(
            relation_entry(relation, retrieval.entity_id)
            for relation in retrieval.graph_context
            if relation.piece is None
        ),
    ]
    by_section: dict[str, list[Entry]] = {}
    for entry in entries:
        by_section.setdefault(entry.section, []).append(entry)
    first = [name for name in SECTIONS if name in by_section]
    names = first + sorted(name for name in by_section if name not in SECTIONS)
    return {name: tuple(by_section[name]) for name in names}


def profile_entries(
    profiles: Sequence[Item], section: str, overriding: Sequence[Item]
) -> list[Entry]:
    """Return one entry per property, by name, then one per profile with a text.

    A property of an earlier profile wins: the entity's over the global one, the first space's over
    the next. Properties of `overriding` are skipped.
    """
    hidden = {name for profile in overriding for name in profile.properties}
    winners: dict[str, Item] = {}
    for profile in profiles:
        for name in profile.properties:
            if name not in hidden:
                winners.setdefault(name, profile)
    properties = [_property_entry(winners[name], name, section) for name in sorted(winners)]
    texts = [_text_entry(profile, section) for profile in profiles if profile.text.strip()]
    return properties + texts


def _choose_section(item: Item) -> str:
    """Return the section of a piece; untrusted text is never shown as instructions."""
    section = item.section or SECTION_BY_TYPE.get(item.type.lower(), DEFAULT_SECTION)
    is_untrusted = section == "instructions" and item.trust == UNTRUSTED
    return DEFAULT_SECTION if is_untrusted else section


def _property_entry(profile: Item, name: str, section: str) -> Entry:
    value = profile.properties[name]
    return Entry(
        kind="metadata",
        section=section,
        id=name,
        space=profile.space,
        line=formats.format_property(name, value),
        type=profile.type,
        title=name,
        text=formats.format_value(value),
    )


def _text_entry(profile: Item, section: str) -> Entry:
    return Entry(
        kind="metadata",
        section=section,
        id=profile.id,
        space=profile.space,
        line=formats.format_piece(profile, profile.text),
        type=profile.type,
        title=profile.title,
        text=profile.text,
    )


def piece_entries(retrieval: Retrieval, max_tokens: int | None) -> list[Entry]:
    """Return the pieces as entries; with a budget, long ones have excerpts for the query."""
    hits = retrieval.pieces
    entries = [piece_entry(hit) for hit in hits]
    if max_tokens is None:
        return entries
    sharpness = [SHARPNESS] * len(hits)
    for number, parts in select_parts(hits, sharpness, retrieval.query, max_tokens).items():
        entry, hit = entries[number], hits[number]
        excerpts = [_excerpt_entry(entry, hit, excerpt) for excerpt in grow_excerpts(parts)]
        entries[number] = replace(entry, excerpts=tuple(excerpts))
    return entries


def _excerpt_entry(entry: Entry, hit: Hit, parts: Sequence[Part]) -> Entry:
    ranges = merge_ranges(hit.item.text, [part.range for part in parts])
    text = join_runs(excerpt_runs(hit, ranges))
    worth = sum(part.value for part in parts)
    return replace(entry, text=text, line=formats.format_piece(hit.item, text), worth=worth)


def piece_entry(hit: Hit) -> Entry:
    item = hit.item
    text, summary = item.text.strip(), item.summary.strip()
    return Entry(
        kind="piece",
        section=_choose_section(item),
        id=item.id,
        space=item.space,
        line=formats.format_piece(item, item.text if text else summary),
        score=hit.score,
        short=formats.format_piece(item, summary) if 0 < len(summary) < len(text) else "",
        type=item.type,
        title=item.title,
        text=item.text,
        summary=item.summary,
        tags=item.tags,
        properties=item.properties,
    )


def relation_entry(relation: Relation, entity_id: str | None) -> Entry:
    """Return an entry of the user profile for the entity's own edges, of the context otherwise."""
    edge = relation.edge
    line = formats.format_relation(relation, entity_id)
    return Entry(
        kind="relation",
        section="user_profile" if edge.source == entity_id else DEFAULT_SECTION,
        id=edge.target,
        space=edge.space,
        line=line,
        score=relation.score,
        type=edge.type,
        title=relation.target.title,
        text=line,
        properties=edge.properties,
    )
