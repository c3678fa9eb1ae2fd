"""What each tier may see, on every way in."""

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
def test_core_sees_nothing_and_is_told_why(kb, recipe):
    found = kb.context("refund", spaces=["s"], recipe=recipe, tier="core")
    assert (found.text, found.hits, found.left_out) == ("", (), ())
    assert [(one.code, one.reason) for one in found.degraded] == [
        ("tier", "tier 'core' has no access to knowledge")
    ]


@pytest.mark.parametrize("recipe", ["knowledge", "search"])
def test_writer_pro_sees_ten_entities_and_nothing_else(kb, recipe):
    found = kb.context("refund", spaces=["s"], recipe=recipe, tier="writer_pro", max_tokens=None)
    assert (kinds(found.hits), len(found.hits) + len(found.left_out)) == ({"entity"}, 10)
    assert "secret" not in found.text
    assert found.degraded[0].code == "tier"


def test_no_option_of_a_request_lifts_a_tier(kb):
    for options in (
        {"kinds": ["node"]},
        {"limit": 1000},
        {"types": ["faq"]},
        {"depth": 5},
        {"entity": "n"},
        {"agent": "copilot"},
    ):
        found = kb.context("refund", spaces=["s"], tier="writer_pro", max_tokens=None, **options)
        assert kinds(found.hits) <= {"entity"}
        assert len(found.hits) + len(found.left_out) <= 10


@pytest.mark.parametrize("tier", ["teams", "enterprise"])
def test_teams_and_enterprise_see_everything(kb, tier):
    found = kb.context("refund", spaces=["s"], tier=tier, max_tokens=None, now=NOW)
    assert (
        found == kb.context("refund", spaces=["s"], max_tokens=None, now=NOW)
        or found.text == kb.context("refund", spaces=["s"], max_tokens=None, now=NOW).text
    )
    assert (kinds(found.hits), found.degraded) == ({"node", "memory", "entity"}, ())


@pytest.mark.parametrize(
    ("tier", "seen", "count"),
    [
        ("core", set(), 0),
        ("writer_pro", {"entity"}, 10),
        ("teams", {"entity", "node", "memory", "rule"}, 17),
    ],
)
def test_a_search_sees_what_its_tier_may(kb, tier, seen, count):
    found = kb.search("refund", spaces=["s"], limit=50, tier=tier)
    assert (kinds(found), len(found)) == (seen, count)
    assert len(kb.search("refund", spaces=["s"], kinds=["node"], tier=tier)) == (
        1 if tier == "teams" else 0
    )


@pytest.mark.parametrize("tier", ["core", "writer_pro"])
def test_explain_tells_nothing_beyond_the_tier(kb, tier):
    found = kb.explain("refund", spaces=["s"], tier=tier, max_tokens=None)
    assert len(found.hits) + len(found.left_out) <= 10
    with pytest.raises(Forbidden, match="explaining items by id needs tier"):
        kb.explain("refund", spaces=["s"], tier=tier, ids=["n"])


@pytest.mark.parametrize("tier", TIERS)
def test_only_enterprise_brings_configurations_of_its_own(kb, tier):
    own = knowloom.Agent("mine", (Recipe("mine", kinds=(Kind.NODE,)),))
    for options in ({"recipe": [Recipe("mine")]}, {"agent": own}):
        if tier == "enterprise":
            assert kb.context("refund", spaces=["s"], tier=tier, **options).text
        else:
            with pytest.raises(Forbidden, match=f"need tier 'enterprise', got '{tier}'"):
                kb.context("refund", spaces=["s"], tier=tier, **options)


def test_a_tier_that_cannot_be_found_out_is_the_least(kb):
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
def test_an_unknown_tier_is_refused_with_the_known_ones(kb, wrong):
    with pytest.raises(Invalid, match=r"core, .*writer_pro"):
        kb.context("refund", spaces=["s"], tier=wrong)


