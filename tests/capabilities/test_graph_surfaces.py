"""Graph contexts and checks on the command line and over HTTP."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from fastapi.testclient import TestClient
from small_graph import NOW

import knowloom
from knowloom import GraphOptions
from knowloom.cli.main import cli
from knowloom.errors import Forbidden
from knowloom.server.app import create_app
from knowloom.server.schemas.graph import EXAMPLES, GraphRequest
from paths import ROOT

HARBOR = ROOT / "examples" / "harbor"


@pytest.fixture(scope="module")
def harbor():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(HARBOR)
        yield kb


class TestSurfaces:
    @pytest.fixture
    def db(self, tmp_path: Path) -> list[str]:
        options = ["--db", str(tmp_path / "k.db"), "--embedder", "none", "--space", "shared"]
        assert CliRunner().invoke(cli, ["load", str(HARBOR), *options[:4]]).exit_code == 0
        return options

    def test_the_cli_prints_only_the_text(self, db):
        done = CliRunner().invoke(
            cli,
            ["graph", "Kestrel tent", "--claims", "--format", "yaml", "--max-entities", "1", *db],
        )
        assert done.exit_code == 0 and list(yaml.safe_load(done.stdout)) == [
            "entities",
            "axioms",
            "claims",
        ]

    def test_the_cli_reports_unknown_entities(self, db):
        done = CliRunner().invoke(
            cli, ["graph", "--entity", "nope", "--entity", "gangway", "--json", *db]
        )
        assert done.exit_code == 0 and "warning: nope: no such entity is stored" in done.stderr
        assert json.loads(done.stdout)["entities"][0]["item"]["id"] == "gangway"

    def test_the_cli_reads_a_document(self, db, tmp_path):
        (tmp_path / "notes.txt").write_text("Gangway is slow. Tidewater is not.", "utf-8")
        ask = [
            "graph",
            "--document",
            str(tmp_path / "notes.txt"),
            "--no-relationships",
            "--json",
            *db,
        ]
        assert [
            entity["item"]["id"]
            for entity in json.loads(CliRunner().invoke(cli, [*ask, "--select", "0:16"]).stdout)[
                "entities"
            ]
        ] == ["gangway"]
        assert CliRunner().invoke(cli, [*ask, "--select", "0:99"]).exit_code == 1
        assert CliRunner().invoke(cli, ["graph", "q", "--entity", "x", *db]).exit_code == 2

    @pytest.fixture
    def client(self, harbor):
        with TestClient(create_app(harbor), base_url="http://127.0.0.1") as client:
            yield client

    @pytest.mark.parametrize("body", EXAMPLES)
    def test_every_example_of_the_route_answers(self, client, body):
        answer = client.post("/api/graph", json=body)
        assert (
            answer.status_code == 200
            and answer.json()["entities"]
            and answer.json()["tokens"] <= 2000
        )

    def test_the_route_refuses_invalid_bodies(self, client):
        for body in (
            {},
            {"query": "x", "entities": ["a"]},
            {"query": "x", "format": "xml"},
            {"query": "x", "ranker": "y"},
            {"document": {}},
            {"query": "x", "agent": "z"},
        ):
            assert (
                client.post("/api/graph", json={"spaces": ["shared"]} | body).status_code == 422
            ), body
        assert (
            client.post("/api/graph", json={"spaces": ["nowhere"], "query": "x"}).status_code == 404
        )

    def test_the_check_answers_over_http(self, client):
        assert [
            violation["id"]
            for violation in client.post("/api/check", json={"spaces": ["shared"]}).json()[
                "violations"
            ]
        ] == [
            "claim-kestrel-warranty-60",
            "are-wool-blanket",
        ]

    def test_a_key_reads_only_its_spaces(self, harbor, tmp_path):
        from knowloom.server.auth import Keyring

        keyring = Keyring(tmp_path / "keys.json")
        _, secret = keyring.add(
            "one", reads=["support"], writes=[], role="viewer", tier="teams", now=NOW
        )
        with TestClient(
            create_app(harbor, keyring),
            base_url="http://127.0.0.1",
            headers={"authorization": f"Bearer {secret}"},
        ) as client:
            assert (
                client.post("/api/graph", json={"spaces": ["shared"], "query": "x"}).status_code
                == Forbidden.status
            )
            assert (
                client.post("/api/check", json={"spaces": ["shared"]}).status_code
                == Forbidden.status
            )
            assert (
                client.post("/api/graph", json={"spaces": ["support"], "query": "x"}).status_code
                == 200
            )

    def test_the_route_and_the_page_have_every_option_with_its_default(self):
        page = (ROOT / "docs" / "graph.md").read_text("utf-8")
        for field in fields(GraphOptions):
            shape = GraphRequest.model_fields[field.name]
            assert (shape.get_default(call_default_factory=True) or None) == (
                field.default or None
            ) or field.default in (0, False), field.name
            assert f"| `{field.name}` |" in page, field.name
