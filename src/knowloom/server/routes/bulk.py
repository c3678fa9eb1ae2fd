"""The body of a bulk load, as JSON (rows or three layers) or JSON Lines, and the report about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from knowloom.loading.three_layer import LAYERS
from knowloom.report import Report, Skipped
from knowloom.server.schemas import BulkRequest, LayersRequest, Shape

S = TypeVar("S", bound=Shape)

LINES = "application/x-ndjson"
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [BulkRequest.model_json_schema(), LayersRequest.model_json_schema()]
                }
            },
            LINES: {
                "schema": {
                    "type": "string",
                    "description": "One item or edge a line, as the export writes them",
                }
            },
        },
    }
}


@dataclass(slots=True)
class Rows:
    """The rows, those that cannot be used as None; `places` says where each stood, `faults` what is wrong with it."""

    items: list[dict[str, Any] | None] = field(default_factory=list)
    edges: list[dict[str, Any] | None] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    layers: Mapping[str, Any] | None = None  # instead of rows
    embed: bool = True

    @property
    def source(self) -> Mapping[str, Any]:
        """For `Engine.load`."""
        return {"items": self.items, "edges": self.edges} if self.layers is None else self.layers

    def refuse(self, wrong: Callable[[dict[str, Any]], str]) -> None:
        """Leave out the rows with which something is wrong."""
        for part, rows in (("items", self.items), ("edges", self.edges)):
            for number, row in enumerate(rows):
                if row is not None and (fault := wrong(row)):
                    self.faults[f"{part}[{number}]"] = (
                        str(row.get("id", row.get("source", "")))[:80],
                        fault,
                    )
                    rows[number] = None

    def told(self, report: Report) -> Report:
        """The report with the places of this body."""
        return replace(report, skipped=tuple(self._told(one) for one in report.skipped))

    def _told(self, one: Skipped) -> Skipped:
        place = one.where.removeprefix("dict: ")
        what, why = self.faults.get(place, (one.what, one.why))
        return Skipped(self.places.get(place, place), what, why)


def rows(body: bytes, media_type: str) -> Rows:
    return (
        _from_lines(body)
        if media_type.partition(";")[0].strip().lower() == LINES
        else _from_json(body)
    )


def _from_json(body: bytes) -> Rows:
    try:
        given = json.loads(body, parse_constant=_refuse)
    except ValueError:
        raise HTTPException(400) from None
    if isinstance(given, dict) and set(given) & set(LAYERS):
        layers = _checked(LayersRequest, given)
        return Rows(layers={name: getattr(layers, name) for name in LAYERS}, embed=layers.embed)
    asked = _checked(BulkRequest, given)
    return Rows(list(asked.items), list(asked.edges), embed=asked.embed)


def _checked(shape: type[S], given: object) -> S:
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        ) from None


def _from_lines(body: bytes) -> Rows:
    found = Rows()
    for number, line in enumerate(body.splitlines(), 1):
        if line.strip():
            row, fault = _line(line)
            part, rows = (
                ("edges", found.edges)
                if row is not None and "target" in row
                else ("items", found.items)
            )
            place = f"{part}[{len(rows)}]"
            rows.append(row)
            found.places[place] = f"line {number}"
            if fault:
                found.faults[place] = ("", fault)
    return found


def _line(line: bytes) -> tuple[dict[str, Any] | None, str]:
    try:
        row = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None, "not JSON"
    return (row, "") if isinstance(row, dict) else (None, "not an object")


def _refuse(name: str) -> Iterator[None]:
    raise ValueError(name)
