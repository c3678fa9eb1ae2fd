"""An OpenAI-compatible chat server on loopback that answers by a script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fake_server import FakeServer, Handler, Request

STATUS = re.compile(r"(\d{3})(?: after (.+)| echoing the (key|text))?")
CONNECTIONS = ("slow", "drop connection", "garbage", "no choices", "content is a list")


@dataclass(frozen=True, slots=True)
class Say:
    """An answer of the model."""

    text: str | None
    finish: str = "stop"
    refusal: str | None = None


class FakeLLM(FakeServer[Say | str]):
    """A server of POST /v1/chat/completions.

    Each request takes the next step of the script: a Say, a status such as "500", "429 after 7"
    or "401 echoing the key", or one of CONNECTIONS. After the last step the status is 400.

        with FakeLLM([Say("{}")]) as server:
            ... server.base_url, server.requests
    """

    def __init__(self, script: Iterable[Say | str] = ()) -> None:
        steps = list(script)
        for step in steps:
            if not (isinstance(step, Say) or step in CONNECTIONS or STATUS.fullmatch(step)):
                raise ValueError(f"unknown behaviour {step!r}")
        super().__init__(steps, "400", _Handler)


class _Handler(Handler):
    def take(self, step: Say | str, request: Request) -> None:
        if isinstance(step, Say):
            self.say(
                {"role": "assistant", "content": step.text, "refusal": step.refusal}, step.finish
            )
        elif status := STATUS.fullmatch(step):
            echo = {
                "key": request.authorization,
                "text": request.messages[-1]["content"],
                None: "",
            }[status[3]]
            self.send(
                int(status[1]),
                json.dumps({"error": {"message": f"refused. {echo}"}}),
                {"Retry-After": status[2]} if status[2] else {},
            )
        elif step == "slow":
            self.fake.closing.wait()
        elif step == "content is a list":
            self.say({"role": "assistant", "content": ["x"]}, "stop")
        elif step != "drop connection":
            self.send(200, {"garbage": "<html>", "no choices": "{}"}[step])

    def say(self, message: dict[str, Any], finish: str) -> None:
        self.send(
            200,
            json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}),
        )
