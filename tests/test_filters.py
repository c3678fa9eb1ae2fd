"""Tests of conditions as JSON and as text, and of filters inside of requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Item, ItemCondition, Recipe
from knowloom.agents import define_agent
from knowloom.errors import Forbidden, Invalid
from knowloom.filters.condition_json import validate_where, where_to_json
from knowloom.filters.expressions import parse_expressions


@pytest.mark.parametrize(
    ("text", "name", "operator", "values"),
    [
        ("price>=10", "price", "$gte", (10,)),
        ("price <= 1.5", "price", "$lte", (1.5,)),
        ("price>-1", "price", "$gt", (-1,)),
        ("price<0", "price", "$lt", (0,)),
        ("team=sales", "team", "$eq", ("sales",)),
        ("team=", "team", "$eq", ("",)),
        ('version="10"', "version", "$eq", ("10",)),
        ("draft=true", "draft", "$eq", (True,)),
        ("team=null", "team", "$eq", (None,)),
        ("day<2026-01-31", "day", "$lt", ("2026-01-31",)),
        ("expression=a=b>c", "expression", "$eq", ("a=b>c",)),
        ("list=[1]", "list", "$eq", ("[1]",)),
        ("two words = x", "two words", "$eq", ("x",)),
        ("a.b%'\"=1", "a.b%'\"", "$eq", (1,)),
        ("$source^=docs/", "$source", "$prefix", ("docs/",)),
        ("code^=10", "code", "$prefix", ("10",)),
        ('code^="a "', "code", "$prefix", ("a ",)),
        ("team in sales, 7", "team", "$in", ("sales", 7)),
        ('team in ["a, b", null]', "team", "$in", ("a, b", None)),
        ("groups any a,b", "groups", "$any", ("a", "b")),
        ("draft exists", "draft", "$exists", (True,)),
        ("$subject missing", "$subject", "$exists", (False,)),
        ('{"a=b": {"$gt": 1}}', "a=b", "$gt", (1,)),
    ],
)
def test_a_text_is_a_condition(text: str, name: str, operator: Any, values: Any) -> None:
    assert parse_expressions([text]) == (ItemCondition(name, operator, values),)


@pytest.mark.parametrize(
    "text",
    ["", "price", "=5", ">=5", "a!=5", "a==5", "a~=b", "{a}", "[1]", "a in [1", "a in"],
)  # fmt: skip
def test_a_text_that_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="where"):
        parse_expressions([text])


def deep_list() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"a": {"$foo": 1}}, "unknown operator of 'a' in where: '$foo'; available: $any, $eq"),
        ({"a": {"gte": 1}}, "'gte'; available: $any"),
        ({"a": {1: 1}}, "unknown operator of 'a' in where: 1"),
        ({"$foo": 1}, "available: $source, $subject, $tags, $type; the property '$foo' is written"),
        ({"a": {}}, "'a' needs an operator"),
        ({"a": [1]}, "must be one value, not a list"),
        ({"a": {"$gte": [1]}}, "must be one value, not a list"),
        ({"a": {"$in": "b"}}, "$in of 'a' must be a list, got 'b'"),
        ({"a": {"$in": [{}]}}, "must be text, a number, true, false or null, got {}"),
        ({"a": {"$eq": {"b": 1}}}, "must be text, a number, true, false or null"),
        ({"a": {"$exists": "yes"}}, "must be true or false, got 'yes'"),
        ({"a": {"$gt": True}}, "must be text or a number, got True"),
        ({"a": {"$gt": None}}, "must be text or a number, got None"),
        ({"a": {"$prefix": 5}}, "must be text, got 5"),
        ({"a": float("nan")}, "must be a finite number, got nan"),
        ({"a": float("inf")}, "must be a finite number, got inf"),
        ({"a": 10**400}, "must be a number from -1e300 to 1e300"),
        ({"a": 10**5000}, "must be a number from -1e300 to 1e300"),
        ({"a": "\0"}, "must be storable text"),
        ({"a": "\ud800"}, "must be storable text"),
        ({"a": "x" * 10_001}, "at most 10,000 characters"),
        ({"x" * 501: 1}, "at most 500 characters"),
        ({"\0": 1}, "a name must be storable text"),
        ({5: 1}, "a name must be storable text"),
        ({"a": {"$in": list(range(1001))}}, "at most 1,000 values, got 1,001"),
        ({f"p{n}": n for n in range(101)}, "at most 100 conditions, got 101"),
        (deep_list(), "an enormous value"),
        ({"a": {"$in": 10**5000}}, "must be a list, got an enormous value"),
        ("a=1", "must be an object such as"),
        (5, "must be an object such as"),
        ([5], "must be an object such as"),
        (["a=1"], "must be an object such as"),
        ([ItemCondition("a", "$foo", (1,))], "unknown operator"),  # type: ignore[arg-type]
        ([ItemCondition("a", "$eq", (1, 2))], "must have one value, got 2"),
    ],
)
def test_everything_else_is_refused_by_name(where: Any, message: str) -> None:
    with pytest.raises(Invalid) as error:
        validate_where(where)
    assert message in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"a": 1},
        {"a": {"$gte": 1, "$lt": 5}, "$source": {"$prefix": ["a", "b"]}},
        [{"a": {"$in": [1]}}, {"a": {"$in": [None, True]}}],
        {"a": {"$exists": False}, "$$b": {"$any": []}},
    ],
)
def test_conditions_survive_json(where: Any) -> None:
    conditions = validate_where(where)
    assert validate_where(where_to_json(conditions)) == conditions


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[knowloom.Engine]:
    url = "memory:" if request.param == "memory" else str(tmp_path / "a.db")
    with knowloom.open(url, embedder=None) as kb:
        yield kb


def ids(hits: Any) -> list[str]:
    return [hit.item.id for hit in hits]


def test_conditions_apply_before_the_limit(kb: knowloom.Engine) -> None:
    kb.add([Item(f"i{n:03}", "s", text="refund", properties={"n": n}) for n in range(300)])
    where = {"n": {"$gte": 290}}
    assert len(kb.search("refund", spaces=["s"], limit=10, where=where)) == 10
    assert len(list(kb.items(["s"], where=where, limit=10))) == 10


@pytest.mark.parametrize("source", ["walk", "neighbours"])
def test_the_edges_of_a_hub_count_only_if_they_lead_to_allowed_items(
    kb: knowloom.Engine, source: Any
) -> None:
    others = [Item(f"n{n:03}", "s", text="other", properties={"n": n}) for n in range(200)]
    kb.add([Item("hub", "s", text="refund", properties={"n": -1}), *others])
    kb.add([], [Edge("hub", f"n{n:03}", weight=1 - n / 1000, space="s") for n in range(200)])
    kb.add([], [Edge(f"n{n:03}", "hub", "back", 0.5, space="s") for n in range(0, 200, 2)])
    recipes = [Recipe("found", limit=5), Recipe("linked", source, depth=1, limit=50)]
    where = {"n": {"$in": [-1, 3, 150, 199]}}
    context = kb.context("refund", spaces=["s"], recipe=recipes, where=where)
    assert sorted(ids(context.hits)) == ["hub", "n003", "n150", "n199"]


def test_a_walk_does_not_pass_through_other_items(kb: knowloom.Engine) -> None:
    kb.add(
        [
            Item("a", "s", text="refund", properties={"open": True}),
            Item("b", "s", text="between", properties={"open": False}),
            Item("c", "s", text="behind", properties={"open": True}),
        ],
        [Edge("a", "b", space="s"), Edge("b", "c", space="s")],
    )
    assert ids(kb.search("refund", spaces=["s"], mode="walk")) == ["a", "b", "c"]
    assert ids(kb.search("refund", spaces=["s"], mode="walk", where={"open": True})) == ["a"]


def test_a_recipe_and_an_agent_have_conditions_of_their_own(kb: knowloom.Engine) -> None:
    kind = knowloom.Kind.ENTITY
    kb.add([Item(f"i{n}", "s", kind, title="refund", properties={"n": n}) for n in range(6)])
    recipe = Recipe("found", where=validate_where({"n": {"$gte": 2}}))
    context = kb.context("refund", spaces=["s"], recipe=[recipe], where={"n": {"$lt": 4}})
    assert sorted(ids(context.hits)) == ["i2", "i3"]
    agent = define_agent("few", where={"n": 5}, min_score=0.0)
    assert ids(kb.context("refund", spaces=["s"], agent=agent).hits) == ["i5"]


def test_contexts_with_other_conditions_have_other_digests(kb: knowloom.Engine) -> None:
    kb.add(Item("a", "s", text="refund", properties={"n": 1}))
    wheres: list[Any] = [None, {"n": 1}, {"n": True}, {"n": "1"}, {"m": 1}, {"n": {"$gte": 1}}]
    digests = {kb.context("refund", spaces=["s"], where=where).digest for where in wheres}
    recipes = [[Recipe("r", where=validate_where(where))] for where in wheres]
    digests |= {kb.context("refund", spaces=["s"], recipe=recipe).digest for recipe in recipes}
    assert len(digests) == 2 * len(wheres)


def test_stores_agree_about_random_filters_after_random_writes(tmp_path: Path) -> None:
    chance = random.Random(5)
    values = [1, 1.0, True, False, "1", "a", "ab", ["a", "b"], [1, None], {"a": 1}, None, 2**70]
    names = ["p", "a.b", 'q"', "back\\slash", "$x", "new\nline"]
    scalars = [value for value in values if not isinstance(value, list | dict)]
    operators: dict[str, Any] = {
        "$eq": lambda: chance.choice(scalars),
        "$in": lambda: chance.choices(scalars, k=chance.randint(0, 3)),
        "$any": lambda: chance.choices(scalars, k=chance.randint(0, 3)),
        "$gte": lambda: chance.choice([0, 1, 2.5, 2**70, "a"]),
        "$lt": lambda: chance.choice([0, 2, 2**71, "b"]),
        "$prefix": lambda: chance.choice(["", "a", "docs"]),
        "$exists": lambda: chance.choice([True, False]),
    }

    def some_item() -> Item:
        properties = {name: chance.choice(values) for name in chance.sample(names, 3)}
        source, text = chance.choice([None, "docs/a", "b"]), "refund " * chance.choice([1, 400])
        return Item(
            f"i{chance.randrange(40)}", "s", text=text, properties=properties, source=source
        )

    def some_where() -> Any:
        name = chance.choice([*(name.replace("$", "$$") for name in names), "$source", "$subject"])
        operator = chance.choice(list(operators))
        return {name: {operator: operators[operator]()}}

    matched = 0
    with (
        knowloom.open("memory:", embedder=None) as memory,
        knowloom.open(str(tmp_path / "a.db"), embedder=None) as sqlite,
    ):
        for step in range(600):
            if step % 6 == 0:
                items = list({item.id: item for item in (some_item() for _ in range(4))}.values())
                for kb in (memory, sqlite):
                    kb.add(items)
                    kb.delete(f"i{step % 40}", space="s")
            where = [some_where() for _ in range(chance.randint(1, 2))]
            expected = [item.id for item in memory.items(["s"], where=where)]
            assert [item.id for item in sqlite.items(["s"], where=where)] == expected, where
            hits = [
                sorted(ids(kb.search("refund", spaces=["s"], limit=99, where=where)))
                for kb in (memory, sqlite)
            ]
            assert hits[0] == hits[1] == sorted(expected)
            matched += bool(expected)
    assert matched > 200


def test_a_restricted_engine_maintains_nothing(kb: knowloom.Engine) -> None:
    kb.add(Item("a", "s", text="refund"))
    restricted = knowloom.restrict(kb, {"open": True})
    for call in (restricted.reindex, restricted.verify):
        with pytest.raises(Forbidden, match="does not see all items"):
            call()
    assert ids(kb.search("refund", spaces=["s"])) == ["a"]


def test_a_restricted_load_keeps_the_origins_of_its_items(
    kb: knowloom.Engine, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    row = '{"id": "%s", "space": "s", "text": "x", "properties": {"open": true}}\n'
    file.write_text(row % "a" + row % "b")
    kb.add(Item("c", "s", text="hidden"))
    restricted = knowloom.restrict(kb, {"open": True})
    restricted.load(file)
    file.write_text(row % "a")
    restricted.load(file)
    assert [item.id for item in kb.items(["s"])] == ["a", "c"]


def test_a_restricted_write_that_another_writer_overtakes_is_checked_again(
    kb: knowloom.Engine,
) -> None:
    kb.add(Item("a", "s", text="x", properties={"open": True}))
    restricted = knowloom.restrict(kb, {"open": True})
    store, raced = kb._stores.items, []
    apply = store.apply

    def race(batch: Any) -> None:
        if not raced:  # another writer closes the item between the check and the write
            raced.append(batch)
            kb.add(Item("a", "s", text="secret", properties={"open": False}))
        apply(batch)

    store.apply = race  # type: ignore[method-assign]
    with pytest.raises(Forbidden, match="the id is in use"):
        restricted.add(Item("a", "s", text="y", properties={"open": True}))
    assert kb.get("a", space="s")[0].text == "secret"
