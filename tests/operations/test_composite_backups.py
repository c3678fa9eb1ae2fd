"""Backups of several stores: profiles are in them, and layers are written anew."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Engine, Item, KnowloomError
from knowloom.errors import Conflict, Corrupt, Invalid
from knowloom.stores.composite import composite_upkeep
from knowloom.stores.file.store import FileStore
from profiles import maya, node
from sqlite_files import execute_sql

PROFILES = {"file": "file:{folder}/profiles", "sqlite": "{folder}/profiles.db"}


@pytest.fixture(params=list(PROFILES))
def roles(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    metadata = PROFILES[request.param].format(folder=tmp_path)
    return {"metadata": metadata, "graph": f"networkx:{tmp_path}/graph.json"}


def open_stores(folder: Path, roles: dict[str, str]) -> Engine:
    return knowloom.open(folder / "k.db", embedder=None, **roles)


def fill(kb: Engine) -> None:
    kb.add([maya(), node("a", "refund"), node("b")], [Edge("maya", "a", space="s")])
    kb.add(Item("maya", "s", "profile", properties={"plan": "gold"}))


def describe(kb: Engine) -> tuple[object, ...]:
    return (
        list(kb.items()),
        list(kb.edges()),
        kb.history.states("maya", space="s"),
        kb.search("refund", spaces=["s"], mode="walk"),
        kb.verify(),
    )


def failure(call: Callable[[], object]) -> tuple[type, str]:
    with pytest.raises(KnowloomError) as info:
        call()
    return info.type, info.value.code


def test_a_backup_of_several_stores_brings_everything_back(
    tmp_path: Path, roles: dict[str, str]
) -> None:
    with open_stores(tmp_path, roles) as kb:
        fill(kb)
        before = describe(kb)
        backup = kb.maintenance.backup(tmp_path / "all.backup")
        kb.delete(["maya", "b"], space="s")
        kb.add(node("c", "refund"))
    restored = knowloom.restore(backup.path, tmp_path / "k.db", overwrite=True, **roles)
    assert (restored.metadata, restored.problems) == (roles["metadata"], ())
    with open_stores(tmp_path, roles) as kb:
        after = describe(kb)
    assert after == before and before[-1] == []


def test_restored_items_answer_until_a_layer_is_written_anew(tmp_path: Path) -> None:
    roles = {"graph": f"networkx:{tmp_path}/graph.json"}
    with open_stores(tmp_path, roles) as kb:
        fill(kb)
        before = describe(kb)
        backup = kb.maintenance.backup(tmp_path / "all.backup").path
        kb.add([node("c", "refund")], [Edge("c", "b", space="s")])
    knowloom.restore(backup, tmp_path / "k.db", overwrite=True)
    with open_stores(tmp_path, roles) as kb:
        answer = kb.search("refund", spaces=["s"], mode="walk")
        assert answer == before[3]
        assert ("graph", "index_pending") in {
            (problem.part, problem.code) for problem in answer.degraded
        }


def test_a_restore_that_names_other_stores_changes_nothing(
    tmp_path: Path, roles: dict[str, str]
) -> None:
    with open_stores(tmp_path, roles) as kb:
        fill(kb)
        backup = kb.maintenance.backup(tmp_path / "all.backup").path
    with knowloom.open(tmp_path / "one.db", embedder=None) as kb:
        fill(kb)
        single = kb.maintenance.backup(tmp_path / "one.backup").path
    other = {"metadata": f"{tmp_path}/other.db", "words": f"{tmp_path}/words.db"}
    if not roles["metadata"].startswith("file:"):
        other["metadata"] = f"file:{tmp_path}/other"
    new: Any = tmp_path / "new.db"
    target = {"metadata": roles["metadata"]}
    assert failure(lambda: knowloom.restore(backup, new)) == (Invalid, "metadata")
    assert failure(lambda: knowloom.restore(single, new, **target)) == (Invalid, "metadata")
    assert failure(lambda: knowloom.restore(backup, new, **other)) == (Invalid, "unsupported")
    assert failure(lambda: knowloom.restore(backup, new, **target)) == (Conflict, "exists")
    with pytest.raises(Invalid, match="unknown role 'profiles'"):
        knowloom.restore(backup, new, profiles="x")
    assert not [path.name for path in tmp_path.iterdir() if path.name[:3] in ("new", "oth", "wor")]


def test_damaged_profiles_of_a_backup_are_noticed(tmp_path: Path, roles: dict[str, str]) -> None:
    with open_stores(tmp_path, roles) as kb:
        fill(kb)
        backup = kb.maintenance.backup(tmp_path / "all.backup").path
    execute_sql(backup, "UPDATE backup_file SET data = substr(data, 1, 100)")
    with pytest.raises(Corrupt, match="its copy of the metadata differs"):
        knowloom.restore(backup, tmp_path / "new.db", metadata=f"file:{tmp_path}/new")
    assert not (tmp_path / "new.db").exists()


def test_files_that_another_program_changed_are_not_backed_up(tmp_path: Path) -> None:
    roles = {"metadata": f"file:{tmp_path}/profiles"}
    with open_stores(tmp_path, roles) as kb:
        fill(kb)
        next((tmp_path / "profiles/items").rglob("*.json")).write_text("{}")
        with pytest.raises(Corrupt):
            kb.maintenance.backup(tmp_path / "all.backup")
    assert not (tmp_path / "all.backup").exists()


def test_items_and_profiles_are_copied_as_of_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that is written while the items are read makes the copy start again."""
    roles = {"metadata": f"file:{tmp_path}/profiles"}
    pack, packs = FileStore.pack, list[int]()
    with open_stores(tmp_path, roles) as kb:
        fill(kb)

        def write() -> None:
            kb.add([node("late"), Item("theo", "s", "profile", text="x")])
            kb.delete(["late", "theo"], space="s")

        def pack_under_a_writer(store: FileStore) -> Any:
            packs.append(len(packs))
            if len(packs) <= 2:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(write).result()
            return pack(store)

        monkeypatch.setattr(FileStore, "pack", pack_under_a_writer)
        kb.maintenance.backup(tmp_path / "all.backup")
        assert len(packs) == 3
        monkeypatch.setattr(composite_upkeep, "MAX_ATTEMPTS", 0)
        with pytest.raises(knowloom.Unavailable, match="faster than they can be copied"):
            kb.maintenance.backup(tmp_path / "other.backup")


def test_a_purge_names_backups_that_have_the_profile(tmp_path: Path, roles: dict[str, str]) -> None:
    with open_stores(tmp_path, roles) as kb:
        fill(kb)
        kb.maintenance.backup(tmp_path / "with.backup")
        kb.delete("maya", space="s")
        purged = kb.maintenance.purge("maya", space="s")
        kb.maintenance.backup(tmp_path / "without.backup")
        again = kb.maintenance.purge("maya", space="s")
    assert [Path(holder.path).name for holder in purged.backups] == ["with.backup"]
    assert [Path(holder.path).name for holder in again.backups] == ["with.backup"]
