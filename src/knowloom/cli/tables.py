"""Tables of items, links, statistics, recipes and load reports, for terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text

from knowloom import codec
from knowloom.capabilities.memory.analytics import Summary
from knowloom.cli.console import (
    MAX_ROWS,
    create_table,
    hidden_rows,
    number_column,
    replace_control,
    safe_text,
    share_bar,
    single_line,
)
from knowloom.cli.snippets import select_snippet
from knowloom.context.item_pages import ItemPage
from knowloom.maintenance import Statistics
from knowloom.model import AUTOMATIC, Edge, Hit, Item
from knowloom.recipes import FIT_BUDGET, Recipe
from knowloom.report import FileCount, Report, Skipped
from knowloom.text.passages import heading_path
from knowloom.wire.contexts import INDEX_LABELS, format_score
from knowloom.wire.knowledge import item_to_json

WHOLE_FILE = "the whole file"  # what was skipped, in reports of loads
MAX_LISTED_FILES = 3  # with the same reason
SCORE_WIDTH = 6  # characters of a score's bar
SNIPPET = 150  # characters of the text below the title of a hit


def render_report(report: Report) -> RenderableType:
    names = ("added", "updated", "unchanged", "removed", "edges", "skipped")
    table = create_table(*((name, {"justify": "right"}) for name in names))
    counts = (f"{getattr(report, name):,}" for name in names[:-1])
    style = "yellow" if report.skipped else ""
    table.add_row(*counts, Text(f"{len(report.skipped):,}", style=style))
    parts = [_render_files(report.files)] if len(report.files) > 1 else []
    parts += [_render_skipped(report.skipped)] if report.skipped else []
    return Group(table, *parts) if parts else table


def _render_files(counts: Sequence[FileCount]) -> RenderableType:
    """Return the files of a load by kind."""
    names = ("files", "items", "skipped")
    table = create_table("kind", *((name, {"justify": "right"}) for name in names))
    for count in counts:
        table.add_row(count.kind, *(f"{getattr(count, name):,}" for name in names))
    return Padding(table, (1, 0, 0, 0))


def _render_skipped(rows: Sequence[Skipped]) -> RenderableType:
    table = create_table(
        ("where", {"overflow": "fold"}), ("what", {"max_width": 30}), ("why", {"overflow": "fold"})
    )
    groups = _group_files(rows)
    for group in groups[:MAX_ROWS]:
        row, others = group[0], len(group) - 1
        where = f"{row.where}\nand {others:,} more files" if others else row.where
        table.add_row(safe_text(where), single_line(row.what), safe_text(row.why))
    return Padding(Group(table, *hidden_rows(groups, "--json lists all")), (1, 0, 0, 0))


def _group_files(rows: Sequence[Skipped]) -> list[list[Skipped]]:
    """Return the rows in order; files that were skipped for the same reason are one group."""
    groups: dict[object, list[Skipped]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row.why if row.what == WHOLE_FILE else number, []).append(row)
    large = MAX_LISTED_FILES
    return [part for g in groups.values() for part in ([g] if len(g) > large else [[r] for r in g])]


def render_hits(hits: Sequence[Hit], query: str) -> RenderableType:
    """Return the score, title and best matching part of each hit, and where it was found."""
    if not hits:
        return Text("nothing found", style="yellow")
    has_spaces = len({hit.item.space for hit in hits}) > 1
    table = create_table(("score", {"no_wrap": True}), ("result", {"overflow": "fold"}), gap=1)
    for number, hit in enumerate(hits):
        lines = [single_line(hit.item.name), *_render_match(hit, query)]
        lines[0].stylize("bold")
        if number:
            table.add_row()
        table.add_row(_render_score(hit.score), Group(*lines, _render_origin(hit, has_spaces)))
    return table


def _render_match(hit: Hit, query: str) -> list[Text]:
    """Return the headings of the passage that matched, and the part of it that matched best."""
    item, passage = hit.item, hit.passage
    path = [heading for heading in heading_path(item, passage) if heading != item.title]
    headings = [single_line(" > ".join(path))] if hit.passages and path else []
    text = item.text[passage.start : passage.end] or item.summary
    snippet = select_snippet(replace_control(text), query, SNIPPET)
    return [*headings, *([safe_text(snippet)] if snippet else [])]


def _render_origin(hit: Hit, has_spaces: bool) -> Text:
    """Return the id, which is never cut, the type and the scores by which the item was found."""
    item = hit.item
    scores = {INDEX_LABELS[name]: hit.signals.get(name) for name in ("bm25", "vector")}
    indexes = [f"{name} {format_score(score)}" for name, score in scores.items() if score]
    indexes = indexes or [INDEX_LABELS.get(hit.match_source, hit.match_source)]
    space = [replace_control(item.space)] if has_spaces else []
    kind = [replace_control(item.type)] if item.type else []
    facts = " · ".join(["", *space, *kind, ", ".join(indexes)])
    return Text.assemble((replace_control(item.id), "cyan"), (facts, "dim"), overflow="fold")


def _render_score(score: float) -> Text:
    bar = share_bar(min(1.0, score), SCORE_WIDTH)
    return Text.assemble(*bar, f" {format_score(score)}", no_wrap=True)


def render_item(item: Item) -> RenderableType:
    """Render every field of an item that is set."""
    row = item_to_json(item)
    text = row.pop("text", "")
    grid = Table.grid("", Column(overflow="fold"), padding=(0, 2))
    for name, value in row.items():
        plain = value if isinstance(value, str) else codec.to_json(value)
        shown = safe_text(", ".join(value) if name == "tags" else plain)
        grid.add_row(Text(name, style="dim"), shown)
    heading = Rule(single_line(item.name), align="left", style="dim")
    return Group(heading, grid, *([Padding(safe_text(text), (1, 0))] if text else []))


def render_page_head(page: ItemPage) -> list[RenderableType]:
    """Render the name of an item, the headings above a page and the fields of the first one."""
    grid = Table.grid("", Column(overflow="fold"), padding=(0, 2))
    headings = " > ".join(page.headings)
    fields = {
        "id": f"{page.space}/{page.id}",
        "type": page.type,
        "source": page.source,
        "tags": ", ".join(page.tags),
        "summary": page.summary,
        **page.properties,
        "section": headings,
        "note": page.note,
    }
    for name, value in fields.items():
        if value not in (None, ""):
            shown = value if isinstance(value, str) else codec.to_json(value)
            grid.add_row(Text(replace_control(name), style="dim"), safe_text(shown))
    return [Rule(single_line(page.title or page.id), align="left", style="dim"), grid, ""]


def render_links(edges: Sequence[Edge]) -> RenderableType:
    if not edges:
        return Text("no links", style="dim")
    table = create_table("space", "source", "type", "target", number_column("weight"), "origin")
    for edge in edges:
        target_space = edge.target_key[0]
        target = edge.target if target_space == edge.space else f"{target_space}/{edge.target}"
        ends = (safe_text(text) for text in (edge.source, edge.type, target))
        weight = f"{edge.weight:.2f}" if edge.weight else "forbidden"
        table.add_row(Text(edge.space), *ends, weight, _origin_label(edge))
    return table


def _origin_label(edge: Edge) -> str:
    return "automatic" if edge.origin == AUTOMATIC else "explicit"


def render_statistics(statistics: Statistics) -> RenderableType:
    columns = (number_column(name) for name in ("items", "edges", "automatic"))
    table = create_table("space", *columns, "digest")
    for space in statistics.spaces:
        counts = (f"{count:,}" for count in (space.items, space.edges, space.links))
        table.add_row(Text(space.name), *counts, Text(space.digest, style="dim"))
    lines = [
        Text(
            f"vectors of {statistics.embedder}"
            if statistics.embedder
            else "no vectors: keyword search only",
            style="dim",
        )
    ]
    if statistics.without_vector and statistics.embedder:
        count = f"{statistics.without_vector:,}"
        missing = f"{count} items have no vector: run knowloom embed"
        lines.append(Text(missing, style="yellow"))
    if statistics.disk_vectors:
        vectors, hits = statistics.disk_vectors, statistics.disk_hits
        cached = f"embedding cache on disk: {vectors:,} vectors, used {hits:,} times"
        lines.append(Text(cached, style="dim"))
    if statistics.cache_problem:
        lines.append(Text(statistics.cache_problem, style="yellow"))
    return Group(table, *lines)


def render_usage(summaries: Sequence[Summary]) -> RenderableType:
    """Render the analytics of memory requests."""
    numbers = ("count", "p50 ms", "p95 ms", "empty", "failed")
    table = create_table("workspace", "operation", *(number_column(name) for name in numbers))
    for row in summaries:
        times = (f"{row.p50_ms:.1f}", f"{row.p95_ms:.1f}")
        failures = (f"{row.found_nothing:,}", f"{row.failed:,}")
        table.add_row(Text(row.workspace), row.operation, f"{row.count:,}", *times, *failures)
    return table


def render_recipes(recipes: Mapping[str, Sequence[Recipe]]) -> RenderableType:
    numbers = (number_column(name) for name in ("limit", "depth", "share"))
    table = create_table("recipe", "part", "source", "kinds", *numbers, "if missing")
    for name in sorted(recipes):
        for position, part in enumerate(recipes[name]):
            table.add_row(
                Text("" if position else name, "bold"),
                *(part.name, part.source),
                ", ".join(kind.value for kind in part.kinds) or "all",
                "budget" if part.limit == FIT_BUDGET else f"{part.limit}",
                f"{part.depth or ''}",
                f"{part.share:.0%}",
                "fails" if part.required else "degraded",
            )
        table.add_section()
    return table


def render_problems(problems: Sequence[str]) -> RenderableType:
    if not problems:
        return Text("✓ no problems found", "green")
    return Text("\n".join(f"✗ {problem}" for problem in problems), "red")
