"""The file store: items and edges in a folder of readable JSON files, loaded into memory."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from knowloom import codec
from knowloom.errors import Corrupt, Invalid
from knowloom.files import RefreshLock, translate_errors
from knowloom.model import AUTOMATIC, Change, Edge, EdgeKey, Filter, Item, Key
from knowloom.ports import Batch, PackedStore, SpaceInfo
from knowloom.ports.upkeep import erase
from knowloom.stores.file.file_upkeep import FileUpkeep, encode_purge
from knowloom.stores.file.folder import Folder
from knowloom.stores.file.packing import pack_folder, unpack_folder
from knowloom.stores.file.write_plan import (
    EDGE_ACTIONS,
    ITEM_ACTIONS,
    WritePlan,
    decode_change,
)

T = TypeVar("T")


@dataclass
class SpaceTotals:
    """Counters of a space, kept up to date: each request reads them."""

    items: int = 0
    edges: int = 0
    digest: int = 0

    def count_item(self, item: Item, sign: int) -> None:
        self.items += sign
        self.digest += sign * codec.fingerprint(codec.item_to_dict(item))

    def count_edge(self, edge: Edge, sign: int) -> None:
        self.edges += sign
        self.digest += sign * codec.fingerprint(codec.edge_to_dict(edge))


class FileStore:
    """For knowledge that fits in memory: profiles, or a graph.

    Threads take turns; processes wait for each other's writes. A write is on the disk when it
    returns.
    """

    ROLES = ("metadata", "graph")

    def __init__(self, path: str) -> None:
        self._folder = Folder(Path(path))
        self._guard = RefreshLock(str(self._folder.path), self._refresh_shared)
        self._offset = 0  # bytes of the log that have been loaded
        self._log: list[Change] = []
        self._items: dict[Key, Item] = {}
        self._totals: dict[str, SpaceTotals] = {}
        self._edges: dict[EdgeKey, Edge] = {}
        self._incident: dict[Key, dict[EdgeKey, Edge]] = {}  # edges by each of their ends
        with self.reading():
            pass

    @classmethod
    def open(cls, path: str) -> FileStore:
        if not path:
            raise Invalid("file: names no folder: write file:profiles, or file:///path/to/profiles")
        return cls(path)

    @staticmethod
    def unpack(data: bytes, path: str, overwrite: bool) -> AbstractContextManager[None]:
        """Restore a packed store at the end of the block."""
        return unpack_folder(data, path, overwrite, _find_problems)

    def pack(self) -> PackedStore:
        """Return a verified copy of all files, and the length of the log."""
        path = str(self._folder.path)
        with self.reading(), translate_errors(path), self._folder.reading():
            self._refresh()
            if problems := self._find_problems():
                raise Corrupt(
                    f"the backup was not written: {path!r} has {len(problems)} problems, such as: "
                    f"{problems[0]}"
                )
            keys = tuple(sorted(self._items))
            return PackedStore(str(len(self._log)), pack_folder(self._folder), keys)

    def close(self) -> None:
        self._guard.close()

    def reading(self) -> AbstractContextManager[None]:
        """Load what other processes wrote; inside the outermost block nothing changes."""
        return self._guard.reading()

    def _refresh_shared(self) -> None:
        with translate_errors(str(self._folder.path)), self._folder.reading():
            self._refresh()

    def _refresh(self) -> None:
        """Load the files that the log names since the last refresh."""
        rows = self._folder.read_log(self._offset)
        if not rows:
            return
        offset, changes = self._folder.log_size(), [decode_change(row) for row in rows]
        items = {key: self._load_item(key) for key in _keys(changes, ITEM_ACTIONS)}
        edges = {key: self._load_edges(key) for key in _keys(changes, EDGE_ACTIONS)}
        for key, item in items.items():
            self._replace_item(key, item)
        for key, starting in edges.items():
            self._replace_edges(key, starting)
        self._log += changes
        self._offset = offset

    def _load_item(self, key: Key) -> Item | None:
        name = self._folder.item_file(key)
        return self._load(name, codec.item_from_dict) if self._folder.exists(name) else None

    def _load_edges(self, key: Key) -> list[Edge]:
        name = self._folder.edges_file(key)
        return self._load(name, _decode_edges) if self._folder.exists(name) else []

    def _load(self, name: str, decode: Callable[[dict[str, Any]], T]) -> T:
        try:
            return decode(self._folder.read_row(name))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise Corrupt(
                f"{str(self._folder.path / name)!r} is not what knowloom wrote ({error}): "
                "repair it or restore it from a backup"
            ) from error

    def _replace_item(self, key: Key, item: Item | None) -> None:
        totals = self._totals.setdefault(key[0], SpaceTotals())
        if (before := self._items.pop(key, None)) is not None:
            totals.count_item(before, -1)
        if item is not None:
            self._items[key] = item
            totals.count_item(item, 1)

    def _replace_edges(self, source: Key, edges: Sequence[Edge]) -> None:
        totals = self._totals.setdefault(source[0], SpaceTotals())
        for edge in self._edges_from(source):
            del self._edges[edge.key]
            totals.count_edge(edge, -1)
            for end in {edge.source_key, edge.target_key}:
                del self._incident[end][edge.key]
        for edge in edges:
            self._edges[edge.key] = edge
            totals.count_edge(edge, 1)
            for end in {edge.source_key, edge.target_key}:
                self._incident.setdefault(end, {})[edge.key] = edge

    def _edges_from(self, source: Key) -> list[Edge]:
        incident = self._incident.get(source, {})
        return [edge for edge in incident.values() if edge.source_key == source]

    # writing

    def apply(self, batch: Batch) -> None:
        path = str(self._folder.path)
        with self._guard.exclusive(), translate_errors(path), self._folder.writing():
            self._refresh()
            plan = WritePlan(self._items, self._edges, self._incident, batch, len(self._log))
            if plan.log:
                self._folder.commit(self._encode_files(plan), "".join(plan.log))
                self._refresh()

    def upkeep(self) -> FileUpkeep:
        return FileUpkeep(self)

    def log_purges(self, keys: Sequence[Key], at: datetime, actor: str) -> None:
        """Log that these items were purged."""
        path = str(self._folder.path)
        with self._guard.exclusive(), translate_errors(path), self._folder.writing():
            self._refresh()
            first = len(self._log) + 1
            lines = [encode_purge(number, key, at, actor) for number, key in enumerate(keys, first)]
            self._folder.commit({}, "".join(lines))
            self._refresh()

    def erase_states(self, is_chosen: Callable[[Change], bool]) -> int:
        """Erase what was before the chosen changes; return their number."""
        path = str(self._folder.path)
        with self._guard.exclusive(), translate_errors(path), self._folder.writing():
            self._refresh()
            chosen = [change for change in self._log if change.before and is_chosen(change)]
            if chosen:
                self._folder.erase_log({change.number for change in chosen})
                for change in chosen:
                    self._log[change.number - 1] = erase(change)
            return len(chosen)

    def read_log(self) -> list[Change]:
        """Return the whole change log."""
        with self.reading():
            return list(self._log)

    def _encode_files(self, plan: WritePlan) -> dict[str, dict[str, Any] | None]:
        files: dict[str, dict[str, Any] | None] = {}
        for key, item in plan.items.items():
            files[self._folder.item_file(key)] = None if item is None else codec.item_to_dict(item)
        for source in dict.fromkeys(key[0] for key in plan.edges):
            before = {edge.key: edge for edge in self._edges_from(source)}
            changed = {key: edge for key, edge in plan.edges.items() if key[0] == source}
            after = [edge for edge in (before | changed).values() if edge is not None]
            files[self._folder.edges_file(source)] = _encode_edges(after) if after else None
        return files

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        with self.reading():
            existing = self._totals if names is None else self._totals.keys() & set(names)
            totals = ((name, self._totals[name]) for name in sorted(existing))
            return [
                SpaceInfo(name, total.items, total.edges, codec.format_digest(total.digest))
                for name, total in totals
            ]

    def get(self, keys: Sequence[Key]) -> list[Item]:
        with self.reading():
            return [codec.copy_value(self._items[key]) for key in keys if key in self._items]

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        with self.reading():
            return [key for key in keys if key in self._items and only.allows(self._items[key])]

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        with self.reading():
            allowed = (
                item
                for key, item in self._items.items()
                if (after is None or key > after) and only.allows(item)
            )
            page = heapq.nsmallest(limit, allowed, key=lambda item: item.key)
            return list(map(codec.copy_value, page))

    def count(self, only: Filter) -> int:
        with self.reading():
            return sum(map(only.allows, self._items.values()))

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        with self.reading():
            changes = [change for change in self._log[after:] if change.space == space]
            return list(map(codec.copy_change, changes[:limit]))

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        selected = set(keys)
        with self.reading():
            changes = (
                change
                for change in self._log
                if (change.space, change.id) in selected
                or (change.link is not None and change.link[1] in selected)
            )
            return list(map(codec.copy_change, changes))

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        """Read every file again and compare it with the log."""
        path = str(self._folder.path)
        with self.reading(), translate_errors(path), self._folder.reading():
            return self._find_problems()

    def _find_problems(self) -> list[str]:
        expected = {
            self._folder.item_file(key): codec.item_to_dict(item)
            for key, item in self._items.items()
        }
        for source in {edge.source_key for edge in self._edges.values()}:
            edges = self._edges_from(source)
            expected[self._folder.edges_file(source)] = _encode_edges(edges)
        return [*self._check_files(expected), *self._check_log()]

    def _check_files(self, expected: dict[str, dict[str, Any]]) -> Iterator[str]:
        existing = {*self._folder.files("items"), *self._folder.files("edges")}
        for name in sorted(existing | set(expected)):
            if name not in expected:
                yield f"{name!r} is not in the change log: knowloom did not write it"
            elif name not in existing:
                yield f"{name!r} is missing"
            else:
                try:
                    if self._folder.read_row(name) != json.loads(codec.to_json(expected[name])):
                        yield f"{name!r} was changed by another program"
                except Corrupt as error:
                    yield str(error)

    def _check_log(self) -> Iterator[str]:
        last_item_actions = {
            (change.space, change.id): change.action
            for change in self._log
            if change.action in ITEM_ACTIONS
        }
        last_edge_actions = {change.link: change.action for change in self._log if change.link}
        for key in sorted(set(last_item_actions) | set(self._items)):
            is_logged = last_item_actions.get(key, "delete") != "delete"
            if is_logged != (key in self._items):
                yield f"item {key[1]!r} of space {key[0]!r} differs from the change log"
        for link in sorted(set(last_edge_actions) | set(self._edges)):
            if (last_edge_actions.get(link) == "link") != (link in self._edges):
                edge = f"{link[0][1]!r} -[{link[2]}]-> {link[1][1]!r}"
                yield f"the edge {edge} differs from the change log"

    # graph

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        result: dict[EdgeKey, Edge] = {}
        with self.reading():
            for key in dict.fromkeys(keys):
                selected = [
                    edge
                    for edge in self._incident.get(key, {}).values()
                    if edge.space in spaces
                    and edge.target_key[0] in spaces
                    and edge.weight >= min_weight
                    and (not types or edge.type in types)
                    and _has_origin(edge, automatic)
                ]
                for end in ("source_key", "target_key"):
                    side = (edge for edge in selected if getattr(edge, end) == key)
                    heaviest = heapq.nsmallest(limit, side, key=_heaviest_first)
                    result.update({edge.key: edge for edge in heaviest})
        return list(map(codec.copy_value, sorted(result.values(), key=_heaviest_first)))

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        with self.reading():
            return [codec.copy_value(self._edges[key]) for key in keys if key in self._edges]

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        with self.reading():
            selected = (
                edge
                for key, edge in self._edges.items()
                if edge.space in spaces
                and (after is None or key > after.key)
                and _has_origin(edge, automatic)
            )
            page = heapq.nsmallest(limit, selected, key=lambda edge: edge.key)
            return list(map(codec.copy_value, page))


def _keys(changes: Iterable[Change], actions: Sequence[str]) -> list[Key]:
    keys = ((change.space, change.id) for change in changes if change.action in actions)
    return list(dict.fromkeys(keys))


def _encode_edges(edges: Iterable[Edge]) -> dict[str, Any]:
    ordered = sorted(edges, key=lambda edge: edge.key)
    return {"edges": [codec.edge_to_dict(edge) for edge in ordered]}


def _decode_edges(row: dict[str, Any]) -> list[Edge]:
    return [codec.edge_from_dict(edge) for edge in row["edges"]]


def _has_origin(edge: Edge, automatic: bool | None) -> bool:
    return automatic is None or automatic == (edge.origin == AUTOMATIC)


def _heaviest_first(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)


def _find_problems(path: Path) -> list[str]:
    """Open the folder of a store, and verify it."""
    store = FileStore(str(path))
    try:
        return store.verify()
    finally:
        store.close()
