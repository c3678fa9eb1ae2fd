"""The index of names in the SQLite file: who is entered under a label, and all labels of an item. What labels mean is the linker's matter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import apsw

from knowloom import codec


def put_labels(
    connection: apsw.Connection, space: int, entered: Mapping[str, tuple[str, ...]]
) -> None:
    """Enter items under these labels and no others; without any, they are forgotten."""
    before = dict(_lists(connection, space, list(entered)))
    lists = {id: codec.to_json(labels) for id, labels in entered.items()}
    more: list[tuple[int, str, str]] = []
    gone: list[tuple[int, str, str]] = []
    for id, held in before.items():
        gained, lost = _differences(lists[id], held)
        more += [(space, label, id) for label in gained]
        gone += [(space, label, id) for label in lost]
    connection.executemany("DELETE FROM entry WHERE space = ? AND label = ? AND id = ?", gone)
    connection.executemany("INSERT OR IGNORE INTO entry VALUES (?, ?, ?)", sorted(more))
    connection.executemany(
        "DELETE FROM entered WHERE space = ? AND id = ?",
        [(space, id) for id, labels in entered.items() if not labels],
    )
    rows = [(space, id, lists[id]) for id, labels in entered.items() if labels]
    connection.executemany(
        "INSERT INTO entered VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET labels = excluded.labels",
        rows,
    )
    # New items have some fifty labels each: written from their lists, and sorted by SQLite, in two thirds of the time of a row for each.
    listed = """SELECT ?2, label.value, entered.id FROM json_each(?1) AS asked CROSS JOIN entered ON entered.space = ?2 AND entered.id = asked.value
        CROSS JOIN json_each(entered.labels) AS label ORDER BY label.value, entered.id"""
    connection.execute(
        f"INSERT OR IGNORE INTO entry {listed}",
        (codec.to_json([id for id in entered if id not in before]), space),
    )


def _differences(now: str, before: str) -> tuple[set[str], set[str]]:
    """Of two lists in JSON: what the first has and the second has not, and the other way round. Mostly labels are put in front of those that
    were there, which is seen without reading them."""
    if now.endswith(f",{before[1:]}") and before != "[]":
        return set(json.loads(f"{now[: -len(before)]}]")), set()
    labels, held = set(json.loads(now)), set(json.loads(before))
    return labels - held, held - labels


def labels_of(
    connection: apsw.Connection, space: int, ids: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    return {id: tuple(json.loads(labels)) for id, labels in _lists(connection, space, ids)}


def _lists(
    connection: apsw.Connection, space: int, ids: Sequence[str]
) -> Iterator[tuple[str, str]]:
    query = "SELECT entered.id, entered.labels FROM json_each(?) AS asked CROSS JOIN entered ON entered.space = ? AND entered.id = asked.value"
    return connection.execute(query, (codec.to_json(list(ids)), space))


def ids_by_label(
    connection: apsw.Connection, space: int, labels: Sequence[str], most: int
) -> dict[str, list[str]]:
    named = list(dict.fromkeys(labels))
    if not named:
        return {}
    held = "SELECT id FROM entry WHERE entry.space = ?2 AND entry.label = asked.value ORDER BY id"
    if most == 1:
        query = f"SELECT asked.value, ({held} LIMIT 1) AS first FROM json_each(?1) AS asked WHERE first NOT NULL"
        return {
            label: [id] for label, id in connection.execute(query, (codec.to_json(named), space))
        }
    # Up to the last id wanted, if there are so many: any text comes before a blob. Half the time of a list in JSON for each label. A label
    # is told by its number, which is a sixth quicker.
    last = f"coalesce(({held} LIMIT 1 OFFSET ?3), x'')"
    query = f"SELECT asked.key, entry.id FROM json_each(?1) AS asked CROSS JOIN entry ON entry.space = ?2 AND entry.label = asked.value AND entry.id <= {last}"
    found: dict[str, list[str]] = {}
    before = -1
    for number, id in connection.execute(query, (codec.to_json(named), space, most - 1)):
        if number != before:
            ids = found[named[number]] = []
            before = number
        ids.append(id)
    return found


def dirty_ids(connection: apsw.Connection, space: int) -> list[str]:
    return [
        id
        for (id,) in connection.execute(
            "SELECT id FROM stale WHERE space = ? ORDER BY id", (space,)
        )
    ]


def update_dirty(
    connection: apsw.Connection, space: int, stale: Sequence[str], renewed: Sequence[str]
) -> None:
    connection.executemany(
        "DELETE FROM stale WHERE space = ? AND id = ?", ((space, id) for id in renewed)
    )
    connection.executemany(
        "INSERT OR IGNORE INTO stale VALUES (?, ?)", ((space, id) for id in stale)
    )


def find_problems(connection: apsw.Connection, space: int, name: str) -> Iterator[str]:
    """Where the two tables disagree, and who was forgotten though nobody waits to be entered."""
    stored = {
        (label, id)
        for label, id in connection.execute("SELECT label, id FROM entry WHERE space = ?", (space,))
    }
    lists = connection.execute("SELECT id, labels FROM entered WHERE space = ?", (space,))
    listed = {(label, id) for id, labels in lists for label in json.loads(labels)}
    if missing := len(listed - stored):
        yield f"space {name!r}: {missing} labels of items are not in the index of names"
    if surplus := len(stored - listed):
        yield f"space {name!r}: {surplus} entries of the index of names belong to no item"
    query = """SELECT count(*) FROM entered WHERE space = ?1 AND id NOT IN (SELECT id FROM item WHERE space = ?1)
        AND id NOT IN (SELECT id FROM unlinked WHERE space = ?1)"""
    ((left,),) = connection.execute(query, (space,))
    if left:
        yield f"space {name!r}: the index of names has {left} items that are gone"
