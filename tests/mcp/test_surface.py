"""The standing surface: its cost, its schemas, and the arguments that tools accept."""

from __future__ import annotations

import json

import pytest

import knowloom
from cli_runs import run, run_json
from knowloom import Invalid
from knowloom.conversation.shown_record import ShownRecord
from knowloom.mcp import surface
from knowloom.mcp.tools import HANDLERS


@pytest.mark.parametrize("spaces", [["one"], ["one", "two"]])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_surface_costs_at_most_700_tokens(spaces: list[str], read_only: bool) -> None:
    assert surface.measure_surface(spaces, read_only=read_only).total <= 700


def test_the_command_prints_the_cost() -> None:
    row = run_json("mcp --cost --space support")
    assert row["total"] == sum(row["parts"].values()) <= row["limit"] == 700
    assert str(row["total"]) in run("mcp --cost --space support").stdout


def test_every_tool_has_a_handler_and_a_bounded_schema() -> None:
    assert {tool.name for tool in surface.TOOLS} == set(HANDLERS)
    for tool in surface.TOOLS:
        schema = tool.to_json()["inputSchema"]
        assert set(schema["required"]) <= set(schema["properties"])
        assert "outputSchema" not in tool.to_json()


def test_only_writing_tools_are_absent_from_a_read_only_surface() -> None:
    tools = surface.list_tools(["one"], read_only=True)
    assert [tool.name for tool in tools] == ["context", "search", "read", "related"]
    assert all(tool.annotations()["readOnlyHint"] for tool in tools)


def test_only_forget_destroys() -> None:
    hints = {tool.name: tool.annotations().get("destructiveHint") for tool in surface.TOOLS}
    assert [name for name, destroys in hints.items() if destroys] == ["forget"]
    assert hints["remember"] is False


def test_no_tool_asks_for_a_space_where_one_is_served() -> None:
    one, two = (surface.list_tools(spaces, read_only=False) for spaces in (["a"], ["a", "b"]))
    assert not [tool for tool in one if "space" in tool.arguments]
    assert all("space" in tool.arguments for tool in two)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'question' is missing"),
        ({"question": 5}, "question must be of type string, got 5"),
        ({"question": "x", "budget": 0}, "budget must be from 100 to 100000, got 0"),
        ({"question": "x", "budget": 10**9}, "budget must be from 100 to 100000, got 1000000000"),
        ({"question": "x", "budget": True}, "budget must be of type integer, got True"),
        ({"question": "x", "budget": "many"}, "budget must be of type integer, got 'many'"),
        ({"question": "x", "color": 1}, "unknown argument 'color'; available: question"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        surface.TOOLS[0].parse(arguments)


@pytest.mark.parametrize("client", ["claude-code", "claude-desktop", "cursor", "vscode", "codex"])
def test_the_settings_of_a_client_start_the_server(client: str) -> None:
    import tomllib

    text = run_json(f"mcp config --client {client} --space 'two words' --read-only kb.db")["text"]
    settings = tomllib.loads(text) if client == "codex" else json.loads(text)
    (servers,) = settings.values()
    arguments = servers["knowloom"]["args"]
    assert arguments[:3] == ["-m", "knowloom", "mcp"]
    assert arguments[-3:] == ["--space", "two words", "--read-only"]


def test_only_connections_that_remember_can_repeat() -> None:
    forgetful = surface.list_tools(["one"], read_only=False, remembers=False)
    assert "again" in surface.TOOLS[0].arguments and "again" not in forgetful[0].arguments


def test_the_record_of_shown_items_is_bounded() -> None:
    record = ShownRecord(limit=3)
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([knowloom.Item(f"i{n}", "s", text=f"refund number {n}") for n in range(5)])
        record.add(kb.context("refund"))
        assert len(record.entries()) == 3
        assert {entry.id for entry in record.entries()} <= {f"i{n}" for n in range(5)}
    record.clear()
    assert record.entries() == ()
