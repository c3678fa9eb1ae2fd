"""Salvaging a damaged file into a new one, page by page where SQLite cannot read it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from knowloom import codec
from knowloom.errors import Conflict, Corrupt, Unavailable
from knowloom.model import Edge, Item, Key
from knowloom.ports import Batch, Salvaged
from knowloom.stores.sqlite import verify
from knowloom.stores.sqlite.damage import log_salvage, page_checksums, rebuild
from knowloom.stores.sqlite.damage.derived import DECODING_ERRORS
from knowloom.stores.sqlite.damage.raw_pages import RawDatabase
from knowloom.stores.sqlite.database import (
    WRITER_CACHE_KB,
    connect,
    translate_errors,
    write_transaction,
)
from knowloom.stores.sqlite.passage_slots import write_segmenter
from knowloom.stores.sqlite.rows import edge_from_row, item_from_body
from knowloom.stores.sqlite.writing.writer import BatchWriter

BATCH = 500  # items written at a time
SIDE_FILES = ("-wal", "-shm")
UNKNOWN_SPACE = "space-{}"  # of items whose space cannot be read


def salvage(path: Path, target: Path, at: datetime) -> Salvaged:
    """Write everything that can be read to a new file, and report the rest by id.

    If only derived data is damaged, the new file has everything, with the history and vectors.
    Otherwise it has the items, the explicit edges and the history of all readable pages.
    """
    if target.exists():
        raise Conflict(f"{str(target)!r} exists: name another file", "exists")
    with translate_errors(str(path)):
        complete = _copy_and_mend(path, target)
    return complete or _salvage_pages(path, target, at)


def _copy_and_mend(path: Path, target: Path) -> Salvaged | None:
    """Return the report on a copy that was mended; None, without a copy, if that fails."""
    for suffix in ("", *SIDE_FILES[:1]):
        if Path(f"{path}{suffix}").exists():
            shutil.copyfile(f"{path}{suffix}", f"{target}{suffix}")
    try:
        with closing(connect(str(target), WRITER_CACHE_KB)) as connection:
            rebuild.mend(connection)
            if not verify.find_problems(connection):
                ((items, edges),) = connection.execute("SELECT sum(items), sum(edges) FROM space")
                ((changes,),) = connection.execute("SELECT count(*) FROM change_log")
                _write_checksums(connection, target)
                return Salvaged(items or 0, edges or 0, is_complete=True, changes=changes)
    except (Corrupt, Unavailable, apsw.Error, *DECODING_ERRORS):
        pass
    _remove(target)
    return None


def _write_checksums(connection: apsw.Connection, target: Path) -> None:
    """Replace a file of an earlier version by one whose pages have checksums, and close it."""
    if page_checksums.has_checksums(target):
        return
    sealed = target.with_name(f"{target.name}.partial")
    _remove(sealed)
    page_checksums.reserve_bytes(connection)
    connection.execute("VACUUM INTO ?", (str(sealed),))
    connection.close()
    _remove(target)
    sealed.replace(target)


def _remove(target: Path) -> None:
    for suffix in ("", *SIDE_FILES):
        Path(f"{target}{suffix}").unlink(missing_ok=True)


def _salvage_pages(path: Path, target: Path, at: datetime) -> Salvaged:
    data = _read_with_log(path, target)
    database = RawDatabase(data, frozenset(page_checksums.find_damaged_pages(path)))
    names = {row.rowid: str(row.values[1]) for row in database.rows("space") if row.values[1]}
    items, doubtful = _read_items(database, names)
    edges = _read_edges(database, names, items)
    lost = tuple(sorted(_expected_keys(database, names).difference(items)))
    log = log_salvage.read_log(database, names)
    with closing(connect(str(target), WRITER_CACHE_KB)) as connection:
        _write_settings(connection, database)
        _write(connection, items, edges, at)
        with write_transaction(connection):
            log_salvage.write_log(connection, log, names, items, edges, at)
            _write_retention(connection, database)
    uncertain = tuple(sorted(key for key in doubtful if key in items))
    vectors = sum(1 for _ in database.rows("vector", 2))
    counts = (len(log.lines), log.lost, vectors)
    return Salvaged(len(items), len(edges), lost, uncertain, False, *counts)


def _read_with_log(path: Path, target: Path) -> bytes:
    """Return the bytes of the file, with the write-ahead log as far as SQLite can apply it."""
    if not Path(f"{path}-wal").exists():
        return path.read_bytes()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{target}{suffix}")
    try:
        with (
            page_checksums.unverified(),
            closing(apsw.Connection(str(target), vfs=page_checksums.register_vfs())) as copy,
        ):
            copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.Error:
        shutil.copyfile(path, target)
    try:
        return target.read_bytes()
    finally:
        _remove(target)


def _read_items(
    database: RawDatabase, names: Mapping[int, str]
) -> tuple[dict[Key, Item], set[Key]]:
    """Return the items that can be read, and the keys of those on damaged pages."""
    items: dict[Key, Item] = {}
    doubtful: set[Key] = set()
    for row in (*database.rows("item", 4), *database.find_orphans(4)):
        try:
            _, space, id, body = row.values
            name = names.get(space, UNKNOWN_SPACE.format(space))
            item = item_from_body(body, name)
        except (Corrupt, *DECODING_ERRORS):
            continue
        if item.id == id and (item.key not in items or not row.is_doubtful):
            items[item.key] = item
            doubtful.discard(item.key)
            if row.is_doubtful:
                doubtful.add(item.key)
    return items, doubtful


def _read_edges(
    database: RawDatabase, names: Mapping[int, str], items: Mapping[Key, Item]
) -> list[Edge]:
    """Return the explicit edges between salvaged items; their indexes have copies of each."""
    edges: dict[Any, Edge] = {}
    orders = {
        "edge": (0, 1, 2, 3, 4, 5, 6, 7),
        "edge_out": (0, 1, 5, 3, 4, 2, 6, 7),
        "edge_in": (5, 3, 0, 1, 4, 2, 6, 7),
    }
    for table, order in orders.items():
        for row in database.rows(table, 8):
            try:
                edge = edge_from_row(names, tuple(row.values[place] for place in order))
                codec.to_json(codec.edge_to_dict(edge))
            except DECODING_ERRORS:
                continue
            if not edge.origin and {edge.source_key, edge.target_key} <= items.keys():
                edges.setdefault(edge.key, edge)
    return [edges[key] for key in sorted(edges)]


def _expected_keys(database: RawDatabase, names: Mapping[int, str]) -> set[Key]:
    """Return the keys of stored items according to their index and to the change log."""
    keys: set[Key] = set()
    for row in database.rows("sqlite_autoindex_item_1", 3):
        if isinstance(row.values[1], str) and row.values[0] in names:
            keys.add((names[row.values[0]], row.values[1]))
    last: dict[Key, str] = {}
    for row in sorted(database.rows("change_log"), key=lambda row: row.rowid):
        if len(row.values) > 4 and row.values[1] in names and isinstance(row.values[3], str):
            last[names[row.values[1]], row.values[3]] = str(row.values[4])
    return keys | {key for key, action in last.items() if action in ("add", "update")}


def _write(
    connection: apsw.Connection, items: Mapping[Key, Item], edges: Sequence[Edge], at: datetime
) -> None:
    time, stored = codec.time_to_text(at), [items[key] for key in sorted(items)]
    for start in range(0, len(stored), BATCH):
        with write_transaction(connection):
            batch = Batch(at, items=tuple(stored[start : start + BATCH]))
            BatchWriter(connection, time).apply(batch)
    with write_transaction(connection):
        BatchWriter(connection, time).apply(Batch(at, edges=tuple(edges)))


def _write_settings(connection: apsw.Connection, database: RawDatabase) -> None:
    """Cut texts as the damaged file did, if it can be told, and keep the list of its backups."""
    settings = {row.values[0]: row.values[1] for row in database.rows("meta", 2)}
    _, _, size = str(settings.get("segmenter")).rpartition(":")
    backups = [row.values for row in database.rows("backup", 2) if not row.is_doubtful]
    with write_transaction(connection):
        if size.isdigit():
            write_segmenter(connection, int(size))
        connection.executemany("INSERT OR IGNORE INTO backup VALUES (?, ?)", backups)


def _write_retention(connection: apsw.Connection, database: RawDatabase) -> None:
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(space)")]
    place = columns.index("retention_days")
    query = "UPDATE space SET retention_days = ? WHERE name = ?"
    for row in database.rows("space", len(columns)):
        if not row.is_doubtful and isinstance(row.values[place], int):
            connection.execute(query, (row.values[place], row.values[1]))
