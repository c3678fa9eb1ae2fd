"""The one object users hold: it writes knowledge, finds it, and weaves it into contexts. It knows no capability by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import EllipsisType
from typing import Any, Self

from knowloom import agents, codec, tiers, tokens, validation
from knowloom import history as life
from knowloom import options as request
from knowloom.agents import Agent
from knowloom.axioms.checker import Checked, checked
from knowloom.context import explain, paths
from knowloom.context.pipeline import answer
from knowloom.embedding import Meaning, Progress
from knowloom.errors import Invalid, NotFound
from knowloom.formats.layout import layout
from knowloom.history import Rollback, State
from knowloom.linking.linker import Linker, Naming, ends
from knowloom.loading import diff, provenance, readers
from knowloom.loading.loader import Loading
from knowloom.model import (
    MADE,
    Batch,
    Context,
    Edge,
    Filter,
    Hit,
    Item,
    Key,
    Kind,
    Query,
    SpaceInfo,
)
from knowloom.options import AS_RECIPES_SAY, RetrievalSettings
from knowloom.options import known as known_numbers
from knowloom.ports import LLM, Caching, Embedder, Stores, Vector
from knowloom.recipes import Mode, Recipe
from knowloom.report import Report
from knowloom.retrieval.as_of import stores_then
from knowloom.retrieval.hybrid import search
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.retrieval.walk import walked_search
from knowloom.secrets import rules
from knowloom.secrets.scanner import Rules
from knowloom.structuring import pipeline
from knowloom.structuring.pipeline import Ingested
from knowloom.tiers import Tier
from knowloom.tracing import span, traced

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the stores hold."""

    spaces: tuple[SpaceInfo, ...]
    embedder: str  # the fingerprint of the stored vectors
    without_vector: int
    cache_hits: int
    cache_misses: int
    disk_vectors: int = 0  # in the file of the embedding cache, if there is one
    disk_hits: int = 0  # since that file was made
    cache_problem: str = ""


