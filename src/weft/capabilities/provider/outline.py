"""Everything found as one text: profiles, pieces and links under a heading each, in an order that never changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.capabilities.provider import lines
from weft.capabilities.provider.fitting import Blocks, Section
from weft.capabilities.provider.route import piece_entry, profile_entries, relation_entry
from weft.capabilities.provider.values import Entry, Retrieval
from weft.errors import Invalid
from weft.model import Hit


@dataclass(frozen=True, slots=True)
class Outline:
    """How the one text is written."""

    section_delimiter: str = "\n\n"
    item_delimiter: str = "\n---\n"
    include_tags: bool = True
    include_scores: bool = False

    def __post_init__(self) -> None:
        for name in ("section_delimiter", "item_delimiter"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value or len(value) > 1000:
                raise Invalid(f"{name} must be a text of 1 to 1,000 characters, not {value!r}")
        for name in ("include_tags", "include_scores"):
            if not isinstance(getattr(self, name), bool):
                raise Invalid(f"{name} must be true or false, not {getattr(self, name)!r}")


def sections(found: Retrieval, outline: Outline) -> list[Section]:
    """The parts of the text that have something to say."""
    pieces = tuple(piece_entry(hit) for hit in found.pieces)
    blocks = tuple(
        _blocks(entry, hit, outline) for entry, hit in zip(pieces, found.pieces, strict=True)
    )
    parts = [
        _lined("Metadata", tuple(profile_entries(found.metadata, "Metadata", ()))),
        _lined(
            "Global Metadata", tuple(profile_entries(found.global_metadata, "Global Metadata", ()))
        ),
        Section(
            "Knowledge", pieces, blocks, opening="[Knowledge]\n", between=outline.item_delimiter
        ),
        _lined(
            "Relationships",
            tuple(
                replace(relation_entry(one, found.entity_id), section="Relationships")
                for one in found.graph_context
            ),
        ),
    ]
    return [part for part in parts if part.entries]


def _lined(name: str, entries: tuple[Entry, ...]) -> Section:
    return Section(name, entries, tuple((entry.line,) for entry in entries), opening=f"[{name}]\n")


def _blocks(entry: Entry, hit: Hit, outline: Outline) -> Blocks:
    below = lines.piece_below(hit.item, hit.score, outline.include_tags, outline.include_scores)
    return tuple(f"{line}{below}" for line in (entry.line, entry.short) if line)
