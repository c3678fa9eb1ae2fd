"""A scripted OpenAI-compatible chat endpoint on loopback, for examples without an API key."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen


class ScriptedLLM:
    """A server that replies with the first rule whose words are all in the messages.

    with ScriptedLLM([(("hello",), "Hello!")]) as llm:
        ask(llm.base_url, "hello there")
    """

    def __init__(self, rules: Sequence[tuple[Sequence[str], str]]) -> None:
        self.rules = rules
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"llm": self})
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ScriptedLLM:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, messages: Sequence[dict[str, Any]]) -> str:
        prompt = "\n".join(str(message["content"]) for message in messages)
        return next(
            (reply for words, reply in self.rules if all(word in prompt for word in words)),
            "I do not know.",
        )


class _Handler(BaseHTTPRequestHandler):
    llm: ScriptedLLM

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        message = {"role": "assistant", "content": self.llm.reply(body["messages"])}
        answer = json.dumps(
            {
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        )
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer.encode())))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing: the example prints the answers."""


def ask(base_url: str, text: str, model: str = "scripted") -> str:
    """Send one message to a chat endpoint and return its reply."""
    body = json.dumps(
        {"model": model, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    ).encode()
    request = Request(f"{base_url}/chat/completions", body, {"content-type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        reply: str = json.load(answer)["choices"][0]["message"]["content"]
    return reply
