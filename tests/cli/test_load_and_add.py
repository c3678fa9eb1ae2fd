"""The commands load, embed and add."""

from __future__ import annotations

import io
import re
from pathlib import Path

from cli_runs import run, run_json, write_rows


class TestLoading:
    def test_a_folder_is_loaded_and_counted(self, tmp_path: Path) -> None:
        result = run("load", "examples/harbor", db=tmp_path / "new.db")
        assert result.exit_code == 0
        assert re.search(
            r"added +updated +unchanged +removed +edges +skipped\s+[1-9]\d* +0 +0 +0 +[1-9]\d* +0",
            result.stdout,
        )

    def test_loading_again_changes_nothing(self, store: Path) -> None:
        report = run_json("load", "examples/harbor", db=store)
        assert (report["added"], report["updated"], report["edges"]) == (0, 0, 0)
        assert report["unchanged"] > 100

    def test_files_may_link_to_files_that_come_later(self, tmp_path: Path) -> None:
        (tmp_path / "first.jsonl").write_text(
            '{"id": "a", "text": "x"}\n{"source": "a", "target": "b"}\n'
        )
        (tmp_path / "second.jsonl").write_text('{"id": "b", "text": "y"}\n')
        report = run_json("load first.jsonl second.jsonl --space s", db=tmp_path / "new.db")
        assert (report["added"], report["edges"], report["skipped"]) == (2, 1, [])

    def test_a_bad_row_is_listed_and_the_rest_is_stored(self, tmp_path: Path) -> None:
        write_rows(tmp_path, '{"id": "good", "text": "x"}', '{"id": "bad"}')
        result = run("load rows.jsonl --space s")
        assert result.exit_code == 0
        assert "rows.jsonl:2" in result.stdout
        assert "is empty" in result.stdout
        assert "warning: 1 rows were skipped" in result.stderr

    def test_at_most_twenty_bad_rows_are_shown(self, tmp_path: Path) -> None:
        write_rows(tmp_path, '{"id": "good", "text": "x"}', *["nonsense"] * 25)
        assert "+5 more" in run("load rows.jsonl --space s").stdout
        assert len(run_json("load rows.jsonl --space s")["skipped"]) == 25

    def test_files_that_were_skipped_for_the_same_reason_are_one_row(self, tmp_path: Path) -> None:
        folder = tmp_path / "notes"
        folder.mkdir()
        (folder / "a.md").write_text("# A\n\nText.")
        for number in range(9):
            (folder / f"{number}.txt").write_text(" ")
        output = run("load notes").stdout
        assert "0.txt" in output
        assert "and 8 more files" in output
        assert "1.txt" not in output
        assert len(run_json("load notes")["skipped"]) == 9

    def test_the_exit_status_is_1_when_nothing_could_be_stored(self, tmp_path: Path) -> None:
        write_rows(tmp_path, "nonsense")
        result = run("load rows.jsonl --space s")
        assert (result.exit_code, result.stderr) == (1, "error: nothing was stored\n")

    def test_a_path_that_does_not_exist_is_a_usage_error(self) -> None:
        assert run("load", "nowhere").exit_code == 2

    def test_items_can_be_embedded_later(self, tmp_path: Path) -> None:
        write_rows(tmp_path, '{"id": "a", "text": "x"}', '{"id": "b", "text": "y"}')
        run("load rows.jsonl --space s --no-vectors", embedder="minilm")
        assert run_json("embed", embedder="minilm") == {"vectors": 2}
        assert "vectors computed: 0" in run("embed", embedder="minilm").stdout

    def test_embedding_without_an_embedder_is_a_usage_error(self, store: Path) -> None:
        result = run("embed", db=store)
        assert result.exit_code == 2
        assert "--embedder" in result.stderr


class TestAdding:
    def test_every_option_is_stored_in_the_item(self) -> None:
        words = "--kind claim --type fact --title T --summary S --tag a --tag b "
        words += "--section skills --subject x --confidence 0.5 --source me"
        run(
            "add --space s --id i --text body --property n=12 --property 'w=two words'",
            *words.split(),
        )
        (item,) = run_json("get i --space s")["items"]
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
        result = run("add --space s --id i --text -", stdin="from a pipe: é")
        assert result.stdout == "added: i in s\n"
        assert "from a pipe: é" in run("get i --space s").stdout

    def test_adding_an_id_again_replaces_the_item(self) -> None:
        run("add --space s --id i --text one")
        assert run("add --space s --id i --text two").stdout == "updated: i in s\n"
        assert run_json("add --space s --id i --text two")["unchanged"] == 1

    def test_an_unknown_kind_lists_the_available_ones(self) -> None:
        result = run("add --space s --id i --text x --kind thing")
        assert result.exit_code == 1
        assert "claim, entity, memory, node, profile, rule" in result.stderr

    def test_a_property_without_a_value_is_a_usage_error(self) -> None:
        assert run("add --space s --id i --text x --property n").exit_code == 2

    def test_text_that_is_not_utf_8_is_rejected(self) -> None:
        result = run("add --space s --id i --text -", stdin=b"\xff\xfe")
        assert (result.exit_code, "not UTF-8" in result.stderr) == (1, True)

    def test_ctrl_c_ends_quietly_with_130(self) -> None:
        result = run("add --space s --id i --text -", stdin=InterruptedInput())
        assert (result.exit_code, result.output) == (130, "")


class InterruptedInput(io.BytesIO):
    """Standard input that raises KeyboardInterrupt on the first read."""

    def read(self, size: int | None = -1) -> bytes:
        if size:
            raise KeyboardInterrupt
        return b""
