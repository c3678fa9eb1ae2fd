"""What memory answers with: a memory, what a search found, a context and its preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from knowloom.model import OWN, Edge, Hit, Item

DEFAULT_CONFIDENCE = 0.5
PINNED = "pinned"  # the tag of memories that every context begins with
ACCESSED, ACCESSES = f"{OWN}accessed_at", f"{OWN}accesses"
SUPERSEDED = (
    f"{OWN}superseded"  # {"by": id, "at": when that was known, "valid_to": the end it had before}
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One memory, as it was stored. `title` says who said it and when, for the turns of a conversation."""

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
    expires_at: datetime | None = (
        None  # the end of its validity: it expired, or another took its place
    )
    superseded_by: str | None = None
    title: str = ""

    @classmethod
    def of(cls, item: Item, as_of: datetime | None = None) -> Remembered:
        """The memory, as it was known at that time: nothing tells of a later use or of what took its place later."""
        end, successor = _end(item, as_of)
        seen, accesses = _use(item, as_of)
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
            seen,
            accesses,
            PINNED in item.tags,
            item.valid_from,
            end,
            successor,
            item.title if item.text or item.summary else "",
        )

    @property
    def said(self) -> str:
        """What a template shows as the content: who said it and when, where that is known, and what."""
        return f"{self.title}: {self.content}" if self.title else self.content


def _end(item: Item, as_of: datetime | None) -> tuple[datetime | None, str | None]:
    told = item.properties.get(SUPERSEDED)
    if not isinstance(told, Mapping):
        return item.valid_to, None
    if as_of is None or codec.text_to_time(told["at"]) <= as_of:
        return item.valid_to, told["by"]
    return (codec.text_to_time(told["valid_to"]) if told["valid_to"] else None), None


def _use(item: Item, as_of: datetime | None) -> tuple[datetime | None, int]:
    seen = item.properties.get(ACCESSED)
    last = codec.text_to_time(seen) if isinstance(seen, str) else None
    if last is None or (as_of is not None and last > as_of):
        return None, 0
    return last, int(item.properties.get(ACCESSES, 0))


@dataclass(frozen=True, slots=True)
class RelatedMemory:
    """A memory that links led to, the last of them, and how many they were."""

    memory: Remembered
    relationship: Edge
    depth: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A memory, how similar it is to the question (0 to 1), and its rank score once it was ranked. `hit` has the numbers behind it."""

    memory: Remembered
    score: float
    rank: float | None = None
    relationships: tuple[RelatedMemory, ...] = ()
    hit: Hit | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Omitted:
    """A memory that was found and is not in the context, and why."""

    id: str
    rank: float
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class ContextResult:
    """A context ready for a prompt. `truncated`: something was found that did not fit."""

    context: str
    token_count: int
    memories: tuple[SearchResult, ...]
    truncated: bool
    template: str


@dataclass(frozen=True, slots=True)
class ContextPreview(ContextResult):
    """The same, with what it is made of. `budget_used` is in percent."""

    memory_ids: tuple[str, ...] = ()
    ranking_scores: Mapping[str, float] = field(default_factory=dict)
    budget_used: float = 0.0
    left_out: tuple[Omitted, ...] = ()

    def result(self) -> ContextResult:
        return ContextResult(
            self.context, self.token_count, self.memories, self.truncated, self.template
        )


ErrorType = Literal[
    "embedding_error", "search_error", "storage_error", "validation_error", "template_not_found"
]
TYPES: tuple[tuple[type[KnowloomError], ErrorType], ...] = (  # the first that fits
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
    """What went wrong. `code` is the one of the exception in `cause`, which is finer."""

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
        """The value; if there is none, the error is raised."""
        if self.error is not None:
            raise self.error.cause
        return self.value  # type: ignore[return-value]


def error_type(error: KnowloomError) -> ErrorType:
    return next(name for kind, name in TYPES if isinstance(error, kind))


def attempt(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Result[T]:
    """What the call gives, or the error it raised: `attempt(memory.build_context, question, token_budget=1500)`."""
    try:
        return Result(call(*args, **options))
    except KnowloomError as error:
        return Result(error=ContextError(error_type(error), str(error), error.code, error))
