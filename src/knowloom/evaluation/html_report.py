"""An evaluation or a comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from knowloom.evaluation import svg_plots
from knowloom.evaluation.compare import (
    Comparison,
    QuestionChange,
    format_count,
    format_p,
    format_points,
)
from knowloom.evaluation.results import Evaluation, QuestionResult
from knowloom.evaluation.significance import Difference, bootstrap_interval
from knowloom.evaluation.svg_plots import Mark
from knowloom.model import Key

MAX_ROWS = 20  # of a table; the rest is in a <details> element
CURVES = (
    ("recall", "Recall: share of the expected items among the top k"),
    ("evidence", "Evidence: share of the facts or expected items shown within a token budget"),
)
METHOD = (
    "Each question is run both ways. A difference is significant if its interval excludes 0 and "
    "randomly swapping the two gives as much in fewer than 5 of 100 trials. Of {count} measures "
    "one may seem significant by chance: choose the one that matters before looking."
)
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" \
content="width=device-width, initial-scale=1"><title>{title}</title><style>{style}</style></head>
<body><main>
{body}
</main></body></html>
"""


def render_page(result: Evaluation | Comparison, seed: int = 0) -> str:
    """Return the page. `seed` is that of the bootstrap intervals."""
    comparison = result if isinstance(result, Comparison) else None
    evaluations = [result.before, result.after] if isinstance(result, Comparison) else [result]
    names = [evaluation.name for evaluation in evaluations]
    title = f"{names[-1]} compared with {names[0]}" if comparison else f"Evaluation: {names[0]}"
    questions = format_count(len(evaluations[0].answers))
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">{questions}{_problems(evaluations)}. Means in percent, with 95 % '
        "bootstrap intervals over the questions.</p>",
        _verdict(comparison) if comparison else "",
        _measures(evaluations, seed),
        _differences(comparison) if comparison else "",
        _curves(evaluations),
        _changes_by_question(comparison) if comparison else "",
        _latency(evaluations),
        _numbers(evaluations, comparison),
        *(_changed_questions(comparison) if comparison else [_imperfect(evaluations[0])]),
    ]
    style = Path(__file__).with_name("report.css").read_text("utf-8")
    sections = "\n".join(section for section in body if section)
    return PAGE.format(title=escape(title), style=style, body=sections)


def _problems(evaluations: Sequence[Evaluation]) -> str:
    problems = dict.fromkeys(p for evaluation in evaluations for p in evaluation.problems)
    return f"; degraded: {escape('; '.join(problems))}" if problems else ""


def _verdict(comparison: Comparison) -> str:
    style = _style(comparison.differences[comparison.headline])
    return f'<div class="verdict {style}" role="note"><p>{escape(comparison.verdict)}</p></div>'


def _style(difference: Difference) -> str:
    if not difference.real:
        return "chance"
    return "better" if difference.mean > 0 else "worse"


def _measures(evaluations: Sequence[Evaluation], seed: int) -> str:
    styles = svg_plots.SERIES[-len(evaluations) :]
    pairs = list(zip(evaluations, styles, strict=True))
    rows = [
        (name, [_mean_mark(evaluation, name, seed, style) for evaluation, style in pairs])
        for name in _shared_measures(evaluations)
    ]
    title = "Means of all measures with their intervals"
    plot = svg_plots.draw_dots(title, rows, low=0, high=100)
    return f"<h2>Measures</h2>{_figure(plot, [(style, e.name) for e, style in pairs])}"


def _shared_measures(evaluations: Sequence[Evaluation]) -> list[str]:
    return [
        name
        for name in evaluations[0].measures
        if all(name in evaluation.measures for evaluation in evaluations)
    ]


def _mean_mark(evaluation: Evaluation, measure: str, seed: int, style: str) -> Mark:
    values = evaluation.values(measure)
    interval = bootstrap_interval(values, np.random.default_rng(seed))
    low, high = (100 * end for end in interval)
    mean = 100 * evaluation.mean(measure)
    tooltip = f"{evaluation.name}: {measure} {mean:.1f} ({low:.1f} to {high:.1f})"
    return Mark(mean, low, high, tooltip, style)


