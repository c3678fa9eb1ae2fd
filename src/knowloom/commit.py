"""The write path: one batch applied to every store, then missing vectors and automatic edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from knowloom.embedding import EmbeddingService
from knowloom.linking.linker import Linker
from knowloom.linking.rules import find_dirty_items
from knowloom.loading import diff
from knowloom.model import Edge, Item, Key
from knowloom.ports import Batch, Progress, Stores
from knowloom.report import Report


class Committer:
    """Applies batches to the stores and brings vectors and automatic edges up to date."""

    def __init__(
        self,
        stores: Stores,
        embedding: EmbeddingService,
        linker: Linker,
        clock: Callable[[], datetime],
    ) -> None:
        self._stores = stores
        self._embedding = embedding
        self._linker = linker
        self._clock = clock

    def write(
        self,
        items: Sequence[Item],
        edges: Sequence[Edge],
        expected: Mapping[Key, str] | None = None,
    ) -> Report:
        """Store what differs from the stored items and edges, if the expected versions match."""
        now = self._clock()
        changed, report = diff.find_changed_items(items, now, self._stores)
        changed_edges = diff.find_changed_edges(edges, self._stores)
        if changed or changed_edges or expected:
            versions = tuple((expected or {}).items())
            self.apply(Batch(now, tuple(changed), tuple(changed_edges), expected=versions))
        return report + Report(edges=len(changed_edges))

    def apply(self, batch: Batch) -> None:
        """Write to the item store first: if it refuses the batch, no store has changed."""
        touched = find_dirty_items([*(edge.key for edge in batch.edges), *batch.deleted_edges])
        batch = replace(batch, marked=tuple(touched))
        for store in self._stores.unique():
            store.apply(batch)
            batch = replace(batch, expected=())

    def catch_up(
        self,
        spaces: Sequence[str],
        *,
        embed: bool = True,
        embed_spaces: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> tuple[str, ...]:
        """Embed and link what is pending in the spaces; return what could not be done."""
        pending = spaces if embed_spaces is None else embed_spaces
        problems = self._embedding.embed_pending(pending, progress) if embed else ()
        return problems + self._linker.catch_up(spaces, progress)
