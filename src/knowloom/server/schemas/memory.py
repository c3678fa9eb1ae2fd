"""Requests of the memory routes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from knowloom.capabilities.memory.options import MAX_QUERIES, OTHER_NAMES
from knowloom.capabilities.memory.ranking import RankingOptions
from knowloom.server.schemas.fields import (
    Depth,
    Fraction,
    Label,
    Limit,
    Method,
    Model,
    Name,
    Names,
    RequestModel,
    SpaceName,
    Strict,
    Text,
    Time,
    Tokens,
    Where,
    examples,
)

WORKSPACE = {"space": "workspace"}
MemoryQuery = Annotated[str, Field(min_length=1, max_length=100_000)]
QueryVector = Annotated[
    list[float],
    Field(
        min_length=1,
        max_length=10_000,
        description="A precomputed vector instead of a query: searches by vector only",
    ),
]
RankerName = Literal["default", "similarity", "recency", "confidence"]
WEIGHTS = RankingOptions()
TemplatePart = Annotated[str, Field(max_length=100_000)]


class RememberRequest(RequestModel):
    """A memory to store. Storing the same memory again changes nothing."""

    model_config = examples(
        {
            "workspace": "maya",
            "content": "Ada moved to Hamburg",
            "conversation": "c1",
            "type": "fact",
            "confidence": 0.9,
        }
    )

    other_names: ClassVar = WORKSPACE

    workspace: SpaceName = None
    content: Annotated[Text, Field(min_length=1)]
    type: Label = ""
    conversation: Name | None = None
    speaker: Annotated[
        Label, Field(description="Speaker: searchable by name, shown with the name and the time")
    ] = ""
    confidence: Annotated[Fraction | None, Field(description="null: 0.5")] = None
    metadata: dict[str, Any] = Field({})
    tags: Names = Field([])
    pinned: Annotated[bool, Field(description="Every context begins with it")] = False
    created_at: Annotated[Time | None, Field(description="null: now")] = None
    expires_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    supersedes: Names = Field([], description="Memories that it replaces")
    related: dict[Name, Name] = Field(
        {}, max_length=200, description="Links to other memories: id to type"
    )
    id: Name | None = None


class Ranking(RequestModel):
    """Weights of the ranking signals."""

    similarity_weight: Fraction = WEIGHTS.similarity_weight
    recency_weight: Fraction = WEIGHTS.recency_weight
    confidence_weight: Fraction = WEIGHTS.confidence_weight
    access_weight: Fraction = WEIGHTS.access_weight
    half_life_days: Annotated[
        float | None,
        Field(gt=0, le=1e6, description="Half-life of recency; null: 1 / (1 + days)"),
    ] = None


class MemorySearchOptionsBody(RequestModel):
    """Options of memory searches."""

    other_names: ClassVar = WORKSPACE | {"types": OTHER_NAMES["types"]}

    workspace: SpaceName = None
    limit: Limit = 10
    memory_types: Names = Field([])
    date_from: Time | None = None
    date_to: Time | None = None
    min_confidence: Fraction = 0.0
    conversation_id: Name | None = None
    include_relationships: bool = False
    relationship_depth: Depth = 1
    relationship_types: Names = Field([])
    mode: Method = "hybrid"
    min_score: Fraction = 0.0
    ranker: RankerName = "default"
    ranking: Ranking | None = None
    where: Where = None
    as_of: Time | None = None
    now: Time | None = None


class MemorySearchRequest(MemorySearchOptionsBody):
    """Search memories by a query or by a precomputed vector."""

    model_config = examples(
        {
            "workspace": "maya",
            "query": "Where does Ada live?",
            "limit": 5,
            "memory_types": ["fact", "decision"],
        }
    )

    query: MemoryQuery | None = None
    vector: QueryVector | None = None


class MemorySearchManyRequest(MemorySearchOptionsBody):
    """Search memories by several queries, which are embedded in one batch."""

    model_config = examples(
        {"workspace": "maya", "queries": ["Where does Ada live?", "What does Ada drink?"]}
    )

    queries: Annotated[list[MemoryQuery], Field(max_length=MAX_QUERIES)]


class TemplateBody(RequestModel):
    """A custom template.

    Variables: {{content}}, {{text}}, {{type}}, {{confidence}}, {{timestamp}}, {{score}} and
    {{details}}.
    """

    name: Name = "custom"
    header: TemplatePart = ""
    memory_format: TemplatePart = "{{content}}"
    separator: TemplatePart = "\n"
    footer: TemplatePart = ""
    include_metadata: bool = False
    line_break: TemplatePart | None = None
    order: Annotated[Literal["rank", "time"], Field(description="Best first, or oldest first")] = (
        "rank"
    )
    escape: Annotated[Literal["", "xml"], Field(description="Escaping of the variables")] = ""


class MemoryContextRequest(MemorySearchRequest):
    """Render the best memories for a prompt."""

    model_config = examples(
        {
            "workspace": "maya",
            "query": "Where does Ada live?",
            "template": "chat",
            "token_budget": 1500,
            "include_relationships": True,
        }
    )

    other_names: ClassVar = WORKSPACE | OTHER_NAMES

    limit: Limit | None = Field(  # type: ignore[assignment]
        10, description="null: as many as the budget could hold"
    )
    template: Annotated[
        Name | TemplateBody,
        Field(
            description="chat, detailed, summary, bullets, timeline, xml, or a custom template "
            "(tier enterprise)"
        ),
    ] = "chat"
    token_budget: Tokens = 2000
    include_metadata: bool = False
    pinned: Annotated[bool, Field(description="Begin with the pinned memories")] = True
    model: Model = "gpt-4"
    strict: Strict = False


class ForgetRequest(RequestModel):
    """Memories to delete, with their links."""

    model_config = examples({"workspace": "maya", "ids": ["m-0123456789abcdef"]})

    other_names: ClassVar = WORKSPACE

    workspace: SpaceName = None
    ids: Annotated[list[Name], Field(min_length=1, max_length=10_000)]
