"""knowloom stores what an organisation knows and builds the best context for each prompt.

import knowloom
kb = knowloom.open("knowledge.db")
kb.load("examples/harbor/support.jsonl", space="support")
print(kb.context("How do I process a refund?", spaces=["support"], max_tokens=800).text)
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as in _HOMES
    # isort: off
    from knowloom.agents import AgentOptions as AgentOptions
    from knowloom.axioms.checker import Checked as Checked
    from knowloom.axioms.model import Axiom as Axiom, Violation as Violation
    from knowloom.caching import Caching as Caching
    from knowloom.capabilities.assembler.assembler import Assembler as Assembler
    from knowloom.capabilities.assembler.model import (
        Assembly as Assembly,
        AssemblyRequest as AssemblyRequest,
        Piece as Piece,
        StrategyReport as StrategyReport,
    )
    from knowloom.capabilities.assembler.strategies import (
        DocumentStrategy as DocumentStrategy,
        KnowledgeStrategy as KnowledgeStrategy,
        MemoryStrategy as MemoryStrategy,
        RetrievalStrategy as RetrievalStrategy,
        SelectionStrategy as SelectionStrategy,
    )
    from knowloom.capabilities.axioms import load_axioms as load_axioms
    from knowloom.capabilities.feed import merge_feed as merge_feed
    from knowloom.capabilities.graph.documents import (
        Document as Document,
        LinkedEntity as LinkedEntity,
    )
    from knowloom.capabilities.graph.graph_context import GraphContext as GraphContext
    from knowloom.capabilities.graph.model import GraphAnswer as GraphAnswer
    from knowloom.capabilities.graph.options import GraphOptions as GraphOptions
    from knowloom.capabilities.graph.rankers import (
        SignalRanker as SignalRanker,
        TermRanker as TermRanker,
    )
    from knowloom.capabilities.grounding.check import check_answer as check_answer
    from knowloom.capabilities.grounding.model import (
        AnswerCheck as AnswerCheck,
        SentenceCheck as SentenceCheck,
    )
    from knowloom.capabilities.memory.analytics import Analytics as Analytics
    from knowloom.capabilities.memory.conversion import Fact as Fact, Turn as Turn
    from knowloom.capabilities.memory.memory import Memory as Memory
    from knowloom.capabilities.memory.model import (
        ContextPreview as ContextPreview,
        ContextResult as ContextResult,
        RelatedMemory as RelatedMemory,
        Remembered as Remembered,
        Result as Result,
        SearchResult as SearchResult,
        SearchResults as SearchResults,
        attempt as attempt,
    )
    from knowloom.capabilities.memory.ranking import (
        Ranker as Ranker,
        RankingOptions as RankingOptions,
    )
    from knowloom.capabilities.memory.templates import MemoryTemplate as MemoryTemplate
    from knowloom.capabilities.provider.model import (
        Entry as Entry,
        Provision as Provision,
        Relation as Relation,
        Retrieval as Retrieval,
    )
    from knowloom.capabilities.provider.provider import Provider as Provider
    from knowloom.capabilities.selection import (
        Selection as Selection,
        format_items as format_items,
        select_within_budget as select_within_budget,
    )
    from knowloom.client.async_client import AsyncClient as AsyncClient
    from knowloom.client.client import Client as Client
    from knowloom.capabilities.differences import (
        ContextDiff as ContextDiff,
        ItemChange as ItemChange,
        diff_contexts as diff_contexts,
    )
    from knowloom.capabilities.related import find_related as find_related
    from knowloom.context.item_pages import ItemPage as ItemPage
    from knowloom.engine import Engine as Engine, act_as as act_as, restrict as restrict
    from knowloom.errors import (
        Conflict as Conflict,
        Corrupt as Corrupt,
        EmbeddingError as EmbeddingError,
        Forbidden as Forbidden,
        Invalid as Invalid,
        KnowloomError as KnowloomError,
        MissingExtra as MissingExtra,
        NotFound as NotFound,
        SearchError as SearchError,
        TemplateNotFound as TemplateNotFound,
        Unavailable as Unavailable,
    )
    from knowloom.evaluation.compare import Comparison as Comparison, compare as compare
    from knowloom.evaluation.evaluate import evaluate as evaluate
    from knowloom.evaluation.questions import Question as Question
    from knowloom.evaluation.results import Evaluation as Evaluation
    from knowloom.evaluation.tune import Tuning as Tuning, tune as tune
    from knowloom.factory import (
        copy as copy,
        open as open,
        repair as repair,
        restore as restore,
    )
    from knowloom.history import Rollback as Rollback, State as State, Step as Step
    from knowloom.integrations.haystack import HaystackRetriever as HaystackRetriever
    from knowloom.integrations.llamaindex import LlamaIndexRetriever as LlamaIndexRetriever
    from knowloom.integrations.openai_agents import (
        openai_agents_read_tool as openai_agents_read_tool,
        openai_agents_tool as openai_agents_tool,
    )
    from knowloom.integrations.pydantic_ai import (
        pydantic_ai_read_tool as pydantic_ai_read_tool,
        pydantic_ai_tool as pydantic_ai_tool,
    )
    from knowloom.conversation.shown_record import ShownRecord as ShownRecord
    from knowloom.maintenance import Statistics as Statistics
    from knowloom.loading.sources.web_source import WebPages as WebPages
    from knowloom.model import (
        Citation as Citation,
        ItemCondition as ItemCondition,
        Context as Context,
        ContextFormat as ContextFormat,
        Edge as Edge,
        Fragment as Fragment,
        Hit as Hit,
        Item as Item,
        Kind as Kind,
        LeftOut as LeftOut,
        Problem as Problem,
        Shown as Shown,
    )
    from knowloom.operations.backups import (
        Backup as Backup,
        RecordedBackup as RecordedBackup,
        Restored as Restored,
    )
    from knowloom.operations.copying import Copied as Copied, CopiedSpace as CopiedSpace
    from knowloom.operations.export import Exported as Exported
    from knowloom.operations.purging import Purged as Purged
    from knowloom.ports import AuditEntry as AuditEntry, Salvaged as Salvaged
    from knowloom.recipes import Agent as Agent, Recipe as Recipe, Weights as Weights
    from knowloom.registry import open_llm as open_llm
    from knowloom.report import Report as Report, Skipped as Skipped
    from knowloom.retrieval_settings import RetrievalSettings as RetrievalSettings
    from knowloom.structuring.pipeline import Ingested as Ingested
    from knowloom.templates.sandbox import Limits as Limits
    from knowloom.templates.template import Template as Template
    from knowloom.tokens import get_counter as get_counter

__version__ = "0.1.0"

# Public names by module. They are imported on first use, so that `knowloom --help` is fast.
_HOMES = {
    "knowloom.agents": "AgentOptions",
    "knowloom.axioms.checker": "Checked",
    "knowloom.axioms.model": "Axiom Violation",
    "knowloom.caching": "Caching",
    "knowloom.capabilities.assembler.assembler": "Assembler",
    "knowloom.capabilities.assembler.model": "Assembly AssemblyRequest Piece StrategyReport",
    "knowloom.capabilities.assembler.strategies": (
        "DocumentStrategy KnowledgeStrategy MemoryStrategy RetrievalStrategy SelectionStrategy"
    ),
    "knowloom.capabilities.axioms": "load_axioms",
    "knowloom.capabilities.feed": "merge_feed",
    "knowloom.capabilities.graph.documents": "Document LinkedEntity",
    "knowloom.capabilities.graph.graph_context": "GraphContext",
    "knowloom.capabilities.graph.model": "GraphAnswer",
    "knowloom.capabilities.graph.options": "GraphOptions",
    "knowloom.capabilities.graph.rankers": "SignalRanker TermRanker",
    "knowloom.capabilities.grounding.check": "check_answer",
    "knowloom.capabilities.grounding.model": "AnswerCheck SentenceCheck",
    "knowloom.capabilities.memory.analytics": "Analytics",
    "knowloom.capabilities.memory.conversion": "Fact Turn",
    "knowloom.capabilities.memory.memory": "Memory",
    "knowloom.capabilities.memory.model": (
        "ContextPreview ContextResult RelatedMemory Remembered Result SearchResult SearchResults "
        "attempt"
    ),
    "knowloom.capabilities.memory.ranking": "Ranker RankingOptions",
    "knowloom.capabilities.memory.templates": "MemoryTemplate",
    "knowloom.capabilities.provider.model": "Entry Provision Relation Retrieval",
    "knowloom.capabilities.provider.provider": "Provider",
    "knowloom.capabilities.selection": "Selection format_items select_within_budget",
    "knowloom.loading.sources.web_source": "WebPages",
    "knowloom.client.async_client": "AsyncClient",
    "knowloom.client.client": "Client",
    "knowloom.capabilities.differences": "ContextDiff ItemChange diff_contexts",
    "knowloom.capabilities.related": "find_related",
    "knowloom.context.item_pages": "ItemPage",
    "knowloom.engine": "Engine act_as restrict",
    "knowloom.errors": (
        "Conflict Corrupt EmbeddingError Forbidden Invalid KnowloomError MissingExtra "
        "NotFound SearchError TemplateNotFound Unavailable"
    ),
    "knowloom.evaluation.compare": "Comparison compare",
    "knowloom.conversation.shown_record": "ShownRecord",
    "knowloom.evaluation.evaluate": "evaluate",
    "knowloom.evaluation.questions": "Question",
    "knowloom.evaluation.results": "Evaluation",
    "knowloom.evaluation.tune": "Tuning tune",
    "knowloom.factory": "copy open repair restore",
    "knowloom.history": "Rollback State Step",
    "knowloom.integrations.haystack": "HaystackRetriever",
    "knowloom.integrations.llamaindex": "LlamaIndexRetriever",
    "knowloom.integrations.openai_agents": "openai_agents_read_tool openai_agents_tool",
    "knowloom.integrations.pydantic_ai": "pydantic_ai_read_tool pydantic_ai_tool",
    "knowloom.maintenance": "Statistics",
    "knowloom.model": (
        "Citation ItemCondition Context ContextFormat Edge Fragment Hit Item Kind LeftOut Problem "
        "Shown"
    ),
    "knowloom.operations.backups": "Backup RecordedBackup Restored",
    "knowloom.operations.copying": "Copied CopiedSpace",
    "knowloom.operations.export": "Exported",
    "knowloom.operations.purging": "Purged",
    "knowloom.ports": "AuditEntry Salvaged",
    "knowloom.recipes": "Agent Recipe Weights",
    "knowloom.registry": "open_llm",
    "knowloom.report": "Report Skipped",
    "knowloom.retrieval_settings": "RetrievalSettings",
    "knowloom.structuring.pipeline": "Ingested",
    "knowloom.templates.sandbox": "Limits",
    "knowloom.templates.template": "Template",
    "knowloom.tokens": "get_counter",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
_EXTRAS = {"knowloom.client.async_client": "client", "knowloom.client.client": "client"}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'knowloom' has no attribute {name!r}")
    value = globals()[name] = getattr(_import(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _import(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if module not in _EXTRAS or (error.name or "").startswith("knowloom"):
            raise
        from knowloom.errors import MissingExtra

        raise MissingExtra(
            f"package {error.name!r} is not installed: pip install 'knowloom[{_EXTRAS[module]}]'"
        ) from error
