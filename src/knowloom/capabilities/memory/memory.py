"""Memory: the memories of one workspace, stored, searched, and packed into prompts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from time import perf_counter
from typing import Any, TypeVar, Unpack

from knowloom import options as engine_options
from knowloom import tiers, tokens, validation
from knowloom.capabilities.memory import conversion, packing, search, templates
from knowloom.capabilities.memory.analytics import Analytics
from knowloom.capabilities.memory.conversion import Fact, Turn
from knowloom.capabilities.memory.model import (
    ContextPreview,
    ContextResult,
    Remembered,
    SearchResults,
)
from knowloom.capabilities.memory.options import (
    MAX_BUDGET,
    MemoryContextArguments,
    MemoryContextOptions,
    MemoryFields,
    MemorySearchArguments,
    MemorySearchOptions,
    validate_queries,
    validate_query,
)
from knowloom.capabilities.memory.ranking import RANKERS, Ranker
from knowloom.capabilities.memory.repository import MemoryRepository
from knowloom.capabilities.memory.templates import TEMPLATES, MemoryTemplate
from knowloom.engine import Engine
from knowloom.errors import Conflict, EmbeddingError, Invalid, KnowloomError, NotFound
from knowloom.model import Problem
from knowloom.options import QueryOptions
from knowloom.recipes import FIT_BUDGET, Recipe, resolve_limit
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.retrieval_settings import validate_recipe

log = logging.getLogger(__name__)
T = TypeVar("T")


class Memory:
    """The memories of one workspace, which is a space of the engine: by default the only one.

    `options.py` documents the keyword arguments. Memory requires the tier `teams` or `enterprise`,
    custom templates and rankers require `enterprise`; a call under another tier raises Forbidden.
    """

    def __init__(
        self,
        kb: Engine,
        workspace: str | None = None,
        *,
        default_template: str = "chat",
        default_token_budget: int = 2000,
        expected_dimensions: int | None = None,
        track_access: bool = False,
        analytics: Analytics | None = None,
        tier: tiers.TierArgument = None,
    ) -> None:
        if workspace is None:
            workspace = kb.reader.choose_space(None)
        if not isinstance(workspace, str) or not workspace:
            raise Invalid(f"workspace must be a non-empty name, got {workspace!r}")
        self.workspace = validation.validate_name("space", workspace)
        self._kb, self._tier = kb, tier
        self._repository = MemoryRepository(kb, self.workspace)
        self._templates, self._rankers = dict(TEMPLATES), dict(RANKERS)
        self._template = templates.resolve_template(default_template, self._templates).name
        self._budget = validation.validate_int(
            "default_token_budget", default_token_budget, 0, MAX_BUDGET
        )
        self._track, self._analytics = track_access, analytics
        if expected_dimensions is not None:
            _validate_dimensions(kb, expected_dimensions)

    def remember(
        self,
        content: str,
        *,
        supersedes: str | Sequence[str] = (),
        related: Mapping[str, str] | None = None,
        embed: bool = True,
        **fields: Unpack[MemoryFields],
    ) -> Remembered:
        """Store a memory.

        `supersedes` names memories that it replaces: they stay stored and linked, and are found
        only as of earlier times. `related` maps ids of other memories to edge types.
        """
        self._check_tier()
        at = self._resolve_time("created_at", fields.get("created_at"))
        item = conversion.memory_item(self.workspace, content, at, fields)
        ids = engine_options.validate_ids(supersedes) if supersedes else ()
        old = self._repository.require(ids)
        targets = {predecessor.id: conversion.SUPERSEDES for predecessor in old}
        pairs = [*targets.items(), *(related or {}).items()]
        edges = [
            conversion.memory_edge(self.workspace, item.id, id, type, 1.0, at) for id, type in pairs
        ]
        superseded = [(before, conversion.supersede(before, item)) for before in old]
        self._repository.add([item], edges, superseded, embed)
        return Remembered.from_item(self._repository.require([item.id])[0])

    def add_conversation(
        self,
        messages: Sequence[Turn | Mapping[str, Any]],
        *,
        conversation: str,
        summary: str | None = None,
        facts: Sequence[Fact | str | Mapping[str, Any]] = (),
        after: str | None = None,
        now: datetime | None = None,
        embed: bool = True,
    ) -> list[Remembered]:
        """Store a conversation turn by turn, and return turns, summary and facts.

        Each turn is linked to the next, and the memory `after` to the first one; summary and facts
        are linked to their turns. Storing a conversation again changes nothing.
        """
        self._check_tier()
        preceding = self._repository.require([after])[0].text if after else ""
        name, at = _validate_name("conversation", conversation), self._resolve_time("now", now)
        turns = conversion.turn_items(self.workspace, name, messages, at, preceding)
        latest = max((turn.created_at for turn in turns if turn.created_at), default=None)
        items, edges = conversion.conversation_items(
            self.workspace,
            name,
            turns,
            self._resolve_time("now", now or latest),
            summary,
            [conversion.parse_fact(fact) for fact in facts],
            after or "",
        )
        self._repository.add(items, edges, (), embed)
        stored = self._repository.require([item.id for item in items])
        return [Remembered.from_item(item) for item in stored]

    def relate(
        self,
        source: str,
        target: str,
        type: str = "related",
        *,
        confidence: float = 1.0,
        now: datetime | None = None,
    ) -> None:
        """Add an edge between two memories."""
        self._check_tier()
        since = self._resolve_time("now", now)
        edge = conversion.memory_edge(self.workspace, source, target, type, confidence, since)
        self._kb.add([], [edge])

    def get(self, ids: str | Sequence[str]) -> list[Remembered]:
        """Return memories by id; unknown ids are left out."""
        self._check_tier()
        items = self._repository.get(engine_options.validate_ids(ids))
        return [Remembered.from_item(item) for item in items]

    def forget(self, ids: str | Sequence[str]) -> int:
        """Delete memories with their edges, and return how many existed."""
        self._check_tier()
        stored = [item.id for item in self._repository.get(engine_options.validate_ids(ids))]
        return self._kb.delete(stored, space=self.workspace) if stored else 0

    def search(self, query: str, **options: Unpack[MemorySearchArguments]) -> SearchResults:
        """Return the memories closest to a query, by words and vectors, in the ranker's order.

        `degraded` of the returned list names layers that failed, and says why it is empty.
        """
        return self._search(validate_query(query), None, options)

    def search_by_vector(
        self, vector: Sequence[float], **options: Unpack[MemorySearchArguments]
    ) -> SearchResults:
        """Return the memories closest to a vector."""
        return self._search("", _validate_vector(vector), {**options, "mode": "vector"})

    def search_many(
        self, queries: Sequence[str], **options: Unpack[MemorySearchArguments]
    ) -> list[SearchResults]:
        """Return the results of each query; the queries are embedded in one batch."""
        self._check_tier()
        texts = validate_queries(queries)
        if MemorySearchOptions.parse(options).mode != "bm25":
            with _embedding_errors():
                self._kb.reader.embed_texts(texts, queries=True)
        return [self._search(text, None, options) for text in texts]

    def build_context(self, query: str, **options: Unpack[MemoryContextArguments]) -> ContextResult:
        """Return the best memories for a query, rendered by a template within a budget.

        `limit=None`: as many candidates as the budget can hold.
        """
        return self._pack("context", validate_query(query), None, options).result()

    def build_context_by_vector(
        self, vector: Sequence[float], **options: Unpack[MemoryContextArguments]
    ) -> ContextResult:
        arguments = {**options, "mode": "vector"}
        return self._pack("context", "", _validate_vector(vector), arguments).result()

    def preview(self, query: str, **options: Unpack[MemoryContextArguments]) -> ContextPreview:
        """Return the result of `build_context` with its memories, ranks and omissions."""
        return self._pack("preview", validate_query(query), None, options)

    def preview_by_vector(
        self, vector: Sequence[float], **options: Unpack[MemoryContextArguments]
    ) -> ContextPreview:
        arguments = {**options, "mode": "vector"}
        return self._pack("preview", "", _validate_vector(vector), arguments)

    def register_template(self, name: str, template: MemoryTemplate | Mapping[str, Any]) -> None:
        self._templates[name] = templates.parse_template(name, template)

    def register_ranker(self, name: str, ranker: Ranker) -> None:
        """Register a function from results and ranking options to the results in another order."""
        if not callable(ranker):
            raise Invalid(f"ranker {name!r} must be a function, got {ranker!r}")
        self._rankers[_validate_name("ranker name", name)] = ranker

    def _check_tier(self, *custom: str) -> None:
        """Raise Forbidden for a tier without memory, or without these custom features."""
        if self._tier is not None:
            tier = tiers.resolve_tier(self._tier)
            tiers.check_full(tier, "memory")
            for feature in custom:
                tiers.check_custom(tier, feature)

    def _custom_rankers(self, ranker: str | Ranker) -> tuple[str, ...]:
        """Return the name of the custom feature that a request for this ranker needs, if any."""
        builtin = RANKERS.get(ranker) if isinstance(ranker, str) else None
        is_builtin = isinstance(ranker, str) and self._rankers.get(ranker) is builtin
        return () if is_builtin else ("custom rankers",)

    def _search(
        self, text: str, vector: list[float] | None, arguments: Mapping[str, Any]
    ) -> SearchResults:
        self._check_tier()
        options = MemorySearchOptions.parse(arguments)
        self._check_tier(*self._custom_rankers(options.ranker))
        if options.limit is None:
            raise Invalid("limit must be an integer: a search has no budget that could set it")

        def run() -> SearchResults:
            with self._open_request(text, vector, options) as request:
                if request is None:
                    return SearchResults(degraded=[self._missing_workspace()])
                memories, problems = search.search_memories(
                    request, options, _recipe(options), self._rankers
                )
                results = SearchResults(memories, dict.fromkeys((*request.problems, *problems)))
            self._count_access([result.memory.id for result in results], options)
            return results

        return self._record("search", text, run, len)

    def _pack(
        self,
        operation: str,
        text: str,
        vector: list[float] | None,
        arguments: Mapping[str, Any],
    ) -> ContextPreview:
        self._check_tier()
        options = MemoryContextOptions.parse(arguments)
        name = self._template if options.template is None else options.template
        template = templates.resolve_template(name, self._templates)
        custom = () if templates.is_builtin(template) else ("custom templates",)
        self._check_tier(*custom, *self._custom_rankers(options.ranker))
        budget = self._budget if options.token_budget is None else options.token_budget
        model = tokens.strict_model(options.model, options.strict)
        counter = tokens.get_counter(model)

        def run() -> ContextPreview:
            with self._open_request(text, vector, options) as request:
                recipe = resolve_limit(_recipe(options), budget)
                candidates = search.find_candidates(request, options, recipe, self._rankers)
            preview = packing.pack_memories(
                packing.merge_candidates(candidates.pinned, candidates.results),
                template,
                budget,
                counter,
                options.include_metadata,
                options.include_relationships,
                text,
            )
            if operation == "context":
                self._count_access(preview.memory_ids, options)
            missing = () if request is not None else (self._missing_workspace(),)
            notices = (*missing, *candidates.problems, *tokens.estimate_notices(model))
            return replace(preview, degraded=tuple(dict.fromkeys(notices)))

        return self._record(
            operation, text, run, lambda preview: len(preview.memories) + len(preview.left_out)
        )

    @contextmanager
    def _open_request(
        self, text: str, vector: list[float] | None, options: MemorySearchOptions
    ) -> Iterator[RetrievalRequest | None]:
        """Yield a snapshot with the query's vector; None if the workspace does not exist yet."""
        if vector is not None and self._kb.reader.dimensions is not None:
            validation.validate_vector(vector, self._kb.reader.dimensions)
        with ExitStack() as stack:
            request: RetrievalRequest | None = None
            try:
                with _embedding_errors():
                    request = stack.enter_context(
                        self._kb.reader.request(
                            text,
                            spaces=[self.workspace],
                            recipes=[validate_recipe(Recipe("memories", mode=options.mode))],
                            options=QueryOptions(
                                now=options.now, as_of=options.as_of, vector=vector
                            ),
                            strict=True,
                        )
                    )
                    if request.vector is None and options.mode != "bm25":
                        # Nothing is embedded yet: that must not hide an embedder that fails.
                        self._kb.reader.embed_texts([text] if text else [])
            except NotFound:
                log.debug("memory: workspace %s does not exist yet", self.workspace)
            for problem in () if request is None else request.problems:
                log.warning("memory: %s", problem.reason)
            yield request

    def _missing_workspace(self) -> Problem:
        reason = f"workspace {self.workspace!r} does not exist yet: remember something first"
        return Problem("memories", reason, "unknown_space")

    def _count_access(self, ids: Sequence[str], options: MemorySearchOptions) -> None:
        if self._track:
            self._repository.count_access(ids, self._resolve_time("now", options.now))

    def _record(
        self, operation: str, text: str, run: Callable[[], T], count: Callable[[T], int]
    ) -> T:
        """Run an operation and record its latency and result count, if analytics are on."""
        started = perf_counter()
        results, failure = 0, ""
        try:
            answer = run()
            results = count(answer)
            return answer
        except KnowloomError as error:
            failure = error.code
            log.warning("memory %s of %d characters failed: %s", operation, len(text), error.code)
            raise
        finally:
            if self._analytics is not None:
                ms = (perf_counter() - started) * 1000
                self._analytics.record(
                    self._kb.reader.now(), self.workspace, operation, ms, results, failure, text
                )

    def _resolve_time(self, name: str, value: object) -> datetime:
        return validation.validate_time(name, self._kb.reader.now() if value is None else value)


def _recipe(options: MemorySearchOptions) -> Recipe:
    limit = FIT_BUDGET if options.limit is None else options.limit
    return Recipe("memories", mode=options.mode, limit=limit, min_score=options.min_score)


@contextmanager
def _embedding_errors() -> Iterator[None]:
    """Raise EmbeddingError where a required vector is missing."""
    try:
        yield
    except (EmbeddingError, Conflict) as error:
        raise EmbeddingError(str(error)) from error


def _validate_vector(vector: Sequence[float]) -> list[float]:
    numbers: list[float] = validation.validate_vector(vector).tolist()
    return numbers


def _validate_name(field: str, value: object) -> str:
    if not value:
        raise Invalid(f"{field} must be a non-empty name, got {value!r}")
    return validation.validate_name(field, value)


def _validate_dimensions(kb: Engine, expected: int) -> None:
    validation.validate_int("expected_dimensions", expected, 1, 1_000_000)
    if kb.reader.dimensions is None:
        raise Invalid(f"vectors of {expected} dimensions are expected, but there is no embedder")
    if kb.reader.dimensions != expected:
        raise Invalid(f"expected vectors of {expected} dimensions, got {kb.reader.dimensions}")
