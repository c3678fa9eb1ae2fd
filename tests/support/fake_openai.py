"""An OpenAI-compatible embeddings server on loopback that misbehaves on demand."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from typing import Any

from fake_server import FakeServer, Handler, Request

MAX_CHARS = 30_000  # about the 8,191 tokens after which OpenAI refuses a text
STATUS = re.compile(r"(\d{3})(?: after (.+)| echoing the (key|text)| with body (.*))?", re.DOTALL)
Row = dict[str, Any]


class FakeOpenAI(FakeServer[str]):
    """A server of POST /v1/embeddings: a vector depends on its text alone and is not a unit vector.

    Empty and very long texts are rejected, as the real service does.

        with FakeOpenAI(script=["500", "ok"]) as server:
            ... server.base_url, server.requests

    Each request takes the next behaviour of the script; after the last one everything is "ok".
    A behaviour is a name in CONNECTIONS, BODIES or VECTORS, or a status such as "500". A status
    has variants: "429 after 7" (Retry-After: 7), "401 echoing the key", "400 echoing the text"
    and "404 with body ...".
    """

    def __init__(self, script: Iterable[str] = (), dimensions: int = 8) -> None:
        super().__init__([validate_behaviour(behaviour) for behaviour in script], "ok", _Handler)
        self.dimensions = dimensions

    def rows(self, request: Request) -> list[Row]:
        dimensions = request.body.get("dimensions", self.dimensions)
        return [
            {"object": "embedding", "index": index, "embedding": vector(text, dimensions)}
            for index, text in enumerate(request.texts)
        ]


def validate_behaviour(behaviour: str) -> str:
    """Return the behaviour if it exists: a misspelt one would look like a lost connection."""
    if behaviour in BODIES or behaviour in CONNECTIONS or STATUS.fullmatch(behaviour):
        return behaviour
    available = ", ".join([*BODIES, *CONNECTIONS])
    raise ValueError(f"unknown behaviour {behaviour!r}; available: {available} or a status")


def vector(text: str, dimensions: int) -> list[float]:
    chance = random.Random(text)
    return [chance.gauss(0, 3) for _ in range(dimensions)]


class _Handler(Handler):
    fake: FakeOpenAI

    def take(self, step: str, request: Request) -> None:
        if status := STATUS.fullmatch(step):
            self.refuse(int(status[1]), request, *status.groups()[1:])
        elif step in CONNECTIONS:
            CONNECTIONS[step](self)
        else:
            self.answer(step, request)

    def refuse(
        self,
        status: int,
        request: Request,
        retry_after: str | None,
        echo: str | None,
        body: str | None,
    ) -> None:
        texts = {"key": request.authorization, "text": " ".join(request.texts), None: ""}[echo]
        headers = {"Retry-After": retry_after} if retry_after else {}
        self.send(
            status, as_error(f"refused with {status}. {texts}") if body is None else body, headers
        )

    def answer(self, behaviour: str, request: Request) -> None:
        if self.path != "/v1/embeddings":
            self.send(404, as_error("no such path"))
        elif not all(0 < len(text) <= MAX_CHARS for text in request.texts):
            self.send(400, as_error("input is empty or too long"))
        else:
            self.send(200, BODIES[behaviour](self.fake.rows(request)))

    def stay_silent(self) -> None:
        self.fake.closing.wait()

    def drop(self) -> None:
        """Returning closes the connection."""

    def break_off(self) -> None:
        self.send(200, '{"data": [', {"Content-Length": "1000"})

    def garble(self) -> None:
        self.send(200, "not compressed", {"Content-Encoding": "gzip"})


def as_error(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}})


def as_data(rows: list[Row]) -> str:
    return json.dumps({"object": "list", "data": rows, "model": "fake"})


def with_vectors(change: Callable[[list[float]], object]) -> Callable[[list[Row]], str]:
    """Return a function that builds a body with a change of the last vector."""
    return lambda rows: as_data(
        [*rows[:-1], rows[-1] | {"embedding": change(rows[-1]["embedding"])}]
    )


CONNECTIONS: dict[str, Callable[[_Handler], None]] = {
    "slow": _Handler.stay_silent,  # until the server is closed
    "drop connection": _Handler.drop,
    "half an answer": _Handler.break_off,
    "bad compression": _Handler.garble,
}

VECTORS: dict[str, Callable[[list[float]], object]] = {
    "wrong dimensions": lambda numbers: numbers[:-1],
    "nan": lambda numbers: [float("nan"), *numbers[1:]],
    "infinity": lambda numbers: [float("inf"), *numbers[1:]],
    "overflow": lambda numbers: [1e300, *numbers[1:]],
    "huge integer": lambda numbers: [10**400, *numbers[1:]],
    "zero": lambda numbers: [0.0] * len(numbers),
    "no numbers": lambda numbers: [],
    "null": lambda numbers: None,
    "base64": lambda numbers: "AACAPwAAAEA=",
    "nested": lambda numbers: [numbers],
    "ragged": lambda numbers: [numbers, 1.0],
    "objects": lambda numbers: [{"value": number} for number in numbers],
}

BODIES: dict[str, Callable[[list[Row]], str]] = {
    "ok": as_data,
    "garbage": lambda rows: "<html>It works!</html>",
    "truncated json": lambda rows: as_data(rows)[:-20],
    "no data": lambda rows: json.dumps({"object": "list"}),
    "data is null": lambda rows: json.dumps({"object": "list", "data": None}),
    "rows are texts": lambda rows: json.dumps({"data": ["a", "b"]}),
    "a bare list": lambda rows: json.dumps([row["embedding"] for row in rows]),
    "no index": lambda rows: as_data([{"embedding": row["embedding"]} for row in rows]),
    "error with status 200": lambda rows: as_error("model is loading"),
    "shuffled": lambda rows: as_data(rows[::-1]),
    "missing row": lambda rows: as_data(rows[:-1]),
    "extra row": lambda rows: as_data([*rows, rows[0] | {"index": len(rows)}]),
    "repeated row": lambda rows: as_data([*rows, rows[0]]),
    "same index twice": lambda rows: as_data([row | {"index": 0} for row in rows]),
    **{name: with_vectors(change) for name, change in VECTORS.items()},
}
