"""What a reader knows of ids and places must be what the file says, whether it was asked one by one or read as a whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from knowloom.model import Batch, Filter
from knowloom.stores.sqlite import id_cache
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW, batch, item
from watched import statements

SPACE = "acme"


def seen(store: SqliteStore, names: list[str]) -> list[str]:
    return [id for _, id in store.visible([(SPACE, id) for id in names], Filter((SPACE,)))]


def read_whole(statements: list[str]) -> bool:
    return any("FROM item WHERE space" in sql for sql in statements)


def test_all_ids_are_read_once_looking_for_so_many_would_have_taken_as_long(
    sqlite: SqliteStore,
) -> None:
    names = [f"n{number}" for number in range(60)]
    sqlite.apply(batch([item(id) for id in names]))
    asked = statements(sqlite)
    assert seen(sqlite, names[:9]) == names[:9]
    assert not read_whole(asked)
    assert seen(sqlite, names[9:10]) == names[9:10]
    assert read_whole(asked)
    asked.clear()
    assert seen(sqlite, names) == names
    assert not [sql for sql in asked if "item" in sql]


def test_ids_of_a_very_large_space_are_never_all_read(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_cache, "MAX_CACHED_IDS", 59)
    names = [f"n{number}" for number in range(60)]
    sqlite.apply(batch([item(id) for id in names]))
    asked = statements(sqlite)
    assert seen(sqlite, names) == names
    assert not read_whole(asked)


@pytest.mark.parametrize("at_once", [1, 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_items_are_found_where_they_are_after_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int
) -> None:
    monkeypatch.setattr(id_cache, "SEQUENTIAL_SPEEDUP", at_once)
    chance, path = random.Random(seed), str(tmp_path / "knowloom.db")
    reader, writer = SqliteStore.open(path), SqliteStore.open(path)
    names = [f"n{number}" for number in range(30)]
    stored: dict[str, str] = {}
    for number in range(60):
        for id in chance.sample(names, 4):
            if id in stored and chance.random() < 0.6:
                writer.apply(Batch(NOW, deleted=((SPACE, id),)))
                del stored[id]
            else:
                stored[id] = f"text{number}"
                writer.apply(batch([item(id, text=stored[id])]))
        some = chance.sample(names, 12)
        assert seen(reader, some) == [id for id in some if id in stored]
        assert {one.id: one.text for one in reader.get([(SPACE, id) for id in some])} == {
            id: stored[id] for id in some if id in stored
        }
        wanted = f"text{number}"
        found = {id for (_, id), _ in reader.search_text(wanted, Filter((SPACE,)), 50).matches}
        assert found == {id for id, text in stored.items() if text == wanted}
    reader.close()
    writer.close()
