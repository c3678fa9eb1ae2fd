"""The command `knowloom provide`, and what it shares with the service: a provision as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.session import Command, Session, bounded, model, several_spaces, tier, time
from knowloom.wire import encoding

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.capabilities.provider.model import Provision, Relation, Unshown


def provision(found: Provision) -> encoding.Row:
    """Sections in the order of the prompt, and where they come from. Texts of items are in the sections only."""
    return {
        "sections": dict(found.sections),
        "tokens": found.tokens,
        "token_counter": found.token_counter,
        "entity_id": found.retrieval.entity_id,
        "pieces": [
            {
                "id": hit.item.id,
                "space": hit.item.space,
                "type": hit.item.type,
                "section": hit.item.section,
                "score": hit.score,
                "found_by": list(hit.found_by),
            }
            for hit in found.retrieval.pieces
        ],
        "graph_context": [_relation(one) for one in found.retrieval.graph_context],
        "left_out": [_unshown(one) for one in found.left_out],
        "degraded": [encoding.problem(one) for one in found.degraded],
    }


def _relation(one: Relation) -> encoding.Row:
    piece = None if one.piece is None else one.piece[1]
    return {
        "type": one.type,
        "source": one.edge.source,
        "target": one.edge.target,
        "depth": one.depth,
        "score": one.score,
        "piece_id": piece,
    }


def _unshown(one: Unshown) -> encoding.Row:
    return {
        "section": one.section,
        "kind": one.kind,
        "id": one.id,
        "space": one.space,
        "score": one.score,
        "tokens": one.tokens,
    }


def _budget(text: str) -> int | str:
    if text != "none" and not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a whole number nor none")
    return text if text == "none" else int(text)


EXAMPLES = """\b
Examples:
  knowloom provide "How do I process a refund request?" --space support --space shared
  knowloom provide "How do I process a refund request?" --entity user:maya --space support --max-tokens 600 --json"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("query")
@several_spaces
@tier
@click.option(
    "--entity", "entity_id", metavar="ID", help="The entity the agent works for, such as user:maya."
)
@click.option(
    "--max-tokens",
    type=_budget,
    metavar="N|none",
    help="For all sections together. Default: the setting, else 2000.",
)
@model
@click.option(
    "--top-k", type=int, metavar="N", help="Pieces that the search may give. Default: 10."
)
@click.option(
    "--depth",
    "graph_traversal_depth",
    type=int,
    metavar="N",
    help="How many links to follow from the entity. Default: 2.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="T",
    help="Search only pieces of this type; may be given several times.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="T",
    help="Search only pieces with this tag, or one of several.",
)
@click.option(
    "--scope",
    type=click.Choice(["entity", "all"]),
    help="Search the entity's pieces and those of nobody (entity), or all. Default: entity.",
)
@click.option(
    "--as-one-text", is_flag=True, help="Print everything found as one text instead of by section."
)
@click.option("--as-of", type=time, metavar="TIME", help="As it was known and valid at that time.")
@click.option(
    "--now",
    type=time,
    metavar="TIME",
    help="The time of the request, for answers that can be repeated byte by byte.",
)
@click.pass_obj
def provide(
    session: Session, /, query: str, spaces: Sequence[str], as_one_text: bool, **asked: Any
) -> None:
    """Print what is known for a request, by prompt section.

    That is the entity's profile, instructions, context, skills and any other section that items name. It comes from profiles, from a
    search, and from links of the entity. What went wrong is told on standard error.
    """
    from knowloom.capabilities.provider.provider import Provider

    settings = session.settings()
    given = {name: value for name, value in asked.items() if value not in (None, ())}
    options: dict[str, Any] = {"max_tokens": settings.max_tokens, "model": settings.model} | given
    times: dict[str, Any] = {
        name: options.pop(name) for name in ("now", "as_of") if name in options
    }
    options |= {"max_tokens": None} if options["max_tokens"] == "none" else {}
    with session.open() as kb:
        provider = Provider(kb, spaces=spaces, **options)
        if as_one_text and not session.as_json:
            session.write_text(provider.text(query, **times) + "\n")
            session.warn(*session.notes.seen, *bounded(options))
            return
        found = provider.provide(query, **times)
        row = provision(found) | ({"text": provider.text(query, **times)} if as_one_text else {})
    session.warn(*(f"{one.part}: {one.reason}" for one in found.degraded), *bounded(options))
    session.answer(row, lambda _: _shown(found))


def _shown(found: Provision) -> list[RenderableType]:
    """One table, a row per section; what was left out below it."""
    from rich.table import Table
    from rich.text import Text

    from knowloom.cli import console

    table = Table(box=None, padding=(0, 2, 1, 0))
    for name in ("section", "text"):
        table.add_column(name, overflow="fold")
    for name, text in found.sections.items():
        table.add_row(Text(console.safe(name)), Text(console.safe(text)))
    left = f"; left out: {len(found.left_out)}" if found.left_out else ""
    return [table, Text(f"{found.tokens:,} tokens ({found.token_counter}){left}")]


COMMANDS: tuple[click.Command, ...] = (provide,)
