"""The command line: output, streams and exit status."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from knowloom.cli.main import cli
from knowloom.formats.layout import FORMATS
from knowloom.recipes import RECIPES
from paths import ROOT

DOCS = (ROOT / "docs" / "cli.md").read_text("utf-8")
COMMANDS = {
    name: command for name, command in cli.commands.items() if not isinstance(command, click.Group)
} | {
    f"{name} {below}": command
    for name, group in cli.commands.items()
    if isinstance(group, click.Group)
    for below, command in group.commands.items()
}
NOT_RUN = (
    "knowloom serve",
    "knowloom keys revoke 1a2b3c4d",
    "knowloom ingest",
    "knowloom replay",
)  # a server never ends, that key is no one's, no LLM is here
ASK = ("How do I process a refund request?", "--space", "support", "--space", "shared")
UNKNOWN_SPACE = "unknown space 'suport'; available: analytics, finance, purchasing, shared, support"
NOW = ("--now", "2026-06-01T12:00:00Z")


def examples(text: str, indent: int) -> list[str]:
    return re.findall(rf"^ {{{indent}}}(knowloom .+)$", text, re.M)


HELP_EXAMPLES = [
    line for command in COMMANDS.values() for line in examples(command.epilog or "", 2)
] + examples(cli.help or "", 2)
DOCS_EXAMPLES = [
    line for block in re.findall(r"```sh\n(.*?)```", DOCS, re.S) for line in examples(block, 0)
]


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but the test's own, and a folder where anything may be written."""
    for name in [
        name
        for name in os.environ
        if name.startswith("KNOWLOOM_") or name in ("OPENAI_API_KEY", "NO_COLOR", "COLUMNS")
    ]:
        monkeypatch.delenv(name)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def words_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loaded(tmp_path_factory.mktemp("words") / "harbor.db", "none")


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loaded(tmp_path_factory.mktemp("embedded") / "harbor.db", "minilm")


@pytest.fixture
def store(words_only: Path, tmp_path: Path) -> Path:
    """The example company in a file of the test's own."""
    return Path(shutil.copy(words_only, tmp_path / "own.db"))


def loaded(file: Path, embedder: str) -> Path:
    result = run("load", str(ROOT / "examples" / "harbor"), db=file, embedder=embedder)
    assert result.exit_code == 0, result.output
    return file


def run(
    *args: str, db: Path | str = "knowledge.db", embedder: str = "none", stdin: Any = None
) -> Result:
    result = CliRunner().invoke(
        cli,
        args,
        prog_name="knowloom",
        input=stdin,
        env={"KNOWLOOM_STORE": str(db), "KNOWLOOM_EMBEDDER": embedder},
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*args: str, db: Path | str, **more: Any) -> Any:
    return json.loads(run(*args, "--json", db=db, **more).stdout)


