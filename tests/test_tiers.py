"""Restrictions of each tier in the engine, the server, the shell and the client."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner
from starlette.testclient import TestClient

import knowloom
from knowloom import Edge, Engine, Forbidden, Invalid, Item, Kind, Recipe, tiers
from knowloom.cli.main import cli
from knowloom.recipes import KNOWLEDGE, MEMORIES, RECIPES, SEARCH
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TIERS = ("core", "writer_pro", "teams", "enterprise")


def knowledge() -> tuple[list[Item], list[Edge]]:
    items = [
        Item(f"e{n}", "s", Kind.ENTITY, "Endpoint", f"refund endpoint {n}", "pays a refund")
        for n in range(14)
    ]
    items += [
        Item("n", "s", type="faq", title="refund", text="secret of the node"),
        Item("m", "s", Kind.MEMORY, text="refund remembered"),
    ]
    items += [Item("r", "s", Kind.RULE, text="refund rule", subject="Endpoint")]
    return items, [Edge("n", f"e{n}", space="s") for n in range(14)]


@pytest.fixture(scope="module")
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(*knowledge())
        yield kb


def kinds(hits: Any) -> set[str]:
    return {hit.item.kind.value for hit in hits}


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_core_sees_nothing_and_gets_a_reason(kb, recipe):
    context = kb.context("refund", spaces=["s"], recipe=recipe, tier="core")
    assert (context.text, context.hits, context.left_out) == ("", (), ())
    assert [(problem.code, problem.reason) for problem in context.degraded] == [
        ("tier", "tier 'core' has no access to knowledge")
    ]


@pytest.mark.parametrize("recipe", ["knowledge", "search"])
def test_writer_pro_sees_ten_entities_and_nothing_else(kb, recipe):
    context = kb.context("refund", spaces=["s"], recipe=recipe, tier="writer_pro", max_tokens=None)
    assert (kinds(context.hits), len(context.hits) + len(context.left_out)) == ({"entity"}, 10)
    assert "secret" not in context.text
    assert context.degraded[0].code == "tier"


def test_no_option_of_a_request_lifts_a_tier(kb):
    for options in (
        {"kinds": ["node"]},
        {"limit": 1000},
        {"types": ["faq"]},
        {"depth": 5},
        {"entity": "n"},
        {"agent": "copilot"},
    ):
        context = kb.context("refund", spaces=["s"], tier="writer_pro", max_tokens=None, **options)
        assert kinds(context.hits) <= {"entity"}
        assert len(context.hits) + len(context.left_out) <= 10


@pytest.mark.parametrize("tier", ["teams", "enterprise"])
def test_teams_and_enterprise_see_everything(kb, tier):
    context = kb.context("refund", spaces=["s"], tier=tier, max_tokens=None, now=NOW)
    assert (
        context == kb.context("refund", spaces=["s"], max_tokens=None, now=NOW)
        or context.text == kb.context("refund", spaces=["s"], max_tokens=None, now=NOW).text
    )
    assert (kinds(context.hits), context.degraded) == ({"node", "memory", "entity"}, ())


@pytest.mark.parametrize(
    ("tier", "seen", "count"),
    [
        ("core", set(), 0),
        ("writer_pro", {"entity"}, 10),
        ("teams", {"entity", "node", "memory", "rule"}, 17),
    ],
)
def test_a_search_is_restricted_to_its_tier(kb, tier, seen, count):
    hits = kb.search("refund", spaces=["s"], limit=50, tier=tier)
    assert (kinds(hits), len(hits)) == (seen, count)
    assert len(kb.search("refund", spaces=["s"], kinds=["node"], tier=tier)) == (
        1 if tier == "teams" else 0
    )


@pytest.mark.parametrize("tier", ["core", "writer_pro"])
def test_explain_reveals_nothing_beyond_the_tier(kb, tier):
    context = kb.explain("refund", spaces=["s"], tier=tier, max_tokens=None)
    assert len(context.hits) + len(context.left_out) <= 10
    with pytest.raises(Forbidden, match="explaining items by id needs tier"):
        kb.explain("refund", spaces=["s"], tier=tier, ids=["n"])


@pytest.mark.parametrize("tier", TIERS)
def test_only_enterprise_can_pass_recipes_and_agents(kb, tier):
    agent = knowloom.Agent("mine", (Recipe("mine", kinds=(Kind.NODE,)),))
    for options in ({"recipe": [Recipe("mine")]}, {"agent": agent}):
        if tier == "enterprise":
            assert kb.context("refund", spaces=["s"], tier=tier, **options).text
        else:
            with pytest.raises(Forbidden, match=f"need tier 'enterprise', got '{tier}'"):
                kb.context("refund", spaces=["s"], tier=tier, **options)


def test_a_failed_tier_lookup_falls_back_to_the_lowest_tier(kb):
    def down() -> str:
        raise ConnectionError("no answer")

    for lookup in (down, lambda: "platinum", lambda: None):
        assert kb.context("refund", spaces=["s"], tier=lookup).text == ""
        assert kb.search("refund", spaces=["s"], tier=lookup) == []
    assert kb.context("refund", spaces=["s"], tier=lambda: "teams").text


def test_a_tier_is_looked_up_once_for_a_request(kb):
    calls: list[int] = []
    kb.explain("refund", spaces=["s"], tier=lambda: (calls.append(1), "teams")[1])
    assert calls == [1]


@pytest.mark.parametrize("wrong", ["platinum", "", "CORE", 3])
def test_an_unknown_tier_is_refused_with_the_available_ones(kb, wrong):
    with pytest.raises(Invalid, match=r"core, .*writer_pro"):
        kb.context("refund", spaces=["s"], tier=wrong)


def test_restrict_recipes_returns_restricted_copies():
    pro = tiers.TIERS["writer_pro"]
    assert tiers.restrict_recipes(KNOWLEDGE, tiers.TIERS["core"]) == ()
    assert tiers.restrict_recipes(MEMORIES, pro) == ()
    assert [
        (recipe.name, recipe.source, recipe.kinds, recipe.limit, recipe.depth)
        for recipe in tiers.restrict_recipes(KNOWLEDGE, pro)
    ] == [("entities", "search", (Kind.ENTITY,), 10, 0)]
    assert [(recipe.kinds, recipe.limit) for recipe in tiers.restrict_recipes(SEARCH, pro)] == [
        ((Kind.ENTITY,), 10)
    ]
    several = [
        Recipe("a", kinds=(Kind.ENTITY,), limit=7),
        Recipe("b", kinds=(Kind.ENTITY, Kind.NODE), limit=7),
        Recipe("c", kinds=(Kind.ENTITY,)),
    ]
    assert [(recipe.name, recipe.limit) for recipe in tiers.restrict_recipes(several, pro)] == [
        ("a", 7),
        ("b", 3),
    ]
    assert tiers.restrict_recipes(KNOWLEDGE, tiers.TIERS["teams"]) == KNOWLEDGE


def test_the_assembler_renders_the_users_text_in_every_tier(kb):
    assembler = knowloom.Assembler(
        [
            knowloom.DocumentStrategy(),
            knowloom.RetrievalStrategy(kb),
            knowloom.KnowledgeStrategy(kb),
            knowloom.MemoryStrategy(kb),
        ]
    )
    texts = {
        tier: assembler.assemble("refund", spaces=("s",), document="My own words.", tier=tier).text
        for tier in TIERS
    }
    assert texts["core"] == "## Document\n\nMy own words."
    assert texts["writer_pro"].count("refund endpoint") == 10
    assert "secret of the node" not in texts["writer_pro"]
    assert "secret of the node" in texts["teams"]
    assert texts["enterprise"] == texts["teams"]


@pytest.mark.parametrize(
    ("tier", "seen"),
    [
        ("core", False),
        ("writer_pro", False),
        ("teams", True),
        ("enterprise", True),
        (lambda: 1 / 0, False),
    ],
)
def test_the_provider_needs_a_full_tier(kb, tier, seen):
    provider = knowloom.Provider(kb, spaces=["s"], tier=tier)
    for call in (provider, provider.retrieve, provider.provide, provider.text):
        if seen:
            call("refund")
        else:
            with pytest.raises(
                knowloom.Forbidden, match="the provider needs tier 'teams' or 'enterprise'"
            ):
                call("refund")


@pytest.mark.parametrize(
    ("tier", "seen"),
    [
        ("core", False),
        ("writer_pro", False),
        ("teams", True),
        ("enterprise", True),
        (lambda: 1 / 0, False),
    ],
)
def test_memory_needs_a_full_tier(kb, tier, seen):
    knowloom.Memory(kb, "m").remember("the refund was paid", id="a")
    memory = knowloom.Memory(kb, "m", tier=tier)
    calls = {
        "remember": ("b",),
        "relate": ("a", "a"),
        "get": ("a",),
        "search": ("refund",),
        "search_many": (["refund"],),
        "build_context": ("refund",),
        "preview": ("refund",),
        "forget": ("a",),
    }
    for name, arguments in calls.items():
        if seen:
            getattr(memory, name)(*arguments)
        else:
            with pytest.raises(
                knowloom.Forbidden, match="memory needs tier 'teams' or 'enterprise'"
            ):
                getattr(memory, name)(*arguments)
    if not seen:
        with pytest.raises(knowloom.Forbidden):
            memory.add_conversation([{"speaker": "A", "content": "b"}], conversation="c")
        assert [item.id for item in knowloom.Memory(kb, "m").get(["a", "b"])] == ["a"]


def test_a_graph_context_is_restricted_to_its_tier(kb):
    graph = knowloom.GraphContext(kb, ["s"])
    counts = {
        tier: len(graph.for_query("refund endpoint", tier=tier, max_tokens=None).entities)
        for tier in TIERS
    }
    assert counts == {"core": 0, "writer_pro": 10, "teams": 14, "enterprise": 14}
    context = graph.for_entities(["e1", "n"], tier="writer_pro", include_claims=True)
    assert (
        [entity.item.id for entity in context.entities],
        context.relationships,
        context.left_out,
        context.degraded[-1].code,
    ) == (["e1"], (), (), "tier")
    with pytest.raises(Forbidden, match="enterprise"):
        graph.for_query("refund", tier="teams", ranker=knowloom.TermRanker())


class TestServer:
    @pytest.fixture
    def clients(self, tmp_path: Path) -> Iterator[dict[str, TestClient]]:
        ring = Keyring(tmp_path / "keys.json")
        secrets = {
            tier: ring.add(tier, reads=["s"], writes=[], role="viewer", tier=tier, now=NOW)[1]
            for tier in TIERS
        }
        with knowloom.open("memory:", embedder=None) as kb:
            kb.add(*knowledge())
            app = create_app(kb, ring)
            yield {
                tier: TestClient(
                    app, base_url="http://localhost", headers={"authorization": f"Bearer {secret}"}
                )
                for tier, secret in secrets.items()
            }

    def ask(self, client: TestClient, path: str, status: int = 200, **body: Any) -> Any:
        answer = client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def test_every_route_applies_the_tier_of_the_key(self, clients):
        for tier, (nodes, entities, texts) in {
            "core": (0, 0, False),
            "writer_pro": (0, 10, False),
            "teams": (3, 10, True),
            "enterprise": (3, 10, True),
        }.items():
            context = self.ask(
                clients[tier], "/api/context", query="refund", tenant_ids=["s"], format="markdown"
            )
            assert (len(context["entry_points"]), len(context["entities"])) == (nodes, entities)
            explained = self.ask(clients[tier], "/api/explain", query="refund", spaces=["s"])
            prompt = self.ask(
                clients[tier], "/api/ask/context", query="refund", spaces=["s"], bm25_weight=1.0
            )
            assembled = self.ask(clients[tier], "/api/assemble", query="refund", spaces=["s"])
            hits = self.ask(clients[tier], "/api/search", query="refund", spaces=["s"], limit=50)[
                "hits"
            ]
            assert all(
                ("secret of the node" in str(answer)) == texts
                for answer in (context, explained, prompt, assembled, hits)
            )

    def test_a_request_can_lower_but_not_raise_its_tier(self, clients):
        assert (
            self.ask(
                clients["core"], "/api/explain", query="refund", spaces=["s"], tier="enterprise"
            )["text"]
            == ""
        )
        assert (
            self.ask(
                clients["enterprise"], "/api/explain", query="refund", spaces=["s"], tier="core"
            )["text"]
            == ""
        )
        self.ask(
            clients["teams"], "/api/explain", 422, query="refund", spaces=["s"], tier="platinum"
        )

    def test_only_full_tiers_read_stored_items(self, clients):
        for tier, status in {
            "core": 403,
            "writer_pro": 403,
            "teams": 200,
            "enterprise": 200,
        }.items():
            client = clients[tier]
            gets = [
                client.get(path).status_code
                for path in (
                    "/api/spaces/s/items",
                    "/api/spaces/s/items/n",
                    "/api/spaces/s/edges",
                    "/api/export?space=s",
                )
            ]
            posts = [client.post("/api/items", json={"space": "s", "ids": ["n"]}).status_code]
            posts += [
                client.post(path, json={"spaces": ["s"]}).status_code
                for path in ("/api/page", "/api/edge_page")
            ]
            posts += [
                client.post("/api/check", json={"spaces": ["s"]}).status_code,
                client.post("/api/history", json={"space": "s", "id": "n"}).status_code,
            ]
            posts += [
                client.post("/api/provide", json={"query": "refund", "spaces": ["s"]}).status_code
            ]
            posts += [
                client.post(
                    "/api/memory/search", json={"query": "refund", "workspace": "s"}
                ).status_code
            ]
            assert gets + posts == [status] * 11

    def test_the_graph_route_returns_only_entities_to_writer_pro(self, clients):
        graphs = {
            tier: clients[tier]
            .post(
                "/api/graph",
                json={"query": "refund endpoint", "spaces": ["s"], "tier": "enterprise"},
            )
            .json()
            for tier in TIERS
        }
        assert [len(graphs[tier]["entities"]) for tier in TIERS] == [0, 10, 14, 14]

    def test_only_enterprise_can_send_recipes(self, clients):
        body = {"query": "refund", "spaces": ["s"], "recipe": [{"name": "mine", "kinds": ["node"]}]}
        assert "secret" in self.ask(clients["enterprise"], "/api/ask/context", **body)["text"]
        assert self.ask(clients["teams"], "/api/ask/context", 403, **body)["code"] == "tier"

    def test_a_key_with_an_unknown_tier_has_the_lowest_tier(self, tmp_path):
        ring = Keyring(tmp_path / "keys.json")
        secret = ring.add("odd", reads=["s"], writes=[], role="viewer", tier="teams", now=NOW)[1]
        ring.path.write_text(ring.path.read_text().replace('"teams"', '"platinum"'))
        with knowloom.open("memory:", embedder=None) as kb:
            kb.add(*knowledge())
            client = TestClient(
                create_app(kb, Keyring(ring.path)),
                base_url="http://localhost",
                headers={"x-api-key": secret},
            )
            assert self.ask(client, "/api/explain", query="refund", spaces=["s"])["text"] == ""


def test_the_shell_applies_the_tier_option(tmp_path):
    file = str(tmp_path / "k.db")
    with knowloom.open(file, embedder=None) as kb:
        kb.add(*knowledge())

    def run(command: str, tier: str, *options: str) -> Any:
        arguments = [command, "refund", "--space", "s", "--tier", tier, *options]
        return CliRunner().invoke(cli, [*arguments, "--db", file, "--embedder", "none"])

    core = run("context", "core")
    assert (core.exit_code, core.stdout) == (0, "")
    assert "tier 'core' has no access to knowledge" in core.stderr
    hits = run("search", "writer_pro", "--limit", "50", "--json")
    assert hits.stdout.count('"kind"') == 10
    graph = json.loads(run("graph", "writer_pro", "--min-score", "0", "--json").stdout)
    assert (len(graph["entities"]), graph["relationships"]) == (10, [])
    assert run("graph", "core").stdout == ""
    refused = run("provide", "core")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "the provider needs tier" in refused.stderr
    unknown = run("context", "gold")
    assert unknown.exit_code == 1
    assert "unknown tier 'gold'; available: core, enterprise, teams, writer_pro" in unknown.stderr


def test_the_client_accepts_tiers_and_agents_as_the_engine_does(kb, tmp_path):
    ring = Keyring(tmp_path / "keys.json")
    secrets = {
        tier: ring.add(tier, reads=["s"], writes=[], role="viewer", tier=tier, now=NOW)[1]
        for tier in ("teams", "enterprise")
    }
    server = uvicorn.Server(
        uvicorn.Config(create_app(kb, ring), port=0, log_level="critical", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        agent = knowloom.Agent("mine", (Recipe("mine", kinds=(Kind.NODE,)),), 500, "plain")
        with (
            knowloom.Client(url, key=secrets["enterprise"]) as full,
            knowloom.Client(url, key=secrets["teams"]) as teams,
        ):
            for options in (
                {"tier": "writer_pro"},
                {"agent": "copilot"},
                {"agent": agent},
                {"tier": lambda: "core"},
                {"tier": lambda: 1 / 0},
            ):
                assert (
                    full.context("refund", spaces=["s"], now=NOW, **options).text
                    == kb.context("refund", spaces=["s"], now=NOW, **options).text
                )
            assert [hit.item.id for hit in teams.search("refund", spaces=["s"], tier="core")] == []
            with pytest.raises(Forbidden, match="need tier 'enterprise'"):
                teams.context("refund", spaces=["s"], agent=agent)
            with pytest.raises(Invalid, match="unknown agent 'nobody'"):
                teams.context("refund", spaces=["s"], agent="nobody")
    finally:
        server.should_exit = True
        thread.join(10)
