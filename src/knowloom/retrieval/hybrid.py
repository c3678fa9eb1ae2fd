"""Hybrid search: BM25 and vector matches, fused into one score in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from knowloom.construction import fast_constructor, round_scores
from knowloom.errors import Unavailable
from knowloom.model import Filter, Hit, Item, Key, Problem
from knowloom.ports import Stores, Vector
from knowloom.recipes import MIN_CANDIDATES, Recipe, search_depth
from knowloom.retrieval.nodes import (
    MAX_WHOLE_NODE,
    NodeKey,
    score_passages,
    scored_passages,
    tie_break,
)
from knowloom.text.passages import PART_SIZE, PASSAGE_SIZE

# Candidates from each index: more change no ranking on the tuning sets, 50 lose a little.
MIN_DEPTH = 100
MAX_SHORT_TEXT = 1000  # characters; longer texts may be shown by excerpts
LONG_ITEMS = 24  # long texts that are candidates for a budget, if there are as many
DEPTH_FACTOR = 4  # growth of the depth when the texts found do not fill the budget
# Values of `Hit.found_by`: matched by terms, matched by vector.
FOUND_BY = {
    (True, True): ("bm25", "vector"),
    (True, False): ("bm25",),
    (False, True): ("vector",),
    (False, False): (),
}

_new_hit = fast_constructor(Hit)


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The hits of a search, best first, and the scores of its candidates."""

    hits: tuple[Hit, ...] = ()
    considered: int = 0
    # The best scores of short items and of passages, hits or not.
    pool: Mapping[NodeKey, float] = field(default_factory=dict)
    best_score: float = 0.0  # of all matches, hits or not
    matched: int = 0  # candidates with a score above 0
    problems: tuple[Problem, ...] = ()  # layers that the search did without

    def lacks(self, layer: str) -> bool:
        """Return True if the search did without this layer."""
        return any(problem.part == layer for problem in self.problems)


@dataclass(frozen=True, slots=True)
class IndexMatches:
    """The scores of the words and of the vectors, and the weights to fuse them with."""

    vector: Vector | None  # None: words only
    weights: tuple[float, float]
    term_scores: Mapping[Key, float]
    vector_scores: Mapping[Key, float]
    term_matches: tuple[Key, ...]
    vector_matches: tuple[Key, ...]
    considered: int
    problems: tuple[Problem, ...] = ()


def search(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, *, stores: Stores
) -> SearchHits:
    """Return the best `recipe.limit` items, or as many as fill the recipe's room.

    Without a vector, only terms are matched. If the words fail, only vectors are, and the other way
    round; the error of both is raised, and that of the only ones that the recipe's mode allows.
    """
    depth = search_depth(recipe)
    while True:
        result, is_enough = _search_once(text, vector, only, recipe, depth, stores)
        if is_enough or depth >= recipe.limit:
            return result
        depth = min(recipe.limit, DEPTH_FACTOR * depth)


def _search_once(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, limit: int, stores: Stores
) -> tuple[SearchHits, bool]:
    """Return the best `limit` items, and whether a deeper search would add nothing."""
    indexes = _search_indexes(text, vector, only, recipe, max(MIN_DEPTH, limit), stores)
    vector, weights = indexes.vector, indexes.weights
    term_scores, vector_scores = indexes.term_scores, indexes.vector_scores
    scores = fuse(term_scores, vector_scores, *weights)
    passages = score_passages(text, vector, only, list(scores), weights, stores)
    scores |= {key: max(of_item) for key, of_item in passages.items()}
    ordered = sorted(scores, key=lambda key: (-scores[key], key[1], key[0]))
    best = [key for key in ordered[:limit] if scores[key] >= recipe.min_score and scores[key] > 0]
    items, is_filled = _read_items(best, recipe, stores)
    found_by = frozenset(indexes.term_matches), frozenset(indexes.vector_matches)
    hits = _build_hits(items, scores, term_scores, vector_scores, *found_by)
    if passages:
        hits = _with_passages(hits, passages, stores)
    pool = _build_pool(scores, ordered, passages)
    best_score = scores[ordered[0]] if ordered else 0.0
    matched = sum([score > 0 for score in scores.values()])
    counts = (indexes.considered, pool, best_score, matched)
    return SearchHits(hits, *counts, indexes.problems), is_filled or len(best) < limit


def _search_indexes(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, depth: int, stores: Stores
) -> IndexMatches:
    """Return the matches of both indexes, or of the one that works if the recipe allows it."""
    try:
        return _match(text, vector, only, recipe, depth, stores)
    except Unavailable as error:
        if vector is None or recipe.mode == "vector" or error.code == "closed":
            raise
        failure = error
    vectors_only, words_only = replace(recipe, mode="vector"), replace(recipe, mode="bm25")
    for layer, other, part in (("words", vector, vectors_only), ("vectors", None, words_only)):
        try:
            matches = _match(text, other, only, part, depth, stores)
        except Unavailable:
            continue
        return replace(matches, problems=(Problem.from_error(layer, failure),))
    raise failure


