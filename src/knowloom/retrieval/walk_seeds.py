"""Seeds of the walk: the best hits, above all those that the query mentions by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from knowloom.model import Edge, Hit, Key
from knowloom.recipes import Walk
from knowloom.retrieval.ranking import with_score
from knowloom.retrieval.walk_constants import QUERY_NAME_BOOST
from knowloom.text.item_names import collect_titles
from knowloom.text.mentions import find_query_names, fold_text, may_mention
from knowloom.text.normalisation import strip_accents

# By item: its names that occur in the query, and how specific each is, from 0 to 1.
QueryNames = dict[Key, dict[str, float]]


def names_in_query(text: str, hits: Sequence[Hit]) -> QueryNames:
    """Return the hits whose titles occur in the query.

    A name is less specific the more hits share it. Accents are ignored: few are typed in queries.
    """
    query = strip_accents(text)
    folded = fold_text(query)
    candidates = [
        name
        for hit in hits
        for name in map(strip_accents, collect_titles(hit.item))
        if name.partition(" ")[0].casefold() in folded
    ]
    # Most queries mention no hit, and the exact search takes five times as long as this check.
    if not any([may_mention(folded, (name,)) for name in candidates]):
        return {}
    titles = {hit.item.key: list(map(strip_accents, collect_titles(hit.item))) for hit in hits}
    counts = Counter([name for names in titles.values() for name in names])
    mentioned = set(find_query_names(query, counts))
    specificity = {
        key: {name: counts[name] ** -0.5 for name in names if name in mentioned}
        for key, names in titles.items()
    }
    return {key: names for key, names in specificity.items() if names}


def weigh_seeds(hits: Sequence[Hit], names: QueryNames, walk: Walk) -> dict[Key, float]:
    """Return the restart distribution over the best hits, largest share first."""
    boosts = {key: max(of_item.values(), default=0.0) for key, of_item in names.items()}
    scores = {
        (key := hit.item.key): hit.score + walk.named * boosts.get(key, 0.0)
        for hit in hits
        if hit.score > 0
    }
    seeds = sorted(scores, key=lambda key: (-scores[key], key[1], key[0]))[: walk.starts]
    # Relative to the best score: powers of small scores would underflow.
    weights = {key: (scores[key] / scores[seeds[0]]) ** walk.sharpness for key in seeds}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


def boost_by_names(
    hits: Sequence[Hit], name_scores: Mapping[Key, float], density: float
) -> list[Hit]:
    """Raise the scores of hits whose texts contain names of the query.

    `name_scores` and the density of name edges are between 0 and 1.
    """
    return [
        with_score(
            hit,
            hit.score + QUERY_NAME_BOOST * density * name_scores.get(hit.item.key, 0.0),
            hit.signals,
        )
        for hit in hits
    ]


def discount_common_names(
    names: QueryNames, adjacency: Mapping[Key, Mapping[Key, tuple[float, Edge]]]
) -> QueryNames:
    """Cap the specificity of each name at the weight of the edges that it created.

    A name that occurs in many texts ("Germany") creates light edges and makes a poor seed.
    """
    return {
        key: {
            name: min(specificity, _heaviest_mention(key, name, adjacency.get(key, {})))
            for name, specificity in of_item.items()
        }
        for key, of_item in names.items()
    }


def _heaviest_mention(key: Key, name: str, neighbours: Mapping[Key, tuple[float, Edge]]) -> float:
    """Return the largest weight of the edges that mention an item by this name; 1 without any."""
    mentions = [
        edge
        for _, edge in neighbours.values()
        if edge.type == "mentions" and edge.target_key == key
    ]
    weights = [
        edge.weight
        for edge in mentions
        if strip_accents(str(edge.properties.get("name", ""))) == name
    ]
    return max(weights, default=1.0)
