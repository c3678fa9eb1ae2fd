"""Items of the tests of composite stores."""

from __future__ import annotations

from typing import Any

from knowloom import Item, Kind


def node(id: str, text: str = "some text", **fields: Any) -> Item:
    return Item(id, "s", text=text, **fields)


def maya(**fields: Any) -> Item:
    return Item(
        "maya",
        "s",
        **{"kind": Kind.PROFILE, "properties": {"plan": "gold"}, "subject": "user:maya", **fields},
    )