class Engine:
    """Opened by `knowloom.open`; closed by `close` or at the end of a `with` block."""

    def __init__(
        self,
        stores: Stores,
        embedder: Embedder | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        secrets: Rules | None = None,
        links: Sequence[str] | None = None,
        caching: Caching | None = None,
        agents: Mapping[str, Agent] = agents.AGENTS,
        retrieval: RetrievalSettings = AS_RECIPES_SAY,
        naming: Naming | None = None,
        records: Path | None = None,
    ) -> None:
        self._stores = stores
        self._linker = Linker(stores, links, naming)
        self.agents = agents  # by name
        self.retrieval = retrieval
        self._door = (
            rules.builtin() if secrets is None else secrets
        )  # all that is written comes through it
        self._meaning = Meaning(stores, embedder, caching)
        self._clock = clock
        self._records = records  # where check-in records go unless told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for store in self._stores.each():
            store.close()
        self._meaning.close()

    def with_retrieval(self, retrieval: RetrievalSettings) -> Engine:
        """The same knowledge, asked with other numbers. Closing one closes both."""
        other = copy(self)
        other.retrieval = known_numbers(retrieval)
        return other

    # writing

    def add(
        self,
        items: Item | Iterable[Item],
        edges: Iterable[Edge] = (),
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        embed: bool = True,
        expected: Mapping[Key, str] | None = None,
    ) -> Report:
        """Store items and edges in one write: all of them, or none with the reason. Words are searchable at once; vectors follow
        before this returns, unless `embed` is False (then `embed()` makes them later) or ready `vectors`, one per item, are given.
        `expected` are versions (see `version`) that must still be the stored ones, "" for items that must be new."""
        checked = [
            self._door.item(one)
            for one in ([items] if isinstance(items, Item) else validation.several("items", items))
        ]
        checked_edges = [self._door.edge(one) for one in validation.several("edges", edges)]
        self._refuse_duplicates(checked, checked_edges)
        ready = self._meaning.ready(checked, vectors)
        for number, reason in diff.dangling(
            checked_edges, {item.key for item in checked}, self._stores
        ).items():
            edge = checked_edges[number]
            raise Invalid(f"edge {edge.source!r} -[{edge.type}]-> {edge.target!r}: {reason}")
        report = self._write(checked, checked_edges, expected)
        self._meaning.put(ready)
        spaces = {item.space for item in checked}
        if embed and vectors is None:
            report += Report(problems=self._meaning.embedded(sorted(spaces)))
        return report + Report(
            problems=self._linker.linked(sorted(spaces | {edge.space for edge in checked_edges}))
        )

    def load(
        self,
        source: str | Path | Mapping[str, Any],
        *,
        space: str | None = None,
        embed: bool = True,
        keep: bool = False,
        progress: Progress | None = None,
    ) -> Report:
        """Store what a file, a folder or a dict holds. Bad rows are skipped and reported. Loading a file or a folder again changes only
        what changed, and removes what it brought before and has no more, unless `keep` is True."""
        parts = readers.parts(source, space)
        loading = Loading(
            self._stores,
            self._door.parsed,
            self._apply,
            self._clock(),
            provenance.origin(source, space),
            progress,
        )
        report = loading.run(parts, keep)
        spaces = {
            space for space, _ in loading.seen.keys
        }  # also where nothing changed: an interrupted load is caught up with
        report += Report(problems=self._meaning.embedded(sorted(spaces), progress) if embed else ())
        return report + Report(
            problems=self._linker.linked(sorted(loading.spaces | spaces), progress)
        )

    def ingest(
        self,
        text: str,
        *,
        llm: LLM,
        space: str,
        record_dir: str | Path | EllipsisType | None = ...,
        entity: str | None = None,
        now: datetime | None = None,
        embed: bool = True,
        progress: Progress | None = None,
        **options: Any,
    ) -> Ingested:
        """Structure free text with a language model and store it. Every run leaves a check-in record in `record_dir` (not given:
        beside the file of the knowledge; None: no record, and no way to know a text again); a text that has one is not asked about again.
        `entity` is whom it is about. Options: source="", max_retries=3, max_chars=12000, again=False, dry_run=False."""
        records = self._records if isinstance(record_dir, EllipsisType) else record_dir
        asked = pipeline.asked(
            text,
            space,
            entity,
            records,
            validation.time("now", self._clock() if now is None else now),
            options,
        )
        return pipeline.ingest(asked, llm, self._knowledge(embed, progress), progress)

    def replay(self, folder: str | Path, *, space: str | None = None, embed: bool = True) -> Report:
        """Load a check-in record again, without a language model; into its own space unless another is named."""
        return pipeline.replay(folder, space, self._knowledge(embed, None))

    def delete(
        self, ids: str | Sequence[str], *, space: str, expected: Mapping[Key, str] | None = None
    ) -> int:
        """Forget items with their words, vectors and edges; how many were there. `expected` as for `add`."""
        self.known([space])
        keys = [
            item.key
            for item in self._stores.items.get(
                [(space, id) for id in dict.fromkeys(request.ids(ids))]
            )
        ]
        self._apply(
            Batch(self._clock(), deleted=tuple(keys), expected=tuple((expected or {}).items()))
        )
        self._linker.linked([space])
        return len(keys)

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Forget these links of people; how many were there. One that knowloom made would come back: forbid it instead."""
        found = self._stores.graph.get_edges(validation.edge_keys(edges))
        for edge in found:
            if edge.origin == MADE:
                raise Invalid(
                    f"edge {edge.source!r} -[{edge.type}]-> {edge.target!r} was made by knowloom: forbid it, by adding it with weight 0"
                )
        self._apply(Batch(self._clock(), deleted_edges=tuple(edge.key for edge in found)))
        self._linker.linked(sorted({edge.space for edge in found}))
        return len(found)

    def restore(
        self,
        id: str,
        *,
        space: str,
        at: datetime | None = None,
        version: str | None = None,
        edges_of: Sequence[str] | None = None,
        embed: bool = True,
    ) -> Report:
        """Bring an item back as it was at a time or in the state of a version (see `history`), and a deleted one, when neither is given,
        as it was at last; with the links it had then, where both ends exist. Links made since stay. `edges_of`: only links that these
        spaces own."""
        self.known([space])
        key, then = (
            (space, validation.name("id", id)),
            None if at is None else validation.time("at", at),
        )
        with self._reading():
            found = life.restored(key, then, version, edges_of, self._stores)
            batch, report = life.restoring(key, *found, self._clock(), self._stores)
        if batch.items or batch.edges:
            self._apply(batch)
        report += Report(problems=self._meaning.embedded([space]) if embed else ())
        return report + Report(problems=self._linker.linked([space]))

    def rollback(
        self,
        to: datetime,
        *,
        spaces: Sequence[str] | None = None,
        dry_run: bool = False,
        embed: bool = True,
    ) -> Rollback:
        """Make the spaces (None: all) what they were at that time, in one write of new changes: the log stays, so that a rollback can
        itself be rolled back. A Conflict, and nothing else, if an item changes meanwhile. `dry_run` only says what would change."""
        names, then = self._all_or(spaces), validation.time("to", to)
        with self._reading():
            batch, plan = life.rolling_back(then, names, self._clock(), self._stores)
        if dry_run:
            return plan
        if plan.steps:
            self._apply(batch)
        problems = self._meaning.embedded(names) if embed else ()
        return replace(plan, dry_run=False, problems=problems + self._linker.linked(names))

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Make the vectors that are missing; how many were made."""
        names = self._all_or(spaces)
        made = self._meaning.embed(names, progress)
        self._linker.linked(names, progress)
        return made

    def link(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Make the links that wait to be made, such as after an interrupted write; how many items were looked at."""
        return self._linker.link(self._all_or(spaces), progress)

    def relink(self, progress: Progress | None = None) -> int:
        """Forget the links that knowloom made and make them anew; how many items were looked at."""
        return self._linker.relink(self._all_or(None), progress)

    def reindex(self, progress: Progress | None = None) -> int:
        """Make words and vectors anew from the items, with today's analyser and embedder; how many vectors were made. Without an
        embedder vectors stay as they are: they could not be made again. Where several stores play the roles, all are first made to agree."""
        if self._stores.layers is not None:
            self._stores.layers.repair(self._clock())
        self._stores.words.rebuild_words(
            self._walk([info.name for info in self._stores.items.spaces()])
        )
        return self.embed(progress=progress) if self._meaning.forget() else 0

    # reading

    def get(self, ids: str | Sequence[str], *, space: str) -> list[Item]:
        """The items in the order asked; unknown ids are left out."""
        self.known([space])
        return self._stores.items.get([(space, id) for id in request.ids(ids)])

    def history(self, id: str, *, space: str, limit: int = 1000) -> list[State]:
        """Everything that happened to an item and its links, newest first, also when it is deleted."""
        self.known([space])
        with self._reading():
            return life.history((space, validation.name("id", id)), self._stores)[
                : request.whole("limit", limit, 1, request.MAX_LIMIT)
            ]

    @staticmethod
    def version(item: Item) -> str:
        """Names the state of a stored item, for `expected`."""
        return codec.version(item)

    def items(
        self,
        spaces: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Iterator[Item]:
        """Every item, ordered by (space, id)."""
        names = self._all_or(spaces)
        return self._walk(names, request.kinds(kinds), validation.names("types", types))

    def _walk(
        self, spaces: Sequence[str], kinds: tuple[Kind, ...] = (), types: tuple[str, ...] = ()
    ) -> Iterator[Item]:
        only = Filter(tuple(spaces), kinds, types)
        after: Key | None = None
        while page := self._stores.items.find(only, 1000, after):
            yield from page
            after = page[-1].key

    def page(
        self,
        spaces: Sequence[str],
        *,
        limit: int = 100,
        after: Key | None = None,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> list[Item]:
        """The next items behind `after`, ordered by (space, id)."""
        only = Filter(
            tuple(self.known(spaces)), request.kinds(kinds), validation.names("types", types)
        )
        return self._stores.items.find(
            only, request.whole("limit", limit, 1, request.MAX_LIMIT), after
        )

    def edge_page(
        self,
        spaces: Sequence[str],
        *,
        limit: int = 100,
        after: Edge | None = None,
        made: bool | None = False,
    ) -> list[Edge]:
        """The next edges behind `after`, ordered by key: people's, knowloom's own (`made`), or both (None)."""
        return self._stores.graph.edges(
            self.known(spaces), request.whole("limit", limit, 1, request.MAX_LIMIT), after, made
        )

    def edges(
        self, spaces: Sequence[str] | None = None, *, made: bool | None = False
    ) -> Iterator[Edge]:
        """Every edge, ordered by its key: people's, knowloom's own (`made`), or both (None)."""
        names = self._all_or(spaces)
        after: Edge | None = None
        while page := self._stores.graph.edges(names, 1000, after, made):
            yield from page
            after = page[-1]

    def search(
        self,
        text: str,
        *,
        spaces: Sequence[str],
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        exclude_types: Sequence[str] = (),
        tags: Sequence[str] = (),
        subject: str | None = None,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 10,
        mode: Mode = "hybrid",
        min_score: float = 0.0,
        as_of: datetime | None = None,
        now: datetime | None = None,
        vector: Sequence[float] | None = None,
        tier: tiers.Given = None,
    ) -> list[Hit]:
        """The best items, best first. Filters run inside the search: asking for 10 gives 10 if 10 exist. The mode "walk" also follows
        links from what it finds, for questions that need several pieces of knowledge. `tier` as for `context`."""
        recipe = request.checked_recipe(
            self.retrieval.applied(Recipe("search", mode=mode, limit=limit, min_score=min_score))
        )
        query = self._query(text, spaces, now=now, as_of=as_of, vector=vector)
        level = tiers.in_force(tier)
        seen, most = tiers.restricted_search(request.kinds(kinds), limit, level)
        only = Filter(
            query.spaces,
            seen,
            validation.names("types", types),
            validation.names("exclude_types", exclude_types),
            validation.names("tags", tags),
            () if subject is None else (validation.name("subject", subject),),
            None if created_from is None else validation.time("created_from", created_from),
            request.earliest(
                query.as_of,
                None if created_to is None else validation.time("created_to", created_to),
            ),
            query.as_of or query.now,
            request.fraction("min_confidence", min_confidence),
        )
        with self._reading():
            found, problems = self._meaning.of_query(query, [recipe] if most else [])
            for problem in (*problems, *level.notes):
                log.warning("search %s: %s", problem.part, problem.reason)
            find = walked_search if recipe.mode == "walk" else search
            then = stores_then(self._stores, query.as_of)
            return (
                list(find(query.text, found, only, replace(recipe, limit=most), stores=then).hits)
                if most
                else []
            )

    def context(self, text: str, *, spaces: Sequence[str], **options: Any) -> Context:
        """The best context for a request, within its budget. Options: max_tokens=2000 (None: no limit), recipe="knowledge" (a name
        or Recipe values) or agent (a name or an Agent), format="markdown", model="gpt-4", entity, now, as_of, vector, tier (a name, or
        what finds it out; None allows everything), paths=False (True: what links led to says by which); and, for every recipe that
        searches: types, tags, kinds, mode, limit, min_score, bm25_weight, vector_weight; depth for those that follow links; exclude_types for all."""
        options, tier = self._settled(options)
        with traced() as timings, self._reading(), span("total"):
            query, recipes = self._request(text, spaces, options)
            found, problems = self._meaning.of_query(query, recipes)
            then = stores_then(self._stores, query.as_of)
            context = answer(
                query, recipes, found, then, tokens.counter(query.model), (*problems, *tier.notes)
            )
        return replace(context, stats=replace(context.stats, timings=timings))

    def explain(
        self, text: str, *, spaces: Sequence[str], ids: str | Sequence[str] = (), **options: Any
    ) -> Context:
        """The same answer as `context`, where everything left out also says what would bring it in; `ids` are asked about by name."""
        options, tier = self._settled(options)
        if not tier.full:  # what is beyond the tier is not told of
            if ids:
                tiers.check_full(tier, "asking about items by name")
            return self.context(text, spaces=spaces, **options)
        with traced() as timings, self._reading(), span("total"):
            query, recipes = self._request(text, spaces, options)
            found, problems = self._meaning.of_query(query, recipes)
            then, counter = stores_then(self._stores, query.as_of), tokens.counter(query.model)
            context = answer(query, recipes, found, then, counter, problems)
            known = [info.name for info in self._spaces()]
            context = explain.explained(
                context,
                recipes,
                found,
                then,
                counter,
                request.ids(ids),
                known,
                lambda larger: self._request(text, spaces, options | {"max_tokens": larger})[1],
            )
            context = paths.explained(context, then)
        return replace(context, stats=replace(context.stats, timings=timings))

    @contextmanager
    def asked(
        self, text: str, *, spaces: Sequence[str], recipes: Sequence[Recipe], **options: Any
    ) -> Iterator[RetrievalRequest]:
        """For capabilities: what they need to answer a request of their own. Options as for `context`."""
        query, _ = self._request(text, spaces, options)
        with self._reading():
            vector, problems = self._meaning.of_query(query, recipes)
            then = stores_then(self._stores, query.as_of)
            yield RetrievalRequest(query, vector, then, problems=tuple(problems))

    def check(self, spaces: str | Sequence[str] | None = None) -> Checked:
        """Every entity, relationship and claim of the spaces (None: of all) against the axioms stored there."""
        names = self._all_or([spaces] if isinstance(spaces, str) else spaces)
        with self._reading():
            return checked(names, self._stores)

    def stats(self) -> Statistics:
        with self._reading():
            spaces = tuple(self._spaces())
            missing = self._stores.vectors.count_missing([info.name for info in spaces])
            return Statistics(
                spaces, self._stores.vectors.fingerprint(), missing, *self._meaning.cached
            )

    def verify(self) -> list[str]:
        """What is wrong with the stored data, in words; nothing when all is well."""
        return self._stores.items.verify()

    def known(self, spaces: Sequence[str]) -> list[str]:
        """The spaces, each once. An unknown one is an error that names the known ones."""
        wanted = validation.names("spaces", spaces)
        known = {info.name for info in self._spaces(wanted)}
        for space in wanted:
            if space not in known:
                raise NotFound(
                    f"no space {space!r}; known: {', '.join(info.name for info in self._spaces()) or 'none yet'}",
                    "unknown_space",
                )
        return list(dict.fromkeys(wanted))

    @contextmanager
    def reading(self) -> Iterator[Stores]:
        """For capabilities: the stores, in one state for the whole block and this thread."""
        with self._reading():
            yield self._stores

    # for capabilities

    @contextmanager
    def asking(
        self, text: str, *, spaces: Sequence[str], mode: Mode = "hybrid", **times: Any
    ) -> Iterator[RetrievalRequest]:
        """One state of the stores for the stages a capability runs itself, with the question's vector: an error if it cannot be had."""
        query = self._query(text, spaces, **({"now": None, "as_of": None, "vector": None} | times))
        with self._reading():
            found, problems = self._meaning.of_query(
                query, [request.checked_recipe(Recipe("asking", mode=mode))], strict=True
            )
            then = stores_then(self._stores, query.as_of)
            yield RetrievalRequest(query, found, then, problems=tuple(problems))

    def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Vectors of texts, in one batch; the cache keeps them for the questions that follow. Without an embedder there are none."""
        return self._meaning.of_texts(texts)

    def now(self) -> datetime:
        return self._clock()

    @property
    def asks_nobody(self) -> bool:
        """Whether questions are answered by this process alone, computing all the time."""
        return self._meaning.asks_nobody

    @property
    def dimensions(self) -> int | None:
        """Of the embedder's vectors; None without one."""
        return self._meaning.dimensions

    # inside

    def _knowledge(self, embed: bool, progress: Progress | None) -> pipeline.Knowledge:
        return pipeline.Knowledge(
            lambda ids, space: self._stores.items.get([(space, id) for id in ids]),
            lambda layers, space: self.load(layers, space=space, embed=embed, progress=progress),
            self._door.refuse_text,
        )

    def _all_or(self, spaces: Sequence[str] | None) -> list[str]:
        return [info.name for info in self._spaces()] if spaces is None else self.known(spaces)

    def _spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        """Those of users."""
        return [info for info in self._stores.items.spaces(names) if info.name != validation.LEDGER]

    def _write(
        self,
        items: Sequence[Item],
        edges: Sequence[Edge],
        expected: Mapping[Key, str] | None = None,
    ) -> Report:
        now = self._clock()
        written, report = diff.changed_items(items, now, self._stores)
        links = diff.changed_edges(edges, self._stores)
        if written or links or expected:
            self._apply(
                Batch(now, tuple(written), tuple(links), expected=tuple((expected or {}).items()))
            )
        return report + Report(edges=len(links))

    def _apply(self, batch: Batch) -> None:
        """The truth first: if it refuses, nothing has changed anywhere."""
        batch = replace(
            batch, marked=tuple(ends([*(edge.key for edge in batch.edges), *batch.deleted_edges]))
        )
        for store in self._stores.each():
            store.apply(batch)
            batch = replace(batch, expected=())

    def _refuse_duplicates(self, items: Sequence[Item], edges: Sequence[Edge]) -> None:
        if twice := validation.duplicates(item.key for item in items):
            raise Invalid(f"the same id twice in one write: {twice[:3]}")
        if twice := validation.duplicates(edge.key for edge in edges):
            raise Invalid(f"the same edge twice in one write: {twice[:3]}")

    def _query(
        self,
        text: str,
        spaces: Sequence[str],
        *,
        now: datetime | None,
        as_of: datetime | None,
        vector: Sequence[float] | None,
        **more: Any,
    ) -> Query:
        ready = () if vector is None else tuple(validation.vector(vector).tolist())
        return Query(
            request.text(text),
            tuple(self.known(spaces)),
            validation.time("now", self._clock() if now is None else now),
            as_of=None if as_of is None else validation.time("as_of", as_of),
            vector=ready,
            **more,
        )

    def _settled(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], Tier]:
        """The options with those of the agent, and with the tier that is in force, which is found out once."""
        tier = tiers.in_force(options.get("tier"))
        return agents.applied(options, self.agents, tier) | {"tier": tier}, tier

    def _request(
        self, text: str, spaces: Sequence[str], options: dict[str, Any]
    ) -> tuple[Query, tuple[Recipe, ...]]:
        given = dict(options)
        tier = tiers.in_force(given.pop("tier", None))
        named = given.pop("recipe", "knowledge")
        recipes = request.named_recipes(named)
        if isinstance(named, str) and self.retrieval != AS_RECIPES_SAY:
            recipes = tuple(self.retrieval.applied(one, given) for one in recipes)
        query = self._query(
            text,
            spaces,
            now=given.pop("now", None),
            as_of=given.pop("as_of", None),
            vector=given.pop("vector", None),
            max_tokens=request.budget(given.pop("max_tokens", 2000)),
            format=layout(validation.name("format", given.pop("format", "markdown"))).name,
            model=given.pop("model", "gpt-4"),
            entity=None
            if given.get("entity") is None
            else validation.name("entity", given["entity"]),
            paths=request.flag("paths", given.pop("paths", False)),
        )
        given.pop("entity", None)
        tokens.counter(query.model)
        return query, tiers.restricted(request.wanted(recipes, given, query.max_tokens), tier)

    def _reading(self) -> ExitStack:
        """One state of every store for a whole request."""
        with ExitStack() as stack:
            for store in self._stores.each():
                stack.enter_context(store.reading())
            return stack.pop_all()
