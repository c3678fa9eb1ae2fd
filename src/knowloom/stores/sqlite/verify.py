"""Consistency check: items, terms, records, vectors, edges, counters, digests and the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apsw
import numpy as np

from knowloom import codec
from knowloom.model import Item, Key
from knowloom.stores.sqlite import change_log
from knowloom.stores.sqlite.damage.derived import DECODING_ERRORS, is_damage
from knowloom.stores.sqlite.links import label_index
from knowloom.stores.sqlite.passage_slots import read_segmenter
from knowloom.stores.sqlite.rows import (
    RECORD,
    SLOT_BITS,
    decode_float16,
    edge_from_row,
    item_record,
)
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.term_check import PostingList, TermNumbers, count_differences
from knowloom.text import words as analyser
from knowloom.text.passages import SEGMENTER
from knowloom.vectors.signs import pack_signs

_TABLES = ("item", "item_meta", "sign", "posting", "edge", "dirty", "dirty_name")
_NAME_TABLES = ("frequent_label", "name_index", "name_labels")
# Tables whose rows belong to a space, with the expression of its number.
SPACE_COLUMNS = dict.fromkeys((*_TABLES, *_NAME_TABLES), "space")
SPACE_COLUMNS |= dict.fromkeys(("vector", "delta", "nearest"), "row >> 32")
MAX_SIGN_ERRORS = 8  # bits


@dataclass
class ExpectedTotals:
    """Counters and terms of a space, computed from its items and edges."""

    items: int = 0
    edges: int = 0
    length: int = 0
    digest: int = 0
    links: int = 0
    links_digest: int = 0
    passages: int = 0
    terms: TermNumbers = field(default_factory=TermNumbers)

    def __post_init__(self) -> None:
        self.postings = PostingList(self.terms)

    def add_terms(self, head: int, item: Item, passages: Sequence[Counter[str]]) -> None:
        self.passages += len(passages)
        self.length += sum(counts.total() for counts in passages)
        self.postings.add_item(head, item, passages)


def find_problems(
    connection: apsw.Connection, elsewhere: frozenset[Key] = frozenset()
) -> list[str]:
    """Report every inconsistency. Reads the whole file, and none of a connection's caches."""
    problems: list[str] = []
    try:
        rows = connection.execute("PRAGMA integrity_check")
        problems += [row for (row,) in rows if row != "ok"]
        if not problems:
            problems.extend(_check_file(connection, elsewhere))
    except (apsw.Error, *DECODING_ERRORS) as error:
        if isinstance(error, apsw.Error) and not is_damage(error):
            raise
        # Damage that no check expects, such as a number in place of a text.
        what = "pages" if isinstance(error, apsw.Error) else "data"
        problems.append(f"the file has {what} that knowloom does not write: {error or 'damaged'}")
    return problems


def _check_file(connection: apsw.Connection, elsewhere: frozenset[Key]) -> Iterator[str]:
    yield from _check_strays(connection)
    yield from change_log.find_gaps(connection)
    version, _ = read_segmenter(connection)
    if version != SEGMENTER:
        yield f"the passages were cut by {version!r}, not by {SEGMENTER!r}: run reindex"
        return
    for no, name in list(connection.execute("SELECT no, name FROM space ORDER BY name")):
        yield from _check_space(connection, no, name, elsewhere)


def _check_strays(connection: apsw.Connection) -> Iterator[str]:
    for table, space in SPACE_COLUMNS.items():
        ((rows,),) = connection.execute(
            f"SELECT count(*) FROM {table} WHERE {space} NOT IN (SELECT no FROM space)"
        )
        if rows:
            yield f"{rows} rows of table {table!r} belong to no space"


def _check_space(
    connection: apsw.Connection, no: int, name: str, elsewhere: frozenset[Key]
) -> Iterator[str]:
    view, totals = SpaceView(no), ExpectedTotals()
    view.refresh(connection)
    yield from (f"space {name!r}: {error}" for error in view.damage.values())
    if "records" in view.damage:
        return
    yield from _check_items(connection, name, view, totals)
    yield from _check_edges(connection, name, view, totals, elsewhere)
    yield from _check_totals(connection, name, view, totals)
    yield from _check_postings(connection, name, view, totals)
    yield from _check_vectors(connection, name, view)
    yield from change_log.find_problems(connection, no, name)
    yield from label_index.find_problems(connection, no, name)


def _check_items(
    connection: apsw.Connection, name: str, view: SpaceView, totals: ExpectedTotals
) -> Iterator[str]:
    _, passage_size = read_segmenter(connection)
    query = "SELECT row, id, CAST(body AS BLOB) FROM item WHERE space = ?"
    for row, id, body in connection.execute(query, (view.no,)):
        try:
            item = codec.item_from_dict({**json.loads(body), "space": name})
        except (ValueError, TypeError) as error:
            yield f"space {name!r}: item {id!r} cannot be read ({error})"
            continue
        totals.items += 1
        totals.digest += codec.fingerprint(codec.item_to_dict(item))
        passages = analyser.count_passage_terms(item, passage_size)
        totals.add_terms(row & SLOT_BITS, item, passages)
        if item.id != id or not _match_records(view, row & SLOT_BITS, item, passages):
            yield f"space {name!r}: the records of item {id!r} do not match the item"


