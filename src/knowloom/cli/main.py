"""The `knowloom` command. Commands import heavy modules when they run, to keep help fast."""

from __future__ import annotations

import sys

import click

from knowloom import __version__
from knowloom.cli.commands import (
    agents,
    assemble,
    axioms,
    check_answer,
    evaluate,
    graph,
    history,
    ingest,
    knowledge,
    links,
    load,
    maintenance,
    memory,
    provide,
    query,
    serve,
    tune,
)
from knowloom.cli.session import Group
from knowloom.cli.streams import discard_output


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="knowloom")
def cli() -> None:
    """Store an organisation's knowledge and put the best of it into each prompt, within a budget.

    \b
    Start with these three:
      knowloom load examples/harbor
      knowloom context "How do I process a refund request?" --space support --space shared
      knowloom explain "How do I process a refund request?" --space support --space shared

    The knowledge is in knowledge.db, unless --db (after the command) or KNOWLOOM_STORE names
    another store. See `knowloom COMMAND --help` for examples.

    Exit status: 0 success, 1 failure or problems found, 2 usage error.
    """


COMMANDS: tuple[click.Command, ...] = (
    *(load.load, knowledge.add),
    *(query.search, query.context, query.explain),
    *(knowledge.get, knowledge.read, knowledge.export, knowledge.delete),
    *(maintenance.stats, maintenance.verify),
    *(maintenance.embed, maintenance.reindex, maintenance.models, query.recipes),
    *(assemble.assemble, check_answer.check_answer, agents.agents, graph.graph),
    *(axioms.axioms, axioms.check, ingest.ingest, ingest.replay),
    *(history.history, history.restore, history.rollback, links.links, provide.provide),
    *(memory.remember, memory.recall, evaluate.evaluate, tune.tune, serve.serve, serve.keys),
)
for command in COMMANDS:
    cli.add_command(command)


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
