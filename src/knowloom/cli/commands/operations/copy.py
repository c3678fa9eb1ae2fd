"""The command `knowloom copy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowloom import config
from knowloom.cli.options import examples, repeated
from knowloom.cli.program import Command
from knowloom.cli.session import PART_SETTINGS, Session
from knowloom.wire.upkeep import copied_to_json

if TYPE_CHECKING:
    from knowloom.operations.copying import Copied


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom copy knowledge.db copy.db",
        "knowloom copy knowledge.db postgresql://knowloom@db.example.org/company",
    ),
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@repeated("--space", "spaces", "S", "Only this space. Default: all.")
@click.option("--no-history", is_flag=True, help="Only the current state, without the change log.")
@click.pass_obj
def copy(
    session: Session,
    source: str,
    target: str,
    no_history: bool,
    spaces: Sequence[str] | None = None,
) -> None:
    """Copy knowledge to another store: items, edges, vectors and the history.

    FROM and TO are paths or URLs. A file that ends in .toml is read as settings: its store, and the
    layers that it names. If the copy is interrupted, the same command continues it. It is complete
    once the digests of all spaces are equal. A TO with other knowledge in one of the spaces is
    refused.
    """
    from knowloom.factory import copy as copy_knowledge

    with session.progress() as progress:
        copied = copy_knowledge(
            _read_setup(source),
            _read_setup(target),
            spaces=spaces,
            history=not no_history,
            progress=progress,
        )
    session.warn(*copied.problems)
    session.output(
        copied_to_json(copied), lambda tables: [*map(tables.safe_text, _describe(copied))]
    )


def _read_setup(name: str) -> str | dict[str, str]:
    """Return the URL, or the URLs by role in a file of settings."""
    if not name.endswith(".toml"):
        return name
    settings = config.load({"KNOWLOOM_CONFIG": name})
    return {role: getattr(settings, role) for role in ("store", *PART_SETTINGS)}


def _describe(copied: Copied) -> list[str]:
    lines = [
        f"{space.name}: {space.items:,} items, {space.edges:,} edges, {space.links:,} automatic "
        f"edges, {space.changes:,} changes, digest {space.digest}"
        for space in copied.spaces
    ]
    done = "copied and verified" if copied.written else "nothing to do: verified"
    return [*lines, f"{done}: {len(copied.spaces):,} spaces"]
