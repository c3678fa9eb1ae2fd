"""Agents: the built-in ones, user-defined ones, and requests that use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from starlette.testclient import TestClient

import knowloom
from knowloom import Edge, Engine, Invalid, Item, Kind, agents, tokens
from knowloom.agents import AGENTS, AgentOptions, define_agent
from knowloom.cli.main import cli
from knowloom.model import Hit, Query
from knowloom.recipes import RELEVANCE
from knowloom.retrieval.ranking import rank
from knowloom.server.app import create_app

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OLD = NOW - timedelta(days=400)


@pytest.fixture(scope="module")
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        items = [
            Item(
                "create-order",
                "api",
                Kind.ENTITY,
                "Endpoint",
                "create order",
                "POST /orders makes an order",
                properties={f"p{n}": n for n in range(12)},
                created_at=NOW,
            ),
            Item(
                "order-id",
                "api",
                Kind.ENTITY,
                "Parameter",
                "order id",
                "the number of an order",
                created_at=NOW,
            ),
            Item(
                "order",
                "api",
                Kind.ENTITY,
                "Concept",
                "order",
                "what a customer buys",
                created_at=NOW,
            ),
            Item("shop", "api", Kind.ENTITY, "Product", "order shop", "sells", created_at=OLD),
            Item(
                "rule",
                "api",
                Kind.RULE,
                "axiom",
                "endpoints are versioned",
                "every endpoint has a version",
                subject="Endpoint",
            ),
        ]
        kb.add(items, [Edge("create-order", "order-id", "has_parameter", space="api")])
        yield kb


def values(name: str) -> tuple[object, ...]:
    agent = AGENTS[name]
    first = agent.recipes[0]
    return (
        first.limit,
        agent.max_tokens,
        first.types,
        first.min_score,
        tuple(part.name for part in agent.recipes[1:]),
        agent.format,
    )


def test_the_built_in_agents_have_their_documented_values():
    assert sorted(AGENTS) == ["copilot", "editor", "simplifier", "summarizer", "tuning"]
    assert values("editor") == (30, 5000, (), 0.4, ("related", "relationships", "axioms"), "yaml")
    assert values("simplifier") == (10, 2000, ("Concept", "Term", "Definition"), 0.6, (), "yaml")
    assert values("tuning") == (
        20,
        4000,
        ("Endpoint", "Parameter", "Response", "Schema"),
        0.5,
        ("related", "relationships", "axioms"),
        "yaml",
    )
    assert values("summarizer") == (
        15,
        3000,
        ("Product", "Component", "Feature", "Service"),
        0.5,
        ("related", "relationships"),
        "yaml",
    )
    assert values("copilot") == (25, 4000, (), 0.4, ("related", "relationships", "axioms"), "yaml")
    assert all(
        (agent.recipes[0].consider, agent.recipes[0].max_properties, agent.recipes[0].weights)
        == (3, 10, RELEVANCE)
        for agent in AGENTS.values()
    )


def test_an_agent_collects_its_types_their_neighbours_and_rules(kb):
    context = kb.context(
        "how do I create an order with an order id", spaces=["api"], agent="tuning", now=NOW
    )
    ids = {fragment.name: [hit.item.id for hit in fragment.hits] for fragment in context.fragments}
    assert ids == {
        "entities": ["create-order", "order-id"],
        "related": [],
        "relationships": ["create-order -[has_parameter]-> order-id"],
        "axioms": ["rule"],
    }
    assert context.query.max_tokens == 4000
    assert [row["title"] for row in yaml.safe_load(context.text)["entities"]] == [
        "create order",
        "order id",
    ]


def test_each_agent_selects_a_different_part_of_the_items(kb):
    contexts = {
        name: {
            hit.item.id
            for hit in kb.context("create order", spaces=["api"], agent=name, now=NOW).hits
        }
        for name in AGENTS
    }
    assert contexts["simplifier"] == {"order"}
    assert contexts["tuning"] >= {"create-order", "rule"}
    assert "order" not in contexts["tuning"]
    assert contexts["summarizer"] <= {"shop"}
    assert contexts["editor"] >= {"create-order", "order-id", "order", "rule"}


def test_an_agent_limits_the_number_of_properties(kb):
    shown = {
        name: (
            kb.context("create order", spaces=["api"], agent=agent, now=NOW).hits[0].item.properties
        )
        for name, agent in (
            ("some", define_agent("some", max_properties=3)),
            ("none", define_agent("none", include_properties=False)),
            ("usual", "tuning"),
        )
    }
    assert {name: len(properties) for name, properties in shown.items()} == {
        "some": 3,
        "none": 0,
        "usual": 10,
    }


def test_a_request_overrides_budget_and_format_of_its_agent(kb):
    context = kb.context(
        "create order", spaces=["api"], agent="tuning", max_tokens=40, format="markdown", now=NOW
    )
    assert tokens.get_counter("gpt-4").count(context.text) <= 40
    assert context.query.format == "markdown"


def test_relevance_is_the_weighted_sum_of_five_signals():
    query = Query("the create order endpoint", ("api",), NOW)
    item = Item(
        "x", "api", Kind.ENTITY, "Endpoint", "create order", created_at=NOW - timedelta(days=73)
    )
    scored = rank([Hit(item, 0.3, {"vector": 0.6})], query, RELEVANCE, ("Endpoint",))[0]
    assert {
        name: scored.signals[name] for name in ("semantic", "mention", "type", "recency", "name")
    } == {
        "semantic": 0.6,
        "mention": 0.6,
        "type": 1.0,
        "recency": 0.8,
        "name": 1.0,
    }
    assert scored.score == pytest.approx(0.35 * 0.6 + 0.25 * 0.6 + 0.20 + 0.10 * 0.8 + 0.10)


def test_without_a_vector_the_other_signals_carry_the_whole_weight():
    item = Item("x", "api", Kind.ENTITY, "Term", "zzz", created_at=OLD)
    scored = rank([Hit(item, 0.3)], Query("order", ("api",), NOW), RELEVANCE, ("Endpoint",))[0]
    assert scored.score == pytest.approx(0.20 * 0.3 / 0.65, abs=1e-6)
    assert (
        rank([Hit(item, 0.3)], Query("order", ("api",), NOW), RELEVANCE)[0].signals["type"] == 0.5
    )


def test_users_define_agents_in_code(kb):
    mine = define_agent(
        "mine",
        include_types=("Concept",),
        min_score=0.1,
        format="plain",
        include_relationships=False,
    )
    with knowloom.open("memory:", embedder=None, agents=[mine]) as engine:
        engine.add([Item("a", "s", Kind.ENTITY, "Concept", "order")])
        assert engine.context("order", spaces=["s"], agent="mine").text.startswith("Entities:")
    assert kb.context("order", spaces=["api"], agent=mine).hits[0].item.id == "order"


TOML = """
[agents.reviewer]
max_entities = 5
include_types = ["Endpoint"]
min_score = 0.2
format = "json"
description = "reads what others wrote"
weights = { title = 1.0 }

