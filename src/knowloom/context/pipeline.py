"""One request through all stages: gather and rank each recipe's candidates, fit them under one budget, say what was left out."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from knowloom.caching import cached
from knowloom.context.packing import SectionCandidates, pack, relationship_needs, tolerance_of
from knowloom.context.paths import annotate_paths
from knowloom.errors import Conflict, Unavailable
from knowloom.formats.layout import get_layout
from knowloom.model import Context, Hit, Key, Problem, Query, Stats
from knowloom.ports import Stores, TokenCounter, Vector
from knowloom.recipes import MIN_CANDIDATES, Recipe, Weights
from knowloom.retrieval.hybrid import effective_length
from knowloom.retrieval.ranking import rank, with_score
from knowloom.retrieval.sources import RetrievalRequest, SourceResult, entity_keys, gather
from knowloom.tracing import span

log = logging.getLogger(__name__)

RENDERER_VERSION = 7  # raised whenever the same request on the same knowledge would be answered otherwise: chosen, ranked or written


def gather_candidates(
    query: Query, recipes: Sequence[Recipe], vector: Vector | None, stores: Stores
) -> tuple[list[SectionCandidates], list[SourceResult], list[Problem]]:
    """Each recipe's ranked candidates; it sees what the ones before it found. A store that is down leaves its part empty."""
    parts: list[SectionCandidates] = []
    gathered: list[SourceResult] = []
    problems: list[Problem] = []
    found: tuple[Hit, ...] = ()
    pool: dict[Key, float] = {}
    for recipe in recipes:
        # The least score is one of the score that weights make: nothing they may still raise is dropped before.
        unranked = (
            recipe
            if recipe.weights == Weights()
            else replace(recipe, min_score=0.0, limit=recipe.limit * recipe.consider)
        )
        try:
            with span(recipe.source):
                result = gather(RetrievalRequest(query, vector, stores, found, pool), unranked)
        except (Unavailable, Conflict) as error:
            if recipe.required:
                raise
            log.warning("recipe %s left empty: %s", recipe.name, error)
            problems.append(Problem(recipe.name, str(error), error.code))
            result = SourceResult()
        with span("rank"):
            ranked = [
                hit
                for hit in rank(result.hits, query, recipe.weights, recipe.types)
                if hit.score >= recipe.min_score
            ]
            hits = tuple(
                _limit_properties(hit, recipe)
                for hit in (ranked[: recipe.limit] if recipe.consider > 1 else ranked)
            )
        parts = (
            [replace(part, hits=_with_walk_scores(part.hits, result.walk_scores)) for part in parts]
            if result.walk_scores
            else parts
        )
        parts.append(
            SectionCandidates(
                recipe, hits, relationship_needs(hits, parts) if recipe.source == "links" else ()
            )
        )
        pool |= result.pool
        gathered.append(result)
        found = tuple(hit for part in parts for hit in part.hits)
    parts = _drop_surplus(parts)
    return annotate_paths(parts, stores) if query.paths else parts, gathered, problems


def _drop_surplus(parts: list[SectionCandidates]) -> list[SectionCandidates]:
    """Without the hits that search took because the budget might have held them, where better candidates, those that links lead to among them, have text enough
    to fill it: they would be rendered and counted for nothing. Only parts that get all their tokens by worth are compared."""
    shared = [part for part in parts if part.recipe.share == 0 and part.hits]
    room = max([part.recipe.room for part in shared], default=0)
    if not room or len(shared) == 1 or any(part.needs for part in parts):
        return parts
    best: set[Key] = set()
    left = room
    for hit in sorted(
        [hit for part in shared for hit in part.hits],
        key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space),
    ):
        if left <= 0:
            break
        best.add(hit.item.key)
        left -= effective_length(hit.item, room)
    return [
        replace(part, hits=_keep_best(part.hits, best))
        if part.recipe.room and part.recipe.share == 0
        else part
        for part in parts
    ]


def _keep_best(hits: Sequence[Hit], best: Container[Key]) -> tuple[Hit, ...]:
    return tuple(
        [hit for place, hit in enumerate(hits) if place < MIN_CANDIDATES or hit.item.key in best]
    )


