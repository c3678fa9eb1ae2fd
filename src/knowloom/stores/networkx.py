"""Links in a networkx graph, with a JSON file behind it: for programs that want to run graph algorithms over their knowledge."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import networkx

from knowloom import codec
from knowloom.errors import Corrupt, Unavailable
from knowloom.files import RefreshLock, lock_file, translate_errors, write_atomic
from knowloom.model import AUTOMATIC, Batch, Edge, EdgeKey, Key

FORMAT = 1


class NetworkxStore:
    """A MultiDiGraph whose nodes are (space, id) and whose edges have the type as key and the Edge as "edge". Every write writes the file
    anew, whole or not at all. Without a path the graph is only in memory."""

    ROLES = ("graph",)

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._graph: Any = networkx.MultiDiGraph()
        self._seen: tuple[int, int, int] | None = (
            None  # number, time and size of the file that is in memory
        )
        self._guard = RefreshLock(str(self._path), self._refresh)
        if self._path is not None and not self._path.absolute().parent.is_dir():
            raise Unavailable(
                f"cannot create {path!r}: the folder {str(self._path.absolute().parent)!r} does not exist"
            )
        with self.reading():
            pass

    @classmethod
    def open(cls, path: str) -> NetworkxStore:
        return cls(path)

    def close(self) -> None:
        self._guard.close()

    @property
    def graph(self) -> Any:
        """The networkx.MultiDiGraph itself, as it is now. To be read, not to be changed."""
        with self.reading():
            return self._graph

    def reading(self) -> AbstractContextManager[None]:
        """The outermost block looks what other processes wrote; inside it nothing changes."""
        return self._guard.reading()

    def _refresh(self) -> None:
        if self._path is None or not self._path.exists():
            return
        with translate_errors(str(self._path)):
            with self._path.open(
                "rb"
            ) as file:  # one file, opened once: it cannot be replaced between the two looks
                found = _stamp(file.fileno())
                if found == self._seen:
                    return
                data = file.read()
            self._graph = _graph(_edges(self._path, data))
            self._seen = found

    def apply(self, batch: Batch) -> None:
        with self._guard.exclusive():
            if self._path is None:
                self._graph = _changed(self._graph, batch)
                return
            with (
                translate_errors(str(self._path)),
                lock_file(self._path.with_name(f"{self._path.name}.lock")),
            ):
                self._refresh()
                changed = _changed(self._graph, batch)
                rows = [
                    codec.edge_to_dict(edge)
                    for edge in sorted(_all(changed), key=lambda one: one.key)
                ]
                write_atomic(self._path, codec.to_json({"format": FORMAT, "edges": rows}).encode())
                self._refresh()

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
                for edges in (self._graph.out_edges, self._graph.in_edges):
                    side = (
                        edge
                        for *_, edge in edges([key], data="edge")
                        if edge.space in spaces and edge.target_key[0] in spaces
                    )
                    whose = (
                        edge
                        for edge in side
                        if automatic is None or automatic == (edge.origin == AUTOMATIC)
                    )
                    wanted = (
                        edge
                        for edge in whose
                        if edge.weight >= min_weight and (not types or edge.type in types)
                    )
                    found.update(
                        {edge.key: edge for edge in heapq.nsmallest(limit, wanted, key=_heaviest)}
                    )
        return list(map(codec.given, sorted(found.values(), key=_heaviest)))

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        with self.reading():
            return [
                codec.given(self._graph.edges[key]["edge"])
                for key in keys
                if self._graph.has_edge(*key)
            ]

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
                for edge in _all(self._graph)
                if edge.space in spaces and (after is None or edge.key > after.key)
            )
            wanted = (
                edge
                for edge in owned
                if automatic is None or (edge.origin == AUTOMATIC) is automatic
            )
            return list(map(codec.given, heapq.nsmallest(limit, wanted, key=lambda edge: edge.key)))


def _all(graph: Any) -> Iterator[Edge]:
    return (edge for *_, edge in graph.edges(data="edge"))


def _graph(edges: Sequence[Edge]) -> Any:
    made = networkx.MultiDiGraph()
    for edge in edges:
        made.add_edge(*edge.key, edge=edge, weight=edge.weight)
    return made


def _changed(graph: Any, batch: Batch) -> Any:
    """A new graph with the batch done; the old one stays as it is, for whoever reads it."""
    links = {edge.key: edge for edge in _all(graph)}
    gone = set(batch.deleted)
    for key in [key for key in links if key[0] in gone or key[1] in gone] + list(
        batch.deleted_edges
    ):
        links.pop(key, None)
    for edge in batch.edges:
        links[edge.key] = codec.edge_from_dict(json.loads(codec.to_json(codec.edge_to_dict(edge))))
    return _graph(list(links.values()))


def _edges(path: Path, data: bytes) -> list[Edge]:
    try:
        row = json.loads(data)
        if row["format"] > FORMAT:
            raise Unavailable(
                f"{str(path)!r} was written by a newer knowloom (format {row['format']}, this one knows {FORMAT}): upgrade knowloom",
                "newer_version",
            )
        return [codec.edge_from_dict(one) for one in row["edges"]]
    except (ValueError, TypeError, LookupError) as error:
        raise Corrupt(
            f"{str(path)!r} is not a graph that knowloom wrote ({error}): restore it, or move it away and run reindex",
            "corrupt",
        ) from error


def _stamp(handle: int) -> tuple[int, int, int]:
    found = os.fstat(handle)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _heaviest(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)
