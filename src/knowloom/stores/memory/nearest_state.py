"""The lists of nearest items of one space of a memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from knowloom.ports import NearestItems, Vector
from knowloom.stores.memory.search_index import cosine_similarity
from knowloom.vectors.nearest_lists import (
    FARTHEST,
    LIST,
    SMALL_DIMENSIONS,
    Compare,
    Distances,
    Lists,
    empty_lists,
    hash_ids,
    update_lists,
)
from knowloom.vectors.signs import count_differing, measure_distances, pack_signs, round_vectors


@dataclass
class NearestIndex:
    """Lists by position; an id keeps its position for good."""

    positions: dict[str, int] = field(default_factory=dict)
    lists: Lists = field(default_factory=lambda: empty_lists(0))

    def update(
        self, vectors: Mapping[str, Vector], ids: Sequence[str], min_cosine: float
    ) -> NearestItems:
        """Return the lists after a change of these items, and who is near whom."""
        new = [id for id in vectors if id not in self.positions]
        first = len(self.positions)
        self.positions |= {id: position for position, id in enumerate(new, first)}
        more = empty_lists(len(new))
        more["hash"] = hash_ids(new)
        self.lists = np.concatenate([self.lists, more])
        has_vector = np.zeros(len(self.lists), np.bool_)
        has_vector[[self.positions[id] for id in vectors]] = True
        changed = sorted(self.positions[id] for id in ids if id in self.positions)
        changes = update_lists(
            self.lists, has_vector, np.array(changed, np.intp), self._comparer(vectors)
        )
        names = list(self.positions)
        pairs = (
            (first, second, _nearest_pair(vectors[first], vectors[second]))
            for first, second in (map(names.__getitem__, pair) for pair in changes.pairs.T.tolist())
        )
        lists = zip(changes.positions.tolist(), changes.lists, strict=True)
        return NearestItems(
            [names[position] for position in changes.items.tolist()],
            [pair for pair in pairs if pair[2] >= min_cosine],
            {position: row.tobytes() for position, row in lists},
        )

    def put(self, lists: Mapping[int, bytes]) -> None:
        """Replace lists by those of an update."""
        for position, data in lists.items():
            self.lists[position] = np.frombuffer(data, LIST)[0]

    def _comparer(self, vectors: Mapping[str, Vector]) -> Compare:
        """Return a function from a position to the distances of all items."""
        rows = [vector for passages in vectors.values() for vector in passages]
        owners = np.repeat(
            [self.positions[id] for id in vectors], [len(each) for each in vectors.values()]
        )
        is_small = bool(rows) and len(rows[0]) <= SMALL_DIMENSIONS
        rounded = round_vectors(np.stack(rows)) if is_small else np.zeros((0, 0), np.float32)
        signs = np.zeros((0, 0), np.uint64)
        if rows and not is_small:
            signs = np.ascontiguousarray(pack_signs(np.stack(rows)).T)

        def compare(position: int) -> Distances:
            distances = np.full(len(self.lists), FARTHEST)
            passages = np.flatnonzero(owners == position)
            if is_small:
                np.minimum.at(distances, owners, measure_distances(rounded, rounded[passages]))
                return distances
            for passage in passages.tolist():
                near = count_differing(signs, signs[:, passage]).astype(np.uint32)
                np.minimum.at(distances, owners, near)
            return distances

        return compare


def _nearest_pair(passages: Vector, others: Vector) -> float:
    return max(cosine_similarity(vector, other) for vector in passages for other in others)
