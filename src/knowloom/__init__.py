"""knowloom keeps what an organisation knows and weaves the best of it into each prompt, within the token budget.

import knowloom
kb = knowloom.open("knowledge.db")
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

    from knowloom.agents import Agent, AgentOptions
    from knowloom.axioms.checker import Checked
    from knowloom.axioms.model import Axiom, Violation
    from knowloom.capabilities.assembler.assembler import Assembler
    from knowloom.capabilities.assembler.model import (
        Assembly,
        AssemblyRequest,
        Piece,
        StrategyReport,
    )
    from knowloom.capabilities.assembler.strategies import (
        DocumentStrategy,
        KnowledgeStrategy,
        MemoryStrategy,
        RetrievalStrategy,
        SelectionStrategy,
    )
    from knowloom.capabilities.axioms import load_axioms
    from knowloom.capabilities.feed import merge_feed
    from knowloom.capabilities.graph.documents import Document, LinkedEntity
    from knowloom.capabilities.graph.graph_context import GraphContext
    from knowloom.capabilities.graph.model import GraphAnswer
    from knowloom.capabilities.graph.options import GraphOptions
    from knowloom.capabilities.graph.rankers import SignalRanker, TermRanker
    from knowloom.capabilities.grounding.check import check_answer
    from knowloom.capabilities.grounding.model import AnswerCheck, SentenceCheck
    from knowloom.capabilities.memory.analytics import Analytics
    from knowloom.capabilities.memory.conversion import Fact, Turn
    from knowloom.capabilities.memory.memory import Memory
    from knowloom.capabilities.memory.model import (
        ContextPreview,
        ContextResult,
        RelatedMemory,
        Remembered,
        Result,
        SearchResult,
        attempt,
    )
    from knowloom.capabilities.memory.ranking import RankingOptions
    from knowloom.capabilities.memory.templates import MemoryTemplate
    from knowloom.capabilities.provider.model import Entry, Provision, Relation, Retrieval
    from knowloom.capabilities.provider.provider import Provider
    from knowloom.client.client import Client
    from knowloom.engine import Engine, Statistics
    from knowloom.errors import (
        Conflict,
        Corrupt,
        EmbeddingError,
        Forbidden,
        Invalid,
        KnowloomError,
        MissingExtra,
        NotFound,
        SearchError,
        TemplateNotFound,
        Unavailable,
    )
    from knowloom.evaluation.compare import Comparison, compare
    from knowloom.evaluation.evaluate import evaluate
    from knowloom.evaluation.questions import Question
    from knowloom.evaluation.results import Evaluation
    from knowloom.evaluation.tune import Tuning, tune
    from knowloom.history import Rollback, State, Step
    from knowloom.integrations.haystack import HaystackRetriever
    from knowloom.integrations.llamaindex import LlamaIndexRetriever
    from knowloom.integrations.openai_agents import openai_agents_tool
    from knowloom.integrations.pydantic_ai import pydantic_ai_tool
    from knowloom.model import Context, Edge, Fragment, Hit, Item, Kind, LeftOut, Problem
    from knowloom.options import RetrievalSettings
    from knowloom.ports import LLM, Caching, Embedder, NameFinder
    from knowloom.recipes import Recipe, Weights
    from knowloom.report import Report, Skipped
    from knowloom.structuring.pipeline import Ingested
    from knowloom.templates.sandbox import Limits
    from knowloom.templates.template import Template

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
    "KnowloomError",
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
    "knowloom.capabilities.feed": ("merge_feed",),
    "knowloom.capabilities.provider.provider": ("Provider",),
    "knowloom.capabilities.provider.model": ("Entry", "Provision", "Relation", "Retrieval"),
    "knowloom.axioms.checker": ("Checked",),
    "knowloom.axioms.model": ("Axiom", "Violation"),
    "knowloom.capabilities.axioms": ("load_axioms",),
    "knowloom.capabilities.graph.documents": ("Document", "LinkedEntity"),
    "knowloom.capabilities.graph.options": ("GraphOptions",),
    "knowloom.capabilities.graph.graph_context": ("GraphContext",),
    "knowloom.capabilities.graph.rankers": ("SignalRanker", "TermRanker"),
    "knowloom.capabilities.graph.model": ("GraphAnswer",),
    "knowloom.capabilities.memory.analytics": ("Analytics",),
    "knowloom.capabilities.memory.memory": ("Memory",),
    "knowloom.capabilities.memory.ranking": ("RankingOptions",),
    "knowloom.capabilities.memory.templates": ("MemoryTemplate",),
    "knowloom.capabilities.memory.model": (
        "ContextPreview",
        "ContextResult",
        "RelatedMemory",
        "Remembered",
        "Result",
        "SearchResult",
        "attempt",
    ),
    "knowloom.capabilities.memory.conversion": ("Fact", "Turn"),
    "knowloom.agents": ("Agent", "AgentOptions"),
    "knowloom.capabilities.assembler.assembler": ("Assembler",),
    "knowloom.capabilities.assembler.strategies": (
        "DocumentStrategy",
        "KnowledgeStrategy",
        "MemoryStrategy",
        "RetrievalStrategy",
        "SelectionStrategy",
    ),
    "knowloom.capabilities.assembler.model": (
        "Assembly",
        "AssemblyRequest",
        "Piece",
        "StrategyReport",
    ),
    "knowloom.capabilities.grounding.check": ("check_answer",),
    "knowloom.capabilities.grounding.model": ("AnswerCheck", "SentenceCheck"),
    "knowloom.engine": ("Engine", "Statistics"),
    "knowloom.errors": (
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
        *("Unavailable", "KnowloomError"),
    ),
    "knowloom.evaluation.compare": ("Comparison", "compare"),
    "knowloom.evaluation.evaluate": ("evaluate",),
    "knowloom.evaluation.questions": ("Question",),
    "knowloom.evaluation.results": ("Evaluation",),
    "knowloom.evaluation.tune": ("Tuning", "tune"),
    "knowloom.structuring.pipeline": ("Ingested",),
    "knowloom.report": ("Report", "Skipped"),
    "knowloom.history": ("Rollback", "State", "Step"),
    "knowloom.model": ("Context", "Edge", "Fragment", "Hit", "Item", "Kind", "LeftOut", "Problem"),
    "knowloom.ports": ("Caching",),
    "knowloom.recipes": ("Recipe", "Weights"),
    "knowloom.options": ("RetrievalSettings",),
    "knowloom.client.client": ("Client",),
    "knowloom.templates.sandbox": ("Limits",),
    "knowloom.templates.template": ("Template",),
    "knowloom.integrations.haystack": ("HaystackRetriever",),
    "knowloom.integrations.llamaindex": ("LlamaIndexRetriever",),
    "knowloom.integrations.openai_agents": ("openai_agents_tool",),
    "knowloom.integrations.pydantic_ai": ("pydantic_ai_tool",),
}
_EXTRAS = {"knowloom.client.client": "client"}


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used, so that `knowloom --help` does not wait for numpy."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(_module(home), name)
    raise AttributeError(f"module 'knowloom' has no attribute {name!r}")


def _module(home: str) -> ModuleType:
    try:
        return import_module(home)
    except ImportError as error:
        if home not in _EXTRAS:
            raise
        from knowloom.errors import MissingExtra

        raise MissingExtra(
            f"a package that is not installed is needed ({error.name}): pip install 'knowloom[{_EXTRAS[home]}]'"
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
    links knowloom makes itself: ["shared_tag", "similar", "mentions", "refers_to", "shares", "foreign_key"], some of them, [] for none; by
    default as before, at first all. `names` says what finds names in texts for them, besides knowloom itself: "spacy:PIPELINE", an object, or
    "builtin" for nothing; by default as before.
    What holds a secret is refused, unless `secrets` is "allow"; `secret_rules` is a TOML file with rules of your own.
    Vectors of texts are kept in memory; a path as `cache` keeps them in a file too, and a Caching says how many and how long.
    `agents` are agents of your own, or the file that defines them. `retrieval` are numbers of retrieval that differ from knowloom's, or the file
    that `knowloom tune` wrote."""
    from pathlib import PurePath

    from knowloom import options as numbers
    from knowloom.agents import known
    from knowloom.engine import Engine
    from knowloom.errors import Invalid
    from knowloom.files import CHECKINS, beside, file_of
    from knowloom.linking.linker import BUILTIN, Naming
    from knowloom.ports import Caching
    from knowloom.registry import chosen_embedder, chosen_names, open_names, open_stores
    from knowloom.secrets.rules import chosen

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
    from knowloom.registry import open_llm

    return open_llm(name, **settings)
