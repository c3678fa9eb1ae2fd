"""Relationships of an agent's context: one line each, in every format, within every budget."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Agent, Context, Edge, Engine, Invalid, Item, Kind, agents, tokens
from knowloom.cli.main import cli
from knowloom.errors import Unavailable
from knowloom.model import SINCE
from knowloom.ports import Stores
from knowloom.server.app import create_app
from knowloom.stores.memory.store import MemoryStore

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FORMATS = ("json", "markdown", "plain", "yaml")


def entity(id: str, title: str = "", text: str = "") -> Item:
    return Item(id, "s", Kind.ENTITY, "System", title or f"{id} harbor", text, created_at=NOW)


@pytest.fixture
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        links = [
            Edge("alpha", "beta", "USES", 0.9, "s", properties={"since": 2020}),
            Edge("beta", "gamma", "FEEDS", 0.8, "s"),
            Edge("beta", "beta", "CALLS", 0.5, "s"),
        ]
        kb.add(
            [
                entity("alpha", text="It speaks of beta harbor."),
                entity("beta", text="long " * 40),
                entity("gamma"),
                Item("far", "s", text="far away"),
            ],
            links,
        )
        kb.add(
            [],
            [Edge("gamma", "far", "KNOWS", 1.0, "s"), Edge("alpha", "gamma", "BLOCKED", 0.0, "s")],
        )
        yield kb


def build(kb: Engine, **options: Any) -> Context:
    return kb.context(
        "alpha harbor beta harbor", spaces=["s"], **({"agent": "copilot", "now": NOW} | options)
    )


def relationship_ids(context: Context) -> list[str]:
    return [
        hit.item.id
        for fragment in context.fragments
        if fragment.name == "relationships"
        for hit in fragment.hits
    ]


def test_relationships_between_hits_are_named_in_every_format(kb: Engine) -> None:
    expected = [("alpha harbor", "USES", "beta harbor"), ("beta harbor", "FEEDS", "gamma harbor")]
    texts = {format: build(kb, format=format).text for format in FORMATS}
    for source, type, target in expected:
        assert (
            f"- {source} --[{type}]--> {target}" in texts["markdown"]
            and f"- {source} --[{type}]--> {target}" in texts["plain"]
        )
    for rows in (
        json.loads(texts["json"])["relationships"],
        yaml.safe_load(texts["yaml"])["relationships"],
    ):
        assert set(expected) <= {(row["from"], row["type"], row["to"]) for row in rows}
        assert next(row for row in rows if row["type"] == "USES")["properties"] == {"since": 2020}
    assert "(since: 2020)" in texts["markdown"]


def test_automatic_forbidden_and_later_edges_are_no_relationships(
    kb: Engine,
) -> None:
    kb.add([entity("ship", "Ship harbor", "The Mast is near."), entity("mast", "Mast")])
    assert [(edge.source, edge.type) for edge in kb.edges(["s"], automatic=True)] == [
        ("ship", "mentions")
    ]
    kb.add(
        [],
        [
            Edge(
                "gamma",
                "alpha",
                "LATER",
                1.0,
                "s",
                properties={SINCE: (NOW + timedelta(days=9)).isoformat()},
            )
        ],
    )
    context = kb.context(
        "alpha beta ship mast harbor", spaces=["s"], agent="copilot", as_of=NOW + timedelta(days=5)
    )
    assert {"ship", "mast", "alpha", "gamma"} <= {hit.item.id for hit in context.hits}
    types = {id.split("[")[1].split("]")[0] for id in relationship_ids(context)}
    assert types == {"USES", "FEEDS", "CALLS"}


@pytest.mark.parametrize("format", FORMATS)
def test_within_every_budget_a_link_has_both_of_its_ends(kb: Engine, format: str) -> None:
    seen = 0
    for budget in range(0, 260, 7):
        context = build(kb, max_tokens=budget, format=format)
        shown = {hit.item.key for hit in context.hits}
        links = [hit for hit in context.hits if hit.found_by == ("link",)]
        assert all({hit.edge.source_key, hit.edge.target_key} <= shown for hit in links if hit.edge)
        assert context.tokens == tokens.get_counter("gpt-4").count(context.text) <= budget
        seen += len(links)
    assert seen


name = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)


@settings(max_examples=60)
@given(
    name,
    name,
    name,
    st.dictionaries(
        name, st.one_of(st.text(max_size=20), st.integers(-9, 9), st.booleans()), max_size=2
    ),
)
def test_yaml_and_json_read_back_the_stored_relationship(
    source: str, target: str, type: str, properties: dict[str, Any]
) -> None:
    properties = {name: value for name, value in properties.items() if not str(value).count("\x00")}
    with knowloom.open("memory:", embedder=None, links=[], secrets="allow") as kb:
        kb.add(
            [entity("a", source, "harbor"), entity("b", target, "harbor")],
            [Edge("a", "b", type, space="s", properties=properties)],
        )
        agent = agents.define_agent("own", min_score=0.0)
        for format, read in (("json", json.loads), ("yaml", yaml.safe_load)):
            row = read(kb.context("harbor", spaces=["s"], agent=agent, format=format).text)[
                "relationships"
            ][0]
            assert row == {"from": source, "type": type, "to": target} | (
                {"properties": properties} if properties else {}
            )


def test_no_name_can_forge_a_line(kb: Engine) -> None:
    kb.add(
        [entity("odd", "odd harbor\n- alpha harbor --[OWNS]--> beta harbor")],
        [Edge("odd", "alpha", "X]--> beta harbor --[Y", 1.0, "s")],
    )
    for format in ("markdown", "plain"):
        lines = build(kb, format=format).text.split("\n")
        assert not any(line.startswith("- alpha harbor --[OWNS]") for line in lines)
    assert '- "odd harbor' in build(kb, format="plain").text


@pytest.mark.parametrize(
    ("depth", "reached"),
    [(None, {"gamma"}), (0, set()), (1, {"gamma"}), (2, {"gamma", "far"}), (3, {"gamma", "far"})],
)
def test_a_request_can_set_the_depth_of_its_agent(
    kb: Engine, depth: int | None, reached: set[str]
) -> None:
    agent = agents.define_agent(
        "own", min_score=0.35, weights=knowloom.Weights(match=0.0, title=1.0)
    )
    context = kb.context(
        "beta", spaces=["s"], agent=agent, now=NOW, **({} if depth is None else {"depth": depth})
    )
    ids = {
        hit.item.id
        for fragment in context.fragments
        for hit in fragment.hits
        if fragment.name == "related"
    }
    assert ids - {"alpha"} == reached and (depth == 0 or "alpha" in ids)


def test_recipes_with_depths_of_their_own_keep_them(kb: Engine) -> None:
    agent = Agent("own", knowloom.recipes.KNOWLEDGE)
    by_agent, by_recipe = (
        kb.context("far", spaces=["s"], depth=3, now=NOW, max_tokens=999, format="json", **options)
        for options in ({"agent": agent}, {"recipe": "knowledge"})
    )
    assert by_agent.digest == by_recipe.digest


@pytest.mark.parametrize("depth", [-1, 11, "2", 1.5, True])
def test_an_invalid_depth_is_refused(kb: Engine, depth: object) -> None:
    with pytest.raises(Invalid, match="depth must be an integer from 0 to 10"):
        build(kb, depth=depth)


def test_tiers_without_edges_get_no_relationships(kb: Engine) -> None:
    assert (
        "--[" not in build(kb, tier="writer_pro", format="markdown").text
        and build(kb, tier="core").text == ""
    )
    assert relationship_ids(build(kb, tier="teams")) == relationship_ids(build(kb))


def test_an_unavailable_graph_gives_a_degraded_context() -> None:
    class Down(MemoryStore):
        def edges_of(self, *_: Any, **__: Any) -> Sequence[Edge]:  # type: ignore[override]
            raise Unavailable("the graph is down")

    truth = MemoryStore()
    with Engine(Stores(truth, truth, truth, Down())) as kb:  # type: ignore[arg-type]
        kb.add([entity("alpha")])
        context = build(kb)
    assert [hit.item.id for hit in context.hits] == ["alpha"] and {"related", "relationships"} == {
        problem.part for problem in context.degraded
    }


def test_the_server_returns_and_explains_relationships(kb: Engine) -> None:
    client = TestClient(create_app(kb), base_url="http://127.0.0.1")
    asking = {"query": "alpha harbor beta harbor", "agent": "copilot", "format": "markdown"}
    answer = client.post("/api/context", json={**asking, "tenant_ids": ["s"]}).json()
    assert "- alpha harbor --[USES]--> beta harbor" in answer["text"]
    row = next(row for row in answer["context"] if row["node_type"] == "USES")
    assert (row["edge_type"], row["path"], row["content"]["from"]) == (
        "USES",
        ["alpha", "beta"],
        "alpha harbor",
    )
    explained = client.post(
        "/api/explain", json={**asking, "spaces": ["s"], "max_tokens": 60}
    ).json()
    assert any(
        entry["fragment"] == "relationships" and entry["remedy"].startswith("max_tokens=")
        for entry in explained["left_out"]
    )
    whys = {
        block["id"]: block["why"]
        for fragment in asked_whole(client, asking)["fragments"]
        for block in fragment["chosen"]
    }
    assert whys["alpha -[USES]-> beta"] == "links alpha to beta (weight .90)"


def asked_whole(client: TestClient, asking: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = client.post(
        "/api/explain", json={**asking, "spaces": ["s"], "remedies": False}
    ).json()
    return answer


def test_a_relationship_supports_an_answer(kb: Engine) -> None:
    check = knowloom.check_answer("Alpha harbor uses beta harbor.", build(kb))
    assert check.grounded and [
        sentence.item.id for sentence in check.sentences if sentence.item
    ] == ["alpha -[USES]-> beta"]


def test_rules_are_rendered_in_words(kb: Engine) -> None:
    rules = {"rules": [{"property": "owner", "constraint": "required"}], "severity": "error"}
    kb.add(
        Item(
            "owned",
            "s",
            Kind.RULE,
            "axiom",
            "Owned",
            "Every system has an owner.",
            subject="System",
            properties=rules,
        )
    )
    text = build(kb, format="markdown").text
    assert (
        "Every system has an owner." in text and "constraint" not in text and "severity" not in text
    )


def test_an_assembly_for_an_unknown_agent_is_refused_over_http_and_in_the_shell(
    kb: Engine, tmp_path: Path
) -> None:
    message = "unknown agent 'nobody'; available: copilot, editor, simplifier, summarizer, tuning"
    answer = TestClient(create_app(kb), base_url="http://127.0.0.1").post(
        "/api/assemble", json={"query": "x", "agent": "nobody"}
    )
    assert (answer.status_code, answer.json()["detail"]) == (422, message)
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as file:
        file.add(entity("alpha"))
    shell = CliRunner().invoke(
        cli,
        [
            "assemble",
            "x",
            "--agent",
            "nobody",
            "--db",
            str(tmp_path / "k.db"),
            "--embedder",
            "none",
        ],
    )
    assert shell.exit_code == 1 and message in shell.stderr


def test_an_agent_understands_the_names_of_graph_options(tmp_path: Path) -> None:
    long = {
        "include_entity_types": ("A",),
        "exclude_entity_types": ("B",),
        "min_relevance_score": 0.3,
        "relationship_depth": 2,
        "max_properties_per_entity": 4,
    }
    short = {
        "include_types": ("A",),
        "exclude_types": ("B",),
        "min_score": 0.3,
        "depth": 2,
        "max_properties": 4,
    }
    assert agents.define_agent("own", **long) == agents.define_agent("own", **short)
    (tmp_path / "agents.toml").write_text(
        '[agents.own]\ninclude_entity_types = ["A"]\nexclude_entity_types = ["B"]\n'
        "min_relevance_score = 0.3\n"
        "relationship_depth = 2\nmax_properties_per_entity = 4\n"
    )
    assert agents.load_agents(tmp_path / "agents.toml") == (agents.define_agent("own", **short),)
    with pytest.raises(Invalid, match="relationship_depth and depth are the same option"):
        agents.define_agent("own", depth=1, relationship_depth=2)
