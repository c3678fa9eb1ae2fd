"""Read access to the knowledge, for the engine and for everything that is built on it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from os import getpid

from knowloom import tokens
from knowloom.context import explain, paths
from knowloom.context.item_pages import ItemPage, minimum_budget, paginate
from knowloom.context.item_search import Search, search_items
from knowloom.context.notices import doubt
from knowloom.context.pipeline import build_context
from knowloom.conversation.earlier_turns import resolve_turn
from knowloom.embedding import EmbeddingService
from knowloom.errors import Invalid, NotFound, list_names, unknown_space
from knowloom.filters.condition_json import validate_where
from knowloom.formats.custom import resolve_layout
from knowloom.model import Context, ContextFormat, Edge, Filter, Hits, Item, Key, Problem, Query
from knowloom.options import (
    ContextOptions,
    QueryOptions,
    Row,
    SearchOptions,
    fill_space,
    validate_budget,
)
from knowloom.ports import HIDDEN_SPACES, SpaceInfo, Stores, Vector
from knowloom.ports.views import require_process
from knowloom.recipes import Recipe
from knowloom.retrieval.as_of import ErasedStates, stores_as_of
from knowloom.retrieval.reranking import Reranking
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.retrieval_settings import RetrievalSettings
from knowloom.tiers import resolve_tier
from knowloom.tracing import collect_timings, span
from knowloom.validation import (
    choose_space,
    require_searchable,
    validate_bool,
    validate_fraction,
    validate_int,
    validate_name,
    validate_names,
    validate_query,
    validate_time,
    validate_vector,
)

log = logging.getLogger(__name__)

DEFAULTS = QueryOptions()
# Answers, not faults: logged as information.
QUIET_CODES = ("low_confidence", "no_results", "default_space")
PAGE = 1000  # items or edges read at a time
SUGGESTIONS = 3  # ids in the error about an unknown one
COMPARED_ITEMS = 200  # items read for each place where a similar id may be
MAX_COMPARED = 100  # characters of ids that are compared


class Reader:
    """Snapshots of the stores, and queries that are validated and embedded."""

    def __init__(
        self,
        stores: Stores,
        embedding: EmbeddingService,
        clock: Callable[[], datetime],
        reranking: Reranking | None = None,
    ) -> None:
        self._opened = stores
        self._embedding = embedding
        self._clock = clock
        self._reranking = reranking
        self._process = getpid()
        self.is_restricted = False  # True: other items are hidden, and so are digests of spaces

    @property
    def stores(self) -> Stores:
        """The stores; raise Unavailable in a forked process."""
        require_process(self._process)
        return self._opened

    def close(self) -> None:
        """Close the reranker; the stores and the embedder belong to others."""
        close = getattr(self._reranking and self._reranking.reranker, "close", None)
        if close is not None:
            close()

    def restrict(self, stores: Stores, embedding: EmbeddingService) -> Reader:
        """Return a reader of a restricted view of the stores."""
        other = Reader(stores, embedding, self._clock, self._reranking)
        other.is_restricted, other._process = True, self._process
        return other

    @contextmanager
    def snapshot(self) -> Iterator[Stores]:
        """Hold one state of every store for the block and this thread; may be nested."""
        with ExitStack() as stack:
            for store in self.stores.unique():
                stack.enter_context(store.reading())
            yield self.stores

    @contextmanager
    def request(
        self,
        text: str,
        *,
        spaces: Sequence[str] | None,
        recipes: Sequence[Recipe],
        options: QueryOptions = DEFAULTS,
        strict: bool = False,
    ) -> Iterator[RetrievalRequest]:
        """Validate and embed a query on one snapshot.

        Without a vector the request falls back to words and has a problem; if it is `strict`, or
        a recipe searches in mode "vector", the error is raised instead. `spaces` None is the
        default space.
        """
        with self.snapshot() as stores, stores.tolerate() as failures:
            existing, unknown = self._split_spaces(spaces)
            query = self._query(text, existing, options)
            searches = any(recipe.source == "search" for recipe in recipes)
            if searches and options.vector is None and options.entity is None:
                require_searchable(query.text)
            vector, problems = self._embedding.embed_query(query, recipes, strict)
            initial, erased = (*unknown, *problems), ErasedStates()
            stores = stores_as_of(stores, query.as_of, erased)
            yield RetrievalRequest(
                query, vector, stores, initial=initial, failures=failures, erased=erased
            )

    def begin_reranking(self, rerank: bool | None) -> Reranking | None:
        """Return the reranking of a request, None for none; by default it is used if it is open."""
        if rerank is not None and validate_bool("rerank", rerank) and self._reranking is None:
            raise Invalid("rerank must not be true without a reranker: open one with rerank=")
        if self._reranking is None or rerank is False:
            return None
        return self._reranking.begin()

    def search(
        self,
        text: str,
        spaces: Sequence[str] | None,
        options: SearchOptions,
        settings: RetrievalSettings,
    ) -> Hits:
        """Return the best hits of a request with their confidence; see `Engine.search`."""
        recipe, tier = options.resolve_recipe(settings), resolve_tier(options.tier)
        minimum = validate_fraction("min_answer_confidence", options.min_answer_confidence)
        allowed = options.restrict(tier)
        times = QueryOptions(
            now=options.now, as_of=options.as_of, vector=options.vector, where=options.where
        )
        recipes = [recipe] if allowed.limit else []
        reranking = self.begin_reranking(options.rerank)
        with self.request(text, spaces=spaces, recipes=recipes, options=times) as request:
            only, hits = allowed.resolve_filter(request.query), Hits()
            if recipes:
                bounds = (settings.floor, minimum)
                search = Search(request, recipe, only, allowed.limit, *bounds, reranking)
                hits = search_items(search)
            problems = dict.fromkeys((*request.problems, *tier.notes, *hits.degraded))
            hits = Hits(hits, hits.confidence, tuple(problems))
        for problem in hits.degraded:
            level = logging.INFO if problem.code in QUIET_CODES else logging.WARNING
            log.log(level, "search %s: %s", problem.part, problem.reason)
        return hits

    def build_context(
        self,
        text: str,
        spaces: Sequence[str] | None,
        options: ContextOptions,
        settings: RetrievalSettings,
        explained_ids: Sequence[str] | None = None,
    ) -> Context:
        """Return the context of a request, with explanations unless `explained_ids` is None."""
        recipes = options.resolve_recipes(settings)
        counter = tokens.get_counter(options.token_model)
        notes = resolve_tier(options.tier).notes + tokens.estimate_notices(options.token_model)
        reranking = self.begin_reranking(options.rerank)
        with (
            collect_timings() as timings,
            span("total"),
            self.request(text, spaces=spaces, recipes=recipes, options=options) as request,
        ):
            query, vector, stores = request.query, request.vector, request.stores
            context = build_context(request, recipes, counter, notes, reranking)
            confidence, minimum = context.confidence, query.min_answer_confidence
            doubts = doubt(confidence, settings.floor, minimum, "context")
            context = replace(context, degraded=(*context.degraded, *doubts))
            is_refused = confidence is not None and confidence < minimum
            if explained_ids is not None and not is_refused:
                context = explain.explain_context(
                    context,
                    recipes,
                    vector,
                    stores,
                    counter,
                    explained_ids,
                    self.resolve_spaces(),
                    lambda budget: replace(options, max_tokens=budget).resolve_recipes(settings),
                    reranking,
                )
                context = paths.annotate_context(context, stores)
        stats = replace(context.stats, timings=timings)
        return replace(context, digest=self.seal_digest(context.digest, context.text), stats=stats)

    def seal_digest(self, digest: str, text: str) -> str:
        """Return the digest of an answer; of a restricted reader one that depends on its text.

        The digests of spaces, which identify the knowledge otherwise, would show changes of hidden
        items.
        """
        if not self.is_restricted:
            return digest
        return hashlib.sha256(f"{digest} {text}".encode()).hexdigest()

    def resolve_spaces(self, spaces: Sequence[str] | None = None) -> list[str]:
        """Return the spaces (None: all) without duplicates; raise NotFound for an unknown one."""
        if spaces is None:
            return [info.name for info in self.spaces()]
        names = validate_names("spaces", spaces)
        with self.stores.tolerate() as failures:
            existing = {info.name for info in self.spaces(names)}
        for name in names:
            if name not in existing:
                for error in failures.values():  # the space may be in the layer that failed
                    raise error
                raise unknown_space(name, self.resolve_spaces())
        return list(dict.fromkeys(names))

    def resolve_space(self, space: str | None) -> str:
        """Return the space, or by default the only one or "default"; raise if it is unknown."""
        if space is None and not self.spaces():
            raise NotFound("nothing is stored yet: load files or add items first", "unknown_space")
        return self.resolve_spaces([self.choose_space(space)])[0]

    def choose_space(self, space: str | None) -> str:
        """Return the space to write to, which need not exist; by default as `resolve_space`."""
        return choose_space(self.filled_spaces()) if space is None else space

    def filled_spaces(self) -> list[str]:
        """Return the spaces with items, or all if none has any."""
        filled = [info.name for info in self.spaces() if info.items]
        return filled or self.resolve_spaces()

    def fill_space(self, rows: Iterable[Row], items: Sequence[Item] = ()) -> list[Row]:
        """Return items or edges with the default space where they name none."""
        return fill_space(rows, items, self.filled_spaces)

    def _split_spaces(self, spaces: Sequence[str] | None) -> tuple[list[str], list[Problem]]:
        """Return the spaces that exist, and a problem for each other one.

        None is the default space; the problem names those beside it. Raise NotFound if none exists.
        """
        if spaces is None:
            space = self.resolve_space(None)
            others = [name for name in self.filled_spaces() if name != space]
            reason = f"only {space!r} was searched; further spaces: {list_names(others)}"
            return [space], [Problem("spaces", reason, "default_space")] if others else []
        names = list(dict.fromkeys(validate_names("spaces", spaces)))
        existing = {info.name for info in self.spaces(names)}
        if names and not existing:
            self.resolve_spaces(names)
        return [name for name in names if name in existing], [
            Problem("spaces", f"unknown space {name!r}: it was not searched", "unknown_space")
            for name in names
            if name not in existing
        ]

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        """Return the counts and digests of the spaces (None: of all) that exist."""
        return [info for info in self.stores.items.spaces(names) if info.name not in HIDDEN_SPACES]

    def iterate_items(
        self, matching: Filter, limit: int | None = None, after: Key | None = None
    ) -> Iterator[Item]:
        """Iterate over items by key, or over one page of `limit` items behind `after`."""
        while page := self.stores.items.find(matching, limit or PAGE, after):
            yield from page
            if limit is not None:
                return
            after = page[-1].key

    def iterate_edges(
        self, spaces: Sequence[str], automatic: bool | None, limit: int | None, after: Edge | None
    ) -> Iterator[Edge]:
        """Iterate over edges by key, or over one page of `limit` edges behind `after`."""
        while page := self.stores.graph.edges(spaces, limit or PAGE, after, automatic):
            yield from page
            if limit is not None:
                return
            after = page[-1]

    def read(
        self,
        id: str,
        *,
        space: str | Sequence[str] | None = None,
        page: int = 1,
        max_tokens: int | None = 2000,
        passage: int | None = None,
        model: str = "gpt-4",
        strict: bool = False,
    ) -> ItemPage:
        """Return a page of an item; see `Engine.read`."""
        validate_int("page", page, 1)
        if passage is not None and page != 1:
            raise Invalid(f"page and passage exclude each other, got page={page!r}")
        validate_budget(max_tokens, 1)
        model = tokens.strict_model(model, validate_bool("strict", strict))
        counter, notices = tokens.get_counter(model), tokens.estimate_notices(model)
        with self.snapshot() as stores:
            item = self.find_item(validate_name("id", id), space)
            size = stores.words.passage_size()
        pages = paginate(item, size, counter, validate_budget(max_tokens, minimum_budget(item)))
        if passage is not None:
            validate_int("passage", passage, 0, len(pages.passages) - 1)
            page = pages.find_page(passage)
        number = validate_int("page", page, 1, len(pages.ranges))
        return replace(pages.build_page(number), degraded=notices)

    def find_item(self, id: str, space: str | Sequence[str] | None) -> Item:
        """Return the item with this id; it must be in exactly one of the spaces."""
        spaces = self.resolve_spaces([space] if isinstance(space, str) else space)
        items = self.stores.items.get([(name, id) for name in spaces])
        places = ", ".join(repr(item.space) for item in items)
        if len(items) > 1:
            raise Invalid(f"item {id!r} exists in the spaces {places}: pass one of them as space")
        if not items:
            where = f"space {spaces[0]!r}" if len(spaces) == 1 else f"{len(spaces)} spaces"
            similar = ", ".join(map(repr, self._similar_ids(id, spaces))) or "none"
            raise NotFound(f"no item {id!r} in {where}; similar: {similar}")
        return items[0]

    def _similar_ids(self, id: str, spaces: Sequence[str]) -> list[str]:
        """Return ids of similar spelling among the first ones and those near the id."""
        prefixes = ("", id[:2], id[: len(id) // 2])
        candidates = {
            item.id
            for space in spaces[:SUGGESTIONS]
            for prefix in prefixes
            for item in self.stores.items.find(Filter((space,)), COMPARED_ITEMS, (space, prefix))
            if len(item.id) <= MAX_COMPARED
        }
        return get_close_matches(id[:MAX_COMPARED], sorted(candidates), SUGGESTIONS)

    def embed_texts(self, texts: Sequence[str], *, queries: bool = False) -> list[Vector]:
        """Embed and cache passages, or queries, in one batch; empty without an embedder."""
        return self._embedding.embed_texts(texts, queries=queries)

    def now(self) -> datetime:
        return self._clock()

    @property
    def dimensions(self) -> int | None:
        """The length of the embedder's vectors; None without one."""
        return self._embedding.dimensions

    @property
    def is_cpu_bound(self) -> bool:  # True if queries make no network calls
        return self._embedding.is_cpu_bound

    def _query(self, text: str, spaces: Sequence[str], options: QueryOptions) -> Query:
        now, as_of, entity, vector = options.now, options.as_of, options.entity, options.vector
        return Query(
            validate_query(text),
            tuple(spaces),
            validate_time("now", self._clock() if now is None else now),
            validate_budget(options.max_tokens),
            _resolve_format(options),
            options.token_model,
            None if entity is None else validate_name("entity", entity),
            None if as_of is None else validate_time("as_of", as_of),
            () if vector is None else tuple(validate_vector(vector).tolist()),
            validate_bool("paths", options.paths),
            validate_bool("citations", options.citations),
            validate_fraction("min_answer_confidence", options.min_answer_confidence),
            where=validate_where(options.where),
            **resolve_turn(options.seen, options.after, options.new_tokens, options.format),
            fence=validate_bool("fence", options.fence),
        )


def _resolve_format(options: QueryOptions) -> str | ContextFormat:
    """Return the name of a format, or the valid format of the user."""
    if not isinstance(options.format, ContextFormat):
        return resolve_layout(validate_name("format", options.format)).name
    if options.citations:
        raise Invalid("citations need a built-in format; a custom one has the variable {{source}}")
    resolve_layout(options.format)
    return options.format
