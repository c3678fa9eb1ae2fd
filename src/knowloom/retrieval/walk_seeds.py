"""Seeds of the walk: the best hits, above all those that the query mentions by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.model import AUTOMATIC, Edge
from knowloom.recipes import Walk
from knowloom.retrieval.nodes import Node, NodeKey, key_of, tie_break
from knowloom.retrieval.walk_constants import (
    COMMON_SPECIFICITY,
    MIN_COMMON_TEXTS,
    QUERY_NAME_BOOST,
)
from knowloom.text.item_names import collect_titles
from knowloom.text.mentions import find_query_names, fold_text, may_mention
from knowloom.text.normalisation import strip_accents

# By node: its names that occur in the query, and how specific each is, from 0 to 1.
QueryNames = dict[NodeKey, dict[str, float]]


def names_in_query(text: str, nodes: Sequence[Node]) -> QueryNames:
    """Return the nodes whose titles occur in the query.

    A name is less specific the more nodes share it. Accents are ignored: few are typed in queries.
    """
    query = strip_accents(text)
    folded = fold_text(query)
    candidates = [
        name
        for node in nodes
        for name in map(strip_accents, collect_titles(node.item))
        if name.partition(" ")[0].casefold() in folded
    ]
    # Most queries mention no hit, and the exact search takes five times as long as this check.
    if not any([may_mention(folded, (name,)) for name in candidates]):
        return {}
    titles = {node.key: list(map(strip_accents, collect_titles(node.item))) for node in nodes}
    counts = Counter([name for names in titles.values() for name in names])
    mentioned = set(find_query_names(query, counts))
    specificity = {
        key: {name: counts[name] ** -0.5 for name in names if name in mentioned}
        for key, names in titles.items()
    }
    return {key: names for key, names in specificity.items() if names}


def weigh_seeds(nodes: Sequence[Node], names: QueryNames, walk: Walk) -> dict[NodeKey, float]:
    """Return the restart distribution over the best nodes, largest share first."""
    boosts = {key: max(of_item.values(), default=0.0) for key, of_item in names.items()}
    scores = {
        node.key: node.score + walk.named * boosts.get(node.key, 0.0)
        for node in nodes
        if node.score > 0
    }
    seeds = sorted(scores, key=lambda key: (-scores[key], tie_break(key)))[: walk.starts]
    # Relative to the best score: powers of small scores would underflow.
    weights = {key: (scores[key] / scores[seeds[0]]) ** walk.sharpness for key in seeds}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


def boost_by_names(
    nodes: Sequence[Node], name_scores: Mapping[NodeKey, float], density: float
) -> list[Node]:
    """Raise the scores of nodes whose texts contain names of the query.

    `name_scores` and the density of name edges are between 0 and 1.
    """
    return [
        replace(
            node, score=node.score + QUERY_NAME_BOOST * density * name_scores.get(node.key, 0.0)
        )
        for node in nodes
    ]


def discount_common_names(
    names: QueryNames,
    adjacency: Mapping[NodeKey, Mapping[NodeKey, tuple[float, Edge]]],
    texts: Mapping[NodeKey, str],
) -> QueryNames:
    """Cap the specificity of each name at the weight of the edges that it created.

    A name that occurs in many texts ("Germany") creates light edges and makes a poor seed. The most
    common names create none: other visited texts, which are `texts` in lower case, contain them.
    """
    is_linked = any(
        edge.origin == AUTOMATIC for ends in adjacency.values() for _, edge in ends.values()
    )
    capped: QueryNames = {}
    for key, of_item in names.items():
        capped[key] = {}
        for name, specificity in of_item.items():
            weight = _heaviest_mention(key, name, adjacency.get(key, {}))
            if weight is None:
                is_common = is_linked and _count_texts(name, key, texts) >= MIN_COMMON_TEXTS
                weight = COMMON_SPECIFICITY if is_common else 1.0
            capped[key][name] = min(specificity, weight)
    return capped


def _count_texts(name: str, key: NodeKey, texts: Mapping[NodeKey, str]) -> int:
    """Return the number of texts of other items that contain a name."""
    pattern = f" {name}"
    return sum([pattern in text for other, text in texts.items() if key_of(other) != key_of(key)])


def _heaviest_mention(
    key: NodeKey, name: str, neighbours: Mapping[NodeKey, tuple[float, Edge]]
) -> float | None:
    """Return the largest weight of the edges that mention an item by this name."""
    mentions = [
        edge
        for _, edge in neighbours.values()
        if edge.type == "mentions" and edge.target_key == key_of(key)
    ]
    weights = [
        edge.weight
        for edge in mentions
        if strip_accents(str(edge.properties.get("name", ""))) == name
    ]
    return max(weights, default=None)
