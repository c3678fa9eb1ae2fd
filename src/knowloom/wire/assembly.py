"""Assembled texts as JSON, and back."""

from __future__ import annotations

from knowloom.capabilities.assembler.model import Assembly, StrategyReport
from knowloom.model import Hit, Item, LeftOut
from knowloom.wire import JsonObject
from knowloom.wire.contexts import (
    fragment_from_json,
    fragment_to_json,
    problem_to_json,
    problems_from_json,
)
from knowloom.wire.knowledge import item_from_json, item_to_json


def assembly_to_json(assembly: Assembly) -> JsonObject:
    """Return the text and the outcome of each strategy."""
    return {
        "text": assembly.text,
        "tokens": assembly.tokens,
        "strategies": [_report_to_json(report) for report in assembly.strategies],
        "left_out": [_omission_to_json(omission) for omission in assembly.left_out],
        "degraded": [problem_to_json(problem) for problem in assembly.degraded],
        "token_counter": assembly.token_counter,
        "optimality_gap": assembly.optimality_gap,
    }


def assembly_sources_to_json(assembly: Assembly) -> JsonObject:
    """Return the fragments of the text; items are listed once and elsewhere referred to by key."""
    items = {hit.item.key: hit.item for fragment in assembly.fragments for hit in fragment.hits}
    return {
        "fragments": [fragment_to_json(fragment) for fragment in assembly.fragments],
        "items": [item_to_json(items[key]) for key in sorted(items)],
    }


def assembly_from_json(row: JsonObject) -> Assembly:
    items = {item.key: item for item in map(item_from_json, row["items"])}
    return Assembly(
        text=row["text"],
        tokens=row["tokens"],
        strategies=tuple(map(_report_from_json, row["strategies"])),
        fragments=tuple(fragment_from_json(fragment, items) for fragment in row["fragments"]),
        left_out=tuple(_omission_from_json(omission) for omission in row["left_out"]),
        degraded=problems_from_json(row),
        token_counter=row["token_counter"],
        optimality_gap=row["optimality_gap"],
        timings=dict(row["timings_ms"]),
    )


def _report_to_json(report: StrategyReport) -> JsonObject:
    return {
        "name": report.name,
        "priority": report.priority,
        "required": report.required,
        "status": report.status,
        "asked": report.offered_tokens,
        "got": report.used_tokens,
        "given": report.offered_pieces,
        "used": report.used_pieces,
        "reasons": list(report.reasons),
    }


def _report_from_json(row: JsonObject) -> StrategyReport:
    return StrategyReport(
        row["name"],
        row["priority"],
        row["required"],
        row["status"],
        row["asked"],
        row["got"],
        row["given"],
        row["used"],
        tuple(row["reasons"]),
    )


def _omission_to_json(omission: LeftOut) -> JsonObject:
    return {
        "strategy": omission.fragment,
        "id": omission.hit.item.id,
        "tokens": omission.tokens,
        "reason": omission.reason,
    }


def _omission_from_json(row: JsonObject) -> LeftOut:
    hit = Hit(Item(row["id"], ""), 0.0)
    return LeftOut(hit, row["strategy"], row["reason"], row["tokens"])
