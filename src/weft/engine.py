"""The one object users hold: it writes knowledge, finds it, and weaves it into contexts. It knows no capability by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from weft import codec, request, tokens
from weft.errors import Invalid, NotFound
from weft.ingest import check, ledger, notes, prepare, read, secret_rules
from weft.ingest.notes import Ingested
from weft.ingest.prepare import Report
from weft.ingest.secrets import Rules
from weft.loading import Loading
from weft.meaning import Meaning, Progress
from weft.model import Batch, Context, Edge, Filter, Hit, Item, Key, Kind, Problem, Query, SpaceInfo
from weft.ports import LLM, Caching, Embedder, Stores, Vector
from weft.recipes import Mode, Recipe, resolved
from weft.stages import explain
from weft.stages.answer import answer
from weft.stages.gather import Request
from weft.stages.render import layout
from weft.stages.search import search
from weft.stages.then import stores_then
from weft.trace import span, traced

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
    """Opened by `weft.open`; closed by `close` or at the end of a `with` block."""

    def __init__(
        self,
        stores: Stores,
        embedder: Embedder | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        secrets: Rules | None = None,
        caching: Caching | None = None,
    ) -> None:
        self._stores = stores
        self._door = secret_rules.builtin() if secrets is None else secrets  # all that is written comes through it
        self._meaning = Meaning(stores, embedder, caching)
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for store in self._stores.each():
            store.close()
        self._meaning.close()

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
        checked = [self._door.item(one) for one in ([items] if isinstance(items, Item) else items)]
        checked_edges = [self._door.edge(one) for one in edges]
        self._refuse_duplicates(checked, checked_edges)
        ready = self._meaning.ready(checked, vectors)
        for number, reason in prepare.dangling(checked_edges, {item.key for item in checked}, self._stores).items():
            edge = checked_edges[number]
            raise Invalid(f"edge {edge.source!r} -[{edge.type}]-> {edge.target!r}: {reason}")
        report = self._write(checked, checked_edges, expected)
        self._meaning.put(ready)
        if not embed or vectors is not None:
            return report
        return report + Report(problems=self._meaning.embedded(sorted({item.space for item in checked})))

    def load(
        self, source: str | Path | Mapping[str, Any], *, space: str | None = None, embed: bool = True, keep: bool = False, progress: Progress | None = None
    ) -> Report:
        """Store what a file, a folder or a dict holds. Bad rows are skipped and reported. Loading a file or a folder again changes only
        what changed, and removes what it brought before and has no more, unless `keep` is True."""
        parts = read.parts(source, space)
        loading = Loading(self._stores, self._door.parsed, self._apply, self._clock(), ledger.origin(source, space), progress)
        report = loading.run(parts, keep)
        return report + Report(problems=self._meaning.embedded(sorted({key[0] for key in loading.seen}), progress) if embed else ())

    def ingest(
        self,
        text: str,
        *,
        llm: LLM,
        space: str,
        record_dir: str | Path | None,
        entity: str | None = None,
        now: datetime | None = None,
        embed: bool = True,
        progress: Progress | None = None,
        **options: Any,
    ) -> Ingested:
        """Structure free text with a language model and store it. Every run leaves a check-in record in `record_dir` (None: no record,
        and no way to know a text again); a text that has one is not asked about again. `entity` is whom it is about. Options:
        source="", max_retries=3, max_chars=12000, again=False, dry_run=False."""
        asked = notes.asked(text, space, entity, record_dir, check.time("now", now or self._clock()), options)
        return notes.ingest(asked, llm, self._knowledge(embed, progress), progress)

    def replay(self, folder: str | Path, *, space: str | None = None, embed: bool = True) -> Report:
        """Load a check-in record again, without a language model; into its own space unless another is named."""
        return notes.replay(folder, space, self._knowledge(embed, None))

    def delete(self, ids: str | Sequence[str], *, space: str, expected: Mapping[Key, str] | None = None) -> int:
        """Forget items with their words, vectors and edges; how many were there. `expected` as for `add`."""
        self.known([space])
        keys = [item.key for item in self._stores.items.get([(space, id) for id in dict.fromkeys(request.ids(ids))])]
        self._apply(Batch(self._clock(), deleted=tuple(keys), expected=tuple((expected or {}).items())))
        return len(keys)

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Forget these links; how many were there."""
        keys = [edge.key for edge in self._stores.graph.get_edges([edge.key for edge in edges])]
        self._apply(Batch(self._clock(), deleted_edges=tuple(keys)))
        return len(keys)

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Make the vectors that are missing; how many were made."""
        return self._meaning.embed(self._all_or(spaces), progress)

    def reindex(self, progress: Progress | None = None) -> int:
        """Make words and vectors anew from the items, with today's analyser and embedder; how many vectors were made. Without an
        embedder vectors stay as they are: they could not be made again."""
        self._stores.words.rebuild_words(self._walk([info.name for info in self._stores.items.spaces()]))
        if not self._meaning.possible:
            return 0
        self._stores.vectors.forget_vectors()
        return self.embed(progress=progress)

    # reading

    def get(self, ids: str | Sequence[str], *, space: str) -> list[Item]:
        """The items in the order asked; unknown ids are left out."""
        self.known([space])
        return self._stores.items.get([(space, id) for id in request.ids(ids)])

    @staticmethod
    def version(item: Item) -> str:
        """Names the state of a stored item, for `expected`."""
        return codec.version(item)

    def items(self, spaces: Sequence[str] | None = None, *, kinds: Sequence[str] = (), types: Sequence[str] = ()) -> Iterator[Item]:
        """Every item, ordered by (space, id)."""
        names = self._all_or(spaces)
        return self._walk(names, request.kinds(kinds), check.names("types", types))

    def _walk(self, spaces: Sequence[str], kinds: tuple[Kind, ...] = (), types: tuple[str, ...] = ()) -> Iterator[Item]:
        only = Filter(tuple(spaces), kinds, types)
        after: Key | None = None
        while page := self._stores.items.find(only, 1000, after):
            yield from page
            after = page[-1].key

    def page(self, spaces: Sequence[str], *, limit: int = 100, after: Key | None = None, kinds: Sequence[str] = (), types: Sequence[str] = ()) -> list[Item]:
        """The next items behind `after`, ordered by (space, id)."""
        only = Filter(tuple(self.known(spaces)), request.kinds(kinds), check.names("types", types))
        return self._stores.items.find(only, request.whole("limit", limit, 1, request.MAX_LIMIT), after)

    def edge_page(self, spaces: Sequence[str], *, limit: int = 100, after: Edge | None = None) -> list[Edge]:
        """The next edges behind `after`, ordered by key."""
        return self._stores.graph.edges(self.known(spaces), request.whole("limit", limit, 1, request.MAX_LIMIT), after)

    def edges(self, spaces: Sequence[str] | None = None) -> Iterator[Edge]:
        """Every edge, ordered by its key."""
        names = self._all_or(spaces)
        after: Edge | None = None
        while page := self._stores.graph.edges(names, 1000, after):
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
    ) -> list[Hit]:
        """The best items, best first. Filters run inside the search: asking for 10 gives 10 if 10 exist."""
        recipe = request.checked_recipe(Recipe("search", mode=mode, limit=limit, min_score=min_score))
        query = self._query(text, spaces, now=now, as_of=as_of, vector=vector)
        only = Filter(
            query.spaces,
            request.kinds(kinds),
            check.names("types", types),
            check.names("exclude_types", exclude_types),
            check.names("tags", tags),
            () if subject is None else (check.name("subject", subject),),
            None if created_from is None else check.time("created_from", created_from),
            request.earliest(query.as_of, None if created_to is None else check.time("created_to", created_to)),
            query.as_of or query.now,
            request.fraction("min_confidence", min_confidence),
        )
        with self._reading():
            found, problems = self._meaning.of_query(query, [recipe])
            for problem in problems:
                log.warning("search %s: %s", problem.part, problem.reason)
            return list(search(query.text, found, only, recipe, stores=stores_then(self._stores, query.as_of)).hits)

    def context(self, text: str, *, spaces: Sequence[str], **options: Any) -> Context:
        """The best context for a request, within its budget. Options: max_tokens=2000 (None: no limit), recipe="knowledge" (a name
        or Recipe values), format="markdown", model="gpt-4", entity, now, as_of, vector; and, for every recipe that searches: types,
        exclude_types, tags, kinds, mode, limit, min_score, bm25_weight, vector_weight; and depth for those that follow links."""
        query, recipes = self._request(text, spaces, options)
        with traced() as timings, self._reading(), span("total"):
            found, problems = self._meaning.of_query(query, recipes)
            context = answer(query, recipes, found, stores_then(self._stores, query.as_of), tokens.counter(query.model), problems)
        return replace(context, stats=replace(context.stats, timings=timings))

    def explain(self, text: str, *, spaces: Sequence[str], ids: str | Sequence[str] = (), **options: Any) -> Context:
        """The same answer as `context`, where everything left out also says what would bring it in; `ids` are asked about by name."""
        query, recipes = self._request(text, spaces, options)
        with traced() as timings, self._reading(), span("total"):
            found, problems = self._meaning.of_query(query, recipes)
            context = answer(query, recipes, found, stores_then(self._stores, query.as_of), tokens.counter(query.model), problems)
            context = explain.explained(
                context,
                recipes,
                found,
                stores_then(self._stores, query.as_of),
                tokens.counter(query.model),
                request.ids(ids),
                lambda larger: self._request(text, spaces, options | {"max_tokens": larger})[1],
            )
        return replace(context, stats=replace(context.stats, timings=timings))

    def stats(self) -> Statistics:
        with self._reading():
            spaces = tuple(self._spaces())
            missing = self._stores.vectors.count_missing([info.name for info in spaces])
            return Statistics(spaces, self._stores.vectors.fingerprint(), missing, *self._meaning.cached)

    def verify(self) -> list[str]:
        """What is wrong with the stored data, in words; nothing when all is well."""
        return self._stores.items.verify()

    def known(self, spaces: Sequence[str]) -> list[str]:
        """The spaces, each once. An unknown one is an error that names the known ones."""
        wanted = check.names("spaces", spaces)
        known = {info.name for info in self._spaces()}
        for space in wanted:
            if space not in known:
                raise NotFound(f"no space {space!r}; known: {', '.join(sorted(known)) or 'none yet'}", "unknown_space")
        return list(dict.fromkeys(wanted))

    # for capabilities

    @contextmanager
    def asking(self, text: str, *, spaces: Sequence[str], mode: Mode = "hybrid", **times: Any) -> Iterator[tuple[Request, list[Problem]]]:
        """One state of the stores for the stages a capability runs itself, with the question's vector: an error if it cannot be had."""
        query = self._query(text, spaces, **({"now": None, "as_of": None, "vector": None} | times))
        with self._reading():
            found, problems = self._meaning.of_query(query, [request.checked_recipe(Recipe("asking", mode=mode))], strict=True)
            yield Request(query, found, (), stores_then(self._stores, query.as_of)), problems

    def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Vectors of texts, in one batch; the cache keeps them for the questions that follow. Without an embedder there are none."""
        return self._meaning.of_texts(texts)

    def now(self) -> datetime:
        return self._clock()

    @property
    def dimensions(self) -> int | None:
        """Of the embedder's vectors; None without one."""
        return self._meaning.dimensions

    # inside

    def _knowledge(self, embed: bool, progress: Progress | None) -> notes.Knowledge:
        return notes.Knowledge(
            lambda ids, space: self._stores.items.get([(space, id) for id in ids]),
            lambda layers, space: self.load(layers, space=space, embed=embed, progress=progress),
        )

    def _all_or(self, spaces: Sequence[str] | None) -> list[str]:
        return [info.name for info in self._spaces()] if spaces is None else self.known(spaces)

    def _spaces(self) -> list[SpaceInfo]:
        """Those of users."""
        return [info for info in self._stores.items.spaces() if info.name != check.LEDGER]

    def _write(self, items: Sequence[Item], edges: Sequence[Edge], expected: Mapping[Key, str] | None = None) -> Report:
        now = self._clock()
        written, report = prepare.changed_items(items, now, self._stores)
        links = prepare.changed_edges(edges, self._stores)
        if written or links or expected:
            self._apply(Batch(now, tuple(written), tuple(links), expected=tuple((expected or {}).items())))
        return report + Report(edges=len(links))

    def _apply(self, batch: Batch) -> None:
        """The truth first: if it refuses, nothing has changed anywhere."""
        for store in self._stores.each():
            store.apply(batch)
            batch = replace(batch, expected=())

    def _refuse_duplicates(self, items: Sequence[Item], edges: Sequence[Edge]) -> None:
        if twice := check.duplicates(item.key for item in items):
            raise Invalid(f"the same id twice in one write: {twice[:3]}")
        if twice := check.duplicates(edge.key for edge in edges):
            raise Invalid(f"the same edge twice in one write: {twice[:3]}")

    def _query(self, text: str, spaces: Sequence[str], *, now: datetime | None, as_of: datetime | None, vector: Sequence[float] | None, **more: Any) -> Query:
        ready = () if vector is None else tuple(check.vector(vector).tolist())
        return Query(
            request.text(text),
            tuple(self.known(spaces)),
            check.time("now", now or self._clock()),
            as_of=None if as_of is None else check.time("as_of", as_of),
            vector=ready,
            **more,
        )

    def _request(self, text: str, spaces: Sequence[str], options: dict[str, Any]) -> tuple[Query, tuple[Recipe, ...]]:
        given = dict(options)
        recipes = request.named_recipes(given.pop("recipe", "knowledge"))
        query = self._query(
            text,
            spaces,
            now=given.pop("now", None),
            as_of=given.pop("as_of", None),
            vector=given.pop("vector", None),
            max_tokens=request.budget(given.pop("max_tokens", 2000)),
            format=layout(check.name("format", given.pop("format", "markdown"))).name,
            model=given.pop("model", "gpt-4"),
            entity=None if given.get("entity") is None else check.name("entity", given["entity"]),
        )
        given.pop("entity", None)
        tokens.counter(query.model)
        return query, tuple(request.checked_recipe(resolved(request.overridden(recipe, given), query.max_tokens)) for recipe in recipes)

    def _reading(self) -> ExitStack:
        """One state of every store for a whole request."""
        with ExitStack() as stack:
            for store in self._stores.each():
                stack.enter_context(store.reading())
            return stack.pop_all()
