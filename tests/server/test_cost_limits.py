"""Tests of the limits on what a request and a key may cost."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import NOW, bearer, create_secret, serve_app
from knowloom.errors import DeadlineExceeded, Invalid
from knowloom.linking.name_labels import _WIKI_LINK
from knowloom.server.auth import Keyring
from knowloom.server.limits.rate_limit import RateLimiter, request_cost
from knowloom.server.limits.turns import KeyTurns, TooManyRequests
from knowloom.server.settings import load_keyring
from knowloom.templates.sandbox import Limits
from knowloom.templates.template import Template
from knowloom.tracing import check_deadline, limit_time, remaining_s, span


def test_large_bodies_count_as_several_requests() -> None:
    rate = RateLimiter(60, lambda: 0.0)
    assert rate.wait_s("k", request_cost(1_000_000)) == 0  # 51 of 60
    assert rate.wait_s("k", request_cost(200_000)) == pytest.approx(2)
    assert rate.wait_s("k", request_cost(0)) == 0


def test_a_body_larger_than_the_limit_of_a_minute_needs_a_full_bucket() -> None:
    rate = RateLimiter(60, lambda: 0.0)
    assert rate.wait_s("k", request_cost(20_000_000)) == 0
    assert rate.wait_s("k") > 0


@pytest.mark.parametrize("chunked", [True, False])
def test_the_rate_limit_counts_bytes_with_and_without_a_length(
    store_file: Path, keyring: Keyring, chunked: bool
) -> None:
    headers = bearer(create_secret(keyring)) | {"content-type": "application/json"}
    body = b'{"query": "refund", "spaces": ["support"]}' + b" " * 70_000
    with (
        knowloom.open(str(store_file), embedder=None) as kb,
        serve_app(kb, keyring, requests_per_minute=6) as client,
    ):
        statuses = [
            client.post(
                "/api/search", content=iter([body]) if chunked else body, headers=headers
            ).status_code
            for _ in range(2)
        ]
    assert statuses == [200, 429]


def test_a_key_waits_for_its_turn_and_is_refused_beyond_its_queue() -> None:
    async def scenario() -> list[str]:
        turns, log = KeyTurns(running=1, limit=2), []
        with turns.turn("busy") as first, turns.turn("busy") as second:
            await first.wait()
            waiting = asyncio.create_task(second.wait())
            await asyncio.sleep(0)
            log.append("waits" if not waiting.done() else "runs")
            with turns.turn("other") as other:
                await other.wait()
                log.append("another key runs")
            with pytest.raises(TooManyRequests), turns.turn("busy"):
                pass
            first.release()
            await waiting
        with turns.turn("busy") as next_turn:
            await next_turn.wait()
        return [*log, "all released"]

    assert asyncio.run(scenario()) == ["waits", "another key runs", "all released"]


def test_a_query_ends_at_its_deadline_and_a_write_does_not(store_file: Path) -> None:
    with (
        knowloom.open(str(store_file), embedder=None) as kb,
        serve_app(kb, query_timeout_s=1e-9) as client,  # type: ignore[arg-type]
    ):
        response = client.post("/api/search", json={"query": "refund", "spaces": ["support"]})
        assert (response.status_code, response.json()["code"]) == (504, "deadline")
        item = {"id": "new", "type": "faq", "text": "x"}
        assert client.post("/api/spaces/support/items", json=item).status_code == 201


def test_spans_check_the_deadline_of_the_block() -> None:
    with limit_time(1e-9), pytest.raises(DeadlineExceeded), span("search"):
        pass
    with limit_time(0), span("search"):
        assert remaining_s() is None
    check_deadline()


def test_posted_templates_have_little_memory_and_processor_time() -> None:
    small = Limits(memory_mb=64, cpu_s=0.25, timeout_s=60, fuel=10**9)
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(Invalid, match="250 ms of processor time"):
        Template(endless, limits=small).render("t", {})
    assert Template("{{ a }}", limits=small).render("t", {"a": "fine"}) == "fine"


def test_wiki_links_are_found_and_bounded() -> None:
    text = "[[Refunds]] [[Refunds#Late|late ones]] [[ [[ [[Open"
    assert _WIKI_LINK.findall(text) == ["Refunds", "Refunds"]
    assert _WIKI_LINK.findall("[" * 1_000_000) == []


@pytest.mark.parametrize(
    "host", ["localhost:80x", "localhost:", "localhost:123456", "[::1", "local host", "a@localhost"]
)
def test_a_malformed_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/spaces", headers={"host": host}).status_code == 400


def test_pages_cannot_be_framed_and_the_documentation_runs_its_own_scripts(
    client: TestClient,
) -> None:
    page = client.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy and "script-src 'self' 'sha256-" in policy
    assert client.get("/api/spaces").headers["x-frame-options"] == "DENY"


class TestKeys:
    def test_a_key_expires(self, tmp_path: Path) -> None:
        now = [NOW]
        keyring = Keyring(tmp_path / "keys.json", clock=lambda: now[0])
        rights = {"reads": ["s"], "writes": [], "role": "viewer", "tier": "teams"}
        _, secret = keyring.add("k", **rights, now=NOW, expires_at=NOW + timedelta(days=1))
        assert keyring.find(secret) and len(keyring.active()) == 1
        now[0] += timedelta(days=1)
        assert keyring.find(secret) is None and keyring.active() == []
        with pytest.raises(Invalid, match="in the future"):
            keyring.add("k", **rights, now=NOW, expires_at=NOW)

    def test_a_rotated_key_is_valid_during_the_overlap(self, tmp_path: Path) -> None:
        now = [NOW]
        keyring = Keyring(tmp_path / "keys.json", clock=lambda: now[0])
        old = create_secret(keyring)
        key, new = keyring.rotate(old.split("_")[1], NOW, timedelta(days=7))
        assert (key.name, key.reads, key.role) == ("viewer", ("support",), "viewer")
        assert keyring.find(old) and keyring.find(new)
        now[0] += timedelta(days=7)
        assert keyring.find(old) is None and keyring.find(new)
        with pytest.raises(Invalid, match="has expired"):
            keyring.rotate(old.split("_")[1], now[0], timedelta(days=7))

    def test_the_last_use_is_recorded_to_the_minute(self, tmp_path: Path) -> None:
        now = [NOW]
        keyring = Keyring(tmp_path / "keys.json", clock=lambda: now[0])
        secret = create_secret(keyring)
        id = secret.split("_")[1]
        assert keyring.uses.last_used(id) is None
        for seconds in (0, 30, 90):
            now[0] = NOW + timedelta(seconds=seconds)
            keyring.find(secret)
        assert keyring.uses.last_used(id) == NOW + timedelta(seconds=90)
        assert keyring.find(f"knowloom_{id}_wrong") is None
        assert os.listdir(tmp_path / "keys.used") == [id]

    def test_the_first_key_closes_a_running_server(self, store_file: Path) -> None:
        file = store_file.with_name("keys.json")
        keyring = load_keyring("127.0.0.1", file)
        with (
            knowloom.open(str(store_file), embedder=None) as kb,
            serve_app(kb, keyring) as client,
        ):
            assert client.get("/api/key").json()["open"]
            secret = create_secret(Keyring(file))
            assert client.get("/api/spaces").status_code == 401
            assert not client.get("/api/key", headers=bearer(secret)).json()["open"]
            file.unlink()
            assert client.get("/api/spaces").status_code == 401
