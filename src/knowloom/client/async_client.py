"""`knowloom.AsyncClient`: the calls of the client as coroutines, each run in a thread.

The calls are those of `Client`, wrapped one by one: no request is described twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from knowloom.client.client import Client
from knowloom.client.history import RemoteHistory
from knowloom.client.maintenance import RemoteMaintenance
from knowloom.client.memory import RemoteMemory
from knowloom.validation import validate_int

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner")
END = object()


class ThreadedCalls(Generic[Owner]):
    """Calls of an object of the client, run by the threads of an asynchronous one."""

    def __init__(self, calls: Owner, threads: ThreadPoolExecutor) -> None:
        self._calls, self._threads = calls, threads

    async def _run(self, function: Callable[[], R]) -> R:
        """Run a function in a thread, which sees the context variables of the task."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, copy_context().run, function)


def awaitable(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[ThreadedCalls[Any], P], Awaitable[R]]:
    """Return a method that awaits the call of another object."""

    @wraps(method)
    async def call(self: ThreadedCalls[Any], /, *args: P.args, **options: P.kwargs) -> R:
        return await self._run(partial(method, self._calls, *args, **options))

    return call


def iterable(
    method: Callable[Concatenate[Any, P], Iterator[R]],
) -> Callable[Concatenate[ThreadedCalls[Any], P], AsyncIterator[R]]:
    """Return a method that iterates asynchronously over what another object yields."""

    @wraps(method)
    async def iterate(
        self: ThreadedCalls[Any], /, *args: P.args, **options: P.kwargs
    ) -> AsyncIterator[R]:
        rows = await self._run(partial(method, self._calls, *args, **options))
        while (row := await self._run(partial(next, rows, cast(R, END)))) is not END:
            yield row

    return iterate


class AsyncMemory(ThreadedCalls[RemoteMemory]):
    """The memories of one workspace, as returned by `AsyncClient.memory`."""

    remember = awaitable(RemoteMemory.remember)
    forget = awaitable(RemoteMemory.forget)
    search = awaitable(RemoteMemory.search)
    search_by_vector = awaitable(RemoteMemory.search_by_vector)
    search_many = awaitable(RemoteMemory.search_many)
    build_context = awaitable(RemoteMemory.build_context)
    build_context_by_vector = awaitable(RemoteMemory.build_context_by_vector)
    preview = awaitable(RemoteMemory.preview)
    preview_by_vector = awaitable(RemoteMemory.preview_by_vector)
    analytics = awaitable(RemoteMemory.analytics)
    recorded_queries = awaitable(RemoteMemory.recorded_queries)


class AsyncHistory(ThreadedCalls[RemoteHistory]):
    """Use it as `client.history`."""

    states = awaitable(RemoteHistory.states)
    restore = awaitable(RemoteHistory.restore)
    rollback = awaitable(RemoteHistory.rollback)
    version = staticmethod(RemoteHistory.version)


class AsyncMaintenance(ThreadedCalls[RemoteMaintenance]):
    """Use it as `client.maintenance`."""

    embed = awaitable(RemoteMaintenance.embed)
    relink = awaitable(RemoteMaintenance.relink)
    stats = awaitable(RemoteMaintenance.stats)
    export = awaitable(RemoteMaintenance.export)
    backup = awaitable(RemoteMaintenance.backup)
    backups = awaitable(RemoteMaintenance.backups)
    purge = awaitable(RemoteMaintenance.purge)
    retention = awaitable(RemoteMaintenance.retention)
    set_retention = awaitable(RemoteMaintenance.set_retention)
    audit = awaitable(RemoteMaintenance.audit)


class AsyncClient(ThreadedCalls[Client]):
    """`knowloom.Client` for programs with an event loop: its calls are awaited.

    `concurrency` requests run at a time; more wait. A call that is cancelled is finished by its
    thread, and its result dropped. Use it in an `async with` block, or await `close`.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        timeout_s: float = 30.0,
        max_retries: int = 2,
        concurrency: int = 32,
    ) -> None:
        validate_int("concurrency", concurrency, 1, 1000)
        client = Client(url, key=key, timeout_s=timeout_s, max_retries=max_retries)
        super().__init__(client, ThreadPoolExecutor(concurrency, "knowloom-client"))
        self.maintenance = AsyncMaintenance(client.maintenance, self._threads)
        self.history = AsyncHistory(client.history, self._threads)

    def __repr__(self) -> str:
        return f"Async{self._calls!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish the requests under way and close the connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._calls.close()

    def memory(self, workspace: str | None = None) -> AsyncMemory:
        """Return the memories of a workspace on the server; None: of the only space of the key."""
        return AsyncMemory(self._calls.memory(workspace), self._threads)

    add = awaitable(Client.add)
    load = awaitable(Client.load)
    delete = awaitable(Client.delete)
    delete_edges = awaitable(Client.delete_edges)
    reindex = awaitable(Client.reindex)
    get = awaitable(Client.get)
    read = awaitable(Client.read)
    items = iterable(Client.items)
    edges = iterable(Client.edges)
    search = awaitable(Client.search)
    ingest = awaitable(Client.ingest)
    context = awaitable(Client.context)
    explain = awaitable(Client.explain)
    verify = awaitable(Client.verify)
    graph = awaitable(Client.graph)
    assemble = awaitable(Client.assemble)
    provide = awaitable(Client.provide)
    spaces = awaitable(Client.spaces)
    related = awaitable(Client.related)
    check = awaitable(Client.check)
