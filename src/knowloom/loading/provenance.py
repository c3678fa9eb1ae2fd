"""Which items and edges came from which file or folder, so that what vanished there can be removed here, and nothing else.

The ledger is kept as items of a space that only knowloom sees. Every store can keep it, and a page of it is written together with the
items it speaks of: a load that is interrupted forgets nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from knowloom import codec
from knowloom.model import Edge, EdgeKey, Filter, Item, Key, Kind
from knowloom.ports import Stores
from knowloom.validation import LEDGER

PAGE_KEYS = 256  # keys of one page, about
READ_PAGES = 200  # at a time


class Claim(NamedTuple):
    """The file that something came from, and a number for what it said."""

    part: str
    mark: str


@dataclass(slots=True)
class Claims:
    """What one source is known to have brought."""

    items: dict[Key, Claim] = field(default_factory=dict)
    edges: dict[EdgeKey, Claim] = field(default_factory=dict)


def origin(source: object, space: str | None) -> str:
    """Names a source, however its path is written; "" for a dict. The same folder loaded into two spaces is two sources."""
    if not isinstance(source, str | Path):
        return ""
    said = codec.to_json([Path(source).resolve().as_posix(), space]).encode(errors="surrogatepass")
    return hashlib.blake2b(said, digest_size=16).hexdigest()


def item_mark(item: Item) -> str:
    """Of what an item says. A profile may get its title from a graph, so that does not count."""
    said = replace(item, title="") if item.kind is Kind.PROFILE else item
    return f"{codec.content_fingerprint(said):032x}"[:16]


def edge_mark(edge: Edge) -> str:
    return f"{codec.fingerprint(codec.edge_to_dict(edge)):032x}"[:16]


def read(origin: str, stores: Stores) -> tuple[Claims, list[Item]]:
    """What a source has brought, and the pages that say so."""
    pages = list(_pages(stores, f"{origin}/"))
    return _claims(pages), pages


def others(origin: str, stores: Stores) -> Claims:
    """What all other sources have brought."""
    return _claims(page for page in _pages(stores, "") if not page.id.startswith(f"{origin}/"))


def _pages(stores: Stores, prefix: str) -> Iterator[Item]:
    after: Key = (LEDGER, prefix)
    while found := stores.items.find(Filter((LEDGER,)), READ_PAGES, after):
        for page in found:
            if not page.id.startswith(prefix):
                return
            yield page
        after = found[-1].key


def _claims(pages: Iterable[Item]) -> Claims:
    claims = Claims()
    for page in pages:
        said = json.loads(page.embedding_text or "{}")
        for part, rows in said.get("items", {}).items():
            claims.items.update({(space, id): Claim(part, mark) for space, id, mark in rows})
        for part, rows in said.get("edges", {}).items():
            claims.edges.update(
                {
                    ((space, a), (other, b), type): Claim(part, mark)
                    for space, a, other, b, type, mark in rows
                }
            )
    return claims


def pages(origin: str, claims: Claims) -> list[Item]:
    """The claims as pages. A key's page depends on the key, so that a small change rewrites few of them."""
    number = 1 << ((len(claims.items) + len(claims.edges)) // PAGE_KEYS).bit_length()
    sorted_out: dict[int, Claims] = {}
    for key, claim in claims.items.items():
        sorted_out.setdefault(_place(key, number), Claims()).items[key] = claim
    for link, claim in claims.edges.items():
        sorted_out.setdefault(_place(link[0], number), Claims()).edges[link] = claim
    return [page(origin, f"{place:05}", sorted_out[place]) for place in sorted(sorted_out)]


def page(origin: str, name: str, claims: Claims) -> Item:
    """In the one text that no index of words reads."""
    links = {
        (*source, *target, type): claim for (source, target, type), claim in claims.edges.items()
    }
    said = {"items": _by_part(claims.items), "edges": _by_part(links)}
    return Item(f"{origin}/{name}", LEDGER, embedding_text=codec.to_json(said))


def _by_part(claims: Mapping[Any, Claim]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for key in sorted(claims):
        found.setdefault(claims[key].part, []).append([*key, claims[key].mark])
    return found


def _place(key: Key, pages: int) -> int:
    return crc32("\0".join(key).encode(errors="surrogatepass")) % pages
