"""Which names an item goes by: pure functions. Names are normalised, as `mentions.normal` does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowloom.caching import MemoDict
from knowloom.model import Item
from knowloom.text.mentions import (
    MAX_NAME,
    MAX_READ,
    STOP_WORDS,
    SYMBOL,
    is_useful_name,
    normalise_name,
)

MAX_NAMES = 24  # of one item
MAX_HEADINGS = 8

_QUALIFIER = re.compile(r"\s*[(\[（【][^()\[\]（）【】]*[)\]）】]\s*$")
_CLOSING = frozenset(")]）】")
_AFTER_COMMA = re.compile(
    r",\s+[A-ZÀ-ÞΑ-ΩА-Я](?:(?!\band\b|&).)*$"
)  # "Rochester, New York", but not "Crosby, Stills & Nash"
_BREADCRUMB = re.compile(r"\s*(?:>|›|»|→|::)\s*")  # between the headings of a trail
_HEADING = re.compile(r"^ {0,3}#{1,4}[ \t]+(.+?)[ \t#]*$", re.M)
_BOLD_DEFINITION = re.compile(
    r"\s*(?:\*\*|__)([^*_\n]{2,80})(?:\*\*|__)\s*(?:[:–—-]|\bis\b|\bare\b|\bmeans\b)"
)
_ASIDE = r"(?:\([^()\n]{1,120}\)\s*)?(?:,[^,.\n]{1,80},\s*)?"
_DEFINITION = re.compile(
    rf"\s*(?:(?:the|an?)\s+)?([^\W\d_][^.!?:;,()\n]{{1,80}}?)\s*{_ASIDE}\b(?:is|are|was|were|means|refers to)\b",
    re.I,
)
_NAME_PROPERTIES = (
    "name",
    "symbol",
    "qualified_name",
    "path",
    "file",
    "table",
    "column",
    "heading",
)


def collect_names(item: Item) -> tuple[str, ...]:
    """The names an item can be called by, normalised, the best first: its title (with and without a qualifier in brackets), its aliases
    (property `aliases`), the names of the symbol, file or table it describes, and the headings in its text. An item without a useful
    title is called by the first thing it defines."""
    found: list[str] = []
    for called in _raw_names(item):
        found += _forms[called]
    if not found and (term := find_defined_term(item.text)):
        found.append(term)
    return tuple(dict.fromkeys(found))[:MAX_NAMES]


def collect_titles(item: Item) -> tuple[str, ...]:
    """The names that an item has by its title and its aliases alone: quicker to tell than all its names."""
    called = _forms[item.title if len(item.title) <= MAX_NAME else ""]
    if "aliases" not in item.properties:
        return called
    return tuple(
        dict.fromkeys([*called, *(name for alias in _aliases(item) for name in _forms[alias])])
    )


def _make_forms(title: str) -> tuple[str, ...]:
    """A title as a name: as it is, without a qualifier in brackets, without the place or rank behind a comma; each also without "The" if two
    words are left."""
    title = title[
        :MAX_NAME
    ]  # headings may be long, and the search for brackets and commas must not be
    bare = _QUALIFIER.sub("", title) if title.rstrip()[-1:] in _CLOSING else title
    told = dict.fromkeys(
        (title, bare, _AFTER_COMMA.sub("", bare) if "," in bare else bare)
    )  # most titles are just what they are
    forms = list(dict.fromkeys(map(normalise_name, told)))
    forms += [name[4:] for name in forms if name.startswith("the ") and name.count(" ") > 1]
    return tuple(dict.fromkeys([name for name in forms if is_useful_name(name)]))


_forms = MemoDict("name forms", _make_forms)


def find_defined_term(text: str) -> str:
    """The term that a text defines at its beginning ("X is …", "**X**: …"), normalised; "" when there is none."""
    found = _BOLD_DEFINITION.match(text[: MAX_NAME * 2]) or _DEFINITION.match(text[: MAX_NAME * 2])
    name = normalise_name(found.group(1)) if found else ""
    return (
        name
        if is_useful_name(name) and name.split(" ")[0] not in STOP_WORDS and name.count(" ") < 6
        else ""
    )


def _raw_names(item: Item) -> Iterator[str]:
    title = item.title[:MAX_NAME]
    if len(item.title) <= MAX_NAME and not title.rstrip().endswith("?"):
        yield title
        yield from _BREADCRUMB.split(title)[-1:]
    yield from _aliases(item)
    for field in _NAME_PROPERTIES if item.properties else ():
        value = item.properties.get(field)
        if isinstance(value, str):
            yield value[-MAX_NAME:]
            yield from _short_forms(value[-MAX_NAME:])
    if "#" in item.text:
        yield from _HEADING.findall(item.text[:MAX_READ])[:MAX_HEADINGS]


def _aliases(item: Item) -> list[str]:
    aliases = item.properties.get("aliases", ())
    given = (
        aliases.split(",")
        if isinstance(aliases, str)
        else aliases
        if isinstance(aliases, list | tuple)
        else ()
    )
    return [alias[:MAX_NAME] for alias in given if isinstance(alias, str)]


def _short_forms(symbol: str) -> Iterator[str]:
    """`Engine.search` for `knowloom.engine.Engine.search`, `README.md` for `docs/README.md`; one word only if no text has it by chance. `engine.py`
    for `src/knowloom/engine.py` too, though a text mentions it with a capital alone: "engine" is a word like others there."""
    parts = re.split(r"\.|::|/|#", symbol)
    if " " not in symbol and len(parts) > 2:
        yield ".".join(parts[-2:])
    if len(parts) > 1 and SYMBOL.search(parts[-1]):
        yield parts[-1]
