"""Check-in records are complete, reused and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structured_text import (
    NOW,
    TEXT,
    Serve,
    Take,
    piece,
    pieces,
    records,
    say,
)

import knowloom
from fake_llm import Say
from knowloom.errors import Conflict, Corrupt, Invalid, NotFound, Unavailable


class TestRecords:
    def test_a_record_has_everything_and_a_name_of_time_and_content(
        self, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        result = take(serve(Say("no"), say())[0], entity="user:alice", source="notes.txt")
        (folder,) = records(tmp_path)
        row = json.loads((folder / "record.json").read_text())
        assert (result.record, folder.name) == (
            folder,
            f"20260131T120000000000Z-{row['hash'][:12]}",
        )
        files = (file for file in folder.rglob("*") if file.is_file())
        assert sorted(str(file.relative_to(folder)) for file in files) == [
            "artifacts/answer-01-1.txt",
            "artifacts/answer-01-2.txt",
            "artifacts/loaded.json",
            "input.txt",
            "record.json",
            "structured.json",
        ]
        assert (folder / "input.txt").read_text() == TEXT
        assert (row["model"], row["time"], row["space"], row["entity"], row["error"]) == (
            "openai:fake@127.0.0.1",
            "2026-01-31T12:00:00Z",
            "team",
            "user:alice",
            "",
        )
        assert json.loads((folder / "artifacts" / "loaded.json").read_text())["added"] == 3

    def test_a_record_is_replayed_without_a_model(self, take: Take, serve: Serve) -> None:
        result = take(serve(say())[0], entity="user:alice")
        assert result.record is not None
        with knowloom.open("memory:", embedder=None) as other:
            assert other.replay(result.record).added == 3
            assert other.replay(result.record).unchanged == 2  # the known node is left alone
            assert other.replay(result.record, space="copy").added == 3
            assert {item.id for item in other.items(["copy"])} == {
                "user:alice",
                "technique:les",
                "warm-start",
            }

    def test_the_same_text_is_ingested_once(
        self, take: Take, serve: Serve, kb: knowloom.Engine, tmp_path: Path
    ) -> None:
        llm, server = serve(say(), say(), say())
        take(llm)
        kb.delete("warm-start", space="team")
        result = take(llm)
        assert (
            result.duplicate,
            result.report.added,
            len(server.requests),
            kb.get("warm-start", space="team"),
        ) == (True, 0, 1, [])
        assert take(llm, space="elsewhere").report.added == 3
        assert take(llm, again=True).report.added == 1
        assert len(records(tmp_path)) == 3

    def test_a_failed_text_is_sent_again(self, take: Take, serve: Serve) -> None:
        llm, _ = serve("400", say())
        with pytest.raises(Unavailable):
            take(llm)
        assert take(llm).report.added == 3

    def test_the_record_is_written_before_the_store_changes(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(say())
        arguments: dict[str, Any] = {
            "llm": llm,
            "space": "team",
            "record_dir": tmp_path / "records",
            "now": NOW,
        }
        closed = knowloom.open(str(tmp_path / "closed.db"), embedder=None)
        closed.close()
        with pytest.raises(Unavailable):
            closed.ingest(TEXT, **arguments)
        assert (records(tmp_path)[0] / "structured.json").is_file()
        with knowloom.open(str(tmp_path / "open.db"), embedder=None) as fresh:
            assert fresh.ingest(TEXT, **arguments).reused
            assert fresh.get("warm-start", space="team")
        assert len(server.requests) == 1

    def test_a_failed_or_damaged_or_missing_record_is_not_replayed(
        self, take: Take, serve: Serve, kb: knowloom.Engine, tmp_path: Path
    ) -> None:
        llm, _ = serve("400", say())
        with pytest.raises(Unavailable):
            take(llm)
        (failed,) = records(tmp_path)
        with pytest.raises(Conflict, match="status 400"):
            kb.replay(failed)
        (failed / "record.json").write_text("{")
        with pytest.raises(Corrupt, match="damaged"):
            kb.replay(failed)
        with pytest.raises(NotFound, match=r"no record\.json"):
            kb.replay(tmp_path)

    def test_ctrl_c_leaves_a_record_too(self, take: Take, tmp_path: Path) -> None:
        class Stopped:
            name = "stopped"

            def complete(self, messages: object) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            take(Stopped())
        assert (
            json.loads((records(tmp_path)[0] / "record.json").read_text())["error"]
            == "KeyboardInterrupt"
        )

    def test_an_edited_record_is_validated_again(
        self, take: Take, serve: Serve, kb: knowloom.Engine
    ) -> None:
        folder = take(serve(say())[0], dry_run=True).record
        assert folder is not None
        (folder / "structured.json").write_text(json.dumps(pieces(piece(piece_id="Bad Id"))))
        with pytest.raises(Invalid, match=r"pieces\[0\]\.piece_id"):
            kb.replay(folder)

    def test_a_folder_that_cannot_be_written_is_an_error_and_nothing_is_stored(
        self, take: Take, serve: Serve, kb: knowloom.Engine, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(Unavailable, match="cannot write a check-in record"):
            take(serve(say())[0], record_dir=tmp_path / "file" / "records")
        assert kb.maintenance.stats().spaces == ()

    @pytest.mark.parametrize(
        ("text", "options", "message"),
        [
            ("", {}, "text must not be empty"),
            (" \n", {}, "text must not be empty"),
            ("a\0b", {}, "binary"),
            ("\ud800", {}, "surrogates"),
            ("x" * 2_000_001, {}, "got 2,000,001"),
            (b"bytes", {}, "got bytes"),
            (TEXT, {"max_retries": -1}, "max_retries"),
            (TEXT, {"max_chars": 1}, "max_chars"),
            (TEXT, {"space": ""}, "space must not be empty"),
            (TEXT, {"entity": ""}, "entity must not be empty"),
            (TEXT, {"colour": 1}, "unknown option 'colour'; available: again"),
            (TEXT, {"llm": None}, "open_llm"),
            (TEXT, {"record_dir": 5}, "record_dir must be a path"),
        ],
    )
    def test_invalid_arguments_are_rejected_before_any_request(
        self,
        text: Any,
        options: dict[str, Any],
        message: str,
        take: Take,
        serve: Serve,
        tmp_path: Path,
    ) -> None:
        llm, server = serve()
        with pytest.raises(Invalid, match=message):
            take(options.pop("llm", llm), text, **options)
        assert (server.requests, (tmp_path / "records").exists()) == ([], False)
