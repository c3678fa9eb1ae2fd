"""An evaluation or a comparison as one HTML page that needs nothing else: plots, numbers, and the questions that changed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from knowloom.evaluation import svg_plots
from knowloom.evaluation.compare import Change, Comparison, asked, likely, points
from knowloom.evaluation.results import Answered, Evaluation
from knowloom.evaluation.significance import interval
from knowloom.evaluation.svg_plots import Mark
from knowloom.model import Key

SHOWN = 20  # rows of a list; the rest can be unfolded
_KEYS = '<span class="key"><i class="{style}" aria-hidden="true"></i>{name}</span>'
_LINES = (
    ("recall", "Recall: the share of what was expected among the best k"),
    ("evidence", "Evidence: the share shown whole inside a token budget"),
)


def page(found: Evaluation | Comparison, seed: int = 0) -> str:
    """The whole page. `seed` is that of the intervals."""
    compared = found if isinstance(found, Comparison) else None
    both = [found.before, found.after] if isinstance(found, Comparison) else [found]
    title = f"{both[-1].name} against {both[0].name}" if compared else f"Evaluation: {both[0].name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">{asked(len(both[0].answers))}{_options(both)}. Means in percent, with 95 % intervals of a bootstrap over the questions.</p>',
        *([_verdict(compared)] if compared else []),
        _measures(both, seed),
        *([_differences(compared)] if compared else []),
        _lines(both),
        *([_steps(compared)] if compared else []),
        _latency(both),
        _numbers(both, compared),
        *(_changed(compared) if compared else [_unfound(both[0])]),
    ]
    style = Path(__file__).with_name("report.css").read_text("utf-8")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title><style>{style}</style>'
    inner = "\n".join(part for part in body if part)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{inner}\n</main></body></html>\n'


def _options(both: Sequence[Evaluation]) -> str:
    problems = [problem for one in both for problem in one.problems]
    return f"; degraded: {escape('; '.join(dict.fromkeys(problems)))}" if problems else ""


def _verdict(found: Comparison) -> str:
    one = found.differences[found.headline]
    style = ("better" if one.mean > 0 else "worse") if one.real else "chance"
    return f'<div class="verdict {style}" role="note"><p>{escape(found.verdict)}</p></div>'


def _measures(both: Sequence[Evaluation], seed: int) -> str:
    styles = svg_plots.SERIES[-len(both) :]
    names = [name for name in both[0].measures if all(name in one.measures for one in both)]
    rows = [
        (name, [_mean(one, name, seed, style) for one, style in zip(both, styles, strict=True)])
        for name in names
    ]
    drawn = svg_plots.dots("Means of all measures with their intervals", rows, least=0, most=100)
    return f"<h2>Measures</h2>{_figure(drawn, [(style, one.name) for style, one in zip(styles, both, strict=True)])}"


def _mean(found: Evaluation, measure: str, seed: int, style: str) -> Mark:
    values = found.values(measure)
    low, high = interval(values, np.random.default_rng(seed))
    mean = found.mean(measure)
    return Mark(
        100 * mean,
        100 * low,
        100 * high,
        f"{found.name}: {measure} {100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})",
        style,
    )


def _differences(found: Comparison) -> str:
    rows = []
    for name, one in found.differences.items():
        style = ("better" if one.mean > 0 else "worse") if one.real else "chance"
        told = f"{name}: {points(one.mean)} points ({points(one.low)} to {points(one.high)}, {likely(one.p)})"
        rows.append(
            (
                name,
                [
                    Mark(
                        100 * one.mean, 100 * one.low, 100 * one.high, told, style, points(one.mean)
                    )
                ],
            )
        )
    ends = [0.0, *(end for _, marks in rows for mark in marks for end in (mark.low, mark.high))]
    room = max(1.0, 0.05 * (max(ends) - min(ends)))
    drawn = svg_plots.dots(
        "Differences of all measures with their intervals",
        rows,
        least=min(ends) - room,
        most=max(ends) + room,
        unit="points",
    )
    keys = [("better", "better"), ("worse", "worse"), ("chance", "may be chance")]
    about = (
        f"Each question is asked both ways. A difference counts as real if its interval leaves out 0 and swapping the two at random gives as "
        f"much in fewer than 5 of 100 tries. Of {len(rows)} measures one may seem real by chance: decide which one matters before you look."
    )
    return f'<h2>Differences</h2><p class="quiet">{about}</p>{_figure(drawn, keys)}'


def _lines(both: Sequence[Evaluation]) -> str:
    figures = []
    for family, caption in _LINES:
        names = [
            name
            for name in both[0].measures
            if name.startswith(f"{family}@") and all(name in one.measures for one in both)
        ]
        if len(names) > 1:
            series = [(one.name, [100 * one.mean(name) for name in names]) for one in both]
            drawn = svg_plots.lines(caption, [name.partition("@")[2] for name in names], series)
            figures.append(
                f"<figure tabindex=0><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"
            )
    return (
        f'<h2>More room, more found</h2><div class="pair">{"".join(figures)}</div>'
        if figures
        else ""
    )


def _steps(found: Comparison) -> str:
    changes = found.changes()
    if not changes:
        return ""
    drawn = svg_plots.steps(
        f"Change of {found.headline} of every question that changed",
        [(_told(one), 100 * one.by) for one in changes],
    )
    same = found.differences[found.headline].equal
    caption = f"{found.headline} of every question that changed, in points, worst first; {asked(same)} stayed the same."
    return f"<h2>Question by question</h2><figure tabindex=0><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"


def _told(change: Change) -> str:
    return f"{change.before.question.text} ({points(change.by)})"


def _latency(both: Sequence[Evaluation]) -> str:
    styles = svg_plots.SERIES[-len(both) :]
    found = [one.latency() for one in both]
    rows = [
        (
            call,
            [
                Mark(
                    times[call][0],
                    *times[call],
                    f"{one.name}: p50 {times[call][0]:.1f} ms, p95 {times[call][1]:.1f} ms",
                    style,
                )
                for one, times, style in sets
            ],
        )
        for call in found[0]
        for sets in [list(zip(both, found, styles, strict=True))]
    ]
    most = max(mark.high for _, marks in rows for mark in marks)
    drawn = svg_plots.dots(
        "Time of each call, from the median to the 95th percentile",
        rows,
        least=0,
        most=most * 1.05,
        unit="milliseconds",
    )
    keys = [(style, one.name) for style, one in zip(styles, both, strict=True)]
    return f'<h2>Time</h2><p class="quiet">From the median to the 95th percentile, without embedding the question.</p>{_figure(drawn, keys)}'


def _numbers(both: Sequence[Evaluation], compared: Comparison | None) -> str:
    more = ("difference", "95 % interval", "p", "better", "worse") if compared else ()
    head = "".join(
        f'<th scope="col" class="number">{escape(name)}</th>'
        for name in (*(one.name for one in both), *more)
    )
    rows = []
    for name in compared.differences if compared else both[0].measures:
        cells = [f"{100 * one.mean(name):.1f}" for one in both]
        if compared:
            one = compared.differences[name]
            same = not one.better and not one.worse
            interval_told = "" if same else f"{points(one.low)} to {points(one.high)}"
            cells += [
                points(one.mean),
                interval_told,
                "" if same else likely(one.p)[2:].removeprefix("= "),
                f"{one.better:,}",
                f"{one.worse:,}",
            ]
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td class=number>{escape(cell)}</td>" for cell in cells)}</tr>'
        )
    return f'<h2>All numbers</h2><div class="table"><table><thead><tr><th scope="col">measure</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _changed(found: Comparison) -> list[str]:
    changes = found.changes()
    worse, better = (
        [one for one in changes if one.by < 0],
        [one for one in reversed(changes) if one.by > 0],
    )
    return [_list("Got worse", worse, found), _list("Got better", better, found)]


def _list(title: str, changes: Sequence[Change], found: Comparison) -> str:
    if not changes:
        return f'<h2>{title}</h2><p class="quiet">No question, in {escape(found.headline)}.</p>'
    columns = (
        "question",
        found.headline,
        f"expected: place with {found.before.name} → with {found.after.name}",
    )
    rows = [
        _row(
            one.before,
            points(one.by),
            "better" if one.by > 0 else "worse",
            [(key, f"{_place(one.before, key)} → {_place(one.after, key)}") for key in keys],
        )
        for one in changes
        for keys in [sorted(one.before.expected)]
    ]
    return f"<h2>{title}: {asked(len(changes))}</h2>{_unfolding(columns, rows)}"


def _unfound(found: Evaluation) -> str:
    """Questions that did not find everything, the worst first."""
    measure = next((name for name in found.measures if name.startswith("nDCG")), found.measures[0])
    below = sorted(
        (one for one in found.answers if one.values[measure] < 1),
        key=lambda one: (one.values[measure], one.question.id),
    )
    if not below:
        return "<h2>Every question found all it expects, first of all</h2>"
    rows = [
        _row(
            one,
            f"{100 * one.values[measure]:.1f}",
            "",
            [(key, _place(one, key)) for key in sorted(one.expected)],
        )
        for one in below
    ]
    return f"<h2>Not perfect: {asked(len(below))}</h2>{_unfolding(('question', measure, 'expected, and its place'), rows)}"


def _row(answer: Answered, number: str, style: str, expected: Sequence[tuple[Key, str]]) -> str:
    places = "".join(
        f'<span class="place"><code>{escape(key[1])}</code> {escape(told)}</span>'
        for key, told in expected
    )
    return f'<tr><td>{escape(answer.question.text)}</td><td class="number {style}">{escape(number)}</td><td>{places}</td></tr>'


def _unfolding(columns: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(
        f'<th scope="col"{" class=number" if place == 1 else ""}>{escape(name)}</th>'
        for place, name in enumerate(columns)
    )

    def table(part: Sequence[str]) -> str:
        return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{"".join(part)}</tbody></table></div>'

    rest = rows[SHOWN:]
    return table(rows[:SHOWN]) + (
        f"<details><summary>{len(rest):,} more</summary>{table(rest)}</details>" if rest else ""
    )


def _place(answer: Answered, key: Key) -> str:
    return str(answer.place(key) or "not found")


def _figure(drawn: str, keys: Sequence[tuple[str, str]]) -> str:
    told = "".join(_KEYS.format(style=style, name=escape(name)) for style, name in keys)
    return f"<figure tabindex=0><figcaption>{told}</figcaption>{drawn}</figure>"
