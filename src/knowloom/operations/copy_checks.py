"""Checks before and after a copy: what the target has already, and if both are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from knowloom import codec
from knowloom.errors import Conflict, Invalid
from knowloom.linking.rules import parse_finder, parse_rules
from knowloom.model import Change, Filter, Item
from knowloom.operations import state_copy
from knowloom.ports import HIDDEN_SPACES, SpaceInfo, Stores


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A space that is not the same in both."""

    source: SpaceInfo
    target: SpaceInfo

    def describe(self) -> str:
        sides = [
            f"{info.items} items and {info.edges} edges ({info.digest})"
            for info in (self.source, self.target)
        ]
        return f"space {self.source.name!r} has {sides[0]} in the source, {sides[1]} in the target"


def differs(space: str, reason: str) -> Conflict:
    return Conflict(
        f"the target has other knowledge in space {space!r}: {reason}; copy to an empty store",
        "target_differs",
    )


def check_settings(source: Stores, target: Stores, spaces: Sequence[str]) -> None:
    """Raise Conflict if vectors, or the rules of automatic edges, do not fit together."""
    _check_vectors(source, target)
    others = [
        info
        for info in target.items.spaces()
        if info.items and info.name not in (*spaces, *HIDDEN_SPACES)
    ]
    ours, theirs = _stored_rules(source), _stored_rules(target)
    if others and theirs and ours and _rule_names(ours) != _rule_names(theirs):
        raise Conflict(
            f"the target links its items by {theirs!r}, the source by {ours!r}: reindex one of "
            "them with the rules of the other, or copy to an empty store",
            "reindex_required",
        )
    _check_targets(source, spaces)


def _check_vectors(source: Stores, target: Stores) -> None:
    fingerprint, stored = source.vectors.fingerprint(), target.vectors.fingerprint()
    if not fingerprint or not stored:
        return
    sizes = source.vectors.dimensions(), target.vectors.dimensions()
    if (fingerprint, sizes[0]) != (stored, sizes[1]):
        raise Conflict(
            f"the target has vectors of {stored!r} with {sizes[1]} dimensions, the source of "
            f"{fingerprint!r} with {sizes[0]}: reindex one of them, or copy to an empty store",
            "reindex_required",
        )
    calibrations = source.vectors.calibration(stored), target.vectors.calibration(stored)
    if all(calibrations) and calibrations[0] != calibrations[1]:
        raise Conflict(
            f"both have vectors of {stored!r}, but calibrated by other texts: copy to an empty "
            "store, or without vectors reindex one of them",
            "reindex_required",
        )


def _check_targets(source: Stores, spaces: Sequence[str]) -> None:
    """Refuse spaces whose edges lead to others that are not copied: the ends would be missing."""
    for name in spaces:
        for page in state_copy.scan_edges(source, name):
            for edge in page:
                if edge.target_key[0] not in spaces:
                    raise Invalid(
                        f"space {name!r} has edges to space {edge.target_key[0]!r}, such as "
                        f"{edge.name!r}: copy both spaces",
                        "missing_space",
                    )


def check_contained(source: Stores, target: Stores, spaces: Sequence[str]) -> None:
    """Raise Conflict if the target has an item or edge that the source does not have."""
    for name in spaces:
        for items in state_copy.scan_items(target, name):
            present = {item.key: item for item in source.items.get([item.key for item in items])}
            for item in items:
                if present.get(item.key) != item:
                    raise differs(name, f"item {item.id!r} is not that of the source")
        for edges in state_copy.scan_edges(target, name):
            stored = {
                edge.key: edge for edge in source.graph.get_edges([edge.key for edge in edges])
            }
            for edge in edges:
                if stored.get(edge.key) != edge:
                    raise differs(name, f"the edge {edge.name!r} is not that of the source")


def compare_spaces(source: Stores, target: Stores, spaces: Sequence[str]) -> Mismatch | None:
    """Return the first space whose items or explicit edges differ."""
    copies = {info.name: info for info in target.items.spaces(spaces)}
    for info in source.items.spaces(spaces):
        copy = copies.get(info.name, SpaceInfo(info.name, 0, 0, codec.format_digest(0)))
        if (info.items, info.edges, info.digest) != (copy.items, copy.edges, copy.digest):
            return Mismatch(info, copy)
    return None


def compare_logs(space: str, log: Iterator[Change], copy: Iterator[Change]) -> None:
    """Raise Conflict if two logs do not have the same lines, in any order at the same time."""
    digests = [0, 0]
    for lines in zip_longest(log, copy):
        for side, change in enumerate(lines):
            if change is not None and (change.link or change.action not in ("link", "unlink")):
                digests[side] += _fingerprint(change)
    if digests[0] != digests[1]:
        raise Conflict(
            f"the history of space {space!r} in the target is not that of the source",
            "copy_differs",
        )


def _fingerprint(change: Change) -> int:
    before: Any = change.before
    if before is not None:
        is_item = isinstance(before, Item)
        before = codec.item_to_dict(before) if is_item else codec.edge_to_dict(before)
    at = codec.time_to_text(change.at)
    line = [at, change.id, change.action, change.link, change.actor, change.erased, before]
    return codec.fingerprint({"line": line})


def describe_rest(source: Stores, target: Stores, spaces: Sequence[str]) -> list[str]:
    """Report what is not part of the knowledge and differs all the same."""
    problems = []
    missing = [stores.vectors.count_missing(spaces) for stores in (source, target)]
    if missing[1] > missing[0]:
        problems.append(f"{missing[1] - missing[0]} items have no vector in the target: run embed")
    if link_rules(source) is not None and _unlinked(source, spaces) == _unlinked(target, spaces):
        links = {info.name: info.links_digest for info in target.items.spaces(spaces)}
        problems += [
            f"space {info.name!r}: the automatic edges differ from the source's"
            for info in source.items.spaces(spaces)
            if links.get(info.name) != info.links_digest
        ]
    pending = {} if target.composite is None else target.composite.deliver()
    problems += [
        f"{count} changes are queued for the {layer}: run reindex"
        for layer, count in pending.items()
    ]
    return problems


# Automatic edges


def _unlinked(stores: Stores, spaces: Sequence[str]) -> int:
    """Return the number of items without automatic edges: profiles in a store of their own."""
    if stores.composite is None:
        return 0
    return stores.composite.count_unindexed(Filter(tuple(spaces)))


def _stored_rules(stores: Stores) -> str:
    store: Any = stores.items if stores.composite is None else stores.composite.link_store()
    read = getattr(store, "link_rules", None)
    return "" if read is None else read()


def _rule_names(stored: str) -> tuple[list[str], str]:
    return [rule.type for rule in parse_rules(stored)], parse_finder(stored)


def link_rules(stores: Stores) -> list[str] | None:
    """Return the names of the rules of automatic edges; None if there are none yet."""
    stored = _stored_rules(stores)
    return _rule_names(stored)[0] if stored else None


def finder(stores: Stores) -> str:
    """Return the fingerprint of the name finder of automatic edges, "" for none."""
    return parse_finder(_stored_rules(stores))
