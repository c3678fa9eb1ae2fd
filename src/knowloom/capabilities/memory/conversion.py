"""From what users tell to items and links: memories, turns of a conversation, what takes the place of what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from knowloom import codec, validation
from knowloom.capabilities.memory.model import DEFAULT_CONFIDENCE, PINNED, SUPERSEDED
from knowloom.errors import Conflict, Invalid, unknown
from knowloom.model import OWN, SINCE, Edge, Item, Kind

Told = tuple[list[Item], list[Edge]]
NEXT, SUMMARISES, FROM, SUPERSEDES = "next", "summarises", "from", "supersedes"
NEXT_WEIGHT = 0.5  # what was said right before or after is often, not always, of the same matter
MOST_BEFORE = 300  # characters of the turn before that count for the meaning of a turn
TURN, SUMMARY, FACT = "turn", "summary", "fact"
MONTHS = (
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


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said: by whom, what, and when."""

    speaker: str
    content: str
    at: datetime | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """Something learned from a conversation; `turns` are the places, counted from 0, of the turns that say so."""

    content: str
    turns: tuple[int, ...] = ()
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None


def memory(workspace: str, content: str, at: datetime, given: Mapping[str, Any]) -> Item:
    """The item of a memory. Without an id it gets one from what it says, where, and when: telling it twice is telling it once."""
    if not isinstance(content, str) or not content.strip():
        raise Invalid(f"a memory needs content: a text that is not blank, not {content!r}")
    for name in given:
        if name not in FIELDS:
            raise unknown("field of a memory", name, FIELDS)
    told = {name: value for name, value in given.items() if value is not None}
    ends = [
        validation.time(name, told[name]) for name in ("expires_at", "valid_to") if name in told
    ]
    speaker, where = (
        validation.name(name, told.get(name, "")) for name in ("speaker", "conversation")
    )
    item = Item(
        told.get("id") or _id("m", workspace, where, speaker, codec.time_to_text(at), content),
        workspace,
        Kind.MEMORY,
        told.get("type", ""),
        told.get("title", "") or (turn_title(speaker, at) if speaker else ""),
        content,
        properties=_metadata(told.get("metadata", {}), speaker),
        tags=(
            *validation.names("tags", told.get("tags", ())),
            *([PINNED] if _flag("pinned", told.get("pinned", False)) else []),
        ),
        subject=told.get("conversation"),
        confidence=told.get("confidence", DEFAULT_CONFIDENCE),
        created_at=at,
        updated_at=at,
        valid_from=validation.time("valid_from", told["valid_from"])
        if "valid_from" in told
        else None,
        valid_to=min(ends, default=None),
        source=told.get("source"),
    )
    return validation.item(item)


FIELDS = (
    *(
        "confidence",
        "conversation",
        "created_at",
        "expires_at",
        "id",
        "metadata",
        "pinned",
        "source",
        "speaker",
        "tags",
        "title",
        "type",
    ),
    *("valid_from", "valid_to"),
)


def ended(old: Item, new: Item) -> Item:
    """The older memory, no longer valid from when the newer one is both known and valid: before that, nobody could know of it."""
    assert new.created_at is not None
    told = old.properties.get(SUPERSEDED)
    if told is not None and told["by"] == new.id:
        return old  # told before
    if told is not None:
        raise Conflict(
            f"memory {old.id!r} was superseded already, by {told['by']!r}: supersede that one",
            "superseded",
        )
    end = max(new.created_at, new.valid_from or new.created_at)
    begin = max(
        (time for time in (old.created_at, old.valid_from) if time is not None), default=None
    )
    if begin is not None and begin >= end:
        raise Invalid(
            f"memory {old.id!r} is of {codec.time_to_text(begin)}: what supersedes it must be newer, not of {codec.time_to_text(end)}"
        )
    before = codec.time_to_text(old.valid_to) if old.valid_to else None
    told = {
        SUPERSEDED: {"by": new.id, "at": codec.time_to_text(new.created_at), "valid_to": before}
    }
    return replace(
        old,
        valid_to=min(old.valid_to or end, end),
        updated_at=old.updated_at or old.created_at,
        properties={**old.properties, **told},
    )


def link(
    workspace: str, source: str, target: str, type: str, confidence: float, since: datetime
) -> Edge:
    """A relationship between memories. It is not followed when a time before `since` is asked for."""
    return validation.edge(
        Edge(
            source,
            target,
            type,
            confidence,
            workspace,
            properties={SINCE: codec.time_to_text(since)},
        )
    )


