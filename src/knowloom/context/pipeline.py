"""Build a context: gather and rank candidates per recipe, pack them, and compute the digest."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from itertools import islice

from knowloom.caching import cached
from knowloom.context.citations import sources_fragment
from knowloom.context.confidence import context_confidence
from knowloom.context.notices import section_notices
from knowloom.context.packing import SectionCandidates, relationship_needs
from knowloom.context.paths import annotate_paths
from knowloom.context.turns.continuation import pack_turn
from knowloom.errors import Conflict, Unavailable
from knowloom.formats.fencing import layout_of
from knowloom.model import (
    RESERVED_PREFIX,
    UNTRUSTED,
    Context,
    Hit,
    Key,
    LeftOut,
    Problem,
    Query,
    Stats,
)
from knowloom.ports import Stores, TokenCounter, Vector
from knowloom.recipes import MIN_CANDIDATES, Recipe, Weights
from knowloom.retrieval.hybrid import add_passages, effective_length
from knowloom.retrieval.ranking import rank
from knowloom.retrieval.reranking import Reranking, rerank_hits
from knowloom.retrieval.sources import (
    RetrievalRequest,
    SourceResult,
    entity_keys,
    gather,
    recipe_filter,
)
from knowloom.retrieval.walk_results import apply_scores
from knowloom.text.passages import SEGMENTER
from knowloom.tracing import span

log = logging.getLogger(__name__)

# Part of the digest: raised when the same request on the same knowledge gives another context.
RENDERER_VERSION = 8
SCORED_SOURCES = ("search", "walk")  # these score the passages of their hits
INSTRUCTIONS = "instructions"  # the section that a model is to follow
UNTRUSTED_REASON = "untrusted items are not shown as instructions"
CACHED_RECIPES = 64  # lists of recipes, with dozens of fields each; requests use few


def build_context(
    request: RetrievalRequest,
    recipes: Sequence[Recipe],
    counter: TokenCounter,
    notes: Sequence[Problem],
    reranking: Reranking | None = None,
) -> Context:
    """Return the context for a request; its problems are those of the request, then the notes."""
    query, vector, stores = request.query, request.vector, request.stores
    sections, results, new_problems = gather_candidates(query, recipes, vector, stores, reranking)
    new_problems += _check_entity(query, stores)
    failures = [*new_problems, *request.problems[len(request.initial) :]]
    digest = compute_digest(query, recipes, vector, stores, counter, failures, reranking)
    confidence = _estimate_confidence(query.text, sections, results, vector is not None)
    context = Context(
        text="",
        tokens=0,
        query=query,
        degraded=_unique(
            *request.problems,
            *notes,
            *new_problems,
            *section_notices(query, sections, results, stores),
        ),
        digest=digest,
        stats=_count(sections, results, counter),
        confidence=confidence,
    )
    if confidence is not None and confidence < query.min_answer_confidence:
        if query.after is None:
            return context
        sections = []  # the earlier text stays
    return _pack_context(context, sections, counter)


def _unique(*problems: Problem) -> tuple[Problem, ...]:
    """Return each problem once: several recipes may miss the same layer."""
    return tuple(dict.fromkeys(problems))


def _pack_context(
    context: Context, sections: Sequence[SectionCandidates], counter: TokenCounter
) -> Context:
    """Add the text and its parts to a context."""
    sections, untrusted = _drop_untrusted(sections)
    hits = [hit for section in sections for hit in section.hits]
    layout = layout_of(context.query, context.digest, hits)
    with span("fit"):
        turn = pack_turn(context.query, sections, counter, layout)
    packed = turn.packed
    reasons = {section.recipe.name: section.problem for section in sections}
    fragments = tuple(
        replace(fragment, problem=reasons.get(fragment.name, "")) for fragment in packed.fragments
    )
    return replace(
        context,
        text=packed.text,
        tokens=packed.tokens,
        fragments=fragments + sources_fragment(packed.citations, layout, counter),
        left_out=packed.left_out + untrusted,
        stats=replace(context.stats, optimality_gap=packed.gap),
        citations=packed.citations,
        degraded=(*context.degraded, *turn.problems),
        prefix=turn.prefix,
    )


def _drop_untrusted(
    sections: Sequence[SectionCandidates],
) -> tuple[list[SectionCandidates], tuple[LeftOut, ...]]:
    """Drop untrusted candidates of sections of instructions; return them with the reason."""
    trusted, dropped = [], []
    for section in sections:
        if section.recipe.name == INSTRUCTIONS:
            untrusted = [hit for hit in section.hits if hit.item.trust == UNTRUSTED]
            dropped += [LeftOut(hit, INSTRUCTIONS, UNTRUSTED_REASON) for hit in untrusted]
            hits = tuple(hit for hit in section.hits if hit.item.trust != UNTRUSTED)
            section = replace(section, hits=hits)
        trusted.append(section)
    return trusted, tuple(dropped)


def _count(
    sections: Sequence[SectionCandidates], results: Sequence[SourceResult], counter: TokenCounter
) -> Stats:
    return Stats(
        searched=sum(result.searched for result in results),
        expanded=sum(result.expanded for result in results),
        max_depth=max((result.max_depth for result in results), default=0),
        matched=sum(result.matched for result in results),
        candidates=sum(len(section.hits) for section in sections),
        token_counter=counter.name,
    )


def _estimate_confidence(
    text: str,
    sections: Sequence[SectionCandidates],
    results: Sequence[SourceResult],
    has_vector: bool,
) -> float | None:
    searches = [
        (section.recipe.mode, result.hits if section.hits else (), result.best_score)
        for section, result in zip(sections, results, strict=True)
        if section.recipe.source == "search"
    ]
    walked: list[Hit] = []
    if any(result.walk_scores for result in results):
        scored = [section for section in sections if section.recipe.source in SCORED_SOURCES]
        walked = [hit for section in scored for hit in section.hits]
    return context_confidence(text, searches, walked, has_vector)


def gather_candidates(
    query: Query,
    recipes: Sequence[Recipe],
    vector: Vector | None,
    stores: Stores,
    reranking: Reranking | None = None,
) -> tuple[list[SectionCandidates], list[SourceResult], list[Problem]]:
    """Return the ranked candidates of each recipe, which sees the hits of those before it.

    The section of a recipe whose store is unavailable stays empty.
    """
    sections: list[SectionCandidates] = []
    results: list[SourceResult] = []
    problems: list[Problem] = []
    request = RetrievalRequest(query, vector, stores)
    for recipe in recipes:
        try:
            with span(recipe.source):
                result = _score_passages(gather(request, _unranked(recipe)), request, recipe)
        except (Unavailable, Conflict) as error:
            if recipe.required:
                raise
            log.warning("recipe %s left empty: %s", recipe.name, error)
            result = SourceResult(problems=(Problem.from_error(recipe.name, error),))
        problems += result.problems
        with span("rank"):
            hits = _rank_hits(result.hits, query, recipe)
        if scores := result.walk_scores:
            sections = [
                replace(section, hits=apply_scores(section.hits, scores, stores))
                for section in sections
            ]
        needs = relationship_needs(hits, sections) if recipe.source == "links" else ()
        reason = "; ".join(problem.reason for problem in result.problems)
        sections.append(SectionCandidates(recipe, hits, needs, reason))
        results.append(result)
        earlier_hits = tuple(hit for section in sections for hit in section.hits)
        request = replace(request, earlier_hits=earlier_hits, pool={**request.pool, **result.pool})
    if reranking is not None:
        with span("rerank"):
            sections, rerank_problems = _rerank_sections(sections, query, reranking)
        problems += rerank_problems
    sections = _drop_surplus(sections)
    return annotate_paths(sections, stores) if query.paths else sections, results, problems


def _rerank_sections(
    sections: list[SectionCandidates], query: Query, reranking: Reranking
) -> tuple[list[SectionCandidates], list[Problem]]:
    """Rerank the hits of search and walk together; other sections have no text to compare."""
    scored = [section for section in sections if section.recipe.source in SCORED_SOURCES]
    hits, problem = rerank_hits(
        [hit for section in scored for hit in section.hits], query.text, reranking
    )
    if problem is not None:
        return sections, [problem]
    remaining, reranked = iter(hits), []
    for section in sections:
        if section.recipe.source in SCORED_SOURCES:
            best = sorted(
                islice(remaining, len(section.hits)),
                key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space),
            )
            section = replace(section, hits=tuple(best))
        reranked.append(section)
    return reranked, []


def _score_passages(
    result: SourceResult, request: RetrievalRequest, recipe: Recipe
) -> SourceResult:
    """Score the passages of long hits, if their source did not."""
    if recipe.source in SCORED_SOURCES or not result.hits:
        return result
    only = recipe_filter(request.query, recipe)
    try:
        hits = add_passages(
            result.hits, request.query.text, request.vector, only, recipe, stores=request.stores
        )
    except (Unavailable, Conflict):  # reported by the recipe that searches
        return result
    return replace(result, hits=hits)


def _unranked(recipe: Recipe) -> Recipe:
    """Return the recipe for its source, which scores before the weights of the recipe apply.

    `min_score` is compared with the weighted score, so the source must not drop anything by it.
    """
    if recipe.weights == Weights():
        return recipe
    return replace(recipe, min_score=0.0, limit=recipe.limit * recipe.consider)


def _rank_hits(hits: Sequence[Hit], query: Query, recipe: Recipe) -> tuple[Hit, ...]:
    ranked = rank(hits, query, recipe.weights, recipe.types)
    good = [hit for hit in ranked if hit.score >= recipe.min_score]
    if recipe.consider > 1:
        good = good[: recipe.limit]
    return tuple([_limit_properties(hit, recipe) for hit in good])


def _limit_properties(hit: Hit, recipe: Recipe) -> Hit:
    properties = hit.item.properties
    if len(properties) <= recipe.max_properties:
        return hit
    shown = dict(islice(hit.item.shown_properties.items(), recipe.max_properties))
    reserved = {name: properties[name] for name in properties if name.startswith(RESERVED_PREFIX)}
    return replace(hit, item=replace(hit.item, properties=shown | reserved))


def _drop_surplus(sections: list[SectionCandidates]) -> list[SectionCandidates]:
    """Drop search hits that better candidates of any section would displace from the budget.

    They would be rendered and counted in vain. Only sections without a guaranteed share compete.
    """
    shared = [section for section in sections if section.recipe.share == 0 and section.hits]
    room = max([section.recipe.room for section in shared], default=0)
    if not room or len(shared) == 1 or any(section.needs for section in sections):
        return sections
    best: set[Key] = set()
    left = room
    for hit in sorted(
        [hit for section in shared for hit in section.hits],
        key=lambda hit: (-hit.relevance, hit.item.id, hit.item.space),
    ):
        if left <= 0:
            break
        best.add(hit.item.key)
        left -= effective_length(hit.item, room)
    return [
        replace(section, hits=_keep_best(section.hits, best))
        if section.recipe.room and section.recipe.share == 0
        else section
        for section in sections
    ]


def _keep_best(hits: Sequence[Hit], best: Container[Key]) -> tuple[Hit, ...]:
    return tuple(
        [hit for place, hit in enumerate(hits) if place < MIN_CANDIDATES or hit.item.key in best]
    )


def _check_entity(query: Query, stores: Stores) -> list[Problem]:
    """Return a problem if the query is about an entity that is not stored."""
    if query.entity is None or not query.spaces or entity_keys(query, stores):
        return []
    reason = (
        f"entity {query.entity!r} not found in {', '.join(query.spaces)}; "
        "the context is not personalised"
    )
    return [Problem("entity", reason, "unknown_entity")]


def compute_digest(
    query: Query,
    recipes: Sequence[Recipe],
    vector: Vector | None,
    stores: Stores,
    counter: TokenCounter,
    problems: Sequence[Problem],
    reranking: Reranking | None = None,
) -> str:
    """Return a hash of everything a context depends on.

    That is knowledge, query, recipes, renderer, segmenter, token counter, reranker and failures.
    Contexts with equal digests have equal bytes if the embedder is deterministic: stored vectors
    are identified by their embedder, that of the query by its numbers, which differ between kinds
    of processors.
    """
    spaces = stores.items.spaces(query.spaces)
    knowledge = {info.name: (info.digest, info.links_digest) for info in spaces}
    vectors: tuple[object, ...] = ()
    query_vector = ""
    if vector is not None:
        vectors = (stores.vectors.fingerprint(), stores.vectors.count_missing(query.spaces))
        if query.vector:  # passed by the caller, and not embedded from the text
            query_vector = hashlib.sha256(vector.tobytes()).hexdigest()
    inputs = (
        repr((RENDERER_VERSION, SEGMENTER, stores.words.passage_size())),
        repr(sorted(knowledge.items())),
        repr(vectors),
        repr([(problem.part, problem.code) for problem in problems]),
        repr(query_vector),
        repr(replace(query, vector=())),
        _recipes_repr(tuple(recipes)),
        repr(counter.name),
        *(("'paths'",) if query.paths else ()),
        *(("'citations'",) if query.citations else ()),
        *(("'fence'",) if query.fence else ()),
        *((repr(query.where),) if query.where else ()),
        *((repr(query.min_answer_confidence),) if query.min_answer_confidence else ()),
        *((repr(reranking.identity),) if reranking is not None else ()),
        *((repr((query.seen, query.after, query.new_tokens)),) if _has_turns(query) else ()),
    )
    return hashlib.sha256(f"({', '.join(inputs)})".encode()).hexdigest()


def _has_turns(query: Query) -> bool:
    return bool(query.seen) or query.after is not None or query.new_tokens is not None


_recipes_repr: Callable[[tuple[Recipe, ...]], str] = cached("recipe digests", CACHED_RECIPES)(repr)
