"""Tables of evaluations, comparisons and tunings, for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from knowloom.cli.console import (
    create_table,
    hidden_rows,
    number_column,
    replace_control,
    share_bar,
)
from knowloom.evaluation.compare import (
    Comparison,
    QuestionChange,
    format_count,
    format_p,
    format_points,
)
from knowloom.evaluation.results import Evaluation, QuestionResult
from knowloom.evaluation.significance import Difference
from knowloom.evaluation.tune import DEFAULTS, Tuning

MAX_QUESTIONS = 5  # of those that got worse


def render_evaluation(evaluation: Evaluation) -> list[RenderableType]:
    table = create_table("", number_column(evaluation.name), "")
    for measure in evaluation.measures:
        mean = evaluation.mean(measure)
        table.add_row(measure, f"{100 * mean:.1f}", Text.assemble(*share_bar(mean)))
    return [_render_heading(evaluation), table, *_render_latency([evaluation])]


def render_comparison(comparison: Comparison) -> list[RenderableType]:
    before, after = comparison.before, comparison.after
    columns = (before.name, after.name, "difference", "95 % interval", "p")
    table = create_table("", *(number_column(name) for name in columns), "")
    for measure, difference in comparison.differences.items():
        means = (f"{100 * evaluation.mean(measure):.1f}" for evaluation in (before, after))
        style = "bold" if measure == comparison.headline else ""
        table.add_row(Text(measure, style), *means, *_render_difference(difference))
    return [
        _render_heading(after),
        table,
        *_render_latency([before, after]),
        "",
        Text(comparison.verdict, "bold"),
        *_render_worse(comparison),
    ]


def _render_difference(difference: Difference) -> tuple[Text, str, str, Text]:
    """Return the cells for the difference, its interval, its p-value and the verdict."""
    is_better = difference.mean > 0
    style = ("green" if is_better else "red") if difference.real else "dim"
    mean = Text(format_points(difference.mean), style=style)
    if not difference.better and not difference.worse:
        return mean, "", "", Text("the same", style)
    interval = f"{format_points(difference.low)} to {format_points(difference.high)}"
    p = format_p(difference.p).removeprefix("p ").removeprefix("= ")
    verdict = ("better" if is_better else "worse") if difference.real else "may be chance"
    return mean, interval, p, Text(verdict, style)


def render_tuning(tuning: Tuning) -> list[RenderableType]:
    columns = (number_column(name) for name in ("default", "current", "tuned"))
    table = create_table("setting", *columns)
    for name in dict.fromkeys([*tuning.current, *tuning.changes]):
        values = (tuning.current.get(name), tuning.changes.get(name))
        cells = ("" if value is None else f"{value:g}" for value in values)
        table.add_row(name, f"{DEFAULTS[name]:g}", *cells)
    means = f"{100 * tuning.before:.1f} before, {100 * tuning.after:.1f} after"
    summary = (
        f"{tuning.measure} on the {tuning.questions:,} training questions: {means}; "
        f"{tuning.tried:,} configurations tried"
    )
    return [
        *([table] if table.row_count else []),
        Text(summary, "dim"),
        "",
        Text(tuning.verdict, "bold green" if tuning.adopted else "bold"),
    ]


def _render_heading(evaluation: Evaluation) -> Text:
    return Text.assemble(
        (format_count(len(evaluation.answers)), "bold"),
        ("  means in %, times in ms without embedding the question", "dim"),
    )


def _render_latency(evaluations: Sequence[Evaluation]) -> list[RenderableType]:
    columns = (number_column(evaluation.name) for evaluation in evaluations)
    table = create_table("ms, p50 / p95", *columns)
    for call in evaluations[0].latency():
        times = (evaluation.latency()[call] for evaluation in evaluations)
        table.add_row(call, *(f"{p50:.1f} / {p95:.1f}" for p50, p95 in times))
    return ["", table]


def _render_worse(comparison: Comparison) -> list[RenderableType]:
    worse = [change for change in comparison.changes() if change.by < 0]
    if not worse:
        return []
    table = create_table(
        f"got worse in {comparison.headline}",
        number_column("by"),
        "expected items with their ranks before and after",
    )
    for change in worse[:MAX_QUESTIONS]:
        question = _single_line(change.before.question.text)
        table.add_row(question, format_points(change.by), _single_line(_format_places(change)))
    return ["", table, *hidden_rows(worse, "--html and --json list all", MAX_QUESTIONS)]


def _format_places(change: QuestionChange) -> str:
    """Return text such as: refund-policy 1 → 4, refund-request not found → 2."""
    return ", ".join(
        f"{key[1]} {_format_place(change.before, key)} → {_format_place(change.after, key)}"
        for key in sorted(change.before.expected)
    )


def _format_place(answer: QuestionResult, key: tuple[str, str]) -> str:
    return str(answer.rank(key) or "not found")


def _single_line(text: str) -> Text:
    return Text(replace_control(" ".join(text.split())), overflow="ellipsis")
