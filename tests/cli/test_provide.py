"""The provider on the command line, over HTTP, and in an example agent."""

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
    def test_the_output_is_that_of_the_provider(self, file, kb):
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
        result = json.loads(run(file, *options, "--json").stdout)
        provision = knowloom.Provider(
            kb, entity_id="user:maya", spaces=["support"], max_tokens=300
        ).provide(QUESTION, now=NOW)
        assert result["sections"] == dict(provision.sections) and list(result["sections"]) == list(
            provision.sections
        )
        assert (result["tokens"], result["token_counter"]) == (
            provision.tokens,
            "cl100k_base",
        ) and provision.tokens <= 300
        assert (
            {row["id"] for row in result["left_out"]}
            == {row.id for row in provision.left_out}
            != set()
        )

    def test_a_table_shows_every_section(self, file):
        output = run(file, QUESTION, "--space", "support", "--space", "shared").stdout
        assert (
            "organisation: Harbor & Pine" in output
            and "How to process a refund" in output
            and "tokens (cl100k_base)" in output
        )

    def test_a_single_text_is_printed_unchanged(self, file, kb):
        output = run(
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
            output
            == knowloom.Provider(kb, entity_id="user:maya", spaces=["support"]).text(
                QUESTION, now=NOW
            )
            + "\n"
        )

    def test_an_unknown_entity_is_a_note(self, file):
        result = run(file, QUESTION, "--space", "support", "--entity", "user:nobody")
        assert (
            result.exit_code == 0
            and "note: metadata: entity 'user:nobody' not found" in result.stderr
        )

    @pytest.mark.parametrize(
        ("invalid", "status", "message"),
        [
            (("--top-k", "0"), 1, "top_k must be an integer from 1"),
            (("--depth", "11"), 1, "graph_traversal_depth must be"),
            (("--max-tokens", "-1"), 2, "must be an integer or none"),
            (("--scope", "mine"), 2, "'mine' is not one of"),
            (("--space", "moon"), 1, "unknown space 'moon'"),
        ],
    )
    def test_invalid_options_are_rejected(self, file, invalid, status, message):
        result = run(file, QUESTION, "--space", "support", *invalid)
        assert result.exit_code == status and message in result.stderr


class TestRoute:
    def test_the_response_is_that_of_the_provider(self, kb):
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

    def test_a_key_reads_only_its_spaces(self, kb, tmp_path):
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
        "invalid",
        [
            {"spaces": []},
            {"top_k": 0},
            {"caps": {"context": -1}},
            {"scope": "mine"},
            {"formats": {"context": 3}},
            {"model": "x.json"},
            {"graph_traversal_depth": 11},
        ],
    )
    def test_invalid_fields_are_rejected(self, kb, invalid):
        with client(kb) as http:
            answer = http.post("/api/provide", json={"query": "x", "spaces": ["support"]} | invalid)
        assert answer.status_code == 422 and next(iter(invalid)) in answer.json()["detail"]

    def test_the_example_of_the_schema_is_accepted(self, kb):
        with client(kb) as http:
            schema = http.get("/openapi.json").json()["components"]["schemas"]["ProvideRequest"]
            assert http.post("/api/provide", json=schema["examples"][0]).status_code == 200


def test_the_example_agent_follows_the_rules_of_the_expert():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "examples" / "agent_loop.py")]
    outputs = [
        subprocess.run(
            command,
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    steps = [line for line in outputs[0].splitlines() if line.startswith("== ")]
    assert [line.split(".")[0] for line in steps] == [f"== {number}" for number in range(1, 11)]
    prompt = outputs[0].partition("== 9.")[2].partition("== 10.")[0]
    assert (
        "# Rules to obey\n"
        "[procedure] Freeze the seller's payout before refunding a marketplace order\n" in prompt
    )
    assert (
        outputs[0]
        .rstrip()
        .endswith("1. Freeze the seller's payout. 2. Refund order 4711. 3. Tell the customer.")
    )
