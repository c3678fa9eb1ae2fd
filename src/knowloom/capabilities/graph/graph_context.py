"""`knowloom.GraphContext`: graph context for a query, for entities or for a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Protocol, Unpack, cast, runtime_checkable

from knowloom.capabilities.graph.documents import (
    Document,
    QueryText,
    extract_query,
    select_links,
    validate_document,
)
from knowloom.capabilities.graph.entities import entity_recipe
from knowloom.capabilities.graph.graph_query import GraphQuery, answer_by_id, answer_by_search
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.graph.options import (
    OPTION_NAMES,
    GraphArguments,
    GraphOptions,
    override_options,
)
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.model import ContextFormat
from knowloom.options import QueryOptions, validate_ids
from knowloom.reader import Reader
from knowloom.retrieval.sources import RetrievalRequest
from knowloom.tiers import Tier, TierArgument, check_custom, resolve_tier
from knowloom.tracing import collect_timings
from knowloom.validation import MAX_QUERY, require_searchable, validate_names, validate_query

NO_TEXT = QueryText("", (), "")


@runtime_checkable
class GraphClient(Protocol):
    """A client of a server that answers graph requests."""

    def graph(
        self,
        *,
        spaces: Sequence[str] | None = None,
        query: str | None = None,
        entities: Sequence[str] | None = None,
        document: Document | None = None,
        now: datetime | None = None,
        as_of: datetime | None = None,
        vector: Sequence[float] | None = None,
        **options: Unpack[GraphArguments],
    ) -> GraphAnswer: ...


class GraphContext:
    """Builds graph contexts from spaces of an engine, or of a server through its client.

    `spaces` None is the only space, or the one named "default". `options` are the defaults of every
    request.
    """

    def __init__(
        self,
        kb: Engine | GraphClient,
        spaces: Sequence[str] | None = None,
        options: GraphOptions | None = None,
    ) -> None:
        if not isinstance(kb, Engine | GraphClient):
            raise Invalid(
                "a graph context needs an engine from knowloom.open or a knowloom.Client, "
                f"got {type(kb).__name__}"
            )
        self._kb = kb
        self._spaces = None if spaces is None else validate_names("spaces", spaces)
        self.options = override_options(options or GraphOptions(), {})

    def for_query(
        self,
        text: str,
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        vector: Sequence[float] | None = None,
        **options: Unpack[GraphArguments],
    ) -> GraphAnswer:
        """Return the entities a text is about, with their relationships, axioms and claims.

        Options are the fields of GraphOptions, and `tier` (as for `Engine.context`).
        """
        merged, tier = self._merge_options(options)
        if not isinstance(self._kb, Engine):
            return self._kb.graph(
                spaces=self._spaces,
                query=text,
                now=now,
                as_of=as_of,
                vector=vector,
                **_to_arguments(merged, tier),
            )
        if vector is None:
            require_searchable(validate_query(text))
        merged, resolved = _restrict_options(merged, tier)
        query_options = _query_options(merged, now, as_of, vector)
        with self._request(self._kb, text, merged, query_options) as (request, timings):
            query_text = QueryText(text, (text,), text)
            answer = answer_by_search(GraphQuery(request, query_text, text, merged, timings))
        return _finish(answer, resolved, self._kb.reader)

    def for_entities(
        self,
        ids: str | Sequence[str],
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        **options: Unpack[GraphArguments],
    ) -> GraphAnswer:
        """Return these entities in their order, with their relationships, axioms and claims.

        Unknown ids are left out and reported.
        """
        merged, tier = self._merge_options(options)
        ids = validate_ids(ids)
        if not isinstance(self._kb, Engine):
            return self._kb.graph(
                spaces=self._spaces,
                entities=ids,
                now=now,
                as_of=as_of,
                **_to_arguments(merged, tier),
            )
        merged, resolved = _restrict_options(merged, tier)
        query_options = _query_options(merged, now, as_of, None)
        with self._request(self._kb, "", merged, query_options) as (request, timings):
            scores = dict.fromkeys(ids, 1.0)
            graph_query = GraphQuery(request, NO_TEXT, None, merged, timings, scores=scores)
            answer = answer_by_id(graph_query)
        return _finish(answer, resolved, self._kb.reader)

    def for_document(
        self,
        document: Document,
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        vector: Sequence[float] | None = None,
        **options: Unpack[GraphArguments],
    ) -> GraphAnswer:
        """Return the entities a document, or the selection in it, is linked to.

        Without links, the entities are those its text is about.
        """
        merged, tier = self._merge_options(options)
        if not isinstance(self._kb, Engine):
            return self._kb.graph(
                spaces=self._spaces,
                document=document,
                now=now,
                as_of=as_of,
                vector=vector,
                **_to_arguments(merged, tier),
            )
        merged, resolved = _restrict_options(merged, tier)
        document = validate_document(document)
        text = extract_query(document)
        query_options = _query_options(merged, now, as_of, vector)
        with self._request(self._kb, text.query[:MAX_QUERY], merged, query_options) as (
            request,
            timings,
        ):
            scores, unlinked = select_links(document, merged.min_relevance_score)
            graph_query = GraphQuery(
                request, text, text.query, merged, timings, tuple(unlinked), scores
            )
            answer = answer_by_id(graph_query) if scores else answer_by_search(graph_query)
        return _finish(answer, resolved, self._kb.reader)

    def _merge_options(self, arguments: GraphArguments) -> tuple[GraphOptions, TierArgument]:
        changes = dict(arguments)
        changes.pop("tier", None)
        return override_options(self.options, changes), arguments.get("tier")

    @contextmanager
    def _request(
        self, kb: Engine, text: str, options: GraphOptions, query_options: QueryOptions
    ) -> Iterator[tuple[RetrievalRequest, dict[str, float]]]:
        recipes = [entity_recipe(options)] if text and options.max_entities else []
        with (
            collect_timings() as timings,
            kb.reader.request(
                text, spaces=self._spaces, recipes=recipes, options=query_options
            ) as request,
        ):
            yield request, timings


def _to_arguments(options: GraphOptions, tier: TierArgument) -> GraphArguments:
    arguments = {name: getattr(options, name) for name in OPTION_NAMES}
    return cast(GraphArguments, arguments | {"tier": tier})


def _query_options(
    options: GraphOptions,
    now: datetime | None,
    as_of: datetime | None,
    vector: Sequence[float] | None,
) -> QueryOptions:
    return QueryOptions(
        max_tokens=options.max_tokens,
        format=options.format,
        model=options.model,
        now=now,
        as_of=as_of,
        vector=vector,
        where=options.where,
    )


def _restrict_options(options: GraphOptions, tier: TierArgument) -> tuple[GraphOptions, Tier]:
    """Return the options within what the tier may see, and the tier."""
    resolved = resolve_tier(tier)
    if not isinstance(options.ranker, str):
        check_custom(resolved, "custom rankers")
    if isinstance(options.format, ContextFormat):
        check_custom(resolved, "custom formats")
    if resolved.is_full:
        return options, resolved
    restricted = replace(
        options,
        max_entities=min(options.max_entities, resolved.max_items),
        relationship_depth=0,
        include_relationships=False,
        include_axioms=False,
        include_claims=False,
        include_violations=False,
    )
    return restricted, resolved


def _finish(answer: GraphAnswer, tier: Tier, reader: Reader) -> GraphAnswer:
    """Hide what is beyond the tier, and note that there is a tier; seal the digest."""
    answer = replace(answer, digest=reader.seal_digest(answer.digest, answer.text))
    if tier.is_full:
        return answer
    return replace(answer, left_out=(), violations=(), degraded=(*answer.degraded, *tier.notes))
