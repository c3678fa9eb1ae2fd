"""The URL of an Elasticsearch or OpenSearch index: hosts, index, options, and a form to show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from knowloom.errors import Invalid, hide_secrets, unknown_name

DEFAULT_PORT = 9200
DEFAULT_INDEX = "knowloom"
MAX_INDEX = 200  # bytes; the engines allow 255
_INDEX_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The nodes of a cluster and an index in it; `name` identifies both in messages."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    index: str = DEFAULT_INDEX
    user: str = ""
    password: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    has_tls: bool = False
    ca_certs: str = ""
    timeout_s: float = 10.0
    shards: int = 1
    replicas: int = 0

    @property
    def name(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{hosts}/{self.index}"

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self.password, self.api_key) if secret)


def parse_address(scheme: str, url: str, options: Mapping[str, str]) -> ClusterAddress:
    """Parse "user:password@host:port,host:port/index?option=value".

    `options` are the names that the dialect allows beside the common ones.
    """
    shown = hide_secrets(f"{scheme}://{url}")
    place, _, query = url.partition("?")
    credentials, has_credentials, rest = place.rpartition("@")
    hosts, _, path = rest.partition("/")
    index = unquote(path.rstrip("/")) or DEFAULT_INDEX
    if not _INDEX_NAME.fullmatch(index) or len(index) > MAX_INDEX:
        rule = "lower-case letters, digits and _ . -, starting with a letter or a digit"
        raise Invalid(f"an index must consist of {rule}; got {index!r} in {shown!r}")
    user, has_password, password = credentials.partition(":")
    if has_credentials and not (user and has_password):
        raise Invalid(f"a user must have a password, as in user:password@host; got {shown!r}")
    return ClusterAddress(
        scheme,
        tuple(_parse_host(host, shown) for host in hosts.split(",")),
        index,
        unquote(user),
        unquote(password),
        **_parse_options(scheme, query, options),
    )


def _parse_host(text: str, shown: str) -> tuple[str, int]:
    match = _HOST.fullmatch(text)
    if match is None or not 1 <= int(match[2] or DEFAULT_PORT) <= 65535:
        rule = "host, host:port or several of them separated by commas, a port from 1 to 65535"
        raise Invalid(f"a URL must name {rule}; got {shown!r}")
    return match[1], int(match[2] or DEFAULT_PORT)


def _parse_options(scheme: str, query: str, extra: Mapping[str, str]) -> dict[str, Any]:
    allowed = {**_OPTIONS, **{name: (field_name, _text) for name, field_name in extra.items()}}
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            raise unknown_name(f"option of a URL of {scheme}", name, allowed)
        field_name, parse = allowed[name]
        options[field_name] = parse(name, value)
    return options


def _number(lowest: int, highest: int) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        if not value.isdecimal() or not lowest <= int(value) <= highest:
            rule = f"a whole number from {lowest} to {highest}"
            raise Invalid(f"{name} must be {rule}, got {value!r}")
        return int(value)

    return parse


def _flag(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise Invalid(f"{name} must be true or false, got {value!r}")
    return value == "true"


def _text(name: str, value: str) -> str:
    if not value:
        raise Invalid(f"{name} must not be empty")
    return value


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "timeout": ("timeout_s", _number(1, 3600)),
    "tls": ("has_tls", _flag),
    "ca_certs": ("ca_certs", _text),
    "shards": ("shards", _number(1, 1024)),
    "replicas": ("replicas", _number(0, 10)),
}
