"""Files whose text index an older analyser built: they are indexed anew when they are opened."""

from __future__ import annotations

import apsw
import pytest

import knowloom
from knowloom import Item
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.stores.sqlite.writing import segmentation
from knowloom.testing.knowledge import BOTH, batch, item, long_item, matches, unit
from knowloom.text import words
from sqlite_files import WITHOUT_SCHEMA_5, execute_sql

ITEMS = [
    item("it", "The budget of IT", tags=("vip",)),
    item("cafe", "café crème", type="place"),
    item("name", "ignoreHTTPErrors of parseURLs"),
    long_item("long", "zeta", "rho", "tau", space="zoo"),
    *(item(f"{number}", f"parcel {number}") for number in range(30)),
]
QUERIES = [
    "IT",
    "http errors",
    "parse",
    "cafe",
    "Café creme",
    "zeta tau",
    "budget of IT",
    "to be",
    "parcel 7",
]


def build_schema_3(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file without the most frequent words, with accents, and with names as one word."""
    with monkeypatch.context() as patch:
        patch.setattr(words, "has_camel_case", lambda text: False)
        patch.setattr(words, "extract_all_terms", words.extract_terms)
        patch.setattr(words, "strip_accents", lambda text: text)
        store = SqliteStore.open(path)
        store.apply(batch(ITEMS))
        store.put_vectors({item.key: unit(1, 0) for item in ITEMS}, "e1")
        store.close()
    execute_sql(
        path,
        *WITHOUT_SCHEMA_5,
        "UPDATE meta SET value = 'english-1' WHERE key = 'analyser'",
        "PRAGMA user_version=3",
    )


def read_index(path: str) -> list[object]:
    connection = apsw.Connection(path, vfs=register_vfs())
    rows = [
        row
        for table in ("delta", "posting", "meta")
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")
    ]
    connection.close()
    return rows


def test_the_parts_of_names_are_found_in_a_file_without_them(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(words, "has_camel_case", lambda text: False)
        store = SqliteStore.open(path)
        store.apply(batch(ITEMS))
        assert matches(store.search_text("http errors", BOTH, 9)) == []
        store.close()
    execute_sql(
        path,
        "UPDATE meta SET value = 'english-2' WHERE key = 'analyser'",
        "PRAGMA user_version=5",
    )
    store = SqliteStore.open(path)
    assert matches(store.search_text("http errors", BOTH, 9)) == ["name"] and store.verify() == []
    store.close()


@pytest.mark.parametrize("merged", [False, True])
def test_an_older_file_is_searched_like_a_new_one(
    path: str, monkeypatch: pytest.MonkeyPatch, merged: bool
) -> None:
    if merged:
        monkeypatch.setattr("knowloom.stores.sqlite.postings.DELTA_LIMIT", 2)
    build_schema_3(path, monkeypatch)
    store, reference = SqliteStore.open(path), MemoryStore()
    reference.apply(batch(ITEMS))
    keys = [item.key for item in ITEMS]
    for query in QUERIES:
        assert store.search_text(query, BOTH, 99) == reference.search_text(query, BOTH, 99)
        assert store.score_text_passages(query, BOTH, keys) == reference.score_text_passages(
            query, BOTH, keys
        )
    assert matches(store.search_text("IT", BOTH, 9)) == ["it"]
    assert store.verify() == []
    store.close()


def test_only_the_text_index_changes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build_schema_3(path, monkeypatch)
    store, reference = SqliteStore.open(path), MemoryStore()
    reference.apply(batch(ITEMS))
    assert [info.digest for info in store.spaces()] == [info.digest for info in reference.spaces()]
    assert store.get([item.key for item in ITEMS]) == ITEMS
    assert (store.count_missing(["acme", "zoo"]), store.fingerprint()) == (0, "e1")
    assert matches(store.search_vector(unit(1, 0), BOTH, 2)) == ["0", "1"]
    store.apply(batch([item("new", "The café")], deleted=[("acme", "cafe")]))
    assert matches(store.search_text("cafe", BOTH, 9)) == ["new"] and store.verify() == []
    store.close()


def test_an_interrupted_conversion_leaves_the_file_as_it_was(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_schema_3(path, monkeypatch)
    before = read_index(path)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(segmentation, "item_from_body", interrupt)
        SqliteStore.open(path).spaces()
    assert read_index(path) == before
    store = SqliteStore.open(path)
    assert matches(store.search_text("cafe", BOTH, 9)) == ["cafe"] and store.verify() == []
    store.close()


def interrupt(body: str, space: str) -> Item:
    raise RuntimeError("interrupted")


def test_an_engine_answers_from_an_older_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build_schema_3(path, monkeypatch)
    with knowloom.open(path, embedder=None, links=[]) as kb:
        hits = kb.search("who pays for IT", spaces=["acme"])
        assert [hit.item.id for hit in hits] == ["it"]
        assert "café" in kb.context("cafe", spaces=["acme"]).text
