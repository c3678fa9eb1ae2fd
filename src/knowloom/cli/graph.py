"""The command `knowloom graph`, and graph contexts as plain dicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli import axioms
from knowloom.cli.session import (
    Command,
    Session,
    bounded,
    budget,
    model,
    several_spaces,
    tier,
    time,
)
from knowloom.cli.session import options as several
from knowloom.errors import Invalid
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.axioms.model import Axiom
    from knowloom.capabilities.graph.documents import Document
    from knowloom.capabilities.graph.model import GraphAnswer, GraphEntity, Relationship

EXAMPLES = (
    'knowloom graph "Kestrel tent warranty" --space shared --claims --violations',
    "knowloom graph --entity tidewater --entity gangway --space shared --depth 2 --format yaml",
)

choices = several(
    click.option(
        "--max-tokens",
        type=budget,
        metavar="N|none",
        help="The budget; none for no limit. Default: the setting, else 2000.",
    ),
    click.option("--max-entities", type=int, metavar="N", help="Default: 20."),
    click.option(
        "--type",
        "entity_types",
        multiple=True,
        metavar="T",
        help="Only entities of this type; may be given several times.",
    ),
    click.option(
        "--exclude-type",
        "exclude_entity_types",
        multiple=True,
        metavar="T",
        help="No entities of this type; may be given several times.",
    ),
    click.option(
        "--min-score",
        "min_relevance_score",
        type=float,
        metavar="X",
        help="Only entities as relevant as this, from 0 to 1. Default: 0.1.",
    ),
    click.option(
        "--relationships/--no-relationships",
        "include_relationships",
        default=None,
        help="Follow and show links. Default: yes.",
    ),
    click.option(
        "--depth",
        "relationship_depth",
        type=int,
        metavar="N",
        help="How many links to follow. Default: 1.",
    ),
    click.option("--max-relationships", type=int, metavar="N", help="Default: 100."),
    click.option(
        "--axioms/--no-axioms",
        "include_axioms",
        default=None,
        help="Check and show rules. Default: yes.",
    ),
    click.option(
        "--claims/--no-claims",
        "include_claims",
        default=None,
        help="Show claims with their evidence. Default: no.",
    ),
    click.option(
        "--max-claims",
        "max_claims_per_entity",
        type=int,
        metavar="N",
        help="Of one entity. Default: 3.",
    ),
    click.option(
        "--violations/--no-violations",
        "include_violations",
        default=None,
        help="Note in the text what breaks a rule. Default: no.",
    ),
    click.option(
        "--properties/--no-properties",
        "include_properties",
        default=None,
        help="Show properties. Default: yes.",
    ),
    click.option(
        "--max-properties",
        "max_properties_per_entity",
        type=int,
        metavar="N",
        help="Of one entity. Default: 10.",
    ),
    click.option(
        "--descriptions/--no-descriptions",
        "include_property_descriptions",
        default=None,
        help="Say what properties mean. Default: no.",
    ),
    click.option(
        "--ids/--no-ids", "include_entity_ids", default=None, help="Show ids. Default: no."
    ),
    click.option(
        "--separator",
        "entity_separator",
        metavar="TEXT",
        help="Between entities, in markdown and plain text. Default: an empty line.",
    ),
    click.option("--ranker", metavar="NAME", help="signals or terms. Default: terms."),
    click.option(
        "--prefer",
        "preferred_types",
        multiple=True,
        metavar="T",
        help="A type the ranker signals prefers; may be given several times.",
    ),
    click.option(
        "--mode",
        type=click.Choice(["hybrid", "bm25", "vector"]),
        help="Search by words and meaning (hybrid), only words, or only meaning.",
    ),
    click.option(
        "--format",
        metavar="NAME",
        help="json, markdown, plain or yaml. Default: the setting, else markdown.",
    ),
    model,
    click.option(
        "--as-of", type=time, metavar="TIME", help="As it was known and valid at that time."
    ),
    click.option(
        "--now",
        type=time,
        metavar="TIME",
        help="The time of the request, for answers that can be repeated byte by byte.",
    ),
)


def _selection(text: str) -> tuple[int, int]:
    start, colon, end = text.partition(":")
    if not (colon and start.isdecimal() and end.isdecimal()):
        raise click.BadParameter(f"{text!r} is not of the form START:END, in characters")
    return int(start), int(end)


@click.command(cls=Command, epilog="\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES))
@click.argument("query", required=False)
@click.option(
    "--entity",
    "ids",
    multiple=True,
    metavar="ID",
    help="This entity instead of a query; may be given several times.",
)
@click.option(
    "--document",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="What this text is about, instead of a query.",
)
@click.option(
    "--select",
    "selection",
    type=_selection,
    metavar="START:END",
    help="Only these characters of the document.",
)
@several_spaces
@tier
@choices
@click.pass_obj
def graph(
    session: Session,
    /,
    query: str | None,
    ids: Sequence[str],
    document: str | None,
    spaces: Sequence[str],
    **asked: Any,
) -> None:
    """Print the entities a request is about, with links and rules.

    Give a query, entities, or a document. Nothing but the text goes to standard output.
    """
    selection = asked.pop("selection")
    if sum(bool(one) for one in (query is not None, ids, document)) != 1:
        raise click.UsageError("give exactly one of a query, --entity and --document")
    if selection and not document:
        raise click.UsageError("--select needs a --document")
    given = _given(session, asked)
    with session.open(meaning=not ids and asked["mode"] != "bm25") as kb:
        from knowloom.capabilities.graph.graph_context import GraphContext

        provider = GraphContext(kb, spaces)
        if document:
            found = provider.for_document(_document(document, selection), **given)
        else:
            found = (
                provider.for_entities(ids, **given)
                if ids
                else provider.for_query(query or "", **given)
            )
    session.warn(*(f"{one.part}: {one.reason}" for one in found.degraded), *bounded(given))
    session.warn(
        *(f"{one.hit.item.id}: {one.reason}" for one in found.left_out if one.hit.item.id in ids)
    )
    if session.as_json:
        session.write(answer(found))
    else:
        session.write_text(found.text)
        if found.violations and sys.stderr.isatty():
            session.warn(*(f"{one.severity}: {one.id}: {one.message}" for one in found.violations))


def _given(session: Session, asked: dict[str, Any]) -> dict[str, Any]:
    settings = session.settings()
    said = {name: value for name, value in asked.items() if value not in (None, ())}
    given = {
        "max_tokens": settings.max_tokens,
        "format": settings.format,
        "model": settings.model,
    } | said
    return given | ({"max_tokens": None} if given["max_tokens"] == "none" else {})


def _document(path: str, selection: tuple[int, int] | None) -> Document:
    from knowloom.capabilities.graph.documents import Document

    try:
        return Document(
            Path(path).name, content=Path(path).read_text("utf-8-sig"), selection=selection
        )
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8: {error}") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None


def answer(found: GraphAnswer) -> encoding.Row:
    return {
        "text": found.text,
        "tokens": found.tokens,
        "query": found.query,
        "truncated": found.truncated,
        "entities": [_entity(one) for one in found.entities],
        "relationships": [_relationship(one) for one in found.relationships],
        "axioms": [_axiom(one) for one in found.axioms],
        "claims": [
            {
                "item": encoding.item(hit.item),
                "score": hit.score,
                "signals": dict(sorted(hit.signals.items())),
            }
            for hit in found.claims
        ],
        "violations": [axioms.violation(one) for one in found.violations],
        "left_out": [encoding.left_out(one) for one in found.left_out],
        "degraded": [encoding.problem(one) for one in found.degraded],
        "digest": found.digest,
        "stats": encoding.stats(found.stats),
    }


def _entity(one: GraphEntity) -> encoding.Row:
    shown = {
        "form": one.form.value,
        "tokens": one.tokens,
        "shown_properties": list(one.shown_properties),
    }
    return (
        {"item": encoding.item(one.item)}
        | encoding.match(one.hit)
        | {"matched_terms": list(one.matched_terms)}
        | shown
    )


def _relationship(one: Relationship) -> encoding.Row:
    return {
        "from": one.source_name,
        "type": one.edge.type,
        "to": one.target_name,
        "score": one.score,
        "edge": encoding.edge(one.edge),
    }


def _axiom(one: Axiom) -> encoding.Row:
    return {
        "id": one.id,
        "space": one.space,
        "name": one.name,
        "description": one.description,
        "target_kind": one.target_kind,
        "target_type": one.target_type,
        "severity": one.severity,
        "category": one.category,
        "tags": list(one.tags),
        "enabled": one.enabled,
        "rules": [
            asdict(rule) | {"properties": list(rule.properties), "values": list(rule.values)}
            for rule in one.rules
        ],
    }


COMMANDS: tuple[click.Command, ...] = (graph,)
