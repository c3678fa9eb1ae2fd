"""Words and vectors in LanceDB tables: a folder, or a path of an object store.

Nothing is scored by LanceDB's full-text search, which has statistics of its own: postings are rows
of a table with impact classes, and their bounds are added up here. Vectors are compared one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from threading import RLock
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import BTree

from knowloom.errors import Corrupt, Invalid, Unavailable, hide_secrets
from knowloom.model import Filter, Key
from knowloom.ports import Candidates, IndexEntry, Vector
from knowloom.text.impact_classes import ItemTerms, classify_terms, widen_bound
from knowloom.text.posting_bounds import Postings, choose_entries, list_rows, score_entries
from knowloom.text.query_terms import weigh_terms
from knowloom.text.words import ANALYSER, count_passage_terms

FORMAT = 1
ENTRIES, POSTINGS, VECTORS = "knowloom_entry", "knowloom_posting", "knowloom_vector"
ALL = 1_000_000_000  # rows; a search without a limit returns ten
OPTIMIZE_AFTER = 50  # writes: each adds fragments, which slow down reading
KEEP_VERSIONS = timedelta(hours=1)  # for readers of other processes
_META = {"knowloom": json.dumps({"format": FORMAT, "analyser": ANALYSER})}
_ENTRY = pa.schema(
    [
        pa.field("number", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("space", "id", "version", "kind", "type")),
        *(pa.field(name, pa.int64()) for name in ("passages", "length")),
    ],
    metadata=_META,
)
_POSTING = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("row", pa.int64()),
        pa.field("token", pa.string()),
        pa.field("class", pa.string()),
    ],
    metadata=_META,
)


class LanceLayer:
    """A TextLayer and VectorLayer. Writers of several processes must take turns."""

    ROLES = ("words", "vectors")

    def __init__(self, path: str) -> None:
        self._name, self._lock = f"lancedb:{hide_secrets(path)}", RLock()
        self._database: Any = None
        self._tables: dict[str, Any] = {}
        self._writes = 0
        with self._translate():
            database = lancedb.connect(path)
            self._open_tables(database)
        self._database = database

    @classmethod
    def open(cls, path: str) -> LanceLayer:
        if not path or "\0" in path:
            raise Invalid(f"lancedb: must name a folder, such as lancedb:index, got {path!r}")
        if "://" not in path and not Path(path).absolute().parent.is_dir():
            raise Unavailable(f"{path!r} cannot be opened: its folder does not exist", "no_folder")
        return cls(path)

    def _open_tables(self, database: Any) -> None:
        """Open or create the tables; refuse a database that has only others."""
        names = set(database.list_tables(limit=1000).tables)
        if names and ENTRIES not in names:
            raise Corrupt(f"{self._name} has tables of another program", "foreign_file")
        for name, schema in ((POSTINGS, _POSTING), (ENTRIES, _ENTRY)):
            if name not in names:
                database.create_table(name, schema=schema)
        for name in (ENTRIES, POSTINGS, *({VECTORS} & names)):
            self._tables[name] = database.open_table(name)
            self._check(self._tables[name])

    def _check(self, table: Any) -> None:
        meta = json.loads((table.schema.metadata or {}).get(b"knowloom", b"{}"))
        if not isinstance(meta.get("format"), int):
            raise Corrupt(f"{self._name} has tables of another program", "foreign_file")
        if meta["format"] > FORMAT or meta.get("analyser") != ANALYSER:
            message = f"{self._name} was written by another version of knowloom: delete it"
            raise Unavailable(message, "newer_version")

    @contextmanager
    def _translate(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise Unavailable(f"{self._name}: {reason}") from None

    @contextmanager
    def _use(self) -> Iterator[dict[str, Any]]:
        with self._lock, self._translate():
            if self._database is None:
                raise Unavailable(f"{self._name} was closed", "closed")
            for table in self._tables.values():
                table.checkout_latest()
            yield self._tables

    # writing

    def put(self, entries: Sequence[IndexEntry]) -> None:
        with self._use() as tables:
            self._prepare_vectors(entries)
            self._remove([entry.item.key for entry in entries])
            if not entries:
                return
            numbered = dict(enumerate(entries, self._next_number()))
            if VECTORS in tables and (rows := _vector_rows(numbered, tables[VECTORS].schema)):
                tables[VECTORS].add(rows)
            terms = {
                number: classify_terms(count_passage_terms(entry.item, entry.passage_size))
                for number, entry in numbered.items()
            }
            tables[POSTINGS].add(_posting_rows(numbered, terms))
            tables[ENTRIES].add(_entry_rows(numbered, terms))  # last: postings alone are not read
            self._optimize()

    def remove(self, keys: Sequence[Key]) -> None:
        with self._use():
            self._remove(keys)

    def _remove(self, keys: Sequence[Key]) -> None:
        """Delete entries first: postings without one are never read again."""
        spaces: dict[str, list[str]] = {}
        for space, id in keys:
            spaces.setdefault(space, []).append(id)
        numbers: list[int] = []
        for space, ids in spaces.items():
            where = f"space = {_quote(space)} AND id IN ({_list(ids)})"
            numbers += self._read(ENTRIES, where, ["number"])["number"].to_pylist()
        if numbers:
            where = f"number IN ({', '.join(map(str, numbers))})"
            for name in (ENTRIES, POSTINGS, VECTORS):
                if name in self._tables:
                    self._tables[name].delete(where)

    def _prepare_vectors(self, entries: Sequence[IndexEntry]) -> None:
        """Create the table of the vectors; replace that of another embedder."""
        models = {
            (entry.fingerprint, entry.vectors.shape[1])
            for entry in entries
            if entry.vectors is not None
        }
        if len(models) > 1:
            raise Invalid(f"entries must have vectors of one embedder, got {sorted(models)}")
        if not models:
            return
        ((fingerprint, dimensions),) = models
        metadata = {**_META, "fingerprint": fingerprint, "dimensions": str(dimensions)}
        stored = self._tables[VECTORS].schema.metadata if VECTORS in self._tables else {}
        if stored.get(b"fingerprint") == fingerprint.encode() and self._dimensions() == dimensions:
            return
        schema = pa.schema(
            [
                pa.field("number", pa.int64()),
                *(pa.field(name, pa.string()) for name in ("space", "id", "kind", "type")),
                pa.field("vector", pa.list_(pa.float32(), dimensions)),
            ],
            metadata=metadata,
        )
        self._tables[VECTORS] = self._database.create_table(
            VECTORS, schema=schema, mode="overwrite"
        )

    def _next_number(self) -> int:
        column = self._read(ENTRIES, None, ["number"])["number"]
        return 1 + max(column.to_numpy(), default=0)

    def _optimize(self) -> None:
        self._writes += 1
        if self._writes % OPTIMIZE_AFTER == 0:
            self._tables[POSTINGS].create_index("token", config=BTree(), replace=True)
            for table in self._tables.values():
                table.optimize(cleanup_older_than=KEEP_VERSIONS)

    # reading

    def _read(self, table: str, where: str | None, columns: Sequence[str]) -> Any:
        query = self._tables[table].search().select(list(columns)).limit(ALL)
        return (query.where(where) if where else query).to_arrow()

    def _dimensions(self) -> int:
        if VECTORS not in self._tables:
            return 0
        return int(self._tables[VECTORS].schema.field("vector").type.list_size)

    def indexed_spaces(self) -> list[str]:
        with self._use():
            return sorted(set(self._read(ENTRIES, None, ["space"])["space"].to_pylist()))

    def versions(self, space: str, after: str, limit: int) -> list[tuple[str, str]]:
        where = f"space = {_quote(space)} AND id > {_quote(after)}"
        with self._use():
            rows = self._read(ENTRIES, where, ["id", "version"])
        pairs = zip(rows["id"].to_pylist(), rows["version"].to_pylist(), strict=True)
        return sorted(pairs)[:limit]

    def match_text(self, text: str, only: Filter, limit: int) -> Candidates:
        with self._use():
            terms = weigh_terms(text)
            if not terms or not only.spaces:
                return Candidates()
            columns = ["number", "space", "id", "passages", "length"]
            rows = self._read(ENTRIES, f"space IN ({_list(only.spaces)})", columns)
            passages, length = (int(np.sum(rows[name].to_numpy())) for name in columns[3:])
            numbers = rows["number"].to_numpy()

            def read(family: str, names: Sequence[str], bounds: Mapping[str, float]) -> Postings:
                return self._read_postings(only.spaces, family, names, bounds, numbers)

            scores = score_entries(terms, rows.num_rows, passages, length, read)
            chosen, bound = choose_entries(*scores, limit)
            keys = dict(
                zip(
                    numbers.tolist(),
                    zip(rows["space"].to_pylist(), rows["id"].to_pylist(), strict=True),
                    strict=True,
                )
            )
            return Candidates(tuple(keys[number] for number in chosen), bound, len(scores[0]))

    def _read_postings(
        self,
        spaces: Sequence[str],
        family: str,
        names: Sequence[str],
        bounds: Mapping[str, float],
        numbers: Any,
    ) -> Postings:
        """Return the rows of terms; those of entries that are being written or deleted are not."""
        tokens = {_token(family, space, name): name for space in spaces for name in names}
        columns = ["token", "row", "class", "number"]
        table = self._read(POSTINGS, f"token IN ({_list(list(tokens))})", columns)
        table = table.filter(pa.compute.is_in(table["number"], pa.array(numbers)))
        terms = np.array([tokens[token] for token in table["token"].to_pylist()], object)
        impacts = np.array([bounds[name] for name in table["class"].to_pylist()], np.float64)
        rows = table["row"].to_numpy()
        return {name: (rows[terms == name], impacts[terms == name]) for name in names}

    def match_vector(self, vector: Vector, only: Filter, limit: int) -> Candidates:
        """Compare the vectors of the spaces one by one: nothing is missed."""
        with self._use() as tables:
            dimensions = self._dimensions()
            if not dimensions or not only.spaces:
                return Candidates()
            if len(vector) != dimensions:
                rule = f"{dimensions} dimensions, as the stored ones"
                raise Invalid(f"a vector must have {rule}, got {len(vector)}")
            where = _encode_filter(only)
            counted = self._read(VECTORS, where, ["number"])
            size = min(counted.num_rows, 4 * limit + 1)
            if not size:
                return Candidates()
            search = tables[VECTORS].search(vector, vector_column_name="vector")
            search = search.distance_type("dot").where(where, prefilter=True).limit(size)
            columns = ["space", "id", "_distance"]
            rows = search.bypass_vector_index().select(columns).to_arrow()
        considered = len(set(counted["number"].to_pylist()))
        pairs = zip(rows["space"].to_pylist(), rows["id"].to_pylist(), strict=True)
        keys = tuple(dict.fromkeys(pairs))
        if rows.num_rows >= counted.num_rows:
            return Candidates(keys, 0.0, considered)
        nearest = 1 - max(rows["_distance"].to_pylist())
        return Candidates(keys, widen_bound(max(0.0, nearest)), considered)

    def reading(self) -> AbstractContextManager[object]:
        with self._use():
            return nullcontext()

    def close(self) -> None:
        with self._lock:
            self._database, self._tables = None, {}


def _build(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _entry_rows(entries: Mapping[int, IndexEntry], terms: Mapping[int, ItemTerms]) -> pa.Table:
    rows = [
        (
            *(number, entry.item.space, entry.item.id, entry.version),
            *(entry.item.kind.value, entry.item.type),
            *(len(terms[number].passages), terms[number].length),
        )
        for number, entry in entries.items()
    ]
    return _build(_ENTRY, rows)


def _posting_rows(entries: Mapping[int, IndexEntry], terms: Mapping[int, ItemTerms]) -> pa.Table:
    rows = [
        (number, row, _token(family, entry.item.space, term), name)
        for number, entry in entries.items()
        for row, family, classes in list_rows(number, terms[number])
        for term, name in classes.items()
    ]
    return _build(_POSTING, rows)


def _vector_rows(entries: Mapping[int, IndexEntry], schema: pa.Schema) -> pa.Table | None:
    rows = [
        (number, entry.item.space, entry.item.id, entry.item.kind.value, entry.item.type, vector)
        for number, entry in entries.items()
        if entry.vectors is not None
        for vector in entry.vectors.tolist()
    ]
    return _build(schema, rows) if rows else None


def _token(family: str, space: str, term: str) -> str:
    return json.dumps([family, space, term])


def _encode_filter(only: Filter) -> str:
    """Return the parts of a filter that the table can apply; the truth applies the others."""
    clauses = [f"space IN ({_list(only.spaces)})"]
    if only.kinds:
        clauses.append(f"kind IN ({_list([kind.value for kind in only.kinds])})")
    if only.types:
        clauses.append(f"type IN ({_list(only.types)})")
    return " AND ".join(clauses)


def _list(values: Sequence[str]) -> str:
    return ", ".join(map(_quote, values))


def _quote(text: str) -> str:
    """Return a string literal of SQL: only the quote has a meaning in it."""
    return "'" + text.replace("'", "''") + "'"
