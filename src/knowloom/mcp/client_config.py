"""The block to paste into the settings of a client, so that it starts the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knowloom.errors import unknown_name


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings of a client: the file that they belong to, and their text."""

    file: str
    text: str


def _json_block(key: str, command: Sequence[str], **fields: str) -> str:
    program, *arguments = command
    server = {**fields, "command": program, "args": arguments}
    return json.dumps({key: {"knowloom": server}}, indent=2, ensure_ascii=False)


def _toml_block(command: Sequence[str]) -> str:
    """Return TOML; JSON strings without surrogates are basic strings of TOML."""
    program, *arguments = (json.dumps(word, ensure_ascii=False) for word in command)
    lines = ["[mcp_servers.knowloom]", f"command = {program}", f"args = [{', '.join(arguments)}]"]
    return "\n".join(lines)


_Writer = Callable[[Sequence[str]], str]
CLIENTS: dict[str, tuple[str, _Writer]] = {
    "claude-code": (
        ".mcp.json of the project",
        lambda command: _json_block("mcpServers", command, type="stdio"),
    ),
    "claude-desktop": (
        "claude_desktop_config.json (Settings > Developer > Edit Config)",
        lambda command: _json_block("mcpServers", command),
    ),
    "cursor": (
        ".cursor/mcp.json of the project, or ~/.cursor/mcp.json",
        lambda command: _json_block("mcpServers", command),
    ),
    "vscode": (
        ".vscode/mcp.json of the workspace",
        lambda command: _json_block("servers", command, type="stdio"),
    ),
    "codex": ("~/.codex/config.toml", _toml_block),
}


def format_config(client: str, command: Sequence[str]) -> ClientConfig:
    """Return the settings with which a client runs the command."""
    if client not in CLIENTS:
        raise unknown_name("client", client, CLIENTS)
    file, write = CLIENTS[client]
    return ClientConfig(file, f"{write(command)}\n")
