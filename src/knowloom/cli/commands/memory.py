"""The commands `knowloom remember` and `knowloom recall`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from knowloom.cli.options import (
    DEFAULT_SPACE_HELP,
    as_of_option,
    examples,
    min_confidence_option,
    mode_option,
    model_option,
    now_option,
    parse_property,
    parse_time,
    query_argument,
    repeated,
    two_names,
    where_option,
)
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_stdin

if TYPE_CHECKING:
    from knowloom.capabilities.memory.options import MemoryContextArguments

RANKERS = ("default", "similarity", "recency", "confidence")

workspace_option = two_names(
    "--space",
    "--workspace",
    "workspace",
    "S",
    f"Space of the memories, their workspace. {DEFAULT_SPACE_HELP}",
    str,
)


class RememberArguments(TypedDict, total=False):
    """The fields of a memory that `knowloom remember` passes on unchanged."""

    conversation: str
    type: str
    speaker: str
    confidence: float
    pinned: bool
    expires_at: datetime
    valid_from: datetime
    created_at: datetime
    supersedes: Sequence[str]
    id: str


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom remember --workspace maya --conversation c1 "Ada moved to Hamburg"',
        "knowloom remember --workspace maya --type preference --pinned "
        '"Ada is called Ada, not Augusta"',
    ),
)
@click.argument("content")
@workspace_option
@click.option("--conversation", metavar="C", help="Conversation the memory is from.")
@click.option("--type", metavar="T", help="Any word to filter by, such as fact or decision.")
@click.option(
    "--speaker",
    metavar="NAME",
    help="Speaker; the name is searchable, and shown with the time.",
)
@click.option(
    "--confidence", type=float, metavar="X", help="Confidence, from 0 to 1. Default: 0.5."
)
@repeated(
    "--metadata",
    "metadata",
    "NAME=VALUE",
    "Metadata; the value is JSON if it can be decoded, text otherwise.",
    type=parse_property,
)
@click.option("--pinned", is_flag=True, help="Put it at the start of every context.")
@click.option(
    "--expires-at", type=parse_time, metavar="TIME", help="Time after which it is not found."
)
@click.option(
    "--valid-from", type=parse_time, metavar="TIME", help="Time before which it is not found."
)
@click.option(
    "--at", "created_at", type=parse_time, metavar="TIME", help="Time it was said. Default: now."
)
@repeated("--supersedes", "supersedes", "ID", "Memory that it replaces.")
@click.option("--id", metavar="ID", help="Default: derived from the content.")
@click.pass_obj
def remember(
    session: Session,
    /,
    content: str,
    workspace: str | None = None,
    metadata: Sequence[tuple[str, Any]] = (),
    **fields: Unpack[RememberArguments],
) -> None:
    """Store a memory; - reads it from standard input."""
    from knowloom.capabilities.memory.memory import Memory
    from knowloom.wire.memory import memory_to_json

    content = read_stdin().strip() if content == "-" else content
    with session.open(create=True) as kb:
        memory = Memory(kb, workspace).remember(content, metadata=dict(metadata), **fields)
    session.warn(*session.warnings.messages)
    line = f"remembered: {memory.id} in {memory.workspace}"
    session.output(memory_to_json(memory), lambda _: [line])


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom recall "refunds of Maya" --workspace support',
        "knowloom recall refund --workspace support --template detailed --token-budget 500",
    ),
)
@query_argument
@workspace_option
@click.option("--conversation", "conversation_id", metavar="C", help="Only this conversation.")
@repeated("--type", "memory_types", "T", "Only memories of this type.")
@where_option
@click.option(
    "--from", "date_from", type=parse_time, metavar="TIME", help="Only at or after this time."
)
@click.option(
    "--to", "date_to", type=parse_time, metavar="TIME", help="Only at or before this time."
)
@min_confidence_option
@click.option(
    "--limit", type=int, metavar="N", help="Maximum number of search results. Default: 10."
)
@click.option(
    "--depth", type=int, metavar="N", help="Maximum number of relationships to follow. Default: 0."
)
@click.option(
    "--template",
    metavar="NAME",
    help="chat, detailed, summary, bullets, timeline or xml. Default: chat.",
)
@two_names(
    "--max-tokens", "--token-budget", "token_budget", "N", "Token budget. Default: 2000.", int
)
@click.option(
    "--ranker",
    type=click.Choice(RANKERS),
    help="What to rank by. Default: similarity, recency and confidence together.",
)
@mode_option("hybrid", "bm25", "vector")
@model_option
@as_of_option
@now_option
@click.pass_obj
def recall(
    session: Session,
    /,
    query: str,
    workspace: str | None = None,
    depth: int | None = None,
    **options: Unpack[MemoryContextArguments],
) -> None:
    """Print the best memories for a request, within a budget.

    Standard output has the text only, or with --json everything that it is made of.
    """
    from knowloom.capabilities.memory.memory import Memory
    from knowloom.wire.memory import memory_preview_to_json

    arguments = session.with_defaults(options, "model")
    if depth is not None:
        arguments |= {"include_relationships": depth > 0, "relationship_depth": depth}
    analytics = session.analytics()
    with (
        session.open(needs_embedder=options.get("mode") != "bm25") as kb,
        closing(analytics) if analytics is not None else nullcontext(),
    ):
        space = kb.reader.resolve_space(workspace)
        preview = Memory(kb, space, analytics=analytics).preview(query, **arguments)
    session.warn(*session.warnings.messages)
    session.warn_degraded(preview.degraded)
    if session.as_json:
        session.write_json(memory_preview_to_json(preview))
    else:
        session.write_text(preview.context)
