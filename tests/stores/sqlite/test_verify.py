"""Damaged SQLite files are detected and reported."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from knowloom import Corrupt, Item, Unavailable
from knowloom.stores.sqlite import postings
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import ACME, batch, directions, edge, item
from sqlite_files import execute_sql

DAMAGE = {
    "a lost posting": "DELETE FROM posting WHERE id = (SELECT min(id) FROM posting)",
    "a surplus posting": "INSERT INTO posting VALUES (999, 1, 'zebra', 0, x'000001')",
    "a changed posting": "UPDATE posting SET data = x'000007' WHERE term = 'refund'",
    "a posting that is not binary": "UPDATE posting SET data = 'x' WHERE term = 'refund'",
    "a lost delta": "DELETE FROM delta",
    "a surplus delta word": """UPDATE delta SET terms = replace(terms, '{', '{"zebra": 1, ')""",
    "a changed body": "UPDATE item SET body = replace(body, 'refund', 'parcel') WHERE id = 'a'",
    "a changed title": "UPDATE item SET body = replace(body, 'How', 'Why') WHERE id = 'a'",
    "a body that is not JSON": "UPDATE item SET body = '{' WHERE id = 'a'",
    "a body that is not an item": "UPDATE item SET body = '[]' WHERE id = 'a'",
    "a body that is not text": "UPDATE item SET body = CAST(x'7b80' AS TEXT) WHERE id = 'a'",
    "another id": "UPDATE item SET id = 'x' WHERE id = 'e'",
    "a lost item": "DELETE FROM item WHERE id = 'e'",
    "a lost record": "DELETE FROM item_meta",
    "an empty record": "UPDATE item_meta SET data = zeroblob(length(data))",
    "half a record": "UPDATE item_meta SET data = substr(data, 1, 7)",
    "an orphan vector": "INSERT INTO vector SELECT row + 100, data FROM vector LIMIT 1",
    "a lost vector": "DELETE FROM vector WHERE row = (SELECT min(row) FROM vector)",
    "a truncated vector": "UPDATE vector SET data = substr(data, 1, 7)",
    "a vector of another item": """UPDATE vector
        SET data = (SELECT data FROM vector ORDER BY row DESC LIMIT 1)""",
    "lost signs": "DELETE FROM sign",
    "wrong signs": "UPDATE sign SET data = zeroblob(length(data))",
    "a dangling edge": """INSERT INTO edge VALUES (1, 'a', 1, 'ghost', 'related', 1.0, NULL, '')""",
    "a lost edge": "DELETE FROM edge",
    "a changed edge": "UPDATE edge SET weight = 9",
    "an edge that is not JSON": "UPDATE edge SET body = 'x'",
    "a wrong number of items": "UPDATE space SET items = items + 1",
    "a wrong number of edges": "UPDATE space SET edges = edges + 1",
    "a wrong length": "UPDATE space SET length = length + 1",
    "a wrong digest": "UPDATE space SET digest = '1'",
    "a lost space": "DELETE FROM space WHERE no = 1",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_verify_detects_damage(path: str, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "DELTA_LIMIT", 3)
    store = build_store(path)
    assert store.verify() == []
    execute_sql(path, damage)
    assert store.verify() != []
    store.close()


def test_verify_counts_missing_and_surplus_postings(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "DELTA_LIMIT", 3)
    store = build_store(path)
    execute_sql(path, "UPDATE posting SET data = x'000007' WHERE term = 'refund'")
    execute_sql(path, "INSERT INTO posting VALUES (999, 1, 'zebra', 0, x'000001000203')")
    assert store.verify() == [
        "space 'acme': 1 terms of items are not indexed",
        "space 'acme': 3 indexed terms belong to no item",
    ]
    store.close()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_truncated_file_is_detected(path: str, share: float) -> None:
    build_store(path).close()
    Path(path).write_bytes(Path(path).read_bytes()[: int(Path(path).stat().st_size * share)])
    assert find_problems(path)


def test_a_flipped_bit_is_detected_or_changes_no_item(path: str) -> None:
    store = build_store(path)
    before = store.find(ACME, 10)
    store.close()
    content, rng = Path(path).read_bytes(), random.Random(5)
    # A flip in an empty page may go undetected: it changes nothing that is read.
    offsets = [offset for offset, byte in enumerate(content) if byte]
    for offset in [
        content.index(b"refund me"),
        content.index(b'"title":"How'),
        *rng.sample(offsets, 150),
    ]:
        flipped = bytes([content[offset] ^ 1 << rng.randrange(8)])
        Path(path).write_bytes(content[:offset] + flipped + content[offset + 1 :])
        assert find_problems(path) or read_items(path) == before, f"byte {offset}"


def test_reading_a_damaged_item_raises_corrupt(path: str) -> None:
    store = build_store(path)
    for body in ("'{'", "'[]'", "CAST(x'7b80' AS TEXT)"):
        execute_sql(path, f"UPDATE item SET body = {body} WHERE id = 'a'")
        for read in (
            lambda: store.get([("acme", "b"), ("acme", "a")]),
            lambda: store.find(ACME, 10),
            lambda: store.find(replace(ACME, tags=("vip",)), 10),
        ):
            with pytest.raises(Corrupt, match="the item 'a' of space 'acme' cannot be read"):
                read()
    store.close()


READS: dict[str, Callable[[SqliteStore], object]] = {
    "item": lambda store: store.get([("acme", "a")]),
    "posting": lambda store: store.search_text("refund", ACME, 10),
    "edge": lambda store: store.edges(["acme"], 10),
    "change_log": lambda store: store.apply(batch([item("a", "new")])),
}


@pytest.mark.parametrize("table", READS)
def test_a_file_without_one_of_its_tables_is_reported_as_damaged(path: str, table: str) -> None:
    build_store(path).close()
    execute_sql(path, f"DROP TABLE {table}")
    store = SqliteStore.open(path)
    for read in (READS[table], SqliteStore.verify):
        with pytest.raises(
            Corrupt, match=f"is damaged or not an SQLite file .*no such table: (main.)?{table}"
        ):
            read(store)
    store.close()


def build_store(path: str) -> SqliteStore:
    store = SqliteStore.open(path)
    store.apply(
        batch(
            [
                item("a", "refund me", title="How?", tags=("vip",)),
                item("b", "parcel"),
                item("c"),
                item("d"),
            ],
            [edge("a", "b")],
        )
    )
    store.apply(batch([item("e", "water")]))
    store.put_vectors(
        {("acme", name): vector for name, vector in zip("abd", directions(3, 64), strict=True)},
        "e1",
    )
    return store


def find_problems(path: str) -> list[str]:
    """Return the problems of verify, or the code of the error that prevents it."""
    try:
        store = SqliteStore.open(path)
    except Unavailable as error:
        return [error.code]
    try:
        return store.verify()
    except Unavailable as error:
        return [error.code]
    finally:
        store.close()


def read_items(path: str) -> list[Item]:
    store = SqliteStore.open(path)
    try:
        return store.find(ACME, 10)
    finally:
        store.close()
