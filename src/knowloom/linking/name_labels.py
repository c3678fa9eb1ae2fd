"""Labels of an item in the name index: its names, blocking keys, spans, addresses and references.

A label is a role of two characters and a value. The labels of an item depend on that item alone,
except for mentions, which depend on the names of all other items.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from knowloom.linking.name_finders import NO_NAMES, FinderNames, encode_names
from knowloom.linking.name_keys import KeyedText, blocking_key, readable_passages
from knowloom.linking.name_weights import FOREIGN_KEY, REFERS_TO
from knowloom.linking.places import (
    ADDRESS_PLACES,
    NAME_PLACES,
    REFERENCE_PLACES,
    SEVERAL_PASSAGES,
    SPAN_PLACES,
    Places,
    encode_places,
)
from knowloom.linking.unspaced_scripts import list_prefixes
from knowloom.model import Item, Passage
from knowloom.text.item_names import MAX_HEADING_NAMES, collect_headings, collect_names
from knowloom.text.mentions import capitalised_spans, is_useful_name, normalise_name
from knowloom.text.normalisation import slugify
from knowloom.text.passages import locate_headings

NAME = "c:"  # a name of the item
HEADING = "h:"  # a name in a heading, if it has several passages
NAME_KEY = "k:"  # the blocking key of one of its names
NAME_PREFIX = "b:"  # a prefix of one of its names, in a script without spaces
TEXT_KEY = "s:"  # a blocking key that its text contains
SPAN = "p:"  # a capitalised span of its text: a name that may have no item
ADDRESS = "a:"  # a string by which references point to it
REFERENCE = "r:"  # the type of edge and the address of a reference it makes
MENTION = "m:"  # a name of another item that its text mentions

MAX_SPANS = 200  # per text
MAX_SPANS_OF_PASSAGES = 1000  # per text with several passages
MAX_REFERENCES = 500  # per item
MAX_ADDRESS_LENGTH = 1000  # characters

_ADDRESS_PROPERTIES = ("path", "file", "url", "table", "symbol", "qualified_name")

_MARKDOWN_LINK = re.compile(
    r"\[[^\]\n]{0,200}\]\(\s*<?([^()\s<>]{1,500})>?(?:\s+\"[^\"\n]*\")?\s*\)"
)
_LINK_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*<?([^\s<>]{1,500})", re.M)
_URL = re.compile(r"\bhttps?://[^\s<>()\[\]\"'`]{1,500}")
_CODE = re.compile(r"`([^`\n]{3,120})`")
_FILE = re.compile(r"(?<![\w/@:.-])(?:[\w.-]{1,100}/){1,20}[\w.-]{0,100}\.[A-Za-z]\w{0,9}(?![\w/])")
# A title has no "[", and nothing is unbounded: a megabyte of "[" took 16 s.
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,200}+)(?:[#|][^\[\]\n]{0,200}+)?\]\]")
_PARAGRAPH = re.compile(r"\n\s*\n")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


class ParsedItem(NamedTuple):
    """An item, its text split into words and keys, and the names that a name finder found in it.

    `passages` are those of an item with several.
    """

    item: Item
    text: KeyedText
    finder_names: FinderNames | None = None
    passages: tuple[Passage, ...] = ()


def build_labels(parsed: ParsedItem) -> tuple[str, ...]:
    """Return all labels but mentions, each once; the many keys of the text come last."""
    item, text, finder_names, passages = parsed
    extra = finder_names or NO_NAMES
    own_names, headings = resolve_names(item, extra, passages)
    item_names = (*own_names, *headings)
    spans = locate_spans(item, extra, passages)
    addresses, references = locate_addresses(item, passages), locate_references(item, passages)
    labels = [f"{NAME}{name}" for name in own_names]
    labels += [f"{HEADING}{name}" for name in headings]
    labels += dict.fromkeys(f"{NAME_KEY}{blocking_key(name)}" for name in item_names)
    labels += dict.fromkeys(
        f"{NAME_PREFIX}{prefix}" for name in item_names for prefix in list_prefixes(name)
    )
    labels += [f"{SPAN}{name}" for name in spans]
    labels += [f"{ADDRESS}{address}" for address in addresses]
    labels += [f"{REFERENCE}{type} {address}" for type, address in references]
    labels += [] if finder_names is None else [encode_names(item.text, finder_names)]
    if passages:
        labels.append(f"{SEVERAL_PASSAGES}{item.id}")
        labels.append(encode_places(NAME_PLACES, {**dict.fromkeys(own_names, ()), **headings}))
        labels.append(encode_places(SPAN_PLACES, spans))
        labels.append(encode_places(ADDRESS_PLACES, addresses))
        links = {address: numbers for (type, address), numbers in references.items() if numbers}
        labels.append(encode_places(REFERENCE_PLACES, links))
    return (*labels, *[f"{TEXT_KEY}{key}" for key in text.keys])


def select_values(role: str, labels: Iterable[str]) -> list[str]:
    """Return the values of the labels that have a role."""
    return [label[len(role) :] for label in labels if label.startswith(role)]


def group_by_role(labels: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of labels by role."""
    values: dict[str, list[str]] = {}
    for label in labels:
        values.setdefault(label[:2], []).append(label[2:])
    return values


