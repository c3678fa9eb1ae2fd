"""The single text of a provider: profiles, pieces and relations, each under a heading."""

from __future__ import annotations

from dataclasses import dataclass, replace

from knowloom.capabilities.provider.formats import entry_lines, format_piece_details
from knowloom.capabilities.provider.model import Entry, Retrieval
from knowloom.capabilities.provider.packing import Blocks, Section
from knowloom.capabilities.provider.sections import piece_entries, profile_entries, relation_entry
from knowloom.errors import Invalid
from knowloom.model import Hit
from knowloom.validation import validate_bool


@dataclass(frozen=True, slots=True)
class Outline:
    """The layout of the single text."""

    section_delimiter: str = "\n\n"
    item_delimiter: str = "\n---\n"
    include_tags: bool = True
    include_scores: bool = False

    def __post_init__(self) -> None:
        for name in ("section_delimiter", "item_delimiter"):
            value = getattr(self, name)
            if not isinstance(value, str) or not 0 < len(value) <= 1000:
                raise Invalid(f"{name} must be a string of 1 to 1,000 characters, got {value!r}")
        for name in ("include_tags", "include_scores"):
            validate_bool(name, getattr(self, name))


def outline_sections(
    retrieval: Retrieval, outline: Outline, max_tokens: int | None = None
) -> list[Section]:
    """Return the sections of the text that have entries, in a fixed order."""
    pieces = tuple(piece_entries(retrieval, max_tokens))
    blocks = tuple(
        _piece_blocks(entry, hit, outline)
        for entry, hit in zip(pieces, retrieval.pieces, strict=True)
    )
    relations = [
        replace(relation_entry(relation, retrieval.entity_id), section="Relationships")
        for relation in retrieval.graph_context
    ]
    sections = [
        _line_section("Metadata", profile_entries(retrieval.metadata, "Metadata", ())),
        _line_section(
            "Global Metadata", profile_entries(retrieval.global_metadata, "Global Metadata", ())
        ),
        Section("Knowledge", pieces, blocks, None, "[Knowledge]\n", outline.item_delimiter),
        _line_section("Relationships", relations),
    ]
    return [section for section in sections if section.entries]


def _line_section(name: str, entries: list[Entry]) -> Section:
    lines = tuple((entry.line,) for entry in entries)
    return Section(name, tuple(entries), lines, opening=f"[{name}]\n")


def _piece_blocks(entry: Entry, hit: Hit, outline: Outline) -> Blocks:
    score = hit.score if outline.include_scores else None
    details = format_piece_details(hit.item.tags if outline.include_tags else (), score)
    return tuple(f"{line}{details}" for line in entry_lines(entry))
