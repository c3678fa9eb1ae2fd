"""The commands of memory: `knowloom remember` and `knowloom recall`; and memory's answers as plain dicts, for every surface."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from knowloom import codec
from knowloom.cli.session import Command, Session, bounded, json_or_text, model, time
from knowloom.cli.streams import stdin
from knowloom.wire import encoding

if TYPE_CHECKING:
    from datetime import datetime

    from knowloom.capabilities.memory.analytics import Summary
    from knowloom.capabilities.memory.model import (
        ContextPreview,
        ContextResult,
        Remembered,
        SearchResult,
    )

RANKERS = ("default", "similarity", "recency", "confidence")


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


workspace = click.option(
    "--workspace", required=True, metavar="W", help="Whose memories: a space of the knowledge."
)


@click.command(
    cls=Command,
    epilog=_examples(
        'knowloom remember --workspace maya --conversation c1 "Ada moved to Hamburg"',
        'knowloom remember --workspace maya --type preference --pinned "Ada is called Ada, not Augusta"',
    ),
)
@click.argument("content")
@workspace
@click.option("--conversation", metavar="C", help="The conversation it was said in.")
@click.option("--type", metavar="T", help="Any word to filter by later, such as fact or decision.")
@click.option(
    "--speaker",
    metavar="NAME",
    help="Who said it: the memory is found by the name, and shown with it and the time.",
)
@click.option(
    "--confidence", type=float, metavar="X", help="How sure it is, from 0 to 1. Default: 0.5."
)
@click.option(
    "--metadata",
    multiple=True,
    type=json_or_text,
    metavar="NAME=VALUE",
    help="A value that is JSON is taken as such, else as text.",
)
@click.option("--pinned", is_flag=True, help="Every context begins with it.")
@click.option("--expires-at", type=time, metavar="TIME", help="It is not found from then on.")
@click.option("--valid-from", type=time, metavar="TIME", help="It is not found before.")
@click.option(
    "--at", "created_at", type=time, metavar="TIME", help="When it was said. Default: now."
)
@click.option(
    "--supersedes",
    multiple=True,
    metavar="ID",
    help="A memory whose place it takes; may be given several times.",
)
@click.option("--id", metavar="ID", help="Its name. Default: one made from what it says.")
@click.pass_obj
def remember(
    session: Session,
    /,
    content: str,
    workspace: str,
    metadata: Sequence[tuple[str, Any]],
    **fields: Any,
) -> None:
    """Store a memory; - reads it from standard input."""
    from knowloom.capabilities.memory.memory import Memory

    content = stdin().strip() if content == "-" else content
    with session.open(create=True) as kb:
        told = Memory(kb, workspace).remember(content, metadata=dict(metadata), **fields)
    session.warn(*session.notes.seen)
    session.answer(memory_row(told), lambda _: [f"remembered: {told.id} in {told.workspace}"])


@click.command(
    cls=Command,
    epilog=_examples(
        'knowloom recall "refunds of Maya" --workspace support',
        "knowloom recall refund --workspace support --template detailed --token-budget 500",
    ),
)
@click.argument("query")
@workspace
@click.option(
    "--conversation",
    "conversation_id",
    metavar="C",
    help="Only what was said in this conversation.",
)
@click.option(
    "--type",
    "memory_types",
    multiple=True,
    metavar="T",
    help="Only memories of this type; may be given several times.",
)
@click.option(
    "--from", "date_from", type=time, metavar="TIME", help="Only what was told then or later."
)
@click.option(
    "--to", "date_to", type=time, metavar="TIME", help="Only what was told then or earlier."
)
@click.option(
    "--min-confidence",
    type=float,
    metavar="X",
    help="Only what is at least this sure, from 0 to 1.",
)
@click.option("--limit", type=int, metavar="N", help="How many the search may find. Default: 10.")
@click.option(
    "--depth", type=int, metavar="N", help="Follow relationships so far. Default: not at all."
)
@click.option("--template", metavar="NAME", help="chat, detailed or summary. Default: chat.")
@click.option("--token-budget", type=int, metavar="N", help="Default: 2000.")
@click.option(
    "--ranker",
    type=click.Choice(RANKERS),
    help="What decides the order. Default: similarity, recency and confidence together.",
)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "bm25", "vector"]),
    help="Search by words and meaning (hybrid), only words, or only meaning.",
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
def recall(
    session: Session, /, query: str, workspace: str, depth: int | None, **asked: Any
) -> None:
    """Print what was said before and matters now, within a budget.

    Nothing but the text goes to standard output. With --json, all that it is made of.
    """
    from knowloom.capabilities.memory.memory import Memory

    options = {"model": session.settings().model} | {
        name: value for name, value in asked.items() if value not in (None, ())
    }
    options |= (
        {} if depth is None else {"include_relationships": depth > 0, "relationship_depth": depth}
    )
    analytics = session.analytics()
    with session.open(meaning=asked["mode"] != "bm25") as kb:
        kb.known([workspace])
        try:
            found = Memory(kb, workspace, analytics=analytics).preview(query, **options)
        finally:
            if analytics is not None:
                analytics.close()
    session.warn(*session.notes.seen, *bounded(options))
    session.write(preview_row(found)) if session.as_json else session.write_text(found.context)


def summaries(session: Session) -> list[Summary]:
    """What was counted, if it is counted."""
    analytics = session.analytics(create=False)
    if analytics is None:
        return []
    with closing(analytics):
        return analytics.summaries()


def memory_row(memory: Remembered) -> encoding.Row:
    """Every field, in snake_case; times in ISO 8601."""
    return {
        "id": memory.id,
        "workspace": memory.workspace,
        "conversation": memory.conversation,
        "type": memory.type,
        "content": memory.content,
        "title": memory.title,
        "confidence": memory.confidence,
        "metadata": dict(memory.metadata),
        "created_at": _time(memory.created_at),
        "updated_at": _time(memory.updated_at),
        "last_accessed_at": _time(memory.last_accessed_at),
        "accesses": memory.accesses,
        "pinned": memory.pinned,
        "valid_from": _time(memory.valid_from),
        "expires_at": _time(memory.expires_at),
        "superseded_by": memory.superseded_by,
    }


def result_row(one: SearchResult) -> encoding.Row:
    related = [
        {
            "memory": memory_row(link.memory),
            "relationship": encoding.edge(link.relationship),
            "depth": link.depth,
        }
        for link in one.relationships
    ]
    return {
        "memory": memory_row(one.memory),
        "score": one.score,
        "rank": one.rank,
        "relationships": related,
    }


def context_row(found: ContextResult) -> encoding.Row:
    return {
        "context": found.context,
        "token_count": found.token_count,
        "memories": [result_row(one) for one in found.memories],
        "truncated": found.truncated,
        "template": found.template,
    }


def preview_row(found: ContextPreview) -> encoding.Row:
    return context_row(found) | {
        "memory_ids": list(found.memory_ids),
        "ranking_scores": dict(found.ranking_scores),
        "budget_used": found.budget_used,
        "left_out": [
            {"id": one.id, "rank": one.rank, "tokens": one.tokens, "reason": one.reason}
            for one in found.left_out
        ],
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else codec.time_to_text(time)


COMMANDS: tuple[click.Command, ...] = (remember, recall)