def drop_text_keys(labels: Sequence[str]) -> Sequence[str]:
    """Return the labels of an item without the keys of its text, which come last."""
    return labels[: bisect_left(labels, True, key=_is_text_key)]


def _is_text_key(label: str) -> bool:
    return label.startswith(TEXT_KEY)


def resolve_names(
    item: Item, finder_names: FinderNames = NO_NAMES, passages: Sequence[Passage] = ()
) -> tuple[tuple[str, ...], Places]:
    """Return the names of an item, and those in its headings if it has several passages.

    An item without any is named by the name that a finder found at its beginning.
    """
    headings = collect_headings(locate_headings(item.text, passages)) if passages else None
    names = collect_names(item, headings)
    if not names and not headings and finder_names.opening:
        names = (finder_names.opening,)
    return names, {name: places for name, places in (headings or {}).items() if name not in names}


def locate_spans(
    item: Item, finder_names: FinderNames = NO_NAMES, passages: Sequence[Passage] = ()
) -> Places:
    """Return names in the text that may have no item; those of a name finder come first."""
    places: dict[str, list[int]] = {name: [] for name in finder_names.names}
    if not passages:
        names = (*places, *capitalised_spans(item.text))
        return dict.fromkeys(tuple(dict.fromkeys(names))[:MAX_SPANS], ())
    for passage, text in zip(passages, readable_passages(item.text, passages), strict=False):
        # The first word of a heading begins a sentence, too.
        paragraphs = [part.lstrip("# ") for part in _PARAGRAPH.split(text)]
        spans = [name for paragraph in paragraphs for name in capitalised_spans(paragraph)]
        for name in dict.fromkeys(spans):
            if name in places or len(places) < MAX_SPANS_OF_PASSAGES:
                places.setdefault(name, []).append(passage.number)
    return places


def extract_addresses(item: Item) -> tuple[str, ...]:
    """Return the strings by which references point to an item: id, file, table, column, title."""
    candidates = [
        item.id,
        item.source or "",
        *(str(item.properties[name]) for name in _ADDRESS_PROPERTIES if name in item.properties),
    ]
    candidates += [normalise_name(item.title)] if item.title else []
    addresses = map(_normalise_address, candidates)
    return tuple(
        dict.fromkeys(address for address in addresses if 0 < len(address) <= MAX_ADDRESS_LENGTH)
    )


def locate_addresses(item: Item, passages: Sequence[Passage]) -> Places:
    """Return the addresses of an item, and of the headings in its passages: `page#heading`."""
    places: dict[str, tuple[int, ...]] = dict.fromkeys(extract_addresses(item), ())
    page = _page_of(item)
    if passages and page:
        stem = posixpath.splitext(_normalise_address(page))[0]
        for number, heading in locate_headings(item.text, passages)[:MAX_HEADING_NAMES]:
            address = f"{stem}#{slugify(heading)}"
            if len(address) <= MAX_ADDRESS_LENGTH:
                places.setdefault(address, (number,))
    return places


