"""The provider from a shell, over HTTP, and in the example of an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

import knowloom
from knowloom.cli.main import cli
from knowloom.server import app as application
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits
from paths import ROOT

QUESTION = "How do I process a refund request?"
NOW = "2026-06-01T12:00:00Z"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("providing") / "harbor.db"
    with knowloom.open(str(path), embedder=None) as kb:
        kb.load(ROOT / "examples" / "harbor")
    return path


@pytest.fixture
def kb(file):
    with knowloom.open(str(file), embedder=None) as kb:
        yield kb


def run(file, *args):
    return CliRunner().invoke(
        cli, ["provide", *args, "--db", str(file), "--embedder", "none"], catch_exceptions=False
    )


def client(kb, keyring=None):
    return TestClient(
        application.create_app(kb, keyring, ServerLimits()), base_url="http://localhost"
    )


class TestCommand:
    def test_it_prints_what_the_provider_gives(self, file, kb):
        options = (
            QUESTION,
            "--entity",
            "user:maya",
            "--space",
            "support",
            "--max-tokens",
            "300",
            "--now",
            NOW,
        )
        shown = json.loads(run(file, *options, "--json").stdout)
        provision = knowloom.Provider(
            kb, entity_id="user:maya", spaces=["support"], max_tokens=300
        ).provide(QUESTION, now=NOW)
        assert shown["sections"] == dict(provision.sections) and list(shown["sections"]) == list(
            provision.sections
        )
        assert (shown["tokens"], shown["token_counter"]) == (
            provision.tokens,
            "cl100k_base",
        ) and provision.tokens <= 300
        assert (
            {row["id"] for row in shown["left_out"]}
            == {row.id for row in provision.left_out}
            != set()
        )

    def test_a_table_shows_every_section(self, file):
        shown = run(file, QUESTION, "--space", "support", "--space", "shared").stdout
        assert (
            "organisation: Harbor & Pine" in shown
            and "How to process a refund" in shown
            and "tokens (cl100k_base)" in shown
        )

    def test_one_text_is_printed_as_it_is(self, file, kb):
        shown = run(
            file,
            QUESTION,
            "--space",
            "support",
            "--entity",
            "user:maya",
            "--as-one-text",
            "--now",
            NOW,
        ).stdout
        assert (
            shown
            == knowloom.Provider(kb, entity_id="user:maya", spaces=["support"]).text(
                QUESTION, now=NOW
            )
            + "\n"
        )

    def test_an_unknown_entity_is_a_warning(self, file):
        result = run(file, QUESTION, "--space", "support", "--entity", "user:nobody")
        assert (
            result.exit_code == 0
            and "warning: metadata: entity 'user:nobody' not found" in result.stderr
        )

    @pytest.mark.parametrize(
        ("wrong", "status", "says"),
        [
            (("--top-k", "0"), 1, "top_k must be an integer from 1"),
            (("--depth", "11"), 1, "graph_traversal_depth must be"),
            (("--max-tokens", "-1"), 2, "must be an integer or none"),
            (("--scope", "mine"), 2, "'mine' is not one of"),
            (("--space", "moon"), 1, "unknown space 'moon'"),
        ],
    )
    def test_bad_options_end_with_one_line(self, file, wrong, status, says):
        result = run(file, QUESTION, "--space", "support", *wrong)
        assert result.exit_code == status and says in result.stderr


class TestRoute:
    def test_it_answers_what_the_provider_gives(self, kb):
        with client(kb) as http:
            answer = http.post(
                "/api/provide",
                json={
                    "query": QUESTION,
                    "spaces": ["support"],
                    "entity_id": "user:maya",
                    "max_tokens": 300,
                    "now": NOW,
                },
            )
        provision = knowloom.Provider(
            kb, entity_id="user:maya", spaces=["support"], max_tokens=300
        ).provide(QUESTION, now=NOW)
        assert answer.status_code == 200, answer.text
        assert (
            answer.json()["sections"] == dict(provision.sections)
            and answer.json()["tokens"] == provision.tokens
        )

    def test_caps_and_an_unlimited_budget_are_passed_on(self, kb):
        with client(kb) as http:
            free = http.post(
                "/api/provide", json={"query": QUESTION, "spaces": ["support"], "max_tokens": None}
            ).json()
            capped = http.post(
                "/api/provide",
                json={
                    "query": QUESTION,
                    "spaces": ["support"],
                    "max_tokens": None,
                    "caps": {"context": 0},
                },
            ).json()
        assert (
            free["left_out"] == []
            and "context" in free["sections"]
            and "context" not in capped["sections"]
        )

    def test_a_key_reads_only_its_own_spaces(self, kb, tmp_path):
        keyring = Keyring(tmp_path / "keys.json")
        _, secret = keyring.add(
            "reader",
            reads=("support",),
            writes=(),
            role="viewer",
            tier="teams",
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )
        with client(kb, keyring) as http:
            header = {"authorization": f"Bearer {secret}"}
            statuses = [
                http.post(
                    "/api/provide", json={"query": "x", "spaces": [space]}, headers=header
                ).status_code
                for space in ("support", "shared")
            ]
            assert statuses == [200, 403]
            assert (
                http.post("/api/provide", json={"query": "x", "spaces": ["support"]}).status_code
                == 401
            )

    @pytest.mark.parametrize(
        "wrong",
        [
            {"spaces": []},
            {"top_k": 0},
            {"caps": {"context": -1}},
            {"scope": "mine"},
            {"formats": {}},
            {"model": "x.json"},
            {"graph_traversal_depth": 11},
        ],
    )
    def test_bad_fields_are_refused(self, kb, wrong):
        with client(kb) as http:
            answer = http.post("/api/provide", json={"query": "x", "spaces": ["support"]} | wrong)
        assert answer.status_code == 422 and next(iter(wrong)) in answer.json()["detail"]

    def test_the_example_of_the_description_is_accepted(self, kb):
        with client(kb) as http:
            schema = http.get("/openapi.json").json()["components"]["schemas"]["ProvideRequest"]
            assert http.post("/api/provide", json=schema["examples"][0]).status_code == 200


def test_the_agent_of_the_example_acts_on_what_the_expert_said():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "examples" / "agent_loop.py")]
    shown = [
        subprocess.run(
            command,
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert shown[0] == shown[1]
    steps = [line for line in shown[0].splitlines() if line.startswith("== ")]
    assert [line.split(".")[0] for line in steps] == [f"== {number}" for number in range(1, 11)]
    prompt = shown[0].partition("== 9.")[2].partition("== 10.")[0]
    assert (
        "# Rules to obey\n"
        "[procedure] Freeze the seller's payout before refunding a marketplace order\n" in prompt
    )
    assert (
        shown[0]
        .rstrip()
        .endswith("1. Freeze the seller's payout. 2. Refund order 4711. 3. Tell the customer.")
    )
