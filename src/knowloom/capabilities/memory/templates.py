"""Templates that render memories: three built-in ones, those of users, and substitution."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from knowloom import codec, validation
from knowloom.capabilities.memory.model import Remembered, SearchResult
from knowloom.errors import Invalid, TemplateNotFound, unknown_name
from knowloom.formats.layout import Layout
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.model import Form, Hit, Key, Passage

MAX_PART_CHARACTERS = 100_000  # of a header, format, separator or footer
_VARIABLE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class MemoryTemplate:
    """A header, a format per memory, a separator and a footer.

    `include_metadata` declares that the format itself shows type, confidence and time. `line_break`
    replaces line breaks inside a memory, so that one memory cannot look like two; None keeps them.
    """

    name: str
    memory_format: str = "{{content}}"
    separator: str = "\n"
    header: str = ""
    footer: str = ""
    include_metadata: bool = False
    line_break: str | None = None


CHAT = MemoryTemplate(
    "chat",
    memory_format="- {{content}}",
    header="Relevant context from past conversations:\n\n",
    footer="\n",
    line_break="\n  ",
)
DETAILED = MemoryTemplate(
    "detailed",
    memory_format="[{{type}}] {{content}} (confidence: {{confidence}}, {{timestamp}})",
    separator="\n\n",
    header="Relevant memories:\n\n",
    footer="\n",
    include_metadata=True,
    line_break="\n  ",
)
SUMMARY = MemoryTemplate("summary", separator=" | ", header="Key information:\n", line_break=" ")
TEMPLATES: Mapping[str, MemoryTemplate] = {
    template.name: template for template in (CHAT, DETAILED, SUMMARY)
}


def _timestamp(result: SearchResult) -> str:
    created_at = result.memory.created_at
    return "" if created_at is None else codec.time_to_text(created_at)


VARIABLES: dict[str, Callable[[SearchResult], str]] = {
    "content": lambda result: result.memory.display_text,
    "type": lambda result: result.memory.type or "memory",
    "confidence": lambda result: f"{result.memory.confidence:g}",
    "timestamp": _timestamp,
    "score": lambda result: f"{result.score:.2f}",
}
FIELDS = tuple(field.name for field in fields(MemoryTemplate))


def parse_template(name: str, value: MemoryTemplate | Mapping[str, Any]) -> MemoryTemplate:
    """Return a user's template under this name; raise Invalid if it is unusable."""
    if isinstance(value, Mapping):
        for field in value:
            if field not in FIELDS:
                raise unknown_name("field of a template", field, FIELDS)
        values = dict(value)
    elif isinstance(value, MemoryTemplate):
        values = {field: getattr(value, field) for field in FIELDS}
    else:
        raise Invalid(f"a template must be a MemoryTemplate or a mapping, got {value!r}")
    values["name"] = validation.validate_name("template name", name)
    template = MemoryTemplate(**values)
    if not template.name:
        raise Invalid("a template needs a name")
    validation.validate_bool(f"template {name!r}: include_metadata", template.include_metadata)
    parts = ["memory_format", "separator", "header", "footer"]
    for part in [*parts, "line_break"] if template.line_break is not None else parts:
        _validate_part(template.name, part, getattr(template, part))
    for variable in _VARIABLE.findall(template.memory_format):
        if variable not in VARIABLES:
            raise unknown_name("variable of a template", variable, VARIABLES)
    return template


def resolve_template(
    template: str | MemoryTemplate | Mapping[str, Any], registered: Mapping[str, MemoryTemplate]
) -> MemoryTemplate:
    """Return the registered template of this name, or a validated custom one."""
    if isinstance(template, str):
        if template not in registered:
            raise unknown_name("template", template, registered, TemplateNotFound)
        return registered[template]
    if isinstance(template, Mapping):
        return parse_template(template.get("name", "custom"), template)
    return parse_template(getattr(template, "name", "custom"), template)


def render_memory(template: MemoryTemplate, result: SearchResult, include_metadata: bool) -> str:
    """Render a memory. Variables are substituted once: content never becomes a variable."""
    text = _VARIABLE.sub(
        lambda match: _fold_lines(template, VARIABLES[match[1]](result)), template.memory_format
    )
    details = _metadata_details(template, result.memory) if include_metadata else []
    if not details:
        return text
    return f"{text} ({', '.join(_fold_lines(template, detail) for detail in details)})"


def template_layout(
    template: MemoryTemplate, results: Mapping[Key, SearchResult], include_metadata: bool
) -> Layout:
    """Return the template as a layout for packing, its text counted like any other."""

    def block(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
        result = results[hit.item.key]
        if form is Form.EXCERPT:
            content = join_runs(excerpt_runs(hit, passages))
            result = replace(result, memory=replace(result.memory, content=content))
        return render_memory(template, result, include_metadata)

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
        is_cacheable=False,
    )


def _metadata_details(template: MemoryTemplate, memory: Remembered) -> list[str]:
    """Return the metadata that the template itself does not show."""
    details: list[str] = []
    if not template.include_metadata:
        if memory.type:
            details.append(f"type: {memory.type}")
        details.append(f"confidence: {memory.confidence:g}")
        if memory.created_at:
            details.append(f"created: {codec.time_to_text(memory.created_at)}")
    return details + [
        f"{name}: {value if isinstance(value, str) else codec.to_json(value)}"
        for name, value in memory.metadata.items()
    ]


def _fold_lines(template: MemoryTemplate, text: str) -> str:
    line_break = template.line_break
    return text if line_break is None else _LINE_BREAK.sub(lambda _: line_break, text)


def _validate_part(name: str, part: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > MAX_PART_CHARACTERS:
        limit = f"{MAX_PART_CHARACTERS:,}"
        raise Invalid(f"template {name!r}: {part} must be a string of at most {limit} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid(f"template {name!r}: {part} must not contain lone surrogates")
