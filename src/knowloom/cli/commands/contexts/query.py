"""The commands `knowloom search`, `context`, `explain` and `recipes`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import click

from knowloom.cli.options import (
    KINDS,
    context_options,
    examples,
    filter_options,
    min_confidence_option,
    parse_time,
    query_argument,
    repeated,
    search_spaces,
    tier_option,
    turn_options,
)
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_context
from knowloom.wire.contexts import context_to_json, hits_to_json
from knowloom.wire.recipes import recipes_to_json

if TYPE_CHECKING:
    from knowloom.options import ContextArguments, SearchArguments


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom search "refund over 100 dollars" --space support',
        "knowloom search refund --space support --space shared --type faq --limit 5 --json",
    ),
)
@query_argument
@search_spaces
@repeated("--kind", "kinds", "KIND", f"Only this kind: {KINDS}.")
@click.option("--subject", metavar="ID", help="Only items about this entity.")
@filter_options
@click.option(
    "--created-from", type=parse_time, metavar="TIME", help="Only items created at or after TIME."
)
@click.option(
    "--created-to", type=parse_time, metavar="TIME", help="Only items created at or before TIME."
)
@tier_option
@min_confidence_option
@click.pass_obj
def search(
    session: Session,
    /,
    query: str,
    spaces: Sequence[str] | None = None,
    **options: Unpack[SearchArguments],
) -> None:
    """Find items by keywords and vectors, best first."""
    with session.open(needs_embedder=options.get("mode") != "bm25") as kb:
        hits = kb.search(query, spaces=spaces, **options)
    notes = session.warnings.messages
    session.warn_degraded(hits.degraded)
    session.output(hits_to_json(hits, notes), lambda tables: [tables.render_hits(hits, query)])


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom context "How do I process a refund request?" --space support > prompt.md',
        'knowloom context "How to query order data" --space analytics --max-tokens 600 '
        "--format yaml",
    ),
)
@context_options
@turn_options
@click.pass_obj
def context(
    session: Session,
    /,
    query: str,
    spaces: Sequence[str] | None = None,
    **options: Unpack[ContextArguments],
) -> None:
    """Print the best context for a request, within the budget.

    Standard output has the text only; on a terminal, standard error shows the tokens used and
    the parts of the context.
    """
    arguments = _with_settings(session, options)
    with session.open(needs_embedder=options.get("mode") != "bm25") as kb:
        context = kb.context(query, spaces=spaces, **arguments)
    session.warn_degraded(context.degraded)
    if session.as_json:
        session.write_json(context_to_json(context))
        return
    session.write_text(context.text)
    if sys.stderr.isatty():
        from knowloom.cli.context_tables import render_parts, render_token_bar

        session.print("", render_token_bar(context), render_parts(context), stderr=True)


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom explain "How do I process a refund request?" --space support --max-tokens 800',
        'knowloom explain "How do I process a refund request?" --space support '
        "--item gift-card-refunds",
    ),
)
@context_options
@turn_options
@repeated("--item", "ids", "ID", "Show only this item, whether it is in the text or not.")
@click.pass_obj
def explain(
    session: Session,
    /,
    query: str,
    spaces: Sequence[str] | None = None,
    ids: Sequence[str] = (),
    **options: Unpack[ContextArguments],
) -> None:
    """Show why each item is in a context, or is not.

    For items left out, it shows what would bring them in.
    """
    arguments = _with_settings(session, options)
    with session.open(needs_embedder=options.get("mode") != "bm25") as kb:
        context = kb.explain(query, spaces=spaces, ids=ids, **arguments)
    session.warn_degraded(context.degraded)
    if session.as_json:
        session.write_json(context_to_json(context))
        return
    from knowloom.cli.context_tables import render_explanation

    session.print(*render_explanation(context, ids))


@click.command(cls=Command, epilog=examples("knowloom recipes", "knowloom recipes --json"))
@click.pass_obj
def recipes(session: Session) -> None:
    """List the recipes for --recipe."""
    from knowloom.recipes import RECIPES

    session.output(recipes_to_json(RECIPES), lambda tables: [tables.render_recipes(RECIPES)])


def _with_settings(session: Session, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the settings as defaults; an agent has its own budget and format."""
    if options.get("after"):
        options = {**options, "after": read_context(options["after"])}
    if options.get("agent"):
        return session.with_defaults(options, "model")
    return session.with_defaults(options, "max_tokens", "format", "model")
