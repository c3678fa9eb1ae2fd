"""Bodies of bulk loads: JSON (rows or three layers) or JSON Lines, and their reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from knowloom.loading.three_layer import LAYERS
from knowloom.report import Report, Skipped
from knowloom.server.schemas.fields import RequestModel
from knowloom.server.schemas.knowledge import BulkRequest, LayersRequest
from knowloom.wire import JsonObject

M = TypeVar("M", bound=RequestModel)

NDJSON = "application/x-ndjson"
OPENAPI_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [BulkRequest.model_json_schema(), LayersRequest.model_json_schema()]
                }
            },
            NDJSON: {
                "schema": {
                    "type": "string",
                    "description": "One item or edge per line, as the export writes them",
                }
            },
        },
    }
}


@dataclass(slots=True)
class BulkBody:
    """The rows of a bulk load; invalid rows are None.

    `places` maps a row ("items[3]") to its line, `faults` to its id and the reason it is invalid.
    """

    items: list[JsonObject | None] = field(default_factory=list)
    edges: list[JsonObject | None] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    layers: Mapping[str, Any] | None = None  # instead of rows
    embed: bool = True

    @property
    def source(self) -> Mapping[str, Any]:
        """The argument for `Engine.load`."""
        return {"items": self.items, "edges": self.edges} if self.layers is None else self.layers

    def reject(self, find_fault: Callable[[JsonObject], str]) -> None:
        """Drop the rows for which `find_fault` returns a reason."""
        for part, rows in (("items", self.items), ("edges", self.edges)):
            for number, row in enumerate(rows):
                if row is not None and (fault := find_fault(row)):
                    id = str(row.get("id", row.get("source", "")))[:80]
                    self.faults[f"{part}[{number}]"] = (id, fault)
                    rows[number] = None

    def locate(self, report: Report) -> Report:
        """Return the report with places in this body."""
        return replace(report, skipped=tuple(map(self._locate, report.skipped)))

    def _locate(self, entry: Skipped) -> Skipped:
        place = entry.where.removeprefix("dict: ")
        what, why = self.faults.get(place, (entry.what, entry.why))
        return Skipped(self.places.get(place, place), what, why)


def parse_body(body: bytes, media_type: str) -> BulkBody:
    is_lines = media_type.partition(";")[0].strip().lower() == NDJSON
    return _parse_lines(body) if is_lines else _parse_json(body)


def _parse_json(body: bytes) -> BulkBody:
    try:
        value = json.loads(body, parse_constant=_reject_constant)
    except ValueError:
        raise HTTPException(400) from None
    if isinstance(value, dict) and set(value) & set(LAYERS):
        layers = _validate(LayersRequest, value)
        return BulkBody(layers={name: getattr(layers, name) for name in LAYERS}, embed=layers.embed)
    rows = _validate(BulkRequest, value)
    return BulkBody(list(rows.items), list(rows.edges), embed=rows.embed)


def _validate(model: type[M], value: object) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from None


def _parse_lines(body: bytes) -> BulkBody:
    parsed = BulkBody()
    for number, line in enumerate(body.splitlines(), 1):
        if not line.strip():
            continue
        row, fault = _parse_line(line)
        is_edge = row is not None and "target" in row
        part, rows = ("edges", parsed.edges) if is_edge else ("items", parsed.items)
        place = f"{part}[{len(rows)}]"
        rows.append(row)
        parsed.places[place] = f"line {number}"
        if fault:
            parsed.faults[place] = ("", fault)
    return parsed


def _parse_line(line: bytes) -> tuple[JsonObject | None, str]:
    try:
        row = json.loads(line, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return None, "not JSON"
    return (row, "") if isinstance(row, dict) else (None, "not an object")


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)
