"""A scripted server on loopback in place of a paid service: the parts that all fakes share."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, Self, TypeVar

Step = TypeVar("Step")


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a client sent."""

    path: str
    authorization: str
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts of a request for embeddings."""
        texts = self.body["input"]
        return [texts] if isinstance(texts, str) else list(texts)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages of a request to a chat model."""
        return list(self.body["messages"])


class FakeServer(Generic[Step]):
    """A server whose requests take the next step of the script each, `afterwards` when it ends."""

    def __init__(self, script: list[Step], afterwards: Step, handler: type[Handler]) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._afterwards = afterwards
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (handler,), {"fake": self}))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Return when all connections are closed."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_step(self, request: Request) -> Step:
        with self._lock:
            self.requests.append(request)
            return self.script.pop(0) if self.script else self._afterwards


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing the server waits for its connections


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.0: one request per connection, so nothing stays open."""

    fake: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(self.path, self.headers.get("Authorization", ""), body)
        self.take(self.fake.next_step(request), request)

    def take(self, step: Any, request: Request) -> None:
        raise NotImplementedError

    def send(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body.encode())),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""
