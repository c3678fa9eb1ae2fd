"""Folders as public data sets have them: corpus.jsonl with what is known, queries.jsonl with what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from knowloom.errors import Invalid, NotFound
from knowloom.evaluation.questions import Question, Row, from_row, rows
from knowloom.model import Item, Key

CORPUS, QUERIES = "corpus.jsonl", ("queries.jsonl", "questions.jsonl")
SPACE = "all"  # of a corpus that is not divided


@dataclass(frozen=True, slots=True)
class DataSet:
    """Items to be found, the questions, and what of the files was left out or changed, in words."""

    items: tuple[Item, ...]
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()


def is_folder(path: str | Path) -> bool:
    return (Path(path) / CORPUS).is_file()


def read(path: str | Path, *, space_by: str = "", split: str = "") -> DataSet:
    """`space_by` is the field, in both files, that names the space of an item and of a question; `split` keeps questions with this `split`.
    An item without a title and a text can neither be stored nor found: it is left out, and expected no more."""
    folder = Path(path)
    items = tuple(_items(folder / CORPUS, space_by))
    empty = {item.key for item in items if not item.title and not item.text}
    file = next((folder / name for name in QUERIES if (folder / name).is_file()), None)
    if file is None:
        raise NotFound(
            f"{str(folder)!r} has a {CORPUS} but no {' and no '.join(QUERIES)}", "no_file"
        )
    asked = list(rows(file))
    of_split = [(number, row) for number, row in asked if not split or row.get("split") == split]
    if split and not of_split:
        known = sorted({str(row["split"]) for _, row in asked if "split" in row})
        raise Invalid(
            f"{file}: no question has the split {split!r}; there are: {', '.join(known) or 'none'}"
        )
    questions = tuple(_questions(of_split, space_by, file, empty))
    if not questions:
        raise Invalid(f"{file}: there are no questions that expect something")
    ids = [str(row["id"]) for _, row in of_split if "id" in row]
    counts = {
        "items without a title and a text are left out": len(empty),
        "questions of another split are left out": len(asked) - len(of_split),
        "questions that expect nothing are left out": len(of_split) - len(questions),
        "questions have the id of another: their line is added to it": len(ids) - len(set(ids)),
    }
    return DataSet(
        tuple(item for item in items if item.key not in empty),
        questions,
        tuple(f"{count:,} {what}" for what, count in counts.items() if count),
    )


def _questions(
    asked: list[tuple[int, Row]], space_by: str, file: Path, empty: set[Key]
) -> Iterator[Question]:
    seen: set[str] = set()
    for number, row in asked:
        where = f"{file}, line {number}"
        given = row.get("gold", row.get("expected"))
        if given == []:
            continue
        space = _space(row, space_by, where)
        wanted = (
            [one for one in given if not (isinstance(one, str) and (space, one) in empty)]
            if isinstance(given, list)
            else given
        )
        if wanted != []:
            question = from_row({**row, "gold": wanted, "expected": wanted}, str(number), where)
            id = f"{question.id}#{number}" if question.id in seen else question.id
            seen.add(id)
            yield replace(question, id=id, spaces=(space,))


def _items(file: Path, space_by: str) -> Iterator[Item]:
    """In the order of the file. An id that stands there twice is refused: the later item would take the place of the one that is expected."""
    lines: dict[Key, int] = {}
    for number, row in rows(file):
        where = f"{file}, line {number}"
        item = _item(row, space_by, where)
        if item.key in lines:
            raise Invalid(f"{where}: the id {item.id!r} stands in line {lines[item.key]} already")
        lines[item.key] = number
        yield item


def _item(row: Row, space_by: str, where: str) -> Item:
    texts = [row.get(name, "") for name in ("id", "title", "text")]
    if not all(isinstance(one, str) for one in texts) or not texts[0]:
        raise Invalid(f"{where}: id, title and text must be texts, and id must not be empty")
    return Item(texts[0], _space(row, space_by, where), title=texts[1], text=texts[2])


def _space(row: Row, field: str, where: str) -> str:
    if not field:
        return SPACE
    name = row.get(field)
    if not isinstance(name, str) or not name:
        raise Invalid(f"{where}: {field!r} must name a space, not {name!r}")
    return name
