"""Help and documentation: complete, and with examples that run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli_runs import run
from knowloom.cli.main import cli
from knowloom.formats.layout import FORMATS
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
    "knowloom console",
    "knowloom serve",
    "knowloom keys revoke 1a2b3c4d",
    "knowloom keys rotate 1a2b3c4d --overlap 7",
    "knowloom ask",
    "knowloom ingest",
    "knowloom replay",
    "knowloom models build",
    "knowloom mcp run",  # tests/mcp
    "knowloom copy knowledge.db postgresql:",  # tests/operations
)  # they need a server, an existing key or an LLM


NEEDED = {  # commands that write the files of an example
    "knowloom restore --from knowledge.backup --db restored.db": ("backup --to knowledge.backup",),
    "knowloom diff before.json after.json": (
        "context refund --space support --json > before.json",
        "context refunds --space support --json > after.json",
    ),
}


def examples(text: str, indent: int) -> list[str]:
    return re.findall(rf"^ {{{indent}}}(knowloom .+)$", text, re.M)


HELP_EXAMPLES = [
    line for command in COMMANDS.values() for line in examples(command.epilog or "", 2)
]


DOCS_EXAMPLES = [
    line for block in re.findall(r"```sh\n(.*?)```", DOCS, re.S) for line in examples(block, 0)
]


class TestHelp:
    def test_help_lists_every_command_and_three_examples(self) -> None:
        output = run("--help").stdout
        assert len(examples(output, 4)) == 3
        assert all(re.search(rf"^  {name} +\S", output, re.M) for name in cli.commands)

    def test_help_lists_every_command_once_under_a_heading(self) -> None:
        listing = run("--help").stdout.partition("  -h, --help")[2]
        headings = re.findall(r"^(\w+):$", listing, re.M)
        assert headings == ["Knowledge", "Contexts", "Memory", "Evaluation", "Operations"]
        names = re.findall(r"^  ([a-z][\w-]*) ", listing, re.M)
        assert sorted(names) == sorted(cli.commands)

    def test_the_first_commands_work_one_after_the_other(self) -> None:
        lines = examples(run("--help").stdout, 4)
        for line in lines:
            result = run(*shlex.split(line)[1:])
            assert result.exit_code == 0, result.output
        assert lines[0] == "knowloom load examples/docs"
        assert "Send a label" in result.stdout

    def test_no_summary_of_a_command_is_cut(self) -> None:
        assert "..." not in run("--help").stdout.partition("Knowledge:")[2]

    @pytest.mark.parametrize(
        "line", ["--db {0} stats", "stats --db {0}", "--db other.db stats --db {0}"]
    )
    def test_shared_options_work_before_and_after_the_command(
        self, line: str, keyword_store: Path
    ) -> None:
        assert "support" in run(line.format(keyword_store)).stdout

    def test_shared_options_work_inside_a_group_of_commands(self, keyword_store: Path) -> None:
        result = run(f"--json links --db {keyword_store} list --space support")
        assert json.loads(result.stdout)["links"]

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
        source = request.getfixturevalue("embedded_store" if needs_embedder else "keyword_store")
        file = shutil.copy(source, tmp_path / "knowledge.db")
        for needed in NEEDED.get(line, ()):
            command, _, output = needed.partition(" > ")
            result = run(command, db=file)
            assert result.exit_code == 0, result.output
            if output:
                Path(output).write_text(result.stdout)
        _, *args = shlex.split(line.partition(" > ")[0])
        result = run(*args, db=file, embedder="minilm" if needs_embedder else "none")
        assert result.exit_code == 0, result.output
        assert result.stdout

    @pytest.mark.parametrize("name", COMMANDS)
    def test_the_docs_describe_every_command_and_option(self, name: str) -> None:
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

    def test_the_version_is_that_of_the_package(self) -> None:
        import knowloom

        assert run("--version").stdout == f"knowloom {knowloom.__version__}\n"

    def test_the_demo_runs_from_any_folder(self, tmp_path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)}
        completed = subprocess.run(
            [sys.executable, ROOT / "examples" / "demo.py"],
            env=environment,
            capture_output=True,
            timeout=60,
        )
        assert (completed.returncode, completed.stderr) == (0, b"")
        output = completed.stdout.decode()
        assert output.count("of 600 (cl100k_base)") == 2
        sources = ("[1] shipping.md, lines 8-28", "[1] tools/refund_limits.py, lines 1-19")
        assert all(source in output for source in sources)  # of ordinary documents
