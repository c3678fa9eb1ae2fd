"""The commands init, config and completion, and the first commands of a newcomer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from cli_runs import run, run_json
from knowloom import config
from knowloom.config import Settings
from paths import ROOT


class TestFirstCommands:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return Path(shutil.copytree(ROOT / "examples" / "docs", tmp_path / "notes"))

    def test_two_commands_are_enough(self, folder: Path) -> None:
        loaded = run("load notes")
        assert loaded.exit_code == 0
        assert f"stored in {folder.parent / 'knowledge.db'}; space: notes" in loaded.stdout
        answer = run("context", "How is a return graded?")
        assert (answer.exit_code, "Grade a parcel" in answer.stdout) == (0, True)
        assert run("search grade").exit_code == run("explain grade").exit_code == 0
        assert run("get returns").exit_code == run("history returns").exit_code == 0

    def test_the_report_in_json_says_where_it_is(self, folder: Path) -> None:
        row = run_json("load notes")
        assert row["store"] == str(folder.parent / "knowledge.db")
        assert row["spaces"] == ["notes"]

    def test_a_single_file_and_standard_input_need_no_space(self, folder: Path) -> None:
        assert run("load notes/returns.md").exit_code == 0
        assert run("load - --name more.md", stdin="# More\n\nAsk the zebra.\n").exit_code == 0
        assert "Ask the zebra" in run("context zebra").stdout
        assert run("add --id a --title Alpha").stdout == "added: a in default\n"
        assert run("remember 'Ada likes tents'").stdout.endswith(" in default\n")
        assert "tents" in run("recall tents").stdout

    def test_a_document_with_a_secret_is_redacted_or_skipped_with_advice(
        self, folder: Path
    ) -> None:
        key = "AKIA" + "Q3EGRJ7XKZ5TWM2P"
        (folder / "key.md").write_text(f"# Key\n\naws_access_key_id = {key}\n")
        refused = run("load notes --secrets refuse")
        assert "--secrets redact" in refused.stderr and "secret_rules" in refused.stdout
        assert "it was redacted" in run("load notes").stderr
        assert "aws" not in run("load notes", KNOWLOOM_SECRETS="allow").stderr

    def test_several_spaces_are_listed(self, store: Path) -> None:
        for command in ("search x", "context x", "get x", "provide x", "graph x", "recall x"):
            result = run(command, db=store)
            assert result.exit_code == 1
            assert "name one of analytics, finance, purchasing, shared, support" in result.stderr
            assert "--space S" in result.stderr

    @pytest.mark.parametrize("command", ["search", "context", "explain", "provide", "recall"])
    def test_the_question_may_come_from_standard_input(self, command: str, store: Path) -> None:
        question = "Who approves a refund over 100 dollars?"
        piped = run(f"{command} - --space support", stdin=f"{question}\n", db=store)
        assert piped.exit_code == 0
        assert piped.stdout == run(command, question, "--space", "support", db=store).stdout

    @pytest.mark.parametrize(("stdin", "why"), [("  \n", "is empty"), (b"\xff", "is not UTF-8")])
    def test_unusable_standard_input_is_a_usage_error(
        self, stdin: str | bytes, why: str, store: Path
    ) -> None:
        result = run("context - --space support", stdin=stdin, db=store)
        assert (result.exit_code, why in result.stderr) == (2, True)

    @pytest.mark.parametrize(
        ("command", "flag", "other"),
        [
            ("provide refund --space support", "--limit", "--top-k"),
            ("recall refund --space support", "--max-tokens", "--token-budget"),
        ],
    )
    def test_both_names_of_an_option_work_unless_they_differ(
        self, command: str, flag: str, other: str, store: Path
    ) -> None:
        now = "--now 2026-06-01"
        first = run(f"{command} {flag} 60 {now}", db=store)
        assert first.exit_code == 0
        assert first.stdout == run(f"{command} {other} 60 {now}", db=store).stdout
        clash = run(f"{command} {flag} 60 {other} 70", db=store)
        assert clash.exit_code == 2
        assert f"{flag} and {other} are the same option, got 60 and 70" in clash.stderr


class TestInit:
    def test_the_file_changes_nothing_until_it_is_edited(self, tmp_path: Path) -> None:
        result = run("init")
        assert result.stdout.startswith(f"written: {tmp_path / 'knowloom.toml'}\n")
        assert tomllib.loads((tmp_path / "knowloom.toml").read_text()) == {}
        assert config.load({}, tmp_path) == Settings()

    def test_the_lines_without_their_marks_are_the_defaults(self, tmp_path: Path) -> None:
        run("init")
        text = (tmp_path / "knowloom.toml").read_text()
        settings, _, tables = text.partition("## Numbers of retrieval")
        values = tomllib.loads(re.sub(r"^# (?=\w+ = )", "", settings, flags=re.M))
        assert values == asdict(Settings())
        assert tomllib.loads(re.sub(r"^# ", "", tables.partition("\n")[2], flags=re.M))
        assert max(map(len, text.splitlines())) <= 100

    def test_an_existing_file_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / "knowloom.toml").write_text("max_tokens = 5\n")
        result = run("init")
        assert (result.exit_code, "exists: edit it, or replace it" in result.stderr) == (1, True)
        assert (tmp_path / "knowloom.toml").read_text() == "max_tokens = 5\n"
        assert run("init --force").exit_code == 0
        assert config.load({}, tmp_path) == Settings()


class TestConfig:
    def test_every_setting_has_its_value_and_origin(self, tmp_path: Path) -> None:
        (tmp_path / "knowloom.toml").write_text('max_tokens = 5\nformat = "yaml"\n')
        row = run_json("--db other.db config", KNOWLOOM_FORMAT="plain")
        origins = {name: (s["value"], s["origin"]) for name, s in row["settings"].items()}
        assert list(origins) == list(asdict(Settings()))
        assert origins["max_tokens"] == (5, "knowloom.toml")
        assert origins["format"] == ("plain", "KNOWLOOM_FORMAT")
        assert origins["store"] == ("other.db", "--db")
        assert origins["timeout_s"] == (30.0, "default")
        assert row["file"] == str(tmp_path / "knowloom.toml")
        assert row["store"] == f"{tmp_path / 'other.db'} (does not exist yet)"

    def test_secrets_are_masked_in_tables_and_json(self) -> None:
        settings = {
            "OPENAI_API_KEY": "sk-hidden1",
            "KNOWLOOM_RERANK_API_KEY": "hidden2",
            "KNOWLOOM_GRAPH": "postgresql://ada:hidden3@db.example:5432/k?sslkey=hidden4&a=b",
            "KNOWLOOM_LLM": "openai:m@http://127.0.0.1:11434/v1",
        }
        for flags in ((), ("--json",)):
            output = run("config", *flags, **settings).stdout
            assert "hidden" not in output
            joined = "".join(output.split())
            assert "postgresql://ada:********@db.example:5432/k?sslkey=********&a=b" in joined
            assert "openai:m@http://127.0.0.1:11434/v1" in joined
        origin = json.loads(output)["settings"]["openai_api_key"]["origin"]
        assert origin == "OPENAI_API_KEY"

    def test_a_wrong_setting_is_named(self) -> None:
        result = run("config", KNOWLOOM_MAX_TOKENS="many")
        assert (result.exit_code, "max_tokens must be int" in result.stderr) == (1, True)


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_every_shell_has_a_script(self, shell: str) -> None:
        result = run("completion", shell)
        assert result.exit_code == 0 and f"{shell}_complete" in result.stdout

    def test_the_script_is_valid(self) -> None:
        bash = shutil.which("bash") or pytest.skip("no bash")
        script = run("completion bash").stdout
        assert subprocess.run([bash, "-n"], input=script, text=True).returncode == 0
