"""The file adapter: items and links in a folder that people can read. All of it is held in memory; every write is on the disk before it counts."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt, Invalid
from knowloom.files import RefreshLock, translate_errors
from knowloom.model import AUTOMATIC, Batch, Change, Edge, EdgeKey, Filter, Item, Key, SpaceInfo
from knowloom.stores.file.folder import Folder

ITEMS, LINKS = ("add", "update", "delete"), ("link", "unlink")


@dataclass
class _Tally:
    """What a space holds, kept up to date: to count it anew takes long, and every request asks."""

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
    """For knowledge that fits in memory: profiles, or a graph. Threads take turns; processes wait for each other's writes."""

    ROLES = ("metadata", "graph")

    def __init__(self, path: str) -> None:
        self._folder = Folder(Path(path))
        self._guard = RefreshLock(str(self._folder.path), self._look)
        self._offset = 0  # bytes of the log that are in memory
        self._log: list[Change] = []
        self._items: dict[Key, Item] = {}
        self._tallies: dict[str, _Tally] = {}
        self._edges: dict[EdgeKey, Edge] = {}
        self._touching: dict[Key, dict[EdgeKey, Edge]] = {}
        with self.reading():
            pass

    @classmethod
    def open(cls, path: str) -> FileStore:
        if not path:
            raise Invalid("file: names no folder: write file:profiles, or file:///path/to/profiles")
        return cls(path)

    def close(self) -> None:
        self._guard.close()

    def reading(self) -> AbstractContextManager[None]:
        """The outermost block looks what other processes wrote; inside it nothing changes."""
        return self._guard.reading()

    def _look(self) -> None:
        with translate_errors(str(self._folder.path)), self._folder.reading():
            self._refresh()

    def _refresh(self) -> None:
        """Take in what was logged since, and read the files it is about."""
        rows = self._folder.log_rows(self._offset)
        if not rows:
            return
        offset, changes = self._folder.log_size(), [_change(row) for row in rows]
        items = {
            key: self._stored_item(key)
            for key in dict.fromkeys((one.space, one.id) for one in changes if one.action in ITEMS)
        }
        edges = {
            key: self._stored_edges(key)
            for key in dict.fromkeys((one.space, one.id) for one in changes if one.action in LINKS)
        }
        self._take(items, edges)
        self._log += changes
        self._offset = offset

    def _stored_item(self, key: Key) -> Item | None:
        name = self._folder.item_file(key)
        return (
            self._read(name, codec.item_from_dict) if (self._folder.path / name).exists() else None
        )

    def _stored_edges(self, key: Key) -> list[Edge]:
        name = self._folder.edges_file(key)
        return (
            self._read(name, lambda row: [codec.edge_from_dict(one) for one in row["edges"]])
            if (self._folder.path / name).exists()
            else []
        )

    def _read(self, name: str, read: Any) -> Any:
        try:
            return read(self._folder.row(name))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise Corrupt(
                f"{str(self._folder.path / name)!r} is not what knowloom wrote ({error}): repair it or restore it from a backup"
            ) from error

    def _take(self, items: dict[Key, Item | None], edges: dict[Key, list[Edge]]) -> None:
        for key, item in items.items():
            tally = self._tallies.setdefault(key[0], _Tally())
            if (before := self._items.pop(key, None)) is not None:
                tally.count_item(before, -1)
            if item is not None:
                self._items[key] = item
                tally.count_item(item, 1)
        for key, starting in edges.items():
            tally = self._tallies.setdefault(key[0], _Tally())
            for edge in [
                one for one in self._touching.get(key, {}).values() if one.source_key == key
            ]:
                del self._edges[edge.key]
                tally.count_edge(edge, -1)
                for end in {edge.source_key, edge.target_key}:
                    del self._touching[end][edge.key]
            for edge in starting:
                self._edges[edge.key] = edge
                tally.count_edge(edge, 1)
                for end in {edge.source_key, edge.target_key}:
                    self._touching.setdefault(end, {})[edge.key] = edge

    # writing

    def apply(self, batch: Batch) -> None:
        with (
            self._guard.exclusive(),
            translate_errors(str(self._folder.path)),
            self._folder.writing(),
        ):
            self._refresh()
            write = _Write(self._items, self._edges, self._touching, batch, len(self._log))
            if write.log:
                self._folder.commit(self._files(write), "".join(write.log))
                self._refresh()

    def _files(self, write: _Write) -> dict[str, dict[str, Any] | None]:
        files: dict[str, dict[str, Any] | None] = {}
        for key, item in write.items.items():
            files[self._folder.item_file(key)] = None if item is None else codec.item_to_dict(item)
        for source in dict.fromkeys(key[0] for key in write.edges):
            starting = {
                one.key: one
                for one in self._touching.get(source, {}).values()
                if one.source_key == source
            }
            changed = {key: edge for key, edge in write.edges.items() if key[0] == source}
            left = [
                codec.edge_to_dict(edge)
                for _, edge in sorted((starting | changed).items())
                if edge is not None
            ]
            files[self._folder.edges_file(source)] = {"edges": left} if left else None
        return files

    # items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        with self.reading():
            found = [
                (name, self._tallies[name])
                for name in sorted(
                    self._tallies if names is None else self._tallies.keys() & set(names)
                )
            ]
            return [
                SpaceInfo(name, one.items, one.edges, codec.sum_text(one.digest))
                for name, one in found
            ]

    def get(self, keys: Sequence[Key]) -> list[Item]:
        with self.reading():
            return [codec.given(self._items[key]) for key in keys if key in self._items]

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
            return list(
                map(codec.given, heapq.nsmallest(limit, allowed, key=lambda item: item.key))
            )

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        with self.reading():
            return list(
                map(
                    codec.given_change,
                    [change for change in self._log[after:] if change.space == space][:limit],
                )
            )

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        asked = set(keys)
        with self.reading():
            found = [
                change
                for change in self._log
                if (change.space, change.id) in asked
                or (change.link is not None and change.link[1] in asked)
            ]
            return list(map(codec.given_change, found))

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        """Reads every file again and compares it with the log."""
        with self.reading(), translate_errors(str(self._folder.path)), self._folder.reading():
            expected = {
                self._folder.item_file(key): codec.item_to_dict(item)
                for key, item in self._items.items()
            }
            for source in {edge.source_key for edge in self._edges.values()}:
                own = sorted(
                    (edge.key, edge)
                    for edge in self._touching[source].values()
                    if edge.source_key == source
                )
                expected[self._folder.edges_file(source)] = {
                    "edges": [codec.edge_to_dict(edge) for _, edge in own]
                }
            found = {*self._folder.files("items"), *self._folder.files("edges")}
            return [*self._differing(expected, found), *self._unlogged()]

    def _differing(self, expected: dict[str, dict[str, Any]], found: set[str]) -> Iterator[str]:
        for name in sorted(found | set(expected)):
            if name not in expected:
                yield f"{name!r} is not in the change log: knowloom did not write it"
            elif name not in found:
                yield f"{name!r} is missing"
            else:
                try:
                    if self._folder.row(name) != json.loads(codec.to_json(expected[name])):
                        yield f"{name!r} was changed by something else than knowloom"
                except Corrupt as error:
                    yield str(error)

    def _unlogged(self) -> Iterator[str]:
        last = {
            (change.space, change.id): change.action
            for change in self._log
            if change.action in ITEMS
        }
        links = {change.link: change.action for change in self._log if change.link}
        for key in sorted(set(last) | set(self._items)):
            if (last.get(key, "delete") != "delete") != (key in self._items):
                yield f"item {key[1]!r} of space {key[0]!r} and the change log disagree"
        for link in sorted(key for key in set(links) | set(self._edges) if key is not None):
            if (links.get(link) == "link") != (link in self._edges):
                yield f"the edge {link[0][1]!r} -[{link[2]}]-> {link[1][1]!r} and the change log disagree"

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
        found: dict[EdgeKey, Edge] = {}
        with self.reading():
            for key in dict.fromkeys(keys):
                seen = [
                    edge
                    for edge in self._touching.get(key, {}).values()
                    if edge.space in spaces and edge.target_key[0] in spaces
                ]
                seen = [
                    edge
                    for edge in seen
                    if edge.weight >= min_weight and (not types or edge.type in types)
                ]
                seen = [
                    edge
                    for edge in seen
                    if automatic is None or automatic == (edge.origin == AUTOMATIC)
                ]
                for end in ("source_key", "target_key"):
                    side = (edge for edge in seen if getattr(edge, end) == key)
                    found.update(
                        {edge.key: edge for edge in heapq.nsmallest(limit, side, key=_heaviest)}
                    )
        return list(map(codec.given, sorted(found.values(), key=_heaviest)))

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        with self.reading():
            return [codec.given(self._edges[key]) for key in keys if key in self._edges]

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        with self.reading():
            owned = (
                edge
                for key, edge in self._edges.items()
                if edge.space in spaces and (after is None or key > after.key)
            )
            wanted = (
                edge
                for edge in owned
                if automatic is None or (edge.origin == AUTOMATIC) is automatic
            )
            return list(map(codec.given, heapq.nsmallest(limit, wanted, key=lambda edge: edge.key)))


