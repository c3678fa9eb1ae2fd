"""Built-in strategies: the document, its selection, retrieval, knowledge and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Unpack

from knowloom.capabilities.assembler.assembler import Assembler
from knowloom.capabilities.assembler.executor import TIMEOUT_S
from knowloom.capabilities.assembler.model import AssemblyRequest, Piece
from knowloom.capabilities.assembler.verbatim import split_verbatim
from knowloom.errors import unknown_name
from knowloom.model import Context, Hit
from knowloom.options import ContextArguments, SearchArguments
from knowloom.text.words import extract_terms

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
    """Paragraphs of the document; those with words of the query score higher."""

    name: str = "document"
    priority: float = 10
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None

    def get(self, request: AssemblyRequest) -> list[Piece]:
        terms = set(extract_terms(request.text))
        return [
            replace(piece, score=_score_piece(terms, piece))
            for piece in split_verbatim(request.content)
        ]


def _score_piece(terms: set[str], piece: Piece) -> float:
    """Return a score from the position of a piece and the share of query terms it has."""
    shared = len(terms & set(extract_terms(piece.text))) / len(terms) if terms else 0.0
    return round(piece.score + (1 - piece.score) * shared, 6)


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
        pieces = split_verbatim(request.content[start:end])
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
