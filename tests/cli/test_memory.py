"""The memory commands, the chat example, and analytics that store no text unless enabled."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import knowloom
from cli_runs import run, run_json
from knowloom import Analytics, Invalid, Memory
from knowloom.errors import Corrupt
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class TestCommands:
    def test_a_stored_memory_is_recalled(self) -> None:
        memory = run_json(
            "remember --workspace maya --conversation c1 --speaker Ada --at 2026-05-01T09:30:00Z",
            "I moved to Hamburg",
        )
        assert (memory["conversation"], memory["confidence"], memory["workspace"]) == (
            "c1",
            0.5,
            "maya",
        )
        result = run("recall Hamburg --workspace maya --now 2026-06-01")
        assert (
            result.stdout == "Relevant context from past conversations:\n\n"
            "- Ada at 9:30 am on 1 May, 2026: I moved to Hamburg\n"
        )
        preview = run_json("recall Hamburg --workspace maya --template summary --token-budget 5")
        assert preview["context"] == "" and preview["left_out"][0]["id"] == memory["id"]

    def test_options_reach_the_memory(self) -> None:
        old = run_json("remember --workspace w --type fact --at 2026-05-01 'tea is green'")
        new = "remember --workspace w --type fact --at 2026-05-10 --pinned 'tea is black'"
        assert run(new, "--supersedes", old["id"]).exit_code == 0
        query = "recall tea --workspace w --now 2026-06-01 --type fact --depth 1 --ranker recency"
        assert run(query).stdout.endswith("- tea is black\n")
        assert run(query, "--as-of", "2026-05-05").stdout.endswith("- tea is green\n")

    def test_links_between_results_are_told(self) -> None:
        tea = run_json("remember --workspace w --at 2026-05-01 --id tea 'Ada likes tea'")
        run("remember --workspace w --at 2026-05-02 --id milk 'Ada likes milk'")
        with knowloom.open("knowledge.db") as kb:
            Memory(kb, "w").relate("milk", "tea", "goes with", now=NOW)
        query = "recall 'Ada likes' --workspace w --now 2026-06-01"
        assert "([1], goes with [2])" in run(query, "--depth", "1").stdout
        assert "goes with" not in run(query).stdout
        for row in run_json(query)["memories"]:
            assert [link["type"] for link in row["links"]] == ["goes with"]
        xml = run(query, "--template", "xml").stdout
        assert xml.startswith("<memories>") and tea["content"] in xml

    def test_errors_are_one_line_with_status_1(self) -> None:
        assert run("recall tea --workspace w").exit_code == 1
        run("remember --workspace w tea")
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
        assert run("remember --workspace w --confidence 2 tea").exit_code == 1
        assert run("remember").exit_code == 2

    def test_a_memory_is_read_from_standard_input(self) -> None:
        assert run("remember --workspace w -", stdin="a long story\n").exit_code == 0
        assert "a long story" in run("recall story --workspace w").stdout

    def test_statistics_show_analytics_only_if_they_are_enabled(self, tmp_path: Path) -> None:
        run("remember --workspace w tea")
        for query in ("tea", "tea", "coffee"):
            run("recall", query, "--workspace", "w", KNOWLOOM_ANALYTICS="beside")
        (usage,) = run_json("stats", KNOWLOOM_ANALYTICS="beside")["asked"]
        names = ("workspace", "operation", "count", "found_nothing")
        assert [usage[name] for name in names] == ["w", "preview", 3, 1]
        output = run("stats", KNOWLOOM_ANALYTICS="beside").stdout
        assert "empty" in output and re.search(r"preview +3 .* 1 +0", output)
        assert "asked" not in run_json("stats")
        assert b"coffee" not in (tmp_path / "knowledge.db.analytics").read_bytes()
        analytics = {"KNOWLOOM_ANALYTICS": "beside", "KNOWLOOM_ANALYTICS_TEXT": "perhaps"}
        assert run("recall tea --workspace w", **analytics).exit_code == 1

    def test_statistics_show_the_embedding_cache(self) -> None:
        for _ in range(2):
            result = run(
                "remember --workspace w tea", embedder="minilm", KNOWLOOM_EMBEDDING_CACHE="beside"
            )
            assert result.exit_code == 0
        stats = run_json("stats", KNOWLOOM_EMBEDDING_CACHE="beside")
        assert (stats["disk_vectors"], stats["disk_hits"]) == (1, 1)
        assert "1 vectors, used 1 times" in run("stats", KNOWLOOM_EMBEDDING_CACHE="beside").stdout


class TestAnalytics:
    @pytest.fixture
    def memory_and_analytics(self, tmp_path: Path) -> Iterator[tuple[Memory, Analytics]]:
        with (
            knowloom.open("memory:", embedder=None) as kb,
            closing(Analytics(tmp_path / "analytics.db", keep_text=True)) as analytics,
        ):
            memory = Memory(kb, "home", analytics=analytics)
            memory.remember("tea")
            yield memory, analytics

    def test_counts_latencies_and_empty_results_are_recorded(
        self, memory_and_analytics: tuple[Memory, Analytics]
    ) -> None:
        memory, analytics = memory_and_analytics
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

    def test_queries_are_stored_if_enabled(
        self, memory_and_analytics: tuple[Memory, Analytics]
    ) -> None:
        memory, analytics = memory_and_analytics
        _ = memory.search("tea"), memory.search("coffee")
        assert analytics.queries("home") == ["tea", "coffee"] and analytics.queries(
            "home", found_nothing=True
        ) == ["coffee"]

    def test_no_text_is_stored_by_default(self, tmp_path: Path) -> None:
        with (
            knowloom.open("memory:", embedder=None) as kb,
            closing(Analytics(tmp_path / "analytics.db")) as analytics,
        ):
            Memory(kb, "home", analytics=analytics).search("a very private question")
            assert analytics.queries("home") == [] and analytics.summaries()[0].count == 1
        assert not any(
            b"private" in file.read_bytes() for file in tmp_path.glob("*") if file.is_file()
        )

    def test_a_file_of_another_program_is_rejected_and_not_changed(self, tmp_path: Path) -> None:
        (tmp_path / "text.db").write_bytes(b"once upon a time" * 100)
        knowloom.open(str(tmp_path / "knowledge.db"), embedder=None).close()
        for name in ("text.db", "knowledge.db"):
            before = (tmp_path / name).read_bytes()
            with pytest.raises(Corrupt):
                Analytics(tmp_path / name)
            assert (tmp_path / name).read_bytes() == before
        with pytest.raises(Invalid):
            Analytics(tmp_path / "nowhere" / "analytics.db")

    def test_a_failure_of_the_analytics_does_not_fail_a_search(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with knowloom.open("memory:", embedder=None) as kb, caplog.at_level(logging.WARNING):
            analytics = Analytics(tmp_path / "analytics.db")
            memory = Memory(kb, "home", analytics=analytics)
            memory.remember("tea")
            analytics.close()
            assert len(memory.search("tea")) == 1
        assert "analytics" in caplog.text


def chat(file: Path, *lines: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    completed = subprocess.run(
        [sys.executable, ROOT / "examples" / "chat.py", "--file", file],
        input="\n".join(lines),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    return completed.stdout.splitlines()


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