def _match(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, depth: int, stores: Stores
) -> IndexMatches:
    vector_scores: dict[Key, float] = {}
    term_scores: dict[Key, float] = {}
    considered = 0
    if vector is not None:
        result = stores.vectors.search_vector(vector, only, depth)
        vector_scores, considered = dict(result.matches), result.considered
    vector_matches = tuple(vector_scores)
    term_matches: tuple[Key, ...] = ()
    if vector is None or recipe.mode == "hybrid":
        result = stores.words.search_text(text, only, depth, also=vector_matches)
        term_scores, considered = dict(result.matches), max(considered, result.considered)
        term_matches = tuple(term_scores)
        if vector is not None:
            term_scores |= result.others
            vector_scores |= stores.vectors.score_vectors(
                vector, [key for key in term_matches if key not in vector_scores]
            )
    weights = fusion_weights(recipe, vector is not None)
    return IndexMatches(
        vector, weights, term_scores, vector_scores, term_matches, vector_matches, considered
    )


def add_passages(
    hits: Sequence[Hit],
    text: str,
    vector: Vector | None,
    only: Filter,
    recipe: Recipe,
    *,
    stores: Stores,
) -> tuple[Hit, ...]:
    """Score the passages of long hits that no search returned, such as neighbours."""
    keys = [hit.item.key for hit in hits if not hit.passages and len(hit.item.text) > PASSAGE_SIZE]
    if not keys or not text.strip():
        return tuple(hits)
    weights = fusion_weights(recipe, vector is not None)
    return _with_passages(hits, score_passages(text, vector, only, keys, weights, stores), stores)


def _with_passages(
    hits: Sequence[Hit], passages: Mapping[Key, Sequence[float]], stores: Stores
) -> tuple[Hit, ...]:
    return tuple(
        replace(hit, passages=scored_passages(hit.item, dict(enumerate(scores)), stores))
        if (scores := passages.get(hit.item.key))
        else hit
        for hit in hits
    )


def _build_pool(
    scores: Mapping[Key, float], ordered: Sequence[Key], passages: Mapping[Key, Sequence[float]]
) -> dict[NodeKey, float]:
    """Return the best scores of short items and of passages."""
    if not passages:
        return {key: scores[key] for key in ordered[:MIN_DEPTH]}
    nodes: dict[NodeKey, float] = {}
    for key in ordered[:MIN_DEPTH]:
        if len(passages.get(key, ())) > MAX_WHOLE_NODE:
            nodes |= {(*key, number): score for number, score in enumerate(passages[key]) if score}
        else:
            nodes[key] = scores[key]
    best = sorted(nodes, key=lambda node: (-nodes[node], tie_break(node)))[:MIN_DEPTH]
    return {node: nodes[node] for node in best}


def _build_hits(
    items: Sequence[Item],
    scores: Mapping[Key, float],
    term_scores: Mapping[Key, float],
    vector_scores: Mapping[Key, float],
    term_matches: Set[Key],
    vector_matches: Set[Key],
) -> tuple[Hit, ...]:
    hits = []
    for item in items:  # hundreds per request: comprehensions take three times as long
        key, signals = item.key, {}
        if key in term_scores:
            signals["bm25"] = term_scores[key]
        if key in vector_scores:
            signals["vector"] = vector_scores[key]
        found_by = FOUND_BY[key in term_matches, key in vector_matches]
        hits.append(_new_hit(item, scores[key], signals, found_by, (key,), None, (), "", ()))
    return tuple(hits)


def _read_items(keys: Sequence[Key], recipe: Recipe, stores: Stores) -> tuple[list[Item], bool]:
    """Read items, best first, until they fill the recipe's room, and return whether they do."""
    if not recipe.room:
        return stores.items.get(keys), True
    items: list[Item] = []
    length, taken, step = 0, 0, MIN_CANDIDATES
    while taken < len(keys) and length < recipe.room:
        batch = stores.items.get(keys[taken : taken + step])
        items += batch
        length += sum([effective_length(item, recipe.room) for item in batch])
        taken += step
        # The next batch should fill the room, by the average length so far.
        step = 1 + (recipe.room - length) * taken // max(1, length)
    return items, length >= recipe.room


def effective_length(item: Item, room: int) -> int:
    """Return the characters of an item that count towards a recipe's room.

    A long text may be shown by any part of it: LONG_ITEMS of them fill the room.
    """
    length = len(item.text)
    if length > MAX_SHORT_TEXT:
        length = max(PART_SIZE, min(length, room // LONG_ITEMS))
    return len(item.title) + length


def fusion_weights(recipe: Recipe, has_vector: bool) -> tuple[float, float]:
    """Return the weights of the BM25 and the vector score, which add up to 1."""
    if not has_vector:
        return (1.0, 0.0)
    if recipe.mode == "vector":
        return (0.0, 1.0)
    total = recipe.bm25_weight + recipe.vector_weight
    return (recipe.bm25_weight / total, recipe.vector_weight / total)


def fuse(
    term_scores: Mapping[Key, float],
    vector_scores: Mapping[Key, float],
    term_weight: float,
    vector_weight: float,
) -> dict[Key, float]:
    """Return the weighted sum of two scores in [0, 1], comparable across requests.

    Sums are rounded, so that ties are ties on every machine.
    """
    keys = dict.fromkeys([*term_scores, *vector_scores])
    scores = round_scores(
        [
            term_weight * term_scores.get(key, 0.0) + vector_weight * vector_scores.get(key, 0.0)
            for key in keys
        ]
    )
    return dict(zip(keys, scores, strict=True))
