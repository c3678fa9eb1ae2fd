"""`knowloom.AsyncClient`: the calls of the client, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import knowloom
from knowloom.client import async_client, client, history, maintenance, memory
from live_server import serving

PAIRS = [
    (async_client.AsyncClient, client.Client),
    (async_client.AsyncMemory, memory.RemoteMemory),
    (async_client.AsyncHistory, history.RemoteHistory),
    (async_client.AsyncMaintenance, maintenance.RemoteMaintenance),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([knowloom.Item(f"i{n}", "s", text=f"refund number {n}") for n in range(7)])
        with serving(kb) as url:
            yield url


def run(talk: Callable[[knowloom.AsyncClient], Awaitable[Any]], url: str, **options: Any) -> Any:
    async def converse() -> Any:
        async with knowloom.AsyncClient(url, **options) as connection:
            return await talk(connection)

    return asyncio.run(converse())


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS)
def test_both_clients_have_the_same_calls(asynchronous: type, synchronous: type) -> None:
    names = {name for name in dir(synchronous) if not name.startswith("_")}
    assert names == {name for name in dir(asynchronous) if not name.startswith("_")}


def test_both_clients_give_the_same_answers(url: str) -> None:
    async def talk(connection: knowloom.AsyncClient) -> list[Any]:
        answers = await asyncio.gather(
            connection.search("refund", limit=3), connection.context("refund", max_tokens=60)
        )
        items = [item async for item in connection.items(["s"])]
        stats = await connection.maintenance.stats()
        found = await connection.memory("s").search("refund")
        return [answers[0], answers[1].text, items, stats, found]

    with knowloom.Client(url) as connection:
        expected = [
            connection.search("refund", limit=3),
            connection.context("refund", max_tokens=60).text,
            list(connection.items(["s"])),
            connection.maintenance.stats(),
            connection.memory("s").search("refund"),
        ]
    assert run(talk, url) == expected


def test_many_requests_run_side_by_side(url: str) -> None:
    async def talk(connection: knowloom.AsyncClient) -> set[str]:
        calls = [connection.context("refund", max_tokens=60) for _ in range(20)]
        return {context.text for context in await asyncio.gather(*calls)}

    assert len(run(talk, url, concurrency=4)) == 1


def test_errors_are_those_of_the_engine(url: str) -> None:
    async def talk(connection: knowloom.AsyncClient) -> None:
        with pytest.raises(knowloom.NotFound, match="unknown space 'x'"):
            await connection.get("a", space="x")
        with pytest.raises(knowloom.Invalid, match="limit"):
            await connection.search("refund", limit=0)

    run(talk, url)
    with pytest.raises(knowloom.Invalid, match="concurrency must be"):
        knowloom.AsyncClient(url, concurrency=0)


def test_a_conversation_continues_over_http(url: str) -> None:
    async def talk(connection: knowloom.AsyncClient) -> None:
        turns: dict[str, Any] = {"max_tokens": 400, "new_tokens": 40}
        first = await connection.context("refund number 1", **turns)
        second = await connection.context("refund number 5", after=first, **turns)
        assert second.prefix == len(first.text) and second.text.startswith(first.text)
        third = await connection.context("refund number 5", max_tokens=60, seen=[second, "i0"])
        shown = {hit.item.id for fragment in second.fragments for hit in fragment.hits}
        text = [c for f in third.fragments for c in f.chosen if c.form != "pointer"]
        assert not shown & {chosen.hit.item.id for chosen in text}

    run(talk, url)
