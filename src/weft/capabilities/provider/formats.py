"""How a section becomes text: as weft shows it, by a `.format` string per entry, by a template or a function for the whole section."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.capabilities.provider.fitting import Blocks, Section
from weft.capabilities.provider.values import Entry
from weft.errors import Invalid, WeftError
from weft.templates.template import Template

Format = str | Template | Callable[[Sequence[Entry]], str]

OTHERS = "*"  # the format of every section that has none of its own
VALUES = tuple(Entry("", "", "", "", "").values())


def checked(formats: Mapping[str, Format]) -> dict[str, Format]:
    """The formats, with texts as `.format` templates; what can never work is refused, with the section's name and the line."""
    if not isinstance(formats, Mapping):
        raise Invalid(
            f"formats must be a mapping of sections to formats, not {type(formats).__name__}"
        )
    found: dict[str, Format] = {}
    for name, given in formats.items():
        if not isinstance(name, str):
            raise Invalid(f"formats: a section is named by text, not by {name!r}")
        if not isinstance(given, str | Template) and not callable(given):
            raise Invalid(
                f"formats: {name!r} must be a .format text, a Template or a function, not {type(given).__name__}"
            )
        form = Template(given, "format") if isinstance(given, str) else given
        if isinstance(form, Template):
            form.check(name, VALUES)
        found[name] = form
    return found


def section(
    name: str, entries: tuple[Entry, ...], formats: Mapping[str, Format], cap: int | None
) -> Section:
    """A section ready to be fitted. A `.format` text that fails for an entry is an error with its name."""
    form = formats.get(name, formats.get(OTHERS))
    if form is None:
        return Section(name, entries, tuple(_own(entry) for entry in entries), cap=cap)
    if isinstance(form, Template) and form.engine == "format":
        return Section(
            name, entries, tuple((form.render(name, entry.values()),) for entry in entries), cap=cap
        )
    return Section(
        name,
        entries,
        whole=_by_template(name, form) if isinstance(form, Template) else _by_function(name, form),
        cap=cap,
    )


def _own(entry: Entry) -> Blocks:
    return (entry.line, entry.short) if entry.short else (entry.line,)


def _by_template(name: str, template: Template) -> Callable[[Sequence[Entry]], str]:
    return lambda entries: template.render(
        name, {"section": name, "entries": [entry.values() for entry in entries]}
    )


def _by_function(name: str, function: Any) -> Callable[[Sequence[Entry]], str]:
    def written(entries: Sequence[Entry]) -> str:
        try:
            text = function(tuple(entries))
        except WeftError:
            raise
        except Exception as error:  # the user's code may raise anything; the other sections stand
            raise Invalid(
                f"the format of {name!r} failed: {type(error).__name__}: {error}", "format_failed"
            ) from error
        if not isinstance(text, str):
            raise Invalid(
                f"the format of {name!r} gave {type(text).__name__}, not text", "format_failed"
            )
        return text

    return written
