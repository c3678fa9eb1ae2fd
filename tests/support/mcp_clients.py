"""The official Python client of the Model Context Protocol, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from paths import ROOT

TIMEOUT_S = 120  # of a whole conversation, on a busy machine


def server_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}


def converse(
    talk: Callable[[ClientSession], Awaitable[Any]], file: Path | str, *options: str, **env: str
) -> Any:
    """Run `knowloom mcp` as a client does, and return what the conversation returns."""

    async def run() -> Any:
        async with asyncio.timeout(TIMEOUT_S), stdio_session(file, *options, **env) as session:
            return await talk(session)

    return asyncio.run(run())


@asynccontextmanager
async def stdio_session(
    file: Path | str, *options: str, **env: str
) -> AsyncIterator[ClientSession]:
    arguments = ["-m", "knowloom", "mcp", str(file), *options]
    environment = server_environment() | env
    parameters = StdioServerParameters(
        command=sys.executable, args=arguments, env=environment, cwd=ROOT
    )
    async with (
        stdio_client(parameters) as (reader, writer),
        ClientSession(reader, writer) as session,
    ):
        await session.initialize()
        yield session


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


def converse_http(
    talk: Callable[[ClientSession], Awaitable[Any]], url: str, secret: str = ""
) -> Any:
    """Hold a conversation with the endpoint of a server, and return what it returns."""

    async def run() -> Any:
        async with asyncio.timeout(TIMEOUT_S), http_session(url, secret) as session:
            return await talk(session)

    return asyncio.run(run())


@asynccontextmanager
async def http_session(url: str, secret: str = "") -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    async with (
        create_mcp_http_client(headers) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as (reader, writer, *_),
        ClientSession(reader, writer) as session,
    ):
        await session.initialize()
        yield session


def malformed_messages(chance: random.Random, number: int) -> list[bytes]:
    """Return lines that are no requests, or requests that no server can answer."""
    valid: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    seeds: list[Any] = [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b"\xff\xfe\x00",
        b"[" * 5000,
        b"1e999",
        valid,
        valid | {"params": []},
        valid | {"params": {"name": 5}},
        valid | {"params": {"name": "context", "arguments": "x"}},
        valid | {"params": {"name": "context", "arguments": {"question": {"a": [1]}}}},
        valid | {"params": {"name": "x" * 10_000}},
        valid | {"method": "nope"},
        valid | {"method": ""},
        valid | {"id": {}},
        valid | {"id": None},
        valid | {"jsonrpc": "1"},
        {"jsonrpc": "2.0", "method": "notifications/nope"},
        {"jsonrpc": "2.0", "id": 9, "result": 5},
        valid | {"method": "resources/read", "params": {"uri": "\u0000"}},
        valid | {"method": "completion/complete", "params": {"ref": {"type": "?"}}},
        valid | {"method": "initialize", "params": {"protocolVersion": 7}},
    ]
    lines = []
    for _ in range(number):
        seed = chance.choice(seeds)
        line = seed if isinstance(seed, bytes) else json.dumps(seed).encode()
        if chance.random() < 0.5 and len(line) > 2:
            place = chance.randrange(len(line))
            line = line[:place] + bytes([chance.randrange(32, 256)]) + line[place + 1 :]
        lines.append(line.replace(b"\n", b" ").replace(b"\r", b" "))
    return lines
