"""Queries and results that the adapters for agent frameworks share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self, TypedDict, runtime_checkable

from knowloom import validation
from knowloom.errors import Invalid, MissingExtra, unknown_name
from knowloom.model import Context, Hit, Item
from knowloom.recipes import Mode, Recipe
from knowloom.wire.contexts import describe_match, problem_to_json

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 10  # passages of a search

# The description of a tool for a model, and its default options.
NAME = "search_knowledge"
DESCRIPTION = (
    "Look up what the organisation knows. "
    "Use it before answering a question about its rules, people, products, systems or data."
)
QUERY = "What you need to know, as a full question."
TOOL_DEFAULTS: dict[str, Any] = {"max_tokens": 2000, "format": "markdown"}


@runtime_checkable
class KnowledgeBase(Protocol):
    """The calls of an Engine and a Client that adapters use."""

    @property
    def search(self) -> Callable[..., list[Hit]]: ...

    @property
    def context(self) -> Callable[..., Context]: ...


class LookupArguments(TypedDict, total=False):
    """Options of every adapter; the limit is named differently in each framework."""

    max_tokens: int | None
    mode: Mode | None
    kinds: Sequence[str]
    types: Sequence[str]
    exclude_types: Sequence[str]
    tags: Sequence[str]
    min_score: float
    recipe: str | Sequence[Recipe]
    format: str
    model: str
    entity: str | None
    as_of: datetime | None
    now: datetime | None
    paths: bool


OPTIONS = tuple(LookupArguments.__annotations__)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text for a framework. `key` is "space/id"; the metadata have JSON values."""

    key: str
    text: str
    score: float
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lookup:
    """The knowledge and the options of an adapter. Unset options are left to the recipe."""

    kb: KnowledgeBase
    spaces: Sequence[str]
    max_tokens: int | None = None
    limit: int | None = None
    mode: Mode | None = None
    kinds: Sequence[str] = ()
    types: Sequence[str] = ()
    exclude_types: Sequence[str] = ()
    tags: Sequence[str] = ()
    min_score: float = 0.0
    recipe: str | Sequence[Recipe] = "knowledge"
    format: str = "plain"
    model: str = "gpt-4"
    entity: str | None = None
    as_of: datetime | None = None
    now: datetime | None = None
    paths: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.kb, KnowledgeBase):
            raise Invalid(
                f"kb must be an engine (knowloom.open) or a knowloom.Client, got {self.kb!r}"
            )
        if not validation.validate_names("spaces", self.spaces):
            raise Invalid("spaces must name at least one space, got []")

    @classmethod
    def create(
        cls, kb: KnowledgeBase, spaces: Sequence[str], limit: int | None, options: Mapping[str, Any]
    ) -> Self:
        for name in options:
            if name not in OPTIONS:
                raise unknown_name("option", name, OPTIONS)
        return cls(kb, spaces, limit=limit, **options)

    def passages(self, query: str) -> list[Passage]:
        """Return the best items, or with `max_tokens` the blocks of one context in the budget."""
        if self.max_tokens is None:
            hits = self.kb.search(
                query,
                limit=DEFAULT_LIMIT if self.limit is None else self.limit,
                kinds=self.kinds,
                **self._filters(),
            )
            return [_build_passage(hit, _format_item(hit.item)) for hit in hits]
        context = self.context(query)
        return _build_passages(context)

    def context(self, query: str) -> Context:
        names = ("max_tokens", "recipe", "format", "model", "entity")
        options = {name: getattr(self, name) for name in names} | self._filters()
        if self.limit is not None:
            options["limit"] = self.limit
        if self.kinds:
            options["kinds"] = self.kinds
        if self.paths:
            options["paths"] = True
        context = self.kb.context(query, **options)
        for problem in context.degraded:
            log.warning("context %s: %s", problem.part, problem.reason)
        return context

    def _filters(self) -> dict[str, Any]:
        """Return the options of both a search and a context that are set."""
        names = ("mode", "types", "exclude_types", "tags", "min_score", "as_of", "now")
        values = {name: getattr(self, name) for name in names}
        return {"spaces": self.spaces} | {name: value for name, value in values.items() if value}


def describe_sources(context: Context) -> dict[str, Any]:
    """Return the metadata of every block of a context, for display and logs."""
    return {
        "sources": [passage.metadata for passage in _build_passages(context)],
        "tokens": context.tokens,
        "digest": context.digest,
        "degraded": [problem_to_json(problem) for problem in context.degraded],
    }


def missing_extra(extra: str, error: ImportError) -> MissingExtra:
    return MissingExtra(f"package {error.name!r} is not installed: pip install 'knowloom[{extra}]'")


def _build_passages(context: Context) -> list[Passage]:
    return [
        _build_passage(
            chosen.hit,
            chosen.text.strip("\n"),
            part=fragment.name,
            form=chosen.form.value,
            tokens=chosen.tokens,
            digest=context.digest,
        )
        for fragment in context.fragments
        for chosen in fragment.chosen
    ]


def _build_passage(hit: Hit, text: str, **block: object) -> Passage:
    item = hit.item
    metadata = {
        "id": item.id,
        "space": item.space,
        "kind": item.kind.value,
        "type": item.type,
        "title": item.title,
        "tags": list(item.tags),
        "source": item.source,
        "score": hit.score,
        "match_source": hit.match_source,
        "why": describe_match(hit),
        "path": [f"{space}/{id}" for space, id in hit.path],
    }
    return Passage(f"{item.space}/{item.id}", text, hit.score, metadata | block)


def _format_item(item: Item) -> str:
    """Return the title and the text of an item, or its properties if it has no text."""
    properties = "\n".join(f"{name}: {value}" for name, value in item.properties.items())
    text = item.text or item.summary or properties
    return "\n\n".join(part for part in (item.title, text) if part)
