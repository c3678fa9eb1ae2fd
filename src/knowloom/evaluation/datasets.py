"""Public data sets: a folder with corpus.jsonl and queries.jsonl."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from knowloom.errors import Invalid, NotFound
from knowloom.evaluation.questions import JsonRow, Question, question_from_row, read_rows
from knowloom.model import Item, Key

CORPUS, QUERIES = "corpus.jsonl", ("queries.jsonl", "questions.jsonl")
DEFAULT_SPACE = "all"

NumberedRow = tuple[int, JsonRow]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Items and questions, and notes on rows that were left out or changed."""

    items: tuple[Item, ...]
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()


def is_dataset(path: str | Path) -> bool:
    return (Path(path) / CORPUS).is_file()


def read_dataset(path: str | Path, *, space_by: str = "", split: str = "") -> DataSet:
    """Read a data set.

    `space_by` is the field, in both files, that names the space; `split` keeps the questions of
    that split. Items without title and text are left out, also as expected ones.
    """
    folder = Path(path)
    items = tuple(_parse_items(folder / CORPUS, space_by))
    empty = {item.key for item in items if not item.title and not item.text}
    file = next((folder / name for name in QUERIES if (folder / name).is_file()), None)
    if file is None:
        raise NotFound(f"{str(folder)!r} has {CORPUS} but no {' or '.join(QUERIES)}", "no_file")
    rows = list(read_rows(file))
    selected = _select_split(rows, split, file)
    questions = tuple(_parse_questions(selected, space_by, file, empty))
    if not questions:
        raise Invalid(f"{file}: no question expects an item")
    ids = [str(row["id"]) for _, row in selected if "id" in row]
    counts = {
        "items without title and text were left out": len(empty),
        "questions of other splits were left out": len(rows) - len(selected),
        "questions without expected items were left out": len(selected) - len(questions),
        "questions had a duplicate id; their line number was appended": len(ids) - len(set(ids)),
    }
    return DataSet(
        tuple(item for item in items if item.key not in empty),
        questions,
        tuple(f"{count:,} {note}" for note, count in counts.items() if count),
    )


def _select_split(rows: list[NumberedRow], split: str, file: Path) -> list[NumberedRow]:
    selected = [(number, row) for number, row in rows if not split or row.get("split") == split]
    if split and not selected:
        splits = ", ".join(sorted({str(row["split"]) for _, row in rows if "split" in row}))
        raise Invalid(f"{file}: no questions in split {split!r}; available: {splits or 'none'}")
    return selected


def _parse_questions(
    rows: list[NumberedRow], space_by: str, file: Path, empty: set[Key]
) -> Iterator[Question]:
    ids: set[str] = set()
    for number, row in rows:
        where = f"{file}, line {number}"
        expected = row.get("gold", row.get("expected"))
        if expected == []:
            continue
        space = _parse_space(row, space_by, where)
        if isinstance(expected, list):
            expected = [id for id in expected if not (isinstance(id, str) and (space, id) in empty)]
        if expected == []:
            continue
        fields = {**row, "gold": expected, "expected": expected}
        question = question_from_row(fields, str(number), where)
        id = f"{question.id}#{number}" if question.id in ids else question.id
        ids.add(id)
        yield replace(question, id=id, spaces=(space,))


def _parse_items(file: Path, space_by: str) -> Iterator[Item]:
    """Yield the items in file order; a duplicate id is refused, as it would replace the first."""
    lines: dict[Key, int] = {}
    for number, row in read_rows(file):
        where = f"{file}, line {number}"
        item = _parse_item(row, space_by, where)
        if item.key in lines:
            raise Invalid(f"{where}: duplicate id {item.id!r}, first in line {lines[item.key]}")
        lines[item.key] = number
        yield item


def _parse_item(row: JsonRow, space_by: str, where: str) -> Item:
    id, title, text = (row.get(name, "") for name in ("id", "title", "text"))
    if not all(isinstance(value, str) for value in (id, title, text)) or not id:
        raise Invalid(f"{where}: id, title and text must be strings, and id must not be empty")
    return Item(id, _parse_space(row, space_by, where), title=title, text=text)


def _parse_space(row: JsonRow, field: str, where: str) -> str:
    if not field:
        return DEFAULT_SPACE
    name = row.get(field)
    if not isinstance(name, str) or not name:
        raise Invalid(f"{where}: {field!r} must name a space, got {name!r}")
    return name
