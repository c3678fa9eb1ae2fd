"""The memory commands, the chat example, and analytics that store no text unless enabled."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import knowloom
from knowloom import Analytics, Invalid, Memory
from knowloom.cli.main import cli
from knowloom.errors import Corrupt
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [
        name
        for name in os.environ
        if name.startswith("KNOWLOOM_") or name in ("OPENAI_API_KEY", "NO_COLOR", "COLUMNS")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*args: str, stdin: str | None = None, **settings: str) -> Result:
    result = CliRunner().invoke(
        cli, args, prog_name="knowloom", input=stdin, env={"KNOWLOOM_EMBEDDER": "none"} | settings
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*args: str, **settings: str) -> Any:
    result = run(*args, "--json", **settings)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestCommands:
    def test_what_is_remembered_is_recalled(self) -> None:
        memory = answer(
            "remember",
            "--workspace",
            "maya",
            "--conversation",
            "c1",
            "--speaker",
            "Ada",
            "--at",
            "2026-05-01T09:30:00Z",
            "I moved to Hamburg",
        )
        assert (memory["conversation"], memory["confidence"], memory["workspace"]) == (
            "c1",
            0.5,
            "maya",
        )
        shown = run("recall", "Hamburg", "--workspace", "maya", "--now", "2026-06-01")
        assert (
            shown.stdout == "Relevant context from past conversations:\n\n"
            "- Ada at 9:30 am on 1 May, 2026: I moved to Hamburg\n"
        )
        preview = answer(
            "recall",
            "Hamburg",
            "--workspace",
            "maya",
            "--template",
            "summary",
            "--token-budget",
            "5",
        )
        assert preview["context"] == "" and preview["left_out"][0]["id"] == memory["id"]

    def test_options_reach_the_memory(self) -> None:
        old = answer(
            "remember", "--workspace", "w", "--type", "fact", "--at", "2026-05-01", "tea is green"
        )
        answer(
            "remember",
            "--workspace",
            "w",
            "--type",
            "fact",
            "--at",
            "2026-05-10",
            "--supersedes",
            old["id"],
            "--pinned",
            "tea is black",
        )
        query = (
            "recall",
            "tea",
            "--workspace",
            "w",
            "--now",
            "2026-06-01",
            "--type",
            "fact",
            "--depth",
            "1",
            "--ranker",
            "recency",
        )
        assert run(*query).stdout.endswith("- tea is black\n")
        assert run(*query, "--as-of", "2026-05-05").stdout.endswith("- tea is green\n")

    def test_what_is_wrong_is_one_line_and_status_one(self) -> None:
        assert run("recall", "tea", "--workspace", "w").exit_code == 1
        run("remember", "--workspace", "w", "tea")
        for args in (
            ("recall", "tea", "--workspace", "x"),
            ("recall", "tea", "--workspace", "w", "--template", "letter"),
            ("recall", " ", "--workspace", "w"),
        ):
            failed = run(*args)
            assert (
                failed.exit_code == 1
                and failed.stderr.startswith("error: ")
                and failed.stderr.count("\n") <= 2
            )
        assert run("remember", "--workspace", "w", "--confidence", "2", "tea").exit_code == 1
        assert run("remember", "tea").exit_code == 2

    def test_standard_input_is_remembered(self) -> None:
        assert run("remember", "--workspace", "w", "-", stdin="a long story\n").exit_code == 0
        assert "a long story" in run("recall", "story", "--workspace", "w").stdout

    def test_statistics_show_what_was_asked_only_if_that_is_counted(self, tmp_path: Path) -> None:
        run("remember", "--workspace", "w", "tea")
        for query in ("tea", "tea", "coffee"):
            run("recall", query, "--workspace", "w", KNOWLOOM_ANALYTICS="beside")
        (usage,) = answer("stats", KNOWLOOM_ANALYTICS="beside")["asked"]
        assert (usage["workspace"], usage["operation"], usage["count"], usage["found_nothing"]) == (
            "w",
            "preview",
            3,
            1,
        )
        shown = run("stats", KNOWLOOM_ANALYTICS="beside").stdout
        assert "empty" in shown and re.search(r"preview +3 .* 1 +0", shown)
        assert "asked" not in answer("stats")
        assert b"coffee" not in (tmp_path / "knowledge.db.analytics").read_bytes()
        assert (
            run(
                "recall",
                "tea",
                "--workspace",
                "w",
                KNOWLOOM_ANALYTICS="beside",
                KNOWLOOM_ANALYTICS_TEXT="perhaps",
            ).exit_code
            == 1
        )

    def test_statistics_show_the_embedding_cache(self) -> None:
        for _ in range(2):
            assert (
                run(
                    "remember",
                    "--workspace",
                    "w",
                    "tea",
                    KNOWLOOM_EMBEDDER="minilm",
                    KNOWLOOM_EMBEDDING_CACHE="beside",
                ).exit_code
                == 0
            )
        stats = answer("stats", KNOWLOOM_EMBEDDING_CACHE="beside")
        assert (stats["disk_vectors"], stats["disk_hits"]) == (1, 1)
        assert "1 vectors, used 1 times" in run("stats", KNOWLOOM_EMBEDDING_CACHE="beside").stdout


class TestAnalytics:
    @pytest.fixture
    def counted(self, tmp_path: Path) -> Iterator[tuple[Memory, Analytics]]:
        with (
            knowloom.open("memory:", embedder=None) as kb,
            closing(Analytics(tmp_path / "asked.db", keep_text=True)) as analytics,
        ):
            memory = Memory(kb, "home", analytics=analytics)
            memory.remember("tea")
            yield memory, analytics

    def test_how_often_how_slow_and_nothing_found_are_counted(
        self, counted: tuple[Memory, Analytics]
    ) -> None:
        memory, analytics = counted
        _ = (
            memory.search("tea"),
            memory.search("coffee"),
            memory.build_context("tea"),
            memory.preview("water"),
        )
        with pytest.raises(knowloom.SearchError):
            memory.search("tea", ranker=lambda results, options: [])
        summaries = {summary.operation: summary for summary in analytics.summaries()}
        assert {
            name: (summary.count, summary.found_nothing, summary.failed)
            for name, summary in summaries.items()
        } == {
            "context": (1, 0, 0),
            "preview": (1, 1, 0),
            "search": (3, 1, 1),
        }
        assert all(0 < summary.p50_ms <= summary.p95_ms for summary in summaries.values())

    def test_questions_are_kept_if_asked_for(self, counted: tuple[Memory, Analytics]) -> None:
        memory, analytics = counted
        _ = memory.search("tea"), memory.search("coffee")
        assert analytics.queries("home") == ["tea", "coffee"] and analytics.queries(
            "home", found_nothing=True
        ) == ["coffee"]

    def test_without_asking_no_text_is_written(self, tmp_path: Path) -> None:
        with (
            knowloom.open("memory:", embedder=None) as kb,
            closing(Analytics(tmp_path / "asked.db")) as analytics,
        ):
            Memory(kb, "home", analytics=analytics).search("a very private question")
            assert analytics.queries("home") == [] and analytics.summaries()[0].count == 1
        assert not [file for file in tmp_path.iterdir() if b"private" in file.read_bytes()]

    def test_a_file_that_is_none_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "text.db").write_bytes(b"once upon a time" * 100)
        knowloom.open(str(tmp_path / "knowledge.db"), embedder=None).close()
        for name in ("text.db", "knowledge.db"):
            before = (tmp_path / name).read_bytes()
            with pytest.raises(Corrupt):
                Analytics(tmp_path / name)
            assert (tmp_path / name).read_bytes() == before
        with pytest.raises(Invalid):
            Analytics(tmp_path / "nowhere" / "asked.db")

    def test_counting_never_breaks_what_is_counted(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with knowloom.open("memory:", embedder=None) as kb, caplog.at_level(logging.WARNING):
            analytics = Analytics(tmp_path / "asked.db")
            memory = Memory(kb, "home", analytics=analytics)
            memory.remember("tea")
            analytics.close()
            assert len(memory.search("tea")) == 1
        assert "analytics" in caplog.text


def chat(file: Path, *lines: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "chat.py", "--file", file],
        input="\n".join(lines),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_chat_example_remembers_from_run_to_run(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    assert (
        chat(file, "My sister is called Ada and lives in Hamburg.", "Where does she live?")[0]
        == "I will remember that."
    )
    assert chat(file, "Where does my sister live?")[0].endswith(
        'you told me: "My sister is called Ada and lives in Hamburg."'
    )
    assert chat(tmp_path / "other.db", "Where does my sister live?") == ["You have not told me."]
