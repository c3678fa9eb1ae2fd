"""Links that knowloom makes itself, in the SQLite file: which items wait for them, and writing them, apart from what people linked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import apsw
import numpy as np

from knowloom import codec
from knowloom.model import MADE, Edge, Item, Links, Marks
from knowloom.stores.sqlite import name_index, vectors
from knowloom.stores.sqlite.id_cache import NOT_STORED
from knowloom.stores.sqlite.rows import EDGE_COLUMNS, edge_from_row, filter_term
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.writer import BatchWriter

Ends = tuple[str, str, str]  # of an edge: source, target, type


def dirty_ids(connection: apsw.Connection, view: SpaceView) -> list[str]:
    return [
        id
        for (id,) in connection.execute(
            "SELECT id FROM unlinked WHERE space = ? ORDER BY id", (view.no,)
        )
    ]


def read_marks(
    connection: apsw.Connection, name: str, view: SpaceView, ids: Sequence[str]
) -> Marks:
    query = """SELECT asked.value, unlinked.before, item.body FROM json_each(?) AS asked
        CROSS JOIN unlinked ON unlinked.space = ?2 AND unlinked.id = asked.value
        LEFT JOIN item ON item.space = ?2 AND item.id = asked.value"""
    rows = connection.execute(query, (codec.to_json(list(ids)), view.no))
    return Marks(
        view.version,
        {id: _item(body if before == "" else before, name) for id, before, body in rows},
    )


def put_links(connection: apsw.Connection, links: Links) -> bool:
    found = list(connection.execute("SELECT no, version FROM space WHERE name = ?", (links.space,)))
    if not found or found[0][1] != links.version:
        return False
    no = found[0][0]
    connection.executemany(
        "DELETE FROM unlinked WHERE space = ? AND id = ?", ((no, id) for id in links.done)
    )
    connection.executemany(
        "INSERT OR IGNORE INTO common VALUES (?, ?)", ((no, one) for one in links.common)
    )
    connection.executemany(
        "DELETE FROM common WHERE space = ? AND label = ?", ((no, one) for one in links.rare)
    )
    name_index.update_dirty(connection, no, links.stale, links.renewed)
    if links.entered:
        name_index.put_labels(connection, no, links.entered)
    if links.made or links.dropped or links.marked or links.entered or links.stale:
        _write(connection, links)
    return True


def _write(connection: apsw.Connection, links: Links) -> None:
    writer = BatchWriter(connection, "")
    tally = writer.tally(
        links.space
    )  # the space counts as changed: who works out links on what it was before is refused
    dropped = [(source[1], target[1], type) for source, target, type in links.dropped]
    made = {(edge.source, edge.target, edge.type): edge for edge in links.made}
    stored = _between(connection, tally.no, links.space, [*dropped, *made])
    own = {ends: edge for ends, edge in stored.items() if edge.origin == MADE}
    for edge in own.values():
        tally.count(codec.edge_to_dict(edge), -1)
    delete = "DELETE FROM edge WHERE space = ?1 AND source = ?2 AND target_space = ?1 AND target = ?3 AND type = ?4"
    connection.executemany(delete, [(tally.no, *ends) for ends in own])
    writer.put_edges(
        made[ends] for ends in sorted(made) if ends in own or ends not in stored
    )  # people's stay
    writer.mark(links.space, links.marked)
    writer.finish()


def _between(
    connection: apsw.Connection, no: int, space: str, ends: Sequence[Ends]
) -> dict[Ends, Edge]:
    """The stored edges inside a space that have these ends and types. In one statement: one for each would take half as long as all of linking."""
    columns = ", ".join(f"edge.{column}" for column in EDGE_COLUMNS.split(", "))
    query = f"""SELECT {columns} FROM json_each(?1) AS asked CROSS JOIN edge ON edge.space = ?2 AND edge.source = asked.value ->> 0
        AND edge.target_space = ?2 AND edge.target = asked.value ->> 1 AND edge.type = asked.value ->> 2"""
    rows = connection.execute(query, (codec.to_json(ends), no))
    return {(row[1], row[3], row[4]): edge_from_row({no: space}, row) for row in rows}


def forget_links(connection: apsw.Connection, rules: str) -> None:
    version = BatchWriter(connection, "").version
    for table, where in (
        ("edge", "origin <> ''"),
        *((table, "1") for table in ("unlinked", "common", "entry", "entered", "stale")),
    ):
        connection.execute(f"DELETE FROM {table} WHERE {where}")
    connection.execute("INSERT INTO unlinked SELECT space, id, NULL FROM item")
    connection.execute("UPDATE space SET links = 0, links_digest = '0', version = ?", (version,))
    connection.execute("UPDATE meta SET value = ? WHERE key = 'links'", (rules,))


def frequent_labels(
    connection: apsw.Connection, view: SpaceView, labels: Iterable[str]
) -> set[str]:
    query = "SELECT label FROM json_each(?) AS asked CROSS JOIN common ON common.space = ? AND common.label = asked.value"
    return {one for (one,) in connection.execute(query, (codec.to_json(list(labels)), view.no))}


def ids_by_tag(
    connection: apsw.Connection, view: SpaceView, tags: Sequence[str], most: int
) -> dict[str, list[str]]:
    named = {tag: filter_term("tag", tag) for tag in dict.fromkeys(tags)}
    postings = view.postings(connection, list(named.values()))
    places = {tag: view.holders(word, postings.get(word, ()))[0] for tag, word in named.items()}
    return {
        tag: sorted(view.ids(connection, held.tolist()))
        for tag, held in places.items()
        if 0 < len(held) <= most
    }


def similar_ids(
    connection: apsw.Connection, view: SpaceView, ids: Sequence[str], least: float
) -> dict[str, list[tuple[float, str]]]:
    own = {
        place: id
        for place, id in zip(view.places(connection, ids), ids, strict=True)
        if place != NOT_STORED and view.embedded[place]
    }
    if not own:
        return {}
    found = vectors.find_similar(connection, view, np.fromiter(own, np.intp, len(own)), least)
    return {
        id: _named(connection, view, pairs) for id, pairs in zip(own.values(), found, strict=True)
    }


def _named(
    connection: apsw.Connection, view: SpaceView, pairs: Sequence[tuple[int, float]]
) -> list[tuple[float, str]]:
    ids = view.ids(connection, [place for place, _ in pairs])
    return [(cosine, id) for id, (_, cosine) in zip(ids, pairs, strict=True)]


def _item(body: str | None, space: str) -> Item | None:
    return None if body is None else codec.item_from_dict({**json.loads(body), "space": space})
