"""Bridges: temporary edges from the best seeds to hits that contain the names they mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowloom.construction import fast_constructor
from knowloom.model import Edge, Filter, Item
from knowloom.ports import TextIndex
from knowloom.retrieval.nodes import Node, NodeKey, key_of
from knowloom.retrieval.ranking import top_k
from knowloom.retrieval.walk_constants import (
    BRIDGE,
    BRIDGED_SEEDS,
    BRIDGES_PER_SEED,
    MAX_SCANNED,
    MAX_SCANNED_SYNONYMS,
)
from knowloom.retrieval.walk_graph import WalkGraph
from knowloom.retrieval.walk_passages import NO_EDGE
from knowloom.text.mentions import capitalised_spans
from knowloom.text.words import extract_terms, idf

_DROPPED = '."(['  # characters before a word or inside a name; names are compared without them
_SEPARATING = "-\n"
_new_edge = fast_constructor(Edge)


def add_bridges(
    graph: WalkGraph,
    seeds: Mapping[NodeKey, float],
    nodes: Sequence[Node],
    pool: Mapping[NodeKey, float],
) -> None:
    """Connect the best seeds to hits that contain names which the seed has and the query lacks.

    Such a hit often holds the next piece of the answer.
    """
    names_by_seed = {
        seed: names
        for seed in list(seeds)[:BRIDGED_SEEDS]
        if (names := names_beyond_query(graph.coverage.items[seed].text, graph.text))
    }
    if not names_by_seed:
        return
    pool = {**pool, **{node.key: node.score for node in nodes}}
    texts = texts_of(graph)
    targets: list[NodeKey] = []
    for seed, names in names_by_seed.items():
        shared = score_shared_names(
            seed, names, graph.text, list(pool), texts, graph.stores.words, graph.only
        )
        scores = {key: pool[key] * score for key, score in shared.items() if pool[key] > 0}
        best = top_k(scores, scores, BRIDGES_PER_SEED)
        for key in best:
            weight = graph.recipe.walk.bridge * scores[key] / scores[best[0]]
            if weight > graph.adjacency.setdefault(seed, {}).get(key, NO_EDGE)[0]:
                target_space = "" if key[0] == seed[0] else key[0]
                edge = _new_edge(
                    seed[1], key[1], BRIDGE, round(weight, 6), seed[0], None, {}, target_space, ""
                )
                graph.adjacency[seed][key] = (weight, edge)
        targets += best
    graph.measure_proximity(list(dict.fromkeys(targets)))


def texts_of(graph: WalkGraph) -> dict[NodeKey, str]:
    """Return the texts of the visited items, prepared for `score_full_names`."""
    if not graph.name_texts:
        graph.name_texts = {key: prepare_text(item) for key, item in graph.coverage.items.items()}
    return graph.name_texts


def names_beyond_query(text: str, query: str) -> list[str]:
    """Return the names in a text that are not in the query."""
    query_terms = set(extract_terms(query))
    return [
        name
        for name in capitalised_spans(text[:MAX_SCANNED])
        if not all([query_terms.issuperset(extract_terms(word)) for word in name.split(" ")])
    ]


def score_shared_names(
    seed: NodeKey,
    names: Sequence[str],
    query: str,
    pool: Sequence[NodeKey],
    texts: Mapping[NodeKey, str],
    index: TextIndex,
    only: Filter,
) -> dict[NodeKey, float]:
    """Return how much of a seed's names each other item of the pool contains, from 0 to 2.

    The words of the names that the query lacks count up to 1, as scored by the index; whole names
    count up to 1, in those items whose prepared texts are known.
    """
    query_terms = set(extract_terms(query))
    words = dict.fromkeys(
        [
            word
            for name in names
            for word in name.split(" ")
            if not query_terms.issuperset(extract_terms(word))
        ]
    )
    others = [key for key in pool if key != seed]
    scores: Mapping[NodeKey, float] = {}
    if words and others:
        scores = _score_nodes(" ".join(words), others, index, only)
    highest = max(scores.values(), default=0.0)
    full = score_full_names(names, {key: text for key, text in texts.items() if key != seed})
    return {key: score / highest + full.get(key, 0.0) for key, score in scores.items() if score > 0}


def _score_nodes(
    words: str, nodes: Sequence[NodeKey], index: TextIndex, only: Filter
) -> dict[NodeKey, float]:
    """Return the BM25 scores of those nodes that have one of the words."""
    items = [key_of(node) for node in nodes if len(node) == 2]
    others = index.search_text(words, only, 0, also=items).others
    scores: dict[NodeKey, float] = {key: score for key, score in others.items()}
    if long := list(dict.fromkeys(key_of(node) for node in nodes if len(node) == 3)):
        by_item = index.score_text_passages(words, only, long)
        for node in nodes:
            of_item = by_item.get(key_of(node), ())
            if len(node) == 3 and node[2] < len(of_item) and of_item[node[2]]:
                scores[node] = of_item[node[2]]
    return scores


def score_full_names(names: Sequence[str], texts: Mapping[NodeKey, str]) -> dict[NodeKey, float]:
    """Return how many of the names each prepared text contains, from 0 to 1.

    A name weighs its inverse document frequency among the texts. Half of the score is the sum of
    these weights, half the largest one, each relative to the best text: one rare shared name counts
    as much as many common ones.
    """
    sums: dict[NodeKey, float] = {}
    rarest: dict[NodeKey, float] = {}
    for pattern in [f" {name}" for name in names]:
        matches = [key for key, text in texts.items() if pattern in text]
        weight = idf(len(texts), len(matches))
        for key in matches:
            sums[key] = sums.get(key, 0.0) + weight
            rarest[key] = max(rarest.get(key, 0.0), weight)
    best_sum, best_rarest = max(sums.values(), default=0.0), max(rarest.values(), default=0.0)
    return {key: (total / best_sum + rarest[key] / best_rarest) / 2 for key, total in sums.items()}


def prepare_text(item: Item) -> str:
    """Return the text in which names are searched: lower case, a blank before each word."""
    text = f" {item.title} {item.text[:MAX_SCANNED_SYNONYMS]}".lower()
    for char in _DROPPED:  # a regular expression takes five times as long
        text = text.replace(char, "")
    for char in _SEPARATING:
        text = text.replace(char, " ")
    return text
