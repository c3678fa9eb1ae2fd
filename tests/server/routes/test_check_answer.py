"""Checking answers over HTTP: against texts, against knowledge, within what the key and its tier may see."""

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


def verdicts(answer: Any) -> list[str]:
    return [one["verdict"] for one in answer.json()["sentences"]]


@pytest.mark.parametrize("body", EXAMPLES, ids=str)
def test_every_example_answers(ask: Ask, body: dict[str, Any]) -> None:
    assert ask(**body).status_code == 200


def test_an_answer_is_held_against_texts_and_knowledge(ask: Ask) -> None:
    said = "The harbor opened in 1987. The harbor opened in 1990. Refunds take 3 days. Whales sing."
    found = ask(
        answer=said,
        texts=["Refunds take 3 days."],
        question="When did the harbor open?",
        spaces=["s"],
    )
    assert verdicts(found) == ["supported", "contradicted", "supported", "unsupported"]
    row = found.json()
    assert row["grounded"] is False and row["share"] == 0.5 and row["degraded"] == []
    assert (
        row["sentences"][1]["item"] == {"space": "s", "id": "note"}
        and "1987" in row["sentences"][1]["evidence"]
    )


def test_without_a_question_the_answer_itself_is_searched_for(ask: Ask) -> None:
    assert verdicts(ask(answer="The harbor opened in 1987.", spaces=["s"])) == ["supported"]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"answer": "x"}, 422, "nothing to hold it against"),
        ({"answer": "x", "spaces": ["nowhere"]}, 404, "no space 'nowhere'"),
        ({"answer": "x", "spaces": ["s"], "agent": "nobody"}, 422, "no agent 'nobody'"),
        ({"answer": "x", "spaces": ["s"], "recipe": "cake"}, 422, "no recipe 'cake'"),
        ({"answer": "x", "texts": ["a"], "meaning": True}, 422, "meaning needs an embedder"),
        ({"answer": "x", "texts": ["a" * 600_000] * 2}, 422, "1,200,000 characters together"),
        ({"answer": "x" * 100_001, "texts": ["a"]}, 422, "answer"),
        ({"texts": ["a"]}, 422, "answer"),
        ({"answer": "x", "texts": ["a"], "more": 1}, 422, "more"),
    ],
)
def test_what_makes_no_sense_is_refused(
    ask: Ask, body: dict[str, Any], status: int, told: str
) -> None:
    found = ask(**body)
    assert found.status_code == status and told in found.json()["detail"]


def test_a_key_reads_its_spaces_and_its_tier_what_it_may(kb: Engine, tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    client = TestClient(create_app(kb, keyring), base_url="http://127.0.0.1")

    def ask(of_key: str, **body: Any) -> Any:
        secret = keyring.add(of_key, reads=["s"], writes=[], role="viewer", tier=of_key, now=NOW)[1]
        return client.post(
            "/api/check_answer", json=body, headers={"Authorization": f"Bearer {secret}"}
        )

    said = {
        "answer": "The ship has 3 masts. The harbor opened in 1987.",
        "spaces": ["s"],
        "recipe": "search",
    }
    assert verdicts(ask("teams", **said)) == ["supported", "supported"]
    assert verdicts(ask("writer_pro", **said)) == ["supported", "unsupported"]
    assert (
        verdicts(ask("core", **said)) == ["unsupported", "unsupported"]
        and ask("core", **said).json()["degraded"][0]["code"] == "tier"
    )
    assert verdicts(ask("teams", tier="core", **said)) == ["unsupported", "unsupported"]
    assert verdicts(ask("core", answer="Refunds take 3 days.", texts=["Refunds take 3 days."])) == [
        "supported"
    ]
    assert ask("teams", answer="x", spaces=["other"]).status_code == 403


def test_meaning_is_that_of_the_servers_embedder() -> None:
    with knowloom.open("memory:") as kb:
        client = TestClient(create_app(kb), base_url="http://127.0.0.1")
        body = {
            "answer": "Buyers can return a purchase within 30 days.",
            "texts": ["Customers can send back their purchase within 30 days."],
        }
        assert [
            verdicts(client.post("/api/check_answer", json={**body, "meaning": one}))
            for one in (False, True)
        ] == [["unsupported"], ["supported"]]


def test_every_field_is_described_and_has_a_default_but_the_answer() -> None:
    assert [name for name, one in CheckAnswerRequest.model_fields.items() if one.is_required()] == [
        "answer"
    ]
