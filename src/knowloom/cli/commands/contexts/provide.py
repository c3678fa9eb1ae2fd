"""The command `knowloom provide`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import click

from knowloom.cli.options import (
    as_of_option,
    examples,
    max_tokens_option,
    model_option,
    now_option,
    query_argument,
    repeated,
    search_spaces,
    tier_option,
    two_names,
    where_option,
)
from knowloom.cli.program import Command
from knowloom.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.capabilities.provider.model import Provision


class ProvideArguments(TypedDict, total=False):
    """The options passed on to `knowloom.Provider`."""

    entity_id: str
    tier: str
    max_tokens: int | None
    model: str
    strict: bool
    top_k: int
    graph_traversal_depth: int
    types: Sequence[str]
    tags: Sequence[str]
    where: Sequence[Mapping[str, Any]]
    scope: Literal["entity", "all"]


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom provide "How do I process a refund request?" --space support --space shared',
        'knowloom provide "How do I process a refund request?" --entity user:maya '
        "--space support --max-tokens 600 --json",
    ),
)
@query_argument
@search_spaces
@tier_option
@click.option(
    "--entity", "entity_id", metavar="ID", help="Entity the agent works for, such as user:maya."
)
@max_tokens_option("the setting, else 2000", "Token budget of all sections; none for no limit.")
@model_option
@two_names(
    "--limit", "--top-k", "top_k", "N", "Maximum number of search results. Default: 10.", int
)
@click.option(
    "--depth",
    "graph_traversal_depth",
    type=int,
    metavar="N",
    help="Maximum number of links to follow from the entity. Default: 2.",
)
@repeated("--type", "types", "T", "Search only items of this type.")
@repeated("--tag", "tags", "T", "Search only items with one of these tags.")
@click.option(
    "--scope",
    type=click.Choice(["entity", "all"]),
    help="Search items of the entity and of no entity, or all items. Default: entity.",
)
@click.option("--as-one-text", is_flag=True, help="Print one text instead of sections.")
@where_option
@as_of_option
@now_option
@click.pass_obj
def provide(
    session: Session,
    /,
    query: str,
    as_one_text: bool,
    spaces: Sequence[str] | None = None,
    now: datetime | None = None,
    as_of: datetime | None = None,
    **options: Unpack[ProvideArguments],
) -> None:
    """Print the knowledge for a request by prompt section.

    Sections are the entity's profile, instructions, context, skills and any other that items name.
    They come from profiles, a search, and the links of the entity. Standard error reports problems.
    """
    from knowloom.capabilities.provider.provider import Provider
    from knowloom.wire.provision import provision_to_json

    arguments = session.with_defaults(options, "max_tokens", "model")
    with session.open() as kb:
        provider = Provider(kb, spaces=spaces, **arguments)
        if as_one_text and not session.as_json:
            session.write_text(provider.text(query, now=now, as_of=as_of) + "\n")
            session.warn(*session.warnings.messages)
            return
        provision = provider.provide(query, now=now, as_of=as_of)
        row = provision_to_json(provision)
        if as_one_text:
            row["text"] = provider.text(query, now=now, as_of=as_of)
    session.warn_degraded(provision.degraded)
    session.output(row, lambda _: _render_provision(provision))


def _render_provision(provision: Provision) -> list[RenderableType]:
    """Render a table with a row per section, and the totals below it."""
    from rich.table import Table
    from rich.text import Text

    from knowloom.cli.console import safe_text

    table = Table(box=None, padding=(0, 2, 1, 0))
    for name in ("section", "text"):
        table.add_column(name, overflow="fold")
    for name, text in provision.sections.items():
        table.add_row(safe_text(name), safe_text(text))
    omitted = f"; left out: {len(provision.left_out)}" if provision.left_out else ""
    return [table, Text(f"{provision.tokens:,} tokens ({provision.token_counter}){omitted}")]
