"""Long documents from sets of short passages: joined passages, and sessions of conversations."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowloom.model import Item, Key

SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a passage of the set: the characters from `start` up to `end` of an item."""

    key: Key
    start: int
    end: int
    title: str


def find_places(items: Iterable[Item]) -> dict[Key, Place]:
    """Return the places of passages that are items themselves."""
    return {item.key: Place(item.key, 0, len(item.text), item.title) for item in items}


def join_passages(
    items: Sequence[Item], size: int, seed: int | None = None
) -> tuple[list[Item], dict[Key, Place]]:
    """Join each `size` passages of a space into a document, their titles as headings.

    They are joined in the order of the set, in which the passages of one question are neighbours,
    or with a seed in a random order that depends only on it.
    """
    spaces: dict[str, list[Item]] = {}
    for item in items:
        spaces.setdefault(item.space, []).append(item)
    documents: list[Item] = []
    places: dict[Key, Place] = {}
    for space, passages in spaces.items():
        if seed is not None:
            random.Random(seed).shuffle(passages)
        for start in range(0, len(passages), size):
            number = start // size + 1
            parts = [
                (passage.key, passage.title, f"# {passage.title}{SEPARATOR}", passage.text)
                for passage in passages[start : start + size]
            ]
            key = (space, f"document-{number}")
            documents.append(_join(key, f"Document {number}", parts, places))
    return documents, places


def join_sessions(
    items: Sequence[Item], rows: Iterable[Mapping[str, Any]]
) -> tuple[list[Item], dict[Key, Place]]:
    """Join the turns of each session of a conversation, one paragraph per turn."""
    turns = {item.key: item for item in items}
    sessions: dict[Key, list[tuple[Key, str, str, str]]] = {}
    titles: dict[Key, str] = {}
    for row in rows:
        turn = turns[row["conv"], row["id"]]
        session = (row["conv"], row["session"])
        name = row["session"].replace("_", " ").capitalize()
        titles[session] = f"{name}, {row['date']}"
        part = (turn.key, row["speaker"], f"{row['speaker']}: ", turn.text)
        sessions.setdefault(session, []).append(part)
    places: dict[Key, Place] = {}
    documents = [_join(key, titles[key], parts, places) for key, parts in sessions.items()]
    return documents, places


def _join(
    key: Key, title: str, parts: Sequence[tuple[Key, str, str, str]], places: dict[Key, Place]
) -> Item:
    """Return the document of (key, title, prefix, text) parts, and add their places."""
    text = ""
    for part_key, part_title, prefix, body in parts:
        text += (SEPARATOR if text else "") + prefix
        places[part_key] = Place(key, len(text), len(text) + len(body), part_title)
        text += body
    return Item(key[1], key[0], title=title, text=text)
