"""Follow links from what search found to what it could not find: a short, local PageRank towards the question.

Some worth starts at the best hits and flows along links, most of it where the linked item is near to the question and has those of
its words that the item before lacks. Answers that need two or three pieces of knowledge are found piece by piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowloom.construction import fast_constructor, round_scores
from knowloom.model import Edge, Filter, Hit, Key
from knowloom.ports import Stores, Vector
from knowloom.recipes import Recipe
from knowloom.retrieval.hybrid import SearchHits, search
from knowloom.retrieval.neighbours import MIN_EDGE_WEIGHT
from knowloom.retrieval.query_coverage import QueryCoverage
from knowloom.retrieval.ranking import top_k, with_score
from knowloom.retrieval.repetition import name_link_density, penalise_repetition
from knowloom.retrieval.walk_seeds import (
    boost_by_names,
    discount_common_names,
    names_beyond_query,
    names_in_query,
    score_full_names,
    score_shared_names,
    searchable_names,
    weigh_seeds,
)
from knowloom.text.mentions import capitalised_spans

# Chosen on the two tuning sets (docs/walk.md), as were the numbers of `Walk`.
MAX_HITS_READ = 30  # of the hits: whose titles and texts are looked at
FULL_EDGE_WEIGHT = (
    0.5  # links that together weigh less than this lead less of it on; the rest stays
)
REVERSE_FACTORS = {
    "mentions": 0.3,
    "refers_to": 0.3,
}  # what a link of a type is worth when followed from its target to its source; others: 1
MAX_QUERY_NAMES = 100  # of a question's names that are looked for: a text with more is no question
ITEMS_READ_PER_HOP = (
    16,
    8,
)  # items reached whose texts are looked at, at the first hop and at later ones
MIN_PROXIMITY = 0.01  # so that an item without a vector is not lost
BRIDGED_SEEDS, BRIDGES_PER_SEED = (
    2,
    10,
)  # the best starts are linked to hits that hold what they name: so many
BRIDGE = "bridge"  # the type of such a link, which is stored nowhere
SIMILARITY_TYPES = frozenset((BRIDGE, "shares", "similar"))  # likeness: neither end names the other
SEARCH_TIEBREAK = (
    1e-3  # what search found, and the walk did not reach, comes behind, in the order of its scores
)
NO_EDGE = (0.0,)

_hit, _edge = fast_constructor(Hit), fast_constructor(Edge)


@dataclass(frozen=True, slots=True)
class WalkResult:
    """Items that links lead to, best first, and the worth of every item that the walk or the search knows."""

    hits: tuple[Hit, ...] = ()
    worth: Mapping[Key, float] = field(default_factory=dict)
    reached: int = 0
    max_depth: int = 0


Flow = tuple[
    float, Key, Edge
]  # worth that comes to an item, the item it comes from, and the link it comes along
Adjacency = dict[
    Key, dict[Key, tuple[float, Edge]]
]  # by the item we stand at and the one at the other end: a weight and the link


def walk(
    text: str,
    vector: Vector | None,
    found: Sequence[Hit],
    pool: Mapping[Key, float],
    only: Filter,
    recipe: Recipe,
    *,
    stores: Stores,
) -> WalkResult:
    """What the links of `found` lead to, within `recipe.depth` links; at most `recipe.limit` items. `pool` has the scores of what
    search found beyond that. Without links of their own the hits stay as they are."""
    best = sorted(found, key=lambda hit: (-hit.score, hit.item.id, hit.item.space))[:MAX_HITS_READ]
    names = names_in_query(text, best)
    starts = weigh_seeds(best, names, recipe.walk)
    if not starts or not recipe.depth:
        return WalkResult()
    through = replace(only, kinds=())  # a walk may pass through what it may not show
    way = _Walker(text, vector, through, recipe, stores, QueryCoverage(text))
    way.sight.look(hit.item for hit in best)
    way.follow(list(starts))
    if not way.links:
        return WalkResult()
    way.linked = way.linked_from(starts)
    chosen = [hit for hit in best if hit.item.key in starts]
    if asked := capitalised_spans(text)[:MAX_QUERY_NAMES]:
        chosen = boost_by_names(chosen, score_full_names(asked, way.texts()), way.linked)
    starts = weigh_seeds(chosen, discount_common_names(names, way.links), recipe.walk)
    way.bridge(starts, found, pool)
    way.linked = way.linked_from(starts)
    worth, flows = way.spread(starts)
    return _result(worth, flows, found, pool, only, recipe, stores, way)


def walk_search(
    text: str, vector: Vector | None, only: Filter, recipe: Recipe, *, stores: Stores
) -> SearchHits:
    """Search and walk as one ranking: each item's score is its worth."""
    wide = replace(
        recipe, mode="hybrid", limit=max(MAX_HITS_READ, recipe.limit), min_score=0.0, room=0
    )
    result = search(text, vector, only, wide, stores=stores)
    way = walk(
        text,
        vector,
        result.hits,
        result.pool,
        only,
        replace(recipe, depth=recipe.depth or 2),
        stores=stores,
    )
    hits = [
        with_score(
            hit, way.worth.get(hit.item.key, hit.score), {**hit.signals, **_signal(way, hit)}
        )
        for hit in result.hits
    ]
    hits += [with_score(hit, hit.relevance, hit.signals) for hit in way.hits]
    hits.sort(key=lambda hit: (-hit.score, hit.item.id, hit.item.space))
    return SearchHits(
        tuple(hit for hit in hits if hit.score >= recipe.min_score)[: recipe.limit],
        result.considered,
        result.pool,
    )


