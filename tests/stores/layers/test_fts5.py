"""Words in FTS5: the contract of layers, and the answers of one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import knowloom
from knowloom import Invalid, Item, Unavailable
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.fulltext import fts5_layer
from knowloom.stores.sqlite.fulltext.fts5_layer import Fts5Layer
from knowloom.testing import TextLayerContract
from layered_answers import assert_same_as_a_file


class TestFts5(TextLayerContract):
    """The contract."""

    @pytest.fixture
    def reference(self) -> MemoryStore:
        return MemoryStore.open("")

    @pytest.fixture
    def layer(self, tmp_path: Path) -> Iterator[Fts5Layer]:
        layer = Fts5Layer.open(str(tmp_path / "words.db"))
        yield layer
        layer.close()


def test_contexts_are_those_of_a_file(tmp_path: Path) -> None:
    assert_same_as_a_file(tmp_path, words=f"fts5:{tmp_path}/words.db")


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with knowloom.open(str(path), embedder=None) as kb:
        kb.add(Item("a", "s", text="x"))
    before = path.read_bytes()
    with pytest.raises(Unavailable, match="another program"):
        knowloom.open(str(tmp_path / "k.db"), embedder=None, words=f"fts5:{path}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("fts5:", Invalid, "must name a file"),
        ("fts5:/nowhere/at/all/words.db", Unavailable, "folder does not exist"),
    ],
)
def test_a_file_that_cannot_be_is_refused(url: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        knowloom.open("memory:", embedder=None, words=url)


def test_it_plays_the_words_only(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot store vectors; it supports: words"):
        knowloom.open("memory:", embedder=None, vectors=f"fts5:{tmp_path}/words.db")


def test_a_locked_file_leaves_changes_queued_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fts5_layer, "BUSY_MS", 10)
    path = str(tmp_path / "words.db")
    with knowloom.open(str(tmp_path / "k.db"), embedder=None, words=f"fts5:{path}") as kb:
        blocker = apsw.Connection(path)
        blocker.execute("BEGIN IMMEDIATE")
        kb.add(Item("a", "s", text="refund"))
        context = kb.context("refund", spaces=["s"])
        assert "refund" in context.text and context.degraded[0].part == "words"
        blocker.execute("ROLLBACK")
        blocker.close()
        kb.reindex()
        assert kb.context("refund", spaces=["s"]).degraded == () and kb.verify() == []
