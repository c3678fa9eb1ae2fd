"""Plots as SVG text, drawn by hand: no script, no network, colours from the page. Every mark says its numbers in a title."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
ROW, TOP, BOTTOM = 26, 14, 40  # pixels
MORE = 8  # for every further mark in a row
RIGHT, NOTE = 16, 92  # free at the right; with room for a note
SERIES = ("before", "after")  # classes of the page, in the order of what is drawn
TICKS = 5  # steps of an axis, about


@dataclass(frozen=True, slots=True)
class Mark:
    """A value with its interval, in the units of the axis, and what a reader is told of it."""

    value: float
    low: float
    high: float
    told: str
    style: str = "after"
    note: str = ""  # written at the end of its row


Rows = Sequence[tuple[str, Sequence[Mark]]]


def dots(
    title: str, rows: Rows, *, least: float, most: float, label: int = 130, unit: str = "%"
) -> str:
    """One row a name: marks with their intervals along a shared axis. The line at 0 is drawn where the axis has both signs."""
    most, least = (most, least) if most > least else (least + 1, least)
    x = _scale(
        least,
        most,
        label,
        WIDTH - (NOTE if any(mark.note for _, marks in rows for mark in marks) else RIGHT),
    )
    row = ROW + MORE * (max(len(marks) for _, marks in rows) - 1)
    height = TOP + row * len(rows) + BOTTOM
    parts = [_axis(ticks(least, most), x, TOP, height - BOTTOM, unit)]
    if least < 0 < most:
        parts.append(
            f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>'
        )
    for place, (name, marks) in enumerate(rows):
        middle = TOP + row * (place + 0.5)
        if place and name.partition("@")[0] != rows[place - 1][0].partition("@")[0]:
            parts.append(
                f'<line class="grid" x1="0" x2="{WIDTH}" y1="{middle - row / 2:.1f}" y2="{middle - row / 2:.1f}"/>'
            )
        parts.append(
            f'<text class="name" x="{label - 12}" y="{middle + 4:.1f}">{escape(name)}</text>'
        )
        for number, mark in enumerate(marks):
            parts.append(_mark(mark, x, middle + (number - (len(marks) - 1) / 2) * 10))
            if mark.note:
                parts.append(
                    f'<text class="note end {mark.style}" x="{WIDTH}" y="{middle + 4:.1f}">{escape(mark.note)}</text>'
                )
    return _svg(title, height, parts)


def _mark(mark: Mark, x: Callable[[float], float], y: float) -> str:
    shape = f'<circle cx="{x(mark.value):.1f}" cy="{y:.1f}" r="4.5"/>'
    if mark.style in ("before", "chance"):  # told apart without colours, too
        shape = f'<rect x="{x(mark.value) - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    line = f'<line x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'<g class="mark {mark.style}"><title>{escape(mark.told)}</title>{line}{shape}</g>'


def lines(
    title: str,
    columns: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    width: int = 350,
) -> str:
    """Shares from 0 to 100 over a few columns, a line a series."""
    height, left = 220, 44
    y = _scale(0, 100, height - BOTTOM, TOP)
    x = _scale(0, max(1, len(columns) - 1), left + 24, width - 40)
    parts = []
    for tick in (0, 25, 50, 75, 100):
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(f'<text class="tick end" x="{left - 8}" y="{y(tick) + 4:.1f}">{tick}</text>')
    parts += [
        f'<text class="tick" x="{x(place):.1f}" y="{height - 12}">{escape(name)}</text>'
        for place, name in enumerate(columns)
    ]
    styles = SERIES[-len(series) :]
    for style, (name, values) in zip(styles, series, strict=True):
        path = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(values))
        parts.append(f'<polyline class="line {style}" points="{path}"/>')
        for place, value in enumerate(values):
            parts.append(
                _mark(
                    Mark(place, place, place, f"{name}, {columns[place]}: {value:.1f} %", style),
                    x,
                    y(value),
                )
            )
    return _svg(title, height, parts, width)


def steps(title: str, changes: Sequence[tuple[str, float]]) -> str:
    """Every question that changed, as a bar, worst first; differences in points."""
    height, left = 240, 52
    least, most = min(0.0, *(by for _, by in changes)), max(0.0, *(by for _, by in changes))
    y = _scale(least, most, height - TOP, TOP)
    parts = []
    for tick in ticks(least, most):
        parts.append(
            f'<line class="{"grid" if tick else "zero"}" x1="{left}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text class="tick end" x="{left - 8}" y="{y(tick) + 4:.1f}">{signed(tick)}</text>'
        )
    step = (WIDTH - RIGHT - left) / len(changes)
    for place, (told, by) in enumerate(changes):
        top, bottom = sorted((y(by), y(0)))
        style = "better" if by > 0 else "worse"
        wide = max(0.5, min(28.0, step * 0.8))
        box = f'x="{left + step * (place + 0.5) - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{max(1.0, bottom - top):.1f}"'
        parts.append(f'<rect class="{style}" {box}><title>{escape(told)}</title></rect>')
    return _svg(title, height, parts)


def ticks(least: float, most: float) -> list[float]:
    """Round numbers inside the range, about five of them, 0 among them if it is inside."""
    span = most - least
    raw = span / TICKS if span > 0 else 1.0
    power = 10.0 ** len(f"{int(raw)}") / 10 if raw >= 1 else 0.1 if raw >= 0.1 else 0.01
    step = next((power * part for part in (1, 2, 2.5, 5, 10) if power * part >= raw), power * 10)
    first = -int(-least / step) if least < 0 else int(-(-least // step))
    found = []
    while first * step <= most + 1e-9:
        found.append(round(first * step, 6))
        first += 1
    return found


def signed(number: float) -> str:
    return "0" if not number else f"{number:+g}".replace("-", "−")


def _axis(
    at: Sequence[float], x: Callable[[float], float], top: float, bottom: float, unit: str
) -> str:
    parts = []
    for tick in at:
        parts.append(
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{bottom}"/>'
        )
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 20}">{f"{tick:g}".replace("-", "−")}</text>'
        )
    parts.append(f'<text class="tick end unit" x="{WIDTH}" y="{bottom + 33}">{escape(unit)}</text>')
    return "".join(parts)


def _scale(least: float, most: float, start: float, end: float) -> Callable[[float], float]:
    span = (most - least) or 1.0
    return lambda value: start + (end - start) * (value - least) / span


def _svg(title: str, height: float, parts: Sequence[str], width: int = WIDTH) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>{inner}</svg>'
