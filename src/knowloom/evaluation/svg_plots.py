"""Plots as SVG: no scripts, no network, colours from the page, numbers in tooltips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
ROW_HEIGHT, TOP, BOTTOM = 26, 14, 40  # pixels
EXTRA_MARK = 8  # height of each further mark in a row
RIGHT_MARGIN, NOTE_MARGIN = 16, 92  # without and with notes
SERIES = ("before", "after")  # CSS classes, in drawing order
TICKS = 5  # approximate number of ticks on an axis


@dataclass(frozen=True, slots=True)
class Mark:
    """A value with its interval in axis units, and its tooltip."""

    value: float
    low: float
    high: float
    tooltip: str
    style: str = "after"
    note: str = ""  # at the end of the row


Rows = Sequence[tuple[str, Sequence[Mark]]]
Scale = Callable[[float], float]


def draw_dots(
    title: str, rows: Rows, *, low: float, high: float, label: int = 130, unit: str = "%"
) -> str:
    """Draw one row per name: marks with intervals on a shared axis, and a line at 0."""
    high = high if high > low else low + 1
    has_notes = any(mark.note for _, marks in rows for mark in marks)
    x = _scale(low, high, label, WIDTH - (NOTE_MARGIN if has_notes else RIGHT_MARGIN))
    row_height = ROW_HEIGHT + EXTRA_MARK * (max(len(marks) for _, marks in rows) - 1)
    height = TOP + row_height * len(rows) + BOTTOM
    parts = [_axis(axis_ticks(low, high), x, TOP, height - BOTTOM, unit)]
    if low < 0 < high:
        parts.append(_line("zero", x(0), x(0), TOP, height - BOTTOM))
    for number, (name, marks) in enumerate(rows):
        middle = TOP + row_height * (number + 0.5)
        if number and name.partition("@")[0] != rows[number - 1][0].partition("@")[0]:
            parts.append(_line("grid", 0, WIDTH, middle - row_height / 2, middle - row_height / 2))
        parts.append(_text("name", label - 12, middle + 4, name))
        for position, mark in enumerate(marks):
            parts.append(_mark(mark, x, middle + (position - (len(marks) - 1) / 2) * 10))
            if mark.note:
                parts.append(_text(f"note end {mark.style}", WIDTH, middle + 4, mark.note))
    return _svg(title, height, parts)


def draw_lines(
    title: str,
    columns: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    width: int = 350,
) -> str:
    """Draw a line per series over a few columns, with values from 0 to 100."""
    height, left = 220, 44
    y = _scale(0, 100, height - BOTTOM, TOP)
    x = _scale(0, max(1, len(columns) - 1), left + 24, width - 40)
    parts = []
    for tick in (0, 25, 50, 75, 100):
        parts.append(_line("grid", left, width - RIGHT_MARGIN, y(tick), y(tick)))
        parts.append(_text("tick end", left - 8, y(tick) + 4, str(tick)))
    for number, name in enumerate(columns):
        parts.append(_text("tick", x(number), height - 12, name))
    for style, (name, values) in zip(SERIES[-len(series) :], series, strict=True):
        points = " ".join(f"{x(number):.1f},{y(value):.1f}" for number, value in enumerate(values))
        parts.append(f'<polyline class="line {style}" points="{points}"/>')
        for number, value in enumerate(values):
            tooltip = f"{name}, {columns[number]}: {value:.1f} %"
            parts.append(_mark(Mark(number, number, number, tooltip, style), x, y(value)))
    return _svg(title, height, parts, width)


def draw_steps(title: str, changes: Sequence[tuple[str, float]]) -> str:
    """Draw a bar per changed question, worst first, in points."""
    height, left = 240, 52
    values = [by for _, by in changes]
    low, high = min(0.0, *values), max(0.0, *values)
    y = _scale(low, high, height - TOP, TOP)
    parts = []
    for tick in axis_ticks(low, high):
        style = "grid" if tick else "zero"
        parts.append(_line(style, left, WIDTH - RIGHT_MARGIN, y(tick), y(tick)))
        parts.append(_text("tick end", left - 8, y(tick) + 4, format_signed(tick)))
    step = (WIDTH - RIGHT_MARGIN - left) / len(changes)
    bar = max(0.5, min(28.0, step * 0.8))
    for number, (tooltip, by) in enumerate(changes):
        top, bottom = sorted((y(by), y(0)))
        style = "better" if by > 0 else "worse"
        start = left + step * (number + 0.5) - bar / 2
        parts.append(
            f'<rect class="{style}" x="{start:.1f}" y="{top:.1f}" width="{bar:.1f}" '
            f'height="{max(1.0, bottom - top):.1f}"><title>{escape(tooltip)}</title></rect>'
        )
    return _svg(title, height, parts)


def axis_ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers inside the range, including 0 if it is inside."""
    span = high - low
    raw = span / TICKS if span > 0 else 1.0
    power = 10.0 ** len(f"{int(raw)}") / 10 if raw >= 1 else 0.1 if raw >= 0.1 else 0.01
    step = next((power * part for part in (1, 2, 2.5, 5, 10) if power * part >= raw), power * 10)
    multiple = -int(-low / step) if low < 0 else int(-(-low // step))
    ticks = []
    while multiple * step <= high + 1e-9:
        ticks.append(round(multiple * step, 6))
        multiple += 1
    return ticks


def format_signed(number: float) -> str:
    return "0" if not number else f"{number:+g}".replace("-", "−")


def _mark(mark: Mark, x: Scale, y: float) -> str:
    shape = f'<circle cx="{x(mark.value):.1f}" cy="{y:.1f}" r="4.5"/>'
    if mark.style in ("before", "chance"):  # distinguishable without colour
        shape = f'<rect x="{x(mark.value) - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    line = f'<line x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'<g class="mark {mark.style}"><title>{escape(mark.tooltip)}</title>{line}{shape}</g>'


def _axis(ticks: Sequence[float], x: Scale, top: float, bottom: float, unit: str) -> str:
    parts = []
    for tick in ticks:
        parts.append(_line("grid", x(tick), x(tick), top, bottom))
        parts.append(_text("tick", x(tick), bottom + 20, f"{tick:g}".replace("-", "−")))
    parts.append(_text("tick end unit", WIDTH, bottom + 33, unit))
    return "".join(parts)


def _line(style: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    span = (high - low) or 1.0
    return lambda value: start + (end - start) * (value - low) / span


def _svg(title: str, height: float, parts: Sequence[str], width: int = WIDTH) -> str:
    name = escape(title)
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{name}">'
        f"<title>{name}</title>{''.join(parts)}</svg>"
    )
