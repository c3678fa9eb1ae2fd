"""Tests of conditions: the reference that every index must agree with."""

from __future__ import annotations

from typing import Any

import pytest

from knowloom.filters.condition_json import validate_where
from knowloom.model import Filter, Item, ItemCondition

MISSING = object()


def holds(value: Any, operator: str, operand: Any) -> bool:
    properties = {} if value is MISSING else {"p": value}
    (condition,) = validate_where({"p": {operator: operand}})
    item = Item("a", "s", properties=properties)
    assert condition.matches(item) == (condition.rejection_reason(item) == "")
    return condition.matches(item)


@pytest.mark.parametrize(
    ("value", "operator", "operand"),
    [
        (5, "$eq", 5),
        (5, "$eq", 5.0),
        (0, "$eq", -0.0),
        (True, "$eq", True),
        ("a", "$in", ["b", "a"]),
        (MISSING, "$in", [None, "a"]),
        (None, "$eq", None),
        (["a", "b"], "$any", ["b", "c"]),
        ("b", "$any", ["b", "c"]),
        ([1, [2], None], "$any", [1]),
        (10, "$gte", 10),
        (10.5, "$gt", 10),
        (2**70 + 1, "$gt", 2**70),
        (2**70 + 1, "$gt", float(2**70)),
        (-1, "$lt", 0),
        ("2026-01-31", "$lt", "2026-02-01"),
        ("é", "$gt", "z"),
        ("docs/a.md", "$prefix", "docs/"),
        ("docs/a.md", "$prefix", ["wiki/", "docs/"]),
        ("", "$prefix", ""),
        ([], "$exists", True),
        (False, "$exists", True),
        ({"a": {}}, "$exists", True),
        (MISSING, "$exists", False),
        (None, "$exists", False),
    ],
)
def test_a_value_fulfils_a_condition(value: Any, operator: str, operand: Any) -> None:
    assert holds(value, operator, operand)


@pytest.mark.parametrize(
    ("value", "operator", "operand"),
    [
        (1, "$eq", True),
        (True, "$eq", 1),
        ("1", "$eq", 1),
        (2**53 + 1, "$eq", float(2**53)),
        (["a"], "$eq", "a"),
        (["a"], "$in", ["a"]),
        ({"a": 1}, "$any", ["a"]),
        ("ab", "$any", ["a"]),
        ([None], "$any", [None]),
        ([["a"]], "$any", ["a"]),
        ("a", "$in", []),
        (MISSING, "$in", []),
        ("a", "$any", []),
        ("5", "$gte", 1),
        (5, "$gte", "1"),
        (True, "$gte", 0),
        ([5], "$gte", 1),
        (5, "$prefix", ""),
        (MISSING, "$prefix", ""),
        (MISSING, "$lt", 5),
        (None, "$lt", "z"),
        ("x", "$exists", False),
        (MISSING, "$exists", True),
    ],
)
def test_a_value_does_not_fulfil_a_condition(value: Any, operator: str, operand: Any) -> None:
    assert not holds(value, operator, operand)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"price": {"$gte": 10}}, "property 'price' is 5, not >= 10"),
        ({"price": {"$lt": 5}}, "property 'price' is 5, not < 5"),
        ({"price": "5"}, "property 'price' is 5, not '5'"),
        ({"team": "hr"}, "property 'team' is missing"),
        ({"price": {"$exists": False}}, "property 'price' exists"),
        ({"price": {"$in": [1, 2]}}, "property 'price' is 5, not one of 1, 2"),
        ({"price": {"$in": []}}, "property 'price' is 5, not one of no value"),
        ({"groups": {"$any": ["b"]}}, "property 'groups' is ['a'], with none of 'b'"),
        ({"$$x": 1}, "property '$x' is 2, not 1"),
        (
            {"$source": {"$prefix": "wiki/"}},
            "source is 'docs/a.md', which does not start with 'wiki/'",
        ),
        ({"$subject": {"$exists": True}}, "subject is missing"),
        ({"$tags": {"$exists": True}}, "tags is missing"),
        ({"price": {"$in": list(range(20, 99))}}, "is 5, not one of 20, 21, 22, 23, 24, …"),
    ],
)
def test_a_filter_says_why_it_rejects_an_item(where: Any, reason: str) -> None:
    properties = {"price": 5, "groups": ["a"], "$x": 2}
    item = Item("a", "s", properties=properties, source="docs/a.md")
    assert reason in Filter(("s",), where=validate_where(where)).rejection_reason(item)


def test_the_reason_for_an_enormous_value_is_short() -> None:
    value: Any = ["x" * 100_000] * 1000
    for _ in range(30):
        value = [value]
    (condition,) = validate_where({"p": 1})
    assert len(condition.rejection_reason(Item("a", "s", properties={"p": value}))) < 300


def test_conditions_on_true_and_one_are_different() -> None:
    conditions = {ItemCondition("p", "$eq", (value,)) for value in (1, True, "1", 1.0)}
    assert len(conditions) == 3


@pytest.mark.parametrize("name", ["a.b", 'a"b', "a\\b", "50%", "'; DROP TABLE item;--", "", "é"])
def test_a_name_is_the_name_of_a_whole_property(name: str) -> None:
    (condition,) = validate_where({name: 1})
    assert condition.matches(Item("a", "s", properties={name: 1}))
    assert not condition.matches(Item("a", "s", properties={"a": {"b": 1}}))