[agents.editor]
max_tokens = 700
"""
YAML = (
    "agents:\n  reviewer:\n    max_entities: 5\n    include_types: [Endpoint]\n"
    "    min_score: 0.2\n    format: json\n"
)


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.yaml", YAML), ("a.yml", YAML)])
def test_users_define_agents_in_a_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    table = agents.resolve_agents(tmp_path / name)
    reviewer = table["reviewer"]
    assert (reviewer.recipes[0].limit, reviewer.recipes[0].types, reviewer.format) == (
        5,
        ("Endpoint",),
        "json",
    )
    assert set(table) == {*AGENTS, "reviewer"}
    assert table["editor"].max_tokens == (700 if text is TOML else 5000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[agents.x]\nmax_entity = 3",
            "unknown agent option 'max_entity'; available: depth, description",
        ),
        ("[agents.x]\nmax_entities = 0", "max_entities must be an integer from 1"),
        ("[agents.x]\nmin_score = 2", "min_score must be a number from 0 to 1, got 2"),
        ("[agents.x]\ninclude_types = 'Endpoint'", "include_types must be a list of names"),
        ("[agents.x]\ninclude_axioms = 'yes'", "include_axioms must be true or false, got 'yes'"),
        ("[agents.x]\nweights = { semantik = 1 }", "unknown weight 'semantik'"),
        ("[agents.x]\nweights = { title = 0 }", "weights must not all be 0"),
        (
            "[agents.x]\nformat = 'xml'",
            "unknown format 'xml'; available: json, markdown, plain, yaml",
        ),
        ("agents = 3", "agents must be a table"),
        ("[agents", "neither TOML nor YAML"),
    ],
)
def test_an_invalid_agents_file_is_refused(tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(Invalid, match=message):
        agents.resolve_agents(tmp_path / "a.toml")
    with pytest.raises(Invalid, match="no file"):
        agents.resolve_agents(tmp_path / "b.toml")


def test_invalid_agents_are_refused(kb):
    with pytest.raises(
        Invalid,
        match="unknown agent 'editr'; available: copilot, editor, simplifier, summarizer, tuning",
    ):
        kb.context("x", spaces=["api"], agent="editr")
    with pytest.raises(Invalid, match="agent and recipe exclude each other"):
        kb.context("x", spaces=["api"], agent="editor", recipe="search")
    with pytest.raises(Invalid, match="duplicate agent name 'editor'"):
        knowloom.open("memory:", embedder=None, agents=[AGENTS["editor"], AGENTS["editor"]])
    with pytest.raises(Invalid, match="agents must be Agent values"):
        knowloom.open("memory:", embedder=None, agents=[AgentOptions()])  # type: ignore[list-item]
    with pytest.raises(Invalid, match="unknown format 'xml'"):
        kb.context("x", spaces=["api"], agent=replace(AGENTS["editor"], format="xml"))


def test_the_server_takes_agents_by_name(kb):
    client = TestClient(create_app(kb), base_url="http://localhost")
    answer = client.post(
        "/api/context",
        json={
            "query": "create order",
            "tenant_ids": ["api"],
            "agent": "tuning",
            "now": "2026-06-01",
        },
    ).json()
    assert answer["entry_points"][0]["id"] == "create-order"
    assert "rule" in [row["id"] for row in answer["context"]]
    assert answer["text"].startswith("entities:")
    explained = client.post(
        "/api/explain",
        json={"query": "create order", "spaces": ["api"], "agent": "tuning", "now": "2026-06-01"},
    ).json()
    assert (explained["text"], explained["query"]["max_tokens"]) == (answer["text"], 4000)
    wrong = client.post(
        "/api/context", json={"query": "x", "tenant_ids": ["api"], "agent": "nobody"}
    )
    assert (wrong.status_code, "available: copilot, editor" in wrong.json()["detail"]) == (
        422,
        True,
    )
    both = client.post(
        "/api/context",
        json={"query": "x", "tenant_ids": ["api"], "agent": "tuning", "entry_limit": 3},
    )
    assert "agent 'tuning' defines entry_limit" in both.json()["detail"]
    assert {row["name"] for row in client.get("/api/agents").json()["agents"]} == set(AGENTS)


def test_the_shell_lists_agents_and_builds_contexts_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("knowloom.toml").write_text('store = "k.db"\nembedder = "none"\n' + TOML)
    with knowloom.open("k.db", embedder=None) as kb:
        kb.add([Item("a", "s", Kind.ENTITY, "Endpoint", "create order", created_at=NOW)])
    run = CliRunner().invoke
    assert {row["name"] for row in json.loads(run(cli, ["agents", "--json"]).stdout)["agents"]} == {
        *AGENTS,
        "reviewer",
    }
    assert "reviewer: reads what others wrote" in run(cli, ["agents"]).stdout
    result = run(cli, ["context", "create order", "--space", "s", "--agent", "reviewer"])
    assert json.loads(result.stdout)["entities"][0]["id"] == "a"
    assert (
        "unknown agent 'nobody'"
        in run(cli, ["context", "x", "--space", "s", "--agent", "nobody"]).stderr
    )
    assembled = run(
        cli, ["assemble", "create order", "--space", "s", "--agent", "reviewer", "--json"]
    )
    assert [
        row["status"]
        for row in json.loads(assembled.stdout)["strategies"]
        if row["name"] == "knowledge"
    ] == ["used"]


@pytest.fixture
def hub() -> Iterator[Engine]:
    """An entity with six neighbours, which the query does not match."""
    with knowloom.open("memory:", embedder=None) as kb:
        near = [Item(f"near-{n}", "s", Kind.ENTITY, "Part", f"part {n}") for n in range(6)]
        edges = [Edge("pump", item.id, "has", space="s") for item in near]
        kb.add([Item("pump", "s", Kind.ENTITY, "Device", "pump"), *near], edges)
        yield kb


@pytest.mark.parametrize(
    ("options", "related"),
    [
        ({"max_entities": 4}, 3),
        ({"max_entities": 1}, 0),
        ({"max_entities": 1, "max_related": 5}, 5),
        ({"max_entities": 4, "max_related": 0}, 0),
        ({"max_entities": 20}, 6),
    ],
)
def test_related_items_do_not_exceed_the_maximum_unless_asked(hub, options, related):
    context = hub.context("pump", spaces=["s"], agent=define_agent("few", min_score=0.1, **options))
    parts = {fragment.name: len(fragment.hits) for fragment in context.fragments}
    assert (parts["entities"], parts.get("related", 0)) == (1, related)


@pytest.mark.parametrize("value", [-1, 1.5, True, "3"])
def test_the_number_of_related_items_is_validated(value):
    with pytest.raises(Invalid, match="max_related"):
        define_agent("few", max_related=value, include_relationships=False)


def test_the_list_of_agents_has_their_configuration(kb):
    mine = define_agent("mine", min_score=0.25, where={"p1": 1}, max_related=2)
    own = knowloom.Agent("own", (knowloom.Recipe("anything"),))
    with knowloom.open("memory:", embedder=None, agents=[mine, own]) as engine:
        rows = TestClient(create_app(engine), base_url="http://localhost").get("/api/agents").json()
    configs = {row["name"]: row["config"] for row in rows["agents"]}
    assert configs["simplifier"]["min_score"] == 0.6
    assert configs["own"] is None
    for name, agent in {**AGENTS, "mine": mine}.items():
        assert agents.parse_agent(name, configs[name]) == agent
    part = next(row for row in rows["agents"] if row["name"] == "mine")["parts"][0]
    assert (part["min_score"], part["weights"]["semantic"]) == (0.25, 0.35)
