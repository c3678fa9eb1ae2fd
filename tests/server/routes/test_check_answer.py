"""Tests of /api/check_answer: texts, spaces, keys and tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import knowloom
from knowloom import Engine, Item, Kind
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from knowloom.server.schemas.grounding import EXAMPLES, CheckAnswerRequest
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HARBOR = ROOT / "examples" / "harbor"
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(HARBOR)
        kb.add(
            [
                Item("ship", "s", Kind.ENTITY, "Ship", "Ship", "The ship has 3 masts."),
                Item("note", "s", text="The harbor opened in 1987."),
            ]
        )
        kb.add(Item("secret", "other", text="The vault opens at 9 minutes past noon."))
        yield kb


@pytest.fixture
def ask(kb: Engine) -> Ask:
    client = TestClient(create_app(kb), base_url="http://127.0.0.1")
    return lambda **body: client.post("/api/check_answer", json=body)


def verdicts(response: Any) -> list[str]:
    return [sentence["verdict"] for sentence in response.json()["sentences"]]


@pytest.mark.parametrize("body", EXAMPLES, ids=str)
def test_every_example_is_accepted(ask: Ask, body: dict[str, Any]) -> None:
    assert ask(**body).status_code == 200


def test_an_answer_is_checked_against_texts_and_knowledge(ask: Ask) -> None:
    answer = (
        "The harbor opened in 1987. The harbor opened in 1990. Refunds take 3 days. Whales sing."
    )
    response = ask(
        answer=answer,
        texts=["Refunds take 3 days."],
        question="When did the harbor open?",
        spaces=["s"],
    )
    assert verdicts(response) == ["supported", "contradicted", "supported", "unsupported"]
    row = response.json()
    assert row["grounded"] is False and row["share"] == 0.5
    assert {problem["code"] for problem in row["degraded"]} <= {"low_confidence"}
    assert (
        row["sentences"][1]["item"] == {"space": "s", "id": "note"}
        and "1987" in row["sentences"][1]["evidence"]
    )


def test_without_a_question_the_answer_is_the_query(ask: Ask) -> None:
    assert verdicts(ask(answer="The harbor opened in 1987.", spaces=["s"])) == ["supported"]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({"answer": "x", "spaces": []}, 422, "nothing to check against"),
        ({"answer": "x", "spaces": ["nowhere"]}, 404, "unknown space 'nowhere'"),
        ({"answer": "x", "spaces": ["s"], "agent": "nobody"}, 422, "unknown agent 'nobody'"),
        ({"answer": "x", "spaces": ["s"], "recipe": "cake"}, 422, "unknown recipe 'cake'"),
        ({"answer": "x", "texts": ["a"], "meaning": True}, 422, "meaning requires an embedder"),
        ({"answer": "x", "texts": ["a" * 600_000] * 2}, 422, "together, got 1,200,000"),
        ({"answer": "x" * 100_001, "texts": ["a"]}, 422, "answer"),
        ({"texts": ["a"]}, 422, "answer"),
        ({"answer": "x", "texts": ["a"], "more": 1}, 422, "more"),
    ],
)
def test_invalid_requests_are_refused(
    ask: Ask, body: dict[str, Any], status: int, detail: str
) -> None:
    response = ask(**body)
    assert response.status_code == status and detail in response.json()["detail"]


def test_the_context_is_limited_by_key_and_tier(kb: Engine, tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    client = TestClient(create_app(kb, keyring), base_url="http://127.0.0.1")

    def ask(key_tier: str, **body: Any) -> Any:
        secret = keyring.add(
            key_tier, reads=["s"], writes=[], role="viewer", tier=key_tier, now=NOW
        )[1]
        return client.post(
            "/api/check_answer", json=body, headers={"Authorization": f"Bearer {secret}"}
        )

    request = {
        "answer": "The ship has 3 masts. The harbor opened in 1987.",
        "spaces": ["s"],
        "recipe": "search",
    }
    assert verdicts(ask("teams", **request)) == ["supported", "supported"]
    assert verdicts(ask("writer_pro", **request)) == ["supported", "unsupported"]
    assert (
        verdicts(ask("core", **request)) == ["unsupported", "unsupported"]
        and ask("core", **request).json()["degraded"][0]["code"] == "tier"
    )
    assert verdicts(ask("teams", tier="core", **request)) == ["unsupported", "unsupported"]
    assert verdicts(ask("core", answer="Refunds take 3 days.", texts=["Refunds take 3 days."])) == [
        "supported"
    ]
    assert ask("teams", answer="x", spaces=["other"]).status_code == 403


def test_meaning_uses_the_embedder_of_the_server() -> None:
    with knowloom.open("memory:") as kb:
        client = TestClient(create_app(kb), base_url="http://127.0.0.1")
        body = {
            "answer": "Buyers can return a purchase within 30 days.",
            "texts": ["Customers can send back their purchase within 30 days."],
        }
        assert [
            verdicts(client.post("/api/check_answer", json={**body, "meaning": meaning}))
            for meaning in (False, True)
        ] == [["unsupported"], ["supported"]]


def test_only_the_answer_is_required() -> None:
    assert [
        name for name, field in CheckAnswerRequest.model_fields.items() if field.is_required()
    ] == ["answer"]
