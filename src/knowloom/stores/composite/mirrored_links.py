"""Automatic edges: kept by the truth, and mirrored into whatever plays the graph."""

from __future__ import annotations

from typing import Any

from knowloom.ports import LinkUpdate
from knowloom.stores.composite.delivery import Delivery

GRAPH = ("graph",)


class MirroredLinks:
    """A LinkStore on that of the truth, which does all of the bookkeeping.

    Nearest items are found by its vectors, of which the layer of the vectors has a copy.
    """

    def __init__(self, truth: Any, delivery: Delivery) -> None:
        self._truth, self._delivery = truth, delivery

    def __getattr__(self, call: str) -> Any:
        return getattr(self._truth, call)

    def put_links(self, links: LinkUpdate) -> bool:
        edges = [*(edge.key for edge in links.edges), *links.deleted]
        changes = self._delivery.plan(GRAPH, edges=edges)
        self._delivery.announce(changes)
        is_stored: bool = self._truth.put_links(links)
        if is_stored:
            self._delivery.deliver(changes)
        else:
            self._delivery.cancel(changes)
        return is_stored

    def forget_links(self, rules: str) -> None:
        changes = self._delivery.plan(GRAPH, is_complete=True)
        self._delivery.announce(changes)
        self._truth.forget_links(rules)
        self._delivery.deliver(changes)
