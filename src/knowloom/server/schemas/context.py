"""Requests and responses of /api/context, /api/search and /api/explain."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from knowloom.server.schemas.fields import (
    ONLY_SPACE,
    AnswerConfidence,
    AsOf,
    Citations,
    CustomFormat,
    Depth,
    Expansion,
    Fenced,
    Format,
    Fraction,
    Id,
    Limit,
    Method,
    Mode,
    Model,
    Name,
    Names,
    NonEmptyNames,
    Now,
    Paths,
    QueryText,
    RequestModel,
    Rerank,
    SpaceNames,
    Strict,
    TierName,
    Time,
    Tokens,
    Weight,
    Where,
    examples,
)
from knowloom.server.schemas.turns import After, NewTokens, Seen, ShownItem


class ContextRequest(RequestModel):
    """Build a context: entry points by search, related nodes by links, entities, in one budget."""

    model_config = examples(
        {
            "query": "How do I process a refund request?",
            "tenant_ids": ["support", "shared"],
            "entry_types": ["faq", "playbook"],
            "max_tokens": 4000,
        }
    )

    other_names: ClassVar = {  # the names of the same options of other calls
        "spaces": "tenant_ids",
        "types": "entry_types",
        "limit": "entry_limit",
        "depth": "max_depth",
        "mode": "search_method",
        "model": "token_model",
    }

    query: QueryText = ""
    tenant_ids: Annotated[
        SpaceNames, Field(description=f"Spaces to search; an empty list is none, {ONLY_SPACE}")
    ] = None
    entry_types: Annotated[
        NonEmptyNames | None,
        Field(
            description="Types to search; null: all, except schemas and examples, which the flags "
            "add, entities and profiles"
        ),
    ] = None
    entry_limit: Limit = 10
    expand: bool = True
    expansion_types: Annotated[
        NonEmptyNames | None, Field(description="Types that links may lead to; null: all")
    ] = None
    expansion: Annotated[
        Expansion,
        Field(description="Follow links by weight, nearest first, or towards the query (walk)"),
    ] = "neighbours"
    max_depth: Depth = 2
    context_limit: Limit = 50
    include_entities: bool = True
    include_schemas: bool = False
    include_examples: bool = False
    max_tokens: Annotated[Tokens | None, Field(description="null: no limit")] = None
    token_model: Model = "gpt-4"
    strict: Strict = False
    tags: Names | None = None
    where: Where = None
    search_method: Method = "hybrid"
    bm25_weight: Weight = 0.6
    vector_weight: Weight = 0.4
    min_score: Fraction = 0.0
    min_answer_confidence: AnswerConfidence = 0.0
    agent: Annotated[
        Name | None,
        Field(description="Use the recipes of this agent instead of entry types, limits and depth"),
    ] = None
    tier: TierName | None = None
    format: Annotated[
        Format | CustomFormat | None,
        Field(description="Also return the context as text; a custom format: tier enterprise"),
    ] = None
    paths: Paths = False
    citations: Citations = False
    fence: Fenced = False
    rerank: Rerank = None
    as_of: AsOf = None
    now: Now = None
    seen: Seen = None
    after: After = None
    new_tokens: NewTokens = None


class ShownPassage(BaseModel):
    """A range of the text of an item, and the headings above it."""

    number: int
    start: int
    end: int
    headings: list[str]
    inner: Annotated[int, Field(description="The last headings that are part of the text")] = 0


class ResponseNode(BaseModel):
    """An item of the response. `form` is whole, excerpt, summary or pointer (only its name)."""

    id: Id
    space: str
    node_type: str
    type: Annotated[str, Field(description="The same as `node_type`")]
    title: str
    summary: str | None
    content: dict[str, Any]
    tags: list[str]
    score: float
    form: str
    tokens: int
    passages: Annotated[
        list[ShownPassage], Field(description="The ranges that an excerpt shows, in order")
    ] = []


class EntryPoint(ResponseNode):
    match_source: Literal["bm25", "vector", "hybrid"]


class ContextNode(ResponseNode):
    distance: int
    path: list[Id]
    edge_type: str | None
    via: Annotated[str | None, Field(description="The path by titles, with `paths`")] = None


class Entity(BaseModel):
    id: Id
    space: str
    title: str
    entity_path: str
    related_schemas: list[str]


class PointerNode(BaseModel):
    """An item that exists beside the ones shown; GET /api/items/{id}/read reads it."""

    id: Id
    space: str
    node_type: str
    type: Annotated[str, Field(description="The same as `node_type`")]
    title: str
    score: float
    tokens: int


class ProblemNote(BaseModel):
    """A problem; docs/http.md lists the codes."""

    part: str
    code: str
    severity: Literal["failure", "notice"]
    reason: str


class OmittedNode(BaseModel):
    id: Id
    space: str
    part: str
    score: float
    tokens: int
    reason: str


class ContextStats(BaseModel):
    """Exact counts. `tokens_used` adds up to `total_tokens`; `timings_ms` is by stage."""

    nodes_searched: int
    nodes_matched: Annotated[int, Field(description="Before min_score, limits and the budget")]
    candidates: Annotated[int, Field(description="Before the budget")]
    nodes_expanded: int
    max_depth_reached: int
    entry_points_found: int
    context_nodes_found: int
    total_tokens: int
    tokens_used: dict[str, int]
    token_counter: str
    optimality_gap: float
    timings_ms: dict[str, float]


class CitedSource(BaseModel):
    """The source of a block of `text`, in its order. `passages` are the ranges of an excerpt."""

    number: int
    space: str
    id: Id
    title: str
    source: str
    url: str | None = None
    passages: list[dict[str, Any]] | None = None


class ContextResponse(BaseModel):
    entry_points: list[EntryPoint]
    context: list[ContextNode]
    entities: list[Entity]
    see_also: list[PointerNode]
    stats: ContextStats
    confidence: Annotated[
        float | None,
        Field(description="Estimated share of such answers whose evidence is stored"),
    ]
    truncated: Annotated[bool, Field(description="The budget left out or shortened something")]
    degraded: list[ProblemNote]
    left_out: list[OmittedNode]
    digest: str
    text: str | None = None
    citations: Annotated[
        list[CitedSource] | None, Field(description="The sources of the blocks, with `citations`")
    ] = None
    prefix: Annotated[
        int | None, Field(description="Characters of `text` that are the text of `after`")
    ] = None
    shown: Annotated[
        list[ShownItem] | None,
        Field(
            description="What was shown so far, for later requests; if a request has `seen`, "
            "`after` or `new_tokens`"
        ),
    ] = None
    shown_before: Annotated[
        list[PointerNode] | None, Field(description="Names of items of `seen` that matter here")
    ] = None


class SearchRequest(RequestModel):
    """Search items by words and vectors, best first."""

    model_config = examples(
        {
            "query": "refund over 100 dollars",
            "spaces": ["support"],
            "types": ["faq", "playbook"],
            "limit": 5,
        }
    )

    query: QueryText
    spaces: SpaceNames = None
    kinds: Names = Field([])
    types: Names = Field([])
    exclude_types: Names = Field([])
    tags: Names = Field([])
    subject: Name | None = None
    created_from: Time | None = None
    created_to: Time | None = None
    min_confidence: Fraction = 0.0
    where: Where = None
    limit: Limit = 10
    mode: Mode = "hybrid"
    min_score: Fraction = 0.0
    min_answer_confidence: AnswerConfidence = 0.0
    as_of: AsOf = None
    now: Now = None
    tier: TierName | None = None
    rerank: Rerank = None


class ExplainRequest(RequestModel):
    """Build a context as the library does, with a reason for each item shown or left out."""

    model_config = examples(
        {
            "query": "How do I process a refund request?",
            "spaces": ["support"],
            "ids": ["gift-card-refunds"],
            "max_tokens": 800,
        }
    )

    query: QueryText
    spaces: SpaceNames = None
    ids: Names = Field([])
    max_tokens: Tokens | None = 2000
    recipe: Name = "knowledge"
    agent: Annotated[
        Name | None,
        Field(description="Instead of a recipe; it has its own budget and format"),
    ] = None
    tier: TierName | None = None
    format: Annotated[
        Format | CustomFormat, Field(description="A custom format needs the tier enterprise")
    ] = "markdown"
    model: Model = "gpt-4"
    strict: Strict = False
    entity: Name | None = None
    kinds: Names | None = None
    types: Names | None = None
    exclude_types: Names | None = None
    tags: Names | None = None
    where: Where = None
    limit: Limit | None = None
    depth: Depth | None = None
    mode: Mode | None = None
    min_score: Fraction | None = None
    min_answer_confidence: AnswerConfidence = 0.0
    as_of: AsOf = None
    now: Now = None
    paths: Paths = False
    citations: Citations = False
    fence: Fenced = False
    rerank: Rerank = None
    seen: Seen = None
    after: After = None
    new_tokens: NewTokens = None
    remedies: Annotated[
        bool, Field(description="Also find what would include the omitted items; packs again")
    ] = True


class DiffRequest(RequestModel):
    """Two contexts to compare: each a request as of /api/explain, or its response."""

    model_config = examples(
        {
            "before": {"query": "refund", "spaces": ["support"], "as_of": "2026-01-31T00:00:00Z"},
            "after": {"query": "refund", "spaces": ["support"]},
        }
    )

    before: ExplainRequest | None = None
    before_context: dict[str, Any] | None = None
    after: ExplainRequest | None = None
    after_context: dict[str, Any] | None = None
