"""`knowloom mcp` on standard streams, as the official client and broken ones use it."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, MCPError

import knowloom
from knowloom.tokens import get_counter
from mcp_clients import TIMEOUT_S, converse, malformed_messages, server_environment, text_of

count = get_counter("gpt-4").count
QUESTION = "How do I process a refund?"


def test_an_agent_asks_follows_and_remembers(store: Path) -> None:
    async def talk(session: ClientSession) -> None:
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["context", "search", "read", "related", "remember", "forget"]
        answer = await session.call_tool("context", {"question": QUESTION, "budget": 300})
        assert "How to process a refund" in text_of(answer)
        assert count(text_of(answer)) <= 300
        cited = [citation["id"] for citation in answer.structured_content["citations"]]
        page = await session.call_tool("read", {"id": cited[0]})
        assert cited[0] in text_of(page)
        neighbours = await session.call_tool("related", {"id": "process-a-refund"})
        assert '"How to process a refund" REQUIRES "Refund approval limits"' in text_of(neighbours)
        stored = await session.call_tool("remember", {"text": "Maya likes blue labels."})
        again = await session.call_tool("remember", {"text": "Maya likes blue labels."})
        id = stored.structured_content["id"]
        assert again.structured_content["id"] == id
        found = await session.call_tool("search", {"query": "blue labels", "limit": 1})
        assert id in text_of(found)
        assert not (await session.call_tool("forget", {"id": id})).is_error
        assert (await session.call_tool("forget", {"id": id})).is_error

    converse(talk, store, "--space", "support")


def test_a_connection_does_not_show_the_same_text_twice(store: Path) -> None:
    async def talk(session: ClientSession) -> None:
        asked = {"question": QUESTION, "budget": 600}
        first, second = [await session.call_tool("context", asked) for _ in range(2)]
        again = await session.call_tool("context", asked | {"again": True})
        cited, fresh = (
            {citation["id"] for citation in answer.structured_content["citations"]}
            for answer in (first, second)
        )
        assert cited and not cited & fresh
        named = second.structured_content["shown_before"]
        assert {item["id"] for item in named} <= cited
        assert "Shown before" in text_of(second) and count(text_of(second)) <= 600
        assert text_of(again) == text_of(first)

    converse(talk, store, "--space", "support")


def test_mistakes_are_answered_with_advice(store: Path) -> None:
    async def talk(session: ClientSession) -> None:
        for tool, arguments, advice in (
            ("read", {"id": "process-a-refnd"}, "similar: 'process-a-refund'"),
            ("related", {"id": "process-a-refnd"}, "similar: 'process-a-refund'"),
            ("read", {"id": "process-a-refund", "page": 99}, "page must be"),
            ("context", {"question": QUESTION, "budget": 0}, "from 100 to 100000"),
            ("context", {"question": "x" * 1_000_000}, "at most 100,000 characters"),
            ("context", {"question": "?!"}, "word"),
            ("forget", {"id": "process-a-refund"}, "only memories can be forgotten"),
            ("remember", {"text": " "}, "must not be empty"),
            ("remember", {"text": "aws AKIAQYLPMN5HHHFPZAM2 wJalrXUtnFEMI"}, "<SECRET>"),
        ):
            result = await session.call_tool(tool, arguments)
            assert result.is_error and advice in text_of(result), (tool, text_of(result))
        with pytest.raises(MCPError, match="unknown tool 'nope'; available: context"):
            await session.call_tool("nope", {})

    converse(talk, store, "--space", "support")


def test_other_spaces_are_out_of_reach(store: Path) -> None:
    async def talk(session: ClientSession) -> None:
        read = await session.call_tool("read", {"id": "gross-sales"})
        assert read.is_error
        found = await session.call_tool("search", {"query": "gross sales", "limit": 50})
        assert {item["space"] for item in found.structured_content["items"]} == {"support"}
        with pytest.raises(MCPError, match="no space 'analytics'; available: support"):
            await session.read_resource("knowloom://item/analytics/gross-sales")
        primer = await session.read_resource("knowloom://primer")
        assert "analytics" not in primer.contents[0].text

    converse(talk, store, "--space", "support")


def test_a_read_only_connection_cannot_write(store: Path) -> None:
    async def talk(session: ClientSession) -> None:
        with pytest.raises(MCPError, match="unknown tool 'remember'"):
            await session.call_tool("remember", {"text": "x"})

    converse(talk, store, "--read-only")


def test_resources_are_listed_completed_and_read(store: Path) -> None:
    async def talk(session: ClientSession) -> None:
        from mcp.types import ResourceTemplateReference

        (primer,) = (await session.list_resources()).resources
        (template,) = (await session.list_resource_templates()).resource_templates
        reference = ResourceTemplateReference(uri=template.uri_template)
        argument = {"name": "id", "value": "process-a"}
        completed = await session.complete(reference, argument, {"space": "support"})
        assert completed.completion.values == ["process-a-refund"]
        spaces = await session.complete(reference, {"name": "space", "value": "s"})
        assert spaces.completion.values == ["shared", "support"]
        item = await session.read_resource("knowloom://item/support/process-a-refund")
        assert "Use this for every refund request" in item.contents[0].text
        text = (await session.read_resource(primer.uri)).contents[0].text
        assert "- support: 6" in text and count(text) <= 800
        prompt = await session.get_prompt("answer", {"question": QUESTION})
        text = prompt.messages[0].content.text
        assert QUESTION in text and count(text) <= 2000

    converse(talk, store)


def test_answers_with_long_names_stay_within_their_budgets(tmp_path: Path) -> None:
    file, long = tmp_path / "kb.db", "título largo 長い " * 400
    with knowloom.open(str(file), embedder=None) as kb:
        text = "# A heading that is long " + long[:900] + "\n\n" + "refunds take days. " * 4000
        ids = [f"{n}-" + "ü" * 480 for n in range(30)]
        kb.add([knowloom.Item(id, "s", title=long, text=text, type="t" * 400) for id in ids])

    async def talk(session: ClientSession) -> None:
        for tool, arguments, budget in (
            ("context", {"question": "refunds", "budget": 100}, 100),
            ("context", {"question": "refunds", "budget": 177}, 177),
            ("search", {"query": "refunds", "limit": 50}, 2000),
            ("read", {"id": ids[0]}, 2000),
            ("read", {"id": ids[0], "page": 3}, 2000),
            ("read", {"id": "ü" * 499}, 2000),
        ):
            assert count(text_of(await session.call_tool(tool, arguments))) <= budget, tool

    converse(talk, file)


def test_a_missing_file_is_named_before_anything_is_served(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "knowloom", "mcp", str(tmp_path / "none.db")]
    ended = subprocess.run(command, capture_output=True, env=server_environment(), timeout=60)
    assert ended.returncode == 1 and ended.stdout == b"" and b"none.db" in ended.stderr


def test_a_thousand_malformed_messages_do_no_harm(store: Path) -> None:
    async def run() -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "knowloom", "mcp", str(store)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=server_environment(),
            limit=10_000_000,
        )
        assert process.stdin and process.stdout
        start = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "broken", "version": "1"},
        }
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}
        process.stdin.write(json.dumps(first).encode() + b"\n")
        assert json.loads(await process.stdout.readline())["id"] == 0
        process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        lines = malformed_messages(random.Random(7), 1000)
        call = {"name": "context", "arguments": {"question": QUESTION, "budget": 200}}
        last = {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": call}

        async def write() -> None:
            for line in [*lines, json.dumps(last).encode()]:
                process.stdin.write(line + b"\n")
                await process.stdin.drain()

        writing = asyncio.create_task(write())
        while True:  # every line of the output is a message of the protocol
            answer = json.loads(await process.stdout.readline())
            assert answer["jsonrpc"] == "2.0"
            if answer.get("id") == "last":
                break
        await writing
        process.stdin.close()
        assert await process.wait() == 0
        return answer

    answer = asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))
    assert "refund" in answer["result"]["content"][0]["text"]


def test_a_client_that_leaves_in_the_middle_loses_nothing(store: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "knowloom", "mcp", str(store), "--space", "support"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=server_environment(),
    )
    assert process.stdin
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/ca')
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors.decode()
    with knowloom.open(str(store), embedder=None) as kb:
        assert kb.verify() == []
