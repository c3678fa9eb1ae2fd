"""The object users hold: graph context for a query, for given entities, for a document."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from knowloom import options as request
from knowloom import tiers, tokens, validation
from knowloom.capabilities.graph import documents
from knowloom.capabilities.graph import entities as find
from knowloom.capabilities.graph.documents import Document, QueryText
from knowloom.capabilities.graph.entities import EntityHit, Neighbours
from knowloom.capabilities.graph.formats import ENTITIES
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.graph.neighbourhood import gather
from knowloom.capabilities.graph.options import GraphOptions, override_options
from knowloom.capabilities.graph.packing import BEYOND, build_answer
from knowloom.construction import maker
from knowloom.context import pipeline
from knowloom.engine import Engine
from knowloom.errors import Conflict, Invalid, Unavailable
from knowloom.model import Hit, Item, Kind, LeftOut, Problem, Stats
from knowloom.retrieval.sources import RetrievalRequest, allowed
from knowloom.tiers import Tier
from knowloom.tracing import traced

NO_TEXT = QueryText("", (), "")
_left_out = maker(LeftOut)


@runtime_checkable
class GraphClient(Protocol):
    """What answers elsewhere, such as a client of a server."""

    def graph(self, *, spaces: Sequence[str], **asked: Any) -> GraphAnswer: ...


class GraphContext:
    """Asks an engine, or a server by its client, for what its spaces know. `options` are the defaults of every request."""

    def __init__(
        self, kb: Engine | GraphClient, spaces: Sequence[str], options: GraphOptions | None = None
    ) -> None:
        if not isinstance(kb, Engine | GraphClient):
            raise Invalid(
                f"a graph context needs an engine from knowloom.open or a knowloom.Client, not {type(kb).__name__}"
            )
        self._kb = kb
        self._spaces = validation.names("spaces", spaces)
        self.options = override_options(options or GraphOptions(), {})

    def for_query(
        self,
        text: str,
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        vector: Sequence[float] | None = None,
        **options: Any,
    ) -> GraphAnswer:
        """Entities that the text is about, what they are linked to, and what is known of them. Options: those of GraphOptions,
        and `tier` (as for `Engine.context`)."""
        if isinstance(self._kb, GraphClient):
            return self._elsewhere(self._kb, options, now, as_of, query=text, vector=vector)
        asking, tier = self._settled(options)
        reading = QueryText(text, (text,), text)
        with self._asked(text, asking, now, as_of, vector) as (asked, timings):
            return _told(self._by_search(asked, reading, text, asking, (), timings), tier)

    def for_entities(
        self,
        ids: str | Sequence[str],
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        **options: Any,
    ) -> GraphAnswer:
        """These entities, in the order given, and what is known of them. Ids that are none are left out and reported."""
        if isinstance(self._kb, GraphClient):
            return self._elsewhere(self._kb, options, now, as_of, entities=request.ids(ids))
        asking, tier = self._settled(options)
        wanted = [(id, 1.0) for id in dict.fromkeys(request.ids(ids))]
        with self._asked("", asking, now, as_of, None) as (asked, timings):
            return _told(self._by_id(asked, wanted, None, NO_TEXT, asking, (), timings), tier)

    def for_document(
        self,
        document: Document,
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        vector: Sequence[float] | None = None,
        **options: Any,
    ) -> GraphAnswer:
        """What a document, or the selection in it, is about: the entities it is linked to; without links, those its text speaks of."""
        if isinstance(self._kb, GraphClient):
            return self._elsewhere(self._kb, options, now, as_of, document=document, vector=vector)
        asking, tier = self._settled(options)
        document = documents.validate_document(document)
        reading = documents.extract_query(document)
        with self._asked(reading.query[: request.MAX_QUERY], asking, now, as_of, vector) as (
            asked,
            timings,
        ):
            linked, unlinked = _links(document, asking)
            if linked:
                return _told(
                    self._by_id(asked, linked, reading.query, reading, asking, unlinked, timings),
                    tier,
                )
            return _told(
                self._by_search(asked, reading, reading.query, asking, unlinked, timings), tier
            )

    def _elsewhere(
        self,
        server: GraphClient,
        options: dict[str, Any],
        now: datetime | None,
        as_of: datetime | None,
        **about: Any,
    ) -> GraphAnswer:
        tier = options.pop("tier", None)
        asking = override_options(self.options, options)
        said = {one.name: getattr(asking, one.name) for one in fields(asking)}
        return server.graph(spaces=self._spaces, now=now, as_of=as_of, tier=tier, **said, **about)

    def _settled(self, options: dict[str, Any]) -> tuple[GraphOptions, Tier]:
        """The options of a request, within what its tier may see."""
        tier = tiers.in_force(options.pop("tier", None))
        asking = override_options(self.options, options)
        if not isinstance(asking.ranker, str):
            tiers.check_custom(tier, "rankers of one's own")
        if tier.full:
            return asking, tier
        only = replace(
            asking,
            include_relationships=False,
            include_axioms=False,
            include_claims=False,
            include_violations=False,
        )
        return replace(
            only, max_entities=min(asking.max_entities, tier.most), relationship_depth=0
        ), tier

    @contextmanager
    def _asked(
        self,
        text: str,
        options: GraphOptions,
        now: datetime | None,
        as_of: datetime | None,
        vector: Sequence[float] | None,
    ) -> Iterator[tuple[RetrievalRequest, dict[str, float]]]:
        more: dict[str, Any] = {
            "max_tokens": options.max_tokens,
            "format": options.format,
            "model": options.model,
        }
        recipes = [find.entity_recipe(options)] if text and options.max_entities else []
        assert isinstance(self._kb, Engine)
        with (
            traced() as timings,
            self._kb.asked(
                text,
                spaces=self._spaces,
                recipes=recipes,
                now=now,
                as_of=as_of,
                vector=vector,
                **more,
            ) as asked,
        ):
            yield asked, timings

    def _by_search(
        self,
        asked: RetrievalRequest,
        reading: QueryText,
        query: str,
        options: GraphOptions,
        left_out: Sequence[LeftOut],
        timings: dict[str, float],
    ) -> GraphAnswer:
        try:
            found, considered = find.search_entities(asked, reading, options)
        except Unavailable as error:
            return GraphAnswer(
                "",
                0,
                query,
                left_out=tuple(left_out),
                degraded=(*asked.problems, Problem(ENTITIES, str(error), error.code)),
            )
        answer = self._answer(
            asked,
            found,
            reading,
            query,
            options,
            left_out,
            Stats(searched=considered, timings=timings),
        )
        return replace(
            answer, digest=compute_digest(asked, options, reading, (), left_out, answer.degraded)
        )

    def _by_id(
        self,
        asked: RetrievalRequest,
        wanted: Sequence[tuple[str, float]],
        query: str | None,
        reading: QueryText,
        options: GraphOptions,
        left_out: Sequence[LeftOut],
        timings: dict[str, float],
    ) -> GraphAnswer:
        keys = [(space, id) for id, _ in wanted for space in asked.query.spaces]
        try:
            items = asked.stores.items.get(keys)
        except Unavailable as error:
            return GraphAnswer(
                "",
                0,
                query,
                left_out=tuple(left_out),
                degraded=(*asked.problems, Problem(ENTITIES, str(error), error.code)),
            )
        only = allowed(asked.query, find.entity_recipe(options))
        refused = [
            LeftOut(Hit(item, 0.0), ENTITIES, f"not shown: {only.refuses(item)}")
            for item in items
            if not only.allows(item)
        ]
        known = {item.id for item in items}
        missing = [
            LeftOut(Hit(Item(id, "", Kind.ENTITY), 0.0), ENTITIES, "no such entity is stored")
            for id, _ in wanted
            if id not in known
        ]
        sure = dict(wanted)
        found = [
            EntityHit(Hit(item, sure[item.id], {"given": sure[item.id]}, ("key",), (item.key,)))
            for item in items
            if only.allows(item)
        ]
        answer = self._answer(
            asked,
            found,
            reading,
            query,
            options,
            [*left_out, *missing, *refused],
            Stats(timings=timings),
        )
        return replace(
            answer,
            digest=compute_digest(asked, options, reading, wanted, left_out, answer.degraded),
        )

    def _answer(
        self,
        asked: RetrievalRequest,
        found: Sequence[EntityHit],
        reading: QueryText,
        query: str | None,
        options: GraphOptions,
        left_out: Sequence[LeftOut],
        stats: Stats,
    ) -> GraphAnswer:
        starts = list(found[: options.max_entities])
        problems = asked.problems
        near = Neighbours()
        if options.include_relationships:
            try:
                near = find.expand_neighbours(asked, starts, reading, options)
            except (Unavailable, Conflict) as error:
                problems = (*problems, Problem("neighbours", str(error), error.code))
        taken = {one.hit.item.key for one in starts}
        free = [one for one in near.found if one.hit.item.key not in taken]
        entities = (
            sorted([*starts, *free], key=lambda one: one.order)[: options.max_entities]
            if query is not None
            else [*starts, *free][: options.max_entities]
        )
        kept = {one.hit.item.key for one in entities}
        reason = f"{BEYOND} the best {options.max_entities} entities"
        beyond = [
            _left_out(one.hit, ENTITIES, reason, 0, "")
            for one in [*found, *free]
            if one.hit.item.key not in kept
        ]
        asked = replace(asked, problems=problems)
        stats = replace(stats, expanded=near.reached, max_depth=near.depth)
        return build_answer(
            asked,
            gather(asked, entities, options, near),
            query,
            options,
            [*left_out, *beyond],
            stats,
        )


def _told(answer: GraphAnswer, tier: Tier) -> GraphAnswer:
    """What is beyond the tier is not told of; that there is a tier is."""
    return (
        answer
        if tier.full
        else replace(answer, left_out=(), violations=(), degraded=(*answer.degraded, *tier.notes))
    )


def _links(
    document: Document, options: GraphOptions
) -> tuple[list[tuple[str, float]], list[LeftOut]]:
    """The entities a document is linked to, surest first, and the mentions that lead nowhere. Of a document with a selection,
    those whose mention is selected."""
    sure: dict[str, float] = {}
    left_out: list[LeftOut] = []
    for link in document.linked_entities:
        if document.selection is not None and link.mention.lower() not in document.text.lower():
            continue
        if link.entity_id is None:
            left_out.append(
                LeftOut(
                    Hit(Item("", "", Kind.ENTITY, title=link.mention), link.confidence),
                    ENTITIES,
                    "the mention is linked to no entity",
                )
            )
        elif link.confidence < options.min_relevance_score:
            reason = f"its link has the confidence {link.confidence:g}, below {options.min_relevance_score:g}"
            left_out.append(
                LeftOut(
                    Hit(Item(link.entity_id, "", Kind.ENTITY, title=link.mention), link.confidence),
                    ENTITIES,
                    reason,
                )
            )
        else:
            sure[link.entity_id] = max(sure.get(link.entity_id, 0.0), float(link.confidence))
    return sorted(sure.items(), key=lambda pair: (-pair[1], pair[0])), left_out


RENDERER = 1  # raised whenever the same choice would be written differently


def compute_digest(
    asked: RetrievalRequest,
    options: GraphOptions,
    reading: QueryText,
    wanted: Sequence[tuple[str, float]],
    left_out: Sequence[LeftOut],
    problems: Sequence[Problem],
) -> str:
    """Knowledge, request with its clock, options, and what could not be reached: equal digests, equal bytes. A ranker of one's own is
    named by how it shows itself, so that one without a `repr` is the same only in its process."""
    about = pipeline.digest(
        asked.query, (), asked.vector, asked.stores, tokens.counter(options.model), problems
    )
    refused = [(one.hit.item.id, one.hit.item.title, one.reason) for one in left_out]
    return hashlib.sha256(
        repr((RENDERER, about, options, reading, list(wanted), refused)).encode()
    ).hexdigest()
