"""Questions with what they expect, from a file of JSON lines. What is not right is refused, with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowloom import options
from knowloom.errors import Invalid, NotFound, Unavailable, unknown

# A line says `question` and `expected`; the lines of public data sets say `text` and `gold`, and more that knowloom has no use for.
FIELDS = ("question", "expected", "id", "spaces", "facts", "answer")
_QUESTION, _EXPECTED = ("question", "text"), ("expected", "gold")

Row = Mapping[str, Any]
Fact = tuple[str, ...]  # wordings, any of which will do


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the items that an answer needs: ids, or (space, id) where an id is in several of the spaces."""

    text: str
    expected: tuple[str | tuple[str, str], ...]
    id: str = ""
    spaces: tuple[str, ...] = ()  # where to look; none: wherever the evaluation looks
    facts: tuple[Fact, ...] = ()  # what a context should say


def read(path: str | Path) -> tuple[Question, ...]:
    """The questions of a file, in its order. One without an id is called by its line."""
    path = Path(path)
    questions: list[Question] = []
    lines: dict[tuple[str, object], int] = {}
    for number, row in rows(path):
        where = f"{path}, line {number}"
        question = from_row(row, str(number), where)
        for what, name in (
            ("the id", question.id),
            ("the question", (question.text, question.spaces)),
        ):
            if (what, name) in lines:
                raise Invalid(
                    f"{where}: {what} {name if isinstance(name, str) else name[0]!r} stands in line {lines[what, name]} already"
                )
            lines[what, name] = number
        questions.append(question)
    if not questions:
        raise Invalid(f"{path}: there are no questions; a line is an object such as {EXAMPLE}")
    return tuple(questions)


EXAMPLE = (
    '{"question": "How long do refunds take?", "expected": ["refund-times"], "spaces": ["support"]}'
)


def rows(path: Path) -> Iterator[tuple[int, Row]]:
    """(line number, object) for every line that is not empty."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"no file {str(path)!r}", "no_file") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8: {error}") from None
    except OSError as error:
        raise Unavailable(f"{str(path)!r} cannot be read: {error.strerror}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Invalid(f"{path}, line {number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise Invalid(
                    f"{path}, line {number}: must be an object such as {EXAMPLE}, not {type(row).__name__}"
                )
            yield number, row


def from_row(row: Row, name: str, where: str) -> Question:
    """A question from the object of a line."""
    if "text" not in row and "gold" not in row:
        for field in row:
            if field not in FIELDS:
                raise Invalid(f"{where}: {unknown('field', field, FIELDS)}")
    text = next((row[field] for field in _QUESTION if field in row), None)
    if not isinstance(text, str) or not text.strip():
        raise Invalid(f"{where}: question must be a text, not {text!r}")
    id = row.get("id", name)
    if not isinstance(id, str | int) or isinstance(id, bool) or id == "":
        raise Invalid(f"{where}: id must be a text or a whole number, not {id!r}")
    facts = (*_facts(row, where), *_answer(row, where))
    return askable(
        Question(text, _expected(row, where), str(id), _texts(row, "spaces", where), facts), where
    )


def checked(question: Question) -> Question:
    """A question that was not read from a file, if its parts are what they should be: one text is not a list of its letters."""
    where = f"question {question.id}"
    if not isinstance(question.text, str) or not question.text.strip() or not question.expected:
        raise Invalid(f"{where}: needs a text, and one or more expected ids")
    for field, (what, fits) in _PARTS.items():
        given = getattr(question, field)
        if not isinstance(given, list | tuple) or not all(fits(one) for one in given):
            raise Invalid(f"{where}: {field} must be a list of {what}, not {given!r}")
    return askable(question, where)


def askable(question: Question, where: str) -> Question:
    """The question, if a request may ask it. JSON and Python can say half a character, which nothing stores or shows."""
    try:
        options.text(question.text)
    except Invalid as error:
        raise Invalid(f"{where}: {error}") from None
    ids = [part for one in question.expected for part in ([one] if isinstance(one, str) else one)]
    for said in (
        question.id,
        *ids,
        *question.spaces,
        *(wording for fact in question.facts for wording in fact),
    ):
        if any("\ud800" <= character <= "\udfff" for character in said):
            raise Invalid(f"{where}: {said[:80]!r} contains lone surrogates, which are not text")
    return question


def _is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given)


def _is_id(given: object) -> bool:
    return _is_text(given) or (
        isinstance(given, tuple) and len(given) == 2 and all(_is_text(one) for one in given)
    )


def _is_fact(given: object) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(_is_text(one) for one in given)


_PARTS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "expected": ("ids, or of (space, id)", _is_id),
    "spaces": ("names", _is_text),
    "facts": ("lists of wordings", _is_fact),
}


def _expected(row: Row, where: str) -> tuple[str | tuple[str, str], ...]:
    given = next((row[field] for field in _EXPECTED if field in row), None)
    if not isinstance(given, list) or not given:
        raise Invalid(f"{where}: expected must be a list of one or more ids, not {given!r}")
    found = tuple(_id(one, where) for one in given)
    if twice := [one for place, one in enumerate(found) if one in found[:place]]:
        raise Invalid(f"{where}: expected has {twice[0]!r} twice")
    return found


def _id(given: object, where: str) -> str | tuple[str, str]:
    if isinstance(given, str) and given:
        return given
    if (
        isinstance(given, dict)
        and set(given) == {"space", "id"}
        and all(isinstance(one, str) and one for one in given.values())
    ):
        return given["space"], given["id"]
    raise Invalid(
        f'{where}: what is expected is an id, or {{"space": …, "id": …}} where several spaces have it, not {given!r}'
    )


def _facts(row: Row, where: str) -> Iterator[Fact]:
    given = row.get("facts", [])
    if not isinstance(given, list):
        raise Invalid(
            f"{where}: facts must be a list of texts, or of lists of wordings, not {given!r}"
        )
    for fact in given:
        yield _wordings("a fact", fact, where)


def _answer(row: Row, where: str) -> Iterator[Fact]:
    given = row.get("answer")
    if given not in (None, "", []):
        yield _wordings("answer", given, where)


def _wordings(what: str, given: object, where: str) -> Fact:
    listed = given if isinstance(given, list) else [given]
    said = tuple(
        str(one)
        for one in listed
        if isinstance(one, str | int | float) and not isinstance(one, bool)
    )
    if (
        not said
        or len(said) < len(listed)
        or not all(any(character.isalnum() for character in one) for one in said)
    ):
        raise Invalid(
            f"{where}: {what} must be a text with a word in it, or a list of such wordings, not {given!r}"
        )
    return said


def _texts(row: Row, field: str, where: str) -> tuple[str, ...]:
    given = row.get(field, [])
    listed: Sequence[object] = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not all(isinstance(one, str) and one for one in listed):
        raise Invalid(f"{where}: {field} must be a list of names, not {given!r}")
    return tuple(dict.fromkeys(str(one) for one in listed))
