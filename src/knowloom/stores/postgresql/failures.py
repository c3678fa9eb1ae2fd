"""Errors of PostgreSQL as knowloom's, with the host of the server and never a password."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from knowloom.errors import Corrupt, Invalid, KnowloomError, Unavailable
from knowloom.stores.postgresql.address import Address

# By SQLSTATE, or its class of two characters: the code of the error, and advice.
_ADVICE: Mapping[str, tuple[str, str]] = {
    "08": ("unreachable", "check the address and that the server runs"),
    "25006": ("read_only", "the server is a replica or in recovery: write to the primary"),
    "28": ("access_denied", "check the user, the password and pg_hba.conf"),
    "3D000": ("no_database", "create it, for example with createdb"),
    "40": ("busy", "retry"),
    "42501": ("access_denied", "grant the user its privileges"),
    "53100": ("disk_full", "this write was rolled back, earlier ones are kept; free some space"),
    "53300": ("busy", "raise max_connections, or lower pool_size in the URL"),
    "55P03": ("busy", "another writer holds the space for too long: retry"),
    "57014": ("timeout", "raise statement_timeout in the URL"),
    "57": ("unreachable", "the server is starting or shutting down: retry"),
}
# libpq has no SQLSTATE for a refused connection, only the message of the server.
_REFUSALS = {
    "authentication failed": "28",
    "no password supplied": "28",
    "pg_hba.conf": "28",
    'role "': "28",
    'database "': "3D000",
    "too many": "53300",
    "starting up": "57",
    "shutting down": "57",
}
_DAMAGED = frozenset(("42P01", "42703", "XX001", "XX002"))  # our statements do not change


class NoAnswerError(Exception):
    """The server did not answer in time: it may be paused, or the network cut."""


@contextmanager
def translate_errors(address: Address) -> Iterator[None]:
    """Raise the errors of the driver as knowloom's."""
    try:
        yield
    except NoAnswerError as error:
        raise Unavailable(f"{address.name}: {error}", "timeout") from error
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.end]
        raise Invalid(f"text must be valid Unicode, got {text!r}") from None
    except psycopg.Error as error:
        raise describe(address, error) from error


def describe(address: Address, error: psycopg.Error) -> KnowloomError:
    """Return the error that a caller sees."""
    reason = _reason(address, error)
    state = error.sqlstate or next((_REFUSALS[text] for text in _REFUSALS if text in reason), "08")
    if state in _DAMAGED:
        return Corrupt(
            f"{address.name}: tables are missing or damaged ({reason}): "
            "restore them from a backup or an export"
        )
    code, advice = _ADVICE.get(state) or _ADVICE.get(state[:2]) or ("unavailable", "")
    return Unavailable(f"{address.name}: {reason}{advice and f' ({advice})'}", code)


def _reason(address: Address, error: psycopg.Error) -> str:
    reason = error.diag.message_primary or (str(error).strip() or type(error).__name__)
    reason = " ".join(reason.split("\n")[0].split())
    return reason.replace(address.password, "***") if address.password else reason


def is_lost(error: Exception, connection: psycopg.Connection[Any]) -> bool:
    """Return True if the connection is gone, so that another one may succeed."""
    kinds = psycopg.OperationalError | psycopg.InterfaceError
    return isinstance(error, kinds) and connection.closed
