"""What people see: tables, bars, colours and progress, with rich. Only the commands that print for people import this."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text

from knowloom import codec
from knowloom.capabilities.memory.analytics import Summary
from knowloom.engine import Statistics
from knowloom.model import Chosen, Context, Edge, Hit, Item, LeftOut
from knowloom.recipes import AS_FITS, Recipe
from knowloom.report import Report, Skipped
from knowloom.wire import encoding

PLAIN_WIDTH = 120  # columns when the output goes to a file or another program
BAR, SCORE_BAR = 24, 6  # characters
MOST_ROWS = 20  # of what was skipped or left out
LONG_ID, SHORT_REASON = 45, 14  # characters
_ARGUMENT = re.compile(r"(\w+)=([^\s,]+)")
_SPACES = re.compile(r"^spaces=\['(.+)'\]$")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console(*, stderr: bool = False, no_color: bool = False) -> Console:
    """Colour and the terminal's width on a terminal, neither elsewhere. What users wrote is never markup. rich itself respects NO_COLOR."""
    made = Console(
        stderr=stderr, no_color=no_color or None, highlight=False, markup=False, emoji=False
    )
    if not made.is_terminal:
        made.width = PLAIN_WIDTH
    return made


@contextmanager
def progress(to: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is counted, gone when the work is done. Nothing at all when it is not a terminal."""
    columns = (TextColumn("{task.description:<8}"), BarColumn(40), MofNCompleteColumn())
    with Progress(*columns, console=to, transient=True, disable=not to.is_terminal) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what)
            shown.update(tasks[what], completed=done, total=total or None)

        yield tell


def report(report: Report) -> RenderableType:
    counts = (
        ("added", report.added),
        ("updated", report.updated),
        ("unchanged", report.unchanged),
        ("removed", report.removed),
        ("edges", report.edges),
    )
    table = _table(
        *((name, {"justify": "right"}) for name, _ in counts), ("skipped", {"justify": "right"})
    )
    table.add_row(
        *(f"{count:,}" for _, count in counts),
        Text(f"{len(report.skipped):,}", style="yellow" if report.skipped else ""),
    )
    return Group(table, _skipped(report.skipped)) if report.skipped else table


def hits(found: Sequence[Hit]) -> RenderableType:
    if not found:
        return Text("nothing found", style="yellow")
    spaces = len({hit.item.space for hit in found}) > 1
    table = _table(
        "score",
        *(["space"] if spaces else []),
        _id_column(found),
        "type",
        "title",
        "found by",
        _number("bm25"),
        _number("vector"),
        gap=1,
    )
    for hit in found:
        space = [_cut(hit.item.space)] if spaces else []
        by = encoding.INDEXES.get(hit.match_source, hit.match_source)
        numbers = (
            encoding.short(hit.signals[name]) if name in hit.signals else ""
            for name in ("bm25", "vector")
        )
        table.add_row(
            _score(hit.score),
            *space,
            Text(hit.item.id),
            _cut(hit.item.type),
            _cut(hit.item.title),
            by,
            *numbers,
        )
    return table


def item(item: Item) -> RenderableType:
    """One item, every field that says something."""
    row = encoding.item(item)
    text = row.pop("text", "")
    grid = Table.grid("", Column(overflow="fold"), padding=(0, 2))
    for name, value in row.items():
        shown = value if isinstance(value, str) else codec.to_json(value)
        grid.add_row(Text(name, style="dim"), _text(", ".join(value) if name == "tags" else shown))
    return Group(
        Rule(_cut(item.name), align="left", style="dim"),
        grid,
        *([Padding(_text(text), (1, 0))] if text else []),
    )


def links(edges: Sequence[Edge]) -> RenderableType:
    table = _table("space", "source", "type", "target", _number("weight"), "by")
    for one in edges:
        target = (
            one.target if one.target_key[0] == one.space else f"{one.target_key[0]}/{one.target}"
        )
        weight = f"{one.weight:.2f}" if one.weight else "forbidden"
        table.add_row(
            Text(one.space),
            _text(one.source),
            _text(one.type),
            _text(target),
            weight,
            one.origin or "people",
        )
    return table if edges else Text("no links", style="dim")


def statistics(statistics: Statistics) -> RenderableType:
    table = _table("space", _number("items"), _number("edges"), _number("own links"), "digest")
    for one in statistics.spaces:
        table.add_row(
            Text(one.name),
            f"{one.items:,}",
            f"{one.edges:,}",
            f"{one.links:,}",
            Text(one.digest, style="dim"),
        )
    vectors = (
        f"vectors of {statistics.embedder}"
        if statistics.embedder
        else "no vectors: found by words only"
    )
    missing = Text(
        f"{statistics.without_vector:,} items have no vector yet: knowloom embed makes them",
        style="yellow",
    )
    kept = Text(
        f"embedding cache on disk: {statistics.disk_vectors:,} vectors, used {statistics.disk_hits:,} times",
        style="dim",
    )
    wrong = Text(statistics.cache_problem, style="yellow")
    more = [
        (missing, statistics.without_vector and statistics.embedder),
        (kept, statistics.disk_vectors),
        (wrong, statistics.cache_problem),
    ]
    return Group(table, Text(vectors, style="dim"), *(text for text, shown in more if shown))


def asked(summaries: Sequence[Summary]) -> RenderableType:
    """What memory was asked, where that is counted."""
    table = _table(
        "workspace",
        "asked for",
        _number("times"),
        _number("p50 ms"),
        _number("p95 ms"),
        _number("found nothing"),
        _number("failed"),
    )
    for one in summaries:
        table.add_row(
            Text(one.workspace),
            one.operation,
            f"{one.count:,}",
            f"{one.p50_ms:.1f}",
            f"{one.p95_ms:.1f}",
            f"{one.found_nothing:,}",
            f"{one.failed:,}",
        )
    return table


def recipes(table: Mapping[str, Sequence[Recipe]]) -> RenderableType:
    shown = _table(
        "recipe",
        "part",
        "source",
        "kinds",
        _number("limit"),
        _number("depth"),
        _number("share"),
        "without it",
    )
    for name in sorted(table):
        for number, one in enumerate(table[name]):
            limit = "as fits" if one.limit == AS_FITS else f"{one.limit}"
            kinds = ", ".join(kind.value for kind in one.kinds) or "all"
            need = "fails" if one.required else "degraded"
            shown.add_row(
                Text("" if number else name, "bold"),
                one.name,
                one.source,
                kinds,
                limit,
                f"{one.depth or ''}",
                f"{one.share:.0%}",
                need,
            )
        shown.add_section()
    return shown


def token_bar(context: Context) -> Text:
    """tokens ████████░░ 1,834 of 2,000 (cl100k_base)"""
    most, counter = context.query.max_tokens, context.stats.token_counter
    if most is None:
        return Text.assemble(
            ("tokens ", "bold"), f"{context.tokens:,}, no limit ", (f"({counter})", "dim")
        )
    full = round(BAR * context.tokens / most) if most else BAR
    bar = (("█" * full, "green"), ("░" * (BAR - full), "dim"))
    return Text.assemble(
        ("tokens ", "bold"), *bar, f" {context.tokens:,} of {most:,} ", (f"({counter})", "dim")
    )


def parts(context: Context) -> Text:
    """entry_points: 8 items, 412 tokens · context: 2 items, 211 tokens"""
    counts = (
        f"{one.name}: {_items(len(one.chosen))}, {one.tokens:,} tokens" for one in context.fragments
    )
    return Text(" · ".join(counts), style="dim")


def chosen(context: Context, ids: Sequence[str] = ()) -> RenderableType:
    """What is in the text and why, part by part; only these ids, if there are any."""
    asked = [(fragment.name, _asked(fragment.chosen, ids)) for fragment in context.fragments]
    table = _table(
        _id_column([one.hit for _, rows in asked for one in rows], "In the text"),
        "form",
        _number("tokens"),
        _number("score"),
        "why",
    )
    for part, rows in asked:
        if rows:
            table.add_row(Text(part, "bold"))
        for one in rows:
            why = encoding.why(one.hit).removeprefix("found by ")
            table.add_row(
                Text(f"  {one.hit.item.id}"),
                one.form.value,
                f"{one.tokens:,}",
                encoding.short(one.hit.score),
                _text(why),
            )
    return (
        table
        if table.row_count
        else Text("Nothing in the text" + (" of what was asked about" if ids else ""), "yellow")
    )


def left_out(context: Context, ids: Sequence[str] = (), most: int = MOST_ROWS) -> RenderableType:
    """The best of what is not in the text, why, and what would bring it in."""
    found = sorted(
        _asked(context.left_out, ids),
        key=lambda one: (-one.hit.score, one.hit.item.id, one.fragment),
    )
    if not found:
        return Text("Nothing was left out" + (" of what was asked about" if ids else ""), "dim")
    ids_first = _id_column([one.hit for one in found[:most]], "Not in the text")
    reason_column = ("reason", {"max_width": None if ids else SHORT_REASON})
    table = _table(
        ids_first,
        "part",
        _number("tokens"),
        _number("score"),
        reason_column,
        "what would bring it in",
        gap=1,
    )
    for one in found[:most]:
        score = encoding.short(one.hit.score) if one.hit.found_by else ""
        reason = _text(_brief(one.reason))
        table.add_row(
            Text(one.hit.item.id),
            one.fragment,
            f"{one.tokens:,}" if one.tokens else "",
            score,
            reason,
            Text(_as_option(one.remedy), "cyan"),
        )
    return Group(table, *_more(len(found) - most, "knowloom explain --json lists all"))


def explanation(context: Context, ids: Sequence[str] = ()) -> list[RenderableType]:
    return [
        token_bar(context),
        parts(context),
        "",
        chosen(context, ids),
        "",
        left_out(context, ids),
    ]


def verdict(wrong: Sequence[str]) -> RenderableType:
    return (
        Text("\n".join(f"✗ {line}" for line in wrong), "red")
        if wrong
        else Text("✓ all is well", "green")
    )


def safe(text: str) -> str:
    """What users wrote, without what could steer a terminal."""
    return _CONTROL.sub("�", text)


def panel(context: Context) -> Panel:
    return Panel(
        _text(context.text),
        title=_cut(context.query.text),
        title_align="left",
        border_style="dim",
        padding=(1, 2),
    )


# inside

Options = Mapping[str, Any]
One = TypeVar("One", Chosen, LeftOut)


def _table(*columns: str | tuple[str, Options], gap: int = 2) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for column in columns:
        name, options = (column, {}) if isinstance(column, str) else column
        table.add_column(name, **options)
    return table


def _id_column(found: Sequence[Hit], title: str = "id") -> tuple[str, Options]:
    """Ids are copied, so they are never cut: other columns make room, or a very long id goes on in the next line."""
    longest = max((len(hit.item.id) for hit in found), default=0)
    return (title, {"style": "cyan", "overflow": "fold", "no_wrap": longest <= LONG_ID})


def _number(name: str) -> tuple[str, Options]:
    return (name, {"justify": "right", "no_wrap": True})


def _text(text: str) -> Text:
    return Text(safe(text))


def _cut(text: str) -> Text:
    """On one line: what does not fit is cut."""
    return Text(_CONTROL.sub(" ", text.replace("\n", " ")), no_wrap=True, overflow="ellipsis")


def _score(score: float) -> Text:
    full = round(SCORE_BAR * min(1.0, score))
    return Text.assemble(
        ("█" * full, "green"),
        ("░" * (SCORE_BAR - full), "dim"),
        f" {encoding.short(score)}",
        no_wrap=True,
    )


def _skipped(rows: Sequence[Skipped]) -> RenderableType:
    table = _table(
        ("where", {"overflow": "fold"}), ("what", {"max_width": 30}), ("why", {"overflow": "fold"})
    )
    for one in rows[:MOST_ROWS]:
        table.add_row(_text(one.where), _cut(one.what), _text(one.why))
    return Padding(Group(table, *_more(len(rows) - MOST_ROWS, "--json lists all")), (1, 0, 0, 0))


def _more(count: int, hint: str) -> list[Text]:
    return [Text(f"+{count:,} more ({hint})", style="dim")] if count > 0 else []


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _asked(rows: Sequence[One], ids: Sequence[str]) -> list[One]:
    return [one for one in rows if not ids or one.hit.item.id in ids]


def _brief(reason: str) -> str:
    """The most common reasons are whole sentences; in a table a few words do."""
    return (
        "outweighed"
        if reason.startswith("outweighed")
        else reason.replace(" of the candidates", "")
    )


def _as_option(remedy: str) -> str:
    """The engine names arguments, a shell wants options: max_tokens=945 shows it (whole) -> --max-tokens 945 (whole)."""
    if " in the recipe " in remedy:  # no option reaches there
        return remedy
    said = _SPACES.sub(r"space=\1", remedy.replace(" shows it", ""))
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2]}", said)
