"""The embedding service of an engine: missing vectors, ready vectors, the vector of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowloom.caching import Caching
from knowloom.embedders.cache import CachedEmbedder, open_disk_cache
from knowloom.errors import Conflict, EmbeddingError, Invalid, Unavailable
from knowloom.model import Item, Key, Problem, Query
from knowloom.ports import Embedder, Progress, Stores, Vector
from knowloom.recipes import Recipe
from knowloom.tracing import span
from knowloom.validation import validate_iterable, validate_vector

PAGE_SIZE = 4096  # items looked up at a time
BATCH_SIZE = 64  # vectors per write
BUNDLED = "minilm"  # the embedder that needs no server
"""(phase, number done, total)."""


class EmbeddingService:
    """An embedder and the vectors of the stores. Without an embedder, search uses text only."""

    def __init__(
        self, stores: Stores, embedder: Embedder | None, caching: Caching | None = None
    ) -> None:
        caching = caching or Caching()
        self._stores = stores
        self._inner = embedder
        self._disk = open_disk_cache(caching)
        self._embedder = None
        if embedder is not None:
            self._embedder = CachedEmbedder(embedder, caching.max_size, caching.ttl_s, self._disk)

    def close(self) -> None:
        """Release the resources of the embedder, such as connections to a server."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            close()
        if self._disk is not None:
            self._disk.close()

    @property
    def cache_stats(self) -> tuple[int, int, int, int, str]:
        """Hits and misses of the cache; the vectors, all hits and the problem of its file."""
        memory = (self._embedder.hits, self._embedder.misses) if self._embedder else (0, 0)
        disk = (*self._disk.counts(), self._disk.problem) if self._disk else (0, 0, "")
        return (*memory, *disk)

    @property
    def is_cpu_bound(self) -> bool:
        """True if queries are embedded in this process; other embedders may wait for a server."""
        return self._embedder is None or self._embedder.name == BUNDLED

    @property
    def dimensions(self) -> int | None:
        return None if self._embedder is None else self._embedder.dimensions

    def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts, none without an embedder; failures are EmbeddingError."""
        if self._embedder is None:
            return []
        try:
            return self._embedder.embed(texts)
        except Unavailable as error:
            raise EmbeddingError(str(error)) from error

    def forget_vectors(self) -> bool:
        """Delete all vectors and return True; False, without effect, without an embedder.

        An embedder that does not work now raises its error before anything is deleted.
        """
        if self._embedder is None:
            return False
        self._embedder.compute(["knowloom"])
        self._stores.vectors.forget_vectors()
        return True

    def embed(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Embed the items without a vector and return their number."""
        if self._embedder is None:
            raise Invalid('no embedder: pass one, such as knowloom.open(url, embedder="minilm")')
        total, done = self._stores.vectors.count_missing(spaces), 0
        while keys := self._stores.vectors.missing_vectors(spaces, PAGE_SIZE):
            for start in range(0, len(keys), BATCH_SIZE):
                done += self._embed_batch(self._embedder, keys[start : start + BATCH_SIZE])
                if progress is not None:
                    progress("vectors", done, max(total, done))
        return done

    def _embed_batch(self, embedder: Embedder, keys: Sequence[Key]) -> int:
        items = self._stores.items.get(keys)
        vectors = embedder.embed([item.embeddable for item in items])
        by_key = {item.key: vector for item, vector in zip(items, vectors, strict=True)}
        self._stores.vectors.put_vectors(by_key, embedder.fingerprint)
        return len(items)

    def embed_pending(
        self, spaces: Sequence[str], progress: Progress | None = None
    ) -> tuple[str, ...]:
        """Embed the items of a write and return the problems; the items stay stored anyway."""
        if self._embedder is None or not spaces:
            return ()
        try:
            self.embed(spaces, progress)
            return ()
        except (Unavailable, Conflict) as error:
            missing = self._stores.vectors.count_missing(spaces)
            return (f"{missing} items are stored but not embedded: {error}",)

    def put_vectors(self, vectors: Mapping[Key, Vector]) -> None:
        """Store ready vectors."""
        if vectors:
            self._stores.vectors.put_vectors(vectors, self._fingerprint(vectors))

    def validate_vectors(
        self, items: Sequence[Item], vectors: Sequence[Sequence[float]] | None
    ) -> dict[Key, Vector]:
        """Return the unit vectors of the items by key; Conflict if they do not fit the stored."""
        rows = [] if vectors is None else list(validate_iterable("vectors", vectors))
        if vectors is None or not (rows or items):
            return {}
        if len(rows) != len(items):
            raise Invalid(f"vectors must have one entry per item, got {len(rows)} for {len(items)}")
        size = self.dimensions if self._embedder is not None else len(validate_vector(rows[0]))
        ready = {
            item.key: validate_vector(row, size) for item, row in zip(items, rows, strict=True)
        }
        stored, fingerprint = self._stores.vectors.fingerprint(), self._fingerprint(ready)
        if stored not in ("", fingerprint):
            remedy = "run reindex"
            if self._embedder is None:
                dimensions = self._stores.vectors.dimensions()
                remedy = f"pass vectors of {dimensions} dimensions, or use a new file"
            message = f"the stored vectors are of {stored!r}, not of {fingerprint!r}: {remedy}"
            raise Conflict(message, "reindex_required")
        return ready

    def embed_query(
        self, query: Query, recipes: Sequence[Recipe], strict: bool = False
    ) -> tuple[Vector | None, list[Problem]]:
        """Return the vector of the query, or None and the reasons.

        Failures are raised if the request needs the vector or is `strict`.
        """
        modes = {recipe.mode for recipe in recipes if recipe.source == "search"}
        if modes <= {"bm25"} or not query.spaces:
            return None, []
        missing = self._stores.vectors.count_missing(query.spaces)
        try:
            with span("embed"):
                vector = self._query_vector(query, missing, strict)
            if vector is None and missing and "vector" in modes:
                raise Conflict(
                    f"mode 'vector' needs vectors, but none of the {missing} items has one: "
                    "embed them, or use bm25",
                    "vectors_pending",
                )
            return vector, self._pending_problems(query, missing)
        except (Unavailable, Conflict) as error:
            if "vector" in modes and isinstance(error, Unavailable):
                raise EmbeddingError(str(error)) from error
            if strict or "vector" in modes:
                raise
            return None, [Problem("vectors", f"words only: {error}", error.code)]

    def _fingerprint(self, vectors: Mapping[Key, Vector]) -> str:
        """Return the fingerprint of ready vectors: the embedder's, or one of their size."""
        if self._embedder is not None:
            return self._embedder.fingerprint
        return f"given:{len(next(iter(vectors.values())))}"

    def _query_vector(self, query: Query, missing: int, strict: bool) -> Vector | None:
        """Return the vector, None if no item of the query's spaces has one.

        Vectors of other spaces must not change the scores.
        """
        if missing == self._stores.count_searchable(query.spaces):
            return None
        stored, dimensions = self._stores.vectors.fingerprint(), self._stores.vectors.dimensions()
        if query.vector:
            return validate_vector(query.vector, dimensions)
        if self._embedder is None:
            raise Conflict(
                f"the stored vectors are of {stored!r}, and no embedder was opened",
                "embedder_required",
            )
        fingerprint = self._embedder.fingerprint
        if stored != fingerprint:
            message = f"the stored vectors are of {stored!r}, the embedder is {fingerprint!r}"
            raise Conflict(f"{message}: run reindex", "reindex_required")
        (vector,) = (self.embed_texts if strict else self._embedder.embed)([query.text])
        if len(vector) != dimensions:
            message = f"the stored vectors have {dimensions} dimensions, those of {stored!r} now"
            raise Conflict(f"{message} {len(vector)}: run reindex", "reindex_required")
        return vector

    def _pending_problems(self, query: Query, missing: int) -> list[Problem]:
        if not missing or (self._embedder is None and not query.vector):
            return []
        reason = f"{missing} items are not embedded yet: they are found by words only"
        return [Problem("vectors", reason, "vectors_pending")]
