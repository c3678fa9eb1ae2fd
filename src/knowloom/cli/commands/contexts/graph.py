"""The command `knowloom graph`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from knowloom.cli.options import (
    Decorator,
    as_of_option,
    combine,
    examples,
    format_option,
    max_tokens_option,
    mode_option,
    model_option,
    now_option,
    parse_selection,
    read_query,
    repeated,
    search_spaces,
    tier_option,
    where_option,
)
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_document

if TYPE_CHECKING:
    from knowloom.capabilities.graph.model import GraphAnswer
    from knowloom.capabilities.graph.options import GraphArguments


def _flag(name: str, field: str, help: str) -> Decorator:
    return click.option(f"--{name}/--no-{name}", field, default=None, help=help)


def _count(name: str, field: str, help: str) -> Decorator:
    return click.option(name, field, type=int, metavar="N", help=help)


graph_options = combine(
    max_tokens_option("the setting, else 2000"),
    _count("--max-entities", "max_entities", "Maximum number of entities. Default: 20."),
    repeated("--type", "entity_types", "T", "Only entities of this type."),
    repeated("--exclude-type", "exclude_entity_types", "T", "No entities of this type."),
    click.option(
        "--min-score",
        "min_relevance_score",
        type=float,
        metavar="X",
        help="Minimum relevance, from 0 to 1. Default: 0.1.",
    ),
    _flag("relationships", "include_relationships", "Follow and show links. Default: yes."),
    _count("--depth", "relationship_depth", "Maximum number of links to follow. Default: 1."),
    _count("--max-relationships", "max_relationships", "Maximum number of links. Default: 100."),
    _flag("axioms", "include_axioms", "Check and show axioms. Default: yes."),
    _flag("claims", "include_claims", "Show claims with their evidence. Default: no."),
    _count("--max-claims", "max_claims_per_entity", "Maximum per entity. Default: 3."),
    _flag("violations", "include_violations", "Show violations in the text. Default: no."),
    _flag("properties", "include_properties", "Show properties. Default: yes."),
    _count("--max-properties", "max_properties_per_entity", "Maximum per entity. Default: 10."),
    _flag("descriptions", "include_property_descriptions", "Describe the properties. Default: no."),
    _flag("ids", "include_entity_ids", "Show ids. Default: no."),
    click.option(
        "--separator",
        "entity_separator",
        metavar="TEXT",
        help="Separator of entities in markdown and plain text. Default: an empty line.",
    ),
    click.option("--ranker", metavar="NAME", help="signals or terms. Default: terms."),
    repeated("--prefer", "preferred_types", "T", "Type preferred by the ranker signals."),
    mode_option("hybrid", "bm25", "vector"),
    format_option,
    model_option,
    where_option,
    as_of_option,
    now_option,
)


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom graph "Kestrel tent warranty" --space shared --claims --violations',
        "knowloom graph --entity tidewater --entity gangway --space shared --depth 2 --format yaml",
    ),
)
@click.argument("query", required=False, callback=read_query)
@repeated("--entity", "ids", "ID", "Entity, instead of a query.")
@click.option(
    "--document",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Text whose entities are shown, instead of a query.",
)
@click.option(
    "--select",
    "selection",
    type=parse_selection,
    metavar="START:END",
    help="Only this part of the document, in characters.",
)
@search_spaces
@tier_option
@graph_options
@click.pass_obj
def graph(
    session: Session,
    /,
    spaces: Sequence[str] | None = None,
    query: str | None = None,
    ids: Sequence[str] = (),
    document: str | None = None,
    selection: tuple[int, int] | None = None,
    **options: Unpack[GraphArguments],
) -> None:
    """Print the entities of a request, with links and axioms.

    Pass a query, entities or a document. Standard output has the text only.
    """
    if (query is not None) + bool(ids) + bool(document) != 1:
        raise click.UsageError("pass exactly one of a query, --entity and --document")
    if selection and not document:
        raise click.UsageError("--select needs a --document")
    arguments = session.with_defaults(options, "max_tokens", "format", "model")
    needs_embedder = not ids and options.get("mode") != "bm25"
    with session.open(needs_embedder=needs_embedder) as kb:
        from knowloom.capabilities.graph.documents import Document
        from knowloom.capabilities.graph.graph_context import GraphContext

        provider = GraphContext(kb, spaces)
        if document:
            file = Path(document)
            source = Document(file.name, content=read_document(document), selection=selection)
            answer = provider.for_document(source, **arguments)
        elif ids:
            answer = provider.for_entities(ids, **arguments)
        else:
            answer = provider.for_query(query or "", **arguments)
    session.warn_degraded(answer.degraded)
    omissions = (each for each in answer.left_out if each.hit.item.id in ids)
    session.warn(*(f"{each.hit.item.id}: {each.reason}" for each in omissions))
    _print_answer(session, answer)


def _print_answer(session: Session, answer: GraphAnswer) -> None:
    if session.as_json:
        from knowloom.wire.graph import graph_to_json

        session.write_json(graph_to_json(answer))
        return
    session.write_text(answer.text)
    if sys.stderr.isatty():
        session.warn(*(f"{each.severity}: {each.id}: {each.message}" for each in answer.violations))
