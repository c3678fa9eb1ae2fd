"""The `knowloom` command. Commands import heavy modules when they run, to keep help fast."""

from __future__ import annotations

import sys

import click

from knowloom import __version__
from knowloom.cli.commands import memory
from knowloom.cli.commands.contexts import (
    agents,
    ask,
    assemble,
    check_answer,
    diff,
    graph,
    provide,
    query,
)
from knowloom.cli.commands.evaluation import evaluate, tune
from knowloom.cli.commands.knowledge import axioms, history, ingest, items, links, load
from knowloom.cli.commands.operations import (
    copy,
    maintenance,
    mcp,
    repair,
    serve,
    settings,
    upkeep,
    web_console,
)
from knowloom.cli.program import SectionedGroup
from knowloom.cli.streams import discard_output


@click.group(
    cls=SectionedGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="knowloom")
def cli() -> None:
    """Store an organisation's knowledge and put the best of it into each prompt, within a budget.

    \b
    Start with these three, for any folder of documents:
      knowloom load examples/docs
      knowloom context "How is a return graded?"
      knowloom search "send a label"

    The knowledge is in knowledge.db in the current folder, unless --db or KNOWLOOM_STORE names
    another store; `knowloom config` shows the settings. See `knowloom COMMAND --help` for examples.

    Exit status: 0 success, 1 failure or problems found, 2 usage error.
    """


SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Knowledge": (
        *(load.load, items.add, items.get, items.read, items.export, items.delete, links.links),
        *(ingest.ingest, ingest.replay, axioms.axioms, axioms.check),
        *(history.history, history.restore, history.rollback),
    ),
    "Contexts": (
        *(query.search, query.context, query.explain, ask.ask, provide.provide, assemble.assemble),
        *(graph.graph, check_answer.check_answer, diff.diff, agents.agents, query.recipes),
    ),
    "Memory": (memory.remember, memory.recall),
    "Evaluation": (evaluate.evaluate, tune.tune),
    "Operations": (
        *(settings.init, settings.show_config, settings.completion),
        *(maintenance.stats, maintenance.verify, maintenance.embed, maintenance.reindex),
        *(upkeep.backup, copy.copy, repair.repair, upkeep.purge, upkeep.retention, upkeep.audit),
        *(maintenance.models, mcp.mcp, serve.serve, web_console.console, serve.keys),
    ),
}
for title, commands in SECTIONS.items():
    cli.add_section(title, commands)


def main() -> None:
    """Run the program with UTF-8 output and LF line endings on every platform."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        cli(prog_name="knowloom")
    except OSError as error:  # help that cannot be written; commands handle their own errors
        discard_output()
        click.echo(f"error: {error.strerror or error}", err=True)
        sys.exit(1)
