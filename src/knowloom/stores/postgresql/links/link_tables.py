"""Automatic edges: the dirty set, the edges themselves, and the queries of the linker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from knowloom import codec
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Item
from knowloom.ports import DirtyItems, LinkUpdate
from knowloom.stores.postgresql.edge_queries import read_edges
from knowloom.stores.postgresql.item_rows import (
    decode_item,
    filter_term,
    shorten,
    state_to_item,
)
from knowloom.stores.postgresql.links.name_tables import put_labels, update_dirty_names
from knowloom.stores.postgresql.links.nearest_tables import put_lists
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import SpaceArrays
from knowloom.stores.postgresql.term_segments import PostingCache
from knowloom.stores.postgresql.writing.batch_rows import store_edges
from knowloom.stores.postgresql.writing.space_counters import SpaceCounters, analyse, lock_spaces

Connection = psycopg.Connection[Any]

_LINK_TABLES = ("dirty", "dirty_name", "frequent_label", "name_index", "name_labels", "nearest")


def dirty_ids(session: ReadSession, view: SpaceArrays) -> list[str]:
    query = "SELECT id FROM dirty WHERE space = %s ORDER BY id"
    return [id for (id,) in session.fetch(query, (view.no,))]


def read_marks(
    session: ReadSession, name: str, view: SpaceArrays, ids: Sequence[str]
) -> DirtyItems:
    query = """SELECT dirty.id, dirty.before, item.body, item.attributes FROM dirty
        LEFT JOIN item ON item.space = dirty.space AND item.id = dirty.id AND dirty.before = ''
        WHERE dirty.space = %s AND dirty.id = ANY(%s)"""
    before: dict[str, Item | None] = {}
    for id, state, body, attributes in session.fetch(query, (view.no, list(ids))) if ids else ():
        if state:
            before[id] = state_to_item(name, state)
        else:
            before[id] = None if body is None else decode_item(name, id, body, attributes)
    return DirtyItems(view.version, {id: before[id] for id in ids if id in before})


def put_links(connection: Connection, links: LinkUpdate) -> bool:
    """Write the update if the space is still at its version; return False otherwise."""
    spaces = lock_spaces(connection, [links.space])
    space = spaces.get(links.space)
    if space is None or space.version - 1 != links.version:
        return False
    if links.done:
        query = "DELETE FROM dirty WHERE space = %s AND id = ANY(%s)"
        connection.execute(query, (space.no, list(links.done)))
    if links.common:
        query = """INSERT INTO frequent_label SELECT %s, unnest(%s::text[])
            ON CONFLICT DO NOTHING"""
        connection.execute(query, (space.no, sorted({*map(shorten, links.common)})))
    if links.rare:
        query = "DELETE FROM frequent_label WHERE space = %s AND label = ANY(%s)"
        connection.execute(query, (space.no, [*map(shorten, links.rare)]))
    update_dirty_names(connection, space.no, links.stale, links.renewed)
    if links.labels:
        put_labels(connection, space.no, links.labels)
    changes = links.edges, links.deleted, links.marked, links.labels, links.stale, links.nearest
    if any(changes):
        _write_edges(connection, space, links)
    return True


def _write_edges(connection: Connection, space: SpaceCounters, links: LinkUpdate) -> None:
    new = {edge.key: edge for edge in links.edges}
    keys = list(dict.fromkeys([*links.deleted, *new]))
    numbers = {space.name: space.no}

    def fetch(query: str, values: Sequence[object]) -> list[Any]:
        return connection.execute(query.encode(), values).fetchall()

    stored = read_edges(fetch, numbers, {space.no: space.name}, keys)
    changes: dict[EdgeKey, Edge | None] = {}
    for key in keys:
        before = stored.get(key)
        if before is not None and before.origin != AUTOMATIC:
            continue  # explicit edges are never replaced
        if before is not None:
            space.count_edge(codec.edge_to_dict(before), -1)
            changes[key] = None
        if key in new:
            space.count_edge(codec.edge_to_dict(new[key]), 1)
            changes[key] = new[key]
    store_edges(connection, {space.name: space}, changes)
    if links.marked:
        query = "SELECT id FROM item WHERE space = %s AND id = ANY(%s)"
        for (id,) in connection.execute(query, (space.no, list(links.marked))):
            space.mark(id, "")
    put_lists(connection, space, links.nearest)
    # Makes a new version of the space, so that updates computed on the old one are refused.
    space.store(connection)
    analyse(connection, len(links.labels), "name_labels, name_index", space.items)
    analyse(connection, len(links.nearest), "nearest", space.items)
    analyse(connection, len(links.edges), "edge", space.edges + space.links)


def forget_links(connection: Connection, rules: str) -> None:
    """Delete all automatic edges and mark every item as dirty."""
    lock_spaces(connection)
    connection.execute("DELETE FROM edge WHERE origin <> ''")
    for table in _LINK_TABLES:
        connection.execute(f"DELETE FROM {table}".encode())
    connection.execute("INSERT INTO dirty SELECT space, id, NULL FROM item")
    connection.execute("UPDATE space SET links = 0, links_digest = '0', version = version + 1")
    connection.execute("UPDATE meta SET value = %s WHERE key = 'link_rules'", (rules,))


def common_labels(session: ReadSession, view: SpaceArrays, labels: Sequence[str]) -> set[str]:
    by_key = {shorten(label): label for label in labels}
    query = "SELECT label FROM frequent_label WHERE space = %s AND label = ANY(%s)"
    return {by_key[label] for (label,) in session.fetch(query, (view.no, list(by_key)))}


def tag_holders(
    session: ReadSession, view: SpaceArrays, tags: Sequence[str], limit: int
) -> dict[str, list[str]]:
    terms = {tag: filter_term("tag", tag) for tag in dict.fromkeys(tags)}
    PostingCache.load(session.fetch, [(view, list(terms.values()))])
    numbers = {tag: view.holders(term).tolist() for tag, term in terms.items()}
    return {
        tag: sorted(view.ids(session.fetch, some))
        for tag, some in numbers.items()
        if 0 < len(some) <= limit
    }
