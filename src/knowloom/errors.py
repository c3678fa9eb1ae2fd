"""The errors that knowloom raises. Each has an HTTP status and a code that programs can test.

KnowloomError
├── Invalid        422  the request or the knowledge is malformed; the message names the value
│   └── TemplateNotFound 422  unknown template; the message lists the available ones
├── NotFound       404
├── Forbidden      403
├── DeadlineExceeded 504  the request took longer than the server allows
├── Conflict       409  the stored state does not fit the request (another embedder, a new version)
└── Unavailable    503  a store, an embedder or the disk fails
    ├── Corrupt    500  the file is damaged or not one of knowloom's
    ├── EmbeddingError 503  a required text could not be embedded
    ├── SearchError 500  a search could not be finished, such as when a ranker failed
    └── MissingExtra 501  an optional package is not installed
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_LISTED = 20  # names in the message of an error
HIDDEN = "********"
# A password may contain any character, "@" and "/" included.
_SECRETS = re.compile(
    r"(//[^:/@\s]*:).*(?=@)|([?&](?:[\w-]*key|token|password|secret)=)[^&\s]+", re.I | re.S
)


class KnowloomError(Exception):
    status = 500
    code = "error"
    layer = ""  # "metadata", "words", "vectors" or "graph" if only that part of the stores failed

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code


class Invalid(KnowloomError):
    status = 422
    code = "invalid"


class TemplateNotFound(Invalid):
    code = "template_not_found"


class NotFound(KnowloomError):
    status = 404
    code = "not_found"
    space = ""  # with the code "unknown_space": its name
    available: tuple[str, ...] = ()  # and the existing ones


class Forbidden(KnowloomError):
    status = 403
    code = "forbidden"


class Conflict(KnowloomError):
    status = 409
    code = "conflict"


class Unavailable(KnowloomError):
    status = 503
    code = "unavailable"


class Corrupt(Unavailable):
    status = 500
    code = "corrupt"


class EmbeddingError(Unavailable):
    code = "embedding_error"


class SearchError(Unavailable):
    status = 500
    code = "search_error"


class DeadlineExceeded(KnowloomError):
    status = 504
    code = "deadline"


class MissingExtra(Unavailable):
    status = 501
    code = "missing_extra"


def hide_secrets(url: object) -> str:
    """Return a URL for a message, without its password and the secrets in its parameters."""
    return _SECRETS.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", str(url))


def invalid_store_url(url: object) -> Invalid:
    """Return the error for a URL that names no store."""
    url = hide_secrets(url) if isinstance(url, str) else url
    examples = "knowledge.db, sqlite:///knowledge.db, sqlite:////data/knowledge.db or memory:"
    return Invalid(f"a store must be a path or a URL such as {examples}, got {url!r}")


def list_names(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of the others."""
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return (", ".join(names[:MAX_LISTED]) or "none yet") + more


def unknown_space(name: str, available: Sequence[str]) -> NotFound:
    """Return the error for a space that does not exist; it lists the existing ones."""
    message = f"unknown space {name!r}; available: {list_names(available)}"
    error = NotFound(message, "unknown_space")
    error.space, error.available = name, tuple(available)
    return error


def unknown_name(
    what: str, value: object, available: Iterable[object], error: type[Invalid] = Invalid
) -> Invalid:
    """Return the error for a name that is not in a table; it lists the available names."""
    names = ", ".join(sorted(map(str, available)))
    return error(f"unknown {what} {value!r}; available: {names or 'none'}")
