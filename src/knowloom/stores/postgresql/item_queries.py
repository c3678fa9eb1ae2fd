"""Reading items: by key, by filter in the order of ids, and the sizes of spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knowloom import codec
from knowloom.model import Filter, Item, Key
from knowloom.ports import SpaceInfo
from knowloom.stores.postgresql.item_rows import decode_item
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import NO_ITEM, SPACE_COLUMNS, Mask, SpaceArrays

SMALL_RESULT = 5_000  # items that a filter allows: their numbers are sent to the server
SCANNED_PER_HIT = 8  # ids read at once for each requested item, for a wider filter
MIN_SCANNED = 256
MAX_CACHED_LENGTH = 8_000  # characters of an item's JSON


def read_spaces(session: ReadSession, names: Sequence[str] | None) -> list[SpaceInfo]:
    if names is None:
        names = [name for (name,) in session.fetch("SELECT name FROM space")]
    return [_space_info(name, row) for name, row in sorted(session.space_rows(names).items())]


def _space_info(name: str, row: Sequence[Any]) -> SpaceInfo:
    values = dict(zip(SPACE_COLUMNS.split(", "), row, strict=True))
    digest, links_digest = (values[key].zfill(32) for key in ("digest", "links_digest"))
    return SpaceInfo(name, values["items"], values["edges"], digest, values["links"], links_digest)


def read_items(session: ReadSession, keys: Sequence[Key]) -> dict[Key, Item]:
    """Return the items that are stored; in one statement, unless they are cached."""
    views = session.views([space for space, _ in keys])
    items: dict[Key, Item] = {}
    missing: list[Key] = []
    for key in dict.fromkeys(key for key in keys if key[0] in views):
        view = views[key[0]]
        no = view.cached_number(key[1])
        item = None if no == NO_ITEM else _cached_item(view, key[0], no)
        if item is None:
            missing.append(key)
        else:
            items[key] = item
    if missing:
        names = {view.no: name for name, view in views.items()}
        query = """SELECT item.space, item.no, item.id, item.body, item.attributes
            FROM unnest(%s::integer[], %s::text[]) AS query(space, id)
            JOIN item ON item.space = query.space AND item.id = query.id"""
        columns = [views[space].no for space, _ in missing], [id for _, id in missing]
        for space, no, id, body, attributes in session.fetch(query, columns):
            view = views[names[space]]
            item = items[names[space], id] = decode_item(names[space], id, body, attributes)
            view.remember(no, id)
            if len(body) + len(attributes) <= MAX_CACHED_LENGTH:
                view.items_by_number.put(view.item_version(no), item)
    return {key: codec.copy_value(item) for key, item in items.items()}


def _cached_item(view: SpaceArrays, space: str, no: int) -> Item | None:
    version = view.item_version(no)
    cached = view.items_by_number.get(version)
    if isinstance(cached, Item):
        return cached
    if not cached:
        return None
    item = decode_item(space, *cached)
    view.items_by_number.put(version, item)
    return item


def get_items(session: ReadSession, keys: Sequence[Key]) -> list[Item]:
    items = read_items(session, keys)
    seen: set[Key] = set()
    result: list[Item] = []
    for key in keys:
        if key in items:  # a key may occur twice, and callers may change properties
            result.append(codec.copy_value(items[key]) if key in seen else items[key])
            seen.add(key)
    return result


def visible_keys(session: ReadSession, keys: Sequence[Key], only: Filter) -> list[Key]:
    visible: set[Key] = set()
    for name, view in session.views(only.spaces).items():
        of_space = [key for key in keys if key[0] == name]
        mask = view.mask(session.fetch, only)
        numbers = view.numbers(session.fetch, [id for _, id in of_space])
        visible.update(
            key
            for key, no in zip(of_space, numbers, strict=True)
            if no != NO_ITEM and (mask is None or mask[no])
        )
    return [key for key in keys if key in visible]


def count_items(session: ReadSession, only: Filter) -> int:
    total = 0
    for view in session.views(only.spaces).values():
        mask = view.mask(session.fetch, only)
        total += view.items if mask is None else int(np.count_nonzero(mask))
    return total


def find_items(session: ReadSession, only: Filter, limit: int, after: Key | None) -> list[Item]:
    keys: list[Key] = []
    for name, view in sorted(session.views(only.spaces).items()):
        if len(keys) < limit and (after is None or name >= after[0]):
            after_id = after[1] if after is not None and name == after[0] else None
            mask = view.mask(session.fetch, only)
            ids = _find_ids(session, view, mask, limit - len(keys), after_id)
            keys += [(name, id) for id in ids]
    return get_items(session, keys)


def _find_ids(
    session: ReadSession, view: SpaceArrays, mask: Mask | None, limit: int, after: str | None
) -> list[str]:
    """Return the next ids in order of the items in the mask."""
    allowed = view.items if mask is None else int(np.count_nonzero(mask))
    if not allowed:
        return []
    if mask is not None and allowed <= SMALL_RESULT:
        query = """SELECT id FROM item WHERE space = %s AND no = ANY(%s)
            AND (%s::text IS NULL OR id > %s::text) ORDER BY id LIMIT %s"""
        numbers = np.flatnonzero(mask).tolist()
        return [id for (id,) in session.fetch(query, (view.no, numbers, after, after, limit))]
    query = """SELECT id, no FROM item WHERE space = %s AND (%s::text IS NULL OR id > %s::text)
        ORDER BY id LIMIT %s"""
    page = limit if mask is None else max(MIN_SCANNED, SCANNED_PER_HIT * limit)
    ids: list[str] = []
    while len(ids) < limit:
        rows = session.fetch(query, (view.no, after, after, page))
        ids += [id for id, no in rows if mask is None or mask[no]]
        if len(rows) < page:
            break
        after = rows[-1][0]
    return ids[:limit]


def missing_vectors(session: ReadSession, spaces: Sequence[str], limit: int) -> list[Key]:
    keys: list[Key] = []
    for name, view in sorted(session.views(spaces).items()):
        if len(keys) < limit:
            lacking = view.live & ~view.embedded
            ids = _find_ids(session, view, lacking, limit - len(keys), None)
            keys += [(name, id) for id in ids]
    return keys
