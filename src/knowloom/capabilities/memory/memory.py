"""The object users hold: it remembers for one workspace, finds what was said, and writes the best of it into a prompt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from time import perf_counter
from typing import Any, TypeVar

from knowloom import options as request
from knowloom import tiers, tokens, validation
from knowloom.capabilities.memory import conversion, packing, templates
from knowloom.capabilities.memory import search as finding
from knowloom.capabilities.memory.analytics import Analytics
from knowloom.capabilities.memory.conversion import Fact, Turn
from knowloom.capabilities.memory.model import (
    ContextPreview,
    ContextResult,
    Remembered,
    SearchResult,
)
from knowloom.capabilities.memory.options import ContextOptions, SearchOptions
from knowloom.capabilities.memory.ranking import RANKERS, Ranker
from knowloom.capabilities.memory.repository import Shelf
from knowloom.capabilities.memory.templates import TEMPLATES, MemoryTemplate
from knowloom.engine import Engine
from knowloom.errors import Conflict, EmbeddingError, Invalid, KnowloomError, NotFound
from knowloom.recipes import AS_FITS, Recipe, resolved
from knowloom.retrieval.sources import RetrievalRequest

log = logging.getLogger(__name__)
T = TypeVar("T")


class Memory:
    """The memories of one workspace, which is a space of the engine. What every method may be asked is in `options.py`. `tier` as for
    `Engine.context`: memory is for `teams` and `enterprise`, so that a call under another tier is Forbidden."""

    def __init__(
        self,
        kb: Engine,
        workspace: str,
        *,
        default_template: str = "chat",
        default_token_budget: int = 2000,
        expected_dimensions: int | None = None,
        track_access: bool = False,
        analytics: Analytics | None = None,
        tier: tiers.Given = None,
    ) -> None:
        self._kb, self.workspace, self._tier = kb, _workspace(workspace), tier
        self._shelf = Shelf(kb, self.workspace)
        self._templates, self._rankers = dict(TEMPLATES), dict(RANKERS)
        self._template = templates.chosen(default_template, self._templates).name
        self._budget = request.whole("default_token_budget", default_token_budget, 0, 100_000_000)
        self._track, self._analytics = track_access, analytics
        if expected_dimensions is not None and kb.dimensions != request.whole(
            "expected_dimensions", expected_dimensions, 1, 1_000_000
        ):
            found = (
                "there is no embedder"
                if kb.dimensions is None
                else f"the embedder's have {kb.dimensions}"
            )
            raise Invalid(f"vectors of {expected_dimensions} dimensions are expected; {found}")

    # telling

    def remember(
        self,
        content: str,
        *,
        supersedes: str | Sequence[str] = (),
        related: Mapping[str, str] | None = None,
        embed: bool = True,
        **fields: Any,
    ) -> Remembered:
        """Store a memory. Fields: type, conversation, confidence=0.5, metadata, pinned=False, expires_at, valid_from, valid_to, created_at, speaker,
        title, tags, source, id. `supersedes` names memories whose place it takes: they are kept and linked, and found only for times before.
        `related` links it to others, by id, with the type of each link."""
        self._check_tier()
        at = self._time("created_at", fields.get("created_at"))
        item = conversion.memory(self.workspace, content, at, fields)
        old = self._shelf.known(request.ids(supersedes)) if supersedes else []
        links = [
            conversion.link(self.workspace, item.id, one.id, conversion.SUPERSEDES, 1.0, at)
            for one in old
        ]
        links += [
            conversion.link(self.workspace, item.id, id, type, 1.0, at)
            for id, type in (related or {}).items()
        ]
        self._shelf.add([item], links, [(one, conversion.ended(one, item)) for one in old], embed)
        return Remembered.of(self._shelf.known([item.id])[0])

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
        """Store what was said, turn by turn, with who said it and when; each turn is linked to the next, and the first to `after`. A summary and
        facts are stored beside the turns and point to them. Telling it again changes nothing. Gives turns, summary, facts."""
        self._check_tier()
        before = self._shelf.known([after])[0].text if after else ""
        said = conversion.turns(
            self.workspace,
            _named("conversation", conversation),
            messages,
            self._time("now", now),
            before,
        )
        at = self._time(
            "now", now or max((one.created_at for one in said if one.created_at), default=None)
        )
        items, links = conversion.conversation(
            self.workspace,
            conversation,
            said,
            at,
            summary,
            [conversion.fact(one) for one in facts],
            after or "",
        )
        self._shelf.add(items, links, (), embed)
        return [Remembered.of(item) for item in self._shelf.known([item.id for item in items])]

    def relate(
        self,
        source: str,
        target: str,
        type: str = "related",
        *,
        confidence: float = 1.0,
        now: datetime | None = None,
    ) -> None:
        """Link two memories."""
        self._check_tier()
        self._kb.add(
            [],
            [
                conversion.link(
                    self.workspace, source, target, type, confidence, self._time("now", now)
                )
            ],
        )

    def get(self, ids: str | Sequence[str]) -> list[Remembered]:
        """Memories by id; unknown ids are left out."""
        self._check_tier()
        return [Remembered.of(item) for item in self._shelf.stored(request.ids(ids))]

    def forget(self, ids: str | Sequence[str]) -> int:
        """Delete memories with their links; how many were there."""
        self._check_tier()
        found = [item.id for item in self._shelf.stored(request.ids(ids))]
        return self._kb.delete(found, space=self.workspace) if found else 0

    # asking

    def search(self, query: str, **options: Any) -> list[SearchResult]:
        """The memories nearest to a question, by words and meaning, in the ranker's order. Options: limit=10, memory_types, date_from, date_to,
        min_confidence, conversation_id, include_relationships=False, relationship_depth=1, relationship_types, mode="hybrid", min_score, ranker,
        ranking, as_of, now."""
        return self._search(_question(query), None, options)

    def search_by_vector(self, vector: Sequence[float], **options: Any) -> list[SearchResult]:
        """The same for a ready vector, by meaning alone."""
        return self._search("", validation.vector(vector).tolist(), options | {"mode": "vector"})

    def search_many(self, queries: Sequence[str], **options: Any) -> list[list[SearchResult]]:
        """One answer per question; the questions are embedded in one batch."""
        self._check_tier()
        asked = [_question(query) for query in _list(queries)]
        if SearchOptions.of(options).mode != "bm25":
            with _embedding():
                self._kb.embed_texts(asked)
        return [self._search(query, None, options) for query in asked]

    def build_context(self, query: str, **options: Any) -> ContextResult:
        """The best memories for a question, written by a template within a budget. Options: those of `search`, and template="chat",
        token_budget=2000, include_metadata=False, model="gpt-4", pinned=True; limit=None: as many as the budget could hold."""
        return self._context("context", _question(query), None, options).result()

    def build_context_by_vector(self, vector: Sequence[float], **options: Any) -> ContextResult:
        return self._context(
            "context", "", validation.vector(vector).tolist(), options | {"mode": "vector"}
        ).result()

    def preview(self, query: str, **options: Any) -> ContextPreview:
        """What `build_context` gives, with what it is made of and what was left out."""
        return self._context("preview", _question(query), None, options)

    def preview_by_vector(self, vector: Sequence[float], **options: Any) -> ContextPreview:
        return self._context(
            "preview", "", validation.vector(vector).tolist(), options | {"mode": "vector"}
        )

    def register_template(self, name: str, template: MemoryTemplate | Mapping[str, Any]) -> None:
        self._templates[name] = templates.checked(name, template)

    def register_ranker(self, name: str, ranker: Ranker) -> None:
        """A function from results and ranking options to the same results in another order."""
        if not callable(ranker):
            raise Invalid(f"ranker {name!r} must be a function, not {ranker!r}")
        self._rankers[_named("a ranker's name", name)] = ranker

    # inside

    def _check_tier(self) -> None:
        if self._tier is not None:
            tiers.check_full(tiers.in_force(self._tier), "memory")

    def _search(
        self, text: str, vector: Sequence[float] | None, given: Mapping[str, Any]
    ) -> list[SearchResult]:
        self._check_tier()
        options = SearchOptions.of(given)
        if options.limit is None:
            raise Invalid(
                "limit must be a whole number: only a context has a budget that could set it"
            )

        def run() -> list[SearchResult]:
            with self._asking(text, vector, options) as asked:
                found = (
                    []
                    if asked is None
                    else finding.found(asked, options, _recipe(options), self._rankers)
                )
            if self._track:
                self._shelf.count([one.memory.id for one in found], self._time("now", options.now))
            return found

        return self._noted("search", text, run, len)

    def _context(
        self, operation: str, text: str, vector: Sequence[float] | None, given: Mapping[str, Any]
    ) -> ContextPreview:
        self._check_tier()
        options = ContextOptions.of(given)
        template = templates.chosen(
            self._template if options.template is None else options.template, self._templates
        )
        budget = self._budget if options.token_budget is None else options.token_budget
        counter = tokens.counter(options.model)

        def run() -> ContextPreview:
            with self._asking(text, vector, options) as asked:
                found = (
                    []
                    if asked is None
                    else finding.found(
                        asked, options, resolved(_recipe(options), budget), self._rankers
                    )
                )
                pinned = (
                    [] if asked is None or not options.pinned else finding.pinned(asked, options)
                )
            preview = packing.context(
                packing.candidates(pinned, found),
                template,
                budget,
                counter,
                options.include_metadata,
            )
            if self._track and operation == "context":
                self._shelf.count(preview.memory_ids, self._time("now", options.now))
            return preview

        return self._noted(
            operation, text, run, lambda preview: len(preview.memories) + len(preview.left_out)
        )

    @contextmanager
    def _asking(
        self, text: str, vector: Sequence[float] | None, options: SearchOptions
    ) -> Iterator[RetrievalRequest | None]:
        """The stores and the question's vector. A workspace to which nothing was told yet has nothing to find, and gives None."""
        if vector is not None and self._kb.dimensions is not None:
            validation.vector(vector, self._kb.dimensions)
        with ExitStack() as stack:
            asked: RetrievalRequest | None = None
            try:
                with _embedding():
                    times = {"now": options.now, "as_of": options.as_of, "vector": vector}
                    asked = stack.enter_context(
                        self._kb.asking(text, spaces=[self.workspace], mode=options.mode, **times)
                    )
            except NotFound:
                log.debug("memory: nothing was told to workspace %s yet", self.workspace)
            for problem in () if asked is None else asked.problems:
                log.warning("memory: %s", problem.reason)
            yield asked

    def _noted(
        self, operation: str, text: str, run: Callable[[], T], count: Callable[[T], int]
    ) -> T:
        """Run, and note how long it took and how much it found, if that was asked for."""
        started = perf_counter()
        found, failed = 0, ""
        try:
            answer = run()
            found = count(answer)
            return answer
        except KnowloomError as error:
            failed = error.code
            log.warning("memory %s of %d characters failed: %s", operation, len(text), error.code)
            raise
        finally:
            if self._analytics is not None:
                ms = (perf_counter() - started) * 1000
                self._analytics.note(
                    self._kb.now(), self.workspace, operation, ms, found, failed, text
                )

    def _time(self, name: str, given: object) -> datetime:
        return validation.time(name, self._kb.now() if given is None else given)


def _recipe(options: SearchOptions) -> Recipe:
    limit = AS_FITS if options.limit is None else options.limit
    return Recipe("memories", mode=options.mode, limit=limit, min_score=options.min_score)


@contextmanager
def _embedding() -> Iterator[None]:
    """No vector where one is needed is an error of its own."""
    try:
        yield
    except (EmbeddingError, Conflict) as error:
        raise EmbeddingError(str(error)) from error


def _question(query: object) -> str:
    if not request.text(query).strip():
        raise Invalid("the query is empty: ask something")
    return str(query)


def _workspace(workspace: object) -> str:
    if not isinstance(workspace, str) or not workspace:
        raise Invalid(f"a memory needs a workspace: a name, not {workspace!r}")
    return validation.name("space", workspace)


def _named(field: str, value: object) -> str:
    if not value:
        raise Invalid(f"{field} must be a name, not {value!r}")
    return validation.name(field, value)


def _list(queries: object) -> Sequence[object]:
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise Invalid(f"queries must be a list of texts, not {queries!r}")
    return queries
