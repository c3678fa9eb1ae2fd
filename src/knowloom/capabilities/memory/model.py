"""Values of memory: a memory, search results, contexts with previews, and the Result type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from knowloom import codec
from knowloom.errors import (
    EmbeddingError,
    KnowloomError,
    SearchError,
    TemplateNotFound,
    Unavailable,
)
from knowloom.model import RESERVED_PREFIX, Edge, Hit, Item, Problem

DEFAULT_CONFIDENCE = 0.5
PINNED = "pinned"  # the tag of memories that open each context
ACCESSED, ACCESSES = f"{RESERVED_PREFIX}accessed_at", f"{RESERVED_PREFIX}accesses"
# {"by": id of the successor, "at": when it was stored, "valid_to": the end before that}
SUPERSEDED = f"{RESERVED_PREFIX}superseded"


@dataclass(frozen=True, slots=True)
class Remembered:
    """A stored memory. The `title` of a conversation's turn names its speaker and time."""

    id: str
    workspace: str
    content: str
    type: str = ""
    conversation: str | None = None
    confidence: float = DEFAULT_CONFIDENCE
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_accessed_at: datetime | None = None
    accesses: int = 0
    pinned: bool = False
    valid_from: datetime | None = None
    expires_at: datetime | None = None  # the end of its validity, by expiry or succession
    superseded_by: str | None = None
    title: str = ""

    @classmethod
    def from_item(cls, item: Item, as_of: datetime | None = None) -> Remembered:
        """Return the memory as it was at that time, without later accesses or successors."""
        end, successor = _end_of(item, as_of)
        accessed_at, accesses = _accesses_of(item, as_of)
        return cls(
            item.id,
            item.space,
            item.text or item.summary or item.title,
            item.type,
            item.subject,
            DEFAULT_CONFIDENCE if item.confidence is None else item.confidence,
            item.shown_properties,
            item.created_at,
            item.updated_at,
            accessed_at,
            accesses,
            PINNED in item.tags,
            item.valid_from,
            end,
            successor,
            item.title if item.text or item.summary else "",
        )

    @property
    def display_text(self) -> str:
        """The content of a template's variable: the speaker and time, if known, and the text."""
        return f"{self.title}: {self.content}" if self.title else self.content


def _end_of(item: Item, as_of: datetime | None) -> tuple[datetime | None, str | None]:
    """Return the end of validity and the id of the successor, as known at that time."""
    succession = item.properties.get(SUPERSEDED)
    if not isinstance(succession, Mapping):
        return item.valid_to, None
    if as_of is None or codec.text_to_time(succession["at"]) <= as_of:
        return item.valid_to, succession["by"]
    end = succession["valid_to"]
    return (codec.text_to_time(end) if end else None), None


def _accesses_of(item: Item, as_of: datetime | None) -> tuple[datetime | None, int]:
    stored = item.properties.get(ACCESSED)
    accessed_at = codec.text_to_time(stored) if isinstance(stored, str) else None
    if accessed_at is None or (as_of is not None and accessed_at > as_of):
        return None, 0
    return accessed_at, int(item.properties.get(ACCESSES, 0))


@dataclass(frozen=True, slots=True)
class RelatedMemory:
    """A memory reached through edges, the last of them, and their number."""

    memory: Remembered
    relationship: Edge
    depth: int
    hit: Hit | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A memory, its similarity in [0, 1], and its rank. `hit` has the signals behind them.

    `links` are the edges between this memory and the other results, `relationships` the memories
    that edges lead to beyond the results.
    """

    memory: Remembered
    score: float
    rank: float | None = None
    relationships: tuple[RelatedMemory, ...] = ()
    links: tuple[Edge, ...] = ()
    hit: Hit | None = field(default=None, repr=False)


class SearchResults(list[SearchResult]):
    """The results of a search: a list whose `degraded` names what they were found without."""

    __slots__ = ("degraded",)

    def __init__(
        self, results: Iterable[SearchResult] = (), degraded: Iterable[Problem] = ()
    ) -> None:
        super().__init__(results)
        self.degraded = tuple(degraded)


@dataclass(frozen=True, slots=True)
class Omitted:
    """A retrieved memory that is not in the context, and the reason."""

    id: str
    rank: float
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class ContextResult:
    """A context ready for a prompt.

    `truncated`: some retrieved memory did not fit, or is shown by excerpts.
    """

    context: str
    token_count: int
    memories: tuple[SearchResult, ...]
    truncated: bool
    template: str
    degraded: tuple[Problem, ...] = ()  # a notice if the tokens are estimated


@dataclass(frozen=True, slots=True)
class ContextPreview(ContextResult):
    """A context with its memories, ranks and omissions. `budget_used` is a percentage."""

    memory_ids: tuple[str, ...] = ()
    ranking_scores: Mapping[str, float] = field(default_factory=dict)
    budget_used: float = 0.0
    left_out: tuple[Omitted, ...] = ()

    def result(self) -> ContextResult:
        return ContextResult(
            self.context,
            self.token_count,
            self.memories,
            self.truncated,
            self.template,
            self.degraded,
        )


ErrorType = Literal[
    "embedding_error", "search_error", "storage_error", "validation_error", "template_not_found"
]
ERROR_TYPES: tuple[tuple[type[KnowloomError], ErrorType], ...] = (  # first match wins
    (TemplateNotFound, "template_not_found"),
    (EmbeddingError, "embedding_error"),
    (SearchError, "search_error"),
    (Unavailable, "storage_error"),
    (KnowloomError, "validation_error"),
)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContextError:
    """A failure. `code` is that of the exception in `cause` and more specific than `type`."""

    type: ErrorType
    message: str
    code: str
    cause: KnowloomError


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """Either a value or an error."""

    value: T | None = None
    error: ContextError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    def unwrap(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error.cause
        return self.value  # type: ignore[return-value]


def error_type(error: KnowloomError) -> ErrorType:
    return next(name for kind, name in ERROR_TYPES if isinstance(error, kind))


def attempt(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Result[T]:
    """Return the value of a call or its error: `attempt(memory.search, "tea", limit=3)`."""
    try:
        return Result(call(*args, **options))
    except KnowloomError as error:
        return Result(error=ContextError(error_type(error), str(error), error.code, error))
