"""The PostgreSQL store: one schema for all roles, any number of processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from knowloom import codec
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
from knowloom.stores.postgresql import (
    edge_queries,
    item_queries,
    log_queries,
    verification,
)
from knowloom.stores.postgresql.address import parse_address
from knowloom.stores.postgresql.administration import PostgresqlUpkeep
from knowloom.stores.postgresql.api_keys import PostgresqlKeys
from knowloom.stores.postgresql.approximate import index_building
from knowloom.stores.postgresql.links import link_tables, name_tables, nearest_tables
from knowloom.stores.postgresql.pool import Pool, SnapshotBlock
from knowloom.stores.postgresql.scoring import text_scores, vector_rows
from knowloom.stores.postgresql.sessions import ReadSession
from knowloom.stores.postgresql.space_arrays import SpaceArrays
from knowloom.stores.postgresql.writing import reindexing, vector_writer
from knowloom.stores.postgresql.writing.batch_writer import BatchApplier
from knowloom.vectors.signs import check_unit_length


class PostgresqlStore:
    """Plays all roles. Any number of threads, processes and machines may use one schema."""

    def __init__(self, url: str) -> None:
        self._pool = Pool(parse_address(url))

    @classmethod
    def open(cls, url: str) -> PostgresqlStore:
        return cls(url)

    @classmethod
    def open_keys(cls, url: str) -> PostgresqlKeys:
        """Open the API keys of the schema."""
        return PostgresqlKeys(url)

    def close(self) -> None:
        self._pool.close()

    def upkeep(self) -> PostgresqlUpkeep:
        return PostgresqlUpkeep(self._pool)

    def reading(self) -> SnapshotBlock:
        """Use one snapshot for all reads of the block; nested blocks join it.

        It may be that of a replica. Single reads outside of a block are from the primary.
        """
        return SnapshotBlock(self._pool, may_lag=True)

    def _reading(self) -> SnapshotBlock:
        return SnapshotBlock(self._pool)

    def apply(self, batch: Batch) -> None:
        with self._pool.writing() as connection:
            size = reindexing.read_passage_size(connection)
            BatchApplier(connection, size).apply(batch)

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        with self._reading() as session:
            return item_queries.read_spaces(session, names)

    def get(self, keys: Sequence[Key]) -> list[Item]:
        with self._reading() as session:
            return item_queries.get_items(session, keys)

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        with self._reading() as session:
            return item_queries.visible_keys(session, keys, only)

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        with self._reading() as session:
            return item_queries.find_items(session, only, limit, after)

    def count(self, only: Filter) -> int:
        with self._reading() as session:
            return item_queries.count_items(session, only)

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        with self._reading() as session:
            return log_queries.read_space_changes(session, space, after, limit)

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        with self._reading() as session:
            return log_queries.read_item_changes(session, keys)

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        with self._reading() as session:
            return verification.find_problems(session, frozenset(elsewhere))

    # text

    def passage_size(self) -> int:
        with self._reading() as session:
            return int(session.meta("segmenter").rpartition(":")[2])

    def resegment(self, passage_size: int) -> None:
        with self._pool.writing(exclusive=True) as connection:
            reindexing.resegment(connection, passage_size)

    def rebuild_words(self, items: Iterable[Item]) -> None:
        with self._pool.writing(exclusive=True) as connection:
            reindexing.rebuild_words(connection, items)
        self._refresh_indexes({info.name for info in self.spaces()}, rebuild=True)

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        with self._reading() as session:
            return text_scores.search_text(session, text, only, limit, also)

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        with self._reading() as session:
            return text_scores.score_text_passages(session, text, only, keys)

    # vectors

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        if not vectors:
            return
        check_unit_length(vectors)
        is_new = self.fingerprint() != fingerprint
        with self._pool.writing(exclusive=is_new) as connection:
            vector_writer.put_vectors(connection, vectors, fingerprint)
        self._refresh_indexes({space for space, _ in vectors})

    def _refresh_indexes(self, spaces: set[str], rebuild: bool = False) -> None:
        if self._pool.hnsw is not None:
            index_building.refresh_indexes(self._pool, self._pool.hnsw, spaces, rebuild)

    def forget_vectors(self) -> None:
        with self._pool.writing(exclusive=True) as connection:
            vector_writer.forget_vectors(connection)

    def calibration(self, fingerprint: str) -> bytes:
        with self._reading() as session:
            return session.calibration(fingerprint)

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        with self._pool.writing() as connection:
            query = "INSERT INTO calibration VALUES (%s, %s) ON CONFLICT DO NOTHING"
            connection.execute(query, (fingerprint, data))

    def fingerprint(self) -> str:
        with self._reading() as session:
            return session.meta("embedder") if session.meta("vectors") == "1" else ""

    def dimensions(self) -> int:
        with self._reading() as session:
            return int(session.meta("dimensions")) if session.meta("vectors") == "1" else 0

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        with self._reading() as session:
            return item_queries.missing_vectors(session, spaces, limit)

    def count_missing(self, spaces: Sequence[str]) -> int:
        with self._reading() as session:
            views = session.views(spaces).values()
            return sum(int((view.live & ~view.embedded).sum()) for view in views)

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        with self._reading() as session:
            return vector_rows.search_vector(session, vector, only, limit)

    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        with self._reading() as session:
            return dict(vector_rows.read_vectors_by_key(session, keys))

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        with self._reading() as session:
            scored = vector_rows.score_passages_by_key(session, vector, keys)
            return {key: max(scores) for key, scores in scored}

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        with self._reading() as session:
            scored = dict(vector_rows.score_passages_by_key(session, vector, keys))
        return {key: tuple(scored[key]) for key in keys if len(scored.get(key, ())) > 1}

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
        with self._reading() as session:
            views = session.views(spaces)
            versions = tuple((view.no, view.version) for view in views.values())
            selection = edge_queries.EdgeQuery(versions, tuple(types), limit, automatic)
            keys = [key for key in keys if key[0] in views]
            return session.edges.heaviest(session, keys, selection, min_weight)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        with self._reading() as session:
            views = session.views([end[0] for *ends, _ in keys for end in ends])
            numbers = {name: view.no for name, view in views.items()}
            names = {no: name for name, no in numbers.items()}
            edges = edge_queries.read_edges(session.fetch, numbers, names, keys)
            return [codec.copy_value(edges[key]) for key in keys if key in edges]

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        result: list[Edge] = []
        with self._reading() as session:
            for name in sorted(set(spaces)):
                if len(result) < limit and (after is None or name >= after.space):
                    rest = limit - len(result)
                    fetch = session.fetch
                    result += edge_queries.read_page(fetch, name, rest, after, automatic)
        return result

    # automatic edges

    def dirty_ids(self, space: str) -> list[str]:
        with self._space_reader(space) as (session, view):
            return [] if view is None else link_tables.dirty_ids(session, view)

    def dirty_items(self, space: str, ids: Sequence[str]) -> DirtyItems:
        with self._space_reader(space) as (session, view):
            if view is None:
                return DirtyItems(0, {})
            return link_tables.read_marks(session, space, view, ids)

    def put_links(self, links: LinkUpdate) -> bool:
        # Not durable: after a crash the dirty marks are back and are processed again.
        with self._pool.writing(durable=False) as connection:
            return link_tables.put_links(connection, links)

    def forget_links(self, rules: str) -> None:
        with self._pool.writing(exclusive=True) as connection:
            link_tables.forget_links(connection, rules)

    def link_rules(self) -> str:
        with self._reading() as session:
            return session.meta("link_rules")

    def common_labels(self, space: str, labels: Sequence[str]) -> set[str]:
        with self._space_reader(space) as (session, view):
            return set() if view is None else link_tables.common_labels(session, view, labels)

    def labels_of(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        with self._space_reader(space) as (session, view):
            return {} if view is None else name_tables.labels_of(session, view, ids)

    def label_holders(self, space: str, labels: Sequence[str], limit: int) -> dict[str, list[str]]:
        with self._space_reader(space) as (session, view):
            return {} if view is None else name_tables.label_holders(session, view, labels, limit)

    def stale_ids(self, space: str) -> list[str]:
        with self._space_reader(space) as (session, view):
            return [] if view is None else name_tables.stale_ids(session, view)

    def tag_holders(self, space: str, tags: Sequence[str], limit: int) -> dict[str, list[str]]:
        with self._space_reader(space) as (session, view):
            return {} if view is None else link_tables.tag_holders(session, view, tags, limit)

    def nearest_items(self, space: str, ids: Sequence[str], min_cosine: float) -> NearestItems:
        with self._space_reader(space) as (session, view):
            if view is None:
                return NearestItems()
            return nearest_tables.update_nearest(session, view, ids, min_cosine)

    @contextmanager
    def _space_reader(self, space: str) -> Iterator[tuple[ReadSession, SpaceArrays | None]]:
        with self._reading() as session:
            yield session, session.views([space]).get(space)
