"""Proving that everything in the SQLite file agrees: items, words, records, vectors, edges, counts, digests and the change log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import apsw
import numpy as np

from knowloom import codec
from knowloom.model import Key
from knowloom.stores.sqlite import change_log, name_index
from knowloom.stores.sqlite.rows import (
    RECORD,
    decode_float16,
    edge_from_row,
    filter_terms,
    item_record,
)
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.vectors import pack_signs
from knowloom.text import words as analyser

# Tables whose rows belong to a space, and the number of that space.
_BY_SPACE = (
    "item",
    "record",
    "sign",
    "posting",
    "edge",
    "unlinked",
    "common",
    "entry",
    "entered",
    "stale",
)
SPACE_COLUMNS = dict.fromkeys(_BY_SPACE, "space") | dict.fromkeys(("vector", "fresh"), "row >> 32")


@dataclass
class ExpectedTotals:
    """What the items and edges of a space say that the rest of the file should hold."""

    items: int = 0
    edges: int = 0
    length: int = 0
    digest: int = 0
    links: int = 0
    links_digest: int = 0
    words: Counter[tuple[str, int, int]] = field(default_factory=Counter)  # (word, place, count)


def find_problems(
    connection: apsw.Connection, elsewhere: frozenset[Key] = frozenset()
) -> list[str]:
    """Every disagreement, in words. Reads the whole file, and nothing that a reader remembers."""
    found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    if found:
        return found
    try:
        found.extend(_problems(connection, elsewhere))
    except (
        TypeError,
        ValueError,
        LookupError,
    ) as error:  # what no check foresaw, such as a number where a text should be
        found.append(f"something in the file is not what knowloom writes: {error}")
    return found


def _problems(connection: apsw.Connection, elsewhere: frozenset[Key]) -> Iterator[str]:
    yield from _strays(connection)
    yield from change_log.find_gaps(connection)
    for no, name in list(connection.execute("SELECT no, name FROM space ORDER BY name")):
        yield from _space_problems(connection, no, name, elsewhere)


def _strays(connection: apsw.Connection) -> Iterator[str]:
    for table, space in SPACE_COLUMNS.items():
        ((rows,),) = connection.execute(
            f"SELECT count(*) FROM {table} WHERE {space} NOT IN (SELECT no FROM space)"
        )
        if rows:
            yield f"{rows} rows of table {table!r} belong to no space"


def _space_problems(
    connection: apsw.Connection, no: int, name: str, elsewhere: frozenset[Key]
) -> Iterator[str]:
    view, counted = SpaceView(no), ExpectedTotals()
    view.refresh(connection)
    yield from _item_problems(connection, name, view, counted)
    yield from _edge_problems(connection, name, view, counted, elsewhere)
    yield from _count_problems(connection, name, view, counted)
    yield from _word_problems(connection, name, view, counted)
    yield from _vector_problems(connection, name, view)
    yield from change_log.find_problems(connection, no, name)
    yield from name_index.find_problems(connection, no, name)


def _item_problems(
    connection: apsw.Connection, name: str, view: SpaceView, counted: ExpectedTotals
) -> Iterator[str]:
    for row, id, body in connection.execute(
        "SELECT row, id, CAST(body AS BLOB) FROM item WHERE space = ?", (view.no,)
    ):
        try:
            item = codec.item_from_dict({**json.loads(body), "space": name})
        except (ValueError, TypeError) as error:
            yield f"space {name!r}: item {id!r} cannot be read ({error})"
            continue
        place, counts = row & 0xFFFFFFFF, analyser.counts(item)
        counted.items += 1
        counted.length += counts.total()
        counted.digest += codec.fingerprint(codec.item_to_dict(item))
        counted.words.update(
            {(word, place, min(count, analyser.MAX_COUNT)): 1 for word, count in counts.items()}
        )
        counted.words.update({(word, place, 1): 1 for word in filter_terms(item)})
        stored = view.records[place] if place < view.next else np.zeros((), RECORD)
        if (
            item.id != id
            or stored.item()
            != np.array(item_record(item, counts.total(), bool(stored["vector"])), RECORD).item()
        ):
            yield f"space {name!r}: the record of item {id!r} does not fit the item"


def _edge_problems(
    connection: apsw.Connection,
    name: str,
    view: SpaceView,
    counted: ExpectedTotals,
    elsewhere: frozenset[Key],
) -> Iterator[str]:
    query = """SELECT source, (SELECT name FROM space WHERE no = target_space), target, type, weight, body, origin,
        EXISTS (SELECT 1 FROM item WHERE item.space = edge.space AND item.id = edge.source),
        EXISTS (SELECT 1 FROM item WHERE item.space = edge.target_space AND item.id = edge.target) FROM edge WHERE space = ?"""
    for (
        source,
        target_space,
        target,
        type,
        weight,
        body,
        origin,
        starts,
        ends,
    ) in connection.execute(query, (view.no,)):
        named = f"space {name!r}: the edge {source!r} -[{type}]-> {target!r}"
        counted.links, counted.edges = counted.links + bool(origin), counted.edges + (not origin)
        if not (starts or (name, source) in elsewhere) or not (
            ends or (target_space, target) in elsewhere
        ):
            yield f"{named} has an end that does not exist"
        try:
            edge = edge_from_row(
                {1: name, 2: target_space},
                (1, source, 1 if target_space == name else 2, target, type, weight, body, origin),
            )
        except (ValueError, TypeError) as error:
            yield f"{named} cannot be read ({error})"
            continue
        number = codec.fingerprint(codec.edge_to_dict(edge))
        if origin:
            counted.links_digest += number
        else:
            counted.digest += number
        if (*edge.key, edge.weight, edge.origin) != (
            (name, source),
            (target_space, target),
            type,
            weight,
            origin,
        ):
            yield f"{named} does not fit its columns"


def _count_problems(
    connection: apsw.Connection, name: str, view: SpaceView, counted: ExpectedTotals
) -> Iterator[str]:
    query = "SELECT items, edges, length, digest, links, links_digest FROM space WHERE no = ?"
    ((items, edges, length, digest, links, apart),) = connection.execute(query, (view.no,))
    live = int(view.records["live"][: view.next].sum())
    pairs = {
        "items": (items, counted.items),
        "live records": (live, counted.items),
        "edges": (edges, counted.edges),
        "length": (length, counted.length),
        "digest": (digest.zfill(32), codec.sum_text(counted.digest)),
        "links": (links, counted.links),
        "digest of links": (apart.zfill(32), codec.sum_text(counted.links_digest)),
    }
    for what, (stored, found) in pairs.items():
        if stored != found:
            yield f"space {name!r}: {what}: stored {stored}, counted {found}"


def _word_problems(
    connection: apsw.Connection, name: str, view: SpaceView, counted: ExpectedTotals
) -> Iterator[str]:
    stored: Counter[tuple[str, int, int]] = Counter()
    for word in view.words(connection):
        places, counts = view.holders(word, view.postings(connection, [word]).get(word, ()))
        stored.update(
            (word, place, count)
            for place, count in zip(places.tolist(), counts.tolist(), strict=True)
        )
    if missing := (counted.words - stored).total():
        yield f"space {name!r}: {missing} words of items are not indexed"
    if surplus := (stored - counted.words).total():
        yield f"space {name!r}: {surplus} indexed words belong to no item"


def _vector_problems(connection: apsw.Connection, name: str, view: SpaceView) -> Iterator[str]:
    base = view.no << 32
    ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
    places = set()
    for row, data in connection.execute(
        "SELECT row, data FROM vector WHERE row BETWEEN ? AND ?", (base, base + 0xFFFFFFFF)
    ):
        places.add(row - base)
        if len(data) != 2 * dimensions:
            yield f"space {name!r}: the vector at place {row - base} has {len(data)} bytes, not {2 * dimensions}"
        elif not _signs_fit(view, row - base, data):
            yield f"space {name!r}: the signs of the vector at place {row - base} do not fit it"
    flagged = set(np.flatnonzero(view.records["vector"][: view.next]).tolist())
    live = set(np.flatnonzero(view.records["live"][: view.next]).tolist())
    if places != flagged:
        yield f"space {name!r}: {len(places ^ flagged)} vectors and records disagree"
    if places - live:
        yield f"space {name!r}: {len(places - live)} vectors belong to no item"


def _signs_fit(view: SpaceView, place: int, data: bytes) -> bool:
    signs = pack_signs(decode_float16(data))
    if place >= view.signs.shape[1] or len(signs) != len(view.signs):
        return False
    # A number too small for 16 bits loses its sign when stored: a few bits may differ, a wrong vector differs in half of them.
    return int(np.bitwise_count(signs ^ view.signs[:, place]).sum()) <= 8
