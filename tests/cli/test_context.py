"""The commands context and explain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli_runs import ASK, NOW, run, run_json, write_rows
from knowloom.formats.layout import FORMATS
from knowloom.recipes import RECIPES


class TestContext:
    def test_standard_output_has_the_text_and_nothing_else(self, store: Path) -> None:
        result = run("context", *ASK, "--max-tokens", "300", db=store)
        assert result.stdout == run_json("context", *ASK, "--max-tokens", "300", db=store)["text"]
        assert result.stderr == ""

    def test_the_context_fits_the_budget_and_has_reasons(self, embedded_store: Path) -> None:
        context = run_json(
            "context", *ASK, "--max-tokens", "1200", db=embedded_store, embedder="minilm"
        )
        chosen = [entry for fragment in context["fragments"] for entry in fragment["chosen"]]
        assert 900 < context["tokens"] <= 1200
        assert any(
            entry["why"].startswith("found by words and vectors (bm25 .") for entry in chosen
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
        write_rows(
            tmp_path,
            '{"id": "a", "text": "apple"}',
            '{"id": "b", "text": "pear"}',
            '{"source": "a", "target": "b", "type": "uses", "weight": 0.5}',
        )
        run("load rows.jsonl --space s")
        linked = run_json("context", text, "--space", "s")["fragments"][1]["chosen"]
        assert [entry["why"] for entry in linked] == [why]

    def test_every_option_reaches_the_engine(self, store: Path) -> None:
        options = "--max-tokens none --recipe profile --format yaml --model gpt-4o "
        options += "--entity user:maya --type faq --exclude-type x --tag refunds"
        more = "--limit 3 --depth 1 --mode bm25 --min-score 0.01 --as-of 2026-05-01"
        context = run_json("context", *ASK, *options.split(), *more.split(), *NOW, db=store)
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
        query = run_json("context", *ASK, db=store)["query"]
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
    def test_a_model_without_a_tokenizer_is_reported(
        self, args: tuple[str, ...], store: Path
    ) -> None:
        for form in ((), ("--json",)):
            stderr = run(*args, *form, "--model", "gpt4", db=store).stderr
            assert "no tokenizer for model 'gpt4': its tokens are estimated" in stderr
            assert "tokenizer" not in run(*args, *form, "--model", "gpt-4", db=store).stderr
            strict = run(*args, *form, "--model", "gpt4", "--strict", db=store)
            assert (strict.exit_code, "tokenizer" in strict.stderr) == (0, False)

    def test_control_characters_reach_a_file_unchanged(self) -> None:
        run("add --space s --id i", "--text", "word \x1b[31mred\x1b[0m")
        assert "\x1b[31mred\x1b[0m" in run("context word --space s").stdout

    def test_a_degraded_context_is_a_warning(self, embedded_store: Path) -> None:
        result = run("context", *ASK, db=embedded_store)
        assert result.exit_code == 0
        assert result.stderr.startswith("warning: vectors: words only")

    def test_a_budget_is_a_number_or_none(self, store: Path) -> None:
        assert run("context", *ASK, "--max-tokens", "many", db=store).exit_code == 2
        assert run("context", *ASK, "--max-tokens", "-1", db=store).exit_code == 2

    def test_an_invalid_time_is_a_usage_error(self, store: Path) -> None:
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
    def test_included_and_omitted_items_are_shown(self, embedded_store: Path) -> None:
        output = run(
            "explain", *ASK, "--max-tokens", "500", db=embedded_store, embedder="minilm"
        ).stdout
        assert re.match(
            r"tokens █+░* \d{3} of 500 \(cl100k_base\)\n"
            r"entry_points: \d+ items?, \d+ tokens · context: ",
            output,
        )
        assert re.search(
            r"process-a-refund +(whole|excerpt|summary) +\d+ +\.\d\d +words and vectors "
            r"\(bm25 \.\d\d, vector \.\d\d, walk \.\d\d\)",
            output,
        )
        assert re.search(
            r" \d+ +\.\d\d outweighed +--max-tokens \d+ \((whole|summary|pointer)\)", output
        )

    def test_a_single_item_can_be_explained(self, store: Path) -> None:
        output = run("explain", *ASK, "--item", "orders-orders", db=store).stdout
        assert "None of these items is in the text" in output
        assert re.search(r"orders-orders .*it is in space 'analytics'.* --space analytics", output)

    def test_the_context_is_the_same_as_of_context(self, store: Path) -> None:
        context, explained = (
            run_json(name, *ASK, *NOW, "--max-tokens", "300", db=store)
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
