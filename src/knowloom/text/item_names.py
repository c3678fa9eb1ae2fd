"""Names of an item, normalised by `mentions.normalise_name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from knowloom.caching import MemoDict
from knowloom.model import Item
from knowloom.text.mentions import (
    MAX_NAME,
    MAX_READ,
    STOP_WORDS,
    SYMBOL,
    is_generic_word,
    is_useful_name,
    normalise_name,
)

MAX_NAMES = 24  # of one item
MAX_HEADINGS = 8  # of an item with one passage
MAX_HEADING_NAMES = 4096  # of an item with several
MAX_HEADING_PASSAGES = 5  # a heading that occurs in more passages of one item names none of them
MAX_TERM_WORDS = 6  # of a defined term

_QUALIFIER = re.compile(r"\s*[(\[（【][^()\[\]（）【】]*[)\]）】]\s*$")
_CLOSING_BRACKETS = frozenset(")]）】")
# "Rochester, New York", but not "Crosby, Stills & Nash".
_AFTER_COMMA = re.compile(r",\s+[A-ZÀ-ÞΑ-ΩА-Я](?:(?!\band\b|&).)*$")
# "Nathan H. Juran" and "George H. W. Bush", but not "J. R. R. Tolkien" nor "Malcolm X".
_MIDDLE_INITIALS = re.compile(r"(?<=\w\w)(?: [A-ZÀ-ÖØ-Þ]\.)+(?= [A-ZÀ-ÖØ-Þ]\w)")
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
_NUMBERING = re.compile(r"(?:\d+[.)]|\d+(?:\.\d+)+[.)]?)\s+")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}$")
# Headings that recur from document to document and name a part of each, alone or combined.
_RECURRING = """
    acknowledgement acknowledgements acknowledgment acknowledgments additional advanced alternative
    alternatives arguments basic basics benefits best bibliography biography breaking bug bugs build
    building career caveats change changelog changes childhood citation citations cleanup common
    compatibility conclusions configuration configure configuring considerations contact
    contributing contribution contributions contributors copyright credits critical culture custom
    debugging default defaults definition definitions dependencies deploy deployment detail
    development disclaimer discography download downloads early education evaluation exception
    exceptions experiments external extra feature features feedback figures filmography fix fixed
    fixes flags footnotes format formats funding further getting glossary goals implementation
    important input inputs install installation installing instruction instructions issue issues
    known later learn legacy licence license licensing limit limitation limitations link maintenance
    materials method methodology methods migrating migration motivation nominations objective
    objectives option optional options origins outline output outputs parameter parameters parts
    performance personal popular practice practices preface preparation prerequisite prerequisites
    problems procedure publications purpose quick quickstart raises rationale reading reception
    recommendation recommendations release released releases removed requirement requirements
    resource resources response responses result return returns review run running sample samples
    scope setting setup simple solution solutions specification start started status supported
    synopsis syntax tables terminology test testing tests tip tips topics troubleshooting tutorial
    tutorials types upgrade upgrading versions warning warnings yields"""
# The same, but only alone: "Data", and not "Data Model".
_RECURRING_ALONE = """
    action actions analysis api application applications approach architecture argument attribute
    attributes author authors awards code command commands config data death design end environment
    error errors event events family field fields figure function functions future gallery goal idea
    impact key legal lesson level life literature logging material media model models modules names
    object objects open origin plan plot problem process production project properties property
    query rule rules schema script scripts security select set source sources standard structure
    style subject subjects support system task tasks theory time tools user users uses values
    variables view views work working works"""
_RECURRING_PHRASES = """
    early life, personal life, later life, life and career, early years, plot summary, external
    links, further reading, future work, related work, awards and nominations, in popular culture,
    environment variables, command line options, data sources, open questions, source code, api
    reference, working examples, error messages, user guide, legal notice, design goals"""
RECURRING_WORDS = frozenset(_RECURRING.split())
RECURRING_HEADINGS = frozenset(
    (*_RECURRING_ALONE.split(), *map(normalise_name, _RECURRING_PHRASES.split(",")))
)
_PROPERTIES = "name symbol qualified_name path file table column heading"
_NAME_PROPERTIES = tuple(_PROPERTIES.split())


def collect_names(item: Item, headings: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """Return the normalised names of an item, best first.

    These are its title (with and without a qualifier in brackets), its aliases (property
    `aliases`), the symbol, file or table it describes, and the headings in its text. An item
    without a useful title is named by the first term it defines. The headings of an item with
    several passages, from `collect_headings`, are passed and not returned.
    """
    raw_names = list(_raw_names(item))
    if headings is None and "#" in item.text:
        raw_names += _HEADING.findall(item.text[:MAX_READ])[:MAX_HEADINGS]
    names = [name for raw in raw_names for name in _title_forms[raw]]
    if not names and not headings and (term := find_defined_term(item.text)):
        names.append(term)
    return tuple(dict.fromkeys(names))[:MAX_NAMES]


def collect_headings(headings: Iterable[tuple[int, str]]) -> dict[str, tuple[int, ...]]:
    """Return the names in the headings of a text, each with its passages, from `locate_headings`.

    The rules are those of titles. Headings that recur in most documents ("Installation", "Early
    life") or in many passages of this one ("Parameters") are no names.
    """
    places: dict[str, dict[int, None]] = {}
    for number, heading in headings:
        for name in _heading_names[heading] if len(heading) <= MAX_NAME else ():
            if name in places or len(places) < MAX_HEADING_NAMES:
                places.setdefault(name, {})[number] = None
    return {
        name: tuple(numbers)
        for name, numbers in places.items()
        if len(numbers) <= MAX_HEADING_PASSAGES
    }


def list_own_names(headings: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return (passage, name) of each heading in full: where it is written, it is no mention."""
    return {
        (number, name)
        for number, heading in headings
        if len(heading) <= MAX_NAME
        for name in _heading_names[heading][:1]
    }


def collect_titles(item: Item) -> tuple[str, ...]:
    """Return the names from the title and the aliases alone, which is faster."""
    titles = _title_forms[item.title if len(item.title) <= MAX_NAME else ""]
    if "aliases" not in item.properties:
        return titles
    aliases = [name for alias in _aliases(item) for name in _title_forms[alias]]
    return tuple(dict.fromkeys([*titles, *aliases]))


def _make_forms(title: str) -> tuple[str, ...]:
    """Return the forms of a title that are names.

    These are the title itself, without a qualifier in brackets, without the place or rank after a
    comma, and without middle initials; each also without "The" if at least two words are left.
    """
    title = title[:MAX_NAME]  # bounds the search for brackets and commas in long headings
    bare = _QUALIFIER.sub("", title) if title.rstrip()[-1:] in _CLOSING_BRACKETS else title
    short = _AFTER_COMMA.sub("", bare) if "," in bare else bare
    plain = _MIDDLE_INITIALS.sub("", short) if ". " in short else short
    forms = list(dict.fromkeys(map(normalise_name, dict.fromkeys((title, bare, short, plain)))))
    forms += [name[4:] for name in forms if name.startswith("the ") and name.count(" ") > 1]
    return tuple(dict.fromkeys([name for name in forms if is_useful_name(name)]))


_title_forms = MemoDict("name forms", _make_forms)


def _make_heading_names(heading: str) -> tuple[str, ...]:
    """Return the names in a heading, also without its number, as in "3.1 Refunds"."""
    title = _ATTRIBUTES.sub("", _LINK.sub(r"\1", heading)).strip()
    if title.endswith("?"):
        return ()
    raw = dict.fromkeys((title, _NUMBERING.sub("", title, count=1)))
    names = [name for form in raw for name in _title_forms[form]]
    return tuple(dict.fromkeys([name for name in names if not _is_recurring(name)]))


def _is_recurring(name: str) -> bool:
    return name in RECURRING_HEADINGS or all(
        [word in RECURRING_WORDS or is_generic_word(word) for word in name.split(" ")]
    )


_heading_names = MemoDict("heading names", _make_heading_names)


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
