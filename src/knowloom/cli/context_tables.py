"""Tables that explain a context: tokens used, items chosen, items left out, for terminals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from knowloom.cli.console import (
    MAX_ROWS,
    create_table,
    hidden_rows,
    id_column,
    number_column,
    safe_text,
    share_bar,
    single_line,
)
from knowloom.context.citations import SOURCES
from knowloom.model import Chosen, Context, LeftOut
from knowloom.wire.contexts import describe_match, format_score

REASON_WIDTH = 14  # columns
_ARGUMENT = re.compile(r"(\w+)=([^\s,]+)")
_SPACES = re.compile(r"^spaces=\['(.+)'\]$")

Candidate = TypeVar("Candidate", Chosen, LeftOut)


def render_explanation(context: Context, ids: Sequence[str] = ()) -> list[RenderableType]:
    """Render all tables of a context; only these items, if any are named."""
    summary = (render_token_bar(context), render_parts(context))
    return [*summary, "", render_chosen(context, ids), "", render_left_out(context, ids)]


def render_panel(context: Context) -> Panel:
    return Panel(
        safe_text(context.text),
        title=single_line(context.query.text),
        title_align="left",
        border_style="dim",
        padding=(1, 2),
    )


def render_token_bar(context: Context) -> Text:
    """Return a line such as: tokens ████████░░ 1,834 of 2,000 (cl100k_base)."""
    budget = context.query.max_tokens
    counter = (f"({context.stats.token_counter})", "dim")
    if budget is None:
        return Text.assemble(("tokens ", "bold"), f"{context.tokens:,}, no limit ", counter)
    bar = share_bar(context.tokens / budget if budget else 1.0)
    return Text.assemble(("tokens ", "bold"), *bar, f" {context.tokens:,} of {budget:,} ", counter)


def render_parts(context: Context) -> Text:
    """Return a line such as: entry_points: 8 items, 412 tokens · context: 2 items, 211 tokens."""
    parts = (
        f"{part.name}: {_count_items(len(part.chosen))}, {part.tokens:,} tokens"
        if part.name != SOURCES
        else f"{part.name}: {part.tokens:,} tokens"
        for part in context.fragments
    )
    sure = () if context.confidence is None else (f"confidence {format_score(context.confidence)}",)
    return Text(" · ".join((*parts, *sure)), style="dim")


def render_chosen(context: Context, ids: Sequence[str] = ()) -> RenderableType:
    parts = [(part.name, _with_ids(part.chosen, ids)) for part in context.fragments]
    ids_first = id_column((item.hit for _, items in parts for item in items), "In the text")
    table = create_table(ids_first, "form", number_column("tokens"), number_column("score"), "why")
    for name, items in parts:
        if items:
            table.add_row(Text(name, "bold"))
        for item in items:
            why = describe_match(item.hit).removeprefix("found by ")
            table.add_row(
                Text(f"  {item.hit.item.id}"),
                item.form.value,
                f"{item.tokens:,}",
                format_score(item.hit.score),
                safe_text(why),
            )
    if table.row_count:
        return table
    return Text(f"None of {'these' if ids else 'the'} items is in the text", "yellow")


def render_left_out(
    context: Context, ids: Sequence[str] = (), max_rows: int = MAX_ROWS
) -> RenderableType:
    """Render the best items left out, why, and which option would bring them in."""
    rows = sorted(
        _with_ids(context.left_out, ids),
        key=lambda row: (-row.hit.score, row.hit.item.id, row.fragment),
    )
    if not rows:
        return Text(f"None of {'these' if ids else 'the'} items was left out", "dim")
    table = create_table(
        id_column((row.hit for row in rows[:max_rows]), "Not in the text"),
        "part",
        number_column("tokens"),
        number_column("score"),
        ("reason", {"max_width": None if ids else REASON_WIDTH}),
        "what would bring it in",
        gap=1,
    )
    for row in rows[:max_rows]:
        table.add_row(
            Text(row.hit.item.id),
            row.fragment,
            f"{row.tokens:,}" if row.tokens else "",
            format_score(row.hit.score) if row.hit.found_by else "",
            safe_text(_shorten_reason(row.reason)),
            Text(_to_option(row.remedy), "cyan"),
        )
    return Group(table, *hidden_rows(rows, "knowloom explain --json lists all", max_rows))


def _count_items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _with_ids(candidates: Sequence[Candidate], ids: Sequence[str]) -> list[Candidate]:
    return [row for row in candidates if not ids or row.hit.item.id in ids]


def _shorten_reason(reason: str) -> str:
    """Return the common reasons, which are whole sentences, in a few words."""
    if reason.startswith("outweighed"):
        return "outweighed"
    return reason.replace(" of the candidates", "")


def _to_option(remedy: str) -> str:
    """Return the engine's argument as an option of the command.

    "max_tokens=945 shows it (whole)" becomes "--max-tokens 945 (whole)".
    """
    if " in the recipe " in remedy:  # no option can set it
        return remedy
    argument = _SPACES.sub(r"space=\1", remedy.replace(" shows it", ""))
    return _ARGUMENT.sub(lambda match: f"--{match[1].replace('_', '-')} {match[2]}", argument)
