"""weft keeps what an organisation knows and weaves the best of it into each prompt, within the token budget.

import weft
kb = weft.open("knowledge.db")
kb.load("examples/harbor/support.jsonl", space="support")
print(kb.context("How do I process a refund?", spaces=["support"], max_tokens=800).text)
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from weft.agents import Agent, AgentOptions
    from weft.axioms.space import Checked
    from weft.axioms.values import Axiom, Violation
    from weft.capabilities.assembler.assembler import Assembler
    from weft.capabilities.assembler.strategies import (
        DocumentStrategy,
        KnowledgeStrategy,
        MemoryStrategy,
        RetrievalStrategy,
        SelectionStrategy,
    )
    from weft.capabilities.assembler.values import Assembly, AssemblyRequest, Piece, StrategyReport
    from weft.capabilities.axioms import load_axioms
    from weft.capabilities.feed import merge_feed
    from weft.capabilities.graph.documents import Document, LinkedEntity
    from weft.capabilities.graph.options import GraphOptions
    from weft.capabilities.graph.provider import GraphContext
    from weft.capabilities.graph.rankers import SignalRanker, TermRanker
    from weft.capabilities.graph.values import GraphAnswer
    from weft.capabilities.grounding.check import check_answer
    from weft.capabilities.grounding.values import AnswerCheck, SentenceCheck
    from weft.capabilities.memory.analytics import Analytics
    from weft.capabilities.memory.memory import Memory
    from weft.capabilities.memory.ranking import RankingOptions
    from weft.capabilities.memory.results import Result, attempt
    from weft.capabilities.memory.templates import MemoryTemplate
    from weft.capabilities.memory.values import (
        ContextPreview,
        ContextResult,
        RelatedMemory,
        Remembered,
        SearchResult,
    )
    from weft.capabilities.memory.writing import Fact, Turn
    from weft.capabilities.provider.provide import Provider
    from weft.capabilities.provider.values import Entry, Provision, Relation, Retrieval
    from weft.engine import Engine, Statistics
    from weft.errors import (
        Conflict,
        Corrupt,
        EmbeddingError,
        Forbidden,
        Invalid,
        MissingExtra,
        NotFound,
        SearchError,
        TemplateNotFound,
        Unavailable,
        WeftError,
    )
    from weft.evaluation.compare import Comparison, compare
    from weft.evaluation.evaluate import evaluate
    from weft.evaluation.questions import Question
    from weft.evaluation.results import Evaluation
    from weft.evaluation.tune import Tuning, tune
    from weft.ingest.notes import Ingested
    from weft.ingest.prepare import Report
    from weft.ingest.read import Skipped
    from weft.life import Rollback, State, Step
    from weft.model import Context, Edge, Fragment, Hit, Item, Kind, LeftOut, Problem
    from weft.ports import LLM, Caching, Embedder, NameFinder
    from weft.recipes import Recipe, Weights
    from weft.retrieval import RetrievalSettings
    from weft.surfaces.client import Client
    from weft.surfaces.haystack import HaystackRetriever
    from weft.surfaces.llamaindex import LlamaIndexRetriever
    from weft.surfaces.openai_agents import openai_agents_tool
    from weft.surfaces.pydantic_ai import pydantic_ai_tool
    from weft.templates.sandbox import Limits
    from weft.templates.template import Template

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "AgentOptions",
    "Analytics",
    "AnswerCheck",
    "Assembler",
    "Assembly",
    "AssemblyRequest",
    "Axiom",
    "Caching",
    "Checked",
    "Client",
    "Comparison",
    "Conflict",
    "Context",
    "ContextPreview",
    "ContextResult",
    "Corrupt",
    "Document",
    "DocumentStrategy",
    "Edge",
    "EmbeddingError",
    "Engine",
    "Entry",
    "Evaluation",
    "Fact",
    "Forbidden",
    "Fragment",
    "GraphAnswer",
    "GraphContext",
    "GraphOptions",
    "HaystackRetriever",
    "Hit",
    "Ingested",
    "Invalid",
    "Item",
    "Kind",
    "KnowledgeStrategy",
    "LeftOut",
    "Limits",
    "LinkedEntity",
    "LlamaIndexRetriever",
    "Memory",
    "MemoryStrategy",
    "MemoryTemplate",
    "MissingExtra",
    "NotFound",
    "Piece",
    "Problem",
    "Provider",
    "Provision",
    "Question",
    "RankingOptions",
    "Recipe",
    "RelatedMemory",
    "Relation",
    "Remembered",
    "Report",
    "Result",
    "Retrieval",
    "RetrievalSettings",
    "RetrievalStrategy",
    "Rollback",
    "SearchError",
    "SearchResult",
    "SelectionStrategy",
    "SentenceCheck",
    "SignalRanker",
    "Skipped",
    "State",
    "Statistics",
    "Step",
    "StrategyReport",
    "Template",
    "TemplateNotFound",
    "TermRanker",
    "Tuning",
    "Turn",
    "Unavailable",
    "Violation",
    "WeftError",
    "Weights",
    "attempt",
    "check_answer",
    "compare",
    "evaluate",
    "load_axioms",
    "merge_feed",
    "open",
    "open_llm",
    "openai_agents_tool",
    "pydantic_ai_tool",
    "tune",
]


_HOMES = {
    "weft.capabilities.feed": ("merge_feed",),
    "weft.capabilities.provider.provide": ("Provider",),
    "weft.capabilities.provider.values": ("Entry", "Provision", "Relation", "Retrieval"),
    "weft.axioms.space": ("Checked",),
    "weft.axioms.values": ("Axiom", "Violation"),
    "weft.capabilities.axioms": ("load_axioms",),
    "weft.capabilities.graph.documents": ("Document", "LinkedEntity"),
    "weft.capabilities.graph.options": ("GraphOptions",),
    "weft.capabilities.graph.provider": ("GraphContext",),
    "weft.capabilities.graph.rankers": ("SignalRanker", "TermRanker"),
    "weft.capabilities.graph.values": ("GraphAnswer",),
    "weft.capabilities.memory.analytics": ("Analytics",),
    "weft.capabilities.memory.memory": ("Memory",),
    "weft.capabilities.memory.ranking": ("RankingOptions",),
    "weft.capabilities.memory.results": ("Result", "attempt"),
    "weft.capabilities.memory.templates": ("MemoryTemplate",),
    "weft.capabilities.memory.values": (
        "ContextPreview",
        "ContextResult",
        "RelatedMemory",
        "Remembered",
        "SearchResult",
    ),
    "weft.capabilities.memory.writing": ("Fact", "Turn"),
    "weft.agents": ("Agent", "AgentOptions"),
    "weft.capabilities.assembler.assembler": ("Assembler",),
    "weft.capabilities.assembler.strategies": (
        "DocumentStrategy",
        "KnowledgeStrategy",
        "MemoryStrategy",
        "RetrievalStrategy",
        "SelectionStrategy",
    ),
    "weft.capabilities.assembler.values": (
        "Assembly",
        "AssemblyRequest",
        "Piece",
        "StrategyReport",
    ),
    "weft.capabilities.grounding.check": ("check_answer",),
    "weft.capabilities.grounding.values": ("AnswerCheck", "SentenceCheck"),
    "weft.engine": ("Engine", "Statistics"),
    "weft.errors": (
        *(
            "Conflict",
            "Corrupt",
            "EmbeddingError",
            "Forbidden",
            "Invalid",
            "MissingExtra",
            "NotFound",
            "SearchError",
            "TemplateNotFound",
        ),
        *("Unavailable", "WeftError"),
    ),
    "weft.evaluation.compare": ("Comparison", "compare"),
    "weft.evaluation.evaluate": ("evaluate",),
    "weft.evaluation.questions": ("Question",),
    "weft.evaluation.results": ("Evaluation",),
    "weft.evaluation.tune": ("Tuning", "tune"),
    "weft.ingest.notes": ("Ingested",),
    "weft.ingest.prepare": ("Report",),
    "weft.ingest.read": ("Skipped",),
    "weft.life": ("Rollback", "State", "Step"),
    "weft.model": ("Context", "Edge", "Fragment", "Hit", "Item", "Kind", "LeftOut", "Problem"),
    "weft.ports": ("Caching",),
    "weft.recipes": ("Recipe", "Weights"),
    "weft.retrieval": ("RetrievalSettings",),
    "weft.surfaces.client": ("Client",),
    "weft.templates.sandbox": ("Limits",),
    "weft.templates.template": ("Template",),
    "weft.surfaces.haystack": ("HaystackRetriever",),
    "weft.surfaces.llamaindex": ("LlamaIndexRetriever",),
    "weft.surfaces.openai_agents": ("openai_agents_tool",),
    "weft.surfaces.pydantic_ai": ("pydantic_ai_tool",),
}
_EXTRAS = {"weft.surfaces.client": "client"}


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used, so that `weft --help` does not wait for numpy."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(_module(home), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def _module(home: str) -> ModuleType:
    try:
        return import_module(home)
    except ImportError as error:
        if home not in _EXTRAS:
            raise
        from weft.errors import MissingExtra

        raise MissingExtra(
            f"a package that is not installed is needed ({error.name}): pip install 'weft[{_EXTRAS[home]}]'"
        ) from error


def open(
    url: str | Path,
    *,
    embedder: str | Embedder | None = "minilm",
    embedder_settings: dict[str, Any] | None = None,
    links: Sequence[str] | None = None,
    names: str | NameFinder | None = None,
    secrets: str = "refuse",
    secret_rules: str | Path | None = None,
    cache: str | Path | Caching = "",
    agents: str | Path | Sequence[Agent] = (),
    retrieval: str | Path | Mapping[str, float] | RetrievalSettings = "",
    **roles: str,
) -> Engine:
    """Open knowledge: a path such as "knowledge.db", "memory:", or a URL. `metadata=` (profiles), `words=`, `vectors=`, `graph=`
    put a layer elsewhere, such as "file:profiles/" or "networkx:graph.json".
    `embedder` is a name ("minilm", "openai:MODEL", "openai:MODEL@URL"), an object, or None for words only. `links` are the kinds of
    links weft makes itself: ["shared_tag", "similar", "mentions", "refers_to", "shares", "foreign_key"], some of them, [] for none; by
    default as before, at first all. `names` says what finds names in texts for them, besides weft itself: "spacy:PIPELINE", an object, or
    "builtin" for nothing; by default as before.
    What holds a secret is refused, unless `secrets` is "allow"; `secret_rules` is a TOML file with rules of your own.
    Vectors of texts are kept in memory; a path as `cache` keeps them in a file too, and a Caching says how many and how long.
    `agents` are agents of your own, or the file that defines them. `retrieval` are numbers of retrieval that differ from weft's, or the file
    that `weft tune` wrote."""
    from pathlib import PurePath

    from weft import retrieval as numbers
    from weft.agents import known
    from weft.disk import CHECKINS, beside, file_of
    from weft.engine import Engine
    from weft.errors import Invalid
    from weft.ingest.secret_rules import chosen
    from weft.linking import BUILTIN, Naming
    from weft.ports import Caching
    from weft.registry import chosen_embedder, chosen_names, open_names, open_stores

    rules = chosen(secrets, secret_rules)
    table = known(agents)
    tuned = numbers.known(retrieval)
    maker = chosen_embedder(embedder, embedder_settings)
    naming = Naming(chosen_names(names, BUILTIN), open_names)
    if not isinstance(cache, str | PurePath | Caching):
        raise Invalid(f"a cache is a path or a Caching, not {cache!r}")
    caching = cache if isinstance(cache, Caching) else Caching(path=str(cache))
    where = str(url) if isinstance(url, PurePath) else url
    stores = open_stores(where, roles)
    records = beside(where, CHECKINS) if file_of(where) else None
    return Engine(
        stores,
        maker,
        secrets=rules,
        links=links,
        caching=caching,
        agents=table,
        retrieval=tuned,
        naming=naming,
        records=records,
    )


def open_llm(name: str, **settings: Any) -> LLM:
    """A language model for `Engine.ingest`: "openai:MODEL" or "openai:MODEL@URL" for any OpenAI-compatible server. Settings: api_key,
    temperature=0.0 (None: the server's), timeout_s=120, retries=3."""
    from weft.registry import open_llm

    return open_llm(name, **settings)