def turns(
    workspace: str,
    conversation: str,
    told: Sequence[Turn | Mapping[str, Any]],
    now: datetime,
    before: str = "",
) -> list[Item]:
    """The turns of a conversation as memories that know who spoke and when. `before` is what was said last, before them."""
    if isinstance(told, str | Mapping) or not isinstance(told, Sequence):
        raise Invalid(
            f"messages must be a list of turns with speaker and content, not {type(told).__name__}"
        )
    found: list[Item] = []
    seen: dict[str, int] = {}
    for number, one in enumerate(told):
        turn = _turn(one, number)
        at = now if turn.at is None else validation.time(f"message {number}: at", turn.at)
        id = _id(conversation, turn.speaker, codec.time_to_text(at), turn.content)
        seen[id] = seen.get(id, 0) + 1  # the same words twice in one minute are two turns
        id = id if seen[id] == 1 else f"{id}-{seen[id]}"
        told_of = {
            "id": id,
            "type": TURN,
            "conversation": conversation,
            "speaker": turn.speaker,
            "metadata": turn.metadata,
        }
        item = memory(workspace, turn.content, at, told_of)
        found.append(
            replace(item, embedding_text=_meant(item, found[-1].text if found else before))
        )
    return found


def _meant(turn: Item, before: str) -> str:
    """The text whose meaning finds a turn: an answer means little without its question."""
    return "\n".join(part for part in (turn.title, before[-MOST_BEFORE:], turn.text) if part)


def conversation(
    workspace: str,
    name: str,
    said: Sequence[Item],
    at: datetime,
    summary: str | None,
    facts: Sequence[Fact],
    after: str,
) -> Told:
    """What stands beside the turns, and the links: each turn to the next, the first to `after`, a summary and facts to what they are of."""
    ids = [one.id for one in said]
    links = [
        link(
            workspace,
            one.id,
            two.id,
            NEXT,
            NEXT_WEIGHT,
            max(one.created_at or at, two.created_at or at),
        )
        for one, two in pairwise(said)
    ]
    links += (
        [link(workspace, after, ids[0], NEXT, NEXT_WEIGHT, said[0].created_at or at)]
        if after and ids
        else []
    )
    items = list(said)
    told = {"conversation": name}
    if summary is not None:
        items.append(memory(workspace, summary, at, told | {"type": SUMMARY}))
        links += [link(workspace, items[-1].id, id, SUMMARISES, 1.0, at) for id in ids]
    for one in facts:
        fields = {
            "type": FACT,
            "confidence": one.confidence,
            "valid_from": one.valid_from,
            "valid_to": one.valid_to,
        }
        items.append(memory(workspace, one.content, at, told | fields))
        links += [
            link(workspace, items[-1].id, _turn_id(ids, number), FROM, 1.0, at)
            for number in dict.fromkeys(one.turns)
        ]
    return items, links


def _turn_id(ids: Sequence[str], number: object) -> str:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(ids):
        raise Invalid(f"a fact points to turn {number!r}; there are {len(ids)}, counted from 0")
    return ids[number]


def fact(given: Fact | str | Mapping[str, Any]) -> Fact:
    if isinstance(given, str):
        return Fact(given)
    if isinstance(given, Mapping):
        for name in given:
            if name not in Fact.__dataclass_fields__:
                raise unknown("field of a fact", name, Fact.__dataclass_fields__)
        if "content" not in given:
            raise Invalid("a fact needs content")
        return Fact(**given)
    if not isinstance(given, Fact):
        raise Invalid(f"a fact is a text or a Fact, not {given!r}")
    return given


def turn_title(speaker: str, at: datetime) -> str:
    """Who and when, as people say it, so that questions find it: "Caroline at 1:56 pm on 8 May, 2023"."""
    clock = f"{at.hour % 12 or 12}:{at.minute:02} {'pm' if at.hour >= 12 else 'am'}"
    return f"{speaker} at {clock} on {at.day} {MONTHS[at.month - 1]}, {at.year}"


def _turn(given: Turn | Mapping[str, Any], number: int) -> Turn:
    """A turn; a mapping may say role for speaker and text for content, as chat programs do."""
    if isinstance(given, Mapping):
        names = {"role": "speaker", "text": "content", "created_at": "at"}
        values = {names.get(name, name): value for name, value in given.items()}
        for name in values:
            if name not in Turn.__dataclass_fields__:
                raise unknown(
                    f"field of message {number}", name, (*Turn.__dataclass_fields__, *names)
                )
        if not {"speaker", "content"} <= values.keys():
            raise Invalid(f"message {number} needs speaker (or role) and content (or text)")
        given = Turn(**values)
    if not isinstance(given, Turn):
        raise Invalid(f"message {number} must be a Turn or a mapping, not {type(given).__name__}")
    if not isinstance(given.speaker, str) or not given.speaker.strip():
        raise Invalid(f"message {number} needs a speaker, not {given.speaker!r}")
    return given


def _metadata(given: object, speaker: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise Invalid(f"metadata must be an object, not {given!r}")
    if own := [name for name in given if isinstance(name, str) and name.startswith(OWN)]:
        raise Invalid(f"metadata: names that begin with {OWN!r} are knowloom's own: {own[0]!r}")
    return ({"speaker": speaker} if speaker else {}) | dict(given)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{name} must be True or False, not {value!r}")
    return value


def _id(first: str, *parts: str) -> str:
    digest = hashlib.blake2b(
        "\x1f".join(parts).encode(errors="surrogatepass"), digest_size=8
    ).hexdigest()
    return f"{first[:400]}-{digest}"
