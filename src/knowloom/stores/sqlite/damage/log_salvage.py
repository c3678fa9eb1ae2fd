"""The change log of a damaged file: its readable lines, and their completion in a new file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import Edge, EdgeKey, Item, Key
from knowloom.stores.sqlite import change_log
from knowloom.stores.sqlite.change_log import ERASED
from knowloom.stores.sqlite.damage.derived import DECODING_ERRORS
from knowloom.stores.sqlite.damage.raw_pages import RawDatabase, Row

AUTHOR = "repair"  # of the lines that are added
_COLUMNS = 10
_INSERT = """INSERT INTO change_log(
        space, at, id, action, before, target_space, target, type, actor)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True, slots=True)
class SalvagedLog:
    """Readable lines in their order, as rows of the damaged file, and the number of lost ones."""

    lines: tuple[tuple[Any, ...], ...]
    lost: int


def read_log(database: RawDatabase, names: Mapping[int, str]) -> SalvagedLog:
    """Return the lines on intact pages whose spaces are known."""
    lines: dict[int, tuple[Any, ...]] = {}
    last = 0
    for row in database.rows("change_log"):
        last = max(last, row.rowid)
        if not row.is_doubtful and _is_readable(row, names):
            lines[row.rowid] = (*row.values[1:], *("",) * (_COLUMNS - len(row.values)))
    for row in database.rows("change_by_space"):
        if isinstance(row.values[-1], int):
            last = max(last, row.values[-1])
    return SalvagedLog(tuple(lines[number] for number in sorted(lines)), last - len(lines))


def _is_readable(row: Row, names: Mapping[int, str]) -> bool:
    if len(row.values) not in (_COLUMNS, _COLUMNS - 1):  # without an author before schema 5
        return False
    spaces = {0: "", **names}  # 0: an action on the whole file
    values = (row.rowid, *row.values[1:], *("",) * (_COLUMNS - len(row.values)))
    try:
        if row.values[1] != 0:
            change_log.decode_row(spaces, values)
        return row.values[1] in spaces
    except (Corrupt, *DECODING_ERRORS):
        return False


def write_log(
    connection: apsw.Connection,
    log: SalvagedLog,
    names: Mapping[int, str],
    items: Mapping[Key, Item],
    edges: Sequence[Edge],
    at: datetime,
) -> None:
    """Replace the log of a new file by the salvaged lines, and lines about what they lack.

    Stored items that no line added are added now; items and edges that are lost are deleted.
    """
    used = {names[line[0]] for line in log.lines if line[0]}
    used |= {names[line[5]] for line in log.lines if line[5] is not None}
    query = "INSERT OR IGNORE INTO space(name) VALUES (?)"
    connection.executemany(query, [(name,) for name in sorted(used)])
    numbers = dict(list(connection.execute("SELECT name, no FROM space")))
    places = {0: 0, **{no: numbers[name] for no, name in names.items() if name in numbers}}
    connection.execute("DELETE FROM change_log")
    rows = [
        (places[line[0]], *line[1:5], places.get(line[5]) if line[5] else None, *line[6:])
        for line in log.lines
    ]
    rows += _complete(rows, numbers, items, edges, codec.time_to_text(at))
    connection.executemany(_INSERT, rows)


def _complete(
    rows: Sequence[tuple[Any, ...]],
    numbers: Mapping[str, int],
    items: Mapping[Key, Item],
    edges: Sequence[Edge],
    at: str,
) -> Iterator[tuple[Any, ...]]:
    """Yield lines after which the log and the stored items and edges agree."""
    last: dict[Any, str] = {}
    for space, _, id, action, _, target_space, target, type, _ in rows:
        if target is not None:
            last[space, id, target_space, target, type] = action
        elif action in ("add", "update", "delete"):
            last[space, id] = action
    stored = {(numbers[space], id) for space, id in items}
    links = {_edge_place(edge.key, numbers) for edge in edges}
    for place in sorted((key for key in last if len(key) == 5), key=str):
        if last[place] == "link" and place not in links:
            yield (*_start(place, at), "unlink", ERASED, *place[2:], AUTHOR)
    for place in sorted(key for key in last if len(key) == 2):
        if last[place] != "delete" and place not in stored:
            yield (*_start(place, at), "delete", ERASED, None, None, None, AUTHOR)
    for place in sorted(stored):
        if last.get(place, "delete") == "delete":
            yield (*_start(place, at), "add", None, None, None, None, AUTHOR)
    for place in sorted(links, key=str):
        if last.get(place) != "link":
            yield (*_start(place, at), "link", None, *place[2:], AUTHOR)


def _start(place: tuple[Any, ...], at: str) -> tuple[Any, ...]:
    return (place[0], at, place[1])


def _edge_place(key: EdgeKey, numbers: Mapping[str, int]) -> tuple[Any, ...]:
    (space, source), (target_space, target), type = key
    return (numbers[space], source, numbers[target_space], target, type)