def _signal(way: WalkResult, hit: Hit) -> dict[str, float]:
    return {"walk": way.worth[hit.item.key]} if hit.item.key in way.worth else {}


@dataclass(slots=True)
class _Walker:
    """One walk: the links read so far, how near to the question their ends are, and the words their texts have."""

    text: str
    vector: Vector | None
    through: Filter
    recipe: Recipe
    stores: Stores
    sight: QueryCoverage
    links: Adjacency = field(default_factory=dict)
    near: dict[Key, float] = field(default_factory=dict)
    asked: dict[Key, None] = field(default_factory=dict)
    linked: float = 1.0  # how far items here name each other, from 0 to 1: guesses count as much
    read: dict[Key, str] = field(default_factory=dict)

    def follow(self, keys: Sequence[Key]) -> None:
        """Read the links of these items, in one call, and how near to the question the items at their other ends are."""
        asked = [key for key in keys if key not in self.asked]
        if not asked:
            return
        self.asked.update(dict.fromkeys(asked))
        recipe, until = self.recipe, self.through.created_to
        read: Adjacency = {key: {} for key in self.asked}
        for edge in self.stores.graph.edges_of(
            asked, self.through.spaces, recipe.edge_types, recipe.hub_cap, MIN_EDGE_WEIGHT
        ):
            space, weight = edge.space, edge.weight
            source, target = (
                (space, edge.source),
                (edge.target_space or space, edge.target),
            )  # the keys, without the cost of two calls
            if source == target or (until is not None and not edge.known_at(until)):
                continue
            far = read.get(source)
            if far is not None and weight > far.get(target, NO_EDGE)[0]:
                far[target] = (weight, edge)
            far = read.get(target)
            if far is not None:
                weight *= REVERSE_FACTORS.get(edge.type, 1.0)
                if weight > far.get(source, NO_EDGE)[0]:
                    far[source] = (weight, edge)
        ends = list(dict.fromkeys([there for far in read.values() for there in far]))
        shown = self.stores.items.visible(ends, self.through)
        if len(shown) < len(ends):
            seen = frozenset(shown)
            read = {
                here: {there: one for there, one in far.items() if there in seen}
                for here, far in read.items()
            }
        for here, far in read.items():
            if far:
                self.links.setdefault(here, {}).update(far)
        self._measure(shown)

    def _measure(self, keys: Sequence[Key]) -> None:
        """How near the items are: all of them without a vector of the question, and hardly any without one of its own."""
        if new := [key for key in keys if key not in self.near]:
            scored = (
                dict.fromkeys(new, 1.0)
                if self.vector is None
                else self.stores.vectors.score_vectors(self.vector, new)
            )
            self.near.update(dict.fromkeys(new, MIN_PROXIMITY))
            self.near.update({key: one for key, one in scored.items() if one > MIN_PROXIMITY})

    def texts(self) -> dict[Key, str]:
        """The texts of the best hits, as names are looked for in them."""
        if not self.read:
            self.read = {key: searchable_names(item) for key, item in self.sight.items.items()}
        return self.read

    def linked_from(self, starts: Mapping[Key, float]) -> float:
        return name_link_density(
            [(share, self._weighs(key)[0] / FULL_EDGE_WEIGHT) for key, share in starts.items()]
        )

    def bridge(
        self, starts: Mapping[Key, float], found: Sequence[Hit], pool: Mapping[Key, float]
    ) -> None:
        """Link the best starts to those hits that hold what the start names and the question does not: often the next piece."""
        named = {
            here: names
            for here in list(starts)[:BRIDGED_SEEDS]
            if (names := names_beyond_query(self.sight.items[here].text, self.text))
        }
        pool = {**pool, **{hit.item.key: hit.score for hit in found}} if named else {}
        ends: list[Key] = []
        for here, names in named.items():
            holding = score_shared_names(
                here, names, self.text, list(pool), self.texts(), self.stores.words, self.through
            )
            scores = {key: pool[key] * one for key, one in holding.items() if pool[key] > 0}
            chosen = top_k(scores, scores, BRIDGES_PER_SEED)
            for key in chosen:
                weight = self.recipe.walk.bridge * scores[key] / scores[chosen[0]]
                if weight > self.links.setdefault(here, {}).get(key, NO_EDGE)[0]:
                    edge = _edge(
                        here[1],
                        key[1],
                        BRIDGE,
                        round(weight, 6),
                        here[0],
                        None,
                        {},
                        "" if key[0] == here[0] else key[0],
                        "",
                    )
                    self.links[here][key] = (weight, edge)
            ends += chosen
        self._measure(list(dict.fromkeys(ends)))

    def spread(self, starts: Mapping[Key, float]) -> tuple[dict[Key, float], dict[Key, Flow]]:
        """The worth of every item reached, and the link that brought it most when it was reached first."""
        worth: dict[Key, float] = dict(starts)
        ways: dict[Key, Flow] = {}
        known = set(starts)
        onward = self.recipe.walk.onward
        for hop in range(self.recipe.depth):
            front = top_k(worth, worth, self.recipe.walk.starts)
            self.follow(front)
            self._read(front, worth, ITEMS_READ_PER_HOP[min(hop, len(ITEMS_READ_PER_HOP) - 1)])
            led = {here: self._led(here) for here in front}
            before, worth = worth, {key: (1 - onward) * share for key, share in starts.items()}
            for here in front:
                worth[here] = worth.get(here, 0.0) + onward * (before[here] * (1 - led[here]))
            news: dict[Key, Flow] = {}
            for here in front:
                far, given = self.links.get(here, {}), before[here] * led[here]
                pulls = self.sight.pulls(here, far, self.near)
                total = sum(pulls)
                for (there, (_, edge)), pull in zip(far.items(), pulls, strict=True):
                    flow = given * pull / total
                    worth[there] = worth.get(there, 0.0) + onward * flow
                    if there not in known and (there not in news or news[there][0] < flow):
                        news[there] = (flow, here, edge)
            ways |= news
            known.update(news)
        return worth, ways

    def _read(self, front: Sequence[Key], worth: Mapping[Key, float], most: int) -> None:
        """Look at the texts of the items that will get most."""
        coming: dict[Key, float] = {}
        near, seen = self.near, self.sight.items
        for here in front:
            share = worth[here]
            for there, (weight, _) in self.links.get(here, {}).items():
                if there not in seen:
                    coming[there] = coming.get(there, 0.0) + share * weight * near[there]
        self.sight.look(self.stores.items.get(top_k(coming, coming, most)))

    def _led(self, here: Key) -> float:
        """The part of an item's worth that its links lead on: few and weak ones do not make the items they lead to matter."""
        named, alike, bridged = self._weighs(here)
        return min(1.0, (named + self.linked * (alike + bridged)) / FULL_EDGE_WEIGHT)

    def _weighs(self, here: Key) -> tuple[float, float, float]:
        """What an item's links weigh: those that name something, those that guess, and bridges, which however many count as the best of them."""
        named = alike = bridged = 0.0
        for weight, edge in self.links.get(here, {}).values():
            if edge.type not in SIMILARITY_TYPES:
                named += weight
            elif edge.type != BRIDGE:
                alike += weight
            elif weight > bridged:
                bridged = weight
        return named, alike, bridged


