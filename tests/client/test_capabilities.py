"""Graph contexts, assemblies, provisions and checks are the same with an engine and a client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import (
    AssemblyRequest,
    Client,
    Document,
    Edge,
    Engine,
    Forbidden,
    GraphContext,
    Invalid,
    Item,
    Kind,
    LinkedEntity,
    NotFound,
)
from knowloom.capabilities.graph.rankers import TermRanker
from knowloom.model import Stats
from knowloom.server.auth import Keyring
from live_server import serving
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HARBOR = ROOT / "examples" / "harbor"
DRAFT = "Dear customer,\n\nyour money is on its way.\n\nKind regards"


@pytest.fixture(scope="module")
def harbor() -> Iterator[tuple[Engine, Client]]:
    with knowloom.open("memory:", embedder=None) as engine:
        engine.load(HARBOR)
        rule = {
            "rules": [
                {
                    "property": "owner",
                    "constraint": "required",
                    "when": {"property": "tier", "operator": "equals", "value": 1},
                }
            ],
            "severity": "warning",
        }
        engine.add(
            [
                Item(
                    "owned",
                    "shared",
                    Kind.RULE,
                    "axiom",
                    "Owned",
                    subject="System",
                    tags=("t",),
                    properties=rule,
                )
            ]
        )
        with serving(engine) as url, Client(url) as client:
            yield engine, client


def comparable(answer: knowloom.GraphAnswer) -> knowloom.GraphAnswer:
    """Remove the timings and reduce what was omission out to its names."""
    left_out = tuple(
        (
            omission.hit.item.id,
            omission.hit.item.space,
            omission.reason,
            omission.fragment,
            omission.tokens,
        )
        for omission in answer.left_out
    )
    return replace(answer, stats=replace(answer.stats, timings={}), left_out=left_out)


REQUESTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("for_query", "Kestrel tent warranty", {"include_claims": True, "include_violations": True}),
    (
        "for_query",
        "Who owns Gangway?",
        {"max_tokens": 60, "format": "yaml", "entity_types": ["System"], "ranker": "signals"},
    ),
    ("for_query", "Gangway", {"tier": "writer_pro", "max_tokens": None}),
    ("for_query", "Gangway", {"as_of": NOW, "mode": "bm25", "exclude_entity_types": ("Team",)}),
    ("for_entities", ["gangway", "nobody"], {"relationship_depth": 2, "include_entity_ids": True}),
    (
        "for_document",
        Document(
            "d",
            "t",
            "Gangway pays refunds.",
            (LinkedEntity("Gangway", "gangway", 0.9), LinkedEntity("x")),
            (0, 7),
        ),
        {"format": "json"},
    ),
    (
        "for_document",
        Document(content="Gangway pays refunds. Tidewater keeps the requests."),
        {"max_properties_per_entity": 1},
    ),
]


@pytest.mark.parametrize(("call", "subject", "options"), REQUESTS, ids=str)
def test_a_graph_context_is_the_same(
    harbor: tuple[Engine, Client], call: str, subject: Any, options: dict[str, Any]
) -> None:
    local, remote = (
        getattr(GraphContext(kb, ["shared"]), call)(subject, now=NOW, **options) for kb in harbor
    )
    assert (
        comparable(local) == comparable(remote)
        and local.text
        and local.shown == remote.shown
        and remote.stats.timings
    )
    assert local.digest == remote.digest


def test_axioms_are_returned_with_their_rules(harbor: tuple[Engine, Client]) -> None:
    local, remote = (GraphContext(kb, ["shared"]).for_query("Gangway", now=NOW) for kb in harbor)
    assert local.axioms == remote.axioms and any(
        rule.when for axiom in remote.axioms for rule in axiom.rules
    )


def test_the_options_of_the_object_apply_to_its_requests(harbor: tuple[Engine, Client]) -> None:
    graph = GraphContext(
        harbor[1], ["shared"], knowloom.GraphOptions(max_entities=1, relationship_depth=0)
    ).for_query("Gangway")
    assert len(graph.entities) == 1


def test_a_supplied_vector_is_sent() -> None:
    with knowloom.open("memory:", embedder=None) as engine:
        engine.add(
            [Item("a", "s", Kind.ENTITY, "T", "alpha"), Item("b", "s", Kind.ENTITY, "T", "beta")],
            vectors=[[0.0, 1.0], [1.0, 0.0]],
        )
        with serving(engine) as url, Client(url) as client:
            options = {"vector": [1.0, 0.0], "mode": "vector", "ranker": "signals", "now": NOW}
            local, remote = (
                GraphContext(kb, ["s"]).for_query("omega", **options) for kb in (engine, client)
            )
            assert comparable(local) == comparable(remote) and remote.entities[0].item.id == "b"
            with pytest.raises(Invalid, match="vector requires a query or a document"):
                client.graph(spaces=["s"], entities=["a"], vector=[1.0, 0.0])


def test_unsupported_requests_are_rejected(harbor: tuple[Engine, Client]) -> None:
    graph = GraphContext(harbor[1], ["shared"])
    with pytest.raises(Invalid, match="a ranker object cannot be sent"):
        graph.for_query("Gangway", ranker=TermRanker(name=2.0))
    with pytest.raises(Invalid, match="unknown option 'foo'"):
        graph.for_query("Gangway", foo=1)
    with pytest.raises(Invalid, match="exactly one of query, entities and document"):
        harbor[1].graph(spaces=["shared"])
    with pytest.raises(NotFound):
        GraphContext(harbor[1], ["nowhere"]).for_query("Gangway")
    with pytest.raises(
        Invalid, match=r"an engine from knowloom.open or a knowloom.Client, got str"
    ):
        GraphContext("http://x", ["s"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"spaces": ("support",), "document": DRAFT, "selection": (16, 41), "max_tokens": 150},
        {
            "spaces": ("support",),
            "agent": "copilot",
            "format": "yaml",
            "tier": "teams",
            "max_tokens": None,
        },
        {"spaces": ("support",), "tier": "core", "document": Document("d", "A title", DRAFT)},
        {},
    ],
    ids=str,
)
def test_an_assembly_is_the_same(harbor: tuple[Engine, Client], options: dict[str, Any]) -> None:
    from knowloom.capabilities.assembler.strategies import build_assembler

    local = build_assembler(harbor[0], {}).assemble(
        "How are gift cards refunded?", now=NOW, **options
    )
    remote = harbor[1].assemble("How are gift cards refunded?", now=NOW, **options)
    plain = [
        replace(
            assembly,
            timings={},
            left_out=tuple(
                (omission.hit.item.id, omission.reason) for omission in assembly.left_out
            ),
        )
        for assembly in (local, remote)
    ]
    assert plain[0] == plain[1]
    assert (
        harbor[1].assemble(AssemblyRequest("How are gift cards refunded?", now=NOW, **options)).text
        == local.text
    )


def test_strategies_are_configured_by_name(harbor: tuple[Engine, Client]) -> None:
    assembly = harbor[1].assemble(
        "refund", spaces=("support",), strategies={"retrieval": {"enabled": False}}
    )
    assert (
        next(report for report in assembly.strategies if report.name == "retrieval").status
        == "disabled"
    )
    for wrong, message in (
        ({"cake": {}}, "unknown strategy 'cake'"),
        ({"memory": {"taste": 1}}, "taste"),
    ):
        with pytest.raises(Invalid, match=message):
            harbor[1].assemble("refund", strategies=wrong)
    with pytest.raises(Invalid, match="selection must be a range within"):
        harbor[1].assemble("refund", document="short", selection=(2, 99))
    with pytest.raises(Invalid, match="unknown option 'cake'"):
        harbor[1].assemble("refund", cake=1)
    with pytest.raises(Invalid, match="options are allowed with a text"):
        harbor[1].assemble(AssemblyRequest("refund"), spaces=("support",))


def test_a_provision_is_the_same(harbor: tuple[Engine, Client]) -> None:
    options: dict[str, Any] = {
        "spaces": ["support", "shared"],
        "entity_id": "user:maya",
        "max_tokens": 600,
        "top_k": 5,
    }
    local = knowloom.Provider(harbor[0], **options).provide(
        "How do I process a refund request?", now=NOW
    )
    remote = harbor[1].provide("How do I process a refund request?", now=NOW, **options)
    assert (local.sections, local.tokens, local.token_counter, local.left_out, local.degraded) == (
        remote.sections,
        remote.tokens,
        remote.token_counter,
        remote.left_out,
        remote.degraded,
    )
    assert [hit.item.key for hit in local.retrieval.pieces] == [
        hit.item.key for hit in remote.retrieval.pieces
    ]
    assert [(relation.type, relation.score) for relation in local.retrieval.graph_context] == [
        (relation.type, relation.score) for relation in remote.retrieval.graph_context
    ]


def test_a_provision_can_request_a_lower_tier(harbor: tuple[Engine, Client]) -> None:
    with pytest.raises(Forbidden, match="the provider needs tier"):
        harbor[1].provide("refund", spaces=["support"], tier="core")


def test_a_check_is_the_same(harbor: tuple[Engine, Client]) -> None:
    assert (
        harbor[0].check("shared") == harbor[1].check("shared")
        and harbor[1].check(["shared"]).violations
    )


def test_the_tier_of_the_key_applies(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    secret = keyring.add(
        "reader", reads=["*"], writes=[], role="viewer", tier="writer_pro", now=NOW
    )[1]
    with knowloom.open("memory:", embedder=None) as engine:
        engine.add(
            [Item("a", "s", Kind.ENTITY, "T", "alpha"), Item("b", "s", Kind.ENTITY, "T", "beta")],
            [Edge("a", "b", space="s")],
        )
        with serving(engine, keyring) as url, Client(url, key=secret) as client:
            answer = GraphContext(client, ["s"]).for_entities(["a", "b"], tier="enterprise")
            assert (
                [entity.item.id for entity in answer.entities] == ["a", "b"]
                and not answer.relationships
                and answer.degraded[0].code == "tier"
            )
            for call in (lambda: client.provide("x", spaces=["s"]), lambda: client.check("s")):
                with pytest.raises(Forbidden):
                    call()


def test_statistics_come_from_the_server(harbor: tuple[Engine, Client]) -> None:
    assert GraphContext(harbor[1], ["shared"]).for_query("Gangway").stats != Stats()
