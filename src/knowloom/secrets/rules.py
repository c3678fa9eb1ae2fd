"""Reading rules about secrets: the built-in ones, and a file of the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import re2

from knowloom.caching import cached
from knowloom.errors import Invalid, unknown_name
from knowloom.secrets.scanner import Rule, Rules, compiled

FILE = Path(__file__).with_name("rules.toml")
MODES = ("refuse", "allow")
RULE_FIELDS = {one.name: str(one.type) for one in fields(Rule)}
FILE_FIELDS = ("allow", "disable", "rules")


def chosen(mode: str = "refuse", path: str | Path | None = None) -> Rules:
    """The rules of an engine: "refuse" for the built-in ones and those of the file, "allow" for none."""
    if mode not in MODES:
        raise unknown_name("way to treat secrets", mode, MODES)
    more = extended(builtin(), path) if path else builtin()
    return more if mode == "refuse" else Rules(())


@cached("secret rules", 1)
def builtin() -> Rules:
    values = tomllib.loads(FILE.read_text("utf-8"))
    rules = [_rule(row, FILE.name, number) for number, row in enumerate(values["rules"], 1)]
    return Rules(rules, values["allow"])


def extended(rules: Rules, path: str | Path) -> Rules:
    """The rules with what a file changes: its own first, so that they give the name; fewer of the others; more that is allowed."""
    values = _read(Path(path))
    disabled = set(_texts(values.get("disable", []), str(path), "disable"))
    known = [rule.name for rule in rules.rules]
    for name in sorted(disabled - set(known)):
        raise Invalid(f"{path}: disable: {unknown_name('rule', name, known)}")
    kept = [rule for rule in rules.rules if rule.name not in disabled]
    own = _own(values.get("rules", []), str(path), {rule.name for rule in kept})
    allow = _texts(values.get("allow", []), str(path), "allow")
    for regex in allow:
        _compilable(regex, f"{path}: allow")
    return Rules((*own, *kept), (*rules.allow, *allow))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Invalid(
            f"the rules about secrets in {str(path)!r} cannot be read: {error.strerror}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: not TOML: {error}") from None
    for name in values:
        if name not in FILE_FIELDS:
            raise Invalid(f"{path}: {unknown_name('field', name, FILE_FIELDS)}")
    return values


def _own(rows: object, path: str, taken: set[str]) -> list[Rule]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Invalid(f"{path}: rules must be tables, each headed [[rules]]")
    own: list[Rule] = []
    for number, row in enumerate(rows, 1):
        rule = _rule(row, path, number)
        if rule.name in taken:
            raise Invalid(
                f"{path}: two rules are called {rule.name!r}; to replace a built-in rule, also name it in `disable`"
            )
        taken = taken | {rule.name}
        for regex in (rule.regex, *rule.allow, *rule.allow_around):
            _compilable(regex, f"{path}: rule {rule.name!r}")
        own.append(rule)
    return own


def _rule(row: Mapping[str, Any], path: str, number: int) -> Rule:
    where = (
        f"{path}: rule {row['name']!r}"
        if isinstance(row.get("name"), str)
        else f"{path}: rule {number}"
    )
    for name in row:
        if name not in RULE_FIELDS:
            raise Invalid(f"{where}: {unknown_name('field', name, RULE_FIELDS)}")
    for name in ("name", "regex"):
        if not row.get(name):
            raise Invalid(f"{where}: {name} is missing")
    return Rule(
        **{name: _value(RULE_FIELDS[name], value, where, name) for name, value in row.items()}
    )


def _value(kind: str, value: object, where: str, name: str) -> Any:
    if kind.startswith("tuple"):
        texts = _texts(value, where, name)
        return tuple(text.lower() for text in texts) if name == "keywords" else texts
    if (
        kind == "float"
        and not isinstance(value, bool)
        and isinstance(value, int | float)
        and 0 <= value <= 8
    ):
        return float(value)
    if kind == "str" and isinstance(value, str):
        return value
    raise Invalid(
        f"{where}: {name} must be {'a number from 0 to 8' if kind == 'float' else 'text'}, not {value!r}"
    )


def _texts(value: object, where: str, name: str) -> tuple[str, ...]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or not all(isinstance(one, str) and one for one in value)
    ):
        raise Invalid(f"{where}: {name} must be a list of texts, not {value!r}")
    return tuple(value)


def _compilable(regex: str, where: str) -> None:
    try:
        compiled(regex)
    except re2.error as error:
        reason = (
            error.args[0].decode()
            if error.args and isinstance(error.args[0], bytes)
            else str(error)
        )
        raise Invalid(f"{where}: RE2 does not take the regex {regex!r}: {reason}") from None
