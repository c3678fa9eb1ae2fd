"""The SQLite store: one file for all roles, many readers and one writer at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import getpid
from threading import Lock
from typing import TypeVar

import apsw

from knowloom import codec
from knowloom.errors import Corrupt, Unavailable
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports import (
    Batch,
    DirtyItems,
    IndexResult,
    LinkUpdate,
    NearestItems,
    SpaceInfo,
    Vector,
)
from knowloom.stores.sqlite import (
    change_log,
    edges,
    search,
    vector_search,
    verify,
)
from knowloom.stores.sqlite.connections import (
    IndexTransaction,
    ReadConnection,
    ReadPool,
    ReadTransaction,
    check_process,
)
from knowloom.stores.sqlite.damage import derived, rebuild
from knowloom.stores.sqlite.damage.derived import DECODING_ERRORS
from knowloom.stores.sqlite.damage.salvage import salvage
from knowloom.stores.sqlite.database import (
    WRITER_CACHE_KB,
    close_connection,
    connect,
    translate_errors,
    write_transaction,
)
from knowloom.stores.sqlite.links import auto_links, label_index, nearest_index
from knowloom.stores.sqlite.passage_slots import read_segmenter
from knowloom.stores.sqlite.rows import EDGE_COLUMNS, edge_from_row, read_spaces
from knowloom.stores.sqlite.space_view import SpaceView
from knowloom.stores.sqlite.upkeep.restoring import read_backup, restore, unpack
from knowloom.stores.sqlite.upkeep.sqlite_upkeep import SqliteUpkeep
from knowloom.stores.sqlite.writing import segmentation, vector_writes
from knowloom.stores.sqlite.writing.writer import BatchWriter
from knowloom.vectors.signs import check_unit_length

T = TypeVar("T")


class SqliteStore:
    """Plays all roles. Any number of threads and processes may use one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._readers = ReadPool(path)
        self._writer: apsw.Connection | None = None
        self._write_lock, self._process = Lock(), getpid()
        self._closed = False

    @classmethod
    def open(cls, path: str) -> SqliteStore:
        return cls(path)

    restore = staticmethod(restore)
    read_backup = staticmethod(read_backup)
    unpack = staticmethod(unpack)
    salvage = staticmethod(salvage)

    def close(self) -> None:
        with self._write_lock:
            self._closed = True
            self._readers.close()
            if self._writer is not None:
                close_connection(self._writer, self._path)
                self._writer = None

    def reading(self) -> ReadTransaction:
        """Use one transaction for all reads of the block; nested blocks join it."""
        return ReadTransaction(self._readers)

    def _index(self, layer: str) -> IndexTransaction:
        """Read derived data: whatever is damaged there is an error of this layer."""
        return IndexTransaction(self._readers, layer)

    @contextmanager
    def _open_writer(self) -> Iterator[apsw.Connection]:
        check_process(self._path, self._process)
        with self._write_lock, translate_errors(self._path):
            if self._closed:
                raise Unavailable(f"{self._path!r} was closed", "closed")
            if self._writer is None:
                self._writer = connect(self._path, WRITER_CACHE_KB)
            yield self._writer

    @contextmanager
    def _writing(self, durable: bool = True) -> Iterator[apsw.Connection]:
        """Run the block in one transaction.

        One that is not `durable` is not synced: it reaches the disk with the next durable one.
        """
        with self._open_writer() as connection:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            with write_transaction(connection):
                yield connection

    def _write(self, write: Callable[[apsw.Connection], T], durable: bool = True) -> T:
        """Write in one transaction; if a derived table is damaged, build it anew and try again."""
        try:
            with self._writing(durable) as connection:
                return write(connection)
        except (Corrupt, *DECODING_ERRORS):
            with self._open_writer() as connection:
                if not rebuild.mend(connection):
                    raise
        with self._writing(durable) as connection:
            return write(connection)

    def upkeep(self) -> SqliteUpkeep:
        return SqliteUpkeep(self._path, self.reading, self._writing)

    def apply(self, batch: Batch) -> None:
        at = codec.time_to_text(batch.at)
        self._write(lambda connection: BatchWriter(connection, at).apply(batch))

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        key = ("spaces", None if names is None else tuple(names))
        with self._index("") as reader:
            return list(reader.cached(key, lambda connection: read_spaces(connection, names)))

    def get(self, keys: Sequence[Key]) -> list[Item]:
        with self._index("") as reader:
            views = reader.views([space for space, _ in keys])
            items = {
                name: view.read_items(
                    reader.connection, name, [id for space, id in keys if space == name]
                )
                for name, view in views.items()
            }
        return [items[space][id] for space, id in keys if space in items and id in items[space]]

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        with self._index("") as reader:
            return derived.fall_back(
                lambda: search.visible_keys(reader, keys, only),
                lambda: derived.visible_keys(self.get(keys), only),
            )

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        with self._index("") as reader:
            return derived.fall_back(
                lambda: search.find_items(reader, only, limit, after),
                lambda: derived.find_items(reader.connection, only, limit, after),
            )

    def count(self, only: Filter) -> int:
        with self._index("") as reader:
            return derived.fall_back(
                lambda: search.count_items(reader, only),
                lambda: derived.count_items(reader.connection, only),
            )

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        with self.reading() as reader:
            return change_log.read_space(reader.connection, space, after, limit)

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        with self.reading() as reader:
            return change_log.read_items(reader.connection, keys)

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        with self.reading() as reader:
            return verify.find_problems(reader.connection, frozenset(elsewhere))

    # text

    def passage_size(self) -> int:
        with self._index("words") as reader:
            return reader.cached("segmenter", read_segmenter)[1]

    def resegment(self, passage_size: int) -> None:
        with self._open_writer() as connection:
            rebuild.mend(connection)
        self._write(lambda connection: segmentation.resegment(connection, passage_size))

    def rebuild_words(self, items: Iterable[Item]) -> None:
        with self._writing() as connection:
            segmentation.rebuild_words(connection, items)

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        with self._index("words") as reader:
            return search.search_text(reader, text, only, limit, also)

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        with self._index("words") as reader:
            return search.score_text_passages(reader, text, only, keys)

    # vectors

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if not vectors:
            return
        check_unit_length(vectors)
        put = vector_writes.put_vectors
        self._write(lambda connection: put(connection, vectors, fingerprint))

    def forget_vectors(self) -> None:
        self._write(vector_writes.forget_vectors)

    def calibration(self, fingerprint: str) -> bytes:
        with self._index("vectors") as reader:
            read = partial(vector_search.read_calibration, fingerprint=fingerprint)
            return reader.cached(("calibration", fingerprint), read)

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        with self._writing() as connection:
            row = (f"calibration:{fingerprint}", data)
            connection.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", row)

    def fingerprint(self) -> str:
        with self._index("vectors") as reader:
            return reader.cached("embedder", vector_search.read_embedder)[0]

    def dimensions(self) -> int:
        with self._index("vectors") as reader:
            return reader.cached("embedder", vector_search.read_embedder)[1]

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        keys: list[Key] = []
        with self._index("vectors") as reader:
            for name, view in sorted(reader.views(spaces).items()):
                ids = view.ids(reader.connection, view.unembedded.tolist())
                keys += [(name, id) for id in sorted(ids)]
        return keys[:limit]

    def count_missing(self, spaces: Sequence[str]) -> int:
        with self._index("vectors") as reader:
            return sum(len(view.unembedded) for view in reader.views(spaces).values())

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        with self._index("vectors") as reader:
            return search.search_vector(reader, vector, only, limit)

    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        with self._index("vectors") as reader:
            return search.get_vectors(reader, keys)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        with self._index("vectors") as reader:
            return search.score_vectors(reader, vector, keys)

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        with self._index("vectors") as reader:
            return search.score_vector_passages(reader, vector, keys)

    # graph

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        with self._index("graph") as reader:
            views = reader.views(spaces)
            names = {view.no: name for name, view in views.items()}
            selection = edges.EdgeSelection(tuple(names), tuple(types), limit, automatic)
            result: list[Edge] = []
            for name, view in views.items():
                ids = list(dict.fromkeys([id for space, id in keys if space == name]))
                for direction in edges.DIRECTIONS if ids else ():
                    result += reader.edges.heaviest(
                        reader.connection, direction, view.no, ids, selection, min_weight, names
                    )
        return edges.sort_unique(result)  # an edge between two of the keys was read twice

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        query = f"""SELECT {EDGE_COLUMNS} FROM edge WHERE space = ? AND source = ?
            AND target_space = ? AND target = ? AND type = ?"""
        with self._index("graph") as reader:
            spaces = [space for source, target, _ in keys for space, _ in (source, target)]
            views = reader.views(spaces)
            names = {view.no: name for name, view in views.items()}
            values = (
                (views[source[0]].no, source[1], views[target[0]].no, target[1], type)
                for source, target, type in keys
                if source[0] in views and target[0] in views
            )
            rows = reader.connection.executemany(query, values)
            return [edge_from_row(names, row) for row in rows]

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        origin = "" if automatic is None else f"AND origin {'<>' if automatic else '='} ''"
        query = f"""SELECT {EDGE_COLUMNS} FROM edge
            WHERE space = ? AND source >= ? {origin} ORDER BY source"""
        result: list[Edge] = []
        with self._index("graph") as reader:
            names = dict(list(reader.connection.execute("SELECT no, name FROM space")))
            for name, view in sorted(reader.views(spaces).items()):
                if after is not None and name < after.space:
                    continue
                first = after.source if after is not None and name == after.space else ""
                rows = reader.connection.execute(query, (view.no, first))
                decoded = (edge_from_row(names, row) for row in rows)
                result += edges.sort_page(decoded, limit - len(result), after)
        return result

    # automatic edges

    def dirty_ids(self, space: str) -> list[str]:
        with self._space_reader(space) as (reader, view):
            return [] if view is None else auto_links.dirty_ids(reader.connection, view)

    def dirty_items(self, space: str, ids: Sequence[str]) -> DirtyItems:
        with self._space_reader(space) as (reader, view):
            if view is None:
                return DirtyItems(0, {})
            return auto_links.read_marks(reader.connection, space, view, ids)

    def put_links(self, links: LinkUpdate) -> bool:
        # Not durable: after a power failure the dirty marks are back and are processed again.
        return self._write(lambda connection: auto_links.put_links(connection, links), False)

    def forget_links(self, rules: str) -> None:
        self._write(lambda connection: auto_links.forget_links(connection, rules))

    def link_rules(self) -> str:
        with self._index("graph") as reader:
            return auto_links.read_rules(reader.connection)

    def common_labels(self, space: str, labels: Sequence[str]) -> set[str]:
        with self._space_reader(space) as (reader, view):
            if view is None:
                return set()
            return auto_links.frequent_labels(reader.connection, view, labels)

    def labels_of(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        with self._space_reader(space) as (reader, view):
            return {} if view is None else label_index.labels_of(reader.connection, view.no, ids)

    def label_holders(self, space: str, labels: Sequence[str], limit: int) -> dict[str, list[str]]:
        with self._space_reader(space) as (reader, view):
            if view is None:
                return {}
            return label_index.ids_by_label(reader.connection, view.no, labels, limit)

    def stale_ids(self, space: str) -> list[str]:
        with self._space_reader(space) as (reader, view):
            return [] if view is None else label_index.dirty_ids(reader.connection, view.no)

    def tag_holders(self, space: str, tags: Sequence[str], limit: int) -> dict[str, list[str]]:
        with self._space_reader(space) as (reader, view):
            if view is None:
                return {}
            return auto_links.ids_by_tag(reader.connection, view, tags, limit)

    def nearest_items(self, space: str, ids: Sequence[str], min_cosine: float) -> NearestItems:
        with self._space_reader(space) as (reader, view):
            if view is None:
                return NearestItems()
            return nearest_index.update_nearest(reader.connection, view, ids, min_cosine)

    @contextmanager
    def _space_reader(self, space: str) -> Iterator[tuple[ReadConnection, SpaceView | None]]:
        with self._index("graph") as reader:
            yield reader, reader.views([space]).get(space)
