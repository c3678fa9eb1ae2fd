"""Everything knowloom raises. Each error knows its HTTP status and a code that programs can test.

KnowloomError
├── Invalid        422  the request or the knowledge is not acceptable; the message names the value and the good ones
│   └── TemplateNotFound 422  no template has this name; the message has the names there are
├── NotFound       404
├── Forbidden      403
├── Conflict       409  the stored state does not fit the request (another embedder, a newer version)
└── Unavailable    503  a store, an embedder or the disk does not do its part
    ├── Corrupt    500  the file is damaged or not knowloom's
    ├── EmbeddingError 503  a text that had to be embedded was not
    ├── SearchError 500  a search could not be finished, such as when a ranker failed
    └── MissingExtra 501  an optional package is not installed
"""

from __future__ import annotations


class KnowloomError(Exception):
    status = 500
    code = "error"

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


class MissingExtra(Unavailable):
    status = 501
    code = "missing_extra"


def invalid_store_url(url: object) -> Invalid:
    """The error for what names no store."""
    return Invalid(
        f"a store is named by a path or a URL, such as knowledge.db, sqlite:///knowledge.db, sqlite:////data/knowledge.db or memory:, not by {url!r}"
    )


def unknown_name(
    what: str, value: object, known: object, error: type[Invalid] = Invalid
) -> Invalid:
    """The error for a name that is not in a table: says which names are."""
    names = ", ".join(sorted(str(name) for name in known))  # type: ignore[attr-defined]
    return error(f"no {what} {value!r}; known: {names or 'none'}")
