"""Retries, failures, keys and URLs of the client."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from client_helpers import failure, node

import knowloom
from knowloom import Client, Conflict, Edge, Engine, Forbidden, Invalid, NotFound, Unavailable
from knowloom.errors import Corrupt, MissingExtra
from knowloom.outbound_http import RetryPolicy
from knowloom.registry import open_stores
from knowloom.server.auth import Keyring
from knowloom.wire.knowledge import report_to_json
from live_server import NOW, serving
from paths import ROOT


@contextmanager
def scripted(*answers: tuple[int, dict[str, str], object]) -> Iterator[tuple[str, list[str]]]:
    """Serve these answers in turn, then repeat the last; yield the URL and the paths requested."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            requested.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, headers, body = answers[min(len(requested), len(answers)) - 1]
            if status == 0:  # hang up
                self.close_connection = True
                return
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (
                headers | {"Content-Length": str(len(content)), "Connection": "close"}
            ).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requested
        server.shutdown()
        thread.join()


def problem(status: int, code: str, wait: str = "") -> tuple[int, dict[str, str], object]:
    return (
        status,
        {"Retry-After": wait} if wait else {},
        {"status": status, "code": code, "detail": "sorry"},
    )


GOOD = (200, {}, {"ok": True, "problems": []})


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(RetryPolicy.run, "__defaults__", (waits.append,))
    return waits


