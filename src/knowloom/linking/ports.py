"""The protocol of stores that keep automatic edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from knowloom.ports import DirtyItems, GraphStore, ItemStore, LinkUpdate, NearestItems


@runtime_checkable
class LinkStore(ItemStore, GraphStore, Protocol):
    """A store of all roles that keeps automatic edges and the index of names behind them.

    Every write also marks as dirty the items whose automatic edges it may change: those put,
    deleted, marked by the batch or given a vector, and for a deleted item the targets of its
    automatic edges. An explicit edge replaces an automatic one, never the other way round.
    """

    def dirty_ids(self, space: str) -> list[str]:
        """Return the ids of the dirty items, in order."""

    def dirty_items(self, space: str, ids: Sequence[str]) -> DirtyItems:
        """Return the dirty ones of the ids.

        An item that only got a vector or an edge has its current state as the one before.
        """

    def put_links(self, links: LinkUpdate) -> bool:
        """Apply the update and return True; False, without effect, at another version of the space.

        Automatic edges count in no digest but their own and leave no entry in the change log.
        """

    def forget_links(self, rules: str) -> None:
        """Delete all automatic edges, mark every item as dirty, and store the new rules."""

    def link_rules(self) -> str:
        """Return the rules of the automatic edges; "" at first."""

    def common_labels(self, space: str, labels: Sequence[str]) -> set[str]:
        """Return the labels that `put_links` declared common."""

    def labels_of(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the labels of each id in the order of `put_links`; ids without any are left out.

        A changed or deleted item keeps its labels until they are put again.
        """

    def label_holders(self, space: str, labels: Sequence[str], limit: int) -> dict[str, list[str]]:
        """Return the first `limit` ids of each label, in order; unused labels are left out."""

    def stale_ids(self, space: str) -> list[str]:
        """Return the ids that `put_links` declared stale and not yet renewed, in order."""

    def tag_holders(self, space: str, tags: Sequence[str], limit: int) -> dict[str, list[str]]:
        """Return the ids of the items with each tag, in order.

        Tags without items and tags with more than `limit` items are left out.
        """

    def nearest_items(self, space: str, ids: Sequence[str], min_cosine: float) -> NearestItems:
        """Return the pairs of near items after these have changed, were deleted, or got vectors.

        Two items are near each other if each is among the `NEAREST` nearest of the other (see
        `knowloom.vectors`) and the cosine of their nearest passages is large enough. The result has
        the ids that are stored, and those of all other items whose pairs may have changed since
        `put_links` was given the lists of the last result.
        """
