"""An OpenAI-compatible chat server on loopback that answers by a script."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STATUS = re.compile(r"(\d{3})(?: after (.+)| echoing the (key|text))?")
CONNECTIONS = ("slow", "drop connection", "garbage", "no choices", "content is a list")


@dataclass(frozen=True, slots=True)
class Say:
    """An answer of the model."""

    text: str | None
    finish: str = "stop"
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent."""

    path: str
    authorization: str
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, str]]:
        return list(self.body["messages"])


class FakeLLM:
    """Answers POST /v1/chat/completions. Each request takes the next step of the script: a Say, a status such as "500", "429 after 7" or
    "401 echoing the key", or one of CONNECTIONS. Behind the last step the server has nothing to say: status 400.

        with FakeLLM([Say("{}")]) as server:
            ... server.base_url, server.requests
    """

    def __init__(self, script: Iterable[Say | str] = ()) -> None:
        self.script = list(script)
        for step in self.script:
            if not (isinstance(step, Say) or step in CONNECTIONS or STATUS.fullmatch(step)):
                raise ValueError(f"no behaviour {step!r}")
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> FakeLLM:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_step(self, request: Request) -> Say | str:
        with self._lock:
            self.requests.append(request)
            return self.script.pop(0) if self.script else "400"


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing the server waits for its connections


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.0: one request per connection, so nothing stays open."""

    fake: FakeLLM

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(self.path, self.headers.get("Authorization", ""), body)
        step = self.fake.next_step(request)
        if isinstance(step, Say):
            self.say({"role": "assistant", "content": step.text, "refusal": step.refusal}, step.finish)
        elif status := STATUS.fullmatch(step):
            said = {"key": request.authorization, "text": request.messages[-1]["content"], None: ""}[status[3]]
            self.send(int(status[1]), json.dumps({"error": {"message": f"refused. {said}"}}), {"Retry-After": status[2]} if status[2] else {})
        elif step == "slow":
            self.fake.closing.wait()
        elif step == "content is a list":
            self.say({"role": "assistant", "content": ["x"]}, "stop")
        elif step != "drop connection":
            self.send(200, {"garbage": "<html>", "no choices": "{}"}[step])

    def say(self, message: dict[str, Any], finish: str) -> None:
        self.send(200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}))

    def send(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body.encode())), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""
