"""Lists of the nearest items of each item, maintained without comparing all pairs again.

Items have positions. The list of an item contains all items up to its radius, at least the NEAREST
nearest unless there are fewer items. A change therefore concerns the items that change and those
whose lists they leave or enter; a list that became too short is computed anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Distances = npt.NDArray[np.uint32]
Keys = npt.NDArray[np.uint64]
Lists = npt.NDArray[np.void]
Compare = Callable[[int], Distances]
"""Returns the distances of all items from the one at a position; FARTHEST for missing vectors."""

NEAREST = 10  # two items are near each other if each is among this many nearest of the other
MAX_LISTED = 16  # the longer the lists, the more items may vanish before one is computed anew
SMALL_DIMENSIONS = 128  # vectors up to this size are compared whole, longer ones by their signs
HASH_BITS = 40
FARTHEST = np.uint32((1 << 24) - 1)
UNLIMITED = np.uint64((1 << 64) - 1)  # the radius of a list that contains all items
EMPTY = -1

# `keys` orders by distance, then by the difference of hashes: equal distances, as of vectors that
# are all the same, would otherwise make every list contain the same few items.
LIST = np.dtype(
    [
        ("hash", "<u8"),
        ("radius", "<u8"),
        ("keys", "<u8", MAX_LISTED),
        ("positions", "<i4", MAX_LISTED),
    ]
)


@dataclass(frozen=True, slots=True)
class ChangedLists:
    """Lists that differ from those before, and the pairs of items that are near each other.

    `items` are the positions of the items whose pairs may have changed; `pairs` are all pairs of
    these, each once, as two rows of positions.
    """

    positions: Positions
    lists: Lists
    items: Positions
    pairs: npt.NDArray[np.intp]


def hash_ids(ids: Iterable[str]) -> Keys:
    """Return a number for each id that orders items at the same distance."""
    digests = b"".join(
        hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest() for id in ids
    )
    return np.frombuffer(digests, "<u8") >> np.uint64(64 - HASH_BITS)


def empty_lists(count: int) -> Lists:
    """Return lists that contain nothing and that nothing enters."""
    lists = np.zeros(count, LIST)
    lists["keys"], lists["positions"] = UNLIMITED, EMPTY
    return lists


def update_lists(
    lists: Lists, has_vector: Mask, changed: Positions, compare: Compare
) -> ChangedLists:
    """Return the lists after the vectors of the `changed` items have changed, come or gone.

    `lists` and `has_vector` are by position. Items without vectors vanish from all lists, and
    `hash` must be set for all others.
    """
    present = changed[has_vector[changed]]
    stays = has_vector.copy()
    stays[changed] = False
    listed = stays & (lists["radius"] > 0)
    radius = np.where(listed, lists["radius"] >> np.uint64(HASH_BITS), 0).astype(np.uint32)
    others = int(np.count_nonzero(has_vector)) - 1
    new, entries = lists[present], []
    for place, position in enumerate(present.tolist()):
        distances = compare(position)
        near = np.flatnonzero((distances <= radius) & listed)
        keys = _keys(distances[near], lists["hash"][near], lists["hash"][position])
        enters = keys <= lists["radius"][near]
        near, keys = near[enters], keys[enters]
        entries.append((near, keys, np.full(len(near), position)))
        _find_nearest(lists, position, distances, others, new[place : place + 1])
    touched, merged = _merge(lists, listed, stays, entries)
    short = (merged["keys"][:, NEAREST - 1] == UNLIMITED) & (merged["radius"] < UNLIMITED)
    for place in np.flatnonzero(short).tolist():
        position = int(touched[place])
        _find_nearest(lists, position, compare(position), others, merged[place : place + 1])
    is_new = merged != lists[touched]
    positions = np.concatenate([present, touched[is_new]])
    new = np.concatenate([new, merged[is_new]])
    return _find_pairs(lists, has_vector, changed, positions, new)


def _keys(distances: Distances, hashes: Keys, other: np.uint64) -> Keys:
    return (distances.astype(np.uint64) << np.uint64(HASH_BITS)) | (hashes ^ other)


def _find_nearest(
    lists: Lists, position: int, distances: Distances, others: int, result: Lists
) -> None:
    """Fill a list of one item from its distances to all; `others` is the number of others."""
    distances[position] = FARTHEST
    count = min(others, MAX_LISTED)
    near = np.zeros(0, np.intp)
    if count:
        near = np.flatnonzero(distances <= np.partition(distances, count - 1)[count - 1])
    keys = _keys(distances[near], lists["hash"][near], lists["hash"][position])
    if len(near) > count:
        nearest = np.argpartition(keys, count - 1)[:count]
        near, keys = near[nearest], keys[nearest]
    order = np.argsort(keys)
    result["keys"], result["positions"] = UNLIMITED, EMPTY
    result["keys"][0, :count], result["positions"][0, :count] = keys[order], near[order]
    result["radius"] = UNLIMITED if others <= MAX_LISTED else result["keys"][0, MAX_LISTED - 1]


def _merge(
    lists: Lists,
    listed: Mask,
    stays: Mask,
    entries: list[tuple[Positions, Keys, Positions]],
) -> tuple[Positions, Lists]:
    """Return the positions of lists that are left or entered, and these lists afterwards.

    `stays` flags the items that remain in the lists they are in.
    """
    members = lists["positions"]
    leaves = (members != EMPTY) & ~stays[members]
    is_touched = leaves.any(axis=1) & listed
    for near, _, _ in entries:
        is_touched[near] = True
    touched = np.flatnonzero(is_touched)
    place = np.zeros(len(lists), np.intp)
    place[touched] = np.arange(len(touched))
    remain = ((members != EMPTY) & ~leaves)[touched]
    owners = [np.nonzero(remain)[0], *(place[near] for near, _, _ in entries)]
    keys = [lists["keys"][touched][remain], *(keys for _, keys, _ in entries)]
    others = [members[touched][remain], *(others for _, _, others in entries)]
    merged = lists[touched]
    _fill(merged, np.concatenate(owners), np.concatenate(keys), np.concatenate(others))
    return touched, merged


def _fill(lists: Lists, owners: Positions, keys: Keys, others: Positions) -> None:
    """Replace the members of the lists; those that do not fit make the radius smaller."""
    order = np.lexsort((keys, owners))
    owners, keys, others = owners[order], keys[order], others[order]
    counts = np.bincount(owners, minlength=len(lists))
    rank = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    fits = rank < MAX_LISTED
    lists["keys"], lists["positions"] = UNLIMITED, EMPTY
    lists["keys"][owners[fits], rank[fits]] = keys[fits]
    lists["positions"][owners[fits], rank[fits]] = others[fits]
    overflow = counts > MAX_LISTED
    lists["radius"][overflow] = lists["keys"][overflow, MAX_LISTED - 1]


def _find_pairs(
    lists: Lists, has_vector: Mask, changed: Positions, positions: Positions, new: Lists
) -> ChangedLists:
    """Find the pairs of items that have each other among their nearest."""
    before = lists["positions"][positions][:, :NEAREST]
    after = new["positions"][:, :NEAREST]
    moved = (before != after).any(axis=1)
    items = np.union1d(changed, positions[moved])
    place = np.full(len(lists), EMPTY)
    place[positions] = np.arange(len(positions))

    def nearest_of(items: Positions) -> npt.NDArray[np.int32]:
        nearest = lists["positions"][items][:, :NEAREST]
        is_new = place[items] != EMPTY
        nearest[is_new] = after[place[items[is_new]]]
        return nearest

    nearest = nearest_of(items)
    rows, columns = np.nonzero((nearest != EMPTY) & has_vector[items][:, None])
    firsts, seconds = items[rows], nearest[rows, columns].astype(np.intp)
    # A pair of two of the items is found from both of them.
    is_item = np.zeros(len(lists), np.bool_)
    is_item[items] = True
    once = (firsts < seconds) | ~is_item[seconds]
    firsts, seconds = firsts[once], seconds[once]
    mutual = (nearest_of(seconds) == firsts[:, None]).any(axis=1)
    return ChangedLists(positions, new, items, np.stack([firsts[mutual], seconds[mutual]]))
