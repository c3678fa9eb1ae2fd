"""The outcome of a call as a value, for callers that would rather look at it than catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, ParamSpec, TypeVar

from weft.errors import EmbeddingError, SearchError, TemplateNotFound, Unavailable, WeftError

ErrorType = Literal[
    "embedding_error", "search_error", "storage_error", "validation_error", "template_not_found"
]
TYPES: tuple[tuple[type[WeftError], ErrorType], ...] = (  # the first that fits
    (TemplateNotFound, "template_not_found"),
    (EmbeddingError, "embedding_error"),
    (SearchError, "search_error"),
    (Unavailable, "storage_error"),
    (WeftError, "validation_error"),
)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContextError:
    """What went wrong. `code` is the one of the exception in `cause`, which is finer."""

    type: ErrorType
    message: str
    code: str
    cause: WeftError


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """Either a value or an error."""

    value: T | None = None
    error: ContextError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    def unwrap(self) -> T:
        """The value; if there is none, the error is raised."""
        if self.error is not None:
            raise self.error.cause
        return self.value  # type: ignore[return-value]


def error_type(error: WeftError) -> ErrorType:
    return next(name for kind, name in TYPES if isinstance(error, kind))


def attempt(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Result[T]:
    """What the call gives, or the error it raised: `attempt(memory.build_context, question, token_budget=1500)`."""
    try:
        return Result(call(*args, **options))
    except WeftError as error:
        return Result(error=ContextError(error_type(error), str(error), error.code, error))
