"""The write path: one batch applied to every store, then missing vectors and automatic edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from os import getpid

from knowloom import codec
from knowloom.embedding import EmbeddingService
from knowloom.errors import Conflict, Forbidden
from knowloom.linking.linker import Linker
from knowloom.linking.rules import find_dirty_items
from knowloom.loading import diff
from knowloom.model import Edge, Item, Key
from knowloom.ports import Batch, Progress, Stores
from knowloom.ports.views import require_process
from knowloom.report import Report
from knowloom.retrieval.restriction import Restriction, restrict_stores

LOCAL = "local"  # the author of changes by the shell and by embedded engines
WRITE_TRIES = 5  # of a restricted write, while other writers change the same items


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
        self._visible = stores  # compared with what is written
        self._restriction: Restriction | None = None
        self.actor = LOCAL
        self._process = getpid()

    def is_forked(self) -> bool:
        """Return True in a process that was forked since the stores were opened."""
        return getpid() != self._process

    def restrict(self, restriction: Restriction, embedding: EmbeddingService) -> Committer:
        """Return a committer that refuses to write or replace items that are not allowed."""
        other = copy(self)
        other._visible = restrict_stores(self._stores, restriction)
        other._embedding, other._restriction = embedding, restriction
        return other

    def act_as(self, actor: str) -> Committer:
        """Return a committer that logs another author."""
        other = copy(self)
        other.actor = actor
        return other

    def write(
        self,
        items: Sequence[Item],
        edges: Sequence[Edge],
        expected: Mapping[Key, str] | None = None,
    ) -> Report:
        """Store what differs from the stored items and edges, if the expected versions match."""
        require_process(self._process)
        now = self._clock()
        changed, report = diff.find_changed_items(items, now, self._visible)
        changed_edges = diff.find_changed_edges(edges, self._visible)
        if changed or changed_edges or expected:
            versions = tuple((expected or {}).items())
            self.apply(Batch(now, tuple(changed), tuple(changed_edges), expected=versions))
        return report + Report(edges=len(changed_edges))

    def apply(self, batch: Batch) -> None:
        """Write to the item store first: if it refuses the batch, no store has changed."""
        require_process(self._process)
        touched = find_dirty_items([*(edge.key for edge in batch.edges), *batch.deleted_edges])
        batch = replace(batch, marked=tuple(touched), actor=self.actor)
        if self._restriction is not None:
            self._apply_restricted(batch, self._restriction)
            return
        self._apply(batch)

    def _apply(self, batch: Batch) -> None:
        for store in self._stores.unique():
            store.apply(batch)
            batch = replace(batch, expected=())

    def _apply_restricted(self, batch: Batch, restriction: Restriction) -> None:
        """Apply a batch if it is allowed for the stored items, which must not change meanwhile."""
        for _ in range(WRITE_TRIES):
            permitted = _permit(batch, restriction, self._stores)
            try:
                return self._apply(permitted)
            except Conflict as error:
                if error.code != "version_mismatch":
                    raise
        raise Conflict("the items change too often to be written: try again", "version_mismatch")

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


def _permit(batch: Batch, restriction: Restriction, stores: Stores) -> Batch:
    """Return the batch with the versions that were checked, or raise Forbidden.

    Items that are not allowed are treated as missing, but their ids cannot be taken.
    """
    written = [*(item.key for item in batch.items), *batch.deleted]
    ends = [end for edge in batch.edges for end in (edge.source_key, edge.target_key)]
    keys = dict.fromkeys([*written, *ends, *(key for key, _ in batch.expected)])
    stored = {item.key: item for item in stores.items.get(list(keys))}
    visible = {key: item for key, item in stored.items() if restriction.allows(item)}
    for key, version in batch.expected:
        codec.check_version(key, version, visible.get(key))
    for item in batch.items:
        reason = restriction.rejection_reason(item)
        if item.key in stored and item.key not in visible:
            reason = "the id is in use"
        if reason:
            raise Forbidden(f"item {item.id!r} may not be written: {reason}", "filtered")
    existing = visible.keys() | {item.key for item in batch.items}
    for edge in batch.edges:
        if not existing.issuperset((edge.source_key, edge.target_key)):
            raise Forbidden(f"edge {edge.name!r} may not be written: an end is missing", "filtered")
    deleted = tuple(key for key in batch.deleted if key in visible)
    versions = [(key, codec.version(stored.get(key))) for key in written]
    return replace(batch, deleted=deleted, expected=tuple(versions))
