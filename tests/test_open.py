"""Opening and closing knowledge: stores, embedders and other arguments of `open`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from engine_samples import ids, node

import knowloom
from knowloom import (
    Invalid,
    Unavailable,
)


def test_closing_an_engine_closes_its_embedder():
    embedder = ClosableEmbedder()
    knowloom.open("memory:", embedder=embedder).close()
    assert embedder.closed


class ClosableEmbedder:
    """An embedder that holds a resource, as a remote embedder does."""

    name, fingerprint, dimensions, closed = "closable", "closable:1", 2, False

    def embed(self, texts):
        return [np.array([1.0, 0.0], np.float32) for _ in texts]

    def close(self):
        self.closed = True


def test_a_with_block_closes_and_closing_twice_is_harmless(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(node("a"))
    kb.close()
    with pytest.raises(Unavailable, match="closed"):
        kb.get("a", space="s")


def test_a_file_keeps_its_items_when_it_is_reopened(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(node("a", "zebra"))
    with knowloom.open(f"sqlite:///{tmp_path}/k.db", embedder=None) as kb:
        assert ids(kb.search("zebra", spaces=["s"])) == ["a"]


@pytest.mark.parametrize(
    ("store", "message"),
    [
        *(
            (store, "a store must be a path or a URL")
            for store in (
                "",
                "  ",
                "sqlite:",
                "sqlite:///",
                "sqlite:/// ",
                None,
                5,
                b"k.db",
                ["k.db"],
            )
        ),
        (
            "oracle://x",
            "unknown store 'oracle'; available: bolt, elasticsearch, file, fts5, "
            "lancedb, memory, neo4j, networkx, opensearch, postgresql, redis, rediss, sqlite",
        ),
        ("a\0b.db", "is not a valid file name"),
        ("a\ud800.db", "is not a valid file name"),
    ],
)
def test_an_unknown_store_is_refused(store, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=message):
        knowloom.open(store, embedder=None)
    assert list(tmp_path.iterdir()) == []


def test_a_store_can_be_a_path(tmp_path):
    knowloom.open(tmp_path / "k.db", embedder=None).close()
    assert (tmp_path / "k.db").stat().st_size


class EmbedderWithoutFingerprint:
    """An embedder that lacks the attribute `fingerprint`."""

    name = "half"
    dimensions = 2

    def embed(self, texts: Sequence[str]) -> list[Any]:
        return [np.array([1, 0], np.float32) for _ in texts]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": 5}, "agents must be Agent values or a file, got int"),
        ({"agents": [5]}, "agents must be Agent values or a file, got int"),
        (
            {"embedder": 5},
            "embedder must be a name such as minilm or openai:MODEL, an Embedder or None, got 5",
        ),
        ({"embedder": EmbedderWithoutFingerprint()}, "without 'fingerprint'"),
        (
            {"embedder": "minilm", "embedder_settings": 5},
            "embedder settings must be a dict, got 5",
        ),
        (
            {"embedder": "minilm", "embedder_settings": {"timeout_s": 5}},
            "unknown setting of minilm 'timeout_s'; available: precision",
        ),
        (
            {"names": 5},
            "names must be 'builtin', a pipeline such as spacy:en_core_web_sm or a NameFinder, "
            "got 5",
        ),
        ({"cache": 5}, "cache must be a path or a Caching, got 5"),
        ({"cache": None}, "cache must be a path or a Caching, got None"),
    ],
)
def test_an_invalid_argument_of_open_is_refused(options, message):
    with pytest.raises(Invalid, match=message):
        knowloom.open("memory:", **{"embedder": None} | options)


def test_opening_does_not_read_the_dimensions_of_the_embedder():
    class Remote(EmbedderWithoutFingerprint):
        fingerprint = "remote"

        @property
        def dimensions(self) -> int:
            raise AssertionError("dimensions were read")

    knowloom.open("memory:", embedder=Remote()).close()


def test_a_path_that_is_too_long_is_reported_with_the_reason():
    with pytest.raises(Unavailable, match=r"cannot open 'aaa.*name too long"):
        knowloom.open("a" * 500, embedder=None)


def test_an_unknown_embedder_or_role_is_refused():
    with pytest.raises(
        Invalid, match="unknown embedder 'magic'; available: bge-small, minilm, onnx, openai"
    ):
        knowloom.open("memory:", embedder="magic")
    with pytest.raises(
        Invalid, match="unknown role 'ears'; available: graph, items, metadata, vectors, words"
    ):
        knowloom.open("memory:", embedder=None, ears="memory:")
