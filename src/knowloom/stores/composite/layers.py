"""Layers in stores of their own: opened again after a failure, and named in their errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, local
from typing import Any, TypeVar

from knowloom.errors import MissingExtra, Unavailable, hide_secrets
from knowloom.ports import ItemStore

T = TypeVar("T")

log = logging.getLogger(__name__)

METADATA = "metadata"
GRAPH_CALLS = ("edges_of", "get_edges", "edges")
WORD_CALLS = ("match_text", "search_text", "score_text_passages", "rebuild_words", "passage_size")
# Mistakes in the configuration rather than failures: they do not pass by themselves.
REFUSED_CODES = ("foreign_file", "newer_version", "no_folder")


def is_index_layer(store: object) -> bool:
    """Return True for a layer or its class, False for a store of items."""
    is_layer = getattr(store, "is_index_layer", None)  # of a layer that may not be open yet
    if isinstance(is_layer, bool):
        return is_layer
    adapter = store if isinstance(store, type) else type(store)
    return hasattr(adapter, "match_text") or hasattr(adapter, "match_vector")


class Layer:
    """A store that plays some of the roles, opened on its first use and again if that failed.

    Every other call is passed on, and an error names the layer. A damaged file thus blocks neither
    opening the other stores nor their calls, and is used as soon as it can be read again.
    """

    def __init__(
        self,
        url: str,
        roles: Sequence[str],
        open: Callable[[], Any],
        is_index_layer: bool = False,
    ) -> None:
        self.is_index_layer = is_index_layer
        self._url, self._roles, self._open = url, tuple(roles), open
        self._opened: Any = None
        self._lock, self._closed = Lock(), False
        try:
            self._store()
        except Unavailable as error:
            if isinstance(error, MissingExtra) or error.code in REFUSED_CODES:
                raise
            log.warning("opened without %s: %s", " and ".join(roles), error)

    def _store(self) -> Any:
        if self._opened is None:
            with self._lock:
                if self._closed:
                    raise Unavailable(f"{hide_secrets(self._url)!r} was closed", "closed")
                if self._opened is None:
                    self._opened = self._open()
        return self._opened

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()

    def reading(self) -> AbstractContextManager[object]:
        try:
            block: AbstractContextManager[object] = self._store().reading()
        except Unavailable as error:
            self._name(error, "reading")
            raise
        return block

    def __getattr__(self, call: str) -> Any:
        if call.startswith("__"):
            raise AttributeError(call)

        def run(*arguments: object, **options: object) -> Any:
            try:
                return getattr(self._store(), call)(*arguments, **options)
            except Unavailable as error:
                self._name(error, call)
                raise

        setattr(self, call, run)  # the next call finds it without this method
        return run

    def _name(self, error: Unavailable, call: str) -> None:
        role = "graph" if call in GRAPH_CALLS else "words" if call in WORD_CALLS else "vectors"
        error.layer = role if role in self._roles else self._roles[0]


class Tolerance:
    """Failures that the reads of a thread go on without, by layer."""

    def __init__(self) -> None:
        self._thread = local()

    @contextmanager
    def begin(self) -> Iterator[Mapping[str, Unavailable]]:
        """Tolerate failures until the end of the block, and yield those so far; may be nested."""
        outer = getattr(self._thread, "failures", None)
        failures: dict[str, Unavailable] = {} if outer is None else outer
        self._thread.failures = failures
        try:
            yield failures
        finally:
            self._thread.failures = outer

    def has(self, layer: str) -> bool:
        return layer in (getattr(self._thread, "failures", None) or ())

    def record(self, layer: str, error: Unavailable) -> bool:
        """Name the layer in the error, and return True if the thread tolerates its failure."""
        error.layer = layer
        failures: dict[str, Unavailable] | None = getattr(self._thread, "failures", None)
        if failures is None or error.code == "closed":
            return False
        failures.setdefault(layer, error)
        return True


class ItemLayers:
    """The primary store and that of the profiles, if they have one of their own."""

    def __init__(self, primary: ItemStore, metadata: ItemStore | None) -> None:
        self._primary, self._metadata = primary, metadata
        self.stores = [primary] if metadata is None else [primary, metadata]
        self.tolerance = Tolerance()

    def read(self, read: Callable[[ItemStore], T]) -> list[T]:
        """Read from both stores; without the profiles if their failure is tolerated."""
        return [read(self._primary), *self.read_profiles(read)]

    def read_profiles(self, read: Callable[[ItemStore], T]) -> list[T]:
        """Return the result of the profiles, none if there are none or they fail and may do so."""
        if self._metadata is None or self.tolerance.has(METADATA):
            return []
        try:
            return [read(self._metadata)]
        except Unavailable as error:
            if self.tolerance.record(METADATA, error):
                return []
            raise
