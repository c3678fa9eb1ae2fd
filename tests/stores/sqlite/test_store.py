"""Snapshots and caches of the SQLite store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite import space_view
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.graph import link
from knowloom.testing.knowledge import ACME, NOW, batch, edge, item, matches


def test_a_reading_block_sees_one_state_of_the_store(sqlite: SqliteStore) -> None:
    link(sqlite, edge("a", "b"))
    with sqlite.reading():
        before = (
            sqlite.find(ACME, 10),
            sqlite.spaces(),
            sqlite.search_text("refund", ACME, 10),
            sqlite.edges(["acme"], 10),
        )
        sqlite.apply(batch([item("a", "refund"), item("c", "refund")], deleted=[("acme", "b")]))
        assert (
            sqlite.find(ACME, 10),
            sqlite.spaces(),
            sqlite.search_text("refund", ACME, 10),
            sqlite.edges(["acme"], 10),
        ) == before
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a", "c"]


def test_an_interrupted_refresh_starts_over(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    for step in ("_load_records", "_load_signs", "_load_delta"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(space_view.SpaceView, step, raise_interrupt)
            sqlite.search_text("refund", ACME, 10)
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a"]


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("nested", [False, True])
def test_changes_to_a_returned_item_are_not_shared(sqlite: SqliteStore, nested: bool) -> None:
    sqlite.apply(batch([item("a", properties={"size": ["small"] if nested else "small"})]))
    for _ in range(3):
        (read,) = sqlite.get([("acme", "a")])
        assert read.properties == {"size": ["small"] if nested else "small"}
        assert isinstance(read.properties, dict)
        read.properties["size"] = "large"


def test_cached_items_match_the_file(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_view, "MAX_CACHED_ITEMS", 2)
    items = [
        item(id, text=f"{id} first", title=id.upper(), tags=("x",), confidence=0.5) for id in "abc"
    ]
    sqlite.apply(batch(items))
    for _ in range(2):
        assert [item.text for item in sqlite.get([("acme", id) for id in "cab"])] == [
            "c first",
            "a first",
            "b first",
        ]
    other = SqliteStore.open(sqlite._path)
    other.apply(batch([replace(items[0], text="second")]))
    other.close()
    assert [item.text for item in sqlite.get([("acme", id) for id in "abc"])] == [
        "second",
        "b first",
        "c first",
    ]


def test_cached_postings_match_the_file(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_view, "MAX_CACHED_POSTINGS", 3 * space_view.TERM_OVERHEAD)
    sqlite.apply(
        batch(
            [
                item("a", "refund parcel"),
                item("b", "parcel"),
                item("c", "monday tuesday sunday friday"),
            ]
        )
    )
    other, memory = SqliteStore.open(sqlite._path), MemoryStore()
    memory.apply(
        batch(
            [
                item("a", "refund parcel"),
                item("b", "parcel"),
                item("c", "monday tuesday sunday friday"),
            ]
        )
    )
    for change in ([], [item("d", "refund")], [item("a", "friday")]):
        other.apply(batch(change))
        memory.apply(batch(change))
        for text in (
            "refund",
            "parcel refund",
            "refund parcel unknown",
            "monday tuesday sunday friday",
            "refund",
        ):
            assert matches(sqlite.search_text(text, ACME, 10)) == matches(
                memory.search_text(text, ACME, 10)
            )
            with sqlite.reading() as reader:
                assert len(list(reader.views(["acme"])["acme"]._postings)) <= 3
    other.close()


def test_the_mask_cache_is_bounded(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    for number in range(200):
        sqlite.find(replace(ACME, created_to=NOW + timedelta(seconds=number)), 10)
    with sqlite.reading() as reader:
        assert len(reader.views(["acme"])["acme"]._masks) <= space_view.MAX_MASKS
