"""Edges in a networkx graph with a JSON file behind it, for programs that run graph algorithms."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import networkx

from knowloom import codec
from knowloom.errors import Corrupt, Unavailable
from knowloom.files import RefreshLock, lock_file, translate_errors, write_atomic
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Key
from knowloom.ports import Batch

FORMAT = 2


class NetworkxStore:
    """A MultiDiGraph with nodes (space, id), edge types as keys and the Edge as attribute "edge".

    Each write replaces the file atomically. Without a path the graph is only in memory.
    """

    ROLES = ("graph",)

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._graph: Any = networkx.MultiDiGraph()
        # Inode, modification time and size of the file in memory.
        self._stamp: tuple[int, int, int] | None = None
        self._guard = RefreshLock(str(self._path), self._refresh)
        if self._path is not None:
            folder = self._path.absolute().parent
            if not folder.is_dir():
                raise Unavailable(
                    f"cannot create {path!r}: the folder {str(folder)!r} does not exist",
                    "no_folder",
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
        """The current networkx.MultiDiGraph, which must not be changed."""
        with self.reading():
            return self._graph

    def reading(self) -> AbstractContextManager[None]:
        """Load what other processes wrote; inside the outermost block nothing changes."""
        return self._guard.reading()

    def _refresh(self) -> None:
        if self._path is None:
            return
        if not self._path.exists():
            if self._stamp is not None:  # the file of this graph has been removed
                raise Unavailable(
                    f"{str(self._path)!r} no longer exists: restore it, or open the knowledge "
                    "again and run reindex"
                )
            return
        with translate_errors(str(self._path)):
            # Opened once: another process may replace the file between two opens.
            with self._path.open("rb") as file:
                stamp = _read_stamp(file.fileno())
                if stamp == self._stamp:
                    return
                data = file.read()
            self._graph = _build_graph(_decode_edges(self._path, data))
            self._stamp = stamp

    def apply(self, batch: Batch) -> None:
        with self._guard.exclusive():
            if self._path is None:
                self._graph = _apply_batch(self._graph, batch)
                return
            lock = self._path.with_name(f"{self._path.name}.lock")
            with translate_errors(str(self._path)), lock_file(lock):
                self._refresh()
                changed = _apply_batch(self._graph, batch)
                edges = sorted(_all_edges(changed), key=lambda edge: edge.key)
                rows = [codec.edge_to_dict(edge) for edge in edges]
                text = codec.to_json({"format": FORMAT, "edges": rows})
                write_atomic(self._path, text.encode())
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
        result: dict[EdgeKey, Edge] = {}
        with self.reading():
            for key in dict.fromkeys(keys):
                for edges in (self._graph.out_edges, self._graph.in_edges):
                    selected = (
                        edge
                        for *_, edge in edges([key], data="edge")
                        if edge.space in spaces
                        and edge.target_key[0] in spaces
                        and edge.weight >= min_weight
                        and (not types or edge.type in types)
                        and _has_origin(edge, automatic)
                    )
                    heaviest = heapq.nsmallest(limit, selected, key=_heaviest_first)
                    result.update({edge.key: edge for edge in heaviest})
        return list(map(codec.copy_value, sorted(result.values(), key=_heaviest_first)))

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        with self.reading():
            stored = (key for key in keys if self._graph.has_edge(*key))
            return [codec.copy_value(self._graph.edges[key]["edge"]) for key in stored]

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
                for edge in _all_edges(self._graph)
                if edge.space in spaces
                and (after is None or edge.key > after.key)
                and _has_origin(edge, automatic)
            )
            page = heapq.nsmallest(limit, selected, key=lambda edge: edge.key)
            return list(map(codec.copy_value, page))


def _all_edges(graph: Any) -> Iterator[Edge]:
    return (edge for *_, edge in graph.edges(data="edge"))


def _build_graph(edges: Iterable[Edge]) -> Any:
    graph = networkx.MultiDiGraph()
    for edge in edges:
        graph.add_edge(*edge.key, edge=edge, weight=edge.weight)
    return graph


def _apply_batch(graph: Any, batch: Batch) -> Any:
    """Return a new graph with the batch applied; readers may still use the old one."""
    edges = {edge.key: edge for edge in _all_edges(graph)}
    deleted = set(batch.deleted)
    incident = [key for key in edges if key[0] in deleted or key[1] in deleted]
    for key in (*incident, *batch.deleted_edges):
        edges.pop(key, None)
    for edge in batch.edges:
        row = json.loads(codec.to_json(codec.edge_to_dict(edge)))
        edges[edge.key] = codec.edge_from_dict(row)
    return _build_graph(edges.values())


def _decode_edges(path: Path, data: bytes) -> list[Edge]:
    try:
        row = json.loads(data)
        version = row["format"]
        if version > FORMAT:
            raise Unavailable(
                f"{str(path)!r} was written by a newer knowloom (format {version}, "
                f"this one supports {FORMAT}): upgrade knowloom",
                "newer_version",
            )
        if version < FORMAT:
            raise Corrupt(
                f"{str(path)!r} was written by a pre-release version with another file format; "
                "export it with that version and load it again",
                "foreign_file",
            )
        return [codec.edge_from_dict(edge) for edge in row["edges"]]
    except (ValueError, TypeError, LookupError) as error:
        raise Corrupt(
            f"{str(path)!r} is not a graph that knowloom wrote ({error}): "
            "restore it, or move it away and run reindex",
            "corrupt",
        ) from error


def _has_origin(edge: Edge, automatic: bool | None) -> bool:
    return automatic is None or automatic == (edge.origin == AUTOMATIC)


def _read_stamp(handle: int) -> tuple[int, int, int]:
    status = os.fstat(handle)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _heaviest_first(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)
