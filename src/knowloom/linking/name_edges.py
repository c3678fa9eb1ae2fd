"""Links that knowledge makes by itself: one item names another, refers to it, or shares a rare name with it.

`links` makes all of them for a set of items; `strength` and `closeness` say what a link weighs, from counts that a store can keep.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from knowloom.linking.name_finders import Named, find
from knowloom.linking.name_keys import Text, key_of
from knowloom.model import Edge, Item
from knowloom.ports import NameFinder
from knowloom.text.item_names import names
from knowloom.text.mentions import MAX_NAMED, mentioned, normal, spans, useful

MENTIONS, REFERS, SHARES, FOREIGN_KEY = "mentions", "refers_to", "shares", "foreign_key"
MAX_HOLDERS = 20  # a name that more items go by names none of them; parts of one document often have its title in common
MAX_MENTIONS = 200  # a name that more texts hold tells nothing
MAX_LINKS = 1000  # by one name: of many items and many texts all links would be too many
MAX_ADDRESSED = 5  # items that one address leads to
MAX_SHARING = 10  # a name without an item links the texts that hold it if they are this few
MAX_SAYING = 1000  # a name is not looked for if more texts than this have its first two words that say something (`keys.key_of`)
MAX_SPANS = 200  # names without an item in one text
MAX_REFERENCES = 500  # of one item
MAX_REFERRING = 1000  # an address that more items refer to is part of a frame
MAX_ADDRESS = 1000  # characters

NOTHING = Named()
_ADDRESSED = ("path", "file", "url", "table", "symbol", "qualified_name")

_MARKDOWN_LINK = re.compile(
    r"\[[^\]\n]{0,200}\]\(\s*<?([^()\s<>]{1,500})>?(?:\s+\"[^\"\n]*\")?\s*\)"
)
_DEFINITION = re.compile(
    r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*<?([^\s<>]{1,500})", re.M
)  # of a link in another place
_URL = re.compile(r"\bhttps?://[^\s<>()\[\]\"'`]{1,500}")
_CODE = re.compile(r"`([^`\n]{3,120})`")
_FILE = re.compile(r"(?<![\w/@:.-])(?:[\w.-]{1,100}/){1,20}[\w.-]{0,100}\.[A-Za-z]\w{0,9}(?![\w/])")
_WIKI_LINK = re.compile(r"\[\[([^\]|#\n]{1,200})(?:[#|][^\]\n]*)?\]\]")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def strength(holders: int, texts: int) -> float:
    """What a mention weighs: less if several items go by the name, and if many texts hold it."""
    return round(1 / holders / math.sqrt(1 + 0.1 * (texts - 1)), 6)


def leads(holders: int, texts: int) -> bool:
    """Whether a name links the texts that hold it with the items that go by it."""
    return holders <= MAX_HOLDERS and texts <= MAX_MENTIONS and holders * texts <= MAX_LINKS


def closeness(texts: int) -> float:
    """What a shared name weighs: always less than a mention of one item alone."""
    return round(0.25 / texts, 6)


def addresses(item: Item) -> tuple[str, ...]:
    """What a reference may point to when it means this item: its id, the file it came from, the table or column it describes."""
    found = [
        item.id,
        item.source or "",
        *(str(item.properties[field]) for field in _ADDRESSED if field in item.properties),
    ]
    found += [normal(item.title)] if item.title else []
    return tuple(dict.fromkeys(one for one in map(_address, found) if 0 < len(one) <= MAX_ADDRESS))


def references(item: Item) -> tuple[tuple[str, str], ...]:
    """(type of link, address): the links in its text, and the foreign keys of the table it describes."""
    found = [(REFERS, address) for address in _linked(item)]
    found += [(FOREIGN_KEY, address) for address in _foreign_keys(item.properties)]
    return tuple(dict.fromkeys(one for one in found if 0 < len(one[1]) <= MAX_ADDRESS))[
        :MAX_REFERENCES
    ]


def called_by(item: Item, named: Named = NOTHING) -> tuple[str, ...]:
    """The names it goes by; without any, the one that a finder of names found at the beginning of its text."""
    return names(item) or ((named.opening,) if named.opening else ())


def shared(item: Item, named: Named = NOTHING) -> tuple[str, ...]:
    """Names in its text that may tie it to other texts, if no item goes by them; those that a finder found come first."""
    return tuple(dict.fromkeys((*named.names, *spans(item.text))))[:MAX_SPANS]


def links(items: Iterable[Item], finder: NameFinder | None = None) -> list[Edge]:
    """All links inside each space, ordered by key; between two items at most one of each type. `finder` finds more names in texts."""
    spaces: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        spaces[item.space].append(item)
    found = {
        edge.key: edge
        for space in sorted(spaces)
        for edge in _in_space(sorted(spaces[space], key=lambda item: item.id), finder)
    }
    return [found[key] for key in sorted(found)]


def _in_space(items: Sequence[Item], finder: NameFinder | None) -> Iterator[Edge]:
    named = {item.id: NOTHING if finder is None else find(finder, item.text) for item in items}
    called: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for name in called_by(item, named[item.id]):
            called[name].append(item)
    yield from _mentions(items, called)
    yield from _shares(items, called, named)
    yield from _references(items)


def _mentions(items: Sequence[Item], called: Mapping[str, Sequence[Item]]) -> Iterator[Edge]:
    holding: dict[str, list[Item]] = defaultdict(list)
    saying = Counter(one for item in items for one in Text(item.text).keys)
    sought = {name for name in called if saying[key_of(name)] <= MAX_SAYING}
    for item in items:
        for name in mentioned(item.text, sought)[:MAX_NAMED]:
            holding[name].append(item)
    best: dict[tuple[str, str], Edge] = {}
    for name in sorted(holding):
        if not leads(len(called[name]), len(holding[name])):
            continue
        for source in holding[name]:
            for target in called[name]:
                edge = Edge(
                    source.id,
                    target.id,
                    MENTIONS,
                    strength(len(called[name]), len(holding[name])),
                    source.space,
                    properties={"name": name},
                )
                known = best.get((source.id, target.id))
                if source.id != target.id and (known is None or known.weight < edge.weight):
                    best[source.id, target.id] = edge
    yield from best.values()


def _shares(
    items: Sequence[Item], called: Mapping[str, Sequence[Item]], named: Mapping[str, Named]
) -> Iterator[Edge]:
    holding: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for name in shared(item, named[item.id]):
            holding[name].append(item)
    best: dict[tuple[str, str], Edge] = {}
    for name in sorted(holding):
        if name in called or not 2 <= len(holding[name]) <= MAX_SHARING:
            continue
        for number, source in enumerate(holding[name]):
            for target in holding[name][number + 1 :]:
                edge = Edge(
                    source.id,
                    target.id,
                    SHARES,
                    closeness(len(holding[name])),
                    source.space,
                    properties={"name": name},
                )
                known = best.get((source.id, target.id))
                if known is None or known.weight < edge.weight:
                    best[source.id, target.id] = edge
    yield from best.values()


def _references(items: Sequence[Item]) -> Iterator[Edge]:
    at: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for address in addresses(item):
            at[address].append(item)
    referring = Counter(reference for item in items for reference in references(item))
    for source in items:
        for type, address in sorted(
            references(source), reverse=True
        ):  # of several addresses of one item the first counts
            for target in (
                at[address][:MAX_ADDRESSED]
                if address in at and referring[type, address] <= MAX_REFERRING
                else ()
            ):
                if target.id != source.id:
                    yield Edge(
                        source.id, target.id, type, 1.0, source.space, properties={"name": address}
                    )


def _linked(item: Item) -> Iterator[str]:
    """Addresses of links, and of what stands in the text as code, file or URL. A relative path counts from the folder of the file that the
    item came from, too; a link to a part of a page also leads to the item of that part."""
    page, text = item.source or str(item.properties.get("path", "")), item.text
    folder = posixpath.dirname(page)
    # A sign that each of them has is found in no time.
    linked = _MARKDOWN_LINK.findall(text) if "](" in text else []
    linked += _DEFINITION.findall(text) if "]:" in text else []
    linked += _FILE.findall(text) if "/" in text else []
    for found in linked:
        target, _, part = found.partition("#")
        target = target.split("?")[0]
        if _SCHEME.match(target):
            yield _address(found)
        elif target:
            yield _address(target)
            yield _address(posixpath.join(folder, target))
        if part and not _SCHEME.match(target):
            yield f"{posixpath.splitext(_address(posixpath.join(folder, target)) if target else page)[0]}#{part}"
    yield from (
        _address(found.rstrip(".,;:!?")) for found in (_URL.findall(text) if "://" in text else ())
    )
    pages = _WIKI_LINK.findall(text) if "[[" in text else []
    yield from map(_address, pages)
    yield from map(normal, pages)
    for found in _CODE.findall(text) if "`" in text else ():
        if useful(normal(found)):
            yield _address(found.removesuffix("()"))


def _foreign_keys(properties: Mapping[str, object]) -> Iterator[str]:
    """`foreign_keys` as texts ("singer.id", "singer_id -> singer.id") or as objects with `references` or `table`."""
    keys = properties.get("foreign_keys", ())
    for key in keys if isinstance(keys, list | tuple) else ():
        told = key.get("references") or key.get("table") if isinstance(key, Mapping) else key
        if isinstance(told, str) and told:
            target = told.split("->")[-1].strip()
            yield _address(target)
            yield _address(re.sub(r"[.(][^.(]*$", "", target))


def _address(text: str) -> str:
    cleaned = text.strip()
    # Most are ids and titles without a path, and normpath takes longer than all the rest.
    return (
        cleaned
        if "/" not in cleaned or _SCHEME.match(cleaned)
        else posixpath.normpath(cleaned).removeprefix("/")
    )
