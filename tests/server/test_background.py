"""A server embeds items without a vector beside its requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

import knowloom
from knowloom import Engine, Item, Unavailable
from knowloom.registry import open_stores
from knowloom.server.background import BackgroundEmbedding
from letters import Letters
from server_process import running_server, start_server, stop_server

ITEMS = [Item(f"i{number}", "s", text=f"text {number}") for number in range(300)]


class Flaky(Letters):
    """An embedder that fails at first."""

    failures = 2

    def embed(self, texts: Sequence[str]) -> list[Any]:
        if self.failures:
            self.failures -= 1
            raise Unavailable("letters: out of ink")
        return super().embed(texts)


class Slow(Letters):
    """An embedder that takes a while."""

    def embed(self, texts: Sequence[str]) -> list[Any]:
        time.sleep(0.2)
        return super().embed(texts)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store without vectors."""
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(ITEMS)
    return tmp_path / "k.db"


@pytest.fixture
def open_engine(file: Path) -> Iterator[Callable[[Any], Engine]]:
    engines: list[Engine] = []

    def open_with(embedder: Any) -> Engine:
        engines.append(Engine(open_stores(str(file), {}), embedder))
        return engines[-1]

    yield open_with
    for engine in engines:
        engine.close()


def wait_for(check: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def count_missing(kb: Engine) -> int:
    return kb.maintenance.stats().without_vector


def test_items_without_a_vector_are_embedded(open_engine: Callable[[Any], Engine]) -> None:
    kb = open_engine(Letters())
    assert count_missing(kb) == 300  # opening starts nothing
    with BackgroundEmbedding(kb):
        wait_for(lambda: count_missing(kb) == 0)
    assert kb.search("text 7", spaces=["s"], mode="vector")


def test_an_embedder_that_fails_is_tried_again(open_engine: Callable[[Any], Engine]) -> None:
    kb = open_engine(Flaky())
    with BackgroundEmbedding(kb, retry_s=0.01):
        wait_for(lambda: count_missing(kb) == 0)


def test_stopping_interrupts_the_work_between_two_batches(
    open_engine: Callable[[Any], Engine],
) -> None:
    kb = open_engine(Slow())
    with BackgroundEmbedding(kb):
        wait_for(lambda: count_missing(kb) < 300)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    missing = count_missing(kb)
    assert 0 < missing < 300
    time.sleep(0.5)
    assert count_missing(kb) == missing


def test_stopping_does_not_wait_for_the_next_try(open_engine: Callable[[Any], Engine]) -> None:
    embedder = Flaky()
    kb = open_engine(embedder)
    started = time.monotonic()
    with BackgroundEmbedding(kb, retry_s=600):
        wait_for(lambda: embedder.failures < 2)
    assert time.monotonic() - started < 10


def test_vectors_of_another_embedder_are_left_alone(
    open_engine: Callable[[Any], Engine], caplog: pytest.LogCaptureFixture
) -> None:
    first = open_engine(None)
    first.add(Item("x", "s", text="x"), vectors=[[1.0, 0.0]])
    kb = open_engine(Letters())
    with BackgroundEmbedding(kb, retry_s=0.01):
        wait_for(lambda: "cannot embed" in caplog.text)
    assert count_missing(kb) == 300 and "next try" not in caplog.text


def test_without_an_embedder_nothing_is_done(open_engine: Callable[[Any], Engine]) -> None:
    kb = open_engine(None)
    with BackgroundEmbedding(kb):
        time.sleep(0.1)
    assert count_missing(kb) == 300


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_real_server_answers_by_words_and_embeds_meanwhile(file: Path, processes: str) -> None:
    options = ("--processes", processes)
    with running_server(file, *options, KNOWLOOM_EMBEDDER="minilm") as base:
        body = {"query": "text 7", "spaces": ["s"], "limit": 1}
        hits = httpx.post(f"{base}/api/search", json=body, timeout=60).json()["hits"]
        assert hits[0]["item"]["id"] == "i7"
        wait_for(lambda: httpx.get(f"{base}/readyz").json()["without_vector"] == 0)
        assert httpx.get(f"{base}/api/stats").json()["without_vector"] == 0
        response = httpx.post(f"{base}/api/search", json=body | {"mode": "vector"}, timeout=60)
        assert response.status_code == 200


def test_a_server_that_is_embedding_stops_cleanly(tmp_path: Path) -> None:
    file = tmp_path / "long.db"
    with knowloom.open(str(file), embedder=None) as kb:
        kb.add([Item(f"i{n}", "s", text=f"{n} " + "harbor master " * 300) for n in range(500)])
    process, base = start_server(file, "--processes", "1", KNOWLOOM_EMBEDDER="minilm")
    assert httpx.get(f"{base}/readyz").json()["without_vector"] > 0
    status, output = stop_server(process)
    assert status == 0 and "Traceback" not in output
    assert "embedding 500 items without a vector" in output
