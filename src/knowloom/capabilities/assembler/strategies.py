"""The strategies that come with knowloom: the document at hand, its selection, retrieval, knowledge and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from knowloom.capabilities.assembler.assembler import Assembler
from knowloom.capabilities.assembler.collection import split_pieces
from knowloom.capabilities.assembler.executor import TIMEOUT_S
from knowloom.capabilities.assembler.model import AssemblyRequest, Piece
from knowloom.errors import unknown
from knowloom.model import Context, Hit
from knowloom.text.words import words


class KnowledgeSource(Protocol):
    """What the strategies need of an engine or of a client."""

    def search(
        self,
        text: str,
        *,
        spaces: Sequence[str],
        kinds: Sequence[str],
        limit: int,
        now: Any,
        as_of: Any,
        tier: Any,
    ) -> list[Hit]: ...

    def context(self, text: str, *, spaces: Sequence[str], **options: Any) -> Context: ...


@dataclass(frozen=True, slots=True)
class DocumentStrategy:
    """Paragraphs of the document: those that speak of what is asked, and those around the selection."""

    name: str = "document"
    priority: float = 10
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None

    def get(self, request: AssemblyRequest) -> list[Piece]:
        asked = set(words(request.text))
        found = list(split_pieces(request.content))
        return [Piece(one.text, _worth(asked, one)) for one in found]


def _worth(asked: set[str], piece: Piece) -> float:
    """From where it stands and how many of the words asked about it has."""
    shared = len(asked & set(words(piece.text))) / len(asked) if asked else 0.0
    return round(piece.score + (1 - piece.score) * shared, 6)


@dataclass(frozen=True, slots=True)
class SelectionStrategy:
    """What is selected in the document. The user pointed at it: it is required."""

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
        return [Piece(one.text, 1.0) for one in split_pieces(request.content[start:end])]


@dataclass(frozen=True, slots=True)
class RetrievalStrategy:
    """The nodes and claims that a search finds."""

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
        when = {"now": request.now, "as_of": request.as_of}
        return self.kb.search(
            request.text,
            spaces=request.spaces,
            kinds=("node", "claim"),
            limit=self.limit,
            tier=request.tier,
            **when,
        )


@dataclass(frozen=True, slots=True)
class KnowledgeStrategy:
    """What the agent's recipes gather; without an agent those named here: entry points, what links lead to, and entities."""

    kb: KnowledgeSource
    name: str = "knowledge"
    priority: float = 30
    enabled: bool = True
    required: bool = False
    timeout_s: float = TIMEOUT_S
    share: float | None = None
    recipe: str = "knowledge"

    def get(self, request: AssemblyRequest) -> Context | None:
        return _context(
            self.kb, request, {"agent": request.agent} if request.agent else {"recipe": self.recipe}
        )


@dataclass(frozen=True, slots=True)
class MemoryStrategy:
    """What is remembered of the user and of earlier conversations."""

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
    kb: KnowledgeSource, request: AssemblyRequest, options: dict[str, Any]
) -> Context | None:
    if not request.spaces:
        return None
    given = {
        "model": request.model,
        "tier": request.tier,
        "entity": request.entity,
        "now": request.now,
        "as_of": request.as_of,
    } | options
    known = {name: value for name, value in given.items() if value is not None}
    return kb.context(request.text, spaces=request.spaces, max_tokens=request.max_tokens, **known)


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
STRATEGY_OPTIONS = ("enabled", "priority", "required", "share", "timeout_s")


def build_assembler(
    kb: KnowledgeSource, changed: Mapping[str, Mapping[str, Any]], only: Collection[str] = ()
) -> Assembler:
    """The strategies that come with knowloom, those in `only` or all, with what is `changed` of each."""
    for name in (*changed, *only):
        if name not in STRATEGIES:
            raise unknown("strategy", name, STRATEGIES)
    chosen = [name for name in STRATEGIES if not only or name in only]
    return Assembler([_changed(STRATEGIES[name](kb), changed.get(name, {})) for name in chosen])


def validate_agent(agents: Collection[str], name: str | None) -> None:
    """Refused before anything runs: a strategy that cannot ask as it would only be left out."""
    if name is not None and name not in agents:
        raise unknown("agent", name, agents)


def _changed(one: BuiltinStrategy, options: Mapping[str, Any]) -> BuiltinStrategy:
    known = [field.name for field in fields(one) if field.name in STRATEGY_OPTIONS]
    for name in options:
        if name not in known:
            raise unknown(f"option of the strategy {one.name!r}", name, known)
    return replace(one, **options)
