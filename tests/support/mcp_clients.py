"""The official Python client of the Model Context Protocol, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client

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
