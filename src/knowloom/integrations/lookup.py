"""Queries and results that the adapters for agent frameworks share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self, TypedDict, runtime_checkable

from knowloom import validation
from knowloom.capabilities.reading import ReadableKnowledge as ReadableKnowledge
from knowloom.capabilities.reading import read_by_name
from knowloom.context.citations import is_cited
from knowloom.conversation.shown_record import ShownRecord
from knowloom.errors import Invalid, MissingExtra, NotFound, unknown_name
from knowloom.filters.condition_json import WhereArgument
from knowloom.formats.runs import excerpt_runs
from knowloom.model import Chosen, Citation, Context, Hit, Item
from knowloom.options import ReadArguments, SeenArgument
from knowloom.recipes import Mode, Recipe
from knowloom.wire.contexts import describe_match, passage_to_json, problem_to_json

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 10  # results of a search

# The description of a tool for a model, and its default options.
NAME = "search_knowledge"
DESCRIPTION = (
    "Look up what the organisation knows. "
    "Use it before answering a question about its rules, people, products, systems or data."
)
QUERY = "What you need to know, as a full question."
TOOL_DEFAULTS: dict[str, Any] = {"max_tokens": 2000, "format": "markdown"}
READ_NAME = "read_knowledge"
READ_DESCRIPTION = "Read an item of the knowledge in full, page by page."
ITEM = "Id or title of the item."
PAGE = "Page to read."


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
    where: WhereArgument
    min_score: float
    min_answer_confidence: float
    recipe: str | Sequence[Recipe]
    format: str
    model: str
    entity: str | None
    as_of: datetime | None
    now: datetime | None
    paths: bool
    citations: bool
    whole: bool
    rerank: bool | None
    seen: SeenArgument | ShownRecord


ARGUMENTS = tuple(LookupArguments.__annotations__)
FILTERS = "mode types exclude_types tags where min_score min_answer_confidence as_of now".split()
OPTIONS = tuple(name for name in ARGUMENTS if name != "whole")  # those of `Engine.context`


@dataclass(frozen=True, slots=True)
class LookupResult:
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
    where: WhereArgument = None
    min_score: float = 0.0
    min_answer_confidence: float = 0.0
    recipe: str | Sequence[Recipe] = "knowledge"
    format: str = "plain"
    model: str = "gpt-4"
    entity: str | None = None
    as_of: datetime | None = None
    now: datetime | None = None
    paths: bool = False
    citations: bool = True
    rerank: bool | None = None
    whole: bool = False  # results of a search have the whole text of long items
    seen: SeenArgument | ShownRecord = None  # not shown again; a record also grows by each context

    def __post_init__(self) -> None:
        _check_knowledge(self.kb, KnowledgeBase, self.spaces)
        validation.validate_bool("whole", self.whole)
        if self.seen is not None and self.max_tokens is None:
            raise Invalid("seen applies to contexts: set max_tokens, too")

    @classmethod
    def create(
        cls, kb: KnowledgeBase, spaces: Sequence[str], limit: int | None, options: Mapping[str, Any]
    ) -> Self:
        for name in options:
            if name not in ARGUMENTS:
                raise unknown_name("option", name, ARGUMENTS)
        return cls(kb, spaces, limit=limit, **options)

    def retrieve(self, query: str) -> list[LookupResult]:
        """Return the best items, or with `max_tokens` the blocks of one context in the budget."""
        if self.max_tokens is None:
            hits = self.kb.search(
                query,
                limit=DEFAULT_LIMIT if self.limit is None else self.limit,
                kinds=self.kinds,
                **self._filters(),
            )
            return [self._build_hit(hit) for hit in hits]
        context = self.context(query)
        return _build_results(context)

    def _build_hit(self, hit: Hit) -> LookupResult:
        """Return the item; of a long one the passage that matched, unless `whole` is set."""
        if self.whole or not hit.passages:
            return _build_result(hit, _format_item(hit.item))
        place = passage_to_json(hit.passage)
        names = ("start", "end", "headings")
        block = {"passage": hit.passage.number, **{name: place[name] for name in names}}
        return _build_result(hit, _format_passage(hit), **block)

    def context(self, query: str) -> Context:
        names = ("max_tokens", "recipe", "format", "model", "entity", "citations")
        options = {name: getattr(self, name) for name in names} | self._filters()
        if self.limit is not None:
            options["limit"] = self.limit
        if self.kinds:
            options["kinds"] = self.kinds
        if self.paths:
            options["paths"] = True
        record = self.seen if isinstance(self.seen, ShownRecord) else None
        if self.seen is not None:
            options["seen"] = self.seen if record is None else record.entries()
        context = self.kb.context(query, **options)
        if record is not None:
            record.add(context)
        for problem in context.degraded:
            log.warning("context %s: %s", problem.part, problem.reason)
        return context

    def _filters(self) -> dict[str, Any]:
        """Return the options of both a search and a context that are set."""
        values = {name: getattr(self, name) for name in FILTERS}
        options = {name: value for name, value in values.items() if value}
        reranking = {} if self.rerank is None else {"rerank": self.rerank}
        return {"spaces": self.spaces} | options | reranking


@dataclass(frozen=True, slots=True)
class ItemReader:
    """A tool that reads items of some spaces, within `max_tokens` a page."""

    kb: ReadableKnowledge
    spaces: Sequence[str]
    max_tokens: int = 2000
    model: str = "gpt-4"

    def __post_init__(self) -> None:
        _check_knowledge(self.kb, ReadableKnowledge, self.spaces)
        validation.validate_int("max_tokens", self.max_tokens, 1)

    def read(self, item: str, page: int = 1) -> str:
        """Return a page as text. A mistake of the model is answered with a message to it."""
        try:
            options: ReadArguments = {"page": page, "model": self.model}
            options["max_tokens"] = self.max_tokens
            return str(read_by_name(self.kb, item, self.spaces, **options))
        except (Invalid, NotFound) as error:
            if error.code == "unknown_space":  # a mistake of the program
                raise
            return f"error: {error}"


def _check_knowledge(kb: object, protocol: type, spaces: Sequence[str]) -> None:
    if not isinstance(kb, protocol):
        raise Invalid(f"kb must be an engine (knowloom.open) or a knowloom.Client, got {kb!r}")
    if not validation.validate_names("spaces", spaces):
        raise Invalid("spaces must name at least one space, got []")


def describe_sources(context: Context) -> dict[str, Any]:
    """Return the metadata of every block of a context, for display and logs."""
    return {
        "sources": [result.metadata for result in _build_results(context)],
        "tokens": context.tokens,
        "digest": context.digest,
        "confidence": context.confidence,
        "degraded": [problem_to_json(problem) for problem in context.degraded],
    }


def missing_extra(extra: str, error: ImportError) -> MissingExtra:
    return MissingExtra(f"package {error.name!r} is not installed: pip install 'knowloom[{extra}]'")


def _build_results(context: Context) -> list[LookupResult]:
    citations = iter(context.citations)
    return [
        _build_result(
            chosen.hit,
            chosen.text.strip("\n"),
            part=fragment.name,
            form=chosen.form.value,
            tokens=chosen.tokens,
            digest=context.digest,
            **_describe_ranges(chosen),
            **(_describe_citation(citations) if is_cited(chosen.hit, chosen.form) else {}),
        )
        for fragment in context.fragments
        for chosen in fragment.chosen
    ]


def _describe_citation(citations: Iterator[Citation]) -> dict[str, Any]:
    """Return the number and the source of the next cited block; nothing without citations."""
    citation = next(citations, None)
    if citation is None:
        return {}
    return {"number": citation.number, "citation": citation.source}


def _describe_ranges(chosen: Chosen) -> dict[str, Any]:
    ranges = [passage_to_json(passage) for passage in chosen.passages]
    return {"passages": ranges} if ranges else {}


def _build_result(hit: Hit, text: str, **block: object) -> LookupResult:
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
    return LookupResult(f"{item.space}/{item.id}", text, hit.score, metadata | block)


def _format_item(item: Item) -> str:
    """Return the title and the text of an item, or its properties if it has no text."""
    properties = "\n".join(f"{name}: {value}" for name, value in item.properties.items())
    text = item.text or item.summary or properties
    return "\n\n".join(part for part in (item.title, text) if part)


def _format_passage(hit: Hit) -> str:
    """Return the title, the headings and the text of the passage that matched."""
    parts = [hit.item.title]
    for run in excerpt_runs(hit, ()):
        parts += [run.headings, "\n".join(part for part in (run.fence, run.text) if part)]
    return "\n\n".join(part for part in parts if part)