def _match_records(
    view: SpaceView, head: int, item: Item, passages: Sequence[Counter[str]]
) -> bool:
    """Compare the records of an item with its passages: all have a vector, or none."""
    end = head + len(passages)
    if end > view.next_slot:
        return False
    records = view.records[head:end]
    has_vector = bool(records["vector"][0])
    expected = [
        np.array(item_record(item, counts.total(), has_vector, number > 0), RECORD).item()
        for number, counts in enumerate(passages)
    ]
    is_last = end == view.next_slot or not view.records["continuation"][end]
    return is_last and records.tolist() == expected


def _check_edges(
    connection: apsw.Connection,
    name: str,
    view: SpaceView,
    totals: ExpectedTotals,
    elsewhere: frozenset[Key],
) -> Iterator[str]:
    query = """SELECT source, (SELECT name FROM space WHERE no = target_space), target,
            type, weight, body, origin,
        EXISTS (SELECT 1 FROM item WHERE item.space = edge.space AND item.id = edge.source),
        EXISTS (SELECT 1 FROM item WHERE item.space = edge.target_space AND item.id = edge.target)
        FROM edge WHERE space = ?"""
    for row in connection.execute(query, (view.no,)):
        source, target_space, target, type, weight, body, origin, has_source, has_target = row
        title = f"space {name!r}: the edge {source!r} -[{type}]-> {target!r}"
        totals.links, totals.edges = totals.links + bool(origin), totals.edges + (not origin)
        if not (has_source or (name, source) in elsewhere) or not (
            has_target or (target_space, target) in elsewhere
        ):
            yield f"{title} has a missing end"
        columns = (1, source, 1 if target_space == name else 2, target, type, weight, body, origin)
        try:
            edge = edge_from_row({1: name, 2: target_space}, columns)
        except (ValueError, TypeError) as error:
            yield f"{title} cannot be read ({error})"
            continue
        number = codec.fingerprint(codec.edge_to_dict(edge))
        if origin:
            totals.links_digest += number
        else:
            totals.digest += number
        expected = ((name, source), (target_space, target), type, weight, origin)
        if (*edge.key, edge.weight, edge.origin) != expected:
            yield f"{title} does not match its columns"


def _check_totals(
    connection: apsw.Connection, name: str, view: SpaceView, totals: ExpectedTotals
) -> Iterator[str]:
    query = "SELECT items, edges, length, digest, links, links_digest FROM space WHERE no = ?"
    ((items, edges, length, digest, links, links_digest),) = connection.execute(query, (view.no,))
    live = int(view.records["live"][: view.next_slot].sum())
    pairs = {
        "items": (items, totals.items),
        "live records": (live, totals.passages),
        "edges": (edges, totals.edges),
        "length": (length, totals.length),
        "digest": (digest.zfill(32), codec.format_digest(totals.digest)),
        "links": (links, totals.links),
        "digest of links": (links_digest.zfill(32), codec.format_digest(totals.links_digest)),
    }
    for counter, (stored, expected) in pairs.items():
        if stored != expected:
            yield f"space {name!r}: {counter}: stored {stored}, counted {expected}"


def _check_postings(
    connection: apsw.Connection, name: str, view: SpaceView, totals: ExpectedTotals
) -> Iterator[str]:
    stored = PostingList(totals.terms)
    stored.read(connection, view)
    missing, surplus = count_differences(totals.postings, stored)
    if missing:
        yield f"space {name!r}: {missing} terms of items are not indexed"
    if surplus:
        yield f"space {name!r}: {surplus} indexed terms belong to no item"


def _check_vectors(connection: apsw.Connection, name: str, view: SpaceView) -> Iterator[str]:
    first = view.no << 32
    ((dimensions,),) = connection.execute("SELECT value FROM meta WHERE key = 'dimensions'")
    slots = set()
    query = "SELECT row, data FROM vector WHERE row BETWEEN ? AND ?"
    for row, data in connection.execute(query, (first, first + SLOT_BITS)):
        slot = row - first
        slots.add(slot)
        if len(data) != 2 * dimensions:
            size = f"{len(data)} bytes, not {2 * dimensions}"
            yield f"space {name!r}: the vector at slot {slot} has {size}"
        elif not _match_signs(view, slot, data):
            yield f"space {name!r}: the signs of the vector at slot {slot} do not match it"
    flagged = set(np.flatnonzero(view.records["vector"][: view.next_slot]).tolist())
    live = set(np.flatnonzero(view.records["live"][: view.next_slot]).tolist())
    if slots != flagged:
        yield f"space {name!r}: {len(slots ^ flagged)} vectors and records disagree"
    if slots - live:
        yield f"space {name!r}: {len(slots - live)} vectors belong to no item"


def _match_signs(view: SpaceView, slot: int, data: bytes) -> bool:
    signs = pack_signs(decode_float16(data))
    if slot >= view.signs.shape[1] or len(signs) != len(view.signs):
        return False
    # A number too small for 16 bits loses its sign when stored: a few bits may differ, but a
    # wrong vector differs in half of them.
    return int(np.bitwise_count(signs ^ view.signs[:, slot]).sum()) <= MAX_SIGN_ERRORS
