"""The URL of a PostgreSQL store: its parts and options, and a form without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from knowloom.errors import Invalid, hide_secrets, unknown_name

DEFAULT_PORT = 5432
DEFAULT_SCHEMA = "knowloom"
MAX_NAME = 63  # bytes of an identifier
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


def _whole_number(name: str, value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 3600:
        raise Invalid(f"{name} must be a whole number from 1 to 3600, got {value!r}")
    return int(value)


def _schema(_: str, value: str) -> str:
    if not _SCHEMA_NAME.fullmatch(value) or len(value) > MAX_NAME or value.startswith("pg_"):
        rule = "lower-case letters, digits and underscores, not starting with pg_"
        raise Invalid(f"schema must consist of {rule}, got {value!r}")
    return value


def _ssl_mode(name: str, value: str) -> str:
    if value not in SSL_MODES:
        raise unknown_name(name, value, SSL_MODES)
    return value


def _path(name: str, value: str) -> str:
    if not value:
        raise Invalid(f"{name} must be the path of a file, got {value!r}")
    return value


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "schema": ("schema", _schema),
    "connect_timeout": ("connect_timeout_s", _whole_number),
    "statement_timeout": ("statement_timeout_s", _whole_number),
    "pool_size": ("pool_size", _whole_number),
    "sslmode": ("sslmode", _ssl_mode),
    **{name: (name, _path) for name in _FILES},
}
