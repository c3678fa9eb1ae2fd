"""The commands about links: `knowloom links list`, `add`, `forbid` and `rebuild`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.session import Command, Group, Session, one_space, some_spaces
from knowloom.model import Edge
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.engine import Engine
    from knowloom.report import Report


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.group(
    cls=Group, epilog=_examples("knowloom links list --space support", "knowloom links rebuild")
)
def links() -> None:
    """Show, add and forbid links, and make knowloom's own anew."""


@links.command(
    "list",
    cls=Command,
    epilog=_examples(
        "knowloom links list --space support", "knowloom links list --item gift-card-refunds --made"
    ),
)
@some_spaces
@click.option(
    "--item",
    "ids",
    multiple=True,
    metavar="ID",
    help="Only links of this item; may be given several times.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="T",
    help="Only links of this type; may be given several times.",
)
@click.option(
    "--made/--given",
    "made",
    default=None,
    help="Only those knowloom made, or only those of people.",
)
@click.pass_obj
def list_links(
    session: Session,
    /,
    spaces: Sequence[str],
    ids: Sequence[str],
    types: Sequence[str],
    made: bool | None,
) -> None:
    """Show links: who made them, and which are forbidden."""
    with session.open(meaning=False) as kb:
        every = kb.edges(spaces or None, made=made)
        found = [
            edge
            for edge in every
            if (not ids or {edge.source, edge.target} & set(ids))
            and (not types or edge.type in types)
        ]
    session.answer(
        {"links": [encoding.edge(edge) for edge in found]}, lambda screen: [screen.links(found)]
    )


@links.command(
    cls=Command,
    epilog=_examples(
        "knowloom links add gift-card-refunds final-sale-items --space support --type related --weight 0.8"
    ),
)
@click.argument("source")
@click.argument("target")
@one_space
@click.option(
    "--type", default="related", metavar="T", help="What the link says. Default: related."
)
@click.option(
    "--weight",
    default=1.0,
    type=float,
    metavar="X",
    help="How much it counts, above 0 and up to 1. Default: 1.",
)
@click.option(
    "--target-space", default="", metavar="S", help="The space of the target. Default: the same."
)
@click.option("--why", "item_id", metavar="ID", help="The item that explains the link.")
@click.pass_obj
def add(session: Session, /, **asked: Any) -> None:
    """Link two items. Your link replaces knowloom's of the same type, and stays."""
    from knowloom import validation

    if not asked["weight"]:
        raise click.UsageError("a link of weight 0 is a forbidden one: knowloom links forbid")
    edge = validation.edge_from_row(asked, None)
    with session.open(meaning=False) as kb:
        report = kb.add([], [edge])
        kb.delete_edges(
            [other for other in _between(kb, edge) if not other.weight]
        )  # the link between them that was forbidden from the other side
    _told(session, report, [edge], f"linked: {edge.source} -[{edge.type}]-> {edge.target}")


@links.command(
    cls=Command,
    epilog=_examples(
        "knowloom links forbid what-is-the-refund-policy gift-card-refunds --space support --type similar"
    ),
)
@click.argument("source")
@click.argument("target")
@one_space
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="T",
    help="The type to forbid; may be given several times. Default: all that knowloom makes.",
)
@click.pass_obj
def forbid(session: Session, source: str, target: str, space: str, types: Sequence[str]) -> None:
    """Forbid links between two items, in both directions. Adding one lifts it."""
    from knowloom import validation
    from knowloom.linking.tag_rules import RULES

    rows = [
        {"source": source, "target": target, "space": space, "type": type, "weight": 0}
        for type in types or RULES
    ]
    edges = [validation.edge_from_row(row, None) for row in rows]
    with session.open(meaning=False) as kb:
        edges += [
            replace(other, weight=0.0)
            for edge in edges
            for other in _between(kb, edge)
            if other.weight
        ]
        report = kb.add([], edges)
    _told(
        session,
        report,
        edges,
        f"forbidden: {source} -[{', '.join(str(row['type']) for row in rows)}]- {target}",
    )


@links.command(cls=Command, epilog=_examples("knowloom links rebuild"))
@click.pass_obj
def rebuild(session: Session) -> None:
    """Make knowloom's own links anew. They come out as they were: this is for doubt."""
    with session.open(meaning=False, naming=True) as kb, session.progress() as tell:
        looked_at = kb.relink(tell)
        made = sum(info.links for info in kb.stats().spaces)
    session.answer(
        {"items": looked_at, "links": made}, lambda _: [f"links: {made:,}, of {looked_at:,} items"]
    )


def _between(kb: Engine, edge: Edge) -> list[Edge]:
    """The link of people of the same type that leads back, if there is one."""
    back = Edge(
        edge.target,
        edge.source,
        edge.type,
        1.0,
        edge.target_space or edge.space,
        target_space=edge.space if edge.target_space else "",
    )
    with kb.reading() as stores:
        return [other for other in stores.graph.get_edges([back.key]) if not other.origin]


def _told(session: Session, report: Report, edges: Sequence[Edge], said: str) -> None:
    session.warn(*report.problems)
    session.answer({"links": [encoding.edge(edge) for edge in edges]}, lambda _: [said])


COMMANDS: tuple[click.Command, ...] = (links,)
