"""`/mcp` of a server: the official client over HTTP, under API keys and limits."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, MCPError

import knowloom
from http_api import NOW, bearer, create_secret
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits
from live_server import serving
from mcp_clients import converse_http, http_session, malformed_messages, text_of
from server_process import running_server

QUESTION = "How do I process a refund?"
ACCEPT = {"accept": "application/json, text/event-stream"}
CALL = {"name": "context", "arguments": {"question": QUESTION, "budget": 200}}


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys.json")


@pytest.fixture
def kb(store: Path) -> Iterator[knowloom.Engine]:
    with knowloom.open(str(store), embedder=None) as kb:
        yield kb


@pytest.fixture
def url(kb: knowloom.Engine, keyring: Keyring) -> Iterator[str]:
    with serving(kb, keyring) as url:
        yield url


@pytest.fixture
def open_url(kb: knowloom.Engine) -> Iterator[str]:
    with serving(kb) as url:
        yield url


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_a_key_with_write_access_asks_and_remembers(
    url: str, kb: knowloom.Engine, keyring: Keyring
) -> None:
    async def talk(session: ClientSession) -> str:
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["context", "search", "read", "related", "remember", "forget"]
        answer = await session.call_tool("context", {"question": QUESTION, "budget": 300})
        assert "How to process a refund" in text_of(answer)
        page = await session.call_tool("read", {"id": "process-a-refund"})
        assert "Use this for every refund request" in text_of(page)
        stored = await session.call_tool("remember", {"text": "Maya likes blue labels."})
        found = await session.call_tool("search", {"query": "blue labels", "limit": 1})
        assert stored.structured_content["id"] in text_of(found)
        primer = await session.read_resource("knowloom://primer")
        assert "support" in primer.contents[0].text
        return str(stored.structured_content["id"])

    id = converse_http(talk, url, create_secret(keyring, "editor", writes=("support",)))
    (change,) = kb.history.states(id, space="support")
    assert change.actor.startswith("editor (")


def test_a_viewer_can_neither_write_nor_see_other_spaces(url: str, keyring: Keyring) -> None:
    async def talk(session: ClientSession) -> None:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == ["context", "search", "read", "related"]
        assert not any("space" in tool.input_schema["properties"] for tool in tools)
        with pytest.raises(MCPError, match="unknown tool 'remember'"):
            await session.call_tool("remember", {"text": "x"})
        assert (await session.call_tool("read", {"id": "gross-sales"})).is_error
        found = await session.call_tool("search", {"query": "gross sales", "limit": 50})
        assert {item["space"] for item in found.structured_content["items"]} == {"support"}
        with pytest.raises(MCPError, match="no space 'analytics'; available: support"):
            await session.read_resource("knowloom://item/analytics/gross-sales")

    converse_http(talk, url, create_secret(keyring))


def test_a_filter_and_a_tier_of_the_key_apply(url: str, keyring: Keyring) -> None:
    fields: dict[str, Any] = {"reads": ["support"], "writes": [], "role": "viewer", "now": NOW}
    where = {"$type": {"$in": ["faq"]}}
    _, filtered = keyring.add("faq", tier="teams", where=where, **fields)
    _, low = keyring.add("low", tier="core", **fields)

    async def read_playbook(session: ClientSession) -> str:
        return text_of(await session.call_tool("read", {"id": "process-a-refund"}))

    assert "no item 'process-a-refund'" in converse_http(read_playbook, url, filtered)
    assert "tier" in converse_http(read_playbook, url, low)


def test_requests_without_a_valid_key_are_rejected(url: str, keyring: Keyring) -> None:
    create_secret(keyring)
    for headers in ({}, bearer("knowloom_x_y")):
        response = httpx.post(f"{url}/mcp", json=message("ping"), headers=ACCEPT | headers)
        assert (response.status_code, response.json()["code"]) == (401, "key_required")


def test_the_limits_of_the_server_apply(kb: knowloom.Engine, keyring: Keyring) -> None:
    limits = ServerLimits(requests_per_minute=4, max_body=5000)
    headers = ACCEPT | bearer(create_secret(keyring))
    with serving(kb, keyring, limits) as url:
        large = httpx.post(f"{url}/mcp", json=message("ping", x="y" * 6000), headers=headers)
        assert large.status_code == 413
        other = httpx.post(
            f"{url}/mcp", json=message("ping"), headers=headers | {"origin": "x://y"}
        )
        assert other.json()["code"] == "cross_site"
        calls = [
            httpx.post(f"{url}/mcp", json=message("tools/call", **CALL), headers=headers)
            for _ in range(5)
        ]
    assert [call.status_code for call in calls] == [200] * 4 + [429]


def test_a_query_that_takes_too_long_is_an_error(kb: knowloom.Engine) -> None:
    with serving(kb, limits=ServerLimits(query_timeout_s=1e-9)) as url:
        answer = httpx.post(f"{url}/mcp", json=message("tools/call", **CALL), headers=ACCEPT)
    result = answer.json()["result"]
    assert result["isError"] and "takes too long" in result["content"][0]["text"]


def test_other_methods_are_not_allowed(open_url: str) -> None:
    for method in ("GET", "DELETE", "PUT"):
        response = httpx.request(method, f"{open_url}/mcp", headers=ACCEPT)
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_clients_are_answered_side_by_side_by_several_processes(store: Path) -> None:
    async def ask(url: str) -> list[str]:
        async with http_session(url) as session:
            calls = [
                session.call_tool("context", {"question": QUESTION, "space": "support"})
                for _ in range(3)
            ]
            return [text_of(answer) for answer in await asyncio.gather(*calls)]

    async def run(url: str) -> set[str]:
        return {text for texts in await asyncio.gather(*map(ask, [url] * 4)) for text in texts}

    with running_server(store, "--processes", "2") as url:
        (text,) = asyncio.run(run(url))
    assert "How to process a refund" in text


def test_malformed_messages_are_refused(open_url: str) -> None:
    statuses, headers = set(), ACCEPT | {"content-type": "application/json"}
    with httpx.Client(base_url=open_url, headers=headers) as http:
        for line in malformed_messages(random.Random(11), 250):
            response = http.post("/mcp", content=line)
            statuses.add(response.status_code)
            if response.content:
                json.loads(response.content)
        answer = http.post("/mcp", json=message("tools/call", **CALL)).json()
    assert max(statuses) < 500, statuses
    assert "refund" in answer["result"]["content"][0]["text"]


def test_a_client_that_leaves_in_the_middle_does_no_harm(open_url: str) -> None:
    body = json.dumps(message("tools/call", **CALL)).encode()
    head = f"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    head += "content-type: application/json\r\naccept: application/json\r\n\r\n"
    port = httpx.URL(open_url).port
    for sent in (body[:40], body):  # within the request, and before its answer
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head.encode() + sent)
    answer = httpx.post(f"{open_url}/mcp", json=message("tools/call", **CALL), headers=ACCEPT)
    assert answer.status_code == 200