def program(*args: str, **environ: str) -> list[Any]:
    """The real program's exit status, standard output and standard error."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KNOWLOOM_EMBEDDER": "none",
        **environ,
    }
    done = subprocess.run(
        [sys.executable, "-m", "knowloom", *args], env=environment, capture_output=True, timeout=60
    )
    return [done.returncode, done.stdout, done.stderr.decode()]


class TestLoading:
    def test_a_folder_is_loaded_and_counted(self, tmp_path: Path) -> None:
        result = run("load", "examples/harbor", db=tmp_path / "new.db")
        assert result.exit_code == 0
        assert re.search(
            r"added +updated +unchanged +removed +edges +skipped\s+[1-9]\d* +0 +0 +0 +[1-9]\d* +0",
            result.stdout,
        )

    def test_loading_again_changes_nothing(self, store: Path) -> None:
        report = answer("load", "examples/harbor", db=store)
        assert (report["added"], report["updated"], report["edges"]) == (0, 0, 0)
        assert report["unchanged"] > 100

    def test_files_may_link_to_files_that_come_later(self, tmp_path: Path) -> None:
        (tmp_path / "first.jsonl").write_text(
            '{"id": "a", "text": "x"}\n{"source": "a", "target": "b"}\n'
        )
        (tmp_path / "second.jsonl").write_text('{"id": "b", "text": "y"}\n')
        report = answer(
            "load", "first.jsonl", "second.jsonl", "--space", "s", db=tmp_path / "new.db"
        )
        assert (report["added"], report["edges"], report["skipped"]) == (2, 1, [])

    def test_a_bad_row_is_listed_and_the_rest_is_stored(self, tmp_path: Path) -> None:
        rows(tmp_path, '{"id": "good", "text": "x"}', '{"id": "bad"}')
        result = run("load", "rows.jsonl", "--space", "s")
        assert result.exit_code == 0
        assert "rows.jsonl:2" in result.stdout
        assert "is empty" in result.stdout
        assert "warning: 1 rows were skipped" in result.stderr

    def test_at_most_twenty_bad_rows_are_shown(self, tmp_path: Path) -> None:
        rows(tmp_path, '{"id": "good", "text": "x"}', *["nonsense"] * 25)
        assert "+5 more" in run("load", "rows.jsonl", "--space", "s").stdout
        assert len(answer("load", "rows.jsonl", "--space", "s", db="knowledge.db")["skipped"]) == 25

    def test_the_exit_status_is_1_when_nothing_could_be_stored(self, tmp_path: Path) -> None:
        rows(tmp_path, "nonsense")
        result = run("load", "rows.jsonl", "--space", "s")
        assert (result.exit_code, result.stderr) == (1, "error: nothing was stored\n")

    def test_a_path_that_does_not_exist_is_wrong_usage(self) -> None:
        assert run("load", "nowhere").exit_code == 2

    def test_items_can_be_embedded_later(self, tmp_path: Path) -> None:
        rows(tmp_path, '{"id": "a", "text": "x"}', '{"id": "b", "text": "y"}')
        run("load", "rows.jsonl", "--space", "s", "--no-vectors", embedder="minilm")
        assert answer("embed", db="knowledge.db", embedder="minilm") == {"vectors": 2}
        assert "vectors computed: 0" in run("embed", embedder="minilm").stdout

    def test_embedding_without_an_embedder_is_wrong_usage(self, store: Path) -> None:
        result = run("embed", db=store)
        assert result.exit_code == 2
        assert "--embedder" in result.stderr


def rows(folder: Path, *lines: str) -> None:
    (folder / "rows.jsonl").write_text("\n".join(lines))


class TestAdding:
    def test_every_option_is_stored_in_the_item(self) -> None:
        words = "--kind claim --type fact --title T --summary S --tag a --tag b "
        words += "--section skills --subject x --confidence 0.5 --source me"
        run(
            "add",
            "--space",
            "s",
            "--id",
            "i",
            "--text",
            "body",
            "--property",
            "n=12",
            "--property",
            "w=two words",
            *words.split(),
        )
        (item,) = answer("get", "i", "--space", "s", db="knowledge.db")["items"]
        assert item.pop("created_at").endswith("Z")
        fields = {
            "id": "i",
            "space": "s",
            "kind": "claim",
            "type": "fact",
            "title": "T",
            "text": "body",
            "summary": "S",
            "tags": ["a", "b"],
        }
        assert item == fields | {
            "section": "skills",
            "subject": "x",
            "confidence": 0.5,
            "source": "me",
            "properties": {"n": 12, "w": "two words"},
        }

    def test_the_text_can_come_from_standard_input(self) -> None:
        result = run("add", "--space", "s", "--id", "i", "--text", "-", stdin="from a pipe: é")
        assert result.stdout == "added: i in s\n"
        assert "from a pipe: é" in run("get", "i", "--space", "s").stdout

    def test_adding_again_replaces(self) -> None:
        run("add", "--space", "s", "--id", "i", "--text", "one")
        assert (
            run("add", "--space", "s", "--id", "i", "--text", "two").stdout == "updated: i in s\n"
        )
        assert (
            answer("add", "--space", "s", "--id", "i", "--text", "two", db="knowledge.db")[
                "unchanged"
            ]
            == 1
        )

    def test_an_unknown_kind_lists_the_available_ones(self) -> None:
        result = run("add", "--space", "s", "--id", "i", "--text", "x", "--kind", "thing")
        assert result.exit_code == 1
        assert "claim, entity, memory, node, profile, rule" in result.stderr

    def test_a_property_without_a_value_is_wrong_usage(self) -> None:
        assert (
            run("add", "--space", "s", "--id", "i", "--text", "x", "--property", "n").exit_code == 2
        )

    def test_text_that_is_not_utf_8_is_rejected(self) -> None:
        result = run("add", "--space", "s", "--id", "i", "--text", "-", stdin=b"\xff\xfe")
        assert (result.exit_code, "not UTF-8" in result.stderr) == (1, True)

    def test_ctrl_c_ends_quietly_with_130(self) -> None:
        result = run("add", "--space", "s", "--id", "i", "--text", "-", stdin=Interrupted())
        assert (result.exit_code, result.output) == (130, "")


class Interrupted(io.BytesIO):
    """Standard input on which Ctrl-C is pressed as soon as something is read."""

    def read(self, size: int | None = -1) -> bytes:
        if size:
            raise KeyboardInterrupt
        return b""


class TestSearching:
    def test_words_and_meaning_find_together(self, embedded: Path) -> None:
        result = run(
            "search",
            "refund over 100 dollars",
            "--space",
            "support",
            db=embedded,
            embedder="minilm",
        )
        assert re.search(
            r"█.* \.\d\d +who-approves-refund-over-100 +faq .*hybrid +\.\d\d +\.\d\d", result.stdout
        )
        assert result.stderr == ""

    def test_every_filter_reaches_the_engine(self, store: Path) -> None:
        filters = "--kind node --type faq --type playbook --exclude-type playbook "
        filters += "--tag refunds --limit 3 --mode bm25 --min-score 0.01"
        hits = answer("search", "refund", "--space", "support", *filters.split(), db=store)["hits"]
        assert len(hits) == 3
        assert all(
            hit["item"]["type"] == "faq" and "refunds" in hit["item"]["tags"] for hit in hits
        )

    def test_times_subjects_and_confidence_are_filters_too(self, store: Path) -> None:
        everything = answer(
            "search", "kestrel warranty", "--space", "shared", "--limit", "50", db=store
        )["hits"]
        about = answer(
            "search",
            "kestrel warranty",
            "--space",
            "shared",
            "--subject",
            "kestrel-2-tent",
            "--min-confidence",
            "0.1",
            db=store,
        )["hits"]
        early = answer(
            "search",
            "kestrel warranty",
            "--space",
            "shared",
            "--created-to",
            "2020-01-01",
            db=store,
        )["hits"]
        late = answer(
            "search",
            "kestrel warranty",
            "--space",
            "shared",
            "--created-from",
            "2090-01-01",
            db=store,
        )["hits"]
        assert 0 < len(about) < len(everything)
        assert early == late == []

    def test_as_of_shows_the_state_of_another_day(self, store: Path) -> None:
        then = answer(
            "search", "refund approval", "--space", "support", "--as-of", "2025-01-15", db=store
        )["hits"]
        ids = [hit["item"]["id"] for hit in then]
        assert ids[0] == "refund-approval-limit-2024"
        assert "refund-approval-limits" not in ids

    def test_no_hits_is_not_an_error(self, store: Path) -> None:
        result = run("search", "zyzzyva", "--space", "support", db=store)
        assert (result.exit_code, result.stdout) == (0, "nothing found\n")

    def test_a_keyword_search_warns_if_there_are_vectors(self, embedded: Path) -> None:
        result = run("search", "refund", "--space", "support", db=embedded)
        assert result.stderr.startswith("warning: search vectors: words only")
        assert answer("search", "refund", "--space", "support", db=embedded)["notes"]

    def test_user_text_is_never_markup(self) -> None:
        added = run(
            "add",
            "--space",
            "s",
            "--id",
            "[red]x",
            "--title",
            "[bold]loud[/bold] :smile: \x1b[2J",
            "--text",
            "word",
        )
        assert added.stdout == "added: [red]x in s\n"
        shown = (
            run("search", "word", "--space", "s").stdout
            + run("get", "[red]x", "--space", "s").stdout
        )
        assert "[red]x" in shown
        assert "[bold]loud[/bold] :smile:" in shown
        assert "\x1b" not in shown

    def test_very_long_ids_are_never_cut(self) -> None:
        long = "".join(f"part-{number}-" for number in range(20))
        run("add", "--space", "s", "--id", long, "--text", "word")
        header, *lines = run("search", "word", "--space", "s").stdout.splitlines()
        assert (
            "".join(line[header.index("id") : header.index("type")].strip() for line in lines)
            == long
        )


class TestContext:
    def test_standard_output_has_the_text_and_nothing_else(self, store: Path) -> None:
        result = run("context", *ASK, "--max-tokens", "300", db=store)
        assert result.stdout == answer("context", *ASK, "--max-tokens", "300", db=store)["text"]
        assert result.stderr == ""

    def test_the_answer_keeps_the_budget_and_says_why(self, embedded: Path) -> None:
        context = answer("context", *ASK, "--max-tokens", "400", db=embedded, embedder="minilm")
        chosen = [entry for fragment in context["fragments"] for entry in fragment["chosen"]]
        assert 300 < context["tokens"] <= 400
        assert any(
            entry["why"].startswith("found by words and meaning (bm25 .") for entry in chosen
        )
        assert any(
            re.match(r"link(ed from|s to) \S+ by \S+ \(weight (\.\d\d|1\.0)\)$", entry["why"])
            for entry in chosen
        )

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("apple", "linked from a by uses (weight .50)"),
            ("pear", "links to b by uses (weight .50)"),
        ],
    )
    def test_a_link_is_described_in_its_direction(
        self, text: str, why: str, tmp_path: Path
    ) -> None:
        rows(
            tmp_path,
            '{"id": "a", "text": "apple"}',
            '{"id": "b", "text": "pear"}',
            '{"source": "a", "target": "b", "type": "uses", "weight": 0.5}',
        )
        run("load", "rows.jsonl", "--space", "s")
        linked = answer("context", text, "--space", "s", db="knowledge.db")["fragments"][1][
            "chosen"
        ]
        assert [entry["why"] for entry in linked] == [why]

    def test_every_option_reaches_the_engine(self, store: Path) -> None:
        options = "--max-tokens none --recipe profile --format yaml --model gpt-4o "
        options += "--entity user:maya --type faq --exclude-type x --tag refunds"
        more = "--limit 3 --depth 1 --mode bm25 --min-score 0.01 --as-of 2026-05-01"
        context = answer("context", *ASK, *options.split(), *more.split(), *NOW, db=store)
        expected = {"max_tokens": None, "format": "yaml", "model": "gpt-4o", "entity": "user:maya"}
        assert (
            context["query"].items()
            >= (expected | {"now": "2026-06-01T12:00:00Z", "as_of": "2026-05-01T00:00:00Z"}).items()
        )
        assert context["stats"]["token_counter"] == "o200k_base"
        assert [fragment["name"] for fragment in context["fragments"]] == [
            "profile",
            "entry_points",
            "context",
            "rules",
        ]
        assert {entry["type"] for entry in context["fragments"][1]["chosen"]} == {"faq"}

    def test_settings_are_the_defaults(self, store: Path, tmp_path: Path) -> None:
        (tmp_path / "knowloom.toml").write_text(
            'max_tokens = 111\nformat = "plain"\nmodel = "gpt-4o"\n'
        )
        query = answer("context", *ASK, db=store)["query"]
        assert (query["max_tokens"], query["format"], query["model"]) == (111, "plain", "gpt-4o")

    BUDGETS = (
        ("context", *ASK, "--max-tokens", "800"),
        ("explain", *ASK),
        ("provide", *ASK),
        ("provide", *ASK, "--as-one-text"),
        ("assemble", *ASK),
        ("graph", *ASK),
        ("recall", "refund", "--workspace", "support"),
    )

    @pytest.mark.parametrize("args", BUDGETS, ids=lambda args: args[0])
    def test_a_model_without_a_tokenizer_is_a_warning(
        self, args: tuple[str, ...], store: Path
    ) -> None:
        for form in ((), ("--json",)):
            stderr = run(*args, *form, "--model", "gpt4", db=store).stderr
            assert (
                "warning: no tokenizer for model 'gpt4': each byte" in stderr,
                "cl100k_base, o200k_base" in stderr,
            ) == (True, True)
            assert "tokenizer" not in run(*args, *form, "--model", "gpt-4", db=store).stderr

    def test_without_a_limit_there_is_no_warning_about_the_model(self, store: Path) -> None:
        assert (
            run("context", *ASK, "--model", "gpt4", "--max-tokens", "none", db=store).stderr == ""
        )

    def test_what_steers_a_terminal_reaches_a_file_unchanged(self) -> None:
        run("add", "--space", "s", "--id", "i", "--text", "word \x1b[31mred\x1b[0m")
        assert "\x1b[31mred\x1b[0m" in run("context", "word", "--space", "s").stdout

    def test_a_degraded_context_is_a_warning(self, embedded: Path) -> None:
        result = run("context", *ASK, db=embedded)
        assert result.exit_code == 0
        assert result.stderr.startswith("warning: vectors: words only")

    def test_a_budget_is_a_number_or_none(self, store: Path) -> None:
        assert run("context", *ASK, "--max-tokens", "many", db=store).exit_code == 2
        assert run("context", *ASK, "--max-tokens", "-1", db=store).exit_code == 2

    def test_an_invalid_time_is_wrong_usage(self, store: Path) -> None:
        result = run("context", *ASK, "--now", "tomorrow", db=store)
        assert (result.exit_code, "2026-01-31T12:00:00Z" in result.stderr) == (2, True)

    @pytest.mark.parametrize(("option", "names"), [("--format", FORMATS), ("--recipe", RECIPES)])
    def test_an_unknown_name_lists_the_available_ones(
        self, option: str, names: Sequence[str], store: Path
    ) -> None:
        result = run("context", *ASK, option, "nonsense", db=store)
        assert result.exit_code == 1
        assert ", ".join(sorted(names)) in result.stderr


class TestExplaining:
    def test_it_shows_what_is_in_and_what_is_not(self, embedded: Path) -> None:
        shown = run("explain", *ASK, "--max-tokens", "500", db=embedded, embedder="minilm").stdout
        assert re.match(
            r"tokens █+░* \d{3} of 500 \(cl100k_base\)\n"
            r"entry_points: \d+ items?, \d+ tokens · context: ",
            shown,
        )
        assert re.search(
            r"process-a-refund +(whole|summary) +\d+ +\.\d\d +words and meaning "
            r"\(bm25 \.\d\d, vector \.\d\d, walk \.\d\d\)",
            shown,
        )
        assert re.search(
            r" \d+ +\.\d\d outweighed +--max-tokens \d+ \((whole|summary|pointer)\)", shown
        )

    def test_a_single_item_can_be_explained(self, store: Path) -> None:
        shown = run("explain", *ASK, "--item", "orders-orders", db=store).stdout
        assert "Nothing in the text of what was asked about" in shown
        assert re.search(r"orders-orders .*it is in space 'analytics'.* --space analytics", shown)

    def test_it_is_the_same_answer_as_context(self, store: Path) -> None:
        context, explained = (
            answer(name, *ASK, *NOW, "--max-tokens", "300", db=store)
            for name in ("context", "explain")
        )
        assert (context["text"], context["digest"]) == (explained["text"], explained["digest"])
        assert all(
            entry["remedy"]
            for entry in explained["left_out"]
            if entry["reason"].startswith("outweighed")
        )

    def test_without_a_limit_there_is_no_bar(self, store: Path) -> None:
        assert re.match(
            r"tokens [\d,]+, no limit \(cl100k_base\)\n",
            run("explain", *ASK, "--max-tokens", "none", db=store).stdout,
        )


class TestKeeping:
    def test_get_shows_items_in_the_given_order(self, store: Path) -> None:
        shown = run("get", "warranty-policy", "refund-policy", "--space", "shared", db=store).stdout
        assert 0 < shown.index("warranty-policy") < shown.index("refund-policy")
        assert "30 days" in shown

    def test_get_warns_about_missing_items(self, store: Path) -> None:
        result = run("get", "refund-policy", "nothing", "--space", "shared", db=store)
        assert (result.exit_code, result.stderr) == (
            0,
            "warning: no item 'nothing' in space 'shared'\n",
        )
        assert run("get", "nothing", "--space", "shared", "--json", db=store).exit_code == 1
        assert answer("get", "nothing", "--space", "shared", db=store) == {
            "items": [],
            "missing": ["nothing"],
        }

    @pytest.mark.parametrize("args", [("get",), ("delete", "--yes")], ids=lambda args: args[0])
    def test_it_is_an_error_if_none_of_the_items_exists(
        self, args: tuple[str, ...], store: Path
    ) -> None:
        for form in ((), ("--json",)):
            result = run(*args, "nosuch", "neither", "--space", "support", *form, db=store)
            assert (result.exit_code, result.stderr) == (
                1,
                "error: no item 'nosuch', 'neither' in space 'support'\n",
            )

    def test_stats_count_every_space(self, store: Path) -> None:
        shown = run("stats", db=store).stdout
        spaces = answer("stats", db=store)["spaces"]
        assert [space["name"] for space in spaces] == [
            "analytics",
            "finance",
            "purchasing",
            "shared",
            "support",
        ]
        assert all(
            re.search(
                " +".join(str(entry[key]) for key in ("name", "items", "edges", "links", "digest")),
                shown,
            )
            for entry in spaces
        )

    def test_a_good_file_is_verified_with_a_tick(self, store: Path) -> None:
        result = run("verify", db=store)
        assert (result.exit_code, result.stdout) == (0, "✓ no problems found\n")
        assert answer("verify", db=store) == {"ok": True, "problems": []}

    def test_a_damaged_file_is_listed_with_status_1(self, store: Path) -> None:
        with sqlite3.connect(store) as connection:
            connection.execute("UPDATE space SET items = items + 1 WHERE name = 'shared'")
        connection.close()
        result = run("verify", db=store)
        assert (result.exit_code, result.stdout.startswith("✗ ")) == (1, True)
        assert answer("verify", db=store)["problems"]

    def test_an_export_is_loaded_back_exactly(self, store: Path, tmp_path: Path) -> None:
        assert "edges are in all.jsonl" in run("export", "-o", "all.jsonl", db=store).stdout
        assert run("load", "all.jsonl", db=tmp_path / "copy.db").exit_code == 0
        assert answer("stats", db=tmp_path / "copy.db") == answer("stats", db=store)

    def test_an_export_has_the_items_before_the_edges(self, store: Path) -> None:
        lines = [
            json.loads(line)
            for line in run("export", "--space", "support", db=store).stdout.splitlines()
        ]
        kinds = ["target" in line for line in lines]
        assert kinds == sorted(kinds)
        assert {line["space"] for line in lines} == {"support"}

    def test_an_export_that_fails_leaves_the_old_file(self, store: Path, tmp_path: Path) -> None:
        (tmp_path / "old.jsonl").write_text("old")
        result = run("export", "--space", "nowhere", "-o", "old.jsonl", db=store)
        assert (result.exit_code, (tmp_path / "old.jsonl").read_text()) == (1, "old")
        assert not list(tmp_path.glob("*.partial"))
        assert run("export", "-o", "no/such/folder.jsonl", db=store).stderr.startswith(
            "error: cannot write"
        )

    def test_an_export_writes_to_a_device_without_replacing_it(self, store: Path) -> None:
        assert answer("export", "-o", os.devnull, db=store)["items"] > 100
        assert not Path(os.devnull).is_file()

    def test_deleted_items_are_gone(self, store: Path) -> None:
        result = run(
            "delete", "gift-card-refunds", "nothing", "--space", "support", "--yes", db=store
        )
        assert (result.exit_code, result.stdout, "nothing" in result.stderr) == (
            0,
            "deleted: 1\n",
            True,
        )
        assert answer("delete", "gift-card-refunds", "--space", "support", "--yes", db=store) == {
            "deleted": 0,
            "missing": ["gift-card-refunds"],
        }

    def test_deleting_without_a_terminal_needs_yes(self, store: Path) -> None:
        result = run("delete", "gift-card-refunds", "--space", "support", db=store)
        assert (result.exit_code, "not a terminal: pass --yes" in result.stderr) == (2, True)
        assert answer("get", "gift-card-refunds", "--space", "support", db=store)["items"]

    def test_reindex_rebuilds_keywords_and_vectors(self, tmp_path: Path) -> None:
        rows(tmp_path, '{"id": "a", "text": "x"}')
        run("load", "rows.jsonl", "--space", "s")
        assert answer("reindex", db="knowledge.db", embedder="minilm") == {"vectors": 1}
        assert run("reindex").stdout == "words rebuilt; vectors computed: 0\n"

    def test_recipes_are_listed_with_their_parts(self) -> None:
        shown = run("recipes").stdout
        assert all(
            name in shown and all(part.name in shown for part in parts)
            for name, parts in RECIPES.items()
        )
        assert [recipe["name"] for recipe in answer("recipes", db="")["recipes"]] == sorted(RECIPES)


class TestErrors:
    READING = (
        ("search", "x", "--space", "s"),
        ("context", "x", "--space", "s"),
        ("explain", "x", "--space", "s"),
        ("get", "x", "--space", "s"),
        ("stats",),
        ("verify",),
        ("export",),
        ("delete", "x", "--space", "s", "--yes"),
        ("reindex",),
    )

    @pytest.mark.parametrize("args", READING, ids=lambda args: args[0])
    @pytest.mark.parametrize("url", ["x.db", "sqlite:///x.db"])
    def test_a_missing_file_is_an_error_and_is_not_created(
        self, args: tuple[str, ...], url: str
    ) -> None:
        result = run(*args, "--db", url)
        assert (result.exit_code, result.stdout) == (1, "")
        assert (
            result.stderr
            == f"error: no file 'x.db'; load some first: knowloom load PATH --db {url}\n"
        )
        assert not Path("x.db").exists()

    @pytest.mark.parametrize("args", READING, ids=lambda args: args[0])
    def test_an_empty_file_holds_no_knowledge_and_stays_empty(self, args: tuple[str, ...]) -> None:
        Path("x.db").touch()
        result = run(*args, "--db", "x.db")
        reason = "no knowledge in 'x.db': the file is empty"
        error = f"error: {reason}; load some first: knowloom load PATH --db x.db\n"
        assert (result.exit_code, result.stderr) == (1, error)
        assert (
            answer(*args, "--db", "x.db", db="x.db")["error"]["code"],
            Path("x.db").stat().st_size,
        ) == ("no_file", 0)

    def test_an_empty_file_can_be_loaded_into(self) -> None:
        Path("x.db").touch()
        assert run("add", "--space", "s", "--id", "a", "--text", "x", "--db", "x.db").exit_code == 0
        assert run("verify", "--db", "x.db").exit_code == 0

    @pytest.mark.parametrize(
        "args",
        [("stats",), ("add", "--space", "s", "--id", "a", "--text", "x")],
        ids=lambda args: args[0],
    )
    @pytest.mark.parametrize("cache", ["", "beside"])
    def test_a_url_without_a_file_is_an_error(
        self, args: tuple[str, ...], cache: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KNOWLOOM_EMBEDDING_CACHE", cache)
        result = run(*args, "--db", "sqlite:///")
        assert (
            result.exit_code,
            result.stderr.startswith("error: a store must be a path or a URL such as"),
        ) == (1, True)

    def test_an_unknown_space_lists_the_available_ones(self, store: Path) -> None:
        result = run("search", "refund", "--space", "suport", db=store)
        assert (result.exit_code, result.stderr) == (
            1,
            f"error: {UNKNOWN_SPACE}\n",
        )

    def test_an_error_in_json_has_code_message_and_status(self, store: Path) -> None:
        error = answer("search", "refund", "--space", "suport", db=store)["error"]
        assert error == {
            "code": "unknown_space",
            "message": UNKNOWN_SPACE,
            "status": 404,
        }

    def test_a_file_of_another_program_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "text.db").write_text(
            "not a database, but long enough to look like a file" * 100
        )
        result = run("stats", db="text.db")
        assert (
            result.exit_code,
            result.stderr.startswith("error: 'text.db' is damaged or not an SQLite file"),
        ) == (1, True)

    def test_a_wrong_setting_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "knowloom.toml").write_text("colour = 1")
        result = run("stats")
        assert (result.exit_code, "unknown setting 'colour'" in result.stderr) == (1, True)

    @pytest.mark.parametrize(
        "args",
        [
            ("nonsense",),
            ("search",),
            ("search", "x"),
            ("stats", "--nonsense"),
            ("search", "x", "--space", "s", "--mode", "magic"),
        ],
    )
    def test_wrong_usage_ends_with_2(self, args: tuple[str, ...]) -> None:
        result = run(*args)
        assert (result.exit_code, result.stdout) == (2, "")

    def test_memory_needs_no_file(self) -> None:
        assert answer("stats", "--db", "memory:", db="")["spaces"] == []


class TestTheProgram:
    """Through a process of its own: what only shows there."""

    def test_the_same_request_gives_the_same_bytes_in_every_process(self, embedded: Path) -> None:
        args = (
            "context",
            *ASK,
            *NOW,
            "--max-tokens",
            "500",
            "--json",
            "--db",
            str(embedded),
            "--embedder",
            "minilm",
        )
        first, second = (program(*args, PYTHONHASHSEED=seed) for seed in ("1", "2"))
        assert first[0] == 0
        assert first[1] == second[1]

    def test_help_and_version_load_nothing_heavy(self) -> None:
        for args in (["--help"], ["--version"]):
            assert not imported(*args) & {"rich", "onnxruntime", "tokenizers", "apsw", "httpx"}

    def test_context_as_json_does_without_rich(self, words_only: Path) -> None:
        assert "rich" not in imported("context", *ASK, "--json", "--db", str(words_only))

    def test_a_closed_pipe_is_silent(self, words_only: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        export = [sys.executable, "-m", "knowloom", "export", "--db", str(words_only)]
        with subprocess.Popen(
            export, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b'{"id":')
            process.stdout.close()
            assert process.stderr.read() == b""

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    @pytest.mark.parametrize(
        "args",
        [
            ("context", *ASK),
            ("context", *ASK, "--json"),
            ("export",),
            ("stats",),
            ("stats", "--json"),
            ("verify",),
            ("--help",),
        ],
    )
    def test_standard_output_that_cannot_be_written_is_one_line_and_status_1(
        self, args: tuple[str, ...], words_only: Path
    ) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "KNOWLOOM_EMBEDDER": "none",
            "KNOWLOOM_STORE": str(words_only),
        }
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "knowloom", *args],
                env=environment,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
        assert (
            done.returncode,
            re.sub("cannot write to standard output: ", "", done.stderr),
        ) == (1, "error: No space left on device\n")

    def test_a_terminal_sees_the_tokens_while_the_file_gets_the_text(
        self, words_only: Path, tmp_path: Path
    ) -> None:
        shown, status = on_terminal(
            "context",
            *ASK,
            "--max-tokens",
            "300",
            "--db",
            str(words_only),
            stdout=tmp_path / "prompt.md",
        )
        assert status == 0
        assert re.search(r"tokens .*█.* of 300 .*cl100k_base", shown)
        assert (tmp_path / "prompt.md").read_text("utf-8").startswith("## Entry points\n")
        assert "█" not in (tmp_path / "prompt.md").read_text("utf-8")

    def test_a_terminal_is_asked_before_anything_is_deleted(self, store: Path) -> None:
        shown, status = on_terminal(
            "delete", "gift-card-refunds", "--space", "support", "--db", str(store), typed=b"n\n"
        )
        assert (
            "Delete gift-card-refunds from support" in shown
            and "error: nothing was deleted" in shown
        )
        assert status == 1
        assert answer("get", "gift-card-refunds", "--space", "support", db=store)["items"]

    @pytest.mark.parametrize(
        "quiet", [{"args": ("--no-color",)}, {"NO_COLOR": "1"}], ids=["option", "environment"]
    )
    def test_colours_can_be_turned_off(self, quiet: dict[str, Any], words_only: Path) -> None:
        args, environ = (
            quiet.get("args", ()),
            {name: value for name, value in quiet.items() if name != "args"},
        )
        shown, status = on_terminal(
            "get", "nothing", "--space", "support", "--db", str(words_only), *args, **environ
        )
        assert (status, "\x1b[31m" in shown, "error: no item" in shown) == (1, False, True)


def imported(*args: str) -> set[str]:
    """The packages that a run of the program loads."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "knowloom", *args],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall(r"\| +(\w+)", done.stderr))


