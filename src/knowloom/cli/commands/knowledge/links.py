"""The commands `knowloom links list`, `add`, `forbid` and `rebuild`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from knowloom.cli.options import examples, optional_spaces, repeated, space_option
from knowloom.cli.program import Command, Group
from knowloom.cli.session import Session
from knowloom.model import Edge
from knowloom.wire.knowledge import edge_to_json

if TYPE_CHECKING:
    from knowloom.engine import Engine
    from knowloom.report import Report


@click.group(
    cls=Group, epilog=examples("knowloom links list --space support", "knowloom links rebuild")
)
def links() -> None:
    """List, add, forbid and rebuild links."""


@links.command(
    "list",
    cls=Command,
    epilog=examples(
        "knowloom links list --space support",
        "knowloom links list --item gift-card-refunds --made",
    ),
)
@optional_spaces
@repeated("--item", "ids", "ID", "Only links of this item.")
@repeated("--type", "types", "T", "Only links of this type.")
@click.option(
    "--made/--given",
    "automatic",
    default=None,
    help="Only automatic links, or only explicit ones.",
)
@click.pass_obj
def list_links(
    session: Session,
    /,
    spaces: Sequence[str] = (),
    ids: Sequence[str] = (),
    types: Sequence[str] = (),
    automatic: bool | None = None,
) -> None:
    """List links with their origin and weight."""
    with session.open(needs_embedder=False) as kb:
        edges = [
            edge
            for edge in kb.edges(spaces or None, automatic=automatic)
            if (not ids or {edge.source, edge.target} & set(ids))
            and (not types or edge.type in types)
        ]
    row = {"links": [edge_to_json(edge) for edge in edges]}
    session.output(row, lambda tables: [tables.render_links(edges)])


class EdgeArguments(TypedDict, total=False):
    """The fields of an edge."""

    source: str
    target: str
    space: str
    type: str
    weight: float
    target_space: str
    item_id: str


@links.command(
    cls=Command,
    epilog=examples(
        "knowloom links add gift-card-refunds final-sale-items --space support --type related "
        "--weight 0.8"
    ),
)
@click.argument("source")
@click.argument("target")
@space_option("Space of the source.")
@click.option("--type", default="related", metavar="T", help="Type of the link. Default: related.")
@click.option(
    "--weight",
    default=1.0,
    type=float,
    metavar="X",
    help="Weight, above 0 and up to 1. Default: 1.",
)
@click.option(
    "--target-space", default="", metavar="S", help="Space of the target. Default: the same."
)
@click.option("--why", "item_id", metavar="ID", help="Item that explains the link.")
@click.pass_obj
def add(session: Session, /, **fields: Unpack[EdgeArguments]) -> None:
    """Link two items. It replaces an automatic link of the same type for good."""
    from knowloom import validation

    if not fields["weight"]:
        raise click.UsageError("weight must be > 0; to forbid a link: knowloom links forbid")
    with session.open(needs_embedder=False) as kb:
        row = {**fields, "space": kb.reader.choose_space(fields.get("space"))}
        edge = validation.edge_from_row(row, None)
        report = kb.add([], [edge])
        # The link may be forbidden in the other direction.
        kb.delete_edges([reverse for reverse in _reverse_links(kb, edge) if not reverse.weight])
    message = f"linked: {edge.source} -[{edge.type}]-> {edge.target}"
    _print_links(session, report, [edge], message)


@links.command(
    cls=Command,
    epilog=examples(
        "knowloom links forbid what-is-the-refund-policy gift-card-refunds --space support "
        "--type similar"
    ),
)
@click.argument("source")
@click.argument("target")
@space_option("Space of the items.")
@repeated("--type", "types", "T", "Type to forbid. Default: all automatic types.")
@click.pass_obj
def forbid(
    session: Session,
    source: str,
    target: str,
    space: str | None = None,
    types: Sequence[str] = (),
) -> None:
    """Forbid links between two items, in both directions, until one is added."""
    from knowloom import validation
    from knowloom.linking.rules import RULES

    names = types or RULES
    with session.open(needs_embedder=False) as kb:
        row = {"source": source, "target": target, "weight": 0}
        row["space"] = kb.reader.choose_space(space)
        edges = [validation.edge_from_row({**row, "type": name}, None) for name in names]
        edges += [
            replace(reverse, weight=0.0)
            for edge in edges
            for reverse in _reverse_links(kb, edge)
            if reverse.weight
        ]
        report = kb.add([], edges)
    _print_links(session, report, edges, f"forbidden: {source} -[{', '.join(names)}]- {target}")


@links.command(cls=Command, epilog=examples("knowloom links rebuild"))
@click.pass_obj
def rebuild(session: Session) -> None:
    """Rebuild the automatic links. The result is the same unless they were damaged."""
    with session.open(needs_embedder=False, needs_names=True) as kb:
        with session.progress() as progress:
            items = kb.maintenance.relink(progress)
        count = sum(space.links for space in kb.maintenance.stats().spaces)
    row = {"items": items, "links": count}
    session.output(row, lambda _: [f"links: {count:,}, of {items:,} items"])


def _reverse_links(kb: Engine, edge: Edge) -> list[Edge]:
    """Return the explicit link of the same type in the other direction, if there is one."""
    reverse = Edge(
        edge.target,
        edge.source,
        edge.type,
        1.0,
        edge.target_space or edge.space,
        target_space=edge.space if edge.target_space else "",
    )
    with kb.reader.snapshot() as stores:
        return [other for other in stores.graph.get_edges([reverse.key]) if not other.origin]


def _print_links(session: Session, report: Report, edges: Sequence[Edge], message: str) -> None:
    session.warn(*report.problems)
    session.output({"links": [edge_to_json(edge) for edge in edges]}, lambda _: [message])
