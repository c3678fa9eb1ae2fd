"""Words and vectors in LanceDB: the contracts of layers, and the answers of one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import knowloom
from knowloom import Invalid, Unavailable
from knowloom.stores.memory.store import MemoryStore
from knowloom.testing import TextLayerContract, VectorLayerContract
from layered_answers import assert_same_as_a_file

pytest.importorskip("lancedb", reason="without lancedb its tests are skipped")

from knowloom.stores.lancedb import LanceLayer


@pytest.fixture
def folder_layer(tmp_path: Path) -> Iterator[LanceLayer]:
    layer = LanceLayer.open(str(tmp_path / "index"))
    yield layer
    layer.close()


class TestWords(TextLayerContract):
    """Words."""

    @pytest.fixture
    def reference(self) -> MemoryStore:
        return MemoryStore.open("")

    @pytest.fixture
    def layer(self, folder_layer: LanceLayer) -> LanceLayer:
        return folder_layer


class TestVectors(VectorLayerContract):
    """Vectors."""

    @pytest.fixture
    def reference(self) -> MemoryStore:
        return MemoryStore.open("")

    @pytest.fixture
    def layer(self, folder_layer: LanceLayer) -> LanceLayer:
        return folder_layer


def test_contexts_are_those_of_a_file(tmp_path: Path) -> None:
    url = f"lancedb:{tmp_path}/index"
    assert_same_as_a_file(tmp_path, words=url, vectors=url)


def test_a_folder_of_another_program_is_refused(tmp_path: Path) -> None:
    import lancedb
    import pyarrow

    database = lancedb.connect(str(tmp_path / "other"))
    database.create_table("table", pyarrow.table({"a": [1]}))
    with pytest.raises(Unavailable, match="another program"):
        knowloom.open("memory:", embedder=None, words=f"lancedb:{tmp_path}/other")


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("lancedb:", Invalid, "must name a folder"),
        ("lancedb:/nowhere/at/all/index", Unavailable, "folder does not exist"),
    ],
)
def test_a_folder_that_cannot_be_is_refused(url: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        knowloom.open("memory:", embedder=None, words=url)
