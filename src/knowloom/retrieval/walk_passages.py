"""Edges between passages: a walk leaves a long item by the passage that holds the name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from knowloom.construction import fast_constructor
from knowloom.model import Edge, Item, Key
from knowloom.retrieval.nodes import NodeKey, key_of
from knowloom.retrieval.walk_constants import INNER_WEIGHT, REVERSE_FACTORS
from knowloom.text.passage_links import inner_links
from knowloom.text.passages import split_passages

PASSAGES = "passages"  # the property of an edge with its pairs of passages
INNER_TYPE = "mentions"
NO_EDGE = (0.0,)
MAX_DISTANCE = 1  # passages of one section that share their edges
MAX_PAIRS = 64  # pairs of passages of one edge that are read
ANY_PAIR = ((None, None),)  # an edge between items as a whole

# By node and by neighbour: the weight in this direction, and the edge.
Adjacency = dict[NodeKey, dict[NodeKey, tuple[float, Edge]]]
Step = tuple[NodeKey, NodeKey, float, Edge]
LongEnd = tuple[int, int]  # the best passage of a long item, and the number of its passages

_new_edge = fast_constructor(Edge)


def add_passage_edges(
    adjacency: Adjacency,
    edges: Sequence[Edge],
    long_ends: Mapping[Key, LongEnd],
    long_items: Mapping[Key, Item],
    passage_size: int,
) -> None:
    """Add edges to the adjacency of nodes, and those between passages of the long items.

    An edge ends at the passage that it names, or else at the best passage of the item.
    """
    nodes_of: dict[Key, list[NodeKey]] = {}
    for node in adjacency:
        nodes_of.setdefault(key_of(node), []).append(node)
    sections = {
        key: [passage.headings for passage in split_passages(item.text, passage_size)]
        for key, item in long_items.items()
    }
    steps = [step for edge in edges for step in _steps(edge, nodes_of, long_ends, sections)]
    for key, item in long_items.items():
        steps += _inner_steps(key, item, nodes_of.get(key, ()), passage_size)
    for start, end, weight, edge in steps:
        if start != end and weight > adjacency[start].get(end, NO_EDGE)[0]:
            adjacency[start][end] = (weight, edge)


def _steps(
    edge: Edge,
    nodes_of: Mapping[Key, Sequence[NodeKey]],
    long_ends: Mapping[Key, LongEnd],
    sections: Mapping[Key, Sequence[tuple[str, ...]]],
) -> Iterator[Step]:
    """Yield the steps along an edge from any of the nodes, in both directions."""
    source, target = edge.source_key, edge.target_key
    back = edge.weight * REVERSE_FACTORS.get(edge.type, 1.0)
    if source == target:
        return
    for pair in passage_pairs(edge):
        source_passage = _existing(source, pair[0], long_ends)
        target_passage = _existing(target, pair[1], long_ends)
        for node in nodes_of.get(source, ()):
            if _is_at(node, source_passage, sections.get(source, ())):
                yield node, _resolve(target, target_passage, long_ends), edge.weight, edge
        for node in nodes_of.get(target, ()):
            if _is_at(node, target_passage, sections.get(target, ())):
                yield node, _resolve(source, source_passage, long_ends), back, edge


def passage_pairs(edge: Edge) -> Sequence[tuple[int | None, int | None]]:
    """Return the passages that an edge connects; None stands for the item as a whole."""
    pairs = edge.properties.get(PASSAGES) if edge.properties else None
    if not isinstance(pairs, list | tuple):
        return ANY_PAIR
    # Anybody may store edges with a property of this name: pairs that name no passages are ignored.
    return [(pair[0], pair[1]) for pair in pairs[:MAX_PAIRS] if _is_pair(pair)] or ANY_PAIR


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all([number is None or (type(number) is int and number >= 0) for number in pair])
    )


def _is_at(node: NodeKey, passage: int | None, headings: Sequence[tuple[str, ...]]) -> bool:
    """Return True if a node has a name of this passage: it is near to it in the same section."""
    if passage is None or len(node) == 2 or node[2] == passage:
        return True
    is_near = abs(node[2] - passage) <= MAX_DISTANCE
    return (
        is_near and max(node[2], passage) < len(headings) and headings[node[2]] == headings[passage]
    )


def _existing(key: Key, passage: int | None, long_ends: Mapping[Key, LongEnd]) -> int | None:
    """Return a passage, or None if the item does not have it, or had fewer at the query's time."""
    is_missing = passage is not None and key in long_ends and passage >= long_ends[key][1]
    return None if is_missing else passage


def _resolve(key: Key, passage: int | None, long_ends: Mapping[Key, LongEnd]) -> NodeKey:
    """Return the node of an end: the item if it is short, else the named or the best passage."""
    if key not in long_ends:
        return key
    return (*key, long_ends[key][0] if passage is None else passage)


def _inner_steps(
    key: Key, item: Item, nodes: Sequence[NodeKey], passage_size: int
) -> Iterator[Step]:
    """Yield the steps between passages of an item, one of which names the other's heading."""
    numbers = {node[2]: node for node in nodes if len(node) == 3}
    if not numbers:
        return
    back = INNER_WEIGHT * REVERSE_FACTORS[INNER_TYPE]
    for source, target, name in inner_links(item, passage_size):
        if source in numbers or target in numbers:
            fields = {"name": name, PASSAGES: [[source, target]]}
            edge = _new_edge(key[1], key[1], INNER_TYPE, INNER_WEIGHT, key[0], None, fields, "", "")
            if source in numbers:
                yield numbers[source], (*key, target), INNER_WEIGHT, edge
            if target in numbers:
                yield numbers[target], (*key, source), back, edge
