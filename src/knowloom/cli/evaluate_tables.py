"""Evaluations, comparisons and tunings as people see them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from knowloom.cli.console import BAR, safe
from knowloom.evaluation.compare import Change, Comparison, asked, likely, points
from knowloom.evaluation.results import Answered, Evaluation
from knowloom.evaluation.tune import DEFAULTS, Tuning

MOST_QUESTIONS = 5  # of those that got worse
COLOURS = {True: "green", False: "red"}


def evaluation(found: Evaluation) -> list[RenderableType]:
    table = _table("", *((found.name, "right"),), "")
    for measure in found.measures:
        mean = found.mean(measure)
        table.add_row(measure, f"{100 * mean:.1f}", _bar(mean))
    return [_heading(found), table, *_latency([found])]


def comparison(found: Comparison) -> list[RenderableType]:
    before, after = found.before, found.after
    table = _table(
        "",
        (before.name, "right"),
        (after.name, "right"),
        ("difference", "right"),
        ("95 % interval", "right"),
        ("p", "right"),
        "",
    )
    for measure, one in found.differences.items():
        told = Text(points(one.mean), style=COLOURS[one.mean > 0] if one.real else "dim")
        same = not one.better and not one.worse
        between = "" if same else f"{points(one.low)} to {points(one.high)}"
        mark = (
            "the same"
            if same
            else ("better" if one.mean > 0 else "worse")
            if one.real
            else "perhaps chance"
        )
        p = "" if same else likely(one.p).removeprefix("p ").removeprefix("= ")
        style = "bold" if measure == found.headline else ""
        table.add_row(
            Text(measure, style),
            f"{100 * before.mean(measure):.1f}",
            f"{100 * after.mean(measure):.1f}",
            told,
            between,
            p,
            Text(mark, told.style),
        )
    return [
        _heading(after),
        table,
        *_latency([before, after]),
        "",
        Text(found.verdict, "bold"),
        *_worse(found),
    ]


def tuning(found: Tuning) -> list[RenderableType]:
    table = _table("number", ("default", "right"), ("set", "right"), ("found", "right"))
    for name in dict.fromkeys([*found.set_before, *found.found]):
        before, after = found.set_before.get(name), found.found.get(name)
        table.add_row(
            name,
            f"{DEFAULTS[name]:g}",
            "" if before is None else f"{before:g}",
            "" if after is None else f"{after:g}",
        )
    mean = f"{found.measure} on the {found.questions:,} training questions: {100 * found.before:.1f} as it is set, {100 * found.after:.1f} with what was found"
    told = Text(f"{mean}; {found.tried:,} configurations tried", "dim")
    return [
        *([table] if table.row_count else []),
        told,
        "",
        Text(found.verdict, "bold green" if found.adopted else "bold"),
    ]


def _heading(found: Evaluation) -> Text:
    return Text.assemble(
        (asked(len(found.answers)), "bold"),
        ("  means in %, times in ms without embedding the question", "dim"),
    )


def _latency(found: Sequence[Evaluation]) -> list[RenderableType]:
    """As they are compared, so close together that one sees which is slower."""
    table = _table("ms, p50 / p95", *((one.name, "right") for one in found))
    for call in found[0].latency():
        table.add_row(
            call, *(f"{p50:.1f} / {p95:.1f}" for p50, p95 in (one.latency()[call] for one in found))
        )
    return ["", table]


def _worse(found: Comparison) -> list[RenderableType]:
    worse = [change for change in found.changes() if change.by < 0]
    if not worse:
        return []
    table = _table(
        (f"got worse in {found.headline}", ""),
        ("by", "right"),
        "expected, and its place before and after",
    )
    for change in worse[:MOST_QUESTIONS]:
        table.add_row(_line(change.before.question.text), points(change.by), _line(places(change)))
    more = len(worse) - MOST_QUESTIONS
    return [
        "",
        table,
        *([Text(f"+{more:,} more (--html and --json list all)", "dim")] if more > 0 else []),
    ]


def places(change: Change) -> str:
    """refund-policy 1 → 4, refund-request not found → 2"""
    return ", ".join(
        f"{key[1]} {place(change.before, key)} → {place(change.after, key)}"
        for key in sorted(change.before.expected)
    )


def place(answer: Answered, key: tuple[str, str]) -> str:
    return str(answer.place(key) or "not found")


def _table(*columns: str | tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        name, justify = (column, "left") if isinstance(column, str) else column
        table.add_column(
            Text(safe(name)),
            justify="right" if justify == "right" else "left",
            no_wrap=justify == "right",
        )
    return table


def _bar(share: float) -> Text:
    full = round(BAR * share)
    return Text.assemble(("█" * full, "green"), ("░" * (BAR - full), "dim"))


def _line(text: str) -> Text:
    return Text(safe(" ".join(text.split())), overflow="ellipsis")