def test_restricting_is_a_function_from_recipes_to_recipes():
    pro = tiers.TIERS["writer_pro"]
    assert tiers.restrict_recipes(KNOWLEDGE, tiers.TIERS["core"]) == ()
    assert tiers.restrict_recipes(MEMORIES, pro) == ()
    assert [
        (one.name, one.source, one.kinds, one.limit, one.depth)
        for one in tiers.restrict_recipes(KNOWLEDGE, pro)
    ] == [("entities", "search", (Kind.ENTITY,), 10, 0)]
    assert [(one.kinds, one.limit) for one in tiers.restrict_recipes(SEARCH, pro)] == [
        ((Kind.ENTITY,), 10)
    ]
    several = [
        Recipe("a", kinds=(Kind.ENTITY,), limit=7),
        Recipe("b", kinds=(Kind.ENTITY, Kind.NODE), limit=7),
        Recipe("c", kinds=(Kind.ENTITY,)),
    ]
    assert [(one.name, one.limit) for one in tiers.restrict_recipes(several, pro)] == [
        ("a", 7),
        ("b", 3),
    ]
    assert tiers.restrict_recipes(KNOWLEDGE, tiers.TIERS["teams"]) == KNOWLEDGE


def test_the_assembler_shows_the_users_own_text_in_every_tier(kb):
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
def test_a_provider_is_for_the_full_tiers(kb, tier, seen):
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
def test_memory_is_for_the_full_tiers(kb, tier, seen):
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
    for name, given in calls.items():
        if seen:
            getattr(memory, name)(*given)
        else:
            with pytest.raises(
                knowloom.Forbidden, match="memory needs tier 'teams' or 'enterprise'"
            ):
                getattr(memory, name)(*given)
    if not seen:
        with pytest.raises(knowloom.Forbidden):
            memory.add_conversation([{"speaker": "A", "content": "b"}], conversation="c")
        assert [one.id for one in knowloom.Memory(kb, "m").get(["a", "b"])] == ["a"]


