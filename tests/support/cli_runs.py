"""Runs of the command line: in this process, in a separate one, and on a terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowloom.cli.main import cli
from paths import ROOT

ASK = ("How do I process a refund request?", "--space", "support", "--space", "shared")
NOW = ("--now", "2026-06-01T12:00:00Z")


def run(
    command: str,
    *args: str,
    db: Path | str = "knowledge.db",
    embedder: str = "none",
    stdin: Any = None,
    **settings: str,
) -> Result:
    """Run a command, split as by a shell, with further arguments as they are, and settings."""
    result = CliRunner().invoke(
        cli,
        [*shlex.split(command), *args],
        prog_name="knowloom",
        input=stdin,
        env={"KNOWLOOM_STORE": str(db), "KNOWLOOM_EMBEDDER": embedder} | settings,
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(
    command: str,
    *args: str,
    db: Path | str = "knowledge.db",
    embedder: str = "none",
    stdin: Any = None,
    **settings: str,
) -> Any:
    result = run(command, *args, "--json", db=db, embedder=embedder, stdin=stdin, **settings)
    return json.loads(result.stdout)


def run_program(*args: str, **environ: str) -> list[Any]:
    """Run the program; return its exit status, standard output and standard error."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KNOWLOOM_EMBEDDER": "none",
        **environ,
    }
    completed = subprocess.run(
        [sys.executable, "-m", "knowloom", *args], env=environment, capture_output=True, timeout=60
    )
    return [completed.returncode, completed.stdout, completed.stderr.decode()]


def run_on_terminal(
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
    target = theirs if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT)
    os.write(ours, typed)
    process = subprocess.Popen(
        [sys.executable, "-m", "knowloom", *args],
        env=environment,
        stdin=theirs,
        stdout=target,
        stderr=theirs,
    )
    os.close(theirs)
    if stdout is not None:
        os.close(target)
    output = read_terminal(ours)
    return output, process.wait(timeout=60)


def read_terminal(terminal: int) -> str:
    data = b""
    try:
        while chunk := os.read(terminal, 4096):
            data += chunk
    except OSError:  # raised on Linux when the other side is closed
        pass
    os.close(terminal)
    return data.decode()


def imported_packages(*args: str) -> set[str]:
    """Return the packages that a run of the program imports."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
    completed = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "knowloom", *args],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    return set(re.findall(r"\| +(\w+)", completed.stderr))


def create_store(file: Path, embedder: str) -> Path:
    result = run("load", str(ROOT / "examples" / "harbor"), db=file, embedder=embedder)
    assert result.exit_code == 0, result.output
    return file


def write_rows(folder: Path, *lines: str) -> None:
    (folder / "rows.jsonl").write_text("\n".join(lines))