def extract_references(item: Item) -> tuple[tuple[str, str], ...]:
    """Return (edge type, address) of the links in a text and of the foreign keys of a table."""
    return tuple(locate_references(item, ()))


def locate_references(
    item: Item, passages: Sequence[Passage]
) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the places of each reference, which is (edge type, address)."""
    offsets: dict[tuple[str, str], list[int]] = {}
    for offset, address in _link_addresses(item):
        offsets.setdefault((REFERS_TO, address), []).append(offset)
    for address in _foreign_keys(item.properties):
        offsets.setdefault((FOREIGN_KEY, address), [])
    usable = [key for key in offsets if 0 < len(key[1]) <= MAX_ADDRESS_LENGTH]
    ends = [passage.end for passage in passages]
    return {
        key: tuple(sorted({bisect_right(ends, offset) for offset in offsets[key]} if ends else ()))
        for key in usable[:MAX_REFERENCES]
    }


def _page_of(item: Item) -> str:
    return item.source or str(item.properties.get("path", ""))


def _link_addresses(item: Item) -> Iterator[tuple[int, str]]:
    """Yield the offset and the address of links, files, URLs and code in a text.

    A relative path is also resolved against the folder of the item's file; a link to a fragment of
    a page also points to the item of that section.
    """
    page, text = _page_of(item), item.text
    folder = posixpath.dirname(page)
    # A substring test is much faster than a pattern that does not match.
    links = _search(_MARKDOWN_LINK, text) if "](" in text else []
    links += _search(_LINK_DEFINITION, text) if "]:" in text else []
    links += _search(_FILE, text) if "/" in text else []
    for offset, link in links:
        target, _, fragment = link.partition("#")
        target = target.split("?")[0]
        if _SCHEME.match(target):
            yield offset, _normalise_address(link)
            continue
        resolved = page
        if target:
            yield offset, _normalise_address(target)
            yield offset, (resolved := _normalise_address(posixpath.join(folder, target)))
        if fragment:
            yield offset, f"{posixpath.splitext(resolved)[0]}#{fragment}"
    for offset, url in _search(_URL, text) if "://" in text else ():
        yield offset, _normalise_address(url.rstrip(".,;:!?"))
    titles = _search(_WIKI_LINK, text) if "[[" in text else []
    yield from [(offset, _normalise_address(title)) for offset, title in titles]
    yield from [(offset, normalise_name(title)) for offset, title in titles]
    for offset, code in _search(_CODE, text) if "`" in text else ():
        if is_useful_name(normalise_name(code)):
            yield offset, _normalise_address(code.removesuffix("()"))


def _search(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    """Return the offset and the first group, or else all, of each match."""
    return [(match.start(), match[pattern.groups and 1]) for match in pattern.finditer(text)]


def _foreign_keys(properties: Mapping[str, object]) -> Iterator[str]:
    """Yield the columns and tables in `foreign_keys`.

    A key is text ("singer.id", "singer_id -> singer.id") or an object with `references` or `table`.
    """
    keys = properties.get("foreign_keys", ())
    for key in keys if isinstance(keys, list | tuple) else ():
        text = key.get("references") or key.get("table") if isinstance(key, Mapping) else key
        if isinstance(text, str) and text:
            target = text.split("->")[-1].strip()
            yield _normalise_address(target)
            yield _normalise_address(re.sub(r"[.(][^.(]*$", "", target))


def _normalise_address(text: str) -> str:
    stripped = text.strip()
    # Most are ids and titles without a path, and normpath takes longer than everything else.
    if "/" not in stripped or _SCHEME.match(stripped):
        return stripped
    return posixpath.normpath(stripped).removeprefix("/")
