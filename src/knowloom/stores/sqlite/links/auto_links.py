"""Automatic edges: the dirty set, the edges themselves, and the queries of the linker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import apsw

from knowloom import codec
from knowloom.model import (
    AUTOMATIC,
    Edge,
    Item,
)
from knowloom.ports import (
    DirtyItems,
    LinkUpdate,
)
from knowloom.stores.sqlite.links import label_index, nearest_index
from knowloom.stores.sqlite.rows import EDGE_COLUMNS, edge_from_row, filter_term
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.writing.writer import BatchWriter

_LINK_TABLES = ("dirty", "dirty_name", "frequent_label", "name_index", "name_labels", "nearest")
EdgeEnds = tuple[str, str, str]  # source, target and type of an edge within one space


def dirty_ids(connection: apsw.Connection, view: SpaceView) -> list[str]:
    query = "SELECT id FROM dirty WHERE space = ? ORDER BY id"
    return [id for (id,) in connection.execute(query, (view.no,))]


def read_marks(
    connection: apsw.Connection, name: str, view: SpaceView, ids: Sequence[str]
) -> DirtyItems:
    query = """SELECT query.value, dirty.before, item.body FROM json_each(?) AS query
        CROSS JOIN dirty ON dirty.space = ?2 AND dirty.id = query.value
        LEFT JOIN item ON item.space = ?2 AND item.id = query.value"""
    rows = connection.execute(query, (codec.to_json(list(ids)), view.no))
    items = {id: _decode_item(body if before == "" else before, name) for id, before, body in rows}
    return DirtyItems(view.version, items)


def _decode_item(body: str | None, space: str) -> Item | None:
    return None if body is None else codec.item_from_dict({**json.loads(body), "space": space})


def put_links(connection: apsw.Connection, links: LinkUpdate) -> bool:
    """Write the update if the space is still at its version; return False otherwise."""
    query = "SELECT no, version FROM space WHERE name = ?"
    spaces = list(connection.execute(query, (links.space,)))
    if not spaces or spaces[0][1] != links.version:
        return False
    no = spaces[0][0]
    connection.executemany(
        "DELETE FROM dirty WHERE space = ? AND id = ?", ((no, id) for id in links.done)
    )
    connection.executemany(
        "INSERT OR IGNORE INTO frequent_label VALUES (?, ?)",
        ((no, label) for label in links.common),
    )
    connection.executemany(
        "DELETE FROM frequent_label WHERE space = ? AND label = ?",
        ((no, label) for label in links.rare),
    )
    label_index.update_dirty(connection, no, links.stale, links.renewed)
    if links.labels:
        label_index.put_labels(connection, no, links.labels)
    changes = links.edges, links.deleted, links.marked, links.labels, links.stale, links.nearest
    if any(changes):
        _write_edges(connection, links)
    return True


def _write_edges(connection: apsw.Connection, links: LinkUpdate) -> None:
    writer = BatchWriter(connection, "")
    # Makes a new version of the space, so that updates computed on the old one are refused.
    update = writer.update_of(links.space)
    dropped = [(source[1], target[1], type) for source, target, type in links.deleted]
    new = {(edge.source, edge.target, edge.type): edge for edge in links.edges}
    stored = _read_edges(connection, update.no, links.space, [*dropped, *new])
    automatic = {ends: edge for ends, edge in stored.items() if edge.origin == AUTOMATIC}
    for edge in automatic.values():
        update.count_edge(codec.edge_to_dict(edge), -1)
    delete = """DELETE FROM edge WHERE space = ?1 AND source = ?2
        AND target_space = ?1 AND target = ?3 AND type = ?4"""
    connection.executemany(delete, [(update.no, *ends) for ends in automatic])
    # Explicit edges are never replaced.
    writer.put_edges(new[ends] for ends in sorted(new) if ends in automatic or ends not in stored)
    writer.mark_dirty(links.space, links.marked)
    nearest_index.put_lists(connection, update.no, writer.version, links.nearest)
    writer.finish()


def _read_edges(
    connection: apsw.Connection, no: int, space: str, ends: Sequence[EdgeEnds]
) -> dict[EdgeEnds, Edge]:
    """Return the stored edges with these ends, in one statement.

    A statement for each would take half as long as all of linking.
    """
    columns = ", ".join(f"edge.{column}" for column in EDGE_COLUMNS.split(", "))
    query = f"""SELECT {columns} FROM json_each(?1) AS query CROSS JOIN edge
        ON edge.space = ?2 AND edge.source = query.value ->> 0 AND edge.target_space = ?2
        AND edge.target = query.value ->> 1 AND edge.type = query.value ->> 2"""
    rows = connection.execute(query, (codec.to_json(ends), no))
    return {(row[1], row[3], row[4]): edge_from_row({no: space}, row) for row in rows}


def forget_links(connection: apsw.Connection, rules: str) -> None:
    """Delete all automatic edges and mark every item as dirty."""
    version = BatchWriter(connection, "").version
    connection.execute("DELETE FROM edge WHERE origin <> ''")
    for table in _LINK_TABLES:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO dirty SELECT space, id, NULL FROM item")
    connection.execute("UPDATE space SET links = 0, links_digest = '0', version = ?", (version,))
    connection.execute("UPDATE meta SET value = ? WHERE key = 'link_rules'", (rules,))


def read_rules(connection: apsw.Connection) -> str:
    """Return the rules that the knowledge was last linked by."""
    ((rules,),) = connection.execute("SELECT value FROM meta WHERE key = 'link_rules'")
    return str(rules)


def frequent_labels(
    connection: apsw.Connection, view: SpaceView, labels: Iterable[str]
) -> set[str]:
    query = """SELECT label FROM json_each(?) AS query CROSS JOIN frequent_label
        ON frequent_label.space = ? AND frequent_label.label = query.value"""
    rows = connection.execute(query, (codec.to_json(list(labels)), view.no))
    return {label for (label,) in rows}


def ids_by_tag(
    connection: apsw.Connection, view: SpaceView, tags: Sequence[str], limit: int
) -> dict[str, list[str]]:
    terms = {tag: filter_term("tag", tag) for tag in dict.fromkeys(tags)}
    blocks = view.read_blocks(connection, list(terms.values()))
    slots = {
        tag: view.decode_postings(term, blocks.get(term, ()))[0] for tag, term in terms.items()
    }
    return {
        tag: sorted(view.ids(connection, some.tolist()))
        for tag, some in slots.items()
        if 0 < len(some) <= limit
    }
