"""Items, edges, their history, reports, statistics and errors as JSON, and back.

Keys are in snake_case and always in the same order; times are ISO 8601 with a Z. Decoders trust
their input: it was written by the encoders of this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from knowloom import codec
from knowloom.history import Rollback, State, Step
from knowloom.model import Edge, Item, Kind
from knowloom.ports import SpaceInfo
from knowloom.report import FileCount, Report, Skipped
from knowloom.wire import JsonObject

if TYPE_CHECKING:
    from knowloom.context.item_pages import ItemPage
    from knowloom.errors import KnowloomError
    from knowloom.maintenance import Statistics
    from knowloom.structuring.pipeline import Ingested

STEP_ACTIONS = ("add", "update", "delete", "link", "unlink")


def item_to_json(item: Item) -> JsonObject:
    """Return the fields that are not empty; `kind` always."""
    return codec.item_to_row(item)


def item_from_json(row: JsonObject) -> Item:
    """Return the item; an integer id stands for a numbered item."""
    values = {name: value for name, value in row.items() if name != "version"}
    return codec.item_from_dict(
        values | {"id": str(row["id"]), "numbered": isinstance(row["id"], int)}
    )


def items_to_json(items: Sequence[Item], missing: Sequence[str]) -> JsonObject:
    return {"items": [item_to_json(item) for item in items], "missing": list(missing)}


def page_to_json(page: ItemPage) -> JsonObject:
    """Return a page of an item; summary, tags and properties only if the page has them."""
    from knowloom.wire.contexts import problem_to_json  # which imports this module

    fields = {"summary": page.summary, "tags": list(page.tags), "properties": page.properties}
    return {
        "id": int(page.id) if page.numbered else page.id,
        "space": page.space,
        "kind": page.kind.value,
        "type": page.type,
        "title": page.title,
        "source": page.source,
        "page": page.page,
        "pages": page.pages,
        "next": page.next,
        "tokens": page.tokens,
        "start": page.start,
        "end": page.end,
        "headings": list(page.headings),
        "passages": list(page.passages),
        "is_cut": page.is_cut,
        "note": page.note,
        "degraded": [problem_to_json(problem) for problem in page.degraded],
        **{name: value for name, value in fields.items() if value},
        "text": page.text,
    }


def page_from_json(row: JsonObject) -> ItemPage:
    # Imported here because the command line loads this module at startup, without the engine.
    from knowloom.context.item_pages import ItemPage
    from knowloom.wire.contexts import problems_from_json

    names = ("space", "type", "title", "source", "text", "tokens", "page", "pages", "start", "end")
    return ItemPage(
        **{name: row[name] for name in names},
        id=str(row["id"]),
        kind=Kind(row["kind"]),
        headings=tuple(row["headings"]),
        passages=tuple(row["passages"]),
        is_cut=row["is_cut"],
        note=row["note"],
        summary=row.get("summary", ""),
        tags=tuple(row.get("tags", ())),
        properties=row.get("properties", {}),
        numbered=isinstance(row["id"], int),
        degraded=problems_from_json(row),
    )


def edge_to_json(edge: Edge) -> JsonObject:
    return codec.edge_to_dict(edge)


def edge_from_json(row: JsonObject) -> Edge:
    return codec.edge_from_dict(row)


def history_to_json(states: Sequence[State]) -> JsonObject:
    return {"history": [_state_to_json(state) for state in states]}


def history_from_json(row: JsonObject) -> list[State]:
    return [_state_from_json(state) for state in row["history"]]


def _state_to_json(state: State) -> JsonObject:
    return {
        "number": state.number,
        "at": codec.time_to_text(state.at),
        "action": state.action,
        "version": state.version,
        "actor": state.actor,
        "item": None if state.item is None else item_to_json(state.item),
        "edge": None if state.edge is None else edge_to_json(state.edge),
    }


def _state_from_json(row: JsonObject) -> State:
    return State(
        row["number"],
        codec.text_to_time(row["at"]),
        row["action"],
        None if row["item"] is None else item_from_json(row["item"]),
        None if row["edge"] is None else edge_from_json(row["edge"]),
        row["version"],
        row.get("actor", ""),
    )


def rollback_to_json(rollback: Rollback) -> JsonObject:
    return {
        "to": codec.time_to_text(rollback.to),
        "dry_run": rollback.dry_run,
        "counts": count_steps(rollback),
        "steps": [
            {"action": step.action, "space": step.space, "id": step.id}
            | ({} if step.edge is None else {"edge": edge_to_json(step.edge)})
            for step in rollback.steps
        ],
        "skipped": [_skipped_to_json(entry) for entry in rollback.skipped],
        "problems": list(rollback.problems),
    }


def rollback_from_json(row: JsonObject) -> Rollback:
    steps = tuple(
        Step(
            step["action"],
            step["space"],
            step["id"],
            edge_from_json(step["edge"]) if "edge" in step else None,
        )
        for step in row["steps"]
    )
    return Rollback(
        codec.text_to_time(row["to"]),
        row["dry_run"],
        steps,
        _skipped_from_json(row),
        tuple(row["problems"]),
    )


def count_steps(rollback: Rollback) -> dict[str, int]:
    """Return the number of steps per action."""
    return {action: rollback.count(action) for action in STEP_ACTIONS}


def report_to_json(report: Report) -> JsonObject:
    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "edges": report.edges,
        "skipped": [_skipped_to_json(entry) for entry in report.skipped],
        "problems": list(report.problems),
    } | ({"files": [_file_count_to_json(count) for count in report.files]} if report.files else {})


def report_from_json(row: JsonObject) -> Report:
    return Report(
        row["added"],
        row["updated"],
        row["unchanged"],
        row["edges"],
        _skipped_from_json(row),
        tuple(row["problems"]),
        row["removed"],
        tuple(FileCount(**count) for count in row.get("files", ())),
    )


def _file_count_to_json(count: FileCount) -> JsonObject:
    return {field.name: getattr(count, field.name) for field in fields(count)}


def ingested_to_json(ingested: Ingested) -> JsonObject:
    return {
        "record": str(ingested.record),
        "duplicate": ingested.duplicate,
        "reused": ingested.reused,
        "report": report_to_json(ingested.report),
    }


def ingested_from_json(row: JsonObject) -> Ingested:
    """Return the result of a job of the server; the record is the name of its folder there."""
    from knowloom.structuring.pipeline import Ingested

    return Ingested(
        report_from_json(row["report"]),
        dict(row["layers"]),
        Path(row["record"]) if row["record"] else None,
        row["duplicate"],
        row["reused"],
    )


def _skipped_to_json(entry: Skipped) -> JsonObject:
    return {"where": entry.where, "what": entry.what, "why": entry.why}


def _skipped_from_json(row: JsonObject) -> tuple[Skipped, ...]:
    return tuple(Skipped(entry["where"], entry["what"], entry["why"]) for entry in row["skipped"])


def statistics_to_json(statistics: Statistics) -> JsonObject:
    return {
        "spaces": [
            {field.name: getattr(space, field.name) for field in fields(space)}
            for space in statistics.spaces
        ],
        "embedder": statistics.embedder,
        "without_vector": statistics.without_vector,
        "cache_hits": statistics.cache_hits,
        "cache_misses": statistics.cache_misses,
        "disk_vectors": statistics.disk_vectors,
        "disk_hits": statistics.disk_hits,
        "cache_problem": statistics.cache_problem,
    }


def statistics_from_json(row: JsonObject) -> Statistics:
    # Imported here because the command line loads this module at startup, without the engine.
    from knowloom.maintenance import Statistics

    return Statistics(
        tuple(SpaceInfo(**space) for space in row["spaces"]),
        row["embedder"],
        row["without_vector"],
        row["cache_hits"],
        row["cache_misses"],
        row.get("disk_vectors", 0),
        row.get("disk_hits", 0),
        row.get("cache_problem", ""),
    )


def error_to_json(error: KnowloomError) -> JsonObject:
    return {"error": {"code": error.code, "message": str(error), "status": error.status}}
