"""Noticing stores that lost a part of their copy: the truth has more, or less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowloom.errors import Unavailable
from knowloom.ports import GraphStore, SpaceInfo
from knowloom.stores.composite.store_layers import CompleteStore, StoreLayer


class Completeness:
    """Compares the counts of layers and of the truth in the spaces of a request.

    That costs a store of knowloom no more than reading its counters; other layers have none.
    """

    def __init__(self, truth: CompleteStore, layers: Mapping[str, Any], graph: GraphStore) -> None:
        self._truth, self._layers, self._graph = truth, layers, graph
        self._counts_edges = True

    def check(self, layer: str, spaces: Sequence[str]) -> None:
        """Raise Unavailable if the layer has another number of items or edges of the spaces."""
        if layer == "graph":
            self._check_graph(self._truth.spaces(spaces))
        elif isinstance(self._layers[layer], StoreLayer):
            self._check_store(layer, self._layers[layer].store, self._truth.spaces(spaces))

    def _check_store(self, layer: str, store: CompleteStore, infos: Sequence[SpaceInfo]) -> None:
        names = [info.name for info in infos]
        expected = {info.name: info.items for info in infos if info.items}
        actual = {info.name: info.items for info in store.spaces(names) if info.items}
        if expected != actual:
            raise _incomplete(layer, sum(actual.values()), sum(expected.values()), "items")
        if layer != "vectors":
            return
        total, missing = sum(expected.values()), store.count_missing(names)
        if missing != (rest := self._truth.count_missing(names)):
            raise _incomplete(layer, total - missing, total - rest, "vectors")

    def _check_graph(self, infos: Sequence[SpaceInfo]) -> None:
        expected = {info.name: info.edges + info.links for info in infos}
        if not self._counts_edges:
            return
        try:
            stored = self._graph.spaces(list(expected))  # type: ignore[attr-defined]
        except AttributeError:  # a store of edges only
            self._counts_edges = False
            return
        actual = {info.name: info.edges + info.links for info in stored}
        if any(actual.get(name, 0) != count for name, count in expected.items()):
            raise _incomplete("graph", sum(actual.values()), sum(expected.values()), "edges")


def _incomplete(layer: str, actual: int, expected: int, what: str) -> Unavailable:
    message = f"{actual} of {expected} {what} are in the {layer}: run reindex"
    return Unavailable(message, "index_pending")
