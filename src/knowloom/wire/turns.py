"""Items that were shown, and earlier texts, as JSON and back."""

from __future__ import annotations

from collections.abc import Sequence

from knowloom.model import Earlier, Query, Shown
from knowloom.wire import JsonObject


def shown_to_json(entries: Sequence[Shown]) -> list[JsonObject]:
    """Return rows of an id, and its space, version and ranges if they are known."""
    return [
        {"id": entry.id}
        | ({"space": entry.space} if entry.space else {})
        | ({"version": entry.version} if entry.version else {})
        | ({"ranges": [list(pair) for pair in entry.ranges]} if entry.ranges else {})
        for entry in entries
    ]


def shown_from_json(rows: Sequence[JsonObject | str | int]) -> tuple[Shown, ...]:
    """Return the entries of rows, or of ids."""
    return tuple(
        Shown(
            str(row["id"]),
            row.get("space") or "",
            row.get("version") or "",
            tuple((start, end) for start, end in row.get("ranges") or ()),
        )
        if isinstance(row, dict)
        else Shown(str(row))
        for row in rows
    )


def earlier_to_json(earlier: Earlier) -> JsonObject:
    shown = shown_to_json(earlier.shown)
    return {"text": earlier.text, "shown": shown, "cited": earlier.cited}


def earlier_from_json(row: JsonObject) -> Earlier:
    return Earlier(row["text"], shown_from_json(row["shown"]), row["cited"])


def turns_to_json(query: Query, prefix: int) -> JsonObject:
    """Return the fields of a query about earlier turns, without a text that the context repeats."""
    row: JsonObject = {"seen": shown_to_json(query.seen)} if query.seen else {}
    if query.after is not None:
        row["after"] = earlier_to_json(query.after)
        if prefix == len(query.after.text):
            del row["after"]["text"]
    return row | ({} if query.new_tokens is None else {"new_tokens": query.new_tokens})


def turns_from_json(row: JsonObject, prefix: str) -> JsonObject:
    """Return the fields of a query; `prefix` is the earlier text with which the context begins."""
    after = row.get("after")
    return {
        "seen": shown_from_json(row.get("seen", ())),
        "after": None if after is None else earlier_from_json({"text": prefix} | after),
        "new_tokens": row.get("new_tokens"),
    }
