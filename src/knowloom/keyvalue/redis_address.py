"""The URL of a Redis server or cluster: its parts and options, and a form without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from knowloom.errors import Invalid, hide_secrets, unknown_name

DEFAULT_PORT = 6379
DEFAULT_PREFIX = "knowloom"
SCHEMES = ("redis", "rediss")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]+")
_URL = re.compile(
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/?]*))?@)?(?P<hosts>[^/?@]*)"
    r"(?:/(?P<database>[^?]*))?(?:\?(?P<options>.*))?",
    re.S,
)
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]\s]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """One server, or some nodes of a cluster; `name` identifies them in messages."""

    hosts: tuple[tuple[str, int], ...]
    database: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    is_encrypted: bool = False
    is_cluster: bool = False
    prefix: str = DEFAULT_PREFIX  # of all keys
    timeout_s: float = 5.0
    connect_timeout_s: float = 2.0
    ca_file: str = ""

    @property
    def name(self) -> str:
        scheme = "rediss" if self.is_encrypted else "redis"
        hosts = ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.hosts)
        prefix = "" if self.prefix == DEFAULT_PREFIX else f" prefix {self.prefix!r}"
        return f"{scheme}://{hosts}/{self.database}{prefix}"


def parse_redis_address(url: str) -> RedisAddress:
    """Parse "redis://user:password@host:port,host:port/database?option=value"."""
    scheme, _, rest = url.partition("://")
    shown = hide_secrets(url)
    match = _URL.fullmatch(rest)
    if scheme not in SCHEMES or match is None or not match["hosts"]:
        rule = "redis://user:password@host:6379/0, special characters percent-encoded"
        raise Invalid(f"a Redis URL must be like {rule}; got {shown!r}")
    hosts = tuple(_parse_host(host, shown) for host in match["hosts"].split(","))
    options = _parse_options(match["options"] or "")
    address = RedisAddress(
        hosts,
        _parse_database(match["database"] or "0"),
        unquote(match["user"] or ""),
        unquote(match["password"] or ""),
        is_encrypted=scheme == "rediss",
        **options,
    )
    if len(hosts) > 1 and not address.is_cluster:
        raise Invalid(f"several hosts are the nodes of a cluster: add cluster=true to {shown!r}")
    if address.is_cluster and address.database:
        raise Invalid(f"a Redis cluster has only the database 0, got {shown!r}")
    return address


def _parse_host(text: str, shown: str) -> tuple[str, int]:
    match = _HOST.fullmatch(text)
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 1 <= port <= 65535:
        raise Invalid(f"a Redis URL must name hosts as host:port, got {shown!r}")
    return unquote(match["host"].strip("[]")), port


def _parse_database(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise Invalid(f"the database of a Redis URL must be a number such as 0, got {text!r}")
    return int(text)


def _parse_options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise unknown_name("option of a Redis URL", name, _OPTIONS)
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


def _prefix(name: str, value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise Invalid(f"{name} must consist of letters, digits and '_.:-', got {value!r}")
    return value


def _path(name: str, value: str) -> str:
    if not value:
        raise Invalid(f"{name} must be the path of a file, got {value!r}")
    return value


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "cluster": ("is_cluster", _boolean),
    "prefix": ("prefix", _prefix),
    "timeout": ("timeout_s", _seconds),
    "connect_timeout": ("connect_timeout_s", _seconds),
    "ca_file": ("ca_file", _path),
}
