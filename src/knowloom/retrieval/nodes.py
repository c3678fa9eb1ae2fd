"""Nodes of the walk: short items, and the passages of long ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from knowloom.construction import fast_constructor, round_scores
from knowloom.model import Filter, Hit, Item, Key, Passage, ScoredPassage
from knowloom.ports import Stores, Vector
from knowloom.text.passages import split_passages

MAX_HIT_PASSAGES = 12  # scored passages of one hit
MAX_WHOLE_NODE = 3  # passages of an item that is one node: they share their subject

NodeKey = Key | tuple[str, str, int]
"""The key of a short item, or of a passage: (space, id, number)."""
PassageScores = Mapping[Key, Sequence[float]]  # of items with several passages, by number


@dataclass(frozen=True, slots=True)
class Node:
    """A short item or a passage, with its score.

    The item of a passage has the passage as its text, and the last heading above it as its title;
    `whole` is the item itself.
    """

    key: NodeKey
    item: Item
    score: float = 0.0
    whole: Item | None = None


_new_node = fast_constructor(Node)


def key_of(node: NodeKey) -> Key:
    """Return the key of the item that a node is, or is a part of."""
    return (node[0], node[1])


def tie_break(node: NodeKey) -> tuple[str, str, tuple[object, ...]]:
    """Return the order of nodes with equal scores."""
    return (node[1], node[0], node[2:])


def passage_item(item: Item, passage: Passage) -> Item:
    """Return a passage as an item."""
    title = passage.headings[-1] if passage.headings else item.title
    return replace(item, title=title, text=item.text[passage.start : passage.end], summary="")


def hit_nodes(hits: Iterable[Hit]) -> Iterator[Node]:
    """Yield the nodes of hits: the item, or the scored passages of a long one."""
    for hit in hits:
        item = hit.item
        if len(hit.passages) <= MAX_WHOLE_NODE:
            yield _new_node(item.key, item, hit.score, None)
            continue
        for scored in hit.passages:
            key = (item.space, item.id, scored.passage.number)
            yield Node(key, passage_item(item, scored.passage), scored.score, item)


def read_nodes(keys: Sequence[NodeKey], stores: Stores) -> list[Node]:
    """Read the items of nodes in one call; nodes that no longer exist are left out."""
    items = {item.key: item for item in stores.items.get(list(dict.fromkeys(map(key_of, keys))))}
    nodes = []
    for key in keys:
        if (item := items.get(key_of(key))) is None:
            continue
        if len(key) == 2:
            nodes.append(_new_node(key, item, 0.0, None))
        elif (passage := find_passage(item, key[2], stores)) is not None:
            nodes.append(Node(key, passage_item(item, passage), whole=item))
    return nodes


def find_passage(item: Item, number: int, stores: Stores) -> Passage | None:
    """Return a passage by number; None if the item had fewer at the time of the query."""
    passages = split_passages(item.text, stores.words.passage_size())
    return passages[number] if number < len(passages) else None


def score_passages(
    text: str,
    vector: Vector | None,
    only: Filter,
    keys: Sequence[Key],
    weights: tuple[float, float],
    stores: Stores,
) -> dict[Key, list[float]]:
    """Return the fused score of each passage of the long items among these keys."""
    term_weight, vector_weight = weights
    terms: PassageScores = {}
    vectors: PassageScores = {}
    if term_weight:
        terms = stores.words.score_text_passages(text, only, keys)
    if vector is not None and vector_weight:
        vectors = stores.vectors.score_vector_passages(vector, keys)
    scores: dict[Key, list[float]] = {}
    for key in dict.fromkeys([*terms, *vectors]):
        by_terms, by_vector = terms.get(key, ()), vectors.get(key, ())
        if not by_vector:
            fused = [term_weight * score for score in by_terms]
        elif not by_terms:
            fused = [vector_weight * score for score in by_vector]
        else:
            pairs = zip(by_terms, by_vector, strict=True)
            fused = [term_weight * score + vector_weight * cosine for score, cosine in pairs]
        scores[key] = round_scores(fused)
    return scores


def scored_passages(
    item: Item, scores: Mapping[int, float], stores: Stores, linked: Iterable[int] = ()
) -> tuple[ScoredPassage, ...]:
    """Return the best passages of an item by their scores, best first."""
    best = sorted(scores, key=lambda number: (-scores[number], number))[:MAX_HIT_PASSAGES]
    passages = split_passages(item.text, stores.words.passage_size())
    marked = frozenset(linked)
    return tuple(
        ScoredPassage(passages[number], scores[number], number in marked)
        for number in best
        if number < len(passages) > 1
    )
