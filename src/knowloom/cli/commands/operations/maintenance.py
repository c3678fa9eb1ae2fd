"""The commands `knowloom stats`, `verify`, `embed`, `reindex` and `models build`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from knowloom.cli.options import examples, optional_spaces
from knowloom.cli.program import Command, Group
from knowloom.cli.session import Session
from knowloom.wire.knowledge import statistics_to_json

if TYPE_CHECKING:
    from knowloom.capabilities.memory.analytics import Summary


@click.command(cls=Command, epilog=examples("knowloom stats", "knowloom stats --json"))
@click.pass_obj
def stats(session: Session) -> None:
    """Show the spaces with their counts, and the vectors."""
    with session.open(needs_embedder=False) as kb:
        statistics = kb.maintenance.stats()
    usage = _memory_usage(session)
    row = statistics_to_json(statistics)
    if usage:
        row["asked"] = [asdict(summary) for summary in usage]
    session.output(
        row,
        lambda tables: [
            tables.render_statistics(statistics),
            *([tables.render_usage(usage)] if usage else []),
        ],
    )


def _memory_usage(session: Session) -> list[Summary]:
    analytics = session.analytics(create=False)
    if analytics is None:
        return []
    with closing(analytics):
        return analytics.summaries()


@click.command(cls=Command, epilog=examples("knowloom verify", "knowloom verify --json"))
@click.pass_obj
def verify(session: Session) -> None:
    """Check the integrity of the store. The exit status is 1 if there are problems."""
    with session.open(needs_embedder=False) as kb:
        problems = kb.verify()
    session.output(
        {"ok": not problems, "problems": problems},
        lambda tables: [tables.render_problems(problems)],
    )
    sys.exit(1 if problems else 0)


@click.command(
    cls=Command, epilog=examples("knowloom embed", "knowloom embed --space support --json")
)
@optional_spaces
@click.pass_obj
def embed(session: Session, spaces: Sequence[str] = ()) -> None:
    """Compute missing vectors."""
    if session.embedder_name() == "none":
        raise click.UsageError("no embedder: pass --embedder, such as minilm")
    with session.open() as kb, session.progress() as progress:
        count = kb.maintenance.embed(spaces or None, progress)
    session.output({"vectors": count}, lambda _: [f"vectors computed: {count:,}"])


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom reindex",
        "knowloom reindex --passage-size 500",
    ),
)
@click.option(
    "--passage-size", type=int, help="Cut texts into passages of about so many characters."
)
@click.pass_obj
def reindex(session: Session, passage_size: int | None = None) -> None:
    """Rebuild the keyword index and all vectors.

    Needed for another embedder, another passage size or a newer knowloom. With --embedder none,
    vectors are kept.
    """
    if passage_size is None:
        passage_size = session.settings().passage_size or None
    with session.open() as kb, session.progress() as progress:
        count = kb.reindex(progress, passage_size=passage_size)
    session.output({"vectors": count}, lambda _: [f"words rebuilt; vectors computed: {count:,}"])


@click.group(cls=Group)
def models() -> None:
    """Build embedding models for this machine."""


@models.command(
    cls=Command,
    epilog=examples(
        "knowloom models build bge-small",
        "knowloom models build bge-small --from downloads/bge-small-en-v1.5",
    ),
)
@click.argument("name")
@click.option(
    "--from",
    "source",
    metavar="PATH",
    help="Folder or archive with the published files. Default: download them.",
)
@click.option(
    "--to", "target", metavar="FOLDER", help="Default: .knowloom/models/NAME in your home."
)
@click.pass_obj
def build(
    session: Session, name: str, source: str | None = None, target: str | None = None
) -> None:
    """Build a model, such as bge-small, from its published weights.

    The hashes of the files are checked. Without --from they are downloaded; no other command uses
    the network for a model. Needs the extra "models": pip install 'knowloom[models]'.
    """
    from knowloom.embedders.model_files import build_model

    folder = build_model(name, source, target, lambda step: click.echo(f"{step} ...", err=True))
    address = name if target is None else f"{name}:{folder}"
    session.output(
        {"folder": str(folder), "embedder": address},
        lambda _: [f"built: {folder}", f"use it with --embedder {address}, then run reindex"],
    )
