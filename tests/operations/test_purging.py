"""Purging: no byte of an item is left, the log says so, and retention erases old states."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from client_helpers import failure, node

import knowloom
from knowloom import Conflict, Edge, Engine, Forbidden, Invalid
from knowloom.ports import Stores
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.structuring import records
from knowloom.structuring.records import IngestRecord

START = datetime(2026, 6, 1, tzinfo=UTC)
SECRETS = ("xylophonist", "zanzibarian", "edgesecret", "quokkaword")


class LetterVectors:
    """An embedder that counts its calls."""

    name, dimensions, fingerprint, is_calibrated = "letters", 2, "letters:2", True

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: list[str]) -> list[Any]:
        self.texts += texts
        return [np.array([0.6, 0.8], np.float32) for _ in texts]


def fill(kb: Engine) -> None:
    """Store an item with a past, in all tables that remember texts."""
    kb.add(
        [
            node("secret", "the xylophonist plays", title="Zanzibarian Xylophonist"),
            node("other", "about the Zanzibarian Xylophonist", tags=("music",)),
        ],
        [Edge("secret", "other", space="s", properties={"why": "edgesecret"})],
    )
    kb.add(node("secret", "quokkaword " * 200, title="Zanzibarian Xylophonist"))
    kb.add(node("other", "about something else", tags=("music",)))


def files_with(folder: Path, *words: str) -> dict[str, list[str]]:
    """Return the files whose bytes contain a word, in any case."""
    contents = {file: file.read_bytes().lower() for file in folder.rglob("*") if file.is_file()}
    found = {
        word: [file.name for file, data in contents.items() if word.encode() in data]
        for word in words
    }
    return {word: names for word, names in found.items() if names}


@pytest.fixture(params=["sqlite", "composite"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    parts: dict[str, str] = {}
    if request.param == "composite":
        pytest.importorskip("networkx")
        parts = {"graph": f"networkx:{tmp_path}/g.json", "words": f"{tmp_path}/words.db"}
    with knowloom.open(tmp_path / "k.db", embedder=LetterVectors(), **parts) as kb:
        yield kb


def test_no_byte_of_a_purged_item_is_left(stored: Engine, tmp_path: Path) -> None:
    fill(stored)
    stored.add(node("other", "no names"))  # its history has the name, and stays
    stored.maintenance.purge("other", space="s")
    assert files_with(tmp_path, "quokkaword")
    purged = stored.maintenance.purge(["secret", "never"], space="s")
    assert (purged.ids, purged.missing, purged.problems) == (("secret",), ("never",), ())
    assert files_with(tmp_path, *SECRETS) == {}
    stored.close()
    assert files_with(tmp_path, *SECRETS) == {}


def test_bytes_of_earlier_versions_in_free_pages_are_gone_too(tmp_path: Path) -> None:
    with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
        for number in range(20):
            kb.add([node(f"{number}", f"quokkaword{number} " * 500)])
        kb.add([node(f"{number}", "short") for number in range(20)])
        kb.maintenance.purge([f"{number}" for number in range(20)], space="s")
        assert files_with(tmp_path, "quokkaword") == {}
        assert kb.verify() == []


def test_the_other_items_stay_as_they_are(stored: Engine) -> None:
    fill(stored)
    (before,) = stored.get("other", space="s")
    stored.maintenance.purge("secret", space="s")
    assert [item for item in stored.items(["s"])] == [before]
    assert stored.verify() == [] and list(stored.edges(automatic=None)) == []
    hits = stored.search("something", spaces=["s"])
    assert [hit.item.id for hit in hits] == ["other"]
    stored.add(node("secret", "a new one"))
    assert stored.verify() == [] and len(list(stored.items(["s"]))) == 2


def test_the_tombstone_has_the_author_and_no_content(kb: Engine) -> None:
    fill(kb)
    knowloom.act_as(kb, "ada").maintenance.purge("secret", space="s")
    (state,) = kb.history.states("secret", space="s")
    assert (state.action, state.actor, state.item, state.edge) == ("purge", "ada", None, None)
    assert "xylophonist" not in repr(kb.maintenance.audit()).lower()
    (entry,) = kb.maintenance.audit(actions=["purge"])
    assert (entry.space, entry.id, entry.actor) == ("s", "secret", "ada")
    assert failure(lambda: kb.history.restore("secret", space="s")) == (Conflict, "erased")


def test_a_deleted_item_can_be_purged(kb: Engine) -> None:
    fill(kb)
    kb.delete("secret", space="s")
    assert kb.maintenance.purge("secret", space="s").ids == ("secret",)
    assert failure(lambda: kb.history.restore("secret", space="s")) == (Conflict, "erased")
    assert kb.maintenance.purge("secret", space="s").ids == ("secret",)  # once more, to compact


def test_vectors_of_the_texts_leave_the_caches(tmp_path: Path) -> None:
    embedder, cache = LetterVectors(), tmp_path / "cache.db"
    with knowloom.open(tmp_path / "k.db", embedder=embedder, cache=cache) as kb:
        fill(kb)
        kb.maintenance.purge("secret", space="s")
        (rows,) = apsw.Connection(str(cache)).execute("SELECT count(*) FROM vector")
        assert rows == (2,)  # of the two states of the other item
        embedder.texts.clear()
        kb.add(node("again", "the xylophonist plays", title="Zanzibarian Xylophonist"))
        assert len(embedder.texts) == 1


def test_check_in_records_of_an_item_are_deleted(tmp_path: Path) -> None:
    with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
        fill(kb)
        folder = Path(f"{tmp_path}/k.db.checkins")
        piece = {"content": "x", "knowledge_type": "fact", "info_type": "note"}
        for id, space in (("secret", "s"), ("other", "s"), ("secret", "t")):
            layers = {
                "metadata": {},
                "pieces": [{"piece_id": id, **piece}],
                "graph": {"nodes": [], "edges": []},
            }
            record = IngestRecord(f"text {id} {space}", space, None, START, "m", "p", layers=layers)
            records.write_record(folder, record, ())
        purged = kb.maintenance.purge("secret", space="s")
        assert len(purged.records) == 1 and not Path(purged.records[0]).exists()
        assert len(list(folder.iterdir())) == 2


def test_the_report_names_the_backups_that_have_the_item(tmp_path: Path) -> None:
    with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
        kb.add(node("other"))
        kb.maintenance.backup(tmp_path / "early")
        fill(kb)
        item = kb.maintenance.backup(tmp_path / "item").path
        kb.delete("secret", space="s")
        history = kb.maintenance.backup(tmp_path / "history").path
        folder = Path(kb.maintenance.backup(f"{tmp_path}/folder/").path)
        copied = folder.with_name("k.db.20200101T000000000000Z.backup")
        shutil.copy(folder, copied)
        gone = kb.maintenance.backup(tmp_path / "gone").path
        Path(gone).unlink()
        purged = kb.maintenance.purge("secret", space="s")
        late = kb.maintenance.backup(tmp_path / "late").path
    reasons = {holder.path: holder.reason for holder in purged.backups}
    assert reasons.pop(gone) == "no such file any more"
    assert reasons == dict.fromkeys((item, history, str(folder), str(copied)), "")
    assert files_with(Path(late).parent, "xylophonist")["xylophonist"] != []
    assert b"xylophonist" not in Path(late).read_bytes()


def test_a_rollback_does_not_bring_a_purged_item_back(store_url: str) -> None:
    with timed_engine(store_url) as kb:
        fill(kb)
        before = kb.reader.now()
        kb.maintenance.purge("secret", space="s")
        kb.add(node("other", "changed"))
        result = kb.history.rollback(before, spaces=["s"])
        assert [(row.what, row.why) for row in result.skipped] == [("secret", "it was purged")]
        assert [item.text for item in kb.items(["s"])] == ["about something else"]


def test_retention_erases_old_states_and_only_those(store_url: str) -> None:
    with timed_engine(store_url, step=timedelta(days=1)) as kb:
        for text in ("one", "two", "three", "four"):
            kb.add([node("a", text), node("b", text, space="t")])
        first = kb.history.states("a", space="s")[-1].at
        assert kb.maintenance.set_retention("s", 4) > 0
        texts = [
            [state.item.text for state in kb.history.states(id, space=space) if state.item]
            for id, space in (("a", "s"), ("b", "t"))
        ]
        assert texts[0][0] == "four" and "one" not in texts[0]
        assert texts[1] == ["four", "three", "two", "one"]
        assert kb.maintenance.retention() == {"s": 4} and kb.verify() == []
        restore = failure(lambda: kb.history.restore("a", space="s", at=first))
        rollback = failure(lambda: kb.history.rollback(first, spaces=["s"]))
        assert restore == rollback == (Conflict, "erased")
        hits = kb.search("four", spaces=["s"], as_of=first + timedelta(hours=1))
        assert [hit.item.text for hit in hits] == []  # unknown, rather than a later text
        assert "history_erased" in [problem.code for problem in hits.degraded]
        context = kb.context("four", spaces=["s"], as_of=first + timedelta(hours=1))
        notice = next(row for row in context.degraded if row.code == "history_erased")
        assert notice.reason.startswith("left out 1 item: the states at that time were erased")
        assert "history_erased" not in [
            row.code for row in kb.search("four", spaces=["s"]).degraded
        ]
        assert len(kb.maintenance.audit(["s"])) == 4  # who changed it when is not erased
        kb.maintenance.set_retention("s", None)
        assert kb.maintenance.retention() == {}


def test_each_backup_applies_the_retention(tmp_path: Path) -> None:
    with timed_engine(str(tmp_path / "k.db"), step=timedelta(days=1)) as kb:
        kb.add(node("a", "quokkaword"))
        kb.add(node("a", "two"))
        kb.maintenance.set_retention("s", 3)
        backup = kb.maintenance.backup(tmp_path / "b").path
    knowloom.restore(backup, tmp_path / "new.db")
    with knowloom.open(tmp_path / "new.db", embedder=None) as kb:
        assert len(kb.history.states("a", space="s")) == 1


def test_invalid_requests_are_refused(kb: Engine) -> None:
    fill(kb)
    maintenance = kb.maintenance
    assert failure(lambda: maintenance.purge("secret", space="none"))[1] == "unknown_space"
    assert failure(lambda: maintenance.purge([1], space="s"))[0] is Invalid
    assert maintenance.purge("never", space="s").missing == ("never",)
    for days in (-1, 1.5, True, 10**9):
        refused = failure(lambda days=days: maintenance.set_retention("s", days))
        assert refused[0] is Invalid
    restricted = knowloom.restrict(kb, {"team": "x"}).maintenance
    assert failure(lambda: restricted.purge("secret", space="s"))[0] is Forbidden
    assert failure(restricted.audit)[0] is Forbidden
    assert kb.get("secret", space="s")


def timed_engine(url: str, step: timedelta = timedelta(seconds=1)) -> Engine:
    """Open an engine whose clock advances with every look."""
    store = MemoryStore() if url == "memory:" else SqliteStore.open(url)
    times = iter(START + step * number for number in range(10_000))
    return Engine(Stores(*[store] * 4), None, clock=lambda: next(times))
