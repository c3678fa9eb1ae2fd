"""The five strategies by name, as a server or a shell is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from weft.capabilities.assembler.assembler import Assembler
from weft.capabilities.assembler.strategies import (
    DocumentStrategy,
    Knowledge,
    KnowledgeStrategy,
    MemoryStrategy,
    RetrievalStrategy,
    SelectionStrategy,
)
from weft.errors import unknown

Usual = (
    DocumentStrategy | SelectionStrategy | RetrievalStrategy | KnowledgeStrategy | MemoryStrategy
)

STRATEGIES: dict[str, Callable[[Knowledge], Usual]] = {
    "document": lambda _: DocumentStrategy(),
    "selection": lambda _: SelectionStrategy(),
    "retrieval": RetrievalStrategy,
    "knowledge": KnowledgeStrategy,
    "memory": MemoryStrategy,
}
OPTIONS = ("enabled", "priority", "required", "share", "timeout_s")


def usual(
    kb: Knowledge, changed: Mapping[str, Mapping[str, Any]], only: Collection[str] = ()
) -> Assembler:
    """The strategies that come with weft, those in `only` or all, with what is `changed` of each."""
    for name in (*changed, *only):
        if name not in STRATEGIES:
            raise unknown("strategy", name, STRATEGIES)
    chosen = [name for name in STRATEGIES if not only or name in only]
    return Assembler([_changed(STRATEGIES[name](kb), changed.get(name, {})) for name in chosen])


def known_agent(agents: Collection[str], name: str | None) -> None:
    """Refused before anything runs: a strategy that cannot ask as it would only be left out."""
    if name is not None and name not in agents:
        raise unknown("agent", name, agents)


def _changed(one: Usual, options: Mapping[str, Any]) -> Usual:
    known = [field.name for field in fields(one) if field.name in OPTIONS]
    for name in options:
        if name not in known:
            raise unknown(f"option of the strategy {one.name!r}", name, known)
    return replace(one, **options)