def on_terminal(
    *args: str, typed: bytes = b"", stdout: Path | None = None, **environ: str
) -> tuple[str, int]:
    """Return the output of a terminal and the exit status."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KNOWLOOM_EMBEDDER": "none",
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        **environ,
    }
    output = theirs if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT)
    os.write(ours, typed)
    process = subprocess.Popen(
        [sys.executable, "-m", "knowloom", *args],
        env=environment,
        stdin=theirs,
        stdout=output,
        stderr=theirs,
    )
    os.close(theirs)
    if stdout is not None:
        os.close(output)
    shown = everything(ours)
    return shown, process.wait(timeout=60)


def everything(terminal: int) -> str:
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(terminal)
    return seen.decode()


class TestTeaching:
    def test_help_names_every_command_and_three_to_start_with(self) -> None:
        shown = run("--help").stdout
        assert len(examples(shown, 4)) == 3
        assert all(re.search(rf"^  {name} +\S", shown, re.M) for name in cli.commands)

    def test_no_summary_of_a_command_is_cut(self) -> None:
        assert "..." not in run("--help").stdout.partition("Commands:")[2]

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_has_examples(self, name: str) -> None:
        result = run(*name.split(), "--help")
        assert result.exit_code == 0
        assert (
            1
            <= sum(line.startswith(f"knowloom {name}") for line in examples(result.stdout, 4))
            <= 2
        )

    def test_the_help_of_format_names_every_format(self) -> None:
        assert all(name in run("context", "--help").stdout for name in FORMATS)

    @pytest.mark.parametrize(
        "line",
        [
            line
            for line in dict.fromkeys([*HELP_EXAMPLES, *DOCS_EXAMPLES])
            if not line.startswith(NOT_RUN)
        ],
    )
    def test_every_example_runs(
        self, line: str, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        needs_embedder = line.startswith("knowloom embed")
        source = request.getfixturevalue("embedded" if needs_embedder else "words_only")
        file = shutil.copy(source, tmp_path / "knowledge.db")
        _, *args = shlex.split(line.partition(" > ")[0])
        result = run(*args, db=file, embedder="minilm" if needs_embedder else "none")
        assert result.exit_code == 0, result.output
        assert result.stdout

    @pytest.mark.parametrize("name", COMMANDS)
    def test_the_docs_have_every_command_and_option(self, name: str) -> None:
        section = re.search(rf"^## knowloom {name}\n(.*?)(?=^## |\Z)", DOCS, re.S | re.M)
        shared = re.search(r"^## Options of every command\n(.*?)(?=^## )", DOCS, re.S | re.M)
        assert section and shared, f"docs/cli.md has no part about {name}"
        documented = re.findall(
            r"--?[a-z][a-z-]*", re.sub(r"```.*?```", "", section[1] + shared[1], flags=re.S)
        )
        options = [
            opt
            for param in COMMANDS[name].params
            if isinstance(param, click.Option)
            for opt in param.opts
        ]
        assert set(options) <= set(documented)

    def test_the_version_is_the_package_s(self) -> None:
        import knowloom

        assert run("--version").stdout == f"knowloom {knowloom.__version__}\n"

    def test_the_demo_runs_from_any_folder(self, tmp_path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "demo.py"],
            env=environment,
            capture_output=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().count("of 600 (cl100k_base)") == 2
