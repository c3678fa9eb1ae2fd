"""Labels of an item in the name index: its names, blocking keys, spans, addresses and references.

A label is a role of two characters and a value. The labels of an item depend on that item alone,
except for mentions, which depend on the names of all other items.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from knowloom.linking.name_finders import NO_NAMES, FinderNames, encode_names
from knowloom.linking.name_keys import KeyedText, blocking_key
from knowloom.linking.name_weights import FOREIGN_KEY, REFERS_TO
from knowloom.linking.unspaced_scripts import list_prefixes
from knowloom.model import Item
from knowloom.text.item_names import collect_names
from knowloom.text.mentions import capitalised_spans, is_useful_name, normalise_name

NAME = "c:"  # a name of the item
NAME_KEY = "k:"  # the blocking key of one of its names
NAME_PREFIX = "b:"  # a prefix of one of its names, in a script without spaces
TEXT_KEY = "s:"  # a blocking key that its text contains
SPAN = "p:"  # a capitalised span of its text: a name that may have no item
ADDRESS = "a:"  # a string by which references point to it
REFERENCE = "r:"  # the type of edge and the address of a reference it makes
MENTION = "m:"  # a name of another item that its text mentions

MAX_SPANS = 200  # per text
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
_WIKI_LINK = re.compile(r"\[\[([^\]|#\n]{1,200})(?:[#|][^\]\n]*)?\]\]")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def build_labels(
    item: Item, text: KeyedText, finder_names: FinderNames | None = None
) -> tuple[str, ...]:
    """Return all labels but mentions, each once; the keys of the text, which are many, come last.

    `text` is the text of the item, `finder_names` the names that a name finder found in it.
    """
    extra = finder_names or NO_NAMES
    item_names = resolve_names(item, extra)
    labels = [f"{NAME}{name}" for name in item_names]
    labels += dict.fromkeys(f"{NAME_KEY}{blocking_key(name)}" for name in item_names)
    labels += dict.fromkeys(
        f"{NAME_PREFIX}{prefix}" for name in item_names for prefix in list_prefixes(name)
    )
    labels += [f"{SPAN}{name}" for name in extract_spans(item, extra)]
    labels += [f"{ADDRESS}{address}" for address in extract_addresses(item)]
    labels += [f"{REFERENCE}{type} {address}" for type, address in extract_references(item)]
    labels += [] if finder_names is None else [encode_names(item.text, finder_names)]
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


def resolve_names(item: Item, finder_names: FinderNames = NO_NAMES) -> tuple[str, ...]:
    """Return the names of an item; without any, the name that a finder found at its beginning."""
    return collect_names(item) or ((finder_names.opening,) if finder_names.opening else ())


def extract_spans(item: Item, finder_names: FinderNames = NO_NAMES) -> tuple[str, ...]:
    """Return names in the text that may have no item; those of a name finder come first."""
    return tuple(dict.fromkeys((*finder_names.names, *capitalised_spans(item.text))))[:MAX_SPANS]


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


def extract_references(item: Item) -> tuple[tuple[str, str], ...]:
    """Return (edge type, address) of the links in a text and of the foreign keys of a table."""
    references = [(REFERS_TO, address) for address in _link_addresses(item)]
    references += [(FOREIGN_KEY, address) for address in _foreign_keys(item.properties)]
    usable = (pair for pair in references if 0 < len(pair[1]) <= MAX_ADDRESS_LENGTH)
    return tuple(dict.fromkeys(usable))[:MAX_REFERENCES]


def _link_addresses(item: Item) -> Iterator[str]:
    """Yield the addresses of links, files, URLs and code in a text.

    A relative path is also resolved against the folder of the item's file; a link to a fragment of
    a page also points to the item of that section.
    """
    page, text = item.source or str(item.properties.get("path", "")), item.text
    folder = posixpath.dirname(page)
    # A substring test is much faster than a pattern that does not match.
    links = _MARKDOWN_LINK.findall(text) if "](" in text else []
    links += _LINK_DEFINITION.findall(text) if "]:" in text else []
    links += _FILE.findall(text) if "/" in text else []
    for link in links:
        target, _, fragment = link.partition("#")
        target = target.split("?")[0]
        if _SCHEME.match(target):
            yield _normalise_address(link)
            continue
        resolved = page
        if target:
            yield _normalise_address(target)
            yield (resolved := _normalise_address(posixpath.join(folder, target)))
        if fragment:
            yield f"{posixpath.splitext(resolved)[0]}#{fragment}"
    for url in _URL.findall(text) if "://" in text else ():
        yield _normalise_address(url.rstrip(".,;:!?"))
    titles = _WIKI_LINK.findall(text) if "[[" in text else []
    yield from map(_normalise_address, titles)
    yield from map(normalise_name, titles)
    for code in _CODE.findall(text) if "`" in text else ():
        if is_useful_name(normalise_name(code)):
            yield _normalise_address(code.removesuffix("()"))


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
