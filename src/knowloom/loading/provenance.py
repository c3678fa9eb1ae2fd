"""Provenance: which items and edges came from which file or folder.

What vanished from a source can so be deleted, and nothing else. The record is stored as items of a
reserved space: every store can keep it, and a page of it is written in one batch with the items it
describes, so an interrupted load loses nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from knowloom import codec
from knowloom.loading.source_rows import NamedBytes
from knowloom.loading.sources.file_records import FileRecord
from knowloom.loading.sources.web_source import WebPages
from knowloom.model import Edge, EdgeKey, Filter, Item, Key, Kind
from knowloom.ports import PROVENANCE_SPACE, Stores

KEYS_PER_PAGE = 256  # about
PAGES_PER_READ = 200
ITEMS_PER_READ = 2000


class Claim(NamedTuple):
    """The file that an item or edge came from, and a digest of its content."""

    part: str
    digest: str


@dataclass(slots=True)
class Claims:
    """The items and edges that came from one source, and the records of its files."""

    items: dict[Key, Claim] = field(default_factory=dict)
    edges: dict[EdgeKey, Claim] = field(default_factory=dict)
    files: dict[str, FileRecord] = field(default_factory=dict)


def identify_source(source: object, space: str | None) -> str:
    """Return an id for a source, however its path is written; "" for a dict.

    The same folder loaded into two spaces is two sources.
    """
    if isinstance(source, WebPages):
        identity = codec.to_json(["web", source.url, space])
    elif isinstance(source, NamedBytes):
        identity = codec.to_json(["bytes", source.name, space])
    elif isinstance(source, str | Path):
        identity = codec.to_json([Path(source).resolve().as_posix(), space])
    else:
        return ""
    return hashlib.blake2b(identity.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def item_digest(item: Item) -> str:
    """Return a digest of the content, without the title of a profile, which a graph may set."""
    content = replace(item, title="") if item.kind is Kind.PROFILE else item
    return f"{codec.content_fingerprint(content):032x}"[:16]


def edge_digest(edge: Edge) -> str:
    return f"{codec.fingerprint(codec.edge_to_dict(edge)):032x}"[:16]


def read_claims(source_id: str, stores: Stores) -> tuple[Claims, list[Item]]:
    """Return the claims of a source, and the pages they are stored in."""
    pages = list(_read_pages(stores, f"{source_id}/"))
    return _parse_pages(pages), pages


def read_other_claims(source_id: str, stores: Stores) -> Claims:
    """Return the claims of all other sources."""
    prefix = f"{source_id}/"
    return _parse_pages(page for page in _read_pages(stores, "") if not page.id.startswith(prefix))


def claimed_files(files: Mapping[str, FileRecord], claims: Claims) -> dict[str, FileRecord]:
    """Return the files whose items are all claimed, and no others for them."""
    counts = Counter(claim.part for claim in claims.items.values())
    return {name: record for name, record in files.items() if counts[name] == record.items}


def find_intact_files(claims: Claims, stores: Stores) -> dict[str, list[Key]]:
    """Return the recorded files whose items are all stored as they came, with their keys."""
    keys: dict[str, list[Key]] = {name: [] for name in claimed_files(claims.files, claims)}
    for key, claim in claims.items.items():
        if claim.part in keys:
            keys[claim.part].append(key)
    waiting = [key for part in keys.values() for key in part]
    changed = set(waiting)
    for start in range(0, len(waiting), ITEMS_PER_READ):
        for item in stores.items.get(waiting[start : start + ITEMS_PER_READ]):
            if item_digest(item) == claims.items[item.key].digest:
                changed.discard(item.key)
    return {name: part for name, part in keys.items() if changed.isdisjoint(part)}


def _read_pages(stores: Stores, prefix: str) -> Iterator[Item]:
    after: Key = (PROVENANCE_SPACE, prefix)
    while pages := stores.items.find(Filter((PROVENANCE_SPACE,)), PAGES_PER_READ, after):
        for page in pages:
            if not page.id.startswith(prefix):
                return
            yield page
        after = pages[-1].key


def _parse_pages(pages: Iterable[Item]) -> Claims:
    claims = Claims()
    for page in pages:
        content = json.loads(page.embedding_text or "{}")
        for part, rows in content.get("items", {}).items():
            claims.items.update({(space, id): Claim(part, digest) for space, id, digest in rows})
        for part, rows in content.get("edges", {}).items():
            for space, source, target_space, target, type, digest in rows:
                key = ((space, source), (target_space, target), type)
                claims.edges[key] = Claim(part, digest)
        for name, row in content.get("files", {}).items():
            claims.files[name] = FileRecord.from_json(row)
    return claims


def build_pages(source_id: str, claims: Claims) -> list[Item]:
    """Return the claims as pages, by a hash of the key: a small change rewrites few pages."""
    count = (
        1
        << (
            (len(claims.items) + len(claims.edges) + len(claims.files)) // KEYS_PER_PAGE
        ).bit_length()
    )
    by_page: dict[int, Claims] = {}
    for key, claim in claims.items.items():
        by_page.setdefault(_page_number(key, count), Claims()).items[key] = claim
    for edge_key, claim in claims.edges.items():
        by_page.setdefault(_page_number(edge_key[0], count), Claims()).edges[edge_key] = claim
    for name, record in claims.files.items():
        by_page.setdefault(_page_number(("", name), count), Claims()).files[name] = record
    return [build_page(source_id, f"{number:05}", by_page[number]) for number in sorted(by_page)]


def build_page(source_id: str, name: str, claims: Claims) -> Item:
    """Return a page with the claims in its embedding text, which no word index reads."""
    edges = {
        (*source, *target, type): claim for (source, target, type), claim in claims.edges.items()
    }
    content: dict[str, Any] = {
        "items": _group_by_part(claims.items),
        "edges": _group_by_part(edges),
    }
    if claims.files:
        content["files"] = {name: claims.files[name].to_json() for name in sorted(claims.files)}
    text = codec.to_json(content)
    return Item(f"{source_id}/{name}", PROVENANCE_SPACE, embedding_text=text)


def _group_by_part(claims: Mapping[Any, Claim]) -> dict[str, list[list[str]]]:
    rows: dict[str, list[list[str]]] = {}
    for key in sorted(claims):
        rows.setdefault(claims[key].part, []).append([*key, claims[key].digest])
    return rows


def _page_number(key: Key, count: int) -> int:
    return crc32("\0".join(key).encode(errors="surrogatepass")) % count
