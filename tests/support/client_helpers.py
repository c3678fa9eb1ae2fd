"""Items, and the errors of calls, for tests of engines and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowloom import Client, Engine, Item, KnowloomError

Kb = Engine | Client


def node(id: str, text: str = "some text", space: str = "s", **fields: Any) -> Item:
    return Item(id, space, text=text, **fields)


def failure(call: Callable[[], object]) -> tuple[type, str]:
    with pytest.raises(KnowloomError) as caught:
        call()
    return type(caught.value), caught.value.code
