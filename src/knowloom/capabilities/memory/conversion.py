"""Conversion of memories, turns and facts into items and edges."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from knowloom import codec, validation
from knowloom.capabilities.memory.model import DEFAULT_CONFIDENCE, PINNED, SUPERSEDED
from knowloom.capabilities.memory.options import MemoryFields
from knowloom.errors import Conflict, Invalid, unknown_name
from knowloom.model import RESERVED_PREFIX, SINCE, Edge, Item, Kind

NEXT, SUMMARISES, FROM, SUPERSEDES = "next", "summarises", "from", "supersedes"
NEXT_WEIGHT = 0.5  # adjacent turns are often, but not always, about the same subject
MAX_PRECEDING = 300  # characters of the preceding turn in the embedded text
TURN, SUMMARY, FACT = "turn", "summary", "fact"
FIELDS = tuple(sorted(MemoryFields.__annotations__))
TURN_SYNONYMS = {"role": "speaker", "text": "content", "created_at": "at"}  # of chat formats


@dataclass(frozen=True, slots=True)
class Turn:
    """A message: its speaker, content and time."""

    speaker: str
    content: str
    at: datetime | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact learned from a conversation; `turns` are the positions of its evidence, from 0."""

    content: str
    turns: tuple[int, ...] = ()
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None


def memory_item(workspace: str, content: str, at: datetime, fields: Mapping[str, Any]) -> Item:
    """Return the item of a memory.

    Without an id it gets one from its content, conversation, speaker and time, so that storing it
    twice has no effect.
    """
    if not isinstance(content, str) or not content.strip():
        raise Invalid(f"content must be a non-blank string, got {content!r}")
    for name in fields:
        if name not in FIELDS:
            raise unknown_name("field of a memory", name, FIELDS)
    values = {name: value for name, value in fields.items() if value is not None}
    times = {
        name: validation.validate_time(name, values[name])
        for name in ("expires_at", "valid_from", "valid_to")
        if name in values
    }
    speaker, conversation = (
        validation.validate_name(name, values.get(name, "")) for name in ("speaker", "conversation")
    )
    tags = validation.validate_names("tags", values.get("tags", ()))
    is_pinned = validation.validate_bool("pinned", values.get("pinned", False))
    id = _hash_id("m", workspace, conversation, speaker, codec.time_to_text(at), content)
    item = Item(
        values.get("id") or id,
        workspace,
        Kind.MEMORY,
        values.get("type", ""),
        values.get("title", "") or (format_turn_title(speaker, at) if speaker else ""),
        content,
        properties=_metadata_properties(values.get("metadata", {}), speaker),
        tags=(*tags, PINNED) if is_pinned else tags,
        subject=values.get("conversation"),
        confidence=values.get("confidence", DEFAULT_CONFIDENCE),
        created_at=at,
        updated_at=at,
        valid_from=times.pop("valid_from", None),
        valid_to=min(times.values(), default=None),
        source=values.get("source"),
    )
    return validation.validate_item(item)


def supersede(old: Item, new: Item) -> Item:
    """Return the older memory with its end: when the newer one is both stored and valid."""
    assert new.created_at is not None
    succession = old.properties.get(SUPERSEDED)
    if succession is not None and succession["by"] == new.id:
        return old
    if succession is not None:
        raise Conflict(
            f"memory {old.id!r} is already superseded by {succession['by']!r}; supersede that one",
            "superseded",
        )
    end = max(new.created_at, new.valid_from or new.created_at)
    starts = [time for time in (old.created_at, old.valid_from) if time is not None]
    start = max(starts, default=None)
    if start is not None and start >= end:
        raise Invalid(
            f"memory {old.id!r} starts at {codec.time_to_text(start)}; "
            f"its successor must start later, got {codec.time_to_text(end)}"
        )
    succession = {
        "by": new.id,
        "at": codec.time_to_text(new.created_at),
        "valid_to": codec.time_to_text(old.valid_to) if old.valid_to else None,
    }
    return replace(
        old,
        valid_to=min(old.valid_to or end, end),
        updated_at=old.updated_at or old.created_at,
        properties={**old.properties, SUPERSEDED: succession},
    )


def memory_edge(
    workspace: str, source: str, target: str, type: str, confidence: float, since: datetime
) -> Edge:
    """Return an edge between memories, which is not followed as of a time before `since`."""
    properties = {SINCE: codec.time_to_text(since)}
    edge = Edge(source, target, type, confidence, workspace, properties=properties)
    return validation.validate_edge(edge)