def _differences(comparison: Comparison) -> str:
    rows = [
        (name, [_difference_mark(name, difference)])
        for name, difference in comparison.differences.items()
    ]
    ends = [0.0, *(end for _, marks in rows for mark in marks for end in (mark.low, mark.high))]
    margin = max(1.0, 0.05 * (max(ends) - min(ends)))
    plot = svg_plots.draw_dots(
        "Differences of all measures with their intervals",
        rows,
        low=min(ends) - margin,
        high=max(ends) + margin,
        unit="points",
    )
    legend = [("better", "better"), ("worse", "worse"), ("chance", "may be chance")]
    method = METHOD.format(count=len(rows))
    return f'<h2>Differences</h2><p class="quiet">{method}</p>{_figure(plot, legend)}'


def _difference_mark(name: str, difference: Difference) -> Mark:
    mean, low, high = difference.mean, difference.low, difference.high
    interval = f"{format_points(low)} to {format_points(high)}, {format_p(difference.p)}"
    tooltip = f"{name}: {format_points(mean)} points ({interval})"
    style, note = _style(difference), format_points(mean)
    return Mark(100 * mean, 100 * low, 100 * high, tooltip, style, note)


def _curves(evaluations: Sequence[Evaluation]) -> str:
    figures = []
    for family, caption in CURVES:
        names = [n for n in _shared_measures(evaluations) if n.startswith(f"{family}@")]
        if len(names) > 1:
            series = [(e.name, [100 * e.mean(name) for name in names]) for e in evaluations]
            columns = [name.partition("@")[2] for name in names]
            figures.append(_captioned(caption, svg_plots.draw_lines(caption, columns, series)))
    if not figures:
        return ""
    return f'<h2>Larger limits and budgets</h2><div class="pair">{"".join(figures)}</div>'


def _changes_by_question(comparison: Comparison) -> str:
    changes = comparison.changes()
    if not changes:
        return ""
    measure, same = comparison.headline, comparison.differences[comparison.headline].equal
    title = f"Change of {measure} per question"
    plot = svg_plots.draw_steps(title, [(_describe(c), 100 * c.by) for c in changes])
    caption = f"{title} in points, worst first; {format_count(same)} unchanged."
    return f"<h2>Question by question</h2>{_captioned(caption, plot)}"


def _captioned(caption: str, plot: str) -> str:
    return f"<figure tabindex=0><figcaption>{escape(caption)}</figcaption>{plot}</figure>"


def _describe(change: QuestionChange) -> str:
    return f"{change.before.question.text} ({format_points(change.by)})"


def _latency(evaluations: Sequence[Evaluation]) -> str:
    styles = svg_plots.SERIES[-len(evaluations) :]
    timed = [(e, e.latency(), style) for e, style in zip(evaluations, styles, strict=True)]
    rows = [
        (
            call,
            [_latency_mark(evaluation, *times[call], style) for evaluation, times, style in timed],
        )
        for call in timed[0][1]
    ]
    longest = max(mark.high for _, marks in rows for mark in marks)
    title = "Time of each call, from the median to the 95th percentile"
    plot = svg_plots.draw_dots(title, rows, low=0, high=longest * 1.05, unit="milliseconds")
    legend = [(style, evaluation.name) for evaluation, _, style in timed]
    note = "From the median to the 95th percentile, without embedding the query."
    return f'<h2>Time</h2><p class="quiet">{note}</p>{_figure(plot, legend)}'


def _latency_mark(evaluation: Evaluation, p50: float, p95: float, style: str) -> Mark:
    return Mark(p50, p50, p95, f"{evaluation.name}: p50 {p50:.1f} ms, p95 {p95:.1f} ms", style)


