"""Built-in strategies: the document, its selection, retrieval, knowledge and memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Unpack

from knowloom.capabilities.assembler.assembler import Assembler
from knowloom.capabilities.assembler.collection import MAX_SEEN
from knowloom.capabilities.assembler.executor import TIMEOUT_S
from knowloom.capabilities.assembler.model import AssemblyRequest, Piece
from knowloom.capabilities.assembler.verbatim import split_verbatim
from knowloom.errors import unknown_name
from knowloom.model import Context, Hit
from knowloom.options import ContextArguments, SearchArguments
from knowloom.retrieval.query_coverage import cover_query

NEAR = 4_000  # characters from the selection within which a piece counts as near
MAX_PROXIMITY = 0.5  # of the query that the piece at the selection counts to cover
STRATEGY_OPTIONS = ("enabled", "priority", "required", "share", "timeout_s")


class KnowledgeSource(Protocol):
    """The calls of an engine or a client that strategies need."""

    def search(
        self, text: str, *, spaces: Sequence[str], **options: Unpack[SearchArguments]
    ) -> list[Hit]: ...

    def context(
        self, text: str, *, spaces: Sequence[str], **options: Unpack[ContextArguments]
    ) -> Context: ...


@dataclass(frozen=True, slots=True)
class DocumentStrategy:
    """Paragraphs of the document: those that cover the query or are near the selection first."""

    name: str = "document"
    priority: float = 10
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None

    def get(self, request: AssemblyRequest) -> list[Piece]:
        pieces = list(split_verbatim(request.content, request.max_tokens))
        coverage = cover_query(request.text, [piece.text for piece in pieces])
        start = len(request.content) - sum(len(piece.text) for piece in pieces)
        scored = []
        for piece, covered in zip(pieces, coverage, strict=True):
            end = start + len(piece.text)
            near = _proximity(start, end, request.selection)
            score = piece.score + (1 - piece.score) * max(covered, near)
            scored.append(replace(piece, score=round(score, 6)))
            start = end
        return _best_pieces(scored)


def _proximity(start: int, end: int, selection: tuple[int, int] | None) -> float:
    """Return how near a piece is to the selection, from 0 to MAX_PROXIMITY."""
    if selection is None:
        return 0.0
    distance = max(0, start - selection[1], selection[0] - end)
    return MAX_PROXIMITY * max(0.0, 1 - distance / NEAR)


def _best_pieces(pieces: list[Piece]) -> list[Piece]:
    """Return as many pieces as are read from a strategy, in their order."""
    numbers = range(len(pieces))
    best = heapq.nsmallest(MAX_SEEN, numbers, key=lambda number: (-pieces[number].score, number))
    return [pieces[number] for number in sorted(best)]


@dataclass(frozen=True, slots=True)
class SelectionStrategy:
    """The selection in the document; required, as the user pointed at it."""

    name: str = "selection"
    priority: float = 15
    enabled: bool = True
    required: bool = True
    timeout_s: float = TIMEOUT_S
    share: float | None = None

    def get(self, request: AssemblyRequest) -> list[Piece]:
        if request.selection is None:
            return []
        start, end = request.selection
        pieces = split_verbatim(request.content[start:end], request.max_tokens)
        return [replace(piece, score=1.0) for piece in pieces]


@dataclass(frozen=True, slots=True)
class RetrievalStrategy:
    """Nodes and claims found by a search."""

    kb: KnowledgeSource
    name: str = "retrieval"
    priority: float = 20
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None
    limit: int = 20

    def get(self, request: AssemblyRequest) -> list[Hit]:
        if not request.spaces:
            return []
        return self.kb.search(
            request.text,
            spaces=request.spaces,
            kinds=("node", "claim"),
            limit=self.limit,
            tier=request.tier,
            now=request.now,
            as_of=request.as_of,
            where=request.where,
        )


@dataclass(frozen=True, slots=True)
class KnowledgeStrategy:
    """A context by the recipes of the agent; without an agent, by `recipe`."""

    kb: KnowledgeSource
    name: str = "knowledge"
    priority: float = 30
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None
    recipe: str = "knowledge"

    def get(self, request: AssemblyRequest) -> Context | None:
        if request.agent:
            return _context(self.kb, request, {"agent": request.agent})
        return _context(self.kb, request, {"recipe": self.recipe})


@dataclass(frozen=True, slots=True)
class MemoryStrategy:
    """Memories of the user and of earlier conversations."""

    kb: KnowledgeSource
    name: str = "memory"
    priority: float = 40
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None

    def get(self, request: AssemblyRequest) -> Context | None:
        return _context(self.kb, request, {"recipe": "memories"})


def _context(
    kb: KnowledgeSource, request: AssemblyRequest, source: ContextArguments
) -> Context | None:
    if not request.spaces:
        return None
    options: ContextArguments = {
        **source,
        "model": request.model,
        "max_tokens": request.max_tokens,
    }
    if request.tier is not None:
        options["tier"] = request.tier
    if request.entity is not None:
        options["entity"] = request.entity
    if request.now is not None:
        options["now"] = request.now
    if request.as_of is not None:
        options["as_of"] = request.as_of
    if request.where is not None:
        options["where"] = request.where
    return kb.context(request.text, spaces=request.spaces, **options)


BuiltinStrategy = (
    DocumentStrategy | SelectionStrategy | RetrievalStrategy | KnowledgeStrategy | MemoryStrategy
)

STRATEGIES: dict[str, Callable[[KnowledgeSource], BuiltinStrategy]] = {
    "document": lambda _: DocumentStrategy(),
    "selection": lambda _: SelectionStrategy(),
    "retrieval": RetrievalStrategy,
    "knowledge": KnowledgeStrategy,
    "memory": MemoryStrategy,
}


def build_assembler(
    kb: KnowledgeSource, changes: Mapping[str, Mapping[str, Any]], only: Collection[str] = ()
) -> Assembler:
    """Return an assembler with the built-in strategies, or those in `only`, and `changes` of their
    options by name."""
    for name in (*changes, *only):
        if name not in STRATEGIES:
            raise unknown_name("strategy", name, STRATEGIES)
    selected = [name for name in STRATEGIES if not only or name in only]
    return Assembler(
        [_change_options(STRATEGIES[name](kb), changes.get(name, {})) for name in selected]
    )


def validate_agent(agents: Collection[str], name: str | None) -> None:
    """Raise Invalid for an unknown agent, which would only show up as a failed strategy."""
    if name is not None and name not in agents:
        raise unknown_name("agent", name, agents)


def _change_options(strategy: BuiltinStrategy, options: Mapping[str, Any]) -> BuiltinStrategy:
    for name in options:
        if name not in STRATEGY_OPTIONS:
            raise unknown_name(f"option of strategy {strategy.name!r}", name, STRATEGY_OPTIONS)
    return replace(strategy, **options)
