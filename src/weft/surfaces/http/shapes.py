"""What requests and answers look like on the wire. Unknown fields are refused; limits are part of the published schema."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(max_length=200)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
Id = int | str
Format = Literal["json", "markdown", "plain", "yaml"]
Method = Literal["hybrid", "bm25", "vector"]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ContextRequest(Shape):
    """Ask for context: entry points by search, related nodes by links, entities, all within one token budget."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"query": "How do I process a refund request?", "tenant_ids": ["support", "shared"], "entry_types": ["faq", "playbook"], "max_tokens": 4000}
            ]
        },
    )

    query: Annotated[str, Field(max_length=100_000)] = ""
    tenant_ids: Annotated[Names, Field(description="Spaces to look in; none means none")] = []
    entry_types: Annotated[Names | None, Field(description="Types to search; null: faq, playbook, permission_rule, concept and what the flags add")] = None
    entry_limit: Annotated[int, Field(ge=1, le=1000)] = 10
    expand: bool = True
    expansion_types: Annotated[Names | None, Field(description="Types that links may lead to; null: all")] = None
    max_depth: Annotated[int, Field(ge=0, le=10)] = 2
    context_limit: Annotated[int, Field(ge=1, le=1000)] = 50
    include_entities: bool = True
    include_schemas: bool = False
    include_examples: bool = False
    max_tokens: Annotated[int | None, Field(ge=0, le=10_000_000, description="null: no limit")] = None
    token_model: Annotated[str, Field(min_length=1, max_length=200)] = "gpt-4"
    tags: Names | None = None
    search_method: Method = "hybrid"
    bm25_weight: Weight = 0.6
    vector_weight: Weight = 0.4
    min_score: Fraction = 0.0
    format: Annotated[Format | None, Field(description="Also give the context as text, ready for a prompt")] = None
    as_of: Annotated[datetime | None, Field(strict=False, description="As it was known and valid at that time")] = None
    now: Annotated[datetime | None, Field(strict=False, description="The time of the request, for answers that can be repeated byte by byte")] = None


class Node(BaseModel):
    """An item in an answer. `form` says how much of it is given: whole, summary, or pointer (only its name)."""

    id: Id
    node_type: str
    title: str
    summary: str | None
    content: dict[str, Any]
    tags: list[str]
    score: float
    form: str
    tokens: int


class EntryPoint(Node):
    match_source: Literal["bm25", "vector", "hybrid"]


class ContextNode(Node):
    distance: int
    path: list[Id]
    edge_type: str | None


class Entity(BaseModel):
    id: Id
    title: str
    entity_path: str
    related_schemas: list[str]


class ProblemNote(BaseModel):
    part: str
    code: str
    reason: str


class Absent(BaseModel):
    id: Id
    part: str
    score: float
    tokens: int
    reason: str


class ContextStats(BaseModel):
    """Every number is counted. `timings_ms` is by stage."""

    nodes_searched: int
    nodes_expanded: int
    max_depth_reached: int
    entry_points_found: int
    context_nodes_found: int
    total_tokens: int
    tokens_used: dict[str, int]
    token_counter: str
    optimality_gap: float
    timings_ms: dict[str, float]


class ContextResponse(BaseModel):
    entry_points: list[EntryPoint]
    context: list[ContextNode]
    entities: list[Entity]
    stats: ContextStats
    degraded: list[ProblemNote]
    left_out: list[Absent]
    digest: str
    text: str | None = None


class SearchRequest(Shape):
    """Find items by words and meaning, best first."""

    query: Annotated[str, Field(max_length=100_000)]
    spaces: Names
    kinds: Names = []
    types: Names = []
    exclude_types: Names = []
    tags: Names = []
    subject: Name | None = None
    created_from: Annotated[datetime | None, Field(strict=False)] = None
    created_to: Annotated[datetime | None, Field(strict=False)] = None
    min_confidence: Fraction = 0.0
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    mode: Method = "hybrid"
    min_score: Fraction = 0.0
    as_of: Annotated[datetime | None, Field(strict=False)] = None
    now: Annotated[datetime | None, Field(strict=False)] = None


class ExplainRequest(Shape):
    """The same as a context of the library, with the reason for everything in it and everything left out."""

    query: Annotated[str, Field(max_length=100_000)]
    spaces: Names
    ids: Names = []
    max_tokens: Annotated[int | None, Field(ge=0, le=10_000_000)] = 2000
    recipe: Name = "knowledge"
    format: Format = "markdown"
    model: Annotated[str, Field(min_length=1, max_length=200)] = "gpt-4"
    entity: Name | None = None
    kinds: Names | None = None
    types: Names | None = None
    exclude_types: Names | None = None
    tags: Names | None = None
    limit: Annotated[int | None, Field(ge=1, le=1000)] = None
    depth: Annotated[int | None, Field(ge=0, le=10)] = None
    mode: Method | None = None
    min_score: Fraction | None = None
    as_of: Annotated[datetime | None, Field(strict=False)] = None
    now: Annotated[datetime | None, Field(strict=False)] = None
    remedies: Annotated[bool, Field(description="Also find out what would bring the rest in; costs a few more fittings")] = True


class ItemBody(Shape):
    """An item without its space, which is part of the address."""

    id: Annotated[Id, Field(description="Text or a whole number; numbers are given back as numbers")]
    kind: Name = "node"
    type: str = ""
    title: str = ""
    text: str = ""
    summary: str = ""
    properties: dict[str, Any] = {}
    tags: Names = []
    section: str = "context"
    subject: str | None = None
    confidence: Fraction | None = None
    created_at: Annotated[datetime | None, Field(strict=False)] = None
    updated_at: Annotated[datetime | None, Field(strict=False)] = None
    valid_from: Annotated[datetime | None, Field(strict=False)] = None
    valid_to: Annotated[datetime | None, Field(strict=False)] = None
    source: str | None = None
    embedding_text: str | None = None


class EdgeBody(Shape):
    source: Id
    target: Id
    type: Name = "related"
    weight: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    item_id: Id | None = None
    properties: dict[str, Any] = {}
    target_space: str = ""


class BulkRequest(Shape):
    """Many items and edges. Rows that are not right are reported and skipped; the rest is stored."""

    items: Annotated[list[dict[str, Any]], Field(max_length=10_000)] = []
    edges: Annotated[list[dict[str, Any]], Field(max_length=50_000)] = []
