"""Vectors in a life of an engine: making those that are missing, taking ready ones, and the vector of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from knowloom import validation
from knowloom.embedders.cache import Cached, on_disk
from knowloom.errors import Conflict, EmbeddingError, Invalid, Unavailable
from knowloom.model import Item, Key, Problem, Query
from knowloom.ports import Caching, Embedder, Stores, Vector
from knowloom.recipes import Recipe
from knowloom.tracing import span

PAGE = 4096  # items looked up at a time
BATCH = 64  # vectors per write
BUNDLED = "minilm"  # the embedder that works without anybody else
Progress = Callable[[str, int, int], None]  # what is going on, how many are done, of how many


class Meaning:
    """An embedder beside the stores. Without one, words alone are searched."""

    def __init__(
        self, stores: Stores, embedder: Embedder | None, caching: Caching | None = None
    ) -> None:
        caching = caching or Caching()
        self._stores = stores
        self._opened = embedder
        self._disk = on_disk(caching)
        self._embedder = (
            None
            if embedder is None
            else Cached(embedder, caching.max_size, caching.ttl_s, self._disk)
        )

    def close(self) -> None:
        """Release what the embedder holds, such as connections to a server."""
        close = getattr(self._opened, "close", None)
        if close is not None:
            close()
        if self._disk is not None:
            self._disk.close()

    @property
    def cached(self) -> tuple[int, int, int, int, str]:
        """Hits and misses of the cache; of its file the vectors, the hits since it was made, and what is wrong with it."""
        counted = (self._embedder.hits, self._embedder.misses) if self._embedder else (0, 0)
        return (
            *counted,
            *((*self._disk.counts(), self._disk.problem) if self._disk else (0, 0, "")),
        )

    @property
    def asks_nobody(self) -> bool:
        """Whether vectors of questions are made here: an embedder that knowloom does not know may wait for another machine."""
        return self._embedder is None or self._embedder.name == BUNDLED

    @property
    def dimensions(self) -> int | None:
        return None if self._embedder is None else self._embedder.dimensions

    def of_texts(self, texts: Sequence[str]) -> list[Vector]:
        """None without an embedder. What the embedder cannot do is an error of its own kind here."""
        if self._embedder is None:
            return []
        try:
            return self._embedder.embed(texts)
        except Unavailable as error:
            raise EmbeddingError(str(error)) from error

    def forget(self) -> bool:
        """Whether all vectors were forgotten, as others can be made: not without an embedder. If it does not work now, an error, and nothing is forgotten."""
        if self._embedder is None:
            return False
        self._embedder.made(["knowloom"])
        self._stores.vectors.forget_vectors()
        return True

    def embed(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Make the vectors that are missing; how many were made."""
        if self._embedder is None:
            raise Invalid('no embedder was opened; name one: knowloom.open(url, embedder="minilm")')
        total, done = self._stores.vectors.count_missing(spaces), 0
        while keys := self._stores.vectors.missing_vectors(spaces, PAGE):
            for start in range(0, len(keys), BATCH):
                done += self._embed_some(keys[start : start + BATCH])
                if progress is not None:
                    progress("vectors", done, max(total, done))
        return done

    def _embed_some(self, keys: Sequence[Key]) -> int:
        assert self._embedder is not None
        items = self._stores.items.get(keys)
        made = self._embedder.embed([item.embeddable for item in items])
        self._stores.vectors.put_vectors(
            {item.key: vector for item, vector in zip(items, made, strict=True)},
            self._embedder.fingerprint,
        )
        return len(items)

    def embedded(self, spaces: Sequence[str], progress: Progress | None = None) -> tuple[str, ...]:
        """Embed what a write left without vectors; what could not be done, in words. What was written stays written."""
        if self._embedder is None or not spaces:
            return ()
        try:
            self.embed(spaces, progress)
            return ()
        except (Unavailable, Conflict) as error:
            return (
                f"{self._stores.vectors.count_missing(spaces)} items are stored but not embedded: {error}",
            )

    def put(self, ready: Mapping[Key, Vector]) -> None:
        if ready:
            self._stores.vectors.put_vectors(ready, self._fingerprint(ready))

    def ready(
        self, items: Sequence[Item], vectors: Sequence[Sequence[float]] | None
    ) -> dict[Key, Vector]:
        given = [] if vectors is None else list(validation.several("vectors", vectors))
        if vectors is None or not (given or items):
            return {}
        if len(given) != len(items):
            raise Invalid(f"{len(given)} vectors for {len(items)} items: give one for each")
        size = (
            self._embedder.dimensions
            if self._embedder is not None
            else len(validation.vector(given[0]))
        )
        ready = {
            item.key: validation.vector(vector, size)
            for item, vector in zip(items, given, strict=True)
        }
        stored = self._stores.vectors.fingerprint()
        if ready and stored not in ("", self._fingerprint(ready)):
            way = (
                "run reindex"
                if self._embedder is not None
                else f"give vectors of {self._stores.vectors.dimensions()} numbers, or use a new file"
            )
            raise Conflict(
                f"the stored vectors are of {stored!r}, not of {self._fingerprint(ready)!r}: {way}",
                "reindex_required",
            )
        return ready

    def of_query(
        self, query: Query, recipes: Sequence[Recipe], strict: bool = False
    ) -> tuple[Vector | None, list[Problem]]:
        """The query's vector, or why there is none. Only a request that can do without it goes on, and none that is `strict`."""
        modes = {recipe.mode for recipe in recipes if recipe.source == "search"}
        if modes <= {"bm25"} or not query.spaces:
            return None, []
        missing = self._stores.vectors.count_missing(query.spaces)
        try:
            with span("embed"):
                found = self._embed_query(query, missing, strict)
            if found is None and missing and "vector" in modes:
                raise Conflict(
                    f"mode 'vector' finds nothing: none of the {missing} items has a vector; embed them, or use bm25",
                    "vectors_pending",
                )
            return found, self._pending(query, missing)
        except (Unavailable, Conflict) as error:
            if "vector" in modes and isinstance(error, Unavailable):
                raise EmbeddingError(str(error)) from error
            if strict or "vector" in modes:
                raise
            return None, [Problem("vectors", f"words only: {error}", error.code)]

    def _fingerprint(self, ready: Mapping[Key, Vector]) -> str:
        """Of ready vectors: the embedder answers for them, and without one their size does."""
        return (
            self._embedder.fingerprint
            if self._embedder is not None
            else f"given:{len(next(iter(ready.values())))}"
        )

    def _embed_query(self, query: Query, missing: int, strict: bool) -> Vector | None:
        """None when no item of the request's spaces has a vector: those of other spaces must not change the scores."""
        if missing == self._stores.searched(query.spaces):
            return None
        stored = self._stores.vectors.fingerprint()
        dimensions = self._stores.vectors.dimensions()
        if query.vector:
            return validation.vector(query.vector, dimensions)
        if self._embedder is None:
            raise Conflict(
                f"the stored vectors are of {stored!r}, and no embedder was opened",
                "embedder_required",
            )
        if stored != self._embedder.fingerprint:
            raise Conflict(
                f"the stored vectors are of {stored!r}, the embedder is {self._embedder.fingerprint!r}: run reindex",
                "reindex_required",
            )
        (vector,) = (self.of_texts if strict else self._embedder.embed)([query.text])
        if len(vector) != dimensions:
            raise Conflict(
                f"the stored vectors have {dimensions} dimensions, those of {stored!r} now {len(vector)}: run reindex",
                "reindex_required",
            )
        return vector

    def _pending(self, query: Query, missing: int) -> list[Problem]:
        if self._embedder is None and not query.vector:
            return []
        return (
            [
                Problem(
                    "vectors",
                    f"{missing} items are not embedded yet: they are found by words only",
                    "vectors_pending",
                )
            ]
            if missing
            else []
        )
