"""The embedding cache on disk: shared by processes, bounded in age and size, never fatal."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest

import knowloom
from fake_openai import FakeOpenAI
from knowloom.embedders.cache import CachedEmbedder
from knowloom.embedders.calibration import PROBE_TEXT, calibration_texts
from knowloom.embedders.disk_cache import DiskCache
from knowloom.embedders.openai import OpenAIEmbedder
from knowloom.errors import Invalid
from knowloom.ports import Embedder
from knowloom.testing import EmbedderContract


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI([]) as server:
        yield server


@pytest.fixture
def inner(server: FakeOpenAI) -> Iterator[OpenAIEmbedder]:
    with closing(OpenAIEmbedder(base_url=server.base_url, model="fake", api_key="k")) as embedder:
        yield embedder


class TestCachedOnDisk(EmbedderContract):
    @pytest.fixture
    def embedder(self, inner: OpenAIEmbedder, tmp_path: Path) -> Embedder:
        return CachedEmbedder(inner, max_size=1, disk=DiskCache(tmp_path / "vectors.db"))


def requested_texts(server: FakeOpenAI) -> list[list[str]]:
    return [request.texts for request in server.requests]


def test_another_process_does_not_embed_again(
    server: FakeOpenAI, inner: OpenAIEmbedder, tmp_path: Path
) -> None:
    with closing(DiskCache(tmp_path / "vectors.db")) as disk:
        first = CachedEmbedder(inner, disk=disk).embed(["a", "b"])
    with closing(DiskCache(tmp_path / "vectors.db")) as disk:
        cache = CachedEmbedder(inner, disk=disk)
        np.testing.assert_array_equal(
            cache.embed(["b", "c", "a"]), [first[1], *inner.embed(["c"]), first[0]]
        )
        assert (cache.hits, cache.misses) == (2, 1)
        assert disk.counts() == (3, 2)
    with closing(DiskCache(tmp_path / "vectors.db")) as disk:
        assert disk.counts() == (3, 2)
    assert requested_texts(server)[:2] == [["a", "b"], ["c"]]


def test_vectors_of_another_model_are_not_mixed_up(
    server: FakeOpenAI, inner: OpenAIEmbedder, tmp_path: Path
) -> None:
    disk = DiskCache(tmp_path / "vectors.db")
    CachedEmbedder(inner, disk=disk).embed(["a"])
    inner.fingerprint = "another"
    CachedEmbedder(inner, disk=disk).embed(["a"])
    assert requested_texts(server) == [["a"], ["a"]] and disk.counts()[0] == 2


def test_an_expired_vector_is_embedded_again(
    server: FakeOpenAI, inner: OpenAIEmbedder, tmp_path: Path
) -> None:
    now = [1000.0]
    cache = CachedEmbedder(
        inner,
        ttl_s=60,
        disk=DiskCache(tmp_path / "vectors.db", ttl_s=60, clock=lambda: now[0]),
        clock=lambda: now[0],
    )
    for moment in (1000, 1060, 1061, 1100, 1200):
        now[0] = moment
        cache.embed(["a"])
    assert len(requested_texts(server)) == 3


def test_the_oldest_vectors_are_evicted_first(inner: OpenAIEmbedder, tmp_path: Path) -> None:
    now = [0.0]
    disk = DiskCache(tmp_path / "vectors.db", max_size=10, clock=lambda: now[0])
    cache = CachedEmbedder(inner, max_size=1, disk=disk)
    for number in range(25):
        now[0] = number
        cache.embed([f"text {number}"])
        assert disk.counts()[0] <= 10
    before = cache.misses
    cache.embed(["text 24"]), cache.embed(["text 0"])
    assert cache.misses == before + 1


@pytest.mark.parametrize("damage", ["not SQLite", "cut short", "a page of nothing"])
def test_a_damaged_file_is_reported_set_aside_and_replaced(
    inner: OpenAIEmbedder, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    file = tmp_path / "vectors.db"
    with closing(DiskCache(file)) as disk:
        CachedEmbedder(inner, disk=disk).embed([f"text {n}" for n in range(300)])
    data = file.read_bytes()
    file.write_bytes(
        {
            "not SQLite": b"once upon a time" * 500,
            "cut short": data[:5000],
            "a page of nothing": data[:1024] + bytes(len(data) - 1024),
        }[damage]
    )
    with caplog.at_level(logging.WARNING), closing(DiskCache(file)) as disk:
        cache = CachedEmbedder(inner, disk=disk)
        np.testing.assert_array_equal(
            cache.embed(["text 7", "new"]), inner.embed(["text 7", "new"])
        )
        assert "damaged" in disk.problem and "is replaced" in caplog.text and disk.counts()[0] == 2
    assert (tmp_path / "vectors.db.damaged").exists()


def test_an_invalid_vector_is_embedded_again(
    server: FakeOpenAI, inner: OpenAIEmbedder, tmp_path: Path
) -> None:
    file = tmp_path / "vectors.db"
    with closing(DiskCache(file)) as disk:
        CachedEmbedder(inner, disk=disk).embed(["a", "b", "c"])
    with closing(sqlite3.connect(file)) as raw:
        rows = [row for (row,) in raw.execute("SELECT digest FROM vector ORDER BY digest")]
        for row, data in zip(rows, (b"", b"123", b"\0" * 16), strict=True):
            raw.execute("UPDATE vector SET data = ? WHERE digest = ?", (data, row))
        raw.commit()
    np.testing.assert_array_equal(
        CachedEmbedder(inner, disk=DiskCache(file)).embed(["a", "b", "c"]),
        inner.embed(["a", "b", "c"]),
    )
    assert len(requested_texts(server)[1]) == 3


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE precious(thing)")
        other.commit()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(Invalid, match="another program"):
        DiskCache(tmp_path / "other.db")
    with pytest.raises(Invalid, match="does not exist"):
        DiskCache(tmp_path / "nowhere" / "vectors.db")
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_file_that_cannot_be_written_is_no_error(
    inner: OpenAIEmbedder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "vectors.db"
    DiskCache(file).close()
    with (
        closing(apsw.Connection(str(file))) as blocker,
        caplog.at_level(logging.WARNING),
    ):  # the locks of another SQLite in one process are not seen
        blocker.execute("BEGIN EXCLUSIVE")
        blocker.execute("INSERT INTO count VALUES ('x', 1)")
        disk = DiskCache(file)
        np.testing.assert_array_equal(
            CachedEmbedder(inner, disk=disk).embed(["a"]), inner.embed(["a"])
        )
        assert disk.problem and "embedding cache" in caplog.text


def test_threads_share_one_file(inner: OpenAIEmbedder, tmp_path: Path) -> None:
    cache, texts = (
        CachedEmbedder(inner, max_size=2, disk=DiskCache(tmp_path / "vectors.db")),
        ["a", "b", "c", "d", "e"],
    )
    expected = inner.embed(texts)
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: cache.embed(texts), range(40)):
            np.testing.assert_array_equal(answer, expected)


def test_a_cache_can_be_cleared(server: FakeOpenAI, inner: OpenAIEmbedder, tmp_path: Path) -> None:
    cache = CachedEmbedder(inner, disk=DiskCache(tmp_path / "vectors.db"))
    cache.embed(["a"])
    cache.clear()
    cache.embed(["a"])
    assert requested_texts(server) == [["a"], ["a"]]


@pytest.mark.parametrize("ttl", [0, -1])
def test_an_invalid_lifetime_is_refused(inner: OpenAIEmbedder, ttl: float) -> None:
    with pytest.raises(Invalid, match="ttl_s"):
        CachedEmbedder(inner, ttl_s=ttl)


def test_an_engine_stores_its_vectors_in_a_file_and_reports_it(
    server: FakeOpenAI, tmp_path: Path
) -> None:
    texts = calibration_texts()
    count = len({*texts.queries, *texts.passages}) + 2
    for round in range(2):
        with knowloom.open(
            "memory:", embedder=f"openai:fake@{server.base_url}", cache=tmp_path / "vectors.db"
        ) as kb:
            knowloom.Memory(kb, "home").remember("tea")
            knowloom.Memory(kb, "home").search("cup")
            stats = kb.maintenance.stats()
            assert (stats.disk_vectors, stats.disk_hits, stats.cache_misses) == (
                (count, 0, count),
                (count, count, 0),
            )[round]
    assert [texts for texts in requested_texts(server) if len(texts) < 10] == [
        [PROBE_TEXT, "tea"],
        [PROBE_TEXT, "cup"],
    ]
