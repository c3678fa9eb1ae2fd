"""The command search."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli_runs import run, run_json, run_on_terminal
from knowloom.cli.snippets import select_snippet

LONG = (
    "Parcels arrive at noon and leave at night. " * 40
    + "The zebra crossing at the dock is closed. "
    + "Ask the guard about anything else. " * 20
)


class TestSearching:
    def test_keywords_and_vectors_are_combined(self, embedded_store: Path) -> None:
        result = run(
            "search 'refund over 100 dollars' --space support", db=embedded_store, embedder="minilm"
        )
        assert re.search(
            r"█.* \.\d\d Who approves .*\n(.*\n)* +who-approves-refund-over-100 · faq · "
            r"words \.\d\d, vectors \.\d\d",
            result.stdout,
        )
        assert result.stderr == ""

    def test_every_filter_reaches_the_engine(self, store: Path) -> None:
        filters = "--kind node --type faq --type playbook --exclude-type playbook "
        filters += "--tag refunds --limit 3 --mode bm25 --min-score 0.01"
        hits = run_json("search refund --space support", *filters.split(), db=store)["hits"]
        assert len(hits) == 3
        assert all(
            hit["item"]["type"] == "faq" and "refunds" in hit["item"]["tags"] for hit in hits
        )

    def test_times_subjects_and_confidence_are_filters_too(self, store: Path) -> None:
        hits = run_json("search 'kestrel warranty' --space shared --limit 50", db=store)["hits"]
        about = run_json(
            "search 'kestrel warranty' --space shared --subject kestrel-2-tent "
            "--min-confidence 0.1",
            db=store,
        )["hits"]
        early = run_json(
            "search 'kestrel warranty' --space shared --created-to 2020-01-01", db=store
        )["hits"]
        late = run_json(
            "search 'kestrel warranty' --space shared --created-from 2090-01-01", db=store
        )["hits"]
        assert 0 < len(about) < len(hits)
        assert early == late == []

    def test_as_of_shows_the_state_of_another_day(self, store: Path) -> None:
        result = run_json("search 'refund approval' --space support --as-of 2025-01-15", db=store)
        ids = [hit["item"]["id"] for hit in result["hits"]]
        assert ids[0] == "refund-approval-limit-2024"
        assert "refund-approval-limits" not in ids

    def test_no_hits_is_not_an_error(self, store: Path) -> None:
        result = run("search zyzzyva --space support", db=store)
        assert (result.exit_code, result.stdout) == (0, "nothing found\n")

    def test_a_minimum_confidence_of_the_answer_returns_nothing_but_a_note(
        self, store: Path
    ) -> None:
        minimum = "--min-answer-confidence 1"
        found = run(f"search refund --space support {minimum}", db=store)
        assert (found.exit_code, found.stdout) == (0, "nothing found\n")
        assert "note: hits: confidence 0." in found.stderr
        context = run(f"context refund --space support {minimum}", db=store)
        assert (context.exit_code, context.stdout.strip()) == (0, "")
        assert "note: context: confidence 0." in context.stderr
        row = run_json(f"search refund --space support {minimum}", db=store)
        assert row["hits"] == [] and 0 < row["confidence"] < 1
        assert row["degraded"][0]["severity"] == "notice"

    def test_a_query_without_words_is_refused(self, store: Path) -> None:
        for command in ("search", "context", "explain"):
            result = run(command, "?!", "--space", "support", db=store)
            assert result.exit_code == 1 and "must contain a word or a number" in result.stderr

    def test_a_keyword_search_warns_if_there_are_vectors(self, embedded_store: Path) -> None:
        result = run("search refund --space support", db=embedded_store)
        assert result.stderr.startswith("warning: vectors: words only")
        assert run_json("search refund --space support", db=embedded_store)["notes"]

    def test_user_text_is_never_markup(self) -> None:
        title = "[bold]loud[/bold] :smile: \x1b[2J"
        added = run("add --space s --id '[red]x' --text word", "--title", title)
        assert added.stdout == "added: [red]x in s\n"
        output = run("search word --space s").stdout + run("get '[red]x' --space s").stdout
        assert "[red]x" in output
        assert "[bold]loud[/bold] :smile:" in output
        assert "\x1b" not in output

    def test_very_long_ids_are_never_cut(self) -> None:
        long = "".join(f"part-{number}-" for number in range(20))
        run("add --space s", "--id", long, "--text", "word")
        lines = run("search word --space s").stdout.splitlines()
        assert f"{long} · words" in "".join(line[11:].strip() for line in lines)

    @pytest.mark.parametrize("columns", [80, 60])
    def test_a_narrow_terminal_shows_score_title_and_snippet(
        self, columns: int, store: Path
    ) -> None:
        # The answer is at the end of a long text, far from its first words.
        run("add --id long --space support --title 'The long one'", "--text", LONG, db=store)
        query = "search 'which zebra crossing is closed' --space support --limit 1"
        args = (*shlex.split(query), "--db", str(store), "--no-color")
        output, _ = run_on_terminal(*args, COLUMNS=str(columns))
        plain = re.sub(r"\x1b\[[\d;]*m", "", output).replace("\r", "")
        assert re.search(r"^█+░* \.\d\d The long one +$", plain, re.M), plain
        assert "zebra crossing" in " ".join(plain.split())
        assert max(len(line) for line in plain.splitlines()) <= columns

    @pytest.mark.parametrize(
        ("options", "note"),
        [
            ("zyzzyva", "no item matches the query; try other words"),
            ("refund --type fag", "did you mean 'faq'?"),
            ("refund --tag nope", "no item passes the filters; try fewer"),
            ("refund --min-score 1", "try a lower one"),
        ],
    )
    def test_empty_results_say_why_and_what_to_try(
        self, options: str, note: str, store: Path
    ) -> None:
        for command in ("search", "context"):
            result = run(f"{command} {options} --space support", db=store)
            assert result.exit_code == 0 and note in result.stderr


class TestSnippets:
    def test_the_part_with_most_terms_is_shown(self) -> None:
        assert select_snippet(LONG, "closed zebra crossing", 60) == (
            "… The zebra crossing at the dock is closed. Ask the guard …"
        )

    @pytest.mark.parametrize("width", [10, 40, 150])
    def test_it_is_never_longer(self, width: int) -> None:
        for text in (LONG, "x" * 500, "", "short", "größer " * 90):
            assert len(select_snippet(text, "zebra größer", width)) <= width

    def test_text_without_a_match_is_shown_from_its_start(self) -> None:
        assert select_snippet(LONG, "unrelated", 30).startswith("Parcels arrive")
        assert select_snippet("short  text\n", "x", 30) == "short text"
