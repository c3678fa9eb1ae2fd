"""Questions with their expected items, read from JSON lines and validated with line numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowloom.errors import Invalid, unknown_name
from knowloom.files import read_text
from knowloom.validation import is_int, is_number, validate_query

# Public data sets use `text` and `gold` for `question` and `expected`, and have further fields.
FIELDS = ("question", "expected", "id", "spaces", "facts", "answer")
_QUESTION_FIELDS, _EXPECTED_FIELDS = ("question", "text"), ("expected", "gold")
EXAMPLE = (
    '{"question": "How long do refunds take?", "expected": ["refund-times"], "spaces": ["support"]}'
)

JsonRow = Mapping[str, Any]
Wordings = tuple[str, ...]  # alternatives of one fact


@dataclass(frozen=True, slots=True)
class Question:
    """A query and the items that its answer needs.

    `expected` are ids, or (space, id) where an id exists in several of the spaces.
    """

    text: str
    expected: tuple[str | tuple[str, str], ...]
    id: str = ""
    spaces: tuple[str, ...] = ()  # empty: the spaces of the evaluation
    facts: tuple[Wordings, ...] = ()  # the evidence: texts that a context must show
    answer: Wordings = ()

    @property
    def statements(self) -> tuple[Wordings, ...]:
        """The facts, and the answer if there is one."""
        return (*self.facts, self.answer) if self.answer else self.facts


def read_questions(path: str | Path) -> tuple[Question, ...]:
    """Read the questions of a file in order. The default id is the line number."""
    path = Path(path)
    questions: list[Question] = []
    lines: dict[tuple[str, object], int] = {}
    for number, row in read_rows(path):
        where = f"{path}, line {number}"
        question = question_from_row(row, str(number), where)
        identities = (("id", question.id), ("question", (question.text, question.spaces)))
        for field, value in identities:
            if (field, value) in lines:
                shown = value if isinstance(value, str) else value[0]
                first = lines[field, value]
                raise Invalid(f"{where}: duplicate {field} {shown!r}, first in line {first}")
            lines[field, value] = number
        questions.append(question)
    if not questions:
        raise Invalid(f"{path}: no questions; expected one object per line such as {EXAMPLE}")
    return tuple(questions)


def read_rows(path: Path) -> Iterator[tuple[int, JsonRow]]:
    """Yield (line number, object) for each non-blank line."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Invalid(f"{path}, line {number}: invalid JSON: {error}") from None
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise Invalid(
                    f"{path}, line {number}: must be an object such as {EXAMPLE}, got {kind}"
                )
            yield number, row


def question_from_row(row: JsonRow, default_id: str, where: str) -> Question:
    if "text" not in row and "gold" not in row:
        for field in row:
            if field not in FIELDS:
                raise Invalid(f"{where}: {unknown_name('field', field, FIELDS)}")
    text = next((row[field] for field in _QUESTION_FIELDS if field in row), None)
    if not isinstance(text, str) or not text.strip():
        raise Invalid(f"{where}: question must be a non-blank string, got {text!r}")
    id = row.get("id", default_id)
    if not (isinstance(id, str) or is_int(id)) or id == "":
        raise Invalid(f"{where}: id must be a string or an integer, got {id!r}")
    expected, spaces = _parse_expected(row, where), _parse_spaces(row, where)
    facts, answer = tuple(_parse_facts(row, where)), _parse_answer(row, where)
    return validate_text_fields(Question(text, expected, str(id), spaces, facts, answer), where)


def validate_question(question: Question) -> Question:
    """Validate a question that was not read from a file."""
    where = f"question {question.id}"
    if not isinstance(question.text, str) or not question.text.strip() or not question.expected:
        raise Invalid(f"{where}: needs a text and at least one expected id")
    for field, (description, is_valid) in _LIST_FIELDS.items():
        value = getattr(question, field)
        if not isinstance(value, list | tuple) or not all(is_valid(part) for part in value):
            raise Invalid(f"{where}: {field} must be a list of {description}, got {value!r}")
    return validate_text_fields(question, where)


def validate_text_fields(question: Question, where: str) -> Question:
    """Reject queries that a request would refuse, and lone surrogates in any field."""
    try:
        validate_query(question.text)
    except Invalid as error:
        raise Invalid(f"{where}: {error}") from None
    ids = [
        part
        for expected in question.expected
        for part in ([expected] if isinstance(expected, str) else expected)
    ]
    wordings = [wording for statement in question.statements for wording in statement]
    for text in (question.id, *ids, *question.spaces, *wordings):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise Invalid(f"{where}: {text[:80]!r} contains lone surrogates")
    return question


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_id(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) == 2 and all(map(_is_text, value))
    return _is_text(value)


def _is_fact(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_text, value))


_LIST_FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "expected": ("ids or (space, id) pairs", _is_id),
    "spaces": ("names", _is_text),
    "facts": ("lists of wordings", _is_fact),
    "answer": ("wordings", _is_text),
}


def _parse_expected(row: JsonRow, where: str) -> tuple[str | tuple[str, str], ...]:
    value = next((row[field] for field in _EXPECTED_FIELDS if field in row), None)
    if not isinstance(value, list) or not value:
        raise Invalid(f"{where}: expected must be a non-empty list of ids, got {value!r}")
    ids = tuple(_parse_id(id, where) for id in value)
    for position, id in enumerate(ids):
        if id in ids[:position]:
            raise Invalid(f"{where}: duplicate expected id {id!r}")
    return ids


def _parse_id(value: object, where: str) -> str | tuple[str, str]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, dict) and set(value) == {"space", "id"}:
        space, id = value["space"], value["id"]
        if _is_text(space) and _is_text(id):
            return space, id
    raise Invalid(f'{where}: expected must be an id or {{"space": …, "id": …}}, got {value!r}')


def _parse_facts(row: JsonRow, where: str) -> Iterator[Wordings]:
    facts = row.get("facts", [])
    if not isinstance(facts, list):
        raise Invalid(f"{where}: facts must be a list of strings or wordings, got {facts!r}")
    for fact in facts:
        yield _parse_wordings("a fact", fact, where)


def _parse_answer(row: JsonRow, where: str) -> Wordings:
    answer = row.get("answer")
    return () if answer in (None, "", []) else _parse_wordings("answer", answer, where)


def _parse_wordings(name: str, value: object, where: str) -> Wordings:
    candidates = value if isinstance(value, list) else [value]
    wordings = tuple(
        str(wording) for wording in candidates if isinstance(wording, str) or is_number(wording)
    )
    have_words = all(any(map(str.isalnum, wording)) for wording in wordings)
    if not wordings or len(wordings) < len(candidates) or not have_words:
        raise Invalid(
            f"{where}: {name} must be a string with a word or a list of such, got {value!r}"
        )
    return wordings


def _parse_spaces(row: JsonRow, where: str) -> tuple[str, ...]:
    value = row.get("spaces", [])
    names: Sequence[object] = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise Invalid(f"{where}: spaces must be a list of names, got {value!r}")
    return tuple(dict.fromkeys(str(name) for name in names))
