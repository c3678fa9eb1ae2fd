"""Templates that render memories: built-in ones, those of users, and substitution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from knowloom import codec, validation
from knowloom.capabilities.memory.model import Remembered, SearchResult
from knowloom.errors import Invalid, TemplateNotFound, unknown_name
from knowloom.formats.layout import Layout
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.formats.substitution import (
    ESCAPES,
    VARIABLE,
    check_variables,
    fold_lines,
    substitute,
)
from knowloom.model import Form, Hit, Key, Passage

MAX_PART_CHARACTERS = 100_000  # of a header, format, separator or footer
DETAILS = "details"  # the variable that takes the metadata and links, instead of the end


@dataclass(frozen=True, slots=True)
class MemoryTemplate:
    """A header, a format per memory, a separator and a footer.

    `include_metadata` declares that the format itself shows type, confidence and time. `line_break`
    replaces line breaks inside a memory, so that one memory cannot look like two; None keeps them.
    `order` is "rank" (best first) or "time" (oldest first). `escape` is "" or "xml".
    """

    name: str
    memory_format: str = "{{content}}"
    separator: str = "\n"
    header: str = ""
    footer: str = ""
    include_metadata: bool = False
    line_break: str | None = None
    order: str = "rank"
    escape: str = ""


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
BULLETS = MemoryTemplate("bullets", memory_format="* {{content}}", footer="\n", line_break="\n  ")
TIMELINE = MemoryTemplate(
    "timeline",
    memory_format="{{timestamp}} {{text}}",
    header="Memories in order of time:\n\n",
    footer="\n",
    line_break="\n  ",
    order="time",
)
XML = MemoryTemplate(
    "xml",
    memory_format=(
        '<memory type="{{type}}" created="{{timestamp}}" confidence="{{confidence}}">'
        "{{content}}{{details}}</memory>"
    ),
    header="<memories>\n",
    footer="\n</memories>\n",
    include_metadata=True,
    escape="xml",
)
TEMPLATES: Mapping[str, MemoryTemplate] = {
    template.name: template for template in (CHAT, DETAILED, SUMMARY, BULLETS, TIMELINE, XML)
}


def _timestamp(result: SearchResult) -> str:
    created_at = result.memory.created_at
    return "" if created_at is None else codec.time_to_text(created_at)


def _text(result: SearchResult) -> str:
    """Return the content with the speaker, but without the time."""
    speaker = result.memory.metadata.get("speaker")
    return f"{speaker}: {result.memory.content}" if speaker else result.memory.content


ORDERS = ("rank", "time")
VARIABLES: dict[str, Callable[[SearchResult], str]] = {
    "content": lambda result: result.memory.display_text,
    "text": _text,
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
    _validate_format(template)
    for option, allowed in (("order", ORDERS), ("escape", ESCAPES)):
        value = getattr(template, option)
        if not isinstance(value, str) or value not in allowed:
            raise unknown_name(f"{option} of template {name!r}", value, allowed)
    return template


def _validate_format(template: MemoryTemplate) -> None:
    """Require a variable, and reject what would be printed as it stands."""
    name, allowed = template.name, (*VARIABLES, DETAILS)
    place = f"template {name!r}: memory_format"
    variables = check_variables(place, template.memory_format, allowed)
    if not variables:
        raise Invalid(f"template {name!r}: memory_format needs a variable, such as {{{{content}}}}")


def resolve_template(
    template: str | MemoryTemplate | Mapping[str, Any], registered: Mapping[str, MemoryTemplate]
) -> MemoryTemplate:
    """Return the registered template of this name, or a validated custom one."""
    if isinstance(template, str):
        if template in registered:
            return registered[template]
        if VARIABLE.search(template):
            raise Invalid(
                f"template must be a name or a MemoryTemplate, got the text {template!r}; "
                "pass it as memory_format: {'memory_format': …}"
            )
        raise unknown_name("template", template, registered, TemplateNotFound)
    if isinstance(template, Mapping):
        return parse_template(template.get("name", "custom"), template)
    return parse_template(getattr(template, "name", "custom"), template)


def is_builtin(template: MemoryTemplate) -> bool:
    return TEMPLATES.get(template.name) == template


def render_memory(
    template: MemoryTemplate,
    result: SearchResult,
    include_metadata: bool,
    links: Sequence[str] = (),
) -> str:
    """Render a memory. Variables are substituted once: content never becomes a variable."""
    details = [*(_metadata_details(template, result.memory) if include_metadata else ()), *links]
    suffix = f" ({', '.join(details)})" if details else ""
    values = {name: value(result) for name, value in VARIABLES.items()} | {DETAILS: suffix}
    form, style = template.memory_format, (template.escape, template.line_break)
    text = substitute(form, values.__getitem__, *style)
    if DETAILS in VARIABLE.findall(form):
        return text
    return text + ESCAPES[template.escape](fold_lines(suffix, template.line_break))


def template_layout(
    template: MemoryTemplate,
    results: Mapping[Key, SearchResult],
    include_metadata: bool,
    links: Mapping[Key, Sequence[str]] | None = None,
) -> Layout:
    """Return the template as a layout for packing, its text counted like any other.

    `links` are the marks of linked memories.
    """
    marks = links or {}

    def block(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
        result = results[hit.item.key]
        if form is Form.EXCERPT:
            content = join_runs(excerpt_runs(hit, passages))
            result = replace(result, memory=replace(result.memory, content=content))
        return render_memory(template, result, include_metadata, marks.get(hit.item.key, ()))

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


def _validate_part(name: str, part: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > MAX_PART_CHARACTERS:
        limit = f"{MAX_PART_CHARACTERS:,}"
        raise Invalid(f"template {name!r}: {part} must be a string of at most {limit} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid(f"template {name!r}: {part} must not contain lone surrogates")
