"""Queries to servers that hang, fail or ask for a pause: short waits, few calls, words instead."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from engine_samples import node, request_context, vector_problems

import knowloom
from fake_openai import FakeOpenAI
from knowloom.embedders.queries import MAX_FAILURES, CircuitBreaker, QueryGuard
from knowloom.errors import Conflict, Invalid, Unavailable


class Provider:
    """A remote embedder that can hang or fail, and counts its calls."""

    name, dimensions, fingerprint, is_calibrated = "provider", 2, "provider:1", True

    def __init__(self) -> None:
        self.calls, self.state = 0, "ok"
        self.released = Event()

    def embed(self, texts: Sequence[str]) -> list[Any]:
        self.calls += 1
        if self.state == "hang":
            self.released.wait(20)
        if self.state == "dead":
            raise Unavailable("connection refused", "embedding_failed")
        if self.state == "other":
            raise Conflict("another model", "model_changed")
        return [np.array([1, 0], np.float32) for _ in texts]


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.released.set()


def guard(provider: Provider, now: list[float] | None = None, timeout_s: float = 0.2) -> QueryGuard:
    clock = time.monotonic if now is None else lambda: now[0]
    return QueryGuard(provider, timeout_s, CircuitBreaker(30.0, clock))


def failures(embedder: QueryGuard, count: int) -> list[str]:
    codes = []
    for _ in range(count):
        with pytest.raises(Unavailable) as caught:
            embedder.embed_queries(["q"])
        codes.append(caught.value.code)
    return codes


def test_a_hanging_provider_is_given_up_after_the_deadline(provider: Provider) -> None:
    provider.state = "hang"
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"'provider' did not answer within 0\.2 s"):
        guard(provider).embed_queries(["q"])
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("state", "code"), [("hang", "embedding_timeout"), ("dead", "embedding_failed")]
)
def test_a_dead_provider_is_called_five_times_then_probed(
    provider: Provider, state: str, code: str
) -> None:
    now = [0.0]
    embedder = guard(provider, now, 0.05)
    provider.state = state
    assert failures(embedder, 8) == [code] * 5 + ["embedder_paused"] * 3
    assert provider.calls == MAX_FAILURES == 5
    now[0] += 31
    assert failures(embedder, 3) == [code] + ["embedder_paused"] * 2  # a single probe
    assert provider.calls == 6
    now[0] += 31
    provider.state = "ok"
    assert len(embedder.embed_queries(["q"])) == 1
    provider.state = state
    assert failures(embedder, 5) == [code] * 5  # it starts again from zero


def test_many_threads_do_not_flood_a_provider_that_never_answered(provider: Provider) -> None:
    provider.state = "hang"
    embedder = guard(provider, timeout_s=0.5)
    with ThreadPoolExecutor(20) as pool:
        started = time.monotonic()
        list(pool.map(lambda _: failures(embedder, 1), range(20)))
        assert time.monotonic() - started < 5
    assert provider.calls == 5


def test_threads_wait_for_their_turn_with_a_healthy_provider(provider: Provider) -> None:
    embedder = guard(provider, timeout_s=10)
    with ThreadPoolExecutor(20) as pool:
        vectors = list(pool.map(lambda _: embedder.embed_queries(["q"]), range(100)))
    assert len(vectors) == provider.calls == 100


def test_another_model_is_no_failure_of_the_provider(provider: Provider) -> None:
    provider.state = "other"
    embedder = guard(provider)
    for _ in range(8):
        with pytest.raises(Conflict):
            embedder.embed_queries(["q"])
    assert provider.calls == 8


def test_passages_are_not_limited(provider: Provider) -> None:
    embedder = guard(provider)
    provider.state = "dead"
    for _ in range(8):
        with pytest.raises(Unavailable, match="connection refused"):
            embedder.embed(["p"])
    assert provider.calls == 8


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "2"])
def test_an_invalid_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(Invalid, match="query_timeout_s"):
        knowloom.open("memory:", embedder=None, query_timeout_s=timeout)


def test_an_engine_answers_from_words_while_its_server_hangs(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        address = f"openai:fake@{server.base_url}"
        with knowloom.open(tmp_path / "k.db", embedder=address, query_timeout_s=0.3) as kb:
            kb.add(node("a", "refund"))
            server.script[:] = ["slow"] * 100
            before = len(server.requests)
            started, codes = time.monotonic(), []
            for number in range(9):
                context = request_context(kb, f"refund {number}")
                codes += [problem.code for problem in context.degraded if problem.part == "vectors"]
                assert [hit.item.id for hit in context.hits] == ["a"]
            assert codes == ["embedding_timeout"] * 5 + ["embedder_paused"] * 4
            assert len(server.requests) - before == 5
            assert time.monotonic() - started < 20


def test_a_server_that_asks_for_a_pause_is_left_alone(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        address = f"openai:fake@{server.base_url}"
        with knowloom.open(tmp_path / "k.db", embedder=address) as kb:
            kb.add(node("a", "refund"))
            server.script[:] = ["429 after 7"]
            before = len(server.requests)
            codes = [code for number in "abc" for code in vector_problems(kb, f"refund {number}")]
            assert codes == ["embedding_failed", "embedder_paused", "embedder_paused"]
            assert len(server.requests) - before == 1


def test_a_query_in_the_cache_needs_no_server(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        address = f"openai:fake@{server.base_url}"
        with knowloom.open(tmp_path / "k.db", embedder=address) as kb:
            kb.add(node("a", "refund"))
            request_context(kb, "refund please")
            server.script[:] = ["500"] * 50
            for number in range(6):
                request_context(kb, f"other {number}")
            assert vector_problems(kb, "refund please") == []
