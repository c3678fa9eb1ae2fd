"""The command `knowloom diff`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from knowloom.cli.options import examples
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_context

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.capabilities.differences import ContextDiff, Placement


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom context refund --space support --as-of 2099-01-31 --json > before.json",
        "knowloom context refund --space support --json > after.json",
        "knowloom diff before.json after.json",
    ),
)
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.pass_obj
def diff(session: Session, before: str, after: str) -> None:
    """Compare two contexts, by items and by bytes.

    Both are files written by knowloom context or explain with --json; - is standard input. The exit
    status is 1 if they differ.
    """
    from knowloom.capabilities.differences import diff_contexts
    from knowloom.wire.context_diffs import diff_to_json

    if before == after == "-":
        raise click.UsageError("standard input has one context: pass a file for the other")
    result = diff_contexts(read_context(before), read_context(after))
    session.output(diff_to_json(result), lambda _: _render(result))
    sys.exit(0 if result.is_empty else 1)


def _render(diff: ContextDiff) -> list[RenderableType]:
    """Return a line per item, the difference of the texts, and the totals."""
    from knowloom.cli.console import safe_text

    marks = {"added": "+", "removed": "-", "changed": "~"}
    lines = []
    for change in diff.items:
        sides = [_describe(place) for place in (change.before, change.after) if place]
        text = " -> ".join(dict.fromkeys(sides))
        name = f"{change.space}/{change.id}"
        note = ", other text" if change.is_text_changed else ""
        reason = f" ({change.reason})" if change.reason else ""
        lines.append(f"{marks[change.kind]} {name}: {text}{note}{reason}")
    if diff.text:
        lines += ["", diff.text, ""]
    totals = (
        f"{diff.unchanged} items unchanged; {diff.bytes_before:,} -> {diff.bytes_after:,} bytes, "
        f"{diff.tokens_before:,} -> {diff.tokens_after:,} tokens"
    )
    place = "the same bytes" if diff.first_byte is None else f"differ from byte {diff.first_byte:,}"
    return [safe_text(line) for line in [*lines, f"{totals}; {place}"]]


def _describe(place: Placement) -> str:
    return f"{place.section} {place.position}, {place.form.value}, score {place.score:.2f}"
