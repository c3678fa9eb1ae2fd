"""Read axiom files, YAML or JSON, and report mistakes with file, line and field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from knowloom.axioms import parsing
from knowloom.axioms.model import Axiom
from knowloom.errors import Invalid
from knowloom.files import read_text

MAX_BYTES = 16_000_000
SUFFIXES = (".json", ".yaml", ".yml")
LineNumbers = dict[parsing.FieldPath, int]


@dataclass(frozen=True, slots=True)
class ParsedAxiom:
    """An axiom of a file, with the data it was parsed from and its location."""

    axiom: Axiom
    row: Mapping[str, Any]
    where: str


@dataclass(frozen=True, slots=True)
class RejectedAxiom:
    """An axiom that could not be parsed: its location, its id, and the reason."""

    where: str
    what: str
    why: str


def read_axioms(path: str | Path) -> Iterator[ParsedAxiom | RejectedAxiom]:
    """Read the axioms of a file: a list, an object with the list `axioms`, or a single axiom."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise Invalid(f"an axiom file must end in {', '.join(SUFFIXES)}, got {str(path)!r}")
    if file.is_file() and file.stat().st_size > MAX_BYTES:
        raise Invalid(f"{path} must have at most {MAX_BYTES:,} bytes: split it")
    load = _load_json if file.suffix.lower() == ".json" else _load_yaml
    yield from _parse_rows(*load(read_text(file), str(path)), str(path))


def _parse_rows(data: Any, lines: LineNumbers, path: str) -> Iterator[ParsedAxiom | RejectedAxiom]:
    start: parsing.FieldPath = ("axioms",) if isinstance(data, Mapping) and "axioms" in data else ()
    is_single = isinstance(data, Mapping) and not start
    rows = data["axioms"] if start else [data] if is_single else data
    if not isinstance(rows, list):
        raise Invalid(f"{path}: must be a list of axioms, or an object with the list `axioms`")
    seen: set[str] = set()
    for number, row in enumerate(rows):
        here: parsing.FieldPath = start if is_single else (*start, number)
        what = str(row.get("id", ""))[:80] if isinstance(row, Mapping) else str(row)[:80]
        try:
            if not isinstance(row, Mapping):
                raise parsing.InvalidAxiom((), "an axiom must be an object")
            axiom = parsing.parse_axiom(row)
            if axiom.id in seen:
                raise parsing.InvalidAxiom(("id",), f"duplicate id {axiom.id!r} in the file")
            seen.add(axiom.id)
            yield ParsedAxiom(axiom, row, f"{path}:{_line_of(lines, here)}")
        except parsing.InvalidAxiom as error:
            where = f"{path}:{_line_of(lines, (*here, *error.path))}"
            yield RejectedAxiom(where, what, str(error))


def _line_of(lines: LineNumbers, path: parsing.FieldPath) -> int:
    """Return the line of a field, or of its nearest ancestor that is in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _load_json(text: str, path: str) -> tuple[Any, LineNumbers]:
    try:
        data = json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise Invalid(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path}: not JSON: {error}") from None
    try:
        # JSON is YAML except for tabs, which can only be whitespace between values.
        return data, _load_yaml(text.replace("\t", " "), path)[1]
    except Invalid:
        return data, {}


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _load_yaml(text: str, path: str) -> tuple[Any, LineNumbers]:
    import yaml  # imported here because it takes 20 ms

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines: LineNumbers = {}
        if node is None:
            return [], lines
        _record_lines(node, (), lines, set(), path)
        return _to_json_value(loader.construct_document(node), path), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise Invalid(f"{path}:{line}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Invalid(f"{path}: not YAML: {error}") from None
    finally:
        loader.dispose()


def _record_lines(
    node: Any, here: parsing.FieldPath, lines: LineNumbers, seen: set[int], path: str
) -> None:
    """Record the line of each value. Reject aliases: they let a small file grow without bound."""
    lines[here] = node.start_mark.line + 1
    if isinstance(node.value, str):
        return
    if id(node) in seen:
        raise Invalid(f"{path}:{lines[here]}: aliases are not allowed here: repeat the value")
    seen.add(id(node))
    if node.id == "sequence":
        for number, child in enumerate(node.value):
            _record_lines(child, (*here, number), lines, seen, path)
        return
    for key, child in node.value:
        field = (*here, str(key.value))
        if field in lines:
            raise Invalid(f"{path}:{key.start_mark.line + 1}: duplicate field {key.value!r}")
        _record_lines(child, field, lines, seen, path)
        lines[field] = key.start_mark.line + 1


def _to_json_value(value: Any, path: str) -> Any:
    """Convert a YAML value to JSON: dates and times become texts."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(child, path) for name, child in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(child, path) for child in value]
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise Invalid(f"{path}: a {type(value).__name__} is not allowed here: {str(value)[:80]!r}")
