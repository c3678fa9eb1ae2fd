"""Fast construction gives the values of the ordinary constructor."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from knowloom.construction import fast_constructor, open_twin
from knowloom.model import Edge, Hit, Item, Kind

ITEM = Item(
    "a", "acme", Kind.ENTITY, title="A", properties={"size": 1}, tags=("x",), confidence=0.5
)
VALUES = [
    ITEM,
    Edge("a", "b", weight=0.5, space="acme", properties={"since": 1}),
    Hit(ITEM, 0.5, {"bm25": 0.5}, ("bm25",), (ITEM.key,)),
]


def field_values(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in fields(value)]


def construct_fast(value: Any) -> Any:
    return fast_constructor(type(value))(*field_values(value))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_fast_value_equals_that_of_the_constructor(value: Any) -> None:
    fast = construct_fast(value)
    assert (type(fast), fast, repr(fast)) == (type(value), value, repr(value))
    assert pickle.loads(pickle.dumps(fast)) == copy.deepcopy(fast) == value


def test_a_fast_value_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        construct_fast(ITEM).title = "B"


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        fast_constructor(Edge)("a", "b")


def test_twins_frozen_together_equal_values_of_the_constructor() -> None:
    twin, freeze = open_twin(Edge)
    edges = [Edge("a", str(number), space="acme") for number in range(3)]
    frozen = freeze([*(twin(*field_values(edge)) for edge in edges), edges[0]])
    assert frozen == [*edges, edges[0]] and {type(edge) for edge in frozen} == {Edge}
