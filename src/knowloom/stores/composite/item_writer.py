"""Writing items to the truth and profiles to a store of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from knowloom import codec
from knowloom.model import Edge, Item, Key, Kind
from knowloom.ports import Batch, ItemStore
from knowloom.stores.composite.store_layers import UNLIMITED, CompleteStore


@dataclass(frozen=True, slots=True)
class ItemMoves:
    """Items that a batch moves to the other store, and the edges that must survive the move."""

    to_metadata: tuple[Key, ...] = ()
    to_primary: tuple[Key, ...] = ()
    edges: tuple[Edge, ...] = ()

    def edges_at(self, keys: Sequence[Key]) -> tuple[Edge, ...]:
        ends = {*keys}
        return tuple(edge for edge in self.edges if {edge.source_key, edge.target_key} & ends)


class ItemWriter:
    """Splits batches; without `metadata`, profiles are items like all others."""

    def __init__(
        self,
        primary: CompleteStore,
        metadata: ItemStore | None,
        apply_to_truth: Callable[[Batch], None],
    ) -> None:
        self._primary, self._metadata, self._apply_to_truth = primary, metadata, apply_to_truth

    def apply(self, batch: Batch) -> None:
        """Write new profiles, then everything else, then remove items that left the profiles.

        In this order an item that moves is never missing from both stores.
        """
        self._validate(batch)
        moves, expected = self._find_moves(batch), self._expected_profiles(batch)
        profiles = tuple(item for item in batch.items if self.is_profile(item))
        profile_keys = {item.key for item in profiles}
        leaving = dict.fromkeys((*batch.deleted, *moves.to_primary))
        deleted = tuple(key for key in leaving if key not in profile_keys)
        if self._metadata is not None and (profiles or deleted):
            with self._metadata.reading():  # raises if it is down, before anything is written
                pass
        if self._metadata is not None and profiles:
            versions = tuple(pair for pair in expected if pair[0] in profile_keys)
            self._metadata.apply(Batch(batch.at, profiles, expected=versions, actor=batch.actor))
        self._apply_to_truth(self._part_for_truth(batch, moves))
        if self._metadata is not None and deleted:
            self._metadata.apply(Batch(batch.at, deleted=deleted, actor=batch.actor))

    def _part_for_truth(self, batch: Batch, moves: ItemMoves) -> Batch:
        """Return the batch without profiles of another store."""
        items = tuple(item for item in batch.items if not self.is_profile(item))
        return replace(
            batch,
            items=items,
            edges=(*moves.edges_at(moves.to_metadata), *batch.edges),
            deleted=(*batch.deleted, *moves.to_metadata),
            expected=batch.expected if self._metadata is None else (),
        )

    def _find_moves(self, batch: Batch) -> ItemMoves:
        if self._metadata is None:
            return ItemMoves()
        deleted = set(batch.deleted)
        profiles = [item.key for item in batch.items if self.is_profile(item)]
        others = [item.key for item in batch.items if not self.is_profile(item)]
        to_metadata = [item.key for item in self._primary.get(profiles) if item.key not in deleted]
        to_primary = [item.key for item in self._metadata.get(others) if item.key not in deleted]
        moving = [*to_metadata, *to_primary]
        touching = self._explicit_edges_at(moving) if moving else []
        rewritten = {*batch.deleted_edges, *(edge.key for edge in batch.edges)}
        surviving = tuple(
            edge
            for edge in touching
            if edge.key not in rewritten and not {edge.source_key, edge.target_key} & deleted
        )
        return ItemMoves(tuple(to_metadata), tuple(to_primary), surviving)

    def _explicit_edges_at(self, keys: Sequence[Key]) -> list[Edge]:
        names = [info.name for info in self._primary.spaces()]
        return self._primary.edges_of(keys, names, limit=UNLIMITED, automatic=False)

    def _validate(self, batch: Batch) -> None:
        """Validate the batch and its expected versions before writing to any store."""
        for item in batch.items:
            codec.to_json(codec.item_to_dict(item))
        for edge in batch.edges:
            codec.to_json(codec.edge_to_dict(edge))
        if self._metadata is not None:
            keys = [key for key, _ in batch.expected]
            stored = {
                item.key: item
                for store in (self._metadata, self._primary)
                for item in store.get(keys)
            }
            for key, version in batch.expected:
                codec.check_version(key, version, stored.get(key))

    def _expected_profiles(self, batch: Batch) -> list[tuple[Key, str]]:
        """Return the expected versions for the profiles; an item that becomes one is new there."""
        if self._metadata is None:
            return []
        stored = {item.key for item in self._metadata.get([key for key, _ in batch.expected])}
        return [(key, version if key in stored else "") for key, version in batch.expected]

    def is_profile(self, item: Item) -> bool:
        return self._metadata is not None and item.kind is Kind.PROFILE
