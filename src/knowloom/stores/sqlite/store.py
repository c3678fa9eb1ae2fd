"""The SQLite adapter: one file plays all four roles. Many readers, one writer at a time, in any number of processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import compress
from threading import Lock

import apsw
import numpy as np
import numpy.typing as npt

from knowloom import codec
from knowloom.construction import rounded
from knowloom.errors import Conflict, Corrupt, Unavailable
from knowloom.model import (
    Batch,
    Change,
    Edge,
    EdgeKey,
    Filter,
    Found,
    Item,
    Key,
    Links,
    Marks,
    SpaceInfo,
)
from knowloom.stores.sqlite import auto_links, change_log, name_index, top_k, vectors, verify
from knowloom.stores.sqlite import edges as links
from knowloom.stores.sqlite import postings as words
from knowloom.stores.sqlite.connections import ReadConnection, ReadPool, ReadTransaction
from knowloom.stores.sqlite.id_cache import NOT_STORED
from knowloom.stores.sqlite.rows import (
    EDGE_COLUMNS,
    edge_from_row,
    filter_term,
    item_from_body,
    locate_damage,
)
from knowloom.stores.sqlite.schema import (
    WRITER_CACHE_KB,
    connect,
    translate_errors,
    write_transaction,
)
from knowloom.stores.sqlite.space_view import Mask, SpaceView
from knowloom.stores.sqlite.writer import BatchWriter
from knowloom.text import words as analyser

Vector = npt.NDArray[np.float32]

FEW = 20_000  # a filter that allows fewer items than this is answered item by item, a wider one by walking the ids
PER_WALKED = 10  # items that are put in order by their ids in the time that walking past one takes


class SqliteStore:
    def __init__(self, path: str) -> None:
        self._path = path
        self._readers = ReadPool(path)
        self._writer: apsw.Connection | None = None
        self._write_lock = Lock()
        self._closed = False

    @classmethod
    def open(cls, path: str) -> SqliteStore:
        return cls(path)

    def close(self) -> None:
        with self._write_lock:
            self._closed = True
            self._readers.close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def reading(self) -> ReadTransaction:
        """One transaction for all reads of the block; a block inside a block joins it."""
        return ReadTransaction(self._readers)

    @contextmanager
    def _writing(self, lasting: bool = True) -> Iterator[apsw.Connection]:
        """One transaction. What is not `lasting` is not waited for until it is on the disk: it gets there with the next write that is."""
        with self._write_lock, translate_errors(self._path):
            if self._closed:
                raise Unavailable(f"{self._path!r} was closed", "closed")
            if self._writer is None:
                self._writer = connect(self._path, WRITER_CACHE_KB)
            self._writer.execute(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
            with write_transaction(self._writer):
                yield self._writer

    def apply(self, batch: Batch) -> None:
        with self._writing() as connection:
            BatchWriter(connection, codec.time_to_text(batch.at)).apply(batch)

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        with self.reading() as reader:
            return list(
                reader.known(
                    ("spaces", None if names is None else tuple(names)),
                    lambda connection: _spaces(connection, names),
                )
            )

    def get(self, keys: Sequence[Key]) -> list[Item]:
        with self.reading() as reader:
            views = reader.views([space for space, _ in keys])
            found = {
                name: view.stored(
                    reader.connection, name, [id for space, id in keys if space == name]
                )
                for name, view in views.items()
            }
        return [found[space][id] for space, id in keys if space in found and id in found[space]]

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        with self.reading() as reader:
            shown = [
                self._shown(reader, name, view, keys, only)
                for name, view in reader.views(only.spaces).items()
            ]
        if len(shown) == 1:
            return shown[0]
        every = frozenset([key for some in shown for key in some])
        return [key for key in keys if key in every]

    def _shown(
        self, reader: ReadConnection, name: str, view: SpaceView, keys: Sequence[Key], only: Filter
    ) -> list[Key]:
        own = [key for key in keys if key[0] == name]
        places, mask = (
            view.places(reader.connection, [id for _, id in own]),
            view.mask(reader.connection, only),
        )
        if NOT_STORED in places:
            own, places = (
                [key for key, place in zip(own, places, strict=True) if place != NOT_STORED],
                [place for place in places if place != NOT_STORED],
            )
        return own if mask is None else list(compress(own, mask[places].tolist()))

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        found: list[Item] = []
        with self.reading() as reader:
            for name, view in sorted(reader.views(only.spaces).items()):
                if len(found) < limit and (after is None or name >= after[0]):
                    behind = after[1] if after is not None and name == after[0] else ""
                    found += self._find(reader, name, view, only, limit - len(found), behind)
        return found

    def _find(
        self,
        reader: ReadConnection,
        name: str,
        view: SpaceView,
        only: Filter,
        limit: int,
        behind: str,
    ) -> list[Item]:
        places = self._about(reader, view, only) if only.subjects else None
        mask = view.mask(reader.connection, only) if places is None else None
        if mask is not None and (allowed := int(np.count_nonzero(mask))) < FEW:
            if (
                allowed >= PER_WALKED
                and (
                    found := self._walked(
                        reader, name, view, mask, limit, behind, allowed // PER_WALKED
                    )
                )
                is not None
            ):
                return found
            places = np.flatnonzero(mask).tolist()
        if places is not None:
            ids = sorted(id for id in view.ids(reader.connection, places) if id > behind)
            return self.get([(name, id) for id in ids[:limit]])
        return self._walked(reader, name, view, mask, limit, behind, view.next) or []

    def _walked(
        self,
        reader: ReadConnection,
        name: str,
        view: SpaceView,
        mask: Mask | None,
        limit: int,
        behind: str,
        most: int,
    ) -> list[Item] | None:
        """The next items by their ids; None if there may be more behind the first `most` of all."""
        found: list[Item] = []
        base = view.no << 32
        query = "SELECT row, body FROM item WHERE space = ? AND id > ? ORDER BY id"
        try:
            for passed, (row, body) in enumerate(
                reader.connection.execute(query, (view.no, behind))
            ):
                if len(found) >= limit:
                    break
                if passed >= most:
                    return None
                if mask is None or mask[row - base]:
                    found.append(item_from_body(body, name))
        except (Corrupt, UnicodeDecodeError) as error:
            raise locate_damage(
                reader.connection, name, _rows_behind(reader.connection, view.no, behind), error
            ) from error
        return found

    def _about(self, reader: ReadConnection, view: SpaceView, only: Filter) -> list[int] | None:
        """The places that a filter by subjects allows; None when very many items are about them. Subjects are others in nearly every request,
        and a mask for them would cost a pass over all items each time."""
        named = [filter_term("subject", subject) for subject in only.subjects]
        postings = view.postings(reader.connection, named)
        if (
            sum(len(data) for rows in postings.values() for _, data in rows) // 3 >= FEW
        ):  # three bytes an item
            return None
        mask = view.mask(reader.connection, replace(only, subjects=()))
        places: set[int] = set()
        for word in named:
            places.update(
                view.holders(word, postings[word])[0].tolist()
                if word in postings
                else view.fresh(word)
            )
        return (
            sorted(places) if mask is None else [place for place in sorted(places) if mask[place]]
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

    # words

    def rebuild_words(self, items: Iterable[Item]) -> None:
        with self._writing() as connection:
            writer = BatchWriter(connection, "")
            connection.execute("DELETE FROM posting")
            connection.execute("DELETE FROM fresh")
            connection.execute(
                "UPDATE space SET length = 0, version = ?1, reset = ?1", (writer.version,)
            )
            connection.execute(
                "UPDATE meta SET value = ? WHERE key = 'analyser'", (analyser.ANALYSER,)
            )
            writer.index_again(items)

    def search_text(self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()) -> Found:
        with self.reading() as reader:
            self._check_analyser(reader)
            views = reader.views(only.spaces)
            if not limit:
                return Found(others=self._text_scores(reader, views, text, only, also))
            scores, most = words.score_all(reader.connection, list(views.values()), text)
            found, considered, others = [], 0, {}
            for (name, view), score in zip(views.items(), scores, strict=True):
                mask = view.mask(reader.connection, only)
                if mask is not None:
                    score *= mask
                places, values, matching = top_k.k_largest(score, limit, most)
                considered += matching
                found += [
                    ((name, id), value)
                    for id, value in zip(view.ids(reader.connection, places), values, strict=True)
                ]
                own = self._places(reader, name, view, also)
                scored = score[np.fromiter(own, np.intp, len(own))] / most
                others.update(
                    {
                        key: value
                        for key, exact, value in zip(
                            own.values(), scored, rounded(scored), strict=True
                        )
                        if exact
                    }
                )
        return Found(
            tuple(sorted(found, key=_best_first)[:limit]),
            considered,
            {key: others[key] for key in also if key in others},
        )

    def _text_scores(
        self,
        reader: ReadConnection,
        views: Mapping[str, SpaceView],
        text: str,
        only: Filter,
        keys: Sequence[Key],
    ) -> dict[Key, float]:
        asked: list[dict[int, Key]] = []
        for name, view in views.items():
            own, mask = self._places(reader, name, view, keys), view.mask(reader.connection, only)
            asked.append(
                own if mask is None else {place: key for place, key in own.items() if mask[place]}
            )
        places = [np.fromiter(own, np.intp, len(own)) for own in asked]
        scored = words.score_places(reader.connection, list(views.values()), text, places)
        found: dict[Key, float] = {}
        for own, score in zip(asked, scored, strict=True):
            told = zip(own.values(), score.tolist(), rounded(score), strict=True)
            found.update({key: value for key, exact, value in told if exact})
        return {key: found[key] for key in keys if key in found}

    def _check_analyser(self, reader: ReadConnection) -> None:
        ((stored,),) = reader.known(
            "analyser",
            lambda connection: list(
                connection.execute("SELECT value FROM meta WHERE key = 'analyser'")
            ),
        )
        if stored != analyser.ANALYSER:
            raise Conflict(
                f"words were indexed by {stored!r}, this knowloom uses {analyser.ANALYSER!r}: run reindex",
                "reindex_required",
            )

    # vectors

    def put_vectors(self, vectors_of: Mapping[Key, Vector], fingerprint: str) -> None:
        if not vectors_of:
            return
        with self._writing() as connection:
            self._check_vectors(
                connection, {len(vector) for vector in vectors_of.values()}, fingerprint
            )
            writer = BatchWriter(connection, "")
            by_space: dict[str, list[tuple[str, Vector]]] = {}
            for (space, id), vector in vectors_of.items():
                by_space.setdefault(space, []).append((id, vector))
            for space, pairs in by_space.items():
                if writer.knows(space):
                    writer.put_vectors(space, pairs)
            writer.finish()

    def _check_vectors(
        self, connection: apsw.Connection, sizes: set[int], fingerprint: str
    ) -> None:
        stored, dimensions = _embedder(connection)
        if stored and stored != fingerprint:
            raise Conflict(
                f"the stored vectors are of {stored!r}, not of {fingerprint!r}: run reindex",
                "reindex_required",
            )
        if len(sizes | ({dimensions} if dimensions else set())) > 1:
            raise Conflict(
                f"vectors of {sorted(sizes)} dimensions do not fit together or the stored {dimensions}",
                "reindex_required",
            )
        if not dimensions:
            connection.execute(
                "DELETE FROM sign"
            )  # what deleted items left behind may be of another width
        connection.execute("UPDATE meta SET value = ? WHERE key = 'embedder'", (fingerprint,))
        connection.execute("UPDATE meta SET value = ? WHERE key = 'dimensions'", (sizes.pop(),))

    def forget_vectors(self) -> None:
        with self._writing() as connection:
            writer = BatchWriter(connection, "")
            connection.execute("DELETE FROM vector")
            connection.execute("DELETE FROM sign")
            connection.execute("INSERT OR IGNORE INTO unlinked SELECT space, id, '' FROM item")
            connection.execute("UPDATE meta SET value = '' WHERE key = 'embedder'")
            connection.execute("UPDATE meta SET value = 0 WHERE key = 'dimensions'")
            writer.clear_vector_flags()

    def fingerprint(self) -> str:
        with self.reading() as reader:
            return reader.known("embedder", _embedder)[0]

    def dimensions(self) -> int:
        with self.reading() as reader:
            return reader.known("embedder", _embedder)[1]

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        keys: list[Key] = []
        with self.reading() as reader:
            for name, view in sorted(reader.views(spaces).items()):
                keys += [
                    (name, id)
                    for id in sorted(view.ids(reader.connection, view.unembedded.tolist()))
                ]
        return keys[:limit]

    def count_missing(self, spaces: Sequence[str]) -> int:
        with self.reading() as reader:
            return sum(len(view.unembedded) for view in reader.views(spaces).values())

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> Found:
        with self.reading() as reader:
            found, considered = [], 0
            for name, view in reader.views(only.spaces).items():
                mask = view.mask(reader.connection, only)
                places = vectors.nearest_candidates(
                    view, vector, mask, max(vectors.RESCORED, vectors.RESCORED_PER_HIT * limit)
                )
                scored = vectors.score_candidates(reader.connection, view, vector, places, limit)
                considered += int(
                    np.count_nonzero(view.embedded if mask is None else view.embedded & mask)
                )
                kept = _cut(scored, limit)
                found += [
                    ((name, id), cosine)
                    for id, cosine in zip(
                        view.ids(reader.connection, list(kept)), kept.values(), strict=True
                    )
                ]
        return Found(tuple(sorted(found, key=_best_first)[:limit]), considered)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        scored: dict[Key, float] = {}
        with self.reading() as reader:
            for name, view in reader.views([space for space, _ in keys]).items():
                own = self._places(reader, name, view, keys)
                if len(view.unembedded):
                    own = {place: key for place, key in own.items() if view.embedded[place]}
                if own:
                    places = np.fromiter(own, np.intp, len(own))
                    scored |= zip(
                        own.values(),
                        vectors.cosine_scores(view.vectors(reader.connection, places), vector),
                        strict=True,
                    )
        return scored

    # graph

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        made: bool | None = None,
    ) -> list[Edge]:
        with self.reading() as reader:
            views = reader.views(spaces)
            names = {view.no: name for name, view in views.items()}
            wanted = links.EdgeSelection(tuple(names), tuple(types), limit, made)
            found: list[Edge] = []
            for name, view in views.items():
                ids = list(dict.fromkeys([id for space, id in keys if space == name]))
                for side in links.DIRECTIONS if ids else ():
                    found += reader.links.heaviest(
                        reader.connection, side, view.no, ids, wanted, min_weight, names
                    )
        return links.sort_unique(found)  # a link between two of the keys was read twice

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        query = f"SELECT {EDGE_COLUMNS} FROM edge WHERE space = ? AND source = ? AND target_space = ? AND target = ? AND type = ?"
        with self.reading() as reader:
            views = reader.views(
                [space for source, target, _ in keys for space, _ in (source, target)]
            )
            names = {view.no: name for name, view in views.items()}
            asked = (
                (views[source[0]].no, source[1], views[target[0]].no, target[1], type)
                for source, target, type in keys
                if source[0] in views and target[0] in views
            )
            return [
                edge_from_row(names, row) for row in reader.connection.executemany(query, asked)
            ]

    def edges(
        self, spaces: Sequence[str], limit: int, after: Edge | None = None, made: bool | None = None
    ) -> list[Edge]:
        found: list[Edge] = []
        with self.reading() as reader:
            names = dict(list(reader.connection.execute("SELECT no, name FROM space")))
            for name, view in sorted(reader.views(spaces).items()):
                if after is not None and name < after.space:
                    continue
                behind = after.source if after is not None and name == after.space else ""
                whose = "" if made is None else f"AND origin {'<>' if made else '='} ''"
                query = f"SELECT {EDGE_COLUMNS} FROM edge WHERE space = ? AND source >= ? {whose} ORDER BY source"
                rows = (
                    edge_from_row(names, row)
                    for row in reader.connection.execute(query, (view.no, behind))
                )
                found += links.sort_page(rows, limit - len(found), after)
        return found

    # links that knowloom makes

    def unlinked(self, space: str) -> list[str]:
        with self._viewed(space) as (reader, view):
            return [] if view is None else auto_links.dirty_ids(reader.connection, view)

    def marks(self, space: str, ids: Sequence[str]) -> Marks:
        with self._viewed(space) as (reader, view):
            return (
                Marks(0, {})
                if view is None
                else auto_links.read_marks(reader.connection, space, view, ids)
            )

    def put_links(self, made: Links) -> bool:
        with self._writing(
            lasting=False
        ) as connection:  # marks that are back after a power cut are worked off again
            return auto_links.put_links(connection, made)

    def forget_links(self, rules: str) -> None:
        with self._writing() as connection:
            auto_links.forget_links(connection, rules)

    def linked_by(self) -> str:
        with self.reading() as reader:
            ((rules,),) = reader.connection.execute("SELECT value FROM meta WHERE key = 'links'")
        return str(rules)

    def common(self, space: str, labels: Sequence[str]) -> set[str]:
        with self._viewed(space) as (reader, view):
            return (
                set()
                if view is None
                else auto_links.frequent_labels(reader.connection, view, labels)
            )

    def entries(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        with self._viewed(space) as (reader, view):
            return {} if view is None else name_index.labels_of(reader.connection, view.no, ids)

    def under(self, space: str, labels: Sequence[str], most: int) -> dict[str, list[str]]:
        with self._viewed(space) as (reader, view):
            return (
                {}
                if view is None
                else name_index.ids_by_label(reader.connection, view.no, labels, most)
            )

    def stale(self, space: str) -> list[str]:
        with self._viewed(space) as (reader, view):
            return [] if view is None else name_index.dirty_ids(reader.connection, view.no)

    def carriers(self, space: str, tags: Sequence[str], most: int) -> dict[str, list[str]]:
        with self._viewed(space) as (reader, view):
            return (
                {} if view is None else auto_links.ids_by_tag(reader.connection, view, tags, most)
            )

    def alike(
        self, space: str, ids: Sequence[str], least: float
    ) -> dict[str, list[tuple[float, str]]]:
        with self._viewed(space) as (reader, view):
            return (
                {} if view is None else auto_links.similar_ids(reader.connection, view, ids, least)
            )

    # inside

    @contextmanager
    def _viewed(self, space: str) -> Iterator[tuple[ReadConnection, SpaceView | None]]:
        with self.reading() as reader:
            yield reader, reader.views([space]).get(space)

    def _places(
        self, reader: ReadConnection, name: str, view: SpaceView, keys: Sequence[Key]
    ) -> dict[int, Key]:
        """Those of the keys that are stored in a space, by their places there."""
        own = [key for key in keys if key[0] == name]
        found = dict(zip(view.places(reader.connection, [id for _, id in own]), own, strict=True))
        found.pop(NOT_STORED, None)
        return found


def _rows_behind(connection: apsw.Connection, no: int, id: str) -> Iterator[int]:
    return (
        row
        for (row,) in connection.execute(
            "SELECT row FROM item WHERE space = ? AND id > ? ORDER BY id", (no, id)
        )
    )


def _spaces(connection: apsw.Connection, names: Sequence[str] | None) -> list[SpaceInfo]:
    chosen, values = (
        ("", ())
        if names is None
        else ("WHERE name IN (SELECT value FROM json_each(?))", (codec.to_json(list(names)),))
    )
    rows = connection.execute(
        f"SELECT name, items, edges, digest, links, links_digest FROM space {chosen} ORDER BY name",
        values,
    )
    return [
        SpaceInfo(name, items, edges, digest.zfill(32), links, apart.zfill(32))
        for name, items, edges, digest, links, apart in rows
    ]


def _embedder(connection: apsw.Connection) -> tuple[str, int]:
    """The fingerprint and the dimensions of the stored vectors; "" and 0 when there are none."""
    query = "SELECT key, value FROM meta WHERE key IN ('embedder', 'dimensions') AND EXISTS (SELECT 1 FROM vector)"
    rows = dict(list(connection.execute(query)))
    return rows.get("embedder", ""), rows.get("dimensions", 0)


def _cut(scored: dict[int, float], limit: int) -> dict[int, float]:
    """The best, all of the last tie included."""
    if len(scored) <= limit:
        return scored
    least = sorted(scored.values(), reverse=True)[limit - 1]
    return {place: cosine for place, cosine in scored.items() if cosine >= least}


def _best_first(pair: tuple[Key, float]) -> tuple[float, str, str]:
    (space, id), score = pair
    return (-score, id, space)
