"""Find items by words and by meaning, and fuse the two into one score in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from knowloom.construction import fast_constructor, round_scores
from knowloom.model import Filter, Hit, Item, Key
from knowloom.ports import Stores, Vector
from knowloom.recipes import MIN_CANDIDATES, Recipe, search_depth

_new_hit = fast_constructor(Hit)

SIGNALS_BY_MATCH = {
    (True, True): ("bm25", "vector"),
    (True, False): ("bm25",),
    (False, True): ("vector",),
    (False, False): (),
}  # by words, by meaning
MIN_DEPTH = 100  # candidates taken from each index: deeper changes no ranking on the tuning sets, 50 loses a little
DEPTH_FACTOR = (
    4  # times as many are searched for when those found have too little text for the budget
)


@dataclass(frozen=True, slots=True)
class SearchHits:
    hits: tuple[Hit, ...] = ()
    considered: int = 0
    pool: Mapping[Key, float] = field(default_factory=dict)  # scores of the best, hits or not


def search(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, *, stores: Stores
) -> SearchHits:
    """The best `recipe.limit` items, or as many as fill the recipe's room. Without a vector only words count."""
    wanted = search_depth(recipe)
    while True:
        found, enough = _search_once(text, vector, only, recipe, wanted, stores)
        if enough or wanted >= recipe.limit:
            return found
        wanted = min(
            recipe.limit, DEPTH_FACTOR * wanted
        )  # what was found is shorter than most items are


def _search_once(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, limit: int, stores: Stores
) -> tuple[SearchHits, bool]:
    """The best `limit` items, and whether more would be of no use."""
    depth = max(MIN_DEPTH, limit)
    by_meaning: dict[Key, float] = {}
    by_words: dict[Key, float] = {}
    considered = 0
    if vector is not None:
        found = stores.vectors.search_vector(vector, only, depth)
        by_meaning, considered = dict(found.matches), found.considered
    meant = tuple(by_meaning)
    if vector is None or recipe.mode == "hybrid":
        found = stores.words.search_text(text, only, depth, also=meant)
        by_words, considered = dict(found.matches), max(considered, found.considered)
        worded = tuple(by_words)
        if vector is not None:
            by_words |= found.others
            by_meaning |= stores.vectors.score_vectors(
                vector, [key for key in worded if key not in by_meaning]
            )
    else:
        worded = ()
    scores = fuse(by_words, by_meaning, *fusion_weights(recipe, vector is not None))
    ordered = sorted(scores, key=lambda key: (-scores[key], key[1], key[0]))
    best = [key for key in ordered[:limit] if scores[key] >= recipe.min_score]
    items, filled = _read_items(best, recipe, stores)
    hits = _build_hits(items, scores, by_words, by_meaning, frozenset(worded), frozenset(meant))
    return SearchHits(
        hits, considered, {key: scores[key] for key in ordered[:MIN_DEPTH]}
    ), filled or len(best) < limit


def _build_hits(
    items: Sequence[Item],
    scores: Mapping[Key, float],
    by_words: Mapping[Key, float],
    by_meaning: Mapping[Key, float],
    worded: Set[Key],
    meant: Set[Key],
) -> tuple[Hit, ...]:
    hits = []
    for item in (
        items
    ):  # some hundred in a request: this plain form takes a third of the time of the shortest
        key, signals = item.key, {}
        if key in by_words:
            signals["bm25"] = by_words[key]
        if key in by_meaning:
            signals["vector"] = by_meaning[key]
        hits.append(
            _new_hit(
                item,
                scores[key],
                signals,
                SIGNALS_BY_MATCH[key in worded, key in meant],
                (key,),
                None,
                (),
                "",
            )
        )
    return tuple(hits)


def _read_items(best: Sequence[Key], recipe: Recipe, stores: Stores) -> tuple[list[Item], bool]:
    """The items behind the keys, best first; if the recipe says what it has room for, as many as fill it, and whether they do."""
    if not recipe.room:
        return stores.items.get(best), True
    items: list[Item] = []
    length, taken, step = 0, 0, MIN_CANDIDATES
    while taken < len(best) and length < recipe.room:
        part = stores.items.get(best[taken : taken + step])
        items += part
        length += sum([count_characters(item, recipe.room) for item in part])
        taken += step
        step = 1 + (recipe.room - length) * taken // max(
            1, length
        )  # as many more as should fill it, by the length of those before
    return items, length >= recipe.room


def count_characters(item: Item, room: int) -> int:
    """The characters of an item that count where a recipe has room for so many. The budget is two thirds of the room: what is longer will not be
    shown whole, and must not keep out what could be."""
    return len(item.title) + len(item.text if 3 * len(item.text) <= 2 * room else item.summary)


def fusion_weights(recipe: Recipe, has_vector: bool) -> tuple[float, float]:
    """The weights of words and meaning, adding up to one."""
    if not has_vector:
        return (1.0, 0.0)
    if recipe.mode == "vector":
        return (0.0, 1.0)
    total = recipe.bm25_weight + recipe.vector_weight
    return (recipe.bm25_weight / total, recipe.vector_weight / total)


def fuse(
    by_words: Mapping[Key, float],
    by_meaning: Mapping[Key, float],
    words_share: float,
    meaning_share: float,
) -> dict[Key, float]:
    """A weighted sum of two scores that each reach from nothing in common (0) to all there is (1), so the sum means the same
    in every request. Rounded, so that ties are ties on every machine."""
    keys = dict.fromkeys([*by_words, *by_meaning])
    scores = round_scores(
        [
            words_share * by_words.get(key, 0.0) + meaning_share * by_meaning.get(key, 0.0)
            for key in keys
        ]
    )
    return dict(zip(keys, scores, strict=True))
