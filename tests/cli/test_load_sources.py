"""`knowloom load`: standard input, kinds of files, links and watched folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from loads import write_files
from rich.console import Console

from cli_runs import run, run_json
from knowloom.cli.commands.knowledge.load import Interruption
from knowloom.cli.console import show_progress
from knowloom.loading.readers import supported_suffixes
from knowloom.loading.sources.folder_watch import take_snapshot, watch_changes


class TestStandardInput:
    def test_text_is_loaded_under_a_name(self) -> None:
        report = run_json(
            "load - --space s --name notes.md --no-vectors", stdin="# Notes\nHello.\n"
        )
        assert report["added"] == 1
        (item,) = run_json("get notes --space s")["items"]
        assert (item["title"], item["text"]) == ("Notes", "Hello.")
        again = run_json("load - --space s --name notes.md --no-vectors", stdin="# Notes\nBye.\n")
        assert (again["updated"], again["added"]) == (1, 0)

    def test_rows_are_recognised(self) -> None:
        rows = '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n'
        assert run_json("load - --space s --no-vectors", stdin=rows)["added"] == 2

    def test_an_unknown_kind_is_refused(self) -> None:
        result = run("load - --space s --name picture.png --no-vectors", stdin="x")
        assert result.exit_code == 1
        assert "unsupported suffix: .png" in result.output


class TestWebPages:
    @pytest.fixture
    def url(self, tmp_path: Path) -> Iterator[str]:
        write_files(tmp_path / "site", index_html="<main><p>Cranes lift forty tons.</p></main>")
        handler = partial(QuietHandler, directory=str(tmp_path / "site"))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/"
            server.shutdown()

    def test_an_address_needs_no_path(self, url: str) -> None:
        assert run_json(f"load --web {url} --max-pages 1 --no-vectors")["added"] == 1
        assert "forty tons" in run("context cranes --max-tokens 100").stdout

    def test_a_load_of_nothing_is_a_usage_error(self) -> None:
        result = run("load")
        assert result.exit_code == 2
        assert "Missing argument 'PATH...'" in result.stderr


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        return


class TestFolders:
    def test_the_report_counts_files_by_kind(self, tmp_path: Path) -> None:
        folder = write_files(tmp_path / "docs", a_md="# A\nx\n", b_txt="y\n", c_yaml="k: 1\n")
        report = run_json(f"load {folder} --no-vectors")
        assert report["files"] == [
            {"kind": kind, "files": 1, "items": 1, "skipped": 0}
            for kind in ("Markdown", "settings", "text")
        ]
        assert "Markdown" in run(f"load {folder} --no-vectors").output

    def test_links_out_of_the_folder_need_an_option(self, tmp_path: Path) -> None:
        folder = write_files(tmp_path / "docs", a_md="a\n")
        os.symlink(write_files(tmp_path / "out", b_md="b\n"), folder / "out")
        assert run_json(f"load {folder} --no-vectors")["added"] == 1
        assert run_json(f"load {folder} --no-vectors --follow-links")["added"] == 1


class TestWatching:
    def test_changes_are_noticed_once_files_are_at_rest(self, tmp_path: Path) -> None:
        folder = write_files(tmp_path, a_md="a")
        steps = iter(
            [
                lambda: None,
                lambda: write_files(folder, b_md="b"),
                lambda: write_files(folder, b_md="b, longer"),
                lambda: None,
                lambda: (folder / "a.md").unlink(),
                lambda: None,
                lambda: write_files(folder, ignored_png="x"),
            ]
        )

        def sleep(seconds: float) -> None:
            next(steps)()

        suffixes = supported_suffixes()
        changes = watch_changes([folder], suffixes, take_snapshot([folder], suffixes), sleep)
        next(changes)
        assert len(list(steps)) == 3
        with pytest.raises(RuntimeError):
            next(changes)  # no step is left

    def test_a_snapshot_of_a_file_that_vanished_is_empty(self, tmp_path: Path) -> None:
        assert take_snapshot([tmp_path / "gone.md"], (".md",)) == {}

    def test_a_folder_is_kept_in_step_until_interrupted(self, tmp_path: Path) -> None:
        folder = write_files(tmp_path / "docs", a_md="first\n")
        db = tmp_path / "k.db"
        command = [sys.executable, "-m", "knowloom", "load", str(folder), "--no-vectors", "--watch"]
        process = subprocess.Popen(
            [*command, "--db", str(db)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        lines: list[str] = []
        timer = threading.Timer(120, process.kill)
        timer.start()
        try:
            lines.append(process.stderr.readline())
            write_files(folder, b_md="second\n")
            lines.append(process.stderr.readline())
        finally:
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=120)
            timer.cancel()
        assert "watching" in lines[0]
        assert "1 added, 1 unchanged" in lines[1]
        assert (process.returncode, "Traceback" in rest) == (0, False)

    def test_an_interruption_waits_for_the_next_sleep_and_a_second_does_not(self) -> None:
        reached = []
        before = signal.getsignal(signal.SIGINT)
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
            reached.append("work is finished")
            interruption.sleep(60)
            reached.append("slept")
        with Interruption():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("went on")
        assert reached == ["work is finished"] and signal.getsignal(signal.SIGINT) == before


def test_progress_without_a_total_shows_none() -> None:
    out = StringIO()
    with show_progress(Console(file=out, force_terminal=True, width=100)) as update:
        update("items", 2_000, 0)
    assert "2000/?" in out.getvalue()
