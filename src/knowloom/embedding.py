"""The embedding service of an engine: missing vectors, ready vectors, the vector of a query."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from functools import partial

from knowloom.caching import Caching
from knowloom.embedders.batches import (
    EmbeddingBatch,
    build_batches,
    count_cores,
    embed_batches,
)
from knowloom.embedders.cache import CachedEmbedder, digest_text, open_disk_cache
from knowloom.embedders.calibration import CalibratedEmbedder, Calibration, ModelCheck
from knowloom.embedders.queries import QUERY_TIMEOUT_S, QueryGuard
from knowloom.errors import Conflict, EmbeddingError, Invalid, Unavailable
from knowloom.model import Item, Key, Problem, Query
from knowloom.ports import Embedder, Index, Progress, QueryEmbedder, Stores, Vector
from knowloom.recipes import Recipe
from knowloom.text.passages import MAX_PASSAGE_SIZE, MIN_PASSAGE_SIZE, STRETCH
from knowloom.tracing import span
from knowloom.validation import (
    validate_int,
    validate_iterable,
    validate_passage_size,
    validate_vector,
)

PAGE_SIZE = 4096  # keys looked up at a time
READ_SIZE = 64  # items read at a time
# News have 4.4 characters per token: MiniLM reads 97 % of their passages of 800 in full.
CHARACTERS_PER_TOKEN = 4


@dataclass
class _Run:
    """The counts of one run of embedding."""

    done: int = 0  # items
    too_long: int = 0  # passages longer than the embedder's window
    refused: set[Key] = field(default_factory=set)  # items whose vectors the index ignored

    def add(self, batch: EmbeddingBatch, max_length: int) -> None:
        self.done += len(batch.items)
        self.too_long += sum(len(text) > max_length for text in batch.texts)


class PassageSizing:
    """The passage size of the stores and the window of the embedder."""

    def __init__(self, stores: Stores, embedder: Embedder | None) -> None:
        self._stores = stores
        self._name = "" if embedder is None else embedder.name
        self._window: int | None = getattr(embedder, "window", None)  # tokens
        self.max_length = sys.maxsize  # characters of a text that the embedder reads
        self._max_size = MAX_PASSAGE_SIZE
        if self._window is not None:
            validate_int(f"the window of the embedder {self._name!r}", self._window, 1)
            self.max_length = self._window * CHARACTERS_PER_TOKEN
            fitting = min(int(self.max_length / STRETCH), MAX_PASSAGE_SIZE)
            self._max_size = max(fitting, MIN_PASSAGE_SIZE)

    def fit(self, passage_size: int | None) -> None:
        """Set the size of empty stores: this one, or the default as far as the embedder reads.

        Stores with items must have this size already; otherwise raise Conflict.
        """
        if passage_size is None and self._max_size == MAX_PASSAGE_SIZE:
            return
        size, stored = self.resolve(passage_size), self._stores.vectors.passage_size()
        if size == stored:
            return
        if not any(info.items for info in self._stores.items.spaces()):
            self.resegment(size)
        elif passage_size is not None:
            raise Conflict(
                f"the stored passages are of {stored} characters, not of {size}: run reindex with "
                f"passage_size={size}, or open without one",
                "reindex_required",
            )

    def resolve(self, passage_size: int | None) -> int:
        """Return the size, by default the stored one, as far as the embedder reads."""
        if passage_size is None:
            return min(self._stores.vectors.passage_size(), self._max_size)
        size = validate_passage_size(passage_size)
        if size > self._max_size:
            raise Invalid(
                f"passage_size must be at most {self._max_size} for the embedder {self._name!r}, "
                f"which reads {self._window} tokens, got {size}"
            )
        return size

    def resegment(self, passage_size: int) -> None:
        indexes: tuple[Index, ...] = (self._stores.words, self._stores.vectors)
        for index in {id(index): index for index in indexes}.values():
            index.resegment(passage_size)

    def problems(self, too_long: int) -> tuple[str, ...]:
        """Report so many passages that the embedder reads in part, if that is due to their size."""
        size = self._stores.vectors.passage_size()
        fits_none = self.max_length < STRETCH * MIN_PASSAGE_SIZE
        if not too_long or (size <= self._max_size and not fits_none):
            return ()
        remedy = f"run reindex with passage_size={self._max_size}"
        if fits_none:
            remedy = f"no passage size fits, the smallest is {MIN_PASSAGE_SIZE}"
        return (
            f"{too_long} passages of about {size} characters are longer than the {self._window} "
            f"tokens that the embedder {self._name!r} reads, and their ends are not embedded: "
            f"{remedy}",
        )


class EmbeddingService:
    """An embedder and the vectors of the stores. Without an embedder, search uses text only."""

    def __init__(
        self,
        stores: Stores,
        embedder: Embedder | None,
        caching: Caching | None = None,
        query_timeout_s: float = QUERY_TIMEOUT_S,
    ) -> None:
        caching = caching or Caching()
        self._stores = stores
        self._inner = embedder
        # Vectors of a server have its rate limits, and those of this process have its cores.
        self._threads = count_cores() if getattr(embedder, "is_local", False) else 1
        self._disk = open_disk_cache(caching)
        self._sizing = PassageSizing(stores, embedder)
        self._cache: CachedEmbedder | None = None
        self._model_check: ModelCheck | None = None
        self._embedder: QueryEmbedder | None = None
        if embedder is None:
            return
        is_calibrated = getattr(embedder, "is_calibrated", False)
        if not self.is_cpu_bound:
            embedder = QueryGuard(embedder, query_timeout_s)
        if not is_calibrated:  # outside of the guard, whose thread must not wait for the store
            embedder = self._model_check = ModelCheck(embedder, stores.vectors)
        self._cache = CachedEmbedder(embedder, caching.max_size, caching.ttl_s, self._disk)
        self._embedder = self._cache
        if not is_calibrated:
            self._embedder = CalibratedEmbedder(self._cache, stores.vectors)

    def with_stores(self, stores: Stores) -> EmbeddingService:
        """Return a service with the same embedder and cache for a view of the stores."""
        other = copy(self)
        other._stores = stores
        return other

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
        memory = (self._cache.hits, self._cache.misses) if self._cache else (0, 0)
        disk = (*self._disk.counts(), self._disk.problem) if self._disk else (0, 0, "")
        return (*memory, *disk)

    @property
    def is_cpu_bound(self) -> bool:
        """True if queries are embedded in this process; other embedders may wait for a server."""
        return self._inner is None or bool(getattr(self._inner, "is_local", False))

    @property
    def dimensions(self) -> int | None:
        return None if self._embedder is None else self._embedder.dimensions

    def embed_texts(self, texts: Sequence[str], *, queries: bool = False) -> list[Vector]:
        """Return the vectors of passages, or of queries; none without an embedder.

        Failures are EmbeddingError.
        """
        if self._embedder is None:
            return []
        try:
            return (self._embedder.embed_queries if queries else self._embedder.embed)(texts)
        except Unavailable as error:
            raise EmbeddingError(str(error)) from error

    def forget_vectors(self) -> bool:
        """Delete all vectors and return True; False, without effect, without an embedder.

        An embedder that does not work now raises its error before anything is deleted.
        """
        if self._cache is None:
            return False
        if self._model_check is not None:
            self._model_check.reset()
        try:
            self._cache.compute(["knowloom"])
        except Conflict:  # another model: the cached vectors are of the earlier one
            self._cache.forget()
        self._stores.vectors.forget_vectors()
        return True

    def forget_texts(self, texts: Sequence[str]) -> None:
        """Delete the vectors of these texts from the cache, in memory and on disk."""
        if self._cache is not None:
            self._cache.forget_texts(texts)
        if self._disk is not None:
            self._disk.forget(digest_text(text) for text in texts)

    def embed_anew(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Replace all vectors and return the number of items; 0 without an embedder."""
        return self.embed(spaces, progress) if self.forget_vectors() else 0

    def embed(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Embed the items without a vector and return their number."""
        if self._embedder is None:
            raise Invalid('no embedder: pass one, such as knowloom.open(url, embedder="minilm")')
        return self._embed_missing(self._embedder, spaces, progress).done

    def _embed_missing(
        self, embedder: Embedder, spaces: Sequence[str], progress: Progress | None
    ) -> _Run:
        vectors, run = self._stores.vectors, _Run()
        total, page = vectors.count_missing(spaces), set[Key]()
        while True:
            missing = vectors.missing_vectors(spaces, PAGE_SIZE + len(run.refused))
            # Still missing: the item changed since, or the index has another copy of it.
            run.refused |= page.intersection(missing)
            keys = [key for key in missing if key not in run.refused]
            page = set(keys)
            if not keys:
                run.done -= len(run.refused)
                return run
            batches = build_batches(self._iterate_items(keys), vectors.passage_size())
            with closing(embed_batches(embedder.embed, batches, self._threads)) as embedded:
                for batch, rows in embedded:
                    vectors.put_vectors(batch.assign(rows), embedder.fingerprint)
                    run.add(batch, self._sizing.max_length)
                    if progress is not None:
                        progress("vectors", run.done, max(total, run.done))

    def _iterate_items(self, keys: Sequence[Key]) -> Iterator[Item]:
        for start in range(0, len(keys), READ_SIZE):
            yield from self._stores.items.get(keys[start : start + READ_SIZE])

    def embed_pending(
        self, spaces: Sequence[str], progress: Progress | None = None
    ) -> tuple[str, ...]:
        """Embed the items of a write and return the problems; the items stay stored anyway."""
        if self._embedder is None or not spaces:
            return ()
        try:
            run = self._embed_missing(self._embedder, spaces, progress)
        except (Unavailable, Conflict) as error:
            return (f"{self._describe_missing(spaces)} stored but not embedded: {error}",)
        refused = f"{len(run.refused)} items are stored but not embedded: they changed meanwhile, "
        problems = [f"{refused}or the stores disagree about them: run embed"] if run.refused else []
        return (*problems, *self._sizing.problems(run.too_long))

    def _describe_missing(self, spaces: Sequence[str]) -> str:
        try:
            return f"{self._stores.vectors.count_missing(spaces)} items are"
        except Unavailable:  # the vectors fail, and not the embedder
            return "items are"

    def resegment(self, passage_size: int | None) -> None:
        """Cut all items to this size, by default the stored one, as far as the embedder reads."""
        self._sizing.resegment(self._sizing.resolve(passage_size))

    def put_vectors(self, vectors: Mapping[Key, Vector]) -> tuple[str, ...]:
        """Store the ready vectors of stored items; return what could not be done."""
        try:
            if vectors:
                self._stores.vectors.put_vectors(vectors, self._fingerprint(vectors))
        except Unavailable as error:
            return (f"{len(vectors)} items are stored, but their vectors are not: {error}",)
        return ()

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
        if isinstance(self._embedder, CalibratedEmbedder):  # they are the embedder's own vectors
            calibration = self._embedder.calibration()
            ready = {key: calibration.apply_to_passages(row) for key, row in ready.items()}
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
        try:
            missing = self._stores.vectors.count_missing(query.spaces)
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
            if "vector" in modes and isinstance(error, Unavailable) and not error.layer:
                raise EmbeddingError(str(error)) from error
            if "vector" in modes or (strict and not error.layer):
                raise
            return None, [Problem.from_error("vectors", error, "words only: ")]

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
            vector = validate_vector(query.vector, dimensions)
            calibration = Calibration.decode(self._stores.vectors.calibration(stored))
            return vector if calibration is None else calibration.apply_to_query(vector)
        if self._embedder is None:
            raise Conflict(
                f"the stored vectors are of {stored!r}, and no embedder was opened",
                "embedder_required",
            )
        fingerprint = self._embedder.fingerprint
        if stored != fingerprint:
            message = f"the stored vectors are of {stored!r}, the embedder is {fingerprint!r}"
            raise Conflict(f"{message}: run reindex", "reindex_required")
        embed = partial(self.embed_texts, queries=True) if strict else self._embedder.embed_queries
        (vector,) = embed([query.text])
        if len(vector) != dimensions:
            message = f"the stored vectors have {dimensions} dimensions, those of {stored!r} now"
            raise Conflict(f"{message} {len(vector)}: run reindex", "reindex_required")
        return vector

    def _pending_problems(self, query: Query, missing: int) -> list[Problem]:
        if not missing or (self._embedder is None and not query.vector):
            return []
        reason = f"{missing} items are not embedded yet: they are found by words only"
        return [Problem("vectors", reason, "vectors_pending")]
