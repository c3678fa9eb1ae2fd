"""The commands get, stats, verify, export, delete, reindex and recipes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from cli_runs import run, run_json, write_rows
from knowloom.recipes import RECIPES
from sqlite_files import execute_sql


class TestStoredItems:
    def test_get_shows_items_in_the_given_order(self, store: Path) -> None:
        output = run("get warranty-policy refund-policy --space shared", db=store).stdout
        assert 0 < output.index("warranty-policy") < output.index("refund-policy")
        assert "30 days" in output

    def test_get_warns_about_missing_items(self, store: Path) -> None:
        result = run("get refund-policy nothing --space shared", db=store)
        assert (result.exit_code, result.stderr) == (
            0,
            "warning: no item 'nothing' in space 'shared'\n",
        )
        assert run("get nothing --space shared --json", db=store).exit_code == 1
        assert run_json("get nothing --space shared", db=store) == {
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
        output = run("stats", db=store).stdout
        spaces = run_json("stats", db=store)["spaces"]
        names = [space["name"] for space in spaces]
        assert names == ["analytics", "finance", "purchasing", "shared", "support"]
        assert all(
            re.search(
                " +".join(str(entry[key]) for key in ("name", "items", "edges", "links", "digest")),
                output,
            )
            for entry in spaces
        )

    def test_an_intact_store_is_verified_with_a_tick(self, store: Path) -> None:
        result = run("verify", db=store)
        assert (result.exit_code, result.stdout) == (0, "✓ no problems found\n")
        assert run_json("verify", db=store) == {"ok": True, "problems": []}

    def test_the_problems_of_a_damaged_store_are_listed_with_status_1(self, store: Path) -> None:
        execute_sql(str(store), "UPDATE space SET items = items + 1 WHERE name = 'shared'")
        result = run("verify", db=store)
        assert (result.exit_code, result.stdout.startswith("✗ ")) == (1, True)
        assert run_json("verify", db=store)["problems"]

    def test_an_export_is_loaded_back_exactly(self, store: Path, tmp_path: Path) -> None:
        assert "edges are in all.jsonl" in run("export -o all.jsonl", db=store).stdout
        assert run("load", "all.jsonl", db=tmp_path / "copy.db").exit_code == 0
        assert run_json("stats", db=tmp_path / "copy.db") == run_json("stats", db=store)

    def test_an_export_has_the_items_before_the_edges(self, store: Path) -> None:
        lines = [
            json.loads(line) for line in run("export --space support", db=store).stdout.splitlines()
        ]
        kinds = ["target" in line for line in lines]
        assert kinds == sorted(kinds)
        assert {line["space"] for line in lines} == {"support"}

    def test_an_export_that_fails_leaves_the_old_file(self, store: Path, tmp_path: Path) -> None:
        (tmp_path / "old.jsonl").write_text("old")
        result = run("export --space nowhere -o old.jsonl", db=store)
        assert (result.exit_code, (tmp_path / "old.jsonl").read_text()) == (1, "old")
        assert not list(tmp_path.glob("*.partial"))
        assert run("export -o no/such/folder.jsonl", db=store).stderr.startswith(
            "error: cannot write"
        )

    def test_an_export_writes_to_a_device_without_replacing_it(self, store: Path) -> None:
        assert run_json("export", "-o", os.devnull, db=store)["items"] > 100
        assert not Path(os.devnull).is_file()

    def test_deleted_items_are_gone(self, store: Path) -> None:
        result = run("delete gift-card-refunds nothing --space support --yes", db=store)
        assert (result.exit_code, result.stdout, "nothing" in result.stderr) == (
            0,
            "deleted: 1\n",
            True,
        )
        assert run_json("delete gift-card-refunds --space support --yes", db=store) == {
            "deleted": 0,
            "missing": ["gift-card-refunds"],
        }

    def test_deleting_without_a_terminal_needs_yes(self, store: Path) -> None:
        result = run("delete gift-card-refunds --space support", db=store)
        assert (result.exit_code, "not a terminal: pass --yes" in result.stderr) == (2, True)
        assert run_json("get gift-card-refunds --space support", db=store)["items"]

    def test_reindex_rebuilds_keywords_and_vectors(self, tmp_path: Path) -> None:
        write_rows(tmp_path, '{"id": "a", "text": "x"}')
        run("load rows.jsonl --space s")
        assert run_json("reindex", embedder="minilm") == {"vectors": 1}
        assert run("reindex").stdout == "words rebuilt; vectors computed: 0\n"

    def test_the_passage_size_is_a_setting_and_an_option(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_rows(tmp_path, '{"id": "a", "text": "' + "refund money. " * 100 + '"}')
        monkeypatch.setenv("KNOWLOOM_PASSAGE_SIZE", "300")
        run("load rows.jsonl --space s")
        monkeypatch.setenv("KNOWLOOM_PASSAGE_SIZE", "500")
        refused = run("load rows.jsonl --space s")
        assert refused.exit_code == 1 and "of 300 characters, not of 500" in refused.stderr
        assert run("reindex").exit_code == 0
        assert run("load rows.jsonl --space s").exit_code == 0
        assert run("reindex --passage-size 600").exit_code == 0
        assert "of 600 characters, not of 500" in run("load rows.jsonl --space s").stderr
        assert "from 200 to 8,000, got 5" in run("reindex --passage-size 5").stderr

    def test_recipes_are_listed_with_their_parts(self) -> None:
        output = run("recipes").stdout
        assert all(
            name in output and all(part.name in output for part in parts)
            for name, parts in RECIPES.items()
        )
        rows = run_json("recipes", db="")["recipes"]
        assert [row["name"] for row in rows] == sorted(RECIPES)
