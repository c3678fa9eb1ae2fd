"""Secret rules: the built-in ones, and those of a user's TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import re2

from knowloom.caching import cached
from knowloom.errors import Invalid, unknown_name
from knowloom.files import read_toml
from knowloom.secrets.policy import AUTO, SETTINGS, SecretPolicy
from knowloom.secrets.scanner import SecretRule, SecretScanner, compile_regex
from knowloom.validation import validate_number

FILE = Path(__file__).with_name("rules.toml")
MAX_ENTROPY = 8  # bits of a byte
RULE_FIELDS = {field.name: str(field.type) for field in fields(SecretRule)}
FILE_FIELDS = ("allow", "disable", "rules")


def open_policy(setting: str = AUTO, path: str | Path | None = None) -> SecretPolicy:
    """Return the policy of an engine, with the built-in rules and those of the file."""
    if setting not in SETTINGS:
        raise unknown_name("secrets policy", setting, SETTINGS)
    scanner = extend_scanner(builtin_scanner(), path) if path else builtin_scanner()
    return SecretPolicy(scanner, setting)


@cached("secret rules", 1)
def builtin_scanner() -> SecretScanner:
    """Return the scanner with the rules of the package."""
    values = tomllib.loads(FILE.read_text("utf-8"))
    rules = [_parse_rule(row, FILE.name, number) for number, row in enumerate(values["rules"], 1)]
    return SecretScanner(rules, values["allow"])


def extend_scanner(scanner: SecretScanner, path: str | Path) -> SecretScanner:
    """Return a scanner with the changes of a file: more rules, disabled rules, more exceptions.

    The rules of the file come first, so that a finding gets their name.
    """
    values = read_toml(path)
    for name in values:
        if name not in FILE_FIELDS:
            raise Invalid(f"{path}: {unknown_name('field', name, FILE_FIELDS)}")
    disabled = set(_parse_texts(values.get("disable", []), f"{path}: disable"))
    available = [rule.name for rule in scanner.rules]
    for name in sorted(disabled - set(available)):
        raise Invalid(f"{path}: disable: {unknown_name('rule', name, available)}")
    enabled = [rule for rule in scanner.rules if rule.name not in disabled]
    rules = _parse_rules(values.get("rules", []), str(path), {rule.name for rule in enabled})
    allow = _parse_texts(values.get("allow", []), f"{path}: allow")
    for regex in allow:
        _check_regex(regex, f"{path}: allow")
    return SecretScanner((*rules, *enabled), (*scanner.allow, *allow))


def _parse_rules(rows: object, path: str, names: set[str]) -> list[SecretRule]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Invalid(f"{path}: rules must be tables, each headed [[rules]]")
    rules: list[SecretRule] = []
    for number, row in enumerate(rows, 1):
        rule = _parse_rule(row, path, number)
        if rule.name in names:
            remedy = "to replace a built-in rule, add it to `disable`"
            raise Invalid(f"{path}: duplicate rule {rule.name!r}; {remedy}")
        names = names | {rule.name}
        for regex in (rule.regex, rule.shape, rule.until, *rule.allow, *rule.allow_around):
            _check_regex(regex, f"{path}: rule {rule.name!r}")
        rules.append(rule)
    return rules


def _parse_rule(row: Mapping[str, Any], path: str, number: int) -> SecretRule:
    name = row.get("name")
    where = f"{path}: rule {name!r}" if isinstance(name, str) else f"{path}: rule {number}"
    for field in row:
        if field not in RULE_FIELDS:
            raise Invalid(f"{where}: {unknown_name('field', field, RULE_FIELDS)}")
    for field in ("name", "regex"):
        if not row.get(field):
            raise Invalid(f"{where}: {field} is missing")
    return SecretRule(**{field: _parse_field(field, row[field], where) for field in row})


def _parse_field(name: str, value: object, where: str) -> Any:
    type_, what = RULE_FIELDS[name], f"{where}: {name}"
    if type_.startswith("tuple"):
        texts = _parse_texts(value, what)
        return tuple(text.lower() for text in texts) if name == "keywords" else texts
    if type_ == "float":
        return float(validate_number(what, value, 0, MAX_ENTROPY))
    if not isinstance(value, str):
        raise Invalid(f"{what} must be text, got {value!r}")
    return value


def _parse_texts(value: object, what: str) -> tuple[str, ...]:
    texts = value if isinstance(value, Sequence) and not isinstance(value, str) else [None]
    if all(isinstance(text, str) and text for text in texts):
        return tuple(texts)
    raise Invalid(f"{what} must be a list of texts, got {value!r}")


def _check_regex(regex: str, where: str) -> None:
    try:
        compile_regex(regex)
    except re2.error as error:
        detail = error.args[0] if error.args else error
        reason = detail.decode() if isinstance(detail, bytes) else str(error)
        raise Invalid(f"{where}: {regex!r} must be an RE2 regex: {reason}") from None
