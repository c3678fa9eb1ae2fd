"""The same conditions on every surface: engine, client, HTTP, command line, adapters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import knowloom
from cli_runs import run, run_json
from knowloom import Client, Edge, Engine, GraphContext, Item, Memory, Provider
from knowloom.agents import define_agent
from knowloom.capabilities.assembler.strategies import build_assembler
from knowloom.errors import Invalid
from knowloom.filters.condition_json import validate_where
from live_server import serving

WHERE = {"price": {"$gte": 10}, "team": {"$in": ["sales", None]}}
TEXTS = ("--where", "price>=10", "--where", 'team in ["sales", null]')
SOURCE = {"$source": {"$prefix": "docs/"}}


def build_items(kind: str, prefix: str) -> list[Item]:
    rows: list[tuple[Any, Any, str | None]] = [
        (9, "sales", "docs/a"),
        (10, "sales", "docs/b"),
        (11, "hr", "docs/c"),
        (12, None, "wiki/d"),
        ("13", "sales", None),
        (None, "sales", None),
    ]
    return [
        Item(
            f"{prefix}{number}",
            "s",
            kind,  # type: ignore[arg-type]
            type="Offer" if kind == "entity" else "faq",
            title=f"{prefix}{number} refund",
            text="refund",
            properties={"price": price, "team": team},
            source=source,
        )
        for number, (price, team, source) in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "store.db"
    items = [
        *build_items("node", "n"),
        *build_items("entity", "e"),
        *build_items("memory", "m"),
    ]
    edges = [Edge(f"e{n}", f"e{m}", space="s") for n in range(6) for m in range(6) if n != m]
    with knowloom.open(str(path), embedder=None) as kb:
        kb.add(items, edges)
    return path


@pytest.fixture(scope="module")
def engine(path: Path) -> Iterator[Engine]:
    with knowloom.open(str(path), embedder=None) as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[Client]:
    with serving(engine) as address, Client(address) as client:
        yield client


@pytest.fixture(params=["engine", "client"])
def kb(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def ids(hits: Any) -> list[str]:
    return sorted(hit.item.id for hit in hits)


BOTH = ["e1", "e3", "m1", "m3", "n1", "n3"]


def test_search_items_and_contexts(kb: Engine | Client) -> None:
    assert ids(kb.search("refund", spaces=["s"], limit=50, where=WHERE)) == BOTH
    assert ids(kb.search("refund", spaces=["s"], limit=50, mode="walk", where=WHERE)) == BOTH
    assert sorted(item.id for item in kb.items(["s"], where=WHERE)) == BOTH
    docs = [item.id for item in kb.items(["s"], kinds=["node"], where=SOURCE)]
    assert docs == ["n0", "n1", "n2"]
    for call in (kb.context, kb.explain):
        context = call(
            "n1 refund, e1 refund, e3 refund", spaces=["s"], where=WHERE, max_tokens=None
        )
        assert set(ids(context.hits)) == set(BOTH)
        assert context.query.where == validate_where(WHERE)
        assert {left.hit.item.id for left in context.left_out} <= set(BOTH)


def test_explain_names_the_condition(kb: Engine | Client) -> None:
    context = kb.explain("refund", spaces=["s"], ids=["n0", "n5"], where=WHERE)
    reasons = [left.reason.split("; ")[0] for left in context.left_out[-2:]]
    assert reasons == [
        "entry_points: property 'price' is 9, not >= 10",
        "entry_points: property 'price' is missing",
    ]


def test_recipes_of_programs(kb: Engine | Client) -> None:
    recipe = knowloom.Recipe(
        "found", where=(knowloom.ItemCondition("price", "$eq", (11,)),), max_properties=2
    )
    assert ids(kb.context("refund", spaces=["s"], recipe=[recipe]).hits) == ["e2", "m2", "n2"]
    agent = define_agent("few", where={"price": 12}, min_score=0.0)
    assert ids(kb.context("refund", spaces=["s"], agent=agent).hits) == ["e3"]


def test_graph_contexts(kb: Engine | Client) -> None:
    graph = GraphContext(kb, ["s"])
    assert sorted(
        entity.hit.item.id for entity in graph.for_query("refund", where=WHERE).entities
    ) == [
        "e1",
        "e3",
    ]
    answer = graph.for_entities(["e1", "e2"], where=WHERE, relationship_depth=0)
    assert [entity.hit.item.id for entity in answer.entities] == ["e1"]
    assert "property 'team' is 'hr'" in answer.left_out[0].reason


def test_memories(engine: Engine, client: Client) -> None:
    for memory in (Memory(engine, "s"), client.memory("s")):
        results = memory.search("refund", where=WHERE, mode="bm25")
        assert sorted(result.memory.id for result in results) == ["m1", "m3"]
        built = memory.build_context("refund", where=WHERE, mode="bm25")
        assert sorted(result.memory.id for result in built.memories) == ["m1", "m3"]


def test_the_provider(engine: Engine, client: Client) -> None:
    embedded = Provider(engine, spaces=["s"], entity_id="e0", where=WHERE, max_tokens=None)
    retrieval = embedded.retrieve("refund")
    assert ids(retrieval.pieces) == ["m1", "m3", "n1", "n3"]
    ends = {relation.edge.target for relation in retrieval.graph_context}
    assert ends <= {"e0", "e1", "e3"} and "e1" in ends
    assert not retrieval.degraded
    remote = client.provide("refund", spaces=["s"], entity_id="e0", where=WHERE, max_tokens=None)
    assert remote.sections == embedded.provide("refund").sections


def test_the_assembler(engine: Engine, client: Client) -> None:
    local = build_assembler(engine, {}).assemble("refund", spaces=("s",), where=WHERE)
    remote = client.assemble("refund", spaces=("s",), where=WHERE)
    assert local.text == remote.text
    assert "n1 refund" in local.text and "n2 refund" not in local.text


def test_evaluation(engine: Engine) -> None:
    question = knowloom.Question("refund", ("n1",), spaces=("s",))
    measured = knowloom.evaluate(engine, [question], ks=[10], budgets=[], where=WHERE)
    assert sorted(id for _, id in measured.answers[0].ranking) == BOTH
    assert json.dumps(measured.options)


def test_a_bad_condition_is_refused_alike(kb: Engine | Client, client: Client) -> None:
    for where in ({"a": {"$foo": 1}}, {"$foo": 1}, {"a": float("nan")}, "a=1"):
        with pytest.raises(Invalid) as error:
            kb.search("refund", spaces=["s"], where=where)  # type: ignore[arg-type]
        assert "where" in str(error.value)


def test_http_accepts_the_json_form_only(engine: Engine) -> None:
    from http_api import serve_app

    with serve_app(engine) as http:
        base = {"query": "refund", "spaces": ["s"]}
        for where, status in [
            (WHERE, 200),
            ([WHERE, {"price": 10}], 200),
            ({}, 200),
            (None, 200),
            ("price>=10", 422),
            ({"a": {"$foo": 1}}, 422),
            ([1], 422),
            ({"a": {"$in": {"b": 1}}}, 422),
        ]:
            response = http.post("/api/search", json=base | {"where": where})
            assert response.status_code == status, (where, response.text)
        body = {"query": "refund", "tenant_ids": ["s"], "where": WHERE, "entry_limit": 50}
        answer = http.post("/api/context", json=body).json()
        assert {node["id"] for node in answer["entry_points"]} == {"n1", "n3", "m1", "m3"}
        assert {node["id"] for node in answer["entities"]} <= {"e1", "e3"}
        listed = http.get("/api/spaces/s/items", params={"where": ["price>=10", "team=sales"]})
        assert [row["id"] for row in listed.json()["items"]] == ["e1", "m1", "n1"]
        assert http.get("/api/spaces/s/items", params={"where": "price"}).status_code == 422
        export = http.get("/api/export", params={"space": "s", "where": "price>=10"})
        rows = [json.loads(line) for line in export.text.splitlines()]
        assert {row["id"] for row in rows if "id" in row} == {
            f"{prefix}{n}" for prefix in "nem" for n in (1, 2, 3)
        }
        assert {row["source"] for row in rows if "target" in row} == {"e1", "e2", "e3"}


def test_the_command_line(path: Path, tmp_path: Path) -> None:
    hits = run_json("search refund --space s --limit 50", *TEXTS, db=path)["hits"]
    assert sorted(hit["item"]["id"] for hit in hits) == BOTH
    as_json = run_json("search refund --space s --limit 50 --where", json.dumps(WHERE), db=path)
    assert as_json["hits"] == hits
    for command in (
        "context refund --space s",
        "explain refund --space s",
        "assemble refund --space s",
        "provide refund --space s",
        "recall refund --workspace s --mode bm25",
        "graph refund --space s",
        "check-answer refund --space s",
    ):
        result = run(command, *TEXTS, db=path)
        assert result.exit_code in (0, 1), (command, result.output)
        assert "n2" not in result.stdout and "e2" not in result.stdout, command
        bad = run(command, "--where", "price", db=path)
        assert bad.exit_code == 2 and "NAME=VALUE" in bad.stderr, command
    exported = run("export --space s", "--where", "price=10", db=path).stdout.splitlines()
    assert [json.loads(line)["id"] for line in exported] == ["e1", "m1", "n1"]


def test_keys_with_a_filter_on_the_command_line(path: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "keys.json")
    arguments = ("--read", "s", "--where", "groups any sales,all", "--keys", file)
    key = run_json("keys add maya", *arguments, db=path)
    assert key["where"] == {"groups": {"$any": ["sales", "all"]}}
    listed = run("keys list --keys", file, db=path).stdout
    assert "maya" in listed and '{"groups":{"$any":["sales","all"]}}' in "".join(listed.split())
    refused = run("keys add boss --role admin", *arguments, db=path)
    assert refused.exit_code == 1 and "admin sees everything" in refused.stderr


def test_adapters(engine: Engine) -> None:
    pytest.importorskip("langchain_core")
    from knowloom.integrations.langchain import KnowloomRetriever

    retriever = KnowloomRetriever(kb=engine, spaces=["s"], k=50, where=WHERE)
    assert sorted(document.metadata["id"] for document in retriever.invoke("refund")) == BOTH
    pytest.importorskip("haystack")
    haystack = knowloom.HaystackRetriever(engine, spaces=["s"], top_k=50, where={"price": 10})
    filters = {"field": "meta.properties.team", "operator": "in", "value": ["sales"]}
    found = haystack.run("refund", filters=filters)["documents"]
    assert sorted(document.meta["id"] for document in found) == ["e1", "m1", "n1"]
    with pytest.raises(Invalid, match="unknown operator in a filter on a property '!='"):
        haystack.run("refund", filters=filters | {"operator": "!="})