def turn_items(
    workspace: str,
    conversation: str,
    messages: Sequence[Turn | Mapping[str, Any]],
    now: datetime,
    preceding: str = "",
) -> list[Item]:
    """Return the turns of a conversation as memories with speaker and time.

    `preceding` is the text of the turn before the first one.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        kind = type(messages).__name__
        raise Invalid(f"messages must be a list of turns with speaker and content, got {kind}")
    items: list[Item] = []
    occurrences: dict[str, int] = {}
    for number, message in enumerate(messages):
        turn = _parse_turn(message, number)
        at = now if turn.at is None else validation.validate_time(f"message {number}: at", turn.at)
        id = _hash_id(conversation, turn.speaker, codec.time_to_text(at), turn.content)
        occurrences[id] = occurrences.get(id, 0) + 1  # a repeated message is another turn
        fields = {
            "id": id if occurrences[id] == 1 else f"{id}-{occurrences[id]}",
            "type": TURN,
            "conversation": conversation,
            "speaker": turn.speaker,
            "metadata": turn.metadata,
        }
        item = memory_item(workspace, turn.content, at, fields)
        preceding = items[-1].text if items else preceding
        items.append(replace(item, embedding_text=_embedding_text(item, preceding)))
    return items


def _embedding_text(turn: Item, preceding: str) -> str:
    """Include the preceding turn: an answer means little without its question."""
    parts = (turn.title, preceding[-MAX_PRECEDING:], turn.text)
    return "\n".join(part for part in parts if part)


def conversation_items(
    workspace: str,
    conversation: str,
    turns: Sequence[Item],
    at: datetime,
    summary: str | None,
    facts: Sequence[Fact],
    after: str,
) -> tuple[list[Item], list[Edge]]:
    """Return turns, summary and facts, and the edges between them.

    Each turn is linked to the next, the first from `after`, summary and facts to their turns.
    """
    ids = [turn.id for turn in turns]
    items, edges = list(turns), _sequence_edges(workspace, turns, at, after)
    if summary is not None:
        fields = {"conversation": conversation, "type": SUMMARY}
        items.append(memory_item(workspace, summary, at, fields))
        source = items[-1].id
        edges += [memory_edge(workspace, source, id, SUMMARISES, 1.0, at) for id in ids]
    for fact in facts:
        fact_fields = {
            "conversation": conversation,
            "type": FACT,
            "confidence": fact.confidence,
            "valid_from": fact.valid_from,
            "valid_to": fact.valid_to,
        }
        items.append(memory_item(workspace, fact.content, at, fact_fields))
        source = items[-1].id
        targets = [_turn_id(ids, number) for number in dict.fromkeys(fact.turns)]
        edges += [memory_edge(workspace, source, target, FROM, 1.0, at) for target in targets]
    return items, edges


def _sequence_edges(workspace: str, turns: Sequence[Item], at: datetime, after: str) -> list[Edge]:
    edges = []
    for turn, successor in pairwise(turns):
        since = max(turn.created_at or at, successor.created_at or at)
        edges.append(memory_edge(workspace, turn.id, successor.id, NEXT, NEXT_WEIGHT, since))
    if after and turns:
        since = turns[0].created_at or at
        edges.append(memory_edge(workspace, after, turns[0].id, NEXT, NEXT_WEIGHT, since))
    return edges


def _turn_id(ids: Sequence[str], number: object) -> str:
    if not validation.is_int(number) or not 0 <= number < len(ids):
        raise Invalid(f"a fact refers to turn {number!r}; there are {len(ids)}, counted from 0")
    return ids[number]


def parse_fact(value: Fact | str | Mapping[str, Any]) -> Fact:
    if isinstance(value, str):
        return Fact(value)
    if isinstance(value, Mapping):
        for name in value:
            if name not in Fact.__dataclass_fields__:
                raise unknown_name("field of a fact", name, Fact.__dataclass_fields__)
        if "content" not in value:
            raise Invalid("a fact needs content")
        return Fact(**value)
    if not isinstance(value, Fact):
        raise Invalid(f"a fact must be a string, a mapping or a Fact, got {value!r}")
    return value


def format_turn_title(speaker: str, at: datetime) -> str:
    """Return "Caroline at 1:56 pm on 8 May, 2023": a phrase that queries can match."""
    clock = f"{at.hour % 12 or 12}:{at.minute:02} {'pm' if at.hour >= 12 else 'am'}"
    return f"{speaker} at {clock} on {at.day} {MONTH_NAMES[at.month]}, {at.year}"


MONTH_NAMES = (
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def _parse_turn(value: Turn | Mapping[str, Any], number: int) -> Turn:
    """Return a turn; a mapping may use the field names of chat formats."""
    if isinstance(value, Mapping):
        fields = {TURN_SYNONYMS.get(name, name): field for name, field in value.items()}
        allowed = (*Turn.__dataclass_fields__, *TURN_SYNONYMS)
        for name in fields:
            if name not in Turn.__dataclass_fields__:
                raise unknown_name(f"field of message {number}", name, allowed)
        if not {"speaker", "content"} <= fields.keys():
            raise Invalid(f"message {number} needs speaker (or role) and content (or text)")
        value = Turn(**fields)
    if not isinstance(value, Turn):
        kind = type(value).__name__
        raise Invalid(f"message {number} must be a Turn or a mapping, got {kind}")
    if not isinstance(value.speaker, str) or not value.speaker.strip():
        raise Invalid(f"message {number} needs a speaker, got {value.speaker!r}")
    return value


def _metadata_properties(metadata: object, speaker: str) -> dict[str, Any]:
    if not isinstance(metadata, Mapping):
        raise Invalid(f"metadata must be a mapping, got {metadata!r}")
    for name in metadata:
        if isinstance(name, str) and name.startswith(RESERVED_PREFIX):
            raise Invalid(f"metadata: the prefix {RESERVED_PREFIX!r} is reserved, got {name!r}")
    return ({"speaker": speaker} if speaker else {}) | dict(metadata)


def _hash_id(prefix: str, *parts: str) -> str:
    content = "\x1f".join(parts).encode(errors="surrogatepass")
    return f"{prefix[:400]}-{hashlib.blake2b(content, digest_size=8).hexdigest()}"
