"""Formats that users define for contexts, as layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

from knowloom.caching import cached
from knowloom.errors import Invalid, unknown_name
from knowloom.formats.fields import (
    format_relationship,
    format_value,
    item_body,
    item_name,
    quote_name,
    section_title,
    visible_properties,
)
from knowloom.formats.layout import Layout, get_layout
from knowloom.formats.runs import excerpt_runs, join_runs
from knowloom.formats.substitution import ESCAPES, check_variables, substitute
from knowloom.model import LINK, ContextFormat, Form, Hit, Passage

MAX_PART = 100_000  # characters of a part
CACHED_FORMATS = 64
VARIABLES: Mapping[str, Callable[[Hit, Form, Sequence[Passage]], str]] = {
    "text": lambda hit, form, passages: _body(hit, form, passages),
    "title": lambda hit, form, _: item_name(hit.item),
    "id": lambda hit, form, _: hit.item.id,
    "space": lambda hit, form, _: hit.item.space,
    "kind": lambda hit, form, _: hit.item.kind.value,
    "type": lambda hit, form, _: hit.item.type,
    "summary": lambda hit, form, _: hit.item.summary,
    "properties": lambda hit, form, _: _properties(hit, form),
    "tags": lambda hit, form, _: ", ".join(hit.item.tags),
    "source": lambda hit, form, _: hit.item.source or "",
    "score": lambda hit, form, _: f"{hit.score:.2f}",
    "via": lambda hit, form, _: hit.via,
}
# The variables of each part; the others have none.
ALLOWED = {
    "item": tuple(VARIABLES),
    "pointer": tuple(VARIABLES),
    "link": ("text",),
    "section": ("section",),
}


def resolve_layout(format: str | ContextFormat) -> Layout:
    """Return the layout of a format; raise Invalid for an unknown name or an unusable format."""
    if not isinstance(format, ContextFormat):
        return get_layout(format)
    for field in fields(format):
        _check_part(field.name, getattr(format, field.name))
    return _build_layout(format)


@cached("custom formats", CACHED_FORMATS)
def _build_layout(format: ContextFormat) -> Layout:
    for part, allowed in ALLOWED.items():
        variables = check_variables(f"format: {part}", getattr(format, part), allowed)
        if part in ("item", "pointer", "link") and not variables:
            raise Invalid(f"format: {part} needs a variable, such as {{{{{allowed[0]}}}}}")
    style = (format.escape, format.line_break)

    def block(hit: Hit, form: Form, passages: Sequence[Passage] = ()) -> str:
        if hit.found_by == LINK:
            relationship = format_relationship(hit.item.properties, quote_name)
            return substitute(format.link, lambda _: relationship, *style)
        part = format.pointer if form is Form.POINTER else format.item
        return substitute(part, lambda name: VARIABLES[name](hit, form, passages), *style)

    return Layout(
        "custom",
        format.header,
        format.footer,
        lambda name: substitute(format.section, lambda _: section_title(name), *style),
        "",
        format.section_separator,
        format.separator,
        block,
        final_newline=True,
        is_cacheable=False,
    )


def _check_part(name: str, value: object) -> None:
    if name == "line_break" and value is None:
        return
    if not isinstance(value, str) or len(value) > MAX_PART:
        raise Invalid(f"format: {name} must be a string of at most {MAX_PART:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Invalid(f"format: {name} must not contain lone surrogates")
    if name == "escape" and value not in ESCAPES:
        raise unknown_name("escape of a format", value, ESCAPES)


def _body(hit: Hit, form: Form, passages: Sequence[Passage]) -> str:
    if form is Form.EXCERPT:
        return join_runs(excerpt_runs(hit, passages))
    return item_name(hit.item) if form is Form.POINTER else item_body(hit.item, form)


def _properties(hit: Hit, form: Form) -> str:
    properties = visible_properties(hit.item, form)
    return "; ".join(f"{name}: {format_value(value)}" for name, value in properties.items())
