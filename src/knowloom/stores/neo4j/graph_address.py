"""The URL of a Neo4j database: its parts and options, and a form without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from knowloom.errors import Invalid, hide_secrets, unknown_name

DEFAULT_PORT = 7687


@dataclass(frozen=True, slots=True)
class GraphAddress:
    """A server and a database; `name` identifies both in messages."""

    scheme: str
    host: str
    port: int
    database: str = ""  # "": the default one
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_s: float = 30.0
    connect_timeout_s: float = 5.0
    is_encrypted: bool = False

    @property
    def server(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def name(self) -> str:
        return f"{self.server}/{self.database}".rstrip("/")


def parse_graph_address(url: str) -> GraphAddress:
    """Parse "neo4j://user:password@host:port/database?option=value"."""
    shown = hide_secrets(url)
    try:
        parts = urlsplit(url)
        port, host = parts.port or DEFAULT_PORT, parts.hostname or ""
    except ValueError:  # its message may have a part of the password
        host, port = "", 0
    database = unquote(parts.path.removeprefix("/")) if host else ""
    if not host or "/" in database or "@" in database or "\0" in url:
        rule = "neo4j://user:password@host:7687/database, special characters percent-encoded"
        raise Invalid(f"a Neo4j URL must be like {rule}; got {shown!r}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    options = _parse_options(parts.query)
    return GraphAddress(parts.scheme, host, port, database, user, password, **options)


def _parse_options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise unknown_name("option of a Neo4j URL", name, _OPTIONS)
        field_name, parse = _OPTIONS[name]
        options[field_name] = parse(name, value)
    return options


def _seconds(name: str, value: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", value) or not 0.05 <= float(value) <= 3600:
        raise Invalid(f"{name} must be seconds from 0.05 to 3600, got {value!r}")
    return float(value)


def _boolean(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise unknown_name(name, value, ("true", "false"))
    return value == "true"


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "timeout": ("timeout_s", _seconds),
    "connect_timeout": ("connect_timeout_s", _seconds),
    "tls": ("is_encrypted", _boolean),
}
