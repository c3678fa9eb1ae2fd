"""Values made fast are the values of the ordinary constructor."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from knowloom.construction import maker, opened
from knowloom.model import Edge, Hit, Item, Kind

ITEM = Item(
    "a", "acme", Kind.ENTITY, title="A", properties={"size": 1}, tags=("x",), confidence=0.5
)
VALUES = [
    ITEM,
    Edge("a", "b", weight=0.5, space="acme", properties={"since": 1}),
    Hit(ITEM, 0.5, {"bm25": 0.5}, ("bm25",), (ITEM.key,)),
]


def made(value: Any) -> Any:
    return maker(type(value))(*(getattr(value, one.name) for one in fields(value)))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_made_fast_is_that_of_the_constructor(value: Any) -> None:
    found = made(value)
    assert (type(found), found, repr(found)) == (type(value), value, repr(value))
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == value


def test_a_value_made_fast_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        made(ITEM).title = "B"


def test_no_field_is_forgotten() -> None:
    with pytest.raises(TypeError):
        maker(Edge)("a", "b")


def test_many_made_at_once_are_those_of_the_constructor() -> None:
    twin, all_made = opened(Edge)
    edges = [Edge("a", str(number), space="acme") for number in range(3)]
    found = all_made(
        [*(twin(*(getattr(edge, one.name) for one in fields(edge))) for edge in edges), edges[0]]
    )
    assert found == [*edges, edges[0]] and {type(one) for one in found} == {Edge}