def _result(
    worth: Mapping[Key, float],
    ways: Mapping[Key, Flow],
    found: Sequence[Hit],
    pool: Mapping[Key, float],
    only: Filter,
    recipe: Recipe,
    stores: Stores,
    way: _Walker,
) -> WalkResult:
    """Worth in the measure of the search's scores: what starts with a score and gets nothing by links keeps its distance to the best,
    and goes further behind the more it repeats of the best."""
    known_items = way.sight.items
    known = {hit.item.key: hit.score for hit in found}
    reached = [key for key in ways if key not in known]
    highest, most = max(known.values()), max(worth.values())
    scores = {**known, **{key: pool.get(key, 0.0) for key in reached}}
    power = 1 / recipe.walk.sharpness
    parts = [worth.get(key, 0.0) / most + SEARCH_TIEBREAK * score for key, score in scores.items()]
    values = round_scores([highest * part**power if part < 1.0 else highest for part in parts])
    told = dict(
        zip(
            scores,
            penalise_repetition(list(scores), values, way.sight.same, way.linked),
            strict=True,
        )
    )
    say = min(
        1.0, 2 * way.linked
    )  # where hardly anything is linked by names, search has more to say than the walk
    if say < 1.0:
        told = {key: round(say * one + (1 - say) * scores[key], 6) for key, one in told.items()}
    best = _best(reached, told, only, recipe.limit, stores)
    items = {
        **known_items,
        **{
            item.key: item
            for item in stores.items.get([key for key in best if key not in known_items])
        },
    }
    hits = []
    for key in best:
        if key in items:
            path = _path(key, ways)
            links = tuple([ways[one][2] for one in path[1:]])
            score = round(links[-1].weight / (len(links) + recipe.near), 6)
            hits.append(
                _hit(
                    items[key],
                    min(1.0, score),
                    {"graph": score, "walk": told[key]},
                    ("graph",),
                    path,
                    links[-1],
                    links,
                    "",
                )
            )
    return WalkResult(tuple(hits), told, len(reached), _farthest(reached, ways))


def _best(
    reached: Sequence[Key], told: Mapping[Key, float], only: Filter, limit: int, stores: Stores
) -> list[Key]:
    """The best of what may be shown. Nearly all may be, so the best of all are looked at first."""
    likely = top_k(reached, told, 2 * limit)
    shown = stores.items.visible(likely, only)
    return (
        shown
        if len(shown) >= limit or len(likely) == len(reached)
        else top_k(stores.items.visible(reached, only), told, limit)
    )[:limit]


def _farthest(reached: Sequence[Key], ways: Mapping[Key, Flow]) -> int:
    """How many links away the farthest item is. Many come from the same few."""
    return max(
        [len(_path(source, ways)) for source in {ways[key][1] for key in reached}], default=0
    )


def _path(key: Key, ways: Mapping[Key, Flow]) -> tuple[Key, ...]:
    path: tuple[Key, ...] = (key,)
    while path[0] in ways:
        path = (ways[path[0]][1], *path)
    return path
