"""The server on standard input and output: one process for one client."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from mcp.server.stdio import stdio_server

from knowloom.mcp.access import KnowledgeAccess
from knowloom.mcp.protocol import KnowledgeProtocol


def serve_stdio(access: Future[KnowledgeAccess]) -> None:
    """Answer requests until the client closes the input.

    The knowledge may still be opening: the first request that needs it waits.
    """
    protocol = KnowledgeProtocol(lambda _: access.result(), asyncio.to_thread)
    asyncio.run(_serve(protocol))


async def _serve(protocol: KnowledgeProtocol) -> None:
    server = protocol.create_server()
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
