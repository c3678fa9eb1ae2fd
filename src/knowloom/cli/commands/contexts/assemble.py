"""The command `knowloom assemble`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

import click

from knowloom.cli.options import (
    as_of_option,
    examples,
    format_option,
    max_tokens_option,
    model_option,
    now_option,
    parse_selection,
    query_argument,
    repeated,
    tier_option,
    where_option,
)
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_document

STRATEGIES = "document, selection, retrieval, knowledge, memory"
MAX_TOKENS = 8000


class AssembleArguments(TypedDict, total=False):
    """The fields of an `AssemblyRequest` that are passed on unchanged."""

    spaces: tuple[str, ...]
    selection: tuple[int, int]
    agent: str
    tier: str
    entity: str
    max_tokens: int | None
    format: str
    model: str
    strict: bool
    where: Sequence[Mapping[str, Any]]
    as_of: datetime
    now: datetime


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom assemble "How do I process a refund?" --space support '
        "--document examples/docs/returns.md",
        'knowloom assemble "shorten this" --document examples/docs/returns.md --select 0:120 '
        "--strategy document --strategy selection --max-tokens 2000",
    ),
)
@query_argument
@repeated(
    "--space",
    "spaces",
    "S",
    "Space to search. Default: without --document, the only one, or default.",
)
@click.option("--document", metavar="FILE", help="Current document; - reads standard input.")
@click.option(
    "--select",
    "selection",
    type=parse_selection,
    metavar="START:END",
    help="Selection in the document, in characters.",
)
@repeated("--strategy", "only", "NAME", f"Only this strategy: {STRATEGIES}.")
@repeated("--require", "required", "NAME", "Strategy that must not be left out.")
@click.option("--agent", metavar="NAME", help="Agent that asks; see knowloom agents.")
@tier_option
@click.option("--entity", metavar="ID", help="Entity the agent works for, such as user:maya.")
@max_tokens_option(f"{MAX_TOKENS}")
@format_option
@model_option
@where_option
@as_of_option
@now_option
@click.pass_obj
def assemble(
    session: Session,
    /,
    query: str,
    document: str | None = None,
    only: Sequence[str] = (),
    required: Sequence[str] = (),
    **options: Unpack[AssembleArguments],
) -> None:
    """Print one text with everything that an agent should see.

    Document, selection, retrieval, knowledge and memory run in parallel and share one budget.
    Standard error, or the JSON, reports the outcome of each.
    """
    from knowloom.capabilities.assembler.model import AssemblyRequest
    from knowloom.capabilities.assembler.strategies import build_assembler, validate_agent
    from knowloom.wire.assembly import assembly_to_json

    arguments = session.with_defaults({"max_tokens": MAX_TOKENS, **options}, "format", "model")
    text = None if document is None else read_document(document)
    with session.open() as kb:
        if text is None and "spaces" not in arguments:
            arguments["spaces"] = (kb.reader.resolve_space(None),)
        validate_agent(kb.agents, options.get("agent"))
        assembler = build_assembler(kb, {name: {"required": True} for name in required}, only)
        assembly = assembler.assemble(AssemblyRequest(query, document=text, **arguments))
    session.warn_degraded(assembly.degraded)
    if session.as_json:
        session.write_json(assembly_to_json(assembly))
        return
    session.write_text(assembly.text)
    if sys.stderr.isatty():
        for report in assembly.strategies:
            session.info(
                f"{report.name}: {report.status}, "
                f"{report.used_pieces} of {report.offered_pieces} pieces, "
                f"{report.used_tokens:,} of {report.offered_tokens:,} tokens"
            )
