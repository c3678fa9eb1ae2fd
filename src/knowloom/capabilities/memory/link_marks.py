"""Marks of links in a rendered context: `[1], supersedes [2]` behind the memories."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from knowloom.capabilities.memory.model import SearchResult
from knowloom.model import Edge, Key
from knowloom.ports import TokenCounter
from knowloom.text.normalisation import collapse_whitespace

Marks = Mapping[Key, Sequence[str]]


def add_links(
    text_and_tokens: tuple[str, int],
    results: Sequence[SearchResult],
    render: Callable[[Marks], str],
    budget: int | None,
    counter: TokenCounter,
) -> tuple[str, int]:
    """Return the text with the links between its memories, as many as the budget has room for.

    `results` are the memories of the text in its order. Links never displace a memory.
    """
    edges = _edges_between(results)
    if not edges:
        return text_and_tokens

    def tokens_with(number: int) -> int:
        return counter.count(render(_mark(results, edges[:number])))

    fitting = len(edges)
    if budget is not None and tokens_with(fitting) > budget:
        fitting = bisect_right(range(1, len(edges)), budget, key=tokens_with)
    if not fitting:
        return text_and_tokens
    text = render(_mark(results, edges[:fitting]))
    tokens = counter.count(text)
    return (text, tokens) if budget is None or tokens <= budget else text_and_tokens


def _edges_between(results: Sequence[SearchResult]) -> list[Edge]:
    """Return the edges between the memories, each once, heaviest first."""
    places = {key_of(result): place for place, result in enumerate(results)}
    edges = {
        edge.key: edge
        for result in results
        for edge in result.links
        if edge.source_key in places and edge.target_key in places
    }
    return sorted(
        edges.values(),
        key=lambda edge: (
            -edge.weight,
            places[edge.source_key],
            places[edge.target_key],
            edge.type,
        ),
    )


def _mark(results: Sequence[SearchResult], edges: Sequence[Edge]) -> dict[Key, list[str]]:
    """Number the linked memories in the order of the text, and name the links of each source."""
    linked = {key for edge in edges for key in (edge.source_key, edge.target_key)}
    keys = [key for key in map(key_of, results) if key in linked]
    numbers = {key: number for number, key in enumerate(keys, 1)}
    marks = {key: [f"[{number}]"] for key, number in numbers.items()}
    for edge in edges:
        mark = f"{collapse_whitespace(edge.type)} [{numbers[edge.target_key]}]"
        marks[edge.source_key].append(mark)
    return marks


def key_of(result: SearchResult) -> Key:
    return (result.memory.workspace, result.memory.id)
