"""The command `knowloom assemble`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from knowloom.cli.session import Command, Session, bounded, budget, model, tier, time
from knowloom.cli.streams import stdin
from knowloom.errors import Invalid, NotFound, Unavailable
from knowloom.wire import assembly

EXAMPLES = """\b
Examples:
  knowloom assemble "How do I process a refund?" --space support --document examples/docs/returns.md
  knowloom assemble "shorten this" --document examples/docs/returns.md --select 0:120 --strategy document --strategy selection --max-tokens 2000"""


def _selection(text: str) -> tuple[int, int]:
    start, colon, end = text.partition(":")
    if not (colon and start.isdecimal() and end.isdecimal()):
        raise click.BadParameter(f"{text!r} is not of the form START:END, in characters")
    return int(start), int(end)


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("query")
@click.option(
    "--space",
    "spaces",
    multiple=True,
    metavar="S",
    help="A space to look in; may be given several times.",
)
@click.option(
    "--document", metavar="FILE", help="The document at hand, as text; - reads standard input."
)
@click.option(
    "--select",
    "selection",
    type=_selection,
    metavar="START:END",
    help="What is selected in it, in characters.",
)
@click.option(
    "--strategy",
    "only",
    multiple=True,
    metavar="NAME",
    help="Only document, selection, retrieval, knowledge or memory; may be given several times.",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="NAME",
    help="A strategy that is never left out; may be given several times.",
)
@click.option("--agent", metavar="NAME", help="The agent that asks: see knowloom agents.")
@tier
@click.option("--entity", metavar="ID", help="The entity the agent works for, such as user:maya.")
@click.option(
    "--max-tokens",
    type=budget,
    default="8000",
    metavar="N|none",
    help="The budget; none for no limit. Default: 8000.",
)
@click.option(
    "--format",
    metavar="NAME",
    help="json, markdown, plain or yaml. Default: the setting, else markdown.",
)
@model
@click.option("--as-of", type=time, metavar="TIME", help="As it was known and valid at that time.")
@click.option(
    "--now",
    type=time,
    metavar="TIME",
    help="The time of the request, for answers that can be repeated byte by byte.",
)
@click.pass_obj
def assemble(
    session: Session,
    /,
    query: str,
    document: str | None,
    only: Sequence[str],
    required: Sequence[str],
    **asked: Any,
) -> None:
    """Print one text of all that an agent should see.

    Document, selection, retrieval, knowledge and memory are asked side by side and fitted under one budget. What became of each is told on
    standard error, and with --json in the answer.
    """
    from knowloom.capabilities.assembler.model import AssemblyRequest
    from knowloom.capabilities.assembler.strategies import known_agent, usual

    settings = session.settings()
    given: dict[str, Any] = {"format": settings.format, "model": settings.model}
    given |= {name: value for name, value in asked.items() if value is not None} | {
        "spaces": tuple(asked["spaces"])
    }
    given["max_tokens"] = None if given["max_tokens"] == "none" else given["max_tokens"]
    text = None if document is None else read_text(document)
    with session.open() as kb:
        known_agent(kb.agents, asked["agent"])
        found = usual(kb, {name: {"required": True} for name in required}, only).assemble(
            AssemblyRequest(query, document=text, **given)
        )
    session.warn(*(f"{one.part}: {one.reason}" for one in found.degraded), *bounded(given))
    if session.as_json:
        session.write(assembly.row(found))
        return
    session.write_text(found.text)
    if sys.stderr.isatty():
        for one in found.strategies:
            session.say(
                f"{one.name}: {one.status}, {one.used} of {one.given} pieces, {one.got:,} of {one.asked:,} tokens",
                "cyan",
            )


def read_text(name: str) -> str:
    if name == "-":
        return stdin()
    try:
        return Path(name).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name!r} is not a UTF-8 text: {error}") from None
    except (FileNotFoundError, ValueError):
        raise NotFound(f"no file {name!r}", "no_file") from None
    except OSError as error:
        raise Unavailable(f"{name!r} cannot be read: {error.strerror}") from error


COMMANDS: tuple[click.Command, ...] = (assemble,)
