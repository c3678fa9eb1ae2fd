"""Lines of the provider's sections, and the formats that users define for sections."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowloom.capabilities.provider.model import Entry, Relation
from knowloom.capabilities.provider.packing import Section
from knowloom.errors import Invalid, KnowloomError
from knowloom.model import Item
from knowloom.templates.template import Template
from knowloom.text.normalisation import collapse_whitespace

Format = str | Template | Callable[[Sequence[Entry]], str]

WILDCARD = "*"  # the format of all sections without one
VARIABLES = tuple(Entry("", "", "", "", "").values())

# `{{text}}` and `{% … %}` of Jinja2 and Handlebars, which `.format` would print as they stand. A
# field in braces, `{{{text}}}`, is a `.format` string.
_OTHER_SYNTAX = re.compile(r"(?<!\{)\{\{\s*[#/^>&!~]?\s*\w[\w.|()', ]*\}\}(?!\})|\{%.*?%\}", re.S)
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INDENT = "    "  # deeper than the details below a piece, so that text cannot imitate them


def format_value(value: Any) -> str:
    """Return a single-line string as it is, anything else as JSON."""
    if isinstance(value, str) and not _LINE_BREAK.search(value):
        return value.strip()
    return _LINE_BREAK.sub(
        lambda match: f"\\u{ord(match[0]):04x}",
        json.dumps(value, ensure_ascii=False, sort_keys=True),
    )


def format_property(name: str, value: Any) -> str:
    return f"{collapse_whitespace(name)}: {format_value(value)}"


def format_piece(item: Item, text: str) -> str:
    """Return `[procedure] Title: the text`, with continuation lines indented."""
    parts = [part for part in (collapse_whitespace(item.title), text.strip()) if part]
    content = ": ".join(parts) or _format_properties(item.properties)
    return _indent(f"[{collapse_whitespace(item.type) or item.kind.value}] {content}")


def format_piece_details(tags: Sequence[str], score: float | None) -> str:
    """Return the lines below a piece, each preceded by a newline."""
    line = f"\n  Tags: {', '.join(collapse_whitespace(tag) for tag in tags)}" if tags else ""
    return line if score is None else f"{line}\n  Score: {score:.2f}"


def format_relation(relation: Relation, entity_id: str | None) -> str:
    """Return `USES → Technique:les (purpose)`, preceded by the source if it is not the entity."""
    edge, target = relation.edge, relation.target
    source = "" if edge.source == entity_id else f"{_format_reference(relation.source)} "
    reference = _format_reference(target)
    purpose = collapse_whitespace(str(edge.properties.get("description") or target.title or ""))
    suffix = "" if purpose in ("", reference, target.id) else f" ({purpose})"
    return f"{source}{collapse_whitespace(edge.type)} → {reference}{suffix}"


def _format_properties(properties: Mapping[str, Any]) -> str:
    return "; ".join(format_property(name, properties[name]) for name in sorted(properties))


def _indent(text: str) -> str:
    lines = [line.rstrip() for line in _LINE_BREAK.split(text)]
    return "\n".join([lines[0], *(line and _INDENT + line for line in lines[1:])])


def _format_reference(item: Item) -> str:
    """Return `Technique:les` for the type technique and the id `technique:les` or `les`."""
    kind, id = collapse_whitespace(item.type), collapse_whitespace(item.id)
    if not kind:
        return id
    local = id[len(kind) + 1 :] if id.lower().startswith(f"{kind.lower()}:") else id
    return f"{kind[:1].upper()}{kind[1:]}:{local}"


def parse_formats(formats: Mapping[str, Format]) -> dict[str, Format]:
    """Return the formats with strings as `.format` templates; raise Invalid for unusable ones."""
    if not isinstance(formats, Mapping):
        kind = type(formats).__name__
        raise Invalid(f"formats must be a mapping of sections to formats, got {kind}")
    parsed: dict[str, Format] = {}
    for name, value in formats.items():
        if not isinstance(name, str):
            raise Invalid(f"formats: a section must be a string, got {name!r}")
        if not isinstance(value, str | Template) and not callable(value):
            raise Invalid(
                f"formats: {name!r} must be a .format string, a Template or a function, "
                f"got {type(value).__name__}"
            )
        template = _parse_string(name, value) if isinstance(value, str) else value
        if isinstance(template, Template):
            template.check(name, VARIABLES)
        parsed[name] = template
    return parsed


def _parse_string(name: str, value: str) -> Template:
    """Return a `.format` string as a template; raise Invalid for one of another language."""
    if match := _OTHER_SYNTAX.search(value):
        raise Invalid(
            f"formats: {name!r} has {match[0]!r}, which a .format string prints as it stands: "
            "write {text}, or pass knowloom.Template(…) for Jinja2 or Handlebars"
        )
    return Template(value, "format")


def entry_lines(entry: Entry) -> tuple[str, ...]:
    """Return the lines of an entry: whole, its excerpts, and its summary."""
    excerpts = (excerpt.line for excerpt in entry.excerpts)
    return tuple(line for line in (entry.line, *excerpts, entry.short) if line)


def format_section(
    name: str, entries: tuple[Entry, ...], formats: Mapping[str, Format], cap: int | None
) -> Section:
    """Return a section ready for packing. A `.format` template that fails raises Invalid."""
    template = formats.get(name, formats.get(WILDCARD))
    if template is None:
        return Section(name, entries, tuple(map(entry_lines, entries)), cap=cap)
    if isinstance(template, Template) and template.engine == "format":
        lines = tuple(
            tuple(template.render(name, form.values()) for form in (entry, *entry.excerpts))
            for entry in entries
        )
        return Section(name, entries, lines, cap=cap)
    is_template = isinstance(template, Template)
    render = _template_renderer(name, template) if is_template else _checked_call(name, template)
    return Section(name, entries, render=render, cap=cap)


def _template_renderer(name: str, template: Any) -> Callable[[Sequence[Entry]], str]:
    def render(entries: Sequence[Entry]) -> str:
        variables = {"section": name, "entries": [entry.values() for entry in entries]}
        return str(template.render(name, variables))

    return render


def _checked_call(name: str, function: Any) -> Callable[[Sequence[Entry]], str]:
    """Wrap a user's function so that its failure concerns this section only."""

    def render(entries: Sequence[Entry]) -> str:
        try:
            text = function(tuple(entries))
        except KnowloomError:
            raise
        except Exception as error:  # a user's function may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise Invalid(f"the format of {name!r} failed: {reason}", "format_failed") from error
        if not isinstance(text, str):
            kind = type(text).__name__
            raise Invalid(f"the format of {name!r} returned {kind}, not str", "format_failed")
        return text

    return render
