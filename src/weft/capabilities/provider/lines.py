"""How one thing known is shown where no format of the user says otherwise. Nothing an item says can pass for a line of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from weft.capabilities.provider.values import Relation
from weft.model import Item
from weft.stages.escape import one_line

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