def _with_walk_scores(hits: Sequence[Hit], worth: Mapping[Key, float]) -> tuple[Hit, ...]:
    """The same candidates, where a walk says how much each matters once it is known what they lead to."""
    return tuple(
        [
            _with_walk_score(hit, worth[key]) if (key := hit.item.key) in worth else hit
            for hit in hits
        ]
    )


def _with_walk_score(hit: Hit, worth: float) -> Hit:
    return with_score(hit, hit.score, {**hit.signals, "walk": worth})


def _limit_properties(hit: Hit, recipe: Recipe) -> Hit:
    """With no more of its properties than the recipe wants."""
    if len(hit.item.properties) <= recipe.max_properties:
        return hit
    return replace(
        hit,
        item=replace(
            hit.item, properties=dict(islice(hit.item.properties.items(), recipe.max_properties))
        ),
    )


def build_context(
    query: Query,
    recipes: Sequence[Recipe],
    vector: Vector | None,
    stores: Stores,
    counter: TokenCounter,
    problems: Sequence[Problem],
) -> Context:
    """The context for a query. `problems` are those that were met before the first stage."""
    parts, gathered, more = gather_candidates(query, recipes, vector, stores)
    more += _check_entity(query, stores)
    with span("fit"):
        fitted = pack(
            parts, query.max_tokens, get_layout(query.format), counter, tolerance_of(parts)
        )
    stats = Stats(
        searched=sum(one.searched for one in gathered),
        expanded=sum(one.expanded for one in gathered),
        max_depth=max((one.max_depth for one in gathered), default=0),
        candidates=sum(len(part.hits) for part in parts),
        token_counter=counter.name,
        optimality_gap=fitted.gap,
    )
    failed = {problem.part: problem.reason for problem in more}
    fragments = tuple(
        replace(fragment, problem=failed.get(fragment.name, "")) for fragment in fitted.fragments
    )
    return Context(
        text=fitted.text,
        tokens=fitted.tokens,
        query=query,
        fragments=fragments,
        left_out=fitted.left_out,
        degraded=(*problems, *more),
        digest=digest(query, recipes, vector, stores, counter, more),
        stats=stats,
    )


def _check_entity(query: Query, stores: Stores) -> list[Problem]:
    """That the request is about an entity of which nothing is stored."""
    if query.entity is None or not query.spaces or entity_keys(query, stores):
        return []
    return [
        Problem(
            "entity",
            f"no item {query.entity!r} in {', '.join(query.spaces)}: the answer is as for nobody",
            "unknown_entity",
        )
    ]


def digest(
    query: Query,
    recipes: Sequence[Recipe],
    vector: Vector | None,
    stores: Stores,
    counter: TokenCounter,
    problems: Sequence[Problem],
) -> str:
    """Names an answer by all that it depends on: knowledge, request, recipes, renderer, tokens, and what could not be reached.
    Equal digests, equal bytes, as long as an embedder gives a text one vector only: vectors are named by their embedder."""
    knowledge = {
        info.name: (info.digest, info.links_digest) for info in stores.items.spaces(query.spaces)
    }
    inputs = (
        repr(RENDERER_VERSION),
        repr(sorted(knowledge.items())),
        repr(
            ()
            if vector is None
            else (stores.vectors.fingerprint(), stores.vectors.count_missing(query.spaces))
        ),
        repr([(problem.part, problem.code) for problem in problems]),
        repr(
            ""
            if vector is None or not query.vector
            else hashlib.sha256(vector.tobytes()).hexdigest()
        ),  # one that was given, and not made from the text
        repr(replace(query, vector=())),
        _recipes_repr(tuple(recipes)),
        repr(counter.name),
        *(("'paths'",) if query.paths else ()),
    )
    return hashlib.sha256(f"({', '.join(inputs)})".encode()).hexdigest()


_recipes_repr: Callable[[tuple[Recipe, ...]], str] = cached("recipe digests", 64)(
    repr
)  # the same few in all requests, with dozens of fields each
