"""The Neo4j store: edges as relationships between nodes with a label of knowloom's own.

Labels and types are constants, and all values are parameters: no text of a user is Cypher. A
relationship has the edge as JSON, and the fields that statements compare. Texts that order edges
are stored in hexadecimal, as Neo4j compares UTF-16 and knowloom compares code points.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt, Unavailable
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Key
from knowloom.ports import Batch
from knowloom.stores.neo4j.bolt import BoltClient, Statement
from knowloom.stores.neo4j.graph_address import parse_graph_address

FORMAT = 1
PAGE = 1000  # edges of one statement
MAX_KEY = 7000  # characters of a key; an index of Neo4j has at most 8,167 bytes
_DEFINITIONS = (
    "CREATE CONSTRAINT knowloom_item IF NOT EXISTS FOR (n:KnowloomItem) REQUIRE n.key IS UNIQUE",
    "CREATE CONSTRAINT knowloom_edge IF NOT EXISTS "
    "FOR ()-[r:KNOWLOOM_EDGE]-() REQUIRE r.key IS UNIQUE",
)
_MARKER = """
OPTIONAL MATCH (marker:KnowloomGraph)
RETURN marker.format, EXISTS { (:KnowloomItem) }
"""
_SELECTED = """
WHERE r.space IN $spaces AND r.target_space IN $spaces AND r.weight >= $min_weight
AND (size($types) = 0 OR r.type IN $types)
AND ($automatic IS NULL OR r.automatic = $automatic)
RETURN r.row AS row ORDER BY r.weight DESC, r.tie LIMIT $limit
"""
_EDGES_OF = f"""
UNWIND $keys AS key
MATCH (n:KnowloomItem {{key: key}})
CALL {{
  WITH n MATCH (n)-[r:KNOWLOOM_EDGE]->() {_SELECTED}
  UNION
  WITH n MATCH (n)<-[r:KNOWLOOM_EDGE]-() {_SELECTED}
}}
RETURN DISTINCT row
"""
_GET = "UNWIND $keys AS key MATCH ()-[r:KNOWLOOM_EDGE {key: key}]->() RETURN r.key, r.row"
_SCAN = """
MATCH ()-[r:KNOWLOOM_EDGE]->()
WHERE r.key > $after AND r.key < $end AND ($automatic IS NULL OR r.automatic = $automatic)
RETURN r.row ORDER BY r.key LIMIT $limit
"""
_DELETE_AT = """
UNWIND $keys AS key
MATCH (n:KnowloomItem {key: key})-[r:KNOWLOOM_EDGE]-()
DELETE r
"""
_DELETE_NODES = """
UNWIND $keys AS key
MATCH (n:KnowloomItem {key: key}) WHERE NOT EXISTS { (n)--() }
DELETE n
"""
_DELETE = "UNWIND $keys AS key MATCH ()-[r:KNOWLOOM_EDGE {key: key}]->() DELETE r"
_PUT_NODES = "UNWIND $keys AS key MERGE (n:KnowloomItem {key: key})"
_PUT = """
UNWIND $rows AS row
MATCH (s:KnowloomItem {key: row.source}), (t:KnowloomItem {key: row.target})
MERGE (s)-[r:KNOWLOOM_EDGE {key: row.fields.key}]->(t)
SET r = row.fields
"""


class Neo4jStore:
    """Edges of all spaces in one database; other nodes and relationships are never touched."""

    ROLES = ("graph",)
    SCHEME = "neo4j"

    def __init__(self, client: BoltClient) -> None:
        self._client = client
        self._prepare()

    @classmethod
    def open(cls, url: str) -> Neo4jStore:
        client = BoltClient(parse_graph_address(f"{cls.SCHEME}://{url}"))
        try:
            return cls(client)
        except BaseException:
            client.close()
            raise

    def _prepare(self) -> None:
        name = self._client.address.name
        ((stored, is_used),) = self._client.read(_MARKER)[:1]
        if stored is None and is_used:
            raise Corrupt(
                f"{name} has nodes KnowloomItem that knowloom did not write: use another database",
                "foreign_file",
            )
        if stored is not None and (type(stored) is not int or stored > FORMAT):
            raise Unavailable(
                f"{name} was written by a newer knowloom (format {stored!r}, this one supports "
                f"{FORMAT}): upgrade knowloom",
                "newer_version",
            )
        if stored is None:
            for definition in _DEFINITIONS:
                self._client.define(definition)
            self._client.write(
                [("MERGE (m:KnowloomGraph) SET m.format = $format", {"format": FORMAT})]
            )

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise Unavailable if the store is closed; each call reads a state of its own."""
        self._client.require_open()
        yield

    # writing

    def apply(self, batch: Batch) -> None:
        self._client.require_open()
        edges = {encode_edge_key(edge.key): edge for edge in batch.edges}
        rows = [_encode_edge(key, edges[key]) for key in sorted(edges)]
        ends = {encode_key(end) for e in batch.edges for end in (e.source_key, e.target_key)}
        deleted = sorted(map(encode_key, batch.deleted))
        parts: list[tuple[str, str, list[Any]]] = [
            (_DELETE_AT, "keys", deleted),
            (_DELETE_NODES, "keys", deleted),
            (_DELETE, "keys", sorted(map(encode_edge_key, batch.deleted_edges))),
            (_PUT_NODES, "keys", sorted(ends)),
            (_PUT, "rows", rows),
        ]
        statements: list[Statement] = [
            (text, {name: values[start : start + PAGE]})
            for text, name, values in parts
            for start in range(0, len(values), PAGE)
        ]
        if statements:
            self._client.write(statements)

    # reading

    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        automatic: bool | None = None,
    ) -> list[Edge]:
        self._client.require_open()
        if not keys or not spaces or limit < 1:
            return []
        rows = self._client.read(
            _EDGES_OF,
            keys=[encode_key(key) for key in dict.fromkeys(keys)],
            spaces=list(spaces),
            types=list(types),
            limit=limit,
            min_weight=float(min_weight),
            automatic=automatic,
        )
        return sorted((_decode_edge(row) for (row,) in rows), key=_heaviest_first)

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        self._client.require_open()
        names = [encode_edge_key(key) for key in keys]
        rows = self._client.read(_GET, keys=list(dict.fromkeys(names))) if names else []
        stored = {key: row for key, row in rows}
        return [_decode_edge(stored[name]) for name in names if name in stored]

    def edges(
        self,
        spaces: Sequence[str],
        limit: int,
        after: Edge | None = None,
        automatic: bool | None = None,
    ) -> list[Edge]:
        self._client.require_open()
        start = "" if after is None else encode_edge_key(after.key)
        edges: list[Edge] = []
        for space in sorted(set(spaces)):
            first = f"{encode_text(space)} "
            end = f"{encode_text(space)}!"
            if limit <= len(edges) or end <= start:
                continue
            rows = self._client.read(
                _SCAN,
                after=max(first, start),
                end=end,
                limit=limit - len(edges),
                automatic=automatic,
            )
            edges += [_decode_edge(row) for (row,) in rows]
        return edges


