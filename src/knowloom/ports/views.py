"""Views that pass every call on to a store, for subclasses that change some of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import getpid

from knowloom.errors import Unavailable
from knowloom.model import Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports.models import Vector
from knowloom.ports.storage import (
    Batch,
    GraphStore,
    IndexResult,
    ItemStore,
    SpaceInfo,
    TextIndex,
    VectorIndex,
)


def require_process(process: int) -> None:
    """Raise Unavailable in a process that was forked from the one with this id.

    It shares the connections and file locks of its parent, and lacks its threads.
    """
    if getpid() != process:
        raise Unavailable(
            "the knowledge was opened before this process was forked: open it again here", "forked"
        )


@dataclass(frozen=True, slots=True)
class ItemStoreView:
    """The items of another store."""

    items: ItemStore

    def get(self, keys: Sequence[Key]) -> list[Item]:
        return self.items.get(keys)

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self.items.find(only, limit, after)

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        return self.items.visible(keys, only)

    def count(self, only: Filter) -> int:
        return self.items.count(only)

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        return self.items.spaces(names)

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        return self.items.changes(space, after, limit)

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        return self.items.changes_of(keys)

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        return self.items.verify(elsewhere)

    def apply(self, batch: Batch) -> None:
        self.items.apply(batch)

    def reading(self) -> AbstractContextManager[object]:
        return self.items.reading()

    def close(self) -> None:
        self.items.close()


@dataclass(frozen=True, slots=True)
class TextIndexView:
    """The text index of another store."""

    words: TextIndex

    def search_text(
        self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()
    ) -> IndexResult:
        return self.words.search_text(text, only, limit, also)

    def score_text_passages(
        self, text: str, only: Filter, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return self.words.score_text_passages(text, only, keys)

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self.words.find(only, limit, after)

    def passage_size(self) -> int:
        return self.words.passage_size()

    def resegment(self, passage_size: int) -> None:
        self.words.resegment(passage_size)

    def rebuild_words(self, items: Iterable[Item]) -> None:
        self.words.rebuild_words(items)

    def apply(self, batch: Batch) -> None:
        self.words.apply(batch)

    def reading(self) -> AbstractContextManager[object]:
        return self.words.reading()

    def close(self) -> None:
        self.words.close()


@dataclass(frozen=True, slots=True)
class VectorIndexView:
    """The vector index of another store."""

    vectors: VectorIndex

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> IndexResult:
        return self.vectors.search_vector(vector, only, limit)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        return self.vectors.score_vectors(vector, keys)

    def score_vector_passages(
        self, vector: Vector, keys: Sequence[Key]
    ) -> dict[Key, tuple[float, ...]]:
        return self.vectors.score_vector_passages(vector, keys)

    def get_vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        return self.vectors.get_vectors(keys)

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        return self.vectors.missing_vectors(spaces, limit)

    def count_missing(self, spaces: Sequence[str]) -> int:
        return self.vectors.count_missing(spaces)

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        return self.vectors.find(only, limit, after)

    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        self.vectors.put_vectors(vectors, fingerprint)

    def forget_vectors(self) -> None:
        self.vectors.forget_vectors()

    def calibration(self, fingerprint: str) -> bytes:
        return self.vectors.calibration(fingerprint)

    def put_calibration(self, fingerprint: str, data: bytes) -> None:
        self.vectors.put_calibration(fingerprint, data)

    def fingerprint(self) -> str:
        return self.vectors.fingerprint()

    def dimensions(self) -> int:
        return self.vectors.dimensions()

    def passage_size(self) -> int:
        return self.vectors.passage_size()

    def resegment(self, passage_size: int) -> None:
        self.vectors.resegment(passage_size)

    def apply(self, batch: Batch) -> None:
        self.vectors.apply(batch)

    def reading(self) -> AbstractContextManager[object]:
        return self.vectors.reading()

    def close(self) -> None:
        self.vectors.close()


@dataclass(frozen=True, slots=True)
class GraphStoreView:
    """The edges of another store."""

    graph: GraphStore

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        return self.graph.edges_of(keys, spaces, types, limit, min_weight, automatic)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        return self.graph.get_edges(keys)

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        return self.graph.edges(spaces, limit, after, automatic)

    def apply(self, batch: Batch) -> None:
        self.graph.apply(batch)

    def reading(self) -> AbstractContextManager[object]:
        return self.graph.reading()

    def close(self) -> None:
        self.graph.close()
