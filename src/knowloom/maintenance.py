"""Maintenance of the knowledge: missing vectors, automatic edges, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowloom.embedding import EmbeddingService
from knowloom.linking.linker import Linker
from knowloom.ports import Progress, SpaceInfo
from knowloom.reader import Reader


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of the stores and of the embedding cache."""

    spaces: tuple[SpaceInfo, ...]
    embedder: str  # the fingerprint of the stored vectors
    without_vector: int
    cache_hits: int
    cache_misses: int
    disk_vectors: int = 0  # in the file of the embedding cache, if there is one
    disk_hits: int = 0  # since that file was created
    cache_problem: str = ""


class Maintenance:
    """Use it as `kb.maintenance`. Spaces default to all."""

    def __init__(self, reader: Reader, embedding: EmbeddingService, linker: Linker) -> None:
        self._reader = reader
        self._embedding = embedding
        self._linker = linker

    def restrict(self, reader: Reader, embedding: EmbeddingService) -> Maintenance:
        """Return the maintenance of a restricted engine."""
        return Maintenance(reader, embedding, self._linker)

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Embed items that have no vector; return their number."""
        names = self._reader.resolve_spaces(spaces)
        embedded = self._embedding.embed(names, progress)
        self._linker.catch_up(names, progress)
        return embedded

    def link(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Add pending automatic edges, as after an interrupted write; return the items examined."""
        return self._linker.link(self._reader.resolve_spaces(spaces), progress)

    def relink(self, progress: Progress | None = None) -> int:
        """Delete and rebuild the automatic edges of all spaces; return the items examined."""
        return self._linker.relink(self._reader.resolve_spaces(), progress)

    def stats(self) -> Statistics:
        with self._reader.snapshot() as stores:
            spaces = tuple(self._reader.spaces())
            missing = stores.vectors.count_missing([info.name for info in spaces])
            fingerprint = stores.vectors.fingerprint()
            return Statistics(spaces, fingerprint, missing, *self._embedding.cache_stats)
