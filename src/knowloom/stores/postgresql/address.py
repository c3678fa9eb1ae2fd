"""The URL of a PostgreSQL store: its parts and options, and a form without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from knowloom.errors import Invalid, hide_secrets, unknown_name

DEFAULT_PORT = 5432
DEFAULT_SCHEMA = "knowloom"
MAX_NAME = 63  # bytes of an identifier
MAX_EF_SEARCH = 1000  # of pgvector
DEFAULT_EF_SEARCH = 200
VECTOR_SEARCHES = ("exact", "hnsw")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_FILES = ("sslrootcert", "sslcert", "sslkey")


@dataclass(frozen=True, slots=True)
class Address:
    """A database and a schema in it; `name` identifies both in messages."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    schema: str = DEFAULT_SCHEMA
    connect_timeout_s: int = 5
    statement_timeout_s: float = 30.0
    pool_size: int = 16  # connections of this process that read at the same time
    ssl: tuple[tuple[str, str], ...] = ()
    vectors: str = "exact"
    ef_search: int = DEFAULT_EF_SEARCH
    replicas: tuple[tuple[str, int], ...] = ()  # hosts and ports
    max_lag_s: float = 2.0

    @property
    def is_approximate(self) -> bool:
        return self.vectors == "hnsw"

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "localhost"
        schema = "" if self.schema == DEFAULT_SCHEMA else f" schema {self.schema!r}"
        return f"postgresql://{host}:{self.port}/{self.database}{schema}"

    def connection_parameters(self) -> dict[str, Any]:
        """Return the arguments of `psycopg.connect`; libpq has the defaults of empty ones."""
        parameters = {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "user": self.user,
            "password": self.password,
            "connect_timeout": self.connect_timeout_s,
            "application_name": "knowloom",
            **dict(self.ssl),
        }
        return {name: value for name, value in parameters.items() if value}


def parse_address(url: str) -> Address:
    """Parse "user:password@host:port/database?option=value"."""
    shown = hide_secrets(f"postgresql://{url}")
    if "\0" in url:
        raise Invalid(f"a PostgreSQL URL must not contain NUL characters, got {shown!r}")
    try:
        parts = urlsplit(f"postgresql://{url}")
        port = parts.port or DEFAULT_PORT
        host = parts.hostname or ""
    except ValueError:  # its message may have a part of the password
        rule = "a port from 1 to 65535, and special characters of a password percent-encoded"
        raise Invalid(f"a PostgreSQL URL must have {rule}, got {shown!r}") from None
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database or "@" in parts.path:
        rule = "name a database, such as postgresql://user:password@host:5432/database"
        raise Invalid(f"a PostgreSQL URL must {rule}; got {shown!r}")
    options = _parse_options(parts.query)
    _check_dependent(options)
    ssl = tuple((name, options[name]) for name in ("sslmode", *_FILES) if name in options)
    for name, _ in ssl:
        del options[name]
    return Address(
        host,
        port,
        database,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        ssl=ssl,
        **options,
    )


def _parse_options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise unknown_name("option of a PostgreSQL URL", name, _OPTIONS)
        field_name, parse = _OPTIONS[name]
        options[field_name] = parse(name, value)
    return options


def _check_dependent(options: Mapping[str, Any]) -> None:
    """Refuse options that have no effect without another one."""
    if "ef_search" in options and options.get("vectors") != "hnsw":
        raise Invalid("ef_search needs vectors=hnsw: exact searches do not use it")
    if "max_lag_s" in options and "replicas" not in options:
        raise Invalid("max_lag needs replicas=HOST:PORT,…")


def _up_to(limit: int) -> Callable[[str, str], int]:
    """Return a parser of whole numbers from 1 to a limit."""

    def parse(name: str, value: str) -> int:
        is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(limit))
        if not is_number or not 1 <= int(value) <= limit:
            raise Invalid(f"{name} must be a whole number from 1 to {limit}, got {value!r}")
        return int(value)

    return parse


def _replicas(name: str, value: str) -> tuple[tuple[str, int], ...]:
    return tuple(_host_and_port(name, part.strip()) for part in value.split(","))


def _host_and_port(name: str, text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.path or parts.query or "@" in text:
        rule = "HOST or HOST:PORT, separated by commas, with the user and password of the primary"
        # Someone may have put a password here.
        raise Invalid(f"{name} must be {rule}, got {text.rpartition('@')[2]!r}")
    return host, port


def _schema(_: str, value: str) -> str:
    if not _SCHEMA_NAME.fullmatch(value) or len(value) > MAX_NAME or value.startswith("pg_"):
        rule = "lower-case letters, digits and underscores, not starting with pg_"
        raise Invalid(f"schema must consist of {rule}, got {value!r}")
    return value


def _one_of(names: Sequence[str]) -> Callable[[str, str], str]:
    """Return a parser that accepts these values only."""

    def parse(name: str, value: str) -> str:
        if value not in names:
            raise unknown_name(name, value, names)
        return value

    return parse


def _path(name: str, value: str) -> str:
    if not value:
        raise Invalid(f"{name} must be the path of a file, got {value!r}")
    return value


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "schema": ("schema", _schema),
    "connect_timeout": ("connect_timeout_s", _up_to(3600)),
    "statement_timeout": ("statement_timeout_s", _up_to(3600)),
    "pool_size": ("pool_size", _up_to(3600)),
    "vectors": ("vectors", _one_of(VECTOR_SEARCHES)),
    "ef_search": ("ef_search", _up_to(MAX_EF_SEARCH)),
    "replicas": ("replicas", _replicas),
    "max_lag": ("max_lag_s", _up_to(3600)),
    "sslmode": ("sslmode", _one_of(SSL_MODES)),
    **{name: (name, _path) for name in _FILES},
}
