"""The protocols of stores, embedders, language models and tokenizers, and the values they exchange.

Adapters inherit nothing. `knowloom.testing` has a contract suite for each protocol; an adapter that
passes it can be trusted with users' knowledge.
"""

from knowloom.ports.models import (
    LLM,
    Completion,
    Embedder,
    LLMSettings,
    Message,
    NameFinder,
    Progress,
    QueryEmbedder,
    Reranker,
    TokenCounter,
    Vector,
)
from knowloom.ports.storage import (
    Batch,
    CompositeIndexes,
    DirtyItems,
    GraphStore,
    Index,
    IndexResult,
    ItemStore,
    LinkUpdate,
    NearestItems,
    SpaceInfo,
    Store,
    Stores,
    TextIndex,
    VectorIndex,
)
from knowloom.ports.upkeep import (
    AuditEntry,
    AuditFilter,
    BackupHeader,
    ErasableStore,
    KeyTable,
    Salvaged,
    Upkeep,
)

__all__ = [
    "LLM",
    "AuditEntry",
    "AuditFilter",
    "BackupHeader",
    "Batch",
    "Completion",
    "CompositeIndexes",
    "DirtyItems",
    "Embedder",
    "ErasableStore",
    "GraphStore",
    "Index",
    "IndexResult",
    "ItemStore",
    "KeyTable",
    "LLMSettings",
    "LinkUpdate",
    "Message",
    "NameFinder",
    "NearestItems",
    "Progress",
    "QueryEmbedder",
    "Reranker",
    "Salvaged",
    "SpaceInfo",
    "Store",
    "Stores",
    "TextIndex",
    "TokenCounter",
    "Upkeep",
    "Vector",
    "VectorIndex",
]