def _numbers(evaluations: Sequence[Evaluation], comparison: Comparison | None) -> str:
    columns = [evaluation.name for evaluation in evaluations]
    if comparison:
        columns += ["difference", "95 % interval", "p", "better", "worse"]
    head = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in columns)
    rows = []
    for measure in comparison.differences if comparison else evaluations[0].measures:
        cells = [f"{100 * evaluation.mean(measure):.1f}" for evaluation in evaluations]
        if comparison:
            cells += _difference_cells(comparison.differences[measure])
        numbers = "".join(f"<td class=number>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{escape(measure)}</th>{numbers}</tr>')
    return (
        '<h2>All numbers</h2><div class="table"><table><thead><tr><th scope="col">measure</th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _difference_cells(difference: Difference) -> list[str]:
    interval = p = ""
    if difference.better or difference.worse:
        interval = f"{format_points(difference.low)} to {format_points(difference.high)}"
        p = format_p(difference.p)[2:].removeprefix("= ")
    counts = [f"{difference.better:,}", f"{difference.worse:,}"]
    return [format_points(difference.mean), interval, p, *counts]


def _changed_questions(comparison: Comparison) -> list[str]:
    changes = comparison.changes()
    worse = [change for change in changes if change.by < 0]
    better = [change for change in reversed(changes) if change.by > 0]
    return [
        _change_table("Got worse", worse, comparison),
        _change_table("Got better", better, comparison),
    ]


def _change_table(title: str, changes: Sequence[QuestionChange], comparison: Comparison) -> str:
    headline, before, after = comparison.headline, comparison.before.name, comparison.after.name
    if not changes:
        return f'<h2>{title}</h2><p class="quiet">No question, in {escape(headline)}.</p>'
    columns = ("question", headline, f"expected: rank with {before} → with {after}")
    rows = []
    for change in changes:
        ranks = [
            (key, f"{_rank(change.before, key)} → {_rank(change.after, key)}")
            for key in sorted(change.before.expected)
        ]
        style = "better" if change.by > 0 else "worse"
        rows.append(_question_row(change.before, format_points(change.by), style, ranks))
    return f"<h2>{title}: {format_count(len(changes))}</h2>{_folded_table(columns, rows)}"


def _imperfect(evaluation: Evaluation) -> str:
    """List the questions with imperfect rankings, worst first."""
    measures = evaluation.measures
    measure = next((name for name in measures if name.startswith("nDCG")), measures[0])
    answers = sorted(
        (answer for answer in evaluation.answers if answer.values[measure] < 1),
        key=lambda answer: (answer.values[measure], answer.question.id),
    )
    if not answers:
        return "<h2>All questions rank their expected items first</h2>"
    rows = [
        _question_row(
            answer,
            f"{100 * answer.values[measure]:.1f}",
            "",
            [(key, _rank(answer, key)) for key in sorted(answer.expected)],
        )
        for answer in answers
    ]
    columns = ("question", measure, "expected items with their ranks")
    return f"<h2>Not perfect: {format_count(len(answers))}</h2>{_folded_table(columns, rows)}"


def _question_row(
    answer: QuestionResult, number: str, style: str, ranks: Sequence[tuple[Key, str]]
) -> str:
    places = "".join(
        f'<span class="place"><code>{escape(key[1])}</code> {escape(rank)}</span>'
        for key, rank in ranks
    )
    value = f'<td class="number {style}">{escape(number)}</td>'
    return f"<tr><td>{escape(answer.question.text)}</td>{value}<td>{places}</td></tr>"


def _folded_table(columns: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(
        f'<th scope="col"{" class=number" if number == 1 else ""}>{escape(name)}</th>'
        for number, name in enumerate(columns)
    )

    def table(part: Sequence[str]) -> str:
        body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(part)}</tbody>"
        return f'<div class="table"><table>{body}</table></div>'

    rest = rows[MAX_ROWS:]
    more = f"<details><summary>{len(rest):,} more</summary>{table(rest)}</details>" if rest else ""
    return table(rows[:MAX_ROWS]) + more


def _rank(answer: QuestionResult, key: Key) -> str:
    return str(answer.rank(key) or "not found")


def _figure(plot: str, legend: Sequence[tuple[str, str]]) -> str:
    entries = "".join(
        f'<span class="key"><i class="{style}" aria-hidden="true"></i>{escape(name)}</span>'
        for style, name in legend
    )
    return f"<figure tabindex=0><figcaption>{entries}</figcaption>{plot}</figure>"
