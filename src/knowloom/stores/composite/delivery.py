"""Delivery: give layers the changes of the outbox, at once or as soon as they work again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from knowloom.errors import Conflict, Unavailable
from knowloom.model import EdgeKey, Item, Key
from knowloom.stores.composite.mirrors import Mirror
from knowloom.stores.composite.outbox import Outbox, QueuedChange

log = logging.getLogger(__name__)

RETRY_S = 1.0  # between two attempts that requests make
SLOW_S = 0.2  # a call that fails later than this is not tried again for RETRY_S
MAX_CHANGES = 1000  # items and edges that a request delivers before it begins


class Delivery:
    """The way of changes from the truth to its layers, by name of the layer."""

    def __init__(
        self, outbox: Outbox, mirrors: Mapping[str, Mirror], monotonic: Callable[[], float]
    ) -> None:
        self._outbox, self._mirrors, self._monotonic = outbox, mirrors, monotonic
        # A store that plays words and vectors is one layer, under the first of its names.
        self._names = {
            name: next(first for first, other in mirrors.items() if other is mirror)
            for name, mirror in mirrors.items()
        }
        self._lock = Lock()
        self._is_suspect, self._next_try = bool(mirrors), 0.0
        self._paused: dict[str, tuple[float, Unavailable]] = {}  # until when, and why
        self._complete: set[str] = set()  # layers that had something of all spaces
        self._announced: set[str] = set()  # new layers for which everything was queued
        self.failures: dict[str, str] = {}  # the last error of each layer that did not take changes

    def plan(
        self,
        layers: Sequence[str],
        items: Sequence[Key] = (),
        edges: Sequence[EdgeKey] = (),
        is_complete: bool = False,
    ) -> list[QueuedChange]:
        """Return the changes to queue for those of these layers that exist, each once."""
        if not (items or edges or is_complete):
            return []
        names = dict.fromkeys(self._names[layer] for layer in layers if layer in self._names)
        changes = (QueuedChange(name, tuple(items), tuple(edges), is_complete) for name in names)
        parts = (part for change in changes for part in change.split(MAX_CHANGES))
        return [self._outbox.identify(part) for part in parts]

    def encode(self, changes: Sequence[QueuedChange]) -> tuple[Item, ...]:
        """Return the entries to write in the transaction of the changes."""
        return tuple(self._outbox.encode(change) for change in changes)

    def announce(self, changes: Sequence[QueuedChange]) -> None:
        """Queue changes that are about to be made outside of a batch."""
        self._outbox.put(changes)

    def cancel(self, changes: Sequence[QueuedChange]) -> None:
        """Remove changes that were not made."""
        self._outbox.remove(changes)

    def deliver(self, changes: Sequence[QueuedChange]) -> None:
        """Write changes to their layers; those that fail stay queued."""
        delivered = [change for change in changes if self._write(change)]
        self._outbox.remove(delivered)

    def _write(self, change: QueuedChange) -> bool:
        mirror = self._mirrors.get(change.layer)
        if mirror is None:  # of a layer that is not used any more
            return True
        if self.paused_error(change.layer) is not None:
            self._is_suspect = True
            return False
        started = self._monotonic()
        try:
            mirror.write(change)
        except (Unavailable, Conflict) as error:
            log.warning("%d changes wait for the %s: %s", change.size, change.layer, error)
            self.failures[change.layer] = str(error)
            self._is_suspect = True
            if isinstance(error, Unavailable):
                self.note_failure(change.layer, error, started)
            return False
        self.failures.pop(change.layer, None)
        return True

    def deliver_all(self) -> dict[str, int]:
        """Deliver everything that is queued; return what is still pending."""
        with self._lock:
            self._paused.clear()  # a command that repairs tries all layers
            self.deliver(self._outbox.read())
            return self.pending()

    def retry(self) -> None:
        """Deliver a bounded number of changes, once in RETRY_S and in one thread at a time."""
        if not self._is_suspect or self._monotonic() < self._next_try:
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            queued, size = [], 0
            for change in self._outbox.read():
                if not change.is_complete and size + change.size <= MAX_CHANGES:
                    queued.append(change)
                    size += change.size
            self.deliver(queued)
            self._is_suspect = bool(self._outbox.read())
        finally:
            self._next_try = self._monotonic() + RETRY_S
            self._lock.release()

    def pending(self) -> dict[str, int]:
        """Return the number of queued items and edges of each layer that has any."""
        counts: dict[str, int] = {}
        for change in self._outbox.read():
            counts[change.layer] = counts.get(change.layer, 0) + change.size
        return dict(sorted(counts.items()))

    # reading

    def count_behind(self, layer: str, spaces: Sequence[str]) -> int:
        """Return the number of changes in these spaces that a layer has not got."""
        names = frozenset(spaces)
        behind = [
            change
            for change in self._outbox.read()
            if change.layer == self._names[layer] and change.concerns(names)
        ]
        self._is_suspect |= bool(behind)
        return sum(change.size for change in behind)

    def find_gap(self, layer: str, spaces: Sequence[str]) -> Unavailable | None:
        """Return an error if a layer has not got everything in these spaces."""
        if behind := self.count_behind(layer, spaces):
            reason = f"{behind} changes are queued for the {layer}"
        elif self._queue_new(layer):
            reason = f"the copy of the {layer} is incomplete, run reindex"
        else:
            return None
        return Unavailable(f"{reason}: the items answered instead", "index_pending")

    def _queue_new(self, layer: str) -> bool:
        """Queue everything for a layer that was added or emptied; return True if it is one.

        Layers are looked at until they are found complete.
        """
        if layer in self._complete:
            return False
        if not self._mirrors[layer].is_new():
            self._complete.add(layer)
            return False
        if layer not in self._announced:
            self.announce(self.plan((layer,), is_complete=True))
            self._announced.add(layer)
        return True

    def started(self) -> float:
        return self._monotonic()

    def note_failure(self, layer: str, error: Unavailable, started: float) -> None:
        """Leave a layer alone for a while if its failure took long."""
        now = self._monotonic()
        if now - started > SLOW_S:
            self._paused[self._names[layer]] = (now + RETRY_S, error)

    def paused_error(self, layer: str) -> Unavailable | None:
        """Return the last error of a layer that is left alone for now."""
        until, error = self._paused.get(self._names[layer], (0.0, None))
        return error if self._monotonic() < until else None
