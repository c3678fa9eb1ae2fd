"""How memories are written into a prompt: three templates, those of users, and one substitution that no content can reach into."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from knowloom import codec, validation
from knowloom.capabilities.memory.model import Remembered, SearchResult
from knowloom.errors import Invalid, TemplateNotFound, unknown
from knowloom.formats.layout import Layout
from knowloom.model import Form, Hit, Key

MAX_PART = 100_000  # characters of a header, a format, a separator, a footer
_VARIABLE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class MemoryTemplate:
    """A header, each memory, what stands between two, a footer. `include_metadata` says that the format shows type, confidence and time.
    `line_break` is what a line break inside a memory becomes, so that no memory can pass for two; None leaves it as it is."""

    name: str
    memory_format: str = "{{content}}"
    separator: str = "\n"
    header: str = ""
    footer: str = ""
    include_metadata: bool = False
    line_break: str | None = None


TEMPLATES: Mapping[str, MemoryTemplate] = {
    one.name: one
    for one in (
        MemoryTemplate(
            "chat",
            "- {{content}}",
            "\n",
            "Relevant context from past conversations:\n\n",
            "\n",
            line_break="\n  ",
        ),
        MemoryTemplate(
            "detailed",
            "[{{type}}] {{content}} (confidence: {{confidence}}, {{timestamp}})",
            "\n\n",
            "Relevant memories:\n\n",
            "\n",
            True,
            line_break="\n  ",
        ),
        MemoryTemplate("summary", "{{content}}", " | ", "Key information:\n", "", line_break=" "),
    )
}
VARIABLES: dict[str, Callable[[SearchResult], str]] = {
    "content": lambda one: one.memory.said,
    "type": lambda one: one.memory.type or "memory",
    "confidence": lambda one: f"{one.memory.confidence:g}",
    "timestamp": lambda one: (
        "" if one.memory.created_at is None else codec.time_to_text(one.memory.created_at)
    ),
    "score": lambda one: f"{one.score:.2f}",
}


def checked(name: str, given: MemoryTemplate | Mapping[str, Any]) -> MemoryTemplate:
    """A template of the user's, under this name, or what is wrong with it."""
    known = {one.name for one in fields(MemoryTemplate)}
    if isinstance(given, Mapping):
        for one in given:
            if one not in known:
                raise unknown("field of a template", one, known)
        values = dict(given)
    elif isinstance(given, MemoryTemplate):
        values = {one: getattr(given, one) for one in known}
    else:
        raise Invalid(f"a template is a MemoryTemplate or a mapping of its fields, not {given!r}")
    template = MemoryTemplate(**values | {"name": validation.name("a template's name", name)})
    for one in (
        "memory_format",
        "separator",
        "header",
        "footer",
        *(["line_break"] if template.line_break is not None else []),
    ):
        _text(template.name, one, getattr(template, one))
    if not template.name or not isinstance(template.include_metadata, bool):
        raise Invalid(
            f"template {name!r}: it needs a name, and include_metadata must be True or False"
        )
    for variable in _VARIABLE.findall(template.memory_format):
        if variable not in VARIABLES:
            raise unknown("variable of a template", variable, VARIABLES)
    return template


def chosen(
    given: str | MemoryTemplate | Mapping[str, Any], known: Mapping[str, MemoryTemplate]
) -> MemoryTemplate:
    """The template of this name, or the one given."""
    if not isinstance(given, str):
        return checked(
            given.get("name", "custom")
            if isinstance(given, Mapping)
            else getattr(given, "name", "custom"),
            given,
        )
    if given not in known:
        raise unknown("template", given, known, TemplateNotFound)
    return known[given]


def written(template: MemoryTemplate, result: SearchResult, include_metadata: bool) -> str:
    """One memory in the template's format. Every variable is replaced once: what stands in a memory is never a variable."""
    text = _VARIABLE.sub(
        lambda found: _value(template, VARIABLES[found[1]](result)), template.memory_format
    )
    facts = _facts(template, result.memory) if include_metadata else []
    return f"{text} ({', '.join(_value(template, fact) for fact in facts)})" if facts else text


def layout(
    template: MemoryTemplate, results: Mapping[Key, SearchResult], include_metadata: bool
) -> Layout:
    """The template as the fitting stage needs it; its own text is counted like all other."""

    def block(hit: Hit, _: Form) -> str:
        return written(template, results[hit.item.key], include_metadata)

    return Layout(
        f"template {template.name}",
        template.header,
        template.footer,
        lambda _: "",
        "",
        "",
        template.separator,
        block,
        final_newline=True,
        lasting=False,
    )


def _facts(template: MemoryTemplate, memory: Remembered) -> list[str]:
    """What the template's own text does not say of a memory."""
    own = [] if template.include_metadata else [f"type: {memory.type}"] if memory.type else []
    if not template.include_metadata:
        own.append(f"confidence: {memory.confidence:g}")
        own += [f"created: {codec.time_to_text(memory.created_at)}"] if memory.created_at else []
    return own + [
        f"{name}: {value if isinstance(value, str) else codec.to_json(value)}"
        for name, value in memory.metadata.items()
    ]


def _value(template: MemoryTemplate, text: str) -> str:
    return (
        text
        if template.line_break is None
        else _LINE_BREAK.sub(lambda _: template.line_break or "", text)
    )


def _text(name: str, field: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > MAX_PART:
        raise Invalid(
            f"template {name!r}: {field} must be a text of at most {MAX_PART:,} characters"
        )
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid(f"template {name!r}: {field} contains lone surrogates, which are not text")
