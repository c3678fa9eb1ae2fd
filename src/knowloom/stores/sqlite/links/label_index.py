"""The name index: items by label, and the labels of each item. The linker defines the labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import apsw

from knowloom import codec


def put_labels(
    connection: apsw.Connection, space: int, labels_by_id: Mapping[str, tuple[str, ...]]
) -> None:
    """Replace the labels of these items; an item without labels is removed."""
    stored = dict(_read_lists(connection, space, list(labels_by_id)))
    lists = {id: codec.to_json(labels) for id, labels in labels_by_id.items()}
    gained: list[tuple[int, str, str]] = []
    lost: list[tuple[int, str, str]] = []
    for id, before in stored.items():
        new, removed = _differences(lists[id], before)
        gained += [(space, label, id) for label in new]
        lost += [(space, label, id) for label in removed]
    connection.executemany("DELETE FROM name_index WHERE space = ? AND label = ? AND id = ?", lost)
    connection.executemany("INSERT OR IGNORE INTO name_index VALUES (?, ?, ?)", sorted(gained))
    connection.executemany(
        "DELETE FROM name_labels WHERE space = ? AND id = ?",
        [(space, id) for id, labels in labels_by_id.items() if not labels],
    )
    connection.executemany(
        "INSERT INTO name_labels VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET labels = excluded.labels",
        [(space, id, lists[id]) for id, labels in labels_by_id.items() if labels],
    )
    # New items have some fifty labels each: expanding and sorting their lists in SQLite takes two
    # thirds of the time of inserting rows.
    expand = """SELECT ?2, label.value, name_labels.id FROM json_each(?1) AS query
        CROSS JOIN name_labels ON name_labels.space = ?2 AND name_labels.id = query.value
        CROSS JOIN json_each(name_labels.labels) AS label ORDER BY label.value, name_labels.id"""
    new_ids = [id for id in labels_by_id if id not in stored]
    connection.execute(
        f"INSERT OR IGNORE INTO name_index {expand}", (codec.to_json(new_ids), space)
    )


def _differences(after: str, before: str) -> tuple[set[str], set[str]]:
    """Return the labels gained and lost between two JSON lists.

    Labels are mostly prepended to the old list, which is detected without parsing it.
    """
    if after.endswith(f",{before[1:]}") and before != "[]":
        return set(json.loads(f"{after[: -len(before)]}]")), set()
    new, old = set(json.loads(after)), set(json.loads(before))
    return new - old, old - new


def labels_of(
    connection: apsw.Connection, space: int, ids: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    return {id: tuple(json.loads(labels)) for id, labels in _read_lists(connection, space, ids)}


def _read_lists(
    connection: apsw.Connection, space: int, ids: Sequence[str]
) -> Iterator[tuple[str, str]]:
    query = """SELECT name_labels.id, name_labels.labels FROM json_each(?) AS query
        CROSS JOIN name_labels ON name_labels.space = ? AND name_labels.id = query.value"""
    return connection.execute(query, (codec.to_json(list(ids)), space))


def ids_by_label(
    connection: apsw.Connection, space: int, labels: Sequence[str], limit: int
) -> dict[str, list[str]]:
    """Return the first `limit` ids of each label, in order; unused labels are left out."""
    labels = list(dict.fromkeys(labels))
    if not labels:
        return {}
    ids = """SELECT id FROM name_index
        WHERE name_index.space = ?2 AND name_index.label = query.value ORDER BY id"""
    if limit == 1:
        query = f"""SELECT query.value, ({ids} LIMIT 1) AS first
            FROM json_each(?1) AS query WHERE first NOT NULL"""
        rows = connection.execute(query, (codec.to_json(labels), space))
        return {label: [id] for label, id in rows}
    # Up to the `limit`-th id; without so many, up to a blob, which sorts after any text. This takes
    # half the time of a JSON list per label, and labels by index a sixth less than by value.
    last = f"coalesce(({ids} LIMIT 1 OFFSET ?3), x'')"
    query = f"""SELECT query.key, name_index.id FROM json_each(?1) AS query
        CROSS JOIN name_index ON name_index.space = ?2 AND name_index.label = query.value
        AND name_index.id <= {last}"""
    result: dict[str, list[str]] = {}
    previous = -1
    for index, id in connection.execute(query, (codec.to_json(labels), space, limit - 1)):
        if index != previous:
            current = result[labels[index]] = []
            previous = index
        current.append(id)
    return result


def dirty_ids(connection: apsw.Connection, space: int) -> list[str]:
    """Return the ids whose automatic edges by name are out of date, in order."""
    query = "SELECT id FROM dirty_name WHERE space = ? ORDER BY id"
    return [id for (id,) in connection.execute(query, (space,))]


def update_dirty(
    connection: apsw.Connection, space: int, dirty: Sequence[str], clean: Sequence[str]
) -> None:
    """Mark ids as clean, then others as dirty."""
    connection.executemany(
        "DELETE FROM dirty_name WHERE space = ? AND id = ?", ((space, id) for id in clean)
    )
    connection.executemany(
        "INSERT OR IGNORE INTO dirty_name VALUES (?, ?)", ((space, id) for id in dirty)
    )


def find_problems(connection: apsw.Connection, space: int, name: str) -> Iterator[str]:
    """Report disagreements of the two tables, and deleted items that were never removed."""
    query = "SELECT id, json_group_array(label) FROM name_index WHERE space = ? GROUP BY id"
    stored = dict(list(connection.execute(query, (space,))))
    lists = connection.execute("SELECT id, labels FROM name_labels WHERE space = ?", (space,))
    missing = surplus = 0
    for id, labels in lists:
        expected, actual = set(json.loads(labels)), set(json.loads(stored.pop(id, "[]")))
        missing, surplus = missing + len(expected - actual), surplus + len(actual - expected)
    surplus += sum(len(json.loads(labels)) for labels in stored.values())
    if missing:
        yield f"space {name!r}: {missing} labels of items are missing in the name index"
    if surplus:
        yield f"space {name!r}: {surplus} entries of the name index belong to no item"
    query = """SELECT count(*) FROM name_labels WHERE space = ?1
        AND id NOT IN (SELECT id FROM item WHERE space = ?1)
        AND id NOT IN (SELECT id FROM dirty WHERE space = ?1)"""
    ((deleted,),) = connection.execute(query, (space,))
    if deleted:
        yield f"space {name!r}: the name index has {deleted} deleted items"