def test_a_graph_context_shows_what_its_tier_may(kb):
    graph = knowloom.GraphContext(kb, ["s"])
    counts = {
        tier: len(graph.for_query("refund endpoint", tier=tier, max_tokens=None).entities)
        for tier in TIERS
    }
    assert counts == {"core": 0, "writer_pro": 10, "teams": 14, "enterprise": 14}
    told = graph.for_entities(["e1", "n"], tier="writer_pro", include_claims=True)
    assert (
        [one.item.id for one in told.entities],
        told.relationships,
        told.left_out,
        told.degraded[-1].code,
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

    def test_the_tier_of_the_key_is_in_force_on_every_route(self, clients):
        for tier, (nodes, entities, texts) in {
            "core": (0, 0, False),
            "writer_pro": (0, 10, False),
            "teams": (1, 10, True),
            "enterprise": (1, 10, True),
        }.items():
            found = self.ask(
                clients[tier], "/api/context", query="refund", tenant_ids=["s"], format="markdown"
            )
            assert (len(found["entry_points"]), len(found["entities"])) == (nodes, entities)
            explained = self.ask(clients[tier], "/api/explain", query="refund", spaces=["s"])
            asked = self.ask(
                clients[tier], "/api/ask/context", query="refund", spaces=["s"], bm25_weight=1.0
            )
            assembled = self.ask(clients[tier], "/api/assemble", query="refund", spaces=["s"])
            hits = self.ask(clients[tier], "/api/search", query="refund", spaces=["s"], limit=50)[
                "hits"
            ]
            assert all(
                ("secret of the node" in str(one)) == texts
                for one in (found, explained, asked, assembled, hits)
            )

    def test_no_request_raises_its_tier_and_any_may_lower_it(self, clients):
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

    def test_only_full_tiers_read_what_is_stored(self, clients):
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

    def test_a_graph_shows_entities_alone_to_writer_pro(self, clients):
        found = {
            tier: clients[tier]
            .post(
                "/api/graph",
                json={"query": "refund endpoint", "spaces": ["s"], "tier": "enterprise"},
            )
            .json()
            for tier in TIERS
        }
        assert [len(found[tier]["entities"]) for tier in TIERS] == [0, 10, 14, 14]

    def test_only_enterprise_sends_recipes_of_its_own(self, clients):
        own = {"query": "refund", "spaces": ["s"], "recipe": [{"name": "mine", "kinds": ["node"]}]}
        assert "secret" in self.ask(clients["enterprise"], "/api/ask/context", **own)["text"]
        assert self.ask(clients["teams"], "/api/ask/context", 403, **own)["code"] == "tier"

    def test_a_key_whose_tier_is_not_known_has_the_least(self, tmp_path):
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


def test_the_shell_says_which_tier_is_in_force(tmp_path):
    file = str(tmp_path / "k.db")
    with knowloom.open(file, embedder=None) as kb:
        kb.add(*knowledge())
    run = CliRunner().invoke
    core = run(
        cli,
        ["context", "refund", "--space", "s", "--tier", "core", "--db", file, "--embedder", "none"],
    )
    assert (core.exit_code, core.stdout) == (0, "")
    assert "tier 'core' has no access to knowledge" in core.stderr
    assert (
        run(
            cli,
            [
                "search",
                "refund",
                "--space",
                "s",
                "--tier",
                "writer_pro",
                "--limit",
                "50",
                "--db",
                file,
                "--embedder",
                "none",
                "--json",
            ],
        ).stdout.count('"kind"')
        == 10
    )
    entities = run(
        cli,
        [
            "graph",
            "refund",
            "--space",
            "s",
            "--tier",
            "writer_pro",
            "--min-score",
            "0",
            "--db",
            file,
            "--embedder",
            "none",
            "--json",
        ],
    )
    assert (
        len(json.loads(entities.stdout)["entities"]),
        json.loads(entities.stdout)["relationships"],
    ) == (10, [])
    assert (
        run(
            cli,
            [
                "graph",
                "refund",
                "--space",
                "s",
                "--tier",
                "core",
                "--db",
                file,
                "--embedder",
                "none",
            ],
        ).stdout
        == ""
    )
    refused = run(
        cli,
        ["provide", "refund", "--space", "s", "--tier", "core", "--db", file, "--embedder", "none"],
    )
    assert (refused.exit_code, refused.stdout) == (
        1,
        "",
    ) and "the provider needs tier" in refused.stderr
    wrong = run(
        cli,
        ["context", "refund", "--space", "s", "--tier", "gold", "--db", file, "--embedder", "none"],
    )
    assert (
        wrong.exit_code,
        "unknown tier 'gold'; available: core, enterprise, teams, writer_pro" in wrong.stderr,
    ) == (1, True)


def test_a_client_asks_with_tiers_and_agents_as_the_engine_does(kb, tmp_path):
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
        own = knowloom.Agent("mine", (Recipe("mine", kinds=(Kind.NODE,)),), 500, "plain")
        with (
            knowloom.Client(url, key=secrets["enterprise"]) as full,
            knowloom.Client(url, key=secrets["teams"]) as teams,
        ):
            for options in (
                {"tier": "writer_pro"},
                {"agent": "copilot"},
                {"agent": own},
                {"tier": lambda: "core"},
                {"tier": lambda: 1 / 0},
            ):
                assert (
                    full.context("refund", spaces=["s"], now=NOW, **options).text
                    == kb.context("refund", spaces=["s"], now=NOW, **options).text
                )
            assert [hit.item.id for hit in teams.search("refund", spaces=["s"], tier="core")] == []
            with pytest.raises(Forbidden, match="need tier 'enterprise'"):
                teams.context("refund", spaces=["s"], agent=own)
            with pytest.raises(Invalid, match="unknown agent 'nobody'"):
                teams.context("refund", spaces=["s"], agent="nobody")
    finally:
        server.should_exit = True
        thread.join(10)
