"""Template: a text with placeholders in one of three languages.

Values are inserted once: their text is never evaluated as a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from knowloom.errors import Invalid, MissingExtra, unknown_name
from knowloom.templates import sandbox
from knowloom.templates.sandbox import Limits

ENGINES = ("format", "handlebars", "jinja2")
MAX_SOURCE = 100_000  # characters
NAME = re.compile(r"[A-Za-z_]\w*")
# Width and precision are short, or "{score:999999999}" would fill the memory; "n" is not allowed,
# as it depends on the locale.
SPEC = re.compile(r"(?:.?[<>^=])?[-+ ]?#?0?\d{0,3}[,_]?(?:\.\d{1,2})?[bcdeEfFgGosxX%]?", re.S)


@dataclass(frozen=True, slots=True)
class Template:
    """A user template. Jinja2 and Handlebars render a whole section (`section`, `entries`),
    `.format` one entry after the other."""

    source: str
    engine: str = "jinja2"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise unknown_name("template engine", self.engine, ENGINES)
        if not isinstance(self.source, str) or len(self.source) > MAX_SOURCE:
            raise Invalid(f"a template must be a text of at most {MAX_SOURCE:,} characters")
        if any("\ud800" <= character <= "\udfff" for character in self.source):
            raise Invalid("the template contains lone surrogates, which are not text")
        if not isinstance(self.limits, Limits):
            raise Invalid(f"limits must be Limits, got {type(self.limits).__name__}")

    def check(self, name: str, fields: Sequence[str]) -> None:
        """Raise Invalid, with the template's name and the line, for a template that can never work.

        `fields` are the values that a `.format` string may name.
        """
        if self.engine == "format":
            _check_fields(name, self.source, fields)
        else:
            self._run(name, {})

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """Return the text with the values; errors name the template and, if known, the line."""
        if self.engine != "format":
            text: str = self._run(name, {"values": dict(values)})["text"]
            return text
        _check_fields(name, self.source, tuple(values))
        try:
            text = Formatter().vformat(self.source, (), values)
        except (KeyError, ValueError, TypeError) as error:
            raise template_error(name, f"{type(error).__name__}: {error}", None) from None
        limit = self.limits.output
        if len(text) > limit:
            reason = f"output must have at most {limit:,} characters, got {len(text):,}"
            raise template_error(name, reason, None)
        return text

    def _run(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(values, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise template_error(name, f"values must be plain JSON ({error})", None) from None
        answer = sandbox.run({"engine": self.engine, "source": self.source} | values, self.limits)
        if "missing" in answer:
            raise MissingExtra(
                f"{self.engine} templates need a missing package ({answer['missing']}): "
                "pip install 'knowloom[templates]'"
            )
        if "reason" in answer:
            raise template_error(name, answer["reason"], answer["line"])
        return answer


def template_error(name: str, reason: str, line: int | None) -> Invalid:
    where = f"template {name!r}" + (f", line {line}" if line else "")
    return Invalid(f"{where}: {reason}", "template_error")


def _check_fields(name: str, source: str, fields: Sequence[str]) -> None:
    """Allow plain names only: `{text.__class__}` and `{tags[0]}` would reach beyond the values."""
    try:
        parts = list(Formatter().parse(source))
    except ValueError as error:
        raise template_error(name, str(error), None) from None
    line = 1
    for before, field_name, spec, conversion in parts:
        line += before.count("\n")
        if field_name is None:
            continue
        if not NAME.fullmatch(field_name) or field_name not in fields:
            raise template_error(name, str(unknown_name("value", field_name, fields)), line)
        if conversion or not SPEC.fullmatch(spec or ""):
            what = f"!{conversion}" if conversion else repr(spec)
            raise template_error(
                name, f"{field_name!r} has a format that is not allowed: {what}", line
            )
