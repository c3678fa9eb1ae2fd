"""The commands `knowloom ingest` and `knowloom replay`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from structured_text import (
    GOOD,
    KEY,
    TEXT,
    Serve,
    say,
)

from fake_llm import FakeLLM
from knowloom.cli.main import cli
from secret_samples import samples

TOKEN = samples("github-token")[0]


class TestIngestCommand:
    @pytest.fixture(autouse=True)
    def folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in [
            name for name in os.environ if name.startswith("KNOWLOOM_") or name == "OPENAI_API_KEY"
        ]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "notes.txt").write_text(TEXT)

    def run(self, *args: str, server: FakeLLM | None = None, stdin: Any = None) -> Result:
        llm = (
            {}
            if server is None
            else {"KNOWLOOM_LLM": f"openai:fake@{server.base_url}", "KNOWLOOM_LLM_API_KEY": KEY}
        )
        result = CliRunner().invoke(
            cli, args, prog_name="knowloom", input=stdin, env={"KNOWLOOM_EMBEDDER": "none", **llm}
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    def test_the_secrets_setting_applies(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
    ) -> None:
        _, server = serve(say())
        args = ("ingest", "-", "--space", "team", *more)
        result = self.run(*args, server=server, stdin=TOKEN)
        assert (result.exit_code, "rule 'github-token'" in result.stderr, server.requests) == (
            1,
            True,
            [],
        )
        monkeypatch.setenv("KNOWLOOM_SECRETS", "allow")
        assert self.run(*args, server=server, stdin=TOKEN).exit_code == 0

    def test_a_file_is_ingested_once(self, serve: Serve) -> None:
        _, server = serve(say())
        args = (
            "ingest",
            "notes.txt",
            "--as",
            "user:alice",
            "--space",
            "team",
            "--now",
            "2026-01-31T12:00:00Z",
        )
        first, second = self.run(*args, server=server), self.run(*args, server=server)
        assert (first.exit_code, second.exit_code, len(server.requests)) == (0, 0, 1)
        assert first.stdout.startswith("record: knowledge.db.checkins/20260131T120000000000Z-")
        assert second.stdout.startswith("already ingested, nothing changed")
        assert server.requests[0].authorization == f"Bearer {KEY}"
        assert (
            json.loads(self.run("get", "warm-start", "--space", "team", "--json").stdout)["items"][
                0
            ]["subject"]
            == "user:alice"
        )

    def test_a_dry_run_prints_the_json_and_replay_stores_it(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        _, server = serve(say())
        result = self.run(
            "ingest",
            "-",
            "--space",
            "team",
            "--dry-run",
            "--record-dir",
            "kept",
            server=server,
            stdin=TEXT,
        )
        assert json.loads(result.stdout) == GOOD
        assert not (tmp_path / "knowledge.db").exists()
        (record,) = (tmp_path / "kept").iterdir()
        assert json.loads(self.run("replay", str(record), "--json").stdout)["added"] == 3

    def test_an_error_is_one_line_and_the_record_is_named(self, serve: Serve) -> None:
        _, server = serve("401 echoing the key")
        result = self.run("ingest", "notes.txt", "--space", "team", server=server)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "warning: the record of the run is knowledge.db.checkins/" in result.stderr
        assert "error: fake at 127.0.0.1: status 401" in result.stderr
        assert KEY not in result.output

    def test_one_bad_text_of_several_does_not_stop_the_others(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        (tmp_path / "more.txt").write_text("More.")
        _, server = serve("400", say())
        result = self.run(
            "ingest", "notes.txt", "more.txt", "--space", "team", "--json", server=server
        )
        assert (result.exit_code, "error: notes.txt: fake" in result.stderr) == (1, True)
        texts = json.loads(result.stdout)["texts"]
        assert [text["report"]["added"] for text in texts] == [3]

    def test_a_binary_or_missing_file_is_rejected_before_any_request(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        (tmp_path / "image.png").write_bytes(b"\x89PNG\xff\xfe")
        _, server = serve()
        for name, message in (
            ("image.png", "must be UTF-8 text"),
            ("nowhere.txt", "no file 'nowhere.txt'"),
            (".", "cannot read"),
        ):
            result = self.run("ingest", "notes.txt", name, "--space", "team", server=server)
            assert (result.exit_code, message in result.stderr) == (1, True)
        assert server.requests == []

    def test_a_missing_model_is_a_usage_error(self) -> None:
        result = self.run("ingest", "notes.txt", "--space", "team")
        assert (result.exit_code, "KNOWLOOM_LLM" in result.stderr) == (2, True)

    def test_a_dry_run_accepts_one_file(self) -> None:
        assert self.run("ingest", "notes.txt", "-", "--space", "team", "--dry-run").exit_code == 2