class TestServers:
    def test_a_busy_server_is_retried_after_the_requested_wait(
        self, no_waiting: list[float]
    ) -> None:
        with (
            scripted(problem(429, "rate_limited", "7"), problem(503, "unavailable"), GOOD) as (
                url,
                requested,
            ),
            Client(url) as client,
        ):
            assert client.verify() == []
        assert (len(requested), no_waiting) == (3, [7.0, 0.4])

    def test_a_server_that_stays_busy_is_unavailable(self, no_waiting: list[float]) -> None:
        with (
            scripted(problem(429, "rate_limited", "1")) as (url, requested),
            Client(url, max_retries=3) as client,
        ):
            assert failure(client.verify) == (Unavailable, "rate_limited")
        assert len(requested) == 4

    def test_no_wait_exceeds_the_timeout(self, no_waiting: list[float]) -> None:
        with (
            scripted(problem(429, "rate_limited", "3600"), GOOD) as (url, requested),
            Client(url) as client,
        ):
            assert failure(client.verify) == (Unavailable, "rate_limited")
        assert (len(requested), no_waiting) == (1, [])

    @pytest.mark.parametrize("answer", [problem(503, "unavailable"), (0, {}, "")])
    def test_a_write_is_not_sent_twice(self, no_waiting: list[float], answer: Any) -> None:
        with scripted(answer) as (url, requested), Client(url) as client:
            assert failure(lambda: client.add(node("a"))) == (Unavailable, "unavailable")
        assert len(requested) == 1

    def test_a_rate_limited_write_is_retried(self, no_waiting: list[float]) -> None:
        with (
            scripted(
                problem(429, "rate_limited", "1"),
                (200, {}, report_to_json(knowloom.Report(added=1))),
            ) as (url, _),
            Client(url) as client,
        ):
            assert client.add(node("a")) == knowloom.Report(added=1)

    def test_a_read_survives_a_lost_connection(self, no_waiting: list[float]) -> None:
        with scripted((0, {}, ""), GOOD) as (url, requested), Client(url) as client:
            assert client.verify() == []
        assert len(requested) == 2

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (problem(400, "malformed"), (Invalid, "malformed")),
            (problem(413, "body_too_large"), (Invalid, "body_too_large")),
            (problem(401, "key_required"), (Forbidden, "key_required")),
            (problem(412, "precondition_failed"), (Conflict, "precondition_failed")),
            (problem(500, "corrupt"), (Corrupt, "corrupt")),
            (problem(500, "error"), (Unavailable, "error")),
            (problem(501, "missing_extra"), (MissingExtra, "missing_extra")),
            ((502, {}, "<html>bad gateway"), (Unavailable, "unavailable")),
            ((302, {"Location": "/elsewhere"}, ""), (Unavailable, "unavailable")),
            ((200, {}, "<html>hello"), (Unavailable, "unavailable")),
            ((200, {}, {"other": 1}), (Unavailable, "unavailable")),
            ((200, {}, []), (Unavailable, "unavailable")),
        ],
    )
    def test_every_response_is_a_value_or_a_knowloom_error(
        self, answer: Any, expected: tuple[type, str]
    ) -> None:
        with scripted(answer) as (url, _), Client(url, max_retries=0) as client:
            assert failure(client.verify) == expected

    def test_a_server_that_is_down_is_unavailable(self, no_waiting: list[float]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with Client(url) as client:
            assert failure(lambda: client.context("x", spaces=["s"])) == (
                Unavailable,
                "unavailable",
            )
        assert len(no_waiting) == 2

    def test_a_server_that_does_not_answer_in_time_is_unavailable(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with (
                Client(url, timeout_s=0.1, max_retries=0) as client,
                pytest.raises(Unavailable, match=r"0\.1 s"),
            ):
                client.maintenance.stats()


class TestKeys:
    def test_a_key_grants_its_spaces_and_is_never_shown(self, tmp_path: Path) -> None:
        keyring = Keyring(tmp_path / "keys.json")
        _, secret = keyring.add(
            "reader", reads=["s"], writes=[], role="viewer", tier="teams", now=NOW
        )
        with Engine(open_stores("memory:", {}), clock=lambda: NOW) as engine:
            engine.add([node("a"), node("b", space="secret")])
            with serving(engine, keyring) as url, Client(url, key=secret) as client:
                assert [item.key for item in client.items()] == [("s", "a")]
                calls: list[Callable[[], object]] = [
                    lambda: client.get("b", space="secret"),
                    lambda: client.context("x", spaces=["s", "secret"]),
                    lambda: list(client.items(["secret"], limit=9)),
                    lambda: list(client.edges(["secret"], limit=9)),
                    lambda: client.add(node("c")),
                    lambda: client.load({"items": [{"id": "c", "text": "x"}]}, space="s"),
                    lambda: client.delete("a", space="s"),
                    lambda: client.delete_edges([Edge("a", "b", space="s")]),
                    client.maintenance.stats,
                    client.verify,
                    client.maintenance.embed,
                    client.reindex,
                ]
                assert [failure(call) for call in calls] == [(Forbidden, "forbidden")] * len(calls)
                assert secret not in repr(client) + str(vars(client))
                assert failure(lambda: list(client.items(["secret"]))) == (
                    NotFound,
                    "unknown_space",
                )

    def test_a_writer_is_restricted_to_its_spaces(self, tmp_path: Path) -> None:
        keyring = Keyring(tmp_path / "keys.json")
        _, secret = keyring.add(
            "writer", reads=[], writes=["s"], role="editor", tier="teams", now=NOW
        )
        with Engine(open_stores("memory:", {}), clock=lambda: NOW) as engine:
            engine.add(node("b", space="secret"))
            with serving(engine, keyring) as url, Client(url, key=secret) as client:
                assert client.add(node("a")) == knowloom.Report(added=1)
                calls: list[Callable[[], object]] = [
                    lambda: client.add([node("c"), node("c", space="secret")]),
                    lambda: client.add([], [Edge("a", "b", space="s", target_space="secret")]),
                    lambda: client.add(node("c"), expected={("secret", "b"): ""}),
                    lambda: client.delete("a", space="s", expected={("secret", "b"): ""}),
                    lambda: client.load({"items": [{"id": "c", "text": "x", "space": "secret"}]}),
                    lambda: client.load(
                        {
                            "edges": [
                                {
                                    "source": "a",
                                    "target": "b",
                                    "space": "s",
                                    "target_space": "secret",
                                }
                            ]
                        }
                    ),
                ]
                assert [failure(call) for call in calls] == [(Forbidden, "forbidden")] * len(calls)

    def test_a_wrong_key_is_rejected_without_being_quoted(self, tmp_path: Path) -> None:
        with (
            Engine(open_stores("memory:", {})) as engine,
            serving(engine, Keyring(tmp_path / "keys.json")) as url,
        ):
            client = Client(url, key="knowloom_0_secret")
            with client, pytest.raises(Forbidden) as caught:
                client.maintenance.stats()
        assert caught.value.code == "key_required"
        assert "knowloom_0_secret" not in str(caught.value) + repr(client)

    def test_a_server_that_repeats_the_key_is_not_quoted(self) -> None:
        with scripted(
            (403, {}, {"code": "forbidden", "detail": "no access with knowloom_0_secret"})
        ) as (url, _):
            client = Client(url, key="knowloom_0_secret")
            with client, pytest.raises(Forbidden, match=r"no access with \[key\]"):
                client.maintenance.stats()

    @pytest.mark.parametrize(
        "url",
        [
            "knowledge.db",
            "ftp://host",
            "http://",
            "http://me:knowloom_0_secret@host",
            "http://host:port",
            7,
        ],
    )
    def test_an_invalid_url_is_rejected(self, url: Any) -> None:
        with pytest.raises(Invalid) as caught:
            Client(url)
        assert "knowloom_0_secret" not in str(caught.value)

    def test_an_invalid_key_is_rejected_without_being_quoted(self) -> None:
        with pytest.raises(Invalid) as caught:
            Client("http://localhost", key="söcret\n1")
        assert "cret" not in str(caught.value)


def test_a_missing_package_names_the_extra_to_install() -> None:
    script = (
        "import sys; sys.modules['httpx'] = None\nimport knowloom\n"
        "try: knowloom.Client\nexcept knowloom.MissingExtra as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "package 'httpx' is not installed: pip install 'knowloom[client]'\n"
