"""The program in a separate process: streams, terminals, imports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_runs import ASK, NOW, imported_packages, run_json, run_on_terminal, run_program
from paths import ROOT


class TestProgram:
    """Run the program in a separate process."""

    def test_the_same_request_gives_the_same_bytes_in_every_process(
        self, embedded_store: Path
    ) -> None:
        args = (
            "context",
            *ASK,
            *NOW,
            "--max-tokens",
            "500",
            "--json",
            "--db",
            str(embedded_store),
            "--embedder",
            "minilm",
        )
        first, second = (run_program(*args, PYTHONHASHSEED=seed) for seed in ("1", "2"))
        assert first[0] == 0
        assert first[1] == second[1]

    def test_help_and_version_import_no_heavy_packages(self) -> None:
        for args in (["--help"], ["--version"]):
            assert not imported_packages(*args) & {
                "rich",
                "onnxruntime",
                "tokenizers",
                "apsw",
                "httpx",
            }

    def test_context_as_json_does_not_import_rich(self, keyword_store: Path) -> None:
        assert "rich" not in imported_packages(
            "context", *ASK, "--json", "--db", str(keyword_store)
        )

    def test_a_closed_pipe_is_silent(self, keyword_store: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        export = [sys.executable, "-m", "knowloom", "export", "--db", str(keyword_store)]
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
    def test_a_full_disk_is_one_error_line_and_status_1(
        self, args: tuple[str, ...], keyword_store: Path
    ) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "KNOWLOOM_EMBEDDER": "none",
            "KNOWLOOM_STORE": str(keyword_store),
        }
        with open("/dev/full", "w") as full:
            completed = subprocess.run(
                [sys.executable, "-m", "knowloom", *args],
                env=environment,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
        assert (
            completed.returncode,
            re.sub("cannot write to standard output: ", "", completed.stderr),
        ) == (1, "error: No space left on device\n")

    def test_a_terminal_shows_the_tokens_while_the_file_gets_the_text(
        self, keyword_store: Path, tmp_path: Path
    ) -> None:
        output, status = run_on_terminal(
            "context",
            *ASK,
            "--max-tokens",
            "300",
            "--db",
            str(keyword_store),
            stdout=tmp_path / "prompt.md",
        )
        assert status == 0
        assert re.search(r"tokens .*█.* of 300 .*cl100k_base", output)
        assert (tmp_path / "prompt.md").read_text("utf-8").startswith("## Entry points\n")
        assert "█" not in (tmp_path / "prompt.md").read_text("utf-8")

    def test_delete_asks_for_confirmation_on_a_terminal(self, store: Path) -> None:
        output, status = run_on_terminal(
            "delete", "gift-card-refunds", "--space", "support", "--db", str(store), typed=b"n\n"
        )
        assert (
            "Delete gift-card-refunds from support" in output
            and "error: nothing was deleted" in output
        )
        assert status == 1
        assert run_json("get gift-card-refunds --space support", db=store)["items"]

    @pytest.mark.parametrize(
        "quiet", [{"args": ("--no-color",)}, {"NO_COLOR": "1"}], ids=["option", "environment"]
    )
    def test_colours_can_be_turned_off(self, quiet: dict[str, Any], keyword_store: Path) -> None:
        args, environ = (
            quiet.get("args", ()),
            {name: value for name, value in quiet.items() if name != "args"},
        )
        output, status = run_on_terminal(
            "get", "nothing", "--space", "support", "--db", str(keyword_store), *args, **environ
        )
        assert (status, "\x1b[31m" in output, "error: no item" in output) == (1, False, True)
