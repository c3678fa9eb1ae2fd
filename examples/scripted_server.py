"""An OpenAI-compatible chat server on loopback that calls a tool once and answers from it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Row = dict[str, Any]


@contextmanager
def scripted_server() -> Iterator[str]:
    """Run the server; yield its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chat)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [_choice(body)],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _choice(body: Row) -> Row:
    last = body["messages"][-1]
    if last["role"] == "tool":
        return {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": answer(last["content"])},
        }
    function = {
        "name": body["tools"][0]["function"]["name"],
        "arguments": json.dumps({"query": last["content"]}),
    }
    call = {"id": "call-1", "type": "function", "function": function}
    return {
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, "tool_calls": [call]},
    }


def answer(knowledge: str) -> str:
    """Return the first piece of knowledge, which a model would rephrase."""
    return knowledge.split("\n### ")[1].strip()
