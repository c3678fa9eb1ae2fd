"""The server over streamable HTTP: an ASGI application that answers each request on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from knowloom.mcp.access import KnowledgeAccess
from knowloom.mcp.protocol import KnowledgeProtocol, ThreadRunner

Message = MutableMapping[str, Any]  # of ASGI
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class StreamableServer:
    """Answers are JSON, and there are no sessions: any process can answer any request."""

    def __init__(
        self, open_access: Callable[[Any], KnowledgeAccess], run: ThreadRunner, max_body: int
    ) -> None:
        """`open_access` returns the access of an HTTP request; `max_body` is in bytes."""
        protocol = KnowledgeProtocol(lambda context: open_access(context.request), run)
        self._server, self._max_body = protocol.create_server(), max_body

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        size = self._max_body
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=size
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)
