"""Everything found as one text: profiles, pieces and links under a heading each, in an order that never changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowloom.capabilities.provider.model import Entry, Relation, Retrieval
from knowloom.capabilities.provider.packing import Blocks, Section
from knowloom.capabilities.provider.sections import piece_entry, profile_entries, relation_entry
from knowloom.errors import Invalid, KnowloomError
from knowloom.formats.markdown_escape import one_line
from knowloom.model import Hit, Item
from knowloom.templates.template import Template


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
    below = piece_below(hit.item, hit.score, outline.include_tags, outline.include_scores)
    return tuple(f"{line}{below}" for line in (entry.line, entry.short) if line)


_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
DEEPER = "    "  # than the lines below a piece, so that a text cannot pass for them


def profile_value(value: Any) -> str:
    """A text without line breaks as it is, anything else as JSON."""
    if isinstance(value, str) and not _BREAK.search(value):
        return value.strip()
    return _BREAK.sub(
        lambda found: f"\\u{ord(found[0]):04x}",
        json.dumps(value, ensure_ascii=False, sort_keys=True),
    )


def profile_line(name: str, value: Any) -> str:
    return f"{one_line(name)}: {profile_value(value)}"


def piece_line(item: Item, text: str) -> str:
    """`[procedure] Title: the text`, its further lines indented."""
    said = ": ".join(
        part for part in (one_line(item.title), text.strip()) if part
    ) or properties_text(item.properties)
    return indented(f"[{one_line(item.type) or item.kind.value}] {said}")


def piece_below(item: Item, score: float, include_tags: bool, include_scores: bool) -> str:
    """The lines below a piece, each with its line break in front."""
    tags = (
        f"\n  Tags: {', '.join(one_line(tag) for tag in item.tags)}"
        if include_tags and item.tags
        else ""
    )
    return tags + (f"\n  Score: {score:.2f}" if include_scores else "")


def relation_line(relation: Relation, entity_id: str | None) -> str:
    """`USES → Technique:les (what for)`; with its source in front where that is not the entity."""
    edge, target = relation.edge, relation.target
    source = "" if edge.source == entity_id else f"{_named(relation.source)} "
    about = str(edge.properties.get("description") or target.title or "")
    shown = _named(target)
    about = "" if one_line(about) in ("", shown, target.id) else f" ({one_line(about)})"
    return f"{source}{one_line(edge.type)} → {shown}{about}"


def properties_text(properties: Mapping[str, Any]) -> str:
    return "; ".join(profile_line(name, properties[name]) for name in sorted(properties))


def indented(text: str) -> str:
    lines = [line.rstrip() for line in _BREAK.split(text)]
    return "\n".join([lines[0], *(line and DEEPER + line for line in lines[1:])])


def _named(item: Item) -> str:
    """`Technique:les` for the technique with the id `technique:les` or `les`."""
    kind = one_line(item.type)
    own = one_line(item.id)
    if not kind:
        return own
    rest = own[len(kind) + 1 :] if own.lower().startswith(f"{kind.lower()}:") else own
    return f"{kind[:1].upper()}{kind[1:]}:{rest}"


Format = str | Template | Callable[[Sequence[Entry]], str]

OTHERS = "*"  # the format of every section that has none of its own
VALUES = tuple(Entry("", "", "", "", "").values())


def checked(formats: Mapping[str, Format]) -> dict[str, Format]:
    """The formats, with texts as `.format` templates; what can never work is refused, with the section's name and the line."""
    if not isinstance(formats, Mapping):
        raise Invalid(
            f"formats must be a mapping of sections to formats, not {type(formats).__name__}"
        )
    found: dict[str, Format] = {}
    for name, given in formats.items():
        if not isinstance(name, str):
            raise Invalid(f"formats: a section is named by text, not by {name!r}")
        if not isinstance(given, str | Template) and not callable(given):
            raise Invalid(
                f"formats: {name!r} must be a .format text, a Template or a function, not {type(given).__name__}"
            )
        form = Template(given, "format") if isinstance(given, str) else given
        if isinstance(form, Template):
            form.check(name, VALUES)
        found[name] = form
    return found


def section(
    name: str, entries: tuple[Entry, ...], formats: Mapping[str, Format], cap: int | None
) -> Section:
    """A section ready to be fitted. A `.format` text that fails for an entry is an error with its name."""
    form = formats.get(name, formats.get(OTHERS))
    if form is None:
        return Section(name, entries, tuple(_own(entry) for entry in entries), cap=cap)
    if isinstance(form, Template) and form.engine == "format":
        return Section(
            name, entries, tuple((form.render(name, entry.values()),) for entry in entries), cap=cap
        )
    return Section(
        name,
        entries,
        whole=_by_template(name, form) if isinstance(form, Template) else _by_function(name, form),
        cap=cap,
    )


def _own(entry: Entry) -> Blocks:
    return (entry.line, entry.short) if entry.short else (entry.line,)


def _by_template(name: str, template: Template) -> Callable[[Sequence[Entry]], str]:
    return lambda entries: template.render(
        name, {"section": name, "entries": [entry.values() for entry in entries]}
    )


def _by_function(name: str, function: Any) -> Callable[[Sequence[Entry]], str]:
    def written(entries: Sequence[Entry]) -> str:
        try:
            text = function(tuple(entries))
        except KnowloomError:
            raise
        except Exception as error:  # the user's code may raise anything; the other sections stand
            raise Invalid(
                f"the format of {name!r} failed: {type(error).__name__}: {error}", "format_failed"
            ) from error
        if not isinstance(text, str):
            raise Invalid(
                f"the format of {name!r} gave {type(text).__name__}, not text", "format_failed"
            )
        return text

    return written
