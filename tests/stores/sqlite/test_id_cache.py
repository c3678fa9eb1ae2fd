"""Cached ids must match the file, whether they were looked up or read as a whole."""

from __future__ import annotations

import random

import pytest

from knowloom.model import Filter
from knowloom.ports import Batch
from knowloom.stores.sqlite import id_cache
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW, batch, item
from watched import statements

SPACE = "acme"


def visible_ids(store: SqliteStore, names: list[str]) -> list[str]:
    return [id for _, id in store.visible([(SPACE, id) for id in names], Filter((SPACE,)))]


def has_full_scan(statements: list[str]) -> bool:
    return any("FROM item WHERE space" in sql for sql in statements)


def test_all_ids_are_read_once_lookups_have_cost_as_much(
    sqlite: SqliteStore,
) -> None:
    names = [f"n{number}" for number in range(60)]
    sqlite.apply(batch([item(id) for id in names]))
    executed = statements(sqlite)
    assert visible_ids(sqlite, names[:9]) == names[:9]
    assert not has_full_scan(executed)
    assert visible_ids(sqlite, names[9:10]) == names[9:10]
    assert has_full_scan(executed)
    executed.clear()
    assert visible_ids(sqlite, names) == names
    assert not [sql for sql in executed if "item" in sql]


def test_ids_of_a_very_large_space_are_never_all_read(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_cache, "MAX_CACHED_IDS", 59)
    names = [f"n{number}" for number in range(60)]
    sqlite.apply(batch([item(id) for id in names]))
    executed = statements(sqlite)
    assert visible_ids(sqlite, names) == names
    assert not has_full_scan(executed)


@pytest.mark.parametrize("speedup", [1, 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_lookups_match_the_stored_items_after_any_change(
    path: str, monkeypatch: pytest.MonkeyPatch, seed: int, speedup: int
) -> None:
    monkeypatch.setattr(id_cache, "SEQUENTIAL_SPEEDUP", speedup)
    rng = random.Random(seed)
    reader, writer = SqliteStore.open(path), SqliteStore.open(path)
    names = [f"n{number}" for number in range(30)]
    stored: dict[str, str] = {}
    for number in range(60):
        for id in rng.sample(names, 4):
            if id in stored and rng.random() < 0.6:
                writer.apply(Batch(NOW, deleted=((SPACE, id),)))
                del stored[id]
            else:
                stored[id] = f"text{number}"
                writer.apply(batch([item(id, text=stored[id])]))
        sample = rng.sample(names, 12)
        assert visible_ids(reader, sample) == [id for id in sample if id in stored]
        assert {item.id: item.text for item in reader.get([(SPACE, id) for id in sample])} == {
            id: stored[id] for id in sample if id in stored
        }
        text_of_round = f"text{number}"
        matching_ids = {
            id for (_, id), _ in reader.search_text(text_of_round, Filter((SPACE,)), 50).matches
        }
        assert matching_ids == {id for id, text in stored.items() if text == text_of_round}
    reader.close()
    writer.close()
