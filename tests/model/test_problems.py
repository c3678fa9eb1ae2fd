"""Problems have codes of one documented table."""

from __future__ import annotations

import ast
import re

import pytest

from knowloom import errors
from knowloom.errors import Conflict, KnowloomError, MissingExtra, Unavailable
from knowloom.model import PROBLEM_CODES, Problem, Severity
from source_tree import FILES, PACKAGE, parse

DOCS = PACKAGE.parents[1] / "docs" / "contexts.md"


def literal_codes(tree: ast.Module) -> list[str]:
    """The codes that are literals in constructions of `Problem`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [
        call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Problem"
    ]
    values = [call.args[2] for call in named if len(call.args) == 3]
    values += [word.value for call in named for word in call.keywords if word.arg == "code"]
    return [str(value.value) for value in values if isinstance(value, ast.Constant)]


def test_every_code_in_the_source_is_in_the_table():
    codes = {code for file in FILES for code in literal_codes(parse(file))}
    assert len(codes) >= 8  # the search above works
    assert codes - set(PROBLEM_CODES) == set()


def test_every_class_of_errors_has_a_code_of_the_table():
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {error.code for error in classes if issubclass(error, KnowloomError)}
    assert len(codes) >= 10 and codes - set(PROBLEM_CODES) == set()


def test_the_documentation_lists_every_code_with_its_severity_and_meaning():
    rows = re.findall(r"^\| `([a-z_]+)` \| (failure|notice) \| (.+) \|$", DOCS.read_text(), re.M)
    assert rows == [(code, *row) for code, row in PROBLEM_CODES.items()]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unavailable("down"), "unavailable"),
        (Conflict("other model", "reindex_required"), "reindex_required"),
        (MissingExtra("no package", "somebody's own"), "missing_extra"),
        (KnowloomError("odd", "somebody's own"), "error"),
    ],
)
def test_the_code_of_an_error_stays_in_the_table(error: KnowloomError, code: str):
    assert Problem.from_error("part", error) == Problem("part", str(error), code)


def test_a_class_outside_the_package_has_the_code_of_its_base():
    class Teapot(Unavailable):
        code = "teapot"

    assert Problem.from_error("part", Teapot("short")).code == "unavailable"


def test_a_severity_follows_from_the_code():
    assert Problem("tier", "three results", "tier").severity == "notice"
    assert Problem("vectors", "down").severity is Severity.FAILURE
    assert Problem("x", "of a newer server", "never heard of").severity is Severity.FAILURE


def test_a_problem_of_an_error_has_its_prefix():
    assert Problem.from_error("vectors", Unavailable("down"), "words only: ").reason == (
        "words only: down"
    )
