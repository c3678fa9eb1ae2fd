"""Passages in the SQLite file: slots, older files, other segmenters, damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import numpy as np
import pytest

import knowloom
from knowloom import Conflict
from knowloom.model import Item
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite import vector_search
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from knowloom.stores.sqlite.rows import RECORD
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.stores.sqlite.writing import segmentation
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    batch,
    directions,
    item,
    long_item,
    matches,
    unit,
)
from knowloom.text.passages import count_passages
from knowloom.vectors import pair_cosines
from sqlite_files import WITHOUT_SCHEMA_5, execute_sql

LONG, SHORT = ("acme", "long"), ("acme", "short")
ITEMS = [
    long_item("long", "zeta", "rho", "tau", type="faq", tags=("vip",)),
    item("prose", "kappa omega. " * 200, subject="anna"),
    item("short", "zeta refund"),
    item("bare", "", space="zoo"),
    long_item("long", "zeta", "psi", space="zoo"),
]


class TestFilesOfSchema1:
    def test_long_items_are_cut_and_short_ones_keep_their_vectors(self, path: str) -> None:
        build_schema_1(path)
        store = SqliteStore.open(path)
        assert store.verify() == [] and store.passage_size() == 800
        assert store.missing_vectors(["acme", "zoo"], 9) == [
            *[("acme", "long"), ("acme", "prose"), ("zoo", "long")]
        ]
        assert_like_new(store)
        assert store.score_vectors(unit(1, 0), [SHORT, LONG]) == {SHORT: 1.0}
        assert store.dirty_ids("acme") == ["long", "prose"]
        store.close()

    def test_short_items_are_not_rewritten(self, path: str) -> None:
        build_schema_1(path, [item("a", "zeta"), item("b", "x" * 1000)])
        before = dump(path)
        SqliteStore.open(path).close()
        after = dump(path)
        assert after["meta"] != before["meta"] and not after["nearest"]
        for table in ("item", "vector", "sign", "dirty"):
            assert after[table] == before[table]
        assert after["change_log"] == [(*row, "") for row in before["change_log"]]  # no author

    def test_opening_again_changes_nothing(self, path: str) -> None:
        build_schema_1(path)
        SqliteStore.open(path).close()
        before = dump(path)
        SqliteStore.open(path).close()
        assert dump(path) == before

    def test_an_interrupted_conversion_leaves_the_file_as_it_was(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build_schema_1(path)
        before = dump(path)
        monkeypatch.setattr(segmentation, "FLUSH_SLOTS", 1)
        monkeypatch.setattr(segmentation, "item_from_body", fail_at("prose"))
        with pytest.raises(RuntimeError):
            SqliteStore.open(path)
        assert dump(path) == before
        monkeypatch.undo()
        store = SqliteStore.open(path)
        assert store.verify() == []
        store.close()

    def test_embedding_makes_the_missing_vectors(self, path: str) -> None:
        build_schema_1(path)
        with knowloom.open(path, embedder=FlatEmbedder()) as kb:
            assert kb.maintenance.stats().without_vector == 3
            assert kb.maintenance.embed() == 3
            assert kb.maintenance.stats().without_vector == 0 and kb.verify() == []


class TestOtherSegmenters:
    def test_reads_and_writes_ask_for_a_reindex(self, path: str) -> None:
        store = open_other_segmenter(path)
        for call in (
            lambda: store.search_text("zeta", ACME, 5),
            lambda: store.search_text("zeta", ACME, 0, also=[LONG]),
            lambda: store.score_text_passages("zeta", ACME, [LONG]),
            lambda: store.search_vector(unit(1, 0), ACME, 5),
            lambda: store.score_vectors(unit(1, 0), [LONG]),
            lambda: store.score_vector_passages(unit(1, 0), [LONG]),
            lambda: store.put_vectors({SHORT: unit(1, 0)}, "e1"),
            lambda: store.apply(batch([item("short", "rho")])),
            lambda: store.apply(batch(deleted=[LONG])),
        ):
            with pytest.raises(Conflict, match=r"'passages-0'.*run reindex") as caught:
                call()
            assert caught.value.code == "reindex_required"
        assert [problem for problem in store.verify() if "passages-0" in problem]
        assert store.get([SHORT])[0].text == "zeta refund"
        store.close()

    @pytest.mark.parametrize("size", [800, 300, 2000])
    def test_cutting_anew_repairs_the_index(self, path: str, size: int) -> None:
        store = open_other_segmenter(path)
        store.resegment(size)
        assert store.verify() == [] and store.passage_size() == size
        assert SHORT not in store.missing_vectors(["acme"], 9)
        store.resegment(800)
        assert_like_new(store)
        store.close()

    def test_rebuilding_words_repairs_the_index(self, path: str) -> None:
        store = open_other_segmenter(path)
        store.rebuild_words(ITEMS)
        assert store.verify() == [] and store.passage_size() == 800
        assert_like_new(store)
        store.close()

    def test_rebuilding_some_words_cuts_all_items(self, path: str) -> None:
        store = open_other_segmenter(path)
        store.rebuild_words(ITEMS[2:3])
        assert matches(store.search_text("zeta psi", BOTH, 9)) == ["short"]
        store.apply(batch([long_item("long", "rho", "zeta")], deleted=[("acme", "prose")]))
        store.rebuild_words(store.find(BOTH, 9))
        assert store.verify() == []
        store.close()

    def test_an_engine_reindexes(self, path: str) -> None:
        open_other_segmenter(path).close()
        with knowloom.open(path, embedder=FlatEmbedder()) as kb:
            assert kb.verify() != []
            kb.reindex()
            assert kb.verify() == [] and kb.maintenance.stats().without_vector == 0


class TestSlots:
    def test_an_item_keeps_its_slots_while_the_number_of_passages_stays(
        self, sqlite: SqliteStore, path: str
    ) -> None:
        sqlite.apply(batch(ITEMS))
        before = rows_by_id(path)
        sqlite.apply(batch([long_item("long", "rho", "rho", "rho"), item("short", "tau")]))
        assert rows_by_id(path) == before
        sqlite.apply(batch([long_item("long", "rho", "rho")]))
        after = rows_by_id(path)
        moved = {key for key in before if before[key] != after[key]}
        assert moved == {LONG} and after[LONG] > max(before.values()) & 0xFFFFFFFF
        assert sqlite.verify() == []

    def test_flushing_often_gives_the_same_index(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(segmentation, "FLUSH_SLOTS", 2)
        store = SqliteStore.open(path)
        store.apply(batch(ITEMS))
        store.resegment(300)
        assert store.verify() == []
        store.rebuild_words(ITEMS)
        assert store.verify() == []
        store.resegment(800)
        assert_like_new(store)
        store.close()

    def test_candidates_are_widened_until_they_cover_enough_items(
        self, sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vector_search, "MIN_CANDIDATES", 4)
        monkeypatch.setattr(vector_search, "CANDIDATES_PER_HIT", 1)
        sqlite.apply(batch([long_item("many", *"a" * 60), *(item(f"{n}") for n in range(30))]))
        near = np.stack([unit(*[1.0] * 64)] * 60)
        far = {("acme", f"{n}"): vector for n, vector in enumerate(directions(30, 64))}
        sqlite.put_vectors({("acme", "many"): near, **far}, "e1")
        for limit in (1, 2, 5, 31):
            result = sqlite.search_vector(unit(*[1.0] * 64), ACME, limit)
            assert len(result.matches) == limit and matches(result)[0] == "many"

    def test_passages_that_all_say_the_same_are_compared_in_bounded_time(
        self, sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[int] = []
        original = pair_cosines._exact_cosines

        def count(vectors: Any, others: Any) -> Any:
            read.append(len(vectors))
            return original(vectors, others)

        monkeypatch.setattr(pair_cosines, "_exact_cosines", count)
        sqlite.apply(batch([long_item("a", *"x" * 300), long_item("b", *"x" * 300)]))
        sqlite.put_vectors({("acme", "a"): unit(1, 0), ("acme", "b"): unit(1, 0)}, "e1")
        assert sqlite.nearest_items("acme", ["a", "b"], 0.9).pairs == [("a", "b", 1.0)]
        assert 0 < sum(read) <= pair_cosines.MAX_PAIRS

    @pytest.mark.parametrize("limit", [1, 7])
    def test_the_nearest_of_many_passages_decides(
        self, sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch, limit: int
    ) -> None:
        monkeypatch.setattr(pair_cosines, "MAX_PAIRS", limit)
        monkeypatch.setattr(pair_cosines, "PASSAGE_BATCH", 4)
        sqlite.apply(batch([long_item("a", *"x" * 30), long_item("b", *"x" * 20)]))
        vectors = {
            ("acme", "a"): np.stack(directions(30, 16, seed=2)),
            ("acme", "b"): np.stack(directions(20, 16, seed=3)),
        }
        sqlite.put_vectors(vectors, "e1")
        ((_, _, cosine),) = sqlite.nearest_items("acme", ["a", "b"], 0.0).pairs
        exact = vectors["acme", "a"] @ vectors["acme", "b"].T
        assert cosine == pytest.approx(exact.max(), abs=1e-3)


class TestDamage:
    @pytest.mark.parametrize(
        ("field", "places", "value"),
        [
            ("continuation", [1], 0),  # an item has fewer slots than passages
            ("continuation", [0], 1),  # its first slot belongs to another one
            ("live", [2], 0),
            ("length", [2], 7),
            ("kind", [1], 3),  # a passage has other filter columns than its item
            ("vector", [1], 0),  # only some passages have a vector
            ("vector", [0, 1, 2], 0),
        ],
    )
    def test_verify_compares_records_with_passages(
        self, path: str, field: str, places: list[int], value: int
    ) -> None:
        store = SqliteStore.open(path)
        store.apply(batch(ITEMS[:3]))
        store.put_vectors({LONG: np.stack([unit(1, 0)] * 3)}, "e1")
        assert store.verify() == []
        change_records(path, field, places, value)
        assert store.verify() != []
        store.close()

    def test_verify_finds_slots_beyond_the_passages(self, path: str) -> None:
        store = SqliteStore.open(path)
        store.apply(batch([ITEMS[0], ITEMS[2]]))
        change_records(path, "continuation", [3], 1)
        assert any("'long'" in problem for problem in store.verify())
        store.close()

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_verify_finds_a_lost_vector_of_a_passage(self, path: str, place: int) -> None:
        store = SqliteStore.open(path)
        store.apply(batch(ITEMS[:3]))
        store.put_vectors({LONG: np.stack([unit(1, 0)] * 3)}, "e1")
        execute_sql(path, f"DELETE FROM vector WHERE row = (1 << 32) + {place}")
        assert store.verify() != []
        store.close()


class FlatEmbedder:
    """Returns the same vector for each text."""

    name, dimensions, fingerprint = "flat", 2, "e1"
    is_calibrated = True

    def embed(self, texts: list[str]) -> list[Any]:
        return [unit(1, 0) for _ in texts]


def build_schema_1(path: str, items: list[Item] = ITEMS) -> None:
    """Write a file as the first schema has it: each item is one passage with one vector."""
    store = SqliteStore.open(path)
    store.resegment(segmentation.UNCUT)
    store.apply(batch(items))
    store.put_vectors({item.key: unit(1, 0) for item in items}, "e1")
    store.close()
    delete = ("DELETE FROM meta WHERE key = 'segmenter'", "DELETE FROM dirty", "DROP TABLE nearest")
    execute_sql(path, *WITHOUT_SCHEMA_5, *delete, "PRAGMA user_version=1")


def open_other_segmenter(path: str) -> SqliteStore:
    """Open a file whose items another segmenter cut into more passages."""
    store = SqliteStore.open(path)
    store.resegment(250)
    store.apply(batch(ITEMS))
    assert any(count_passages(item.text, 250) != count_passages(item.text) for item in ITEMS)
    store.put_vectors({item.key: unit(1, 0) for item in ITEMS}, "e1")
    store.close()
    execute_sql(path, "UPDATE meta SET value = 'passages-0:800' WHERE key = 'segmenter'")
    return SqliteStore.open(path)


def assert_like_new(store: SqliteStore) -> None:
    """Compare the words with those of a store that was always in the current format."""
    reference = MemoryStore()
    reference.apply(batch(ITEMS))
    assert store.verify() == []
    for word in ("zeta", "kappa omega", "tau refund"):
        keys = [item.key for item in ITEMS]
        actual, expected = (
            (other.search_text(word, BOTH, 9), other.score_text_passages(word, BOTH, keys))
            for other in (store, reference)
        )
        assert actual == expected


def fail_at(id: str) -> Callable[[str, str], Item]:
    def read(body: str, space: str) -> Item:
        if f'"{id}"' in body:
            raise RuntimeError("interrupted")
        return original(body, space)

    original = segmentation.item_from_body
    return read


def dump(path: str) -> dict[str, list[Any]]:
    connection = apsw.Connection(path, vfs=register_vfs())
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ]
    content = {
        name: list(connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2")) for name in tables
    }
    connection.close()
    return content


def rows_by_id(path: str) -> dict[tuple[str, str], int]:
    connection = apsw.Connection(path, vfs=register_vfs())
    query = "SELECT name, id, row FROM item JOIN space ON no = item.space"
    rows = {(name, id): row for name, id, row in connection.execute(query)}
    connection.close()
    return rows


def change_records(path: str, field: str, places: list[int], value: int) -> None:
    connection = apsw.Connection(path, vfs=register_vfs())
    ((data,),) = connection.execute("SELECT data FROM item_meta WHERE space = 1 AND chunk = 0")
    records = np.frombuffer(data, RECORD).copy()
    records[field][places] = value
    connection.execute("UPDATE item_meta SET data = ? WHERE space = 1", (records.tobytes(),))
    connection.close()
