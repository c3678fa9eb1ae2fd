"""Axiom files, YAML or JSON: every mistake is told with its file, line and field, and the rest of the file is used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from knowloom.axioms import parsing
from knowloom.axioms.model import Axiom
from knowloom.errors import Invalid, NotFound

MAX_BYTES = 16_000_000
SUFFIXES = (".json", ".yaml", ".yml")
LineNumbers = dict[parsing.FieldPath, int]


@dataclass(frozen=True, slots=True)
class ParsedAxiom:
    """An axiom of a file, with the data it was read from and its place."""

    axiom: Axiom
    row: Mapping[str, Any]
    where: str


@dataclass(frozen=True, slots=True)
class RejectedAxiom:
    """What could not be read: where it stands, what it is, what is wrong."""

    where: str
    what: str
    why: str


def read_axioms(path: str | Path) -> Iterator[ParsedAxiom | RejectedAxiom]:
    """The axioms of a file: a list of them, an object with `axioms`, or one alone."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise Invalid(f"axioms are read from {', '.join(SUFFIXES)} files, not from {str(path)!r}")
    if not file.is_file():
        raise NotFound(f"no file {str(path)!r}")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise Invalid(f"{str(path)!r} has more than {MAX_BYTES:,} bytes: split it")
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8: {error}") from None
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
    found, lines = (_load_json if file.suffix.lower() == ".json" else _load_yaml)(text, str(path))
    yield from _parse_rows(found, lines, str(path))


def _parse_rows(found: Any, lines: LineNumbers, path: str) -> Iterator[ParsedAxiom | RejectedAxiom]:
    start: parsing.FieldPath = (
        ("axioms",) if isinstance(found, Mapping) and "axioms" in found else ()
    )
    rows = found["axioms"] if start else [found] if isinstance(found, Mapping) else found
    if not isinstance(rows, list):
        raise Invalid(f"{path}: must be a list of axioms, or an object with the list `axioms`")
    seen: set[str] = set()
    for number, row in enumerate(rows):
        here: parsing.FieldPath = (
            start if isinstance(found, Mapping) and not start else (*start, number)
        )
        where = f"{path}:{_line_of(lines, here)}"
        what = str(row.get("id", ""))[:80] if isinstance(row, Mapping) else str(row)[:80]
        try:
            if not isinstance(row, Mapping):
                raise parsing.InvalidAxiom((), "an axiom must be an object")
            axiom = parsing.parse_axiom(row)
            if axiom.id in seen:
                raise parsing.InvalidAxiom(("id",), f"{axiom.id!r} stands twice in the file")
            seen.add(axiom.id)
            yield ParsedAxiom(axiom, row, where)
        except parsing.InvalidAxiom as error:
            yield RejectedAxiom(f"{path}:{_line_of(lines, (*here, *error.path))}", what, str(error))


def _line_of(lines: LineNumbers, path: parsing.FieldPath) -> int:
    """Of the field, or of the nearest thing around it that stands in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _load_json(text: str, path: str) -> tuple[Any, LineNumbers]:
    try:
        found = json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise Invalid(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path}: not JSON: {error}") from None
    try:
        # JSON is YAML, but for tabs, which can be nothing but space between values.
        return found, _load_yaml(text.replace("\t", " "), path)[1]
    except Invalid:
        return found, {}


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _load_yaml(text: str, path: str) -> tuple[Any, LineNumbers]:
    import yaml  # here, for it takes 20 ms that only readers of such a file should pay

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines: LineNumbers = {}
        if node is not None:
            _record_lines(node, (), lines, set(), path)
        return _to_json_value(
            loader.construct_document(node), path
        ) if node is not None else [], lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Invalid(
            f"{path}:{mark.line + 1 if mark else 1}: not YAML: {error.problem or error.context}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Invalid(f"{path}: not YAML: {error}") from None
    finally:
        loader.dispose()


def _record_lines(
    node: Any, here: parsing.FieldPath, lines: LineNumbers, seen: set[int], path: str
) -> None:
    """Notes the line of every value. An alias is refused: a small file could grow without bound by them."""
    lines[here] = node.start_mark.line + 1
    if isinstance(node.value, str):
        return
    if id(node) in seen:
        raise Invalid(
            f"{path}:{lines[here]}: aliases of this value are not allowed: write it again"
        )
    seen.add(id(node))
    if node.id == "sequence":
        for number, child in enumerate(node.value):
            _record_lines(child, (*here, number), lines, seen, path)
        return
    for key, child in node.value:
        place = (*here, str(key.value))
        if place in lines:
            raise Invalid(f"{path}:{key.start_mark.line + 1}: the field {key.value!r} stands twice")
        _record_lines(child, place, lines, seen, path)
        lines[place] = key.start_mark.line + 1


def _to_json_value(value: Any, path: str) -> Any:
    """What JSON can hold: days and times become texts."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(one, path) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(one, path) for one in value]
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise Invalid(f"{path}: a {type(value).__name__} is not allowed here: {str(value)[:80]!r}")