class BoltStore(Neo4jStore):
    """The same with one server instead of the routing of a cluster."""

    SCHEME = "bolt"


def encode_text(text: str) -> str:
    """Return a text that orders like the code points of this one, in ASCII."""
    return text.encode().hex()


def encode_key(key: Key) -> str:
    return _shorten(f"{encode_text(key[0])} {encode_text(key[1])}")


def encode_edge_key(key: EdgeKey) -> str:
    """Return the key of an edge as a text that orders as the key does."""
    (space, source), (target_space, target), type = key
    parts = (space, source, target_space, target, type)
    return _shorten(" ".join(map(encode_text, parts)))


def _shorten(key: str) -> str:
    """Return a key that an index can have: the end of a very long one becomes a hash."""
    if len(key) <= MAX_KEY:
        return key
    return f"{key[:MAX_KEY]}~{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"


def _encode_edge(key: str, edge: Edge) -> Mapping[str, object]:
    ends = (edge.source, edge.target, edge.type, edge.space, edge.target_key[0])
    fields = {
        "key": key,
        "tie": " ".join(map(encode_text, ends)),
        "space": edge.space,
        "target_space": edge.target_key[0],
        "type": edge.type,
        "weight": float(edge.weight),
        "automatic": edge.origin == AUTOMATIC,
        "row": codec.to_json(codec.edge_to_dict(edge)),
    }
    target = encode_key(edge.target_key)
    return {"source": encode_key(edge.source_key), "target": target, "fields": fields}


def _decode_edge(row: str) -> Edge:
    try:
        return codec.edge_from_dict(json.loads(row))
    except (ValueError, TypeError) as error:
        raise Corrupt(
            f"an edge in Neo4j is not what knowloom wrote ({error}): run reindex"
        ) from error


def _heaviest_first(edge: Edge) -> tuple[float, str, str, str, Key, Key]:
    return (-edge.weight, edge.source, edge.target, edge.type, edge.source_key, edge.target_key)
