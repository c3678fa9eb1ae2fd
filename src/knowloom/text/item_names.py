"""Names of an item, normalised by `mentions.normalise_name`."""

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
MAX_TERM_WORDS = 6  # of a defined term

_QUALIFIER = re.compile(r"\s*[(\[（【][^()\[\]（）【】]*[)\]）】]\s*$")
_CLOSING_BRACKETS = frozenset(")]）】")
# "Rochester, New York", but not "Crosby, Stills & Nash".
_AFTER_COMMA = re.compile(r",\s+[A-ZÀ-ÞΑ-ΩА-Я](?:(?!\band\b|&).)*$")
_BREADCRUMB_SEPARATOR = re.compile(r"\s*(?:>|›|»|→|::)\s*")
_HEADING = re.compile(r"^ {0,3}#{1,4}[ \t]+(.+?)[ \t#]*$", re.M)
_BOLD_DEFINITION = re.compile(
    r"\s*(?:\*\*|__)([^*_\n]{2,80})(?:\*\*|__)\s*(?:[:–—-]|\bis\b|\bare\b|\bmeans\b)"
)
_ASIDE = r"(?:\([^()\n]{1,120}\)\s*)?(?:,[^,.\n]{1,80},\s*)?"
_DEFINITION = re.compile(
    rf"\s*(?:(?:the|an?)\s+)?([^\W\d_][^.!?:;,()\n]{{1,80}}?)\s*{_ASIDE}"
    r"\b(?:is|are|was|were|means|refers to)\b",
    re.I,
)
_PROPERTIES = "name symbol qualified_name path file table column heading"
_NAME_PROPERTIES = tuple(_PROPERTIES.split())


def collect_names(item: Item) -> tuple[str, ...]:
    """Return the normalised names of an item, best first.

    These are its title (with and without a qualifier in brackets), its aliases (property
    `aliases`), the symbol, file or table it describes, and the headings in its text. An item
    without a useful title is named by the first term it defines.
    """
    names: list[str] = []
    for raw in _raw_names(item):
        names += _title_forms[raw]
    if not names and (term := find_defined_term(item.text)):
        names.append(term)
    return tuple(dict.fromkeys(names))[:MAX_NAMES]


def collect_titles(item: Item) -> tuple[str, ...]:
    """Return the names from the title and the aliases alone, which is faster."""
    titles = _title_forms[item.title if len(item.title) <= MAX_NAME else ""]
    if "aliases" not in item.properties:
        return titles
    aliases = [name for alias in _aliases(item) for name in _title_forms[alias]]
    return tuple(dict.fromkeys([*titles, *aliases]))


def _make_forms(title: str) -> tuple[str, ...]:
    """Return the forms of a title that are names.

    These are the title itself, without a qualifier in brackets, and without the place or rank after
    a comma; each also without "The" if at least two words are left.
    """
    title = title[:MAX_NAME]  # bounds the search for brackets and commas in long headings
    bare = _QUALIFIER.sub("", title) if title.rstrip()[-1:] in _CLOSING_BRACKETS else title
    short = _AFTER_COMMA.sub("", bare) if "," in bare else bare
    forms = list(dict.fromkeys(map(normalise_name, dict.fromkeys((title, bare, short)))))
    forms += [name[4:] for name in forms if name.startswith("the ") and name.count(" ") > 1]
    return tuple(dict.fromkeys([name for name in forms if is_useful_name(name)]))


_title_forms = MemoDict("name forms", _make_forms)


def find_defined_term(text: str) -> str:
    """Return the term that a text defines at its start ("X is …", "**X**: …"), or ""."""
    start = text[: MAX_NAME * 2]
    match = _BOLD_DEFINITION.match(start) or _DEFINITION.match(start)
    name = normalise_name(match.group(1)) if match else ""
    words = name.split(" ")
    is_term = is_useful_name(name) and words[0] not in STOP_WORDS and len(words) <= MAX_TERM_WORDS
    return name if is_term else ""


def _raw_names(item: Item) -> Iterator[str]:
    title = item.title[:MAX_NAME]
    if len(item.title) <= MAX_NAME and not title.rstrip().endswith("?"):
        yield title
        yield from _BREADCRUMB_SEPARATOR.split(title)[-1:]
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
    if isinstance(aliases, str):
        aliases = aliases.split(",")
    elif not isinstance(aliases, list | tuple):
        aliases = ()
    return [alias[:MAX_NAME] for alias in aliases if isinstance(alias, str)]


def _short_forms(symbol: str) -> Iterator[str]:
    """Yield the short forms of a symbol or path.

    `Engine.search` for `knowloom.engine.Engine.search`, `README.md` for `docs/README.md`; a single
    word only if it looks like a symbol. `engine.py` for `src/knowloom/engine.py` as well, although
    texts mention it with a capital only: there, "engine" is an ordinary word.
    """
    parts = re.split(r"\.|::|/|#", symbol)
    if " " not in symbol and len(parts) > 2:
        yield ".".join(parts[-2:])
    if len(parts) > 1 and SYMBOL.search(parts[-1]):
        yield parts[-1]