class _Write:
    """One batch worked out: what each item and edge becomes (None: gone), and the lines of the log. Nothing is changed yet."""

    def __init__(
        self,
        items: dict[Key, Item],
        edges: dict[EdgeKey, Edge],
        touching: dict[Key, dict[EdgeKey, Edge]],
        batch: Batch,
        number: int,
    ) -> None:
        self.items: dict[Key, Item | None] = {}
        self.edges: dict[EdgeKey, Edge | None] = {}
        self.log: list[str] = []
        self._stored, self._linked, self._number, self._at = (
            items,
            edges,
            number,
            codec.time_to_text(batch.at),
        )
        for key, version in batch.expected:
            codec.check_version(key, version, items.get(key))
        for key in batch.deleted:
            for link in sorted(touching.get(key, ())):
                self._unlink(link)
            self._put(key, None)
        for link in batch.deleted_edges:
            self._unlink(link)
        for item in batch.items:
            self._put(item.key, codec.item_from_dict(_through_json(codec.item_to_dict(item))))
        for edge in batch.edges:
            before, self.edges[edge.key] = (
                self._edge(edge.key),
                codec.edge_from_dict(_through_json(codec.edge_to_dict(edge))),
            )
            self._note(edge.source_key, "link", before and codec.edge_to_dict(before), edge.key)

    def _put(self, key: Key, item: Item | None) -> None:
        before = self.items[key] if key in self.items else self._stored.get(key)
        if before is None and item is None:
            return
        self.items[key] = item
        action = "delete" if item is None else "add" if before is None else "update"
        self._note(key, action, before and codec.item_to_dict(before), None)

    def _unlink(self, key: EdgeKey) -> None:
        before = self._edge(key)
        if before is not None:
            self.edges[key] = None
            self._note(key[0], "unlink", codec.edge_to_dict(before), key)

    def _edge(self, key: EdgeKey) -> Edge | None:
        return self.edges[key] if key in self.edges else self._linked.get(key)

    def _note(self, key: Key, action: str, before: Any, link: EdgeKey | None) -> None:
        self._number += 1
        row = {
            "number": self._number,
            "at": self._at,
            "space": key[0],
            "id": key[1],
            "action": action,
            "before": before,
        }
        self.log.append(
            codec.to_json(
                row | ({} if link is None else {"target": list(link[1]), "type": link[2]})
            )
            + "\n"
        )


def _change(row: dict[str, Any]) -> Change:
    key, before = (row["space"], row["id"]), row["before"]
    read = codec.item_from_dict if row["action"] in ITEMS else codec.edge_from_dict
    link: EdgeKey | None = (
        (key, (row["target"][0], row["target"][1]), row["type"]) if "target" in row else None
    )
    return Change(
        row["number"],
        codec.text_to_time(row["at"]),
        *key,
        row["action"],
        None if before is None else read(before),
        link,
    )


def _heaviest(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)


def _through_json(row: dict[str, Any]) -> dict[str, Any]:
    """As a file would give it back; what cannot be written fails here, before anything has changed."""
    copy: dict[str, Any] = json.loads(codec.to_json(row))
    return copy
