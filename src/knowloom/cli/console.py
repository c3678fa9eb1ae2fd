"""Building blocks of terminal output with rich: consoles, progress bars, tables and safe text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

from knowloom.model import Hit

PLAIN_WIDTH = 120  # columns when the output goes to a file or another program
BAR_WIDTH = 24
MAX_ROWS = 20  # of lists that may be long
LONG_ID = 45  # characters; longer ids are wrapped
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

ColumnSettings = Mapping[str, Any]
ColumnSpec = str | tuple[str, ColumnSettings]


def create_console(*, stderr: bool = False, no_color: bool = False) -> Console:
    """Return a console that takes no user text for markup.

    Colours and the terminal's width are used on a terminal only; rich respects NO_COLOR.
    """
    console = Console(
        stderr=stderr, no_color=no_color or None, highlight=False, markup=False, emoji=False
    )
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def print_lines(console: Console, *renderables: RenderableType) -> None:
    """Print each renderable on lines of its own; off a terminal without trailing blanks."""
    if console.is_terminal:
        console.print(*renderables, sep="\n")
        return
    with console.capture() as capture:
        console.print(*renderables, sep="\n")
    console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


class RateColumn(ProgressColumn):
    """The number that is done per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="dim")


@contextmanager
def show_progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each counted thing until the work is done; nothing off a terminal."""
    columns = (
        TextColumn("{task.description:<8}"),
        *(BarColumn(40), MofNCompleteColumn(), RateColumn()),
    )
    is_terminal = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def update(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = bars.add_task(label, total=None)  # rich assumes 100
            bars.update(tasks[label], completed=done, total=total or None)

        yield update


def create_table(*columns: ColumnSpec, gap: int = 2) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for column in columns:
        name, settings = (column, {}) if isinstance(column, str) else column
        table.add_column(Text(replace_control(name)), **settings)
    return table


def id_column(hits: Iterable[Hit], title: str = "id") -> tuple[str, ColumnSettings]:
    """Return a column that never cuts ids, which are copied: a very long one is wrapped."""
    longest = max((len(hit.item.id) for hit in hits), default=0)
    return title, {"style": "cyan", "overflow": "fold", "no_wrap": longest <= LONG_ID}


def number_column(name: str) -> tuple[str, ColumnSettings]:
    return name, {"justify": "right", "no_wrap": True}


def share_bar(share: float, width: int = BAR_WIDTH) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the parts of a bar, for `Text.assemble`."""
    full = round(width * share)
    return ("█" * full, "green"), ("░" * (width - full), "dim")


def replace_control(text: str) -> str:
    """Replace the control characters of user text, which could steer a terminal."""
    return _CONTROL.sub("�", text)


def safe_text(text: str) -> Text:
    return Text(replace_control(text))


def single_line(text: str) -> Text:
    """Return the text as one line, cut where it does not fit."""
    return Text(_CONTROL.sub(" ", text.replace("\n", " ")), no_wrap=True, overflow="ellipsis")


def hidden_rows(rows: Sequence[object], hint: str, limit: int = MAX_ROWS) -> list[Text]:
    """Return a line about the rows after the limit, if there are any."""
    count = len(rows) - limit
    return [Text(f"+{count:,} more ({hint})", style="dim")] if count > 0 else []
