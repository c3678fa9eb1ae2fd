"""Earlier turns of a conversation: the items that an agent was shown, and the text so far."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

from knowloom.model.item import Item, Key

VERSION_LENGTH = 16  # hexadecimal digits


@dataclass(frozen=True, slots=True)
class Shown:
    """An item that was shown. An empty space is any of the request, an empty version any state."""

    id: str
    space: str = ""
    version: str = ""
    ranges: tuple[tuple[int, int], ...] = ()  # characters that an excerpt showed; (): all of it


@dataclass(frozen=True, slots=True)
class Earlier:
    """The text that a context continues, what it shows, and the last number of its citations."""

    text: str
    shown: tuple[Shown, ...] = ()
    cited: int = 0


def content_version(item: Item) -> str:
    """Return a hash of everything that a context may show of an item."""
    properties = json.dumps(item.properties, sort_keys=True, default=str)
    texts = (item.kind.value, item.type, item.title, item.text, item.summary)
    content = repr((texts, list(item.tags), properties))
    return sha256(content.encode(errors="replace")).hexdigest()[:VERSION_LENGTH]


def merge_shown(entries: Iterable[Shown]) -> tuple[Shown, ...]:
    """Return one entry for each item: the last version, with all ranges that were shown of it."""
    merged: dict[Key, Shown] = {}
    for entry in entries:
        key = (entry.space, entry.id)
        before = merged.pop(key, None)
        if before is not None and before.version == entry.version:
            ranges = {*before.ranges, *entry.ranges} if before.ranges and entry.ranges else ()
            entry = replace(entry, ranges=tuple(sorted(ranges)))
        merged[key] = entry
    return tuple(merged.values())
