"""Fields of requests about earlier turns of a conversation."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import Field

from knowloom.model import Shown
from knowloom.options import ContextArguments
from knowloom.server.schemas.fields import Id, RequestModel, Text, Tokens, Version
from knowloom.wire.turns import earlier_from_json, shown_from_json

Offset = Annotated[int, Field(ge=0, le=1_000_000_000)]
MAX_SHOWN = 10_000


class ShownItem(RequestModel):
    """An item that was shown, as a response lists it in `shown`."""

    id: Id
    space: Annotated[str, Field(max_length=500, description="Empty: any of the request")] = ""
    version: Annotated[Version, Field(description="Empty: any state")] = ""
    ranges: Annotated[
        list[Annotated[list[Offset], Field(min_length=2, max_length=2)]],
        Field(max_length=1000, description="Characters that an excerpt showed; empty: all"),
    ] = Field([])


class EarlierText(RequestModel):
    """The text to continue, what it shows, and the last number of its citations."""

    text: Text
    shown: Annotated[list[ShownItem], Field(max_length=MAX_SHOWN)] = Field([])
    cited: Annotated[int, Field(ge=0, le=1_000_000)] = 0


Seen = Annotated[
    list[Id | ShownItem] | None,
    Field(
        max_length=MAX_SHOWN,
        description="Ids, or rows of `shown`, that are not shown again unless they changed",
    ),
]
After = Annotated[
    EarlierText | None, Field(description="Begin with this text, byte for byte, and add the new")
]
NewTokens = Annotated[
    Tokens | None, Field(description="Budget of what is not in `after`; null: as many as fit")
]


class Turns(Protocol):
    """A request with these fields."""

    seen: Seen
    after: After
    new_tokens: NewTokens


def turn_options(body: Turns) -> ContextArguments:
    """Return the options of a request about earlier turns."""
    after = None if body.after is None else earlier_from_json(body.after.model_dump())
    return {"seen": _parse_seen(body.seen), "after": after, "new_tokens": body.new_tokens}


def has_turns(body: Turns) -> bool:
    return any(value is not None for value in (body.seen, body.after, body.new_tokens))


def _parse_seen(seen: list[int | str | ShownItem] | None) -> tuple[Shown, ...]:
    rows: list[Any] = [
        row.model_dump() if isinstance(row, ShownItem) else row for row in seen or ()
    ]
    return shown_from_json(rows)
