"""The one object users hold: it writes knowledge, finds it, and weaves it into contexts. It knows no capability by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, get_args

from weft import tokens
from weft.embedders.cached import Cached
from weft.errors import Conflict, Invalid, NotFound, Unavailable, unknown
from weft.ingest import check, prepare, read
from weft.ingest.prepare import Report
from weft.ingest.read import Row, Skipped
from weft.model import Batch, Context, Edge, Filter, Hit, Item, Key, Kind, Problem, Query, SpaceInfo
from weft.ports import Embedder, Stores, Vector
from weft.recipes import RECIPES, Mode, Recipe, Source, resolved
from weft.stages import explain
from weft.stages.answer import answer
from weft.stages.render import layout
from weft.stages.search import search
from weft.trace import span, traced

log = logging.getLogger(__name__)

BATCH = 2000  # items per write while loading
EMBED_BATCH = 64  # vectors per write
MAX_LIMIT = 10_000
MAX_QUERY = 100_000  # characters
Progress = Callable[[str, int, int], None]  # what is going on, how many are done, of how many


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the stores hold."""

    spaces: tuple[SpaceInfo, ...]
    embedder: str  # the fingerprint of the stored vectors
    without_vector: int
    cache_hits: int
    cache_misses: int


class Engine:
    """Opened by `weft.open`; closed by `close` or at the end of a `with` block."""

    def __init__(self, stores: Stores, embedder: Embedder | None = None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._stores = stores
        self._embedder = None if embedder is None else Cached(embedder)
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for store in self._stores.each():
            store.close()

    # writing

    def add(self, items: Item | Iterable[Item], edges: Iterable[Edge] = (), *, vectors: Sequence[Sequence[float]] | None = None, embed: bool = True) -> Report:
        """Store items and edges in one write: all of them, or none with the reason. Words are searchable at once; vectors follow
        before this returns, unless `embed` is False (then `embed()` makes them later) or ready `vectors`, one per item, are given."""
        checked = [check.item(one) for one in ([items] if isinstance(items, Item) else items)]
        checked_edges = [check.edge(one) for one in edges]
        self._refuse_duplicates(checked, checked_edges)
        ready = self._ready_vectors(checked, vectors)
        for number, reason in prepare.dangling(checked_edges, {item.key for item in checked}, self._stores).items():
            edge = checked_edges[number]
            raise Invalid(f"edge {edge.source!r} -[{edge.type}]-> {edge.target!r}: {reason}")
        report = self._write(checked, checked_edges)
        if ready:
            self._stores.vectors.put_vectors(ready, self._fingerprint(ready))
        return report + self._embedded({item.space for item in checked}, embed and vectors is None)

    def load(self, source: str | Path | Mapping[str, Any], *, space: str | None = None, embed: bool = True, progress: Progress | None = None) -> Report:
        """Store what a file, a folder or a dict holds. Bad rows are skipped and reported; loading again changes only what changed."""
        report, edges, waiting, seen = Report(), [], [], set[Key]()
        for row in read.rows(source, space):
            found = row if isinstance(row, Skipped) else read.parsed(row)
            if isinstance(found, Skipped):
                report += Report(skipped=(found,))
            elif isinstance(found, Edge):
                edges.append((row, found))
            elif found.key in seen:
                report += Report(skipped=(Skipped(_place(row), found.id, f"the id {found.id!r} stands twice in space {found.space!r}"),))
            else:
                seen.add(found.key)
                waiting.append(found)
            if len(waiting) >= BATCH:
                report += self._write(waiting, [])
                waiting = []
                _tell(progress, "items", len(seen), 0)
        report += self._write(waiting, [])
        _tell(progress, "items", len(seen), len(seen))
        report += self._load_edges(edges, progress)
        spaces = {key[0] for key in seen}
        return report + self._embedded(spaces, embed, progress)

    def delete(self, ids: str | Sequence[str], *, space: str) -> int:
        """Forget items with their words, vectors and edges; how many were there."""
        self._known([space])
        keys = [item.key for item in self._stores.items.get([(space, id) for id in dict.fromkeys(_ids(ids))])]
        self._apply(Batch(self._clock(), deleted=tuple(keys)))
        return len(keys)

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Forget these links; how many were there."""
        keys = [edge.key for edge in self._stores.graph.get_edges([edge.key for edge in edges])]
        self._apply(Batch(self._clock(), deleted_edges=tuple(keys)))
        return len(keys)

    def embed(self, spaces: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        """Make the vectors that are missing; how many were made."""
        if self._embedder is None:
            raise Invalid('no embedder was opened; name one: weft.open(url, embedder="minilm")')
        names = [info.name for info in self._stores.items.spaces()] if spaces is None else self._known(spaces)
        total, done = self._stores.vectors.count_missing(names), 0
        while keys := self._stores.vectors.missing_vectors(names, EMBED_BATCH):
            items = self._stores.items.get(keys)
            made = self._embedder.embed([item.embeddable for item in items])
            self._stores.vectors.put_vectors({item.key: vector for item, vector in zip(items, made, strict=True)}, self._embedder.fingerprint)
            done += len(items)
            _tell(progress, "vectors", done, max(total, done))
        return done

    def reindex(self, progress: Progress | None = None) -> int:
        """Make words and vectors anew from the items, with today's analyser and embedder; how many vectors were made."""
        self._stores.words.rebuild_words(self.items())
        self._stores.vectors.forget_vectors()
        return self.embed(progress=progress) if self._embedder is not None else 0

    # reading

    def get(self, ids: str | Sequence[str], *, space: str) -> list[Item]:
        """The items in the order asked; unknown ids are left out."""
        self._known([space])
        return self._stores.items.get([(space, id) for id in _ids(ids)])

    def items(self, spaces: Sequence[str] | None = None, *, kinds: Sequence[str] = (), types: Sequence[str] = ()) -> Iterator[Item]:
        """Every item, ordered by (space, id)."""
        names = [info.name for info in self._stores.items.spaces()] if spaces is None else self._known(spaces)
        only = Filter(tuple(names), _kinds(kinds), check.names("types", types))
        after: Key | None = None
        while page := self._stores.items.find(only, 1000, after):
            yield from page
            after = page[-1].key

    def edges(self, spaces: Sequence[str] | None = None) -> Iterator[Edge]:
        """Every edge, ordered by its key."""
        names = [info.name for info in self._stores.items.spaces()] if spaces is None else self._known(spaces)
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
        recipe = checked_recipe(Recipe("search", mode=mode, limit=limit, min_score=min_score))
        query = self._query(text, spaces, now=now, as_of=as_of, vector=vector)
        only = Filter(
            query.spaces,
            _kinds(kinds),
            check.names("types", types),
            check.names("exclude_types", exclude_types),
            check.names("tags", tags),
            () if subject is None else (check.name("subject", subject),),
            None if created_from is None else check.time("created_from", created_from),
            _earliest(query.as_of, None if created_to is None else check.time("created_to", created_to)),
            query.as_of or query.now,
            _fraction("min_confidence", min_confidence),
        )
        with self._reading():
            found, problems = self._vector(query, [recipe])
            for problem in problems:
                log.warning("search %s: %s", problem.part, problem.reason)
            return list(search(query.text, found, only, recipe, stores=self._stores).hits)

    def context(self, text: str, *, spaces: Sequence[str], **options: Any) -> Context:
        """The best context for a request, within its budget. Options: max_tokens=2000 (None: no limit), recipe="knowledge" (a name
        or Recipe values), format="markdown", model="gpt-4", entity, now, as_of, vector; and, for every recipe that searches: types,
        exclude_types, tags, kinds, mode, limit, min_score, bm25_weight, vector_weight; and depth for those that follow links."""
        query, recipes = self._request(text, spaces, options)
        with traced() as timings, self._reading(), span("total"):
            found, problems = self._vector(query, recipes)
            context = answer(query, recipes, found, self._stores, tokens.counter(query.model), problems)
        return replace(context, stats=replace(context.stats, timings=timings))

    def explain(self, text: str, *, spaces: Sequence[str], ids: str | Sequence[str] = (), **options: Any) -> Context:
        """The same answer as `context`, where everything left out also says what would bring it in; `ids` are asked about by name."""
        query, recipes = self._request(text, spaces, options)
        with traced() as timings, self._reading(), span("total"):
            found, problems = self._vector(query, recipes)
            context = answer(query, recipes, found, self._stores, tokens.counter(query.model), problems)
            context = explain.explained(
                context,
                recipes,
                found,
                self._stores,
                tokens.counter(query.model),
                _ids(ids),
                lambda larger: self._request(text, spaces, options | {"max_tokens": larger})[1],
            )
        return replace(context, stats=replace(context.stats, timings=timings))

    def stats(self) -> Statistics:
        with self._reading():
            spaces = tuple(self._stores.items.spaces())
            missing = self._stores.vectors.count_missing([info.name for info in spaces])
            hits, misses = (self._embedder.hits, self._embedder.misses) if self._embedder else (0, 0)
            return Statistics(spaces, self._stores.vectors.fingerprint(), missing, hits, misses)

    def verify(self) -> list[str]:
        """What is wrong with the stored data, in words; nothing when all is well."""
        return self._stores.items.verify()

    # inside

    def _write(self, items: Sequence[Item], edges: Sequence[Edge]) -> Report:
        now = self._clock()
        written, report = prepare.changed_items(items, now, self._stores)
        links = prepare.changed_edges(edges, self._stores)
        if written or links:
            self._apply(Batch(now, tuple(written), tuple(links)))
        return report + Report(edges=len(links))

    def _apply(self, batch: Batch) -> None:
        for store in self._stores.each():
            store.apply(batch)

    def _load_edges(self, rows: Sequence[tuple[Row | Skipped, Edge]], progress: Progress | None) -> Report:
        """Edges come last, when every item they may point to is there."""
        report = Report()
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            bad = prepare.dangling([edge for _, edge in part], set(), self._stores)
            report += Report(skipped=tuple(Skipped(_place(part[number][0]), part[number][1].source, why) for number, why in bad.items()))
            good = {edge.key: edge for number, (_, edge) in enumerate(part) if number not in bad}
            report += self._write([], list(good.values()))
            _tell(progress, "edges", start + len(part), len(rows))
        return report

    def _embedded(self, spaces: set[str], wanted: bool, progress: Progress | None = None) -> Report:
        """Embed what a write left without vectors. What was written stays written if that fails; the report says so."""
        if not wanted or self._embedder is None or not spaces:
            return Report()
        try:
            self.embed(sorted(spaces), progress)
            return Report()
        except (Unavailable, Conflict) as error:
            missing = self._stores.vectors.count_missing(sorted(spaces))
            return Report(problems=(f"{missing} items are stored but not embedded: {error}",))

    def _ready_vectors(self, items: Sequence[Item], vectors: Sequence[Sequence[float]] | None) -> dict[Key, Vector]:
        if vectors is None or not (len(vectors) or items):
            return {}
        if len(vectors) != len(items):
            raise Invalid(f"{len(vectors)} vectors for {len(items)} items: give one for each")
        size = self._embedder.dimensions if self._embedder is not None else len(check.vector(vectors[0]))
        ready = {item.key: check.vector(vector, size) for item, vector in zip(items, vectors, strict=True)}
        stored = self._stores.vectors.fingerprint()
        if ready and stored not in ("", self._fingerprint(ready)):
            raise Conflict(f"the stored vectors are of {stored!r}, not of {self._fingerprint(ready)!r}: run reindex", "reindex_required")
        return ready

    def _fingerprint(self, ready: Mapping[Key, Vector]) -> str:
        """Of ready vectors: the embedder answers for them, and without one their size does."""
        return self._embedder.fingerprint if self._embedder is not None else f"given:{len(next(iter(ready.values())))}"

    def _refuse_duplicates(self, items: Sequence[Item], edges: Sequence[Edge]) -> None:
        if twice := check.duplicates(item.key for item in items):
            raise Invalid(f"the same id twice in one write: {twice[:3]}")
        if twice := check.duplicates(edge.key for edge in edges):
            raise Invalid(f"the same edge twice in one write: {twice[:3]}")

    def _known(self, spaces: Sequence[str]) -> list[str]:
        """The spaces, each once. An unknown one is an error that names the known ones."""
        wanted = check.names("spaces", spaces)
        known = {info.name for info in self._stores.items.spaces()}
        for space in wanted:
            if space not in known:
                raise NotFound(f"no space {space!r}; known: {', '.join(sorted(known)) or 'none yet'}", "unknown_space")
        return list(dict.fromkeys(wanted))

    def _query(self, text: str, spaces: Sequence[str], *, now: datetime | None, as_of: datetime | None, vector: Sequence[float] | None, **more: Any) -> Query:
        if not isinstance(text, str) or len(text) > MAX_QUERY:
            raise Invalid(f"a query is a text of at most {MAX_QUERY:,} characters")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise Invalid("the query contains lone surrogates, which are not text")
        ready = () if vector is None else tuple(check.vector(vector).tolist())
        return Query(
            text,
            tuple(self._known(spaces)),
            check.time("now", now or self._clock()),
            as_of=None if as_of is None else check.time("as_of", as_of),
            vector=ready,
            **more,
        )

    def _request(self, text: str, spaces: Sequence[str], options: dict[str, Any]) -> tuple[Query, tuple[Recipe, ...]]:
        given = dict(options)
        recipes = _recipes(given.pop("recipe", "knowledge"))
        query = self._query(
            text,
            spaces,
            now=given.pop("now", None),
            as_of=given.pop("as_of", None),
            vector=given.pop("vector", None),
            max_tokens=_budget(given.pop("max_tokens", 2000)),
            format=layout(check.name("format", given.pop("format", "markdown"))).name,
            model=given.pop("model", "gpt-4"),
            entity=None if given.get("entity") is None else check.name("entity", given["entity"]),
        )
        given.pop("entity", None)
        tokens.counter(query.model)
        return query, tuple(checked_recipe(resolved(_overridden(recipe, given), query.max_tokens)) for recipe in recipes)

    def _vector(self, query: Query, recipes: Sequence[Recipe]) -> tuple[Vector | None, list[Problem]]:
        """The query's vector, or why there is none. Only a request that can do without it goes on."""
        modes = {recipe.mode for recipe in recipes if recipe.source == "search"}
        if modes <= {"bm25"} or not query.spaces:
            return None, []
        missing = self._stores.vectors.count_missing(query.spaces)
        try:
            with span("embed"):
                found = self._embed_query(query, missing)
            if found is None and missing and "vector" in modes:
                raise Conflict(f"mode 'vector' finds nothing: none of the {missing} items has a vector; embed them, or use bm25", "vectors_pending")
            return found, self._pending(query, missing)
        except (Unavailable, Conflict) as error:
            if "vector" in modes:
                raise
            return None, [Problem("vectors", f"words only: {error}", error.code)]

    def _embed_query(self, query: Query, missing: int) -> Vector | None:
        """None when no item of the request's spaces has a vector: those of other spaces must not change the scores."""
        if missing == sum(info.items for info in self._stores.items.spaces() if info.name in query.spaces):
            return None
        stored = self._stores.vectors.fingerprint()
        if query.vector:
            return check.vector(query.vector, self._dimensions(stored))
        if self._embedder is None:
            raise Conflict(f"the stored vectors are of {stored!r}, and no embedder was opened", "embedder_required")
        if stored != self._embedder.fingerprint:
            raise Conflict(f"the stored vectors are of {stored!r}, the embedder is {self._embedder.fingerprint!r}: run reindex", "reindex_required")
        return self._embedder.embed([query.text])[0]

    def _dimensions(self, stored: str) -> int | None:
        """Of the stored vectors, where that is known without looking at one."""
        if self._embedder is not None and stored == self._embedder.fingerprint:
            return self._embedder.dimensions
        return int(stored.removeprefix("given:")) if stored.startswith("given:") else None

    def _pending(self, query: Query, missing: int) -> list[Problem]:
        if self._embedder is None and not query.vector:
            return []
        return [Problem("vectors", f"{missing} items are not embedded yet: they are found by words only", "vectors_pending")] if missing else []

    def _reading(self) -> ExitStack:
        """One state of every store for a whole request."""
        with ExitStack() as stack:
            for store in self._stores.each():
                stack.enter_context(store.reading())
            return stack.pop_all()


# For every recipe that searches; `depth` is for those that follow links.
_OVERRIDES = ("bm25_weight", "exclude_types", "kinds", "limit", "min_score", "mode", "tags", "types", "vector_weight")


def _overridden(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """The recipe with what a request asks differently."""
    for name in options:
        if name not in (*_OVERRIDES, "depth"):
            raise unknown("option", name, (*_OVERRIDES, "depth", "as_of", "entity", "format", "max_tokens", "model", "now", "recipe", "vector"))
    values = {name: value for name, value in options.items() if value is not None}
    if recipe.source == "neighbours":
        return replace(recipe, depth=values.get("depth", recipe.depth)) if recipe.depth > 1 or values.get("depth") == 0 else recipe
    values.pop("depth", None)
    if recipe.source != "search":
        return recipe
    values.update({name: check.names(name, values[name]) for name in ("types", "exclude_types", "tags") if name in values})
    if "limit" in values:
        _whole("limit", values["limit"], 1, MAX_LIMIT)  # 0 would mean AS_FITS
    return replace(recipe, **values | ({"kinds": _kinds(values["kinds"])} if "kinds" in values else {}))


def checked_recipe(recipe: Recipe) -> Recipe:
    """The recipe, if its numbers make sense."""
    for name, known in (("mode", get_args(Mode)), ("source", get_args(Source))):
        if getattr(recipe, name) not in known:
            raise unknown(name, getattr(recipe, name), known)
    for name, least, most in (("limit", 1, MAX_LIMIT), ("depth", 0, 10), ("near", 0, 100), ("starts", 0, MAX_LIMIT), ("hub_cap", 1, MAX_LIMIT)):
        _whole(name, getattr(recipe, name), least, most)
    for name in ("min_score", "share", "most"):
        _fraction(name, getattr(recipe, name))
    for name in ("bm25_weight", "vector_weight", "sharpness"):
        _not_negative(name, getattr(recipe, name))
    for one in fields(recipe.weights):
        _not_negative(f"the weight of {one.name}", getattr(recipe.weights, one.name))
    if recipe.bm25_weight + recipe.vector_weight == 0:
        raise Invalid("bm25_weight and vector_weight must not both be 0")
    if not any(getattr(recipe.weights, one.name) for one in fields(recipe.weights)):
        raise Invalid("weights must not all be 0")
    return recipe


def _recipes(given: str | Sequence[Recipe]) -> tuple[Recipe, ...]:
    if isinstance(given, str):
        if given not in RECIPES:
            raise unknown("recipe", given, RECIPES)
        return RECIPES[given]
    if not given or not isinstance(given, list | tuple) or not all(isinstance(recipe, Recipe) for recipe in given):
        raise Invalid(f"a recipe is one of {', '.join(sorted(RECIPES))} or a list of Recipe values, not {given!r}")
    if twice := check.duplicates(recipe.name for recipe in given):
        raise Invalid(f"two recipes have the name {twice[0]!r}")
    return tuple(given)


def _kinds(given: Sequence[str]) -> tuple[Kind, ...]:
    for kind in check.names("kinds", given):
        if kind not in [known.value for known in Kind]:
            raise unknown("kind", kind, [known.value for known in Kind])
    return tuple(Kind(kind) for kind in given)


def _ids(given: str | Sequence[str]) -> tuple[str, ...]:
    return check.names("ids", [given] if isinstance(given, str) else given)


def _budget(value: object) -> int | None:
    if value is None:
        return None
    return _whole("max_tokens", value, 0, 100_000_000)


def _whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Invalid(f"{name} must be a whole number from {least} to {most:,}, not {value!r}")
    return value


def _fraction(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Invalid(f"{name} must be a number from 0 to 1, not {value!r}")
    return float(value)


def _not_negative(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise Invalid(f"{name} must be a number that is not negative, not {value!r}")


def _earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _place(row: Row | Skipped) -> str:
    return row.where


def _tell(progress: Progress | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(what, done, total)
