"""What requests and answers look like on the wire. Unknown fields are refused; limits are part of the published schema."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from knowloom import codec

Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(max_length=200)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
Types = Annotated[list[Name], Field(min_length=1, max_length=200)]
Label = Annotated[str, Field(max_length=500)]
Text = Annotated[str, Field(max_length=1_000_000)]
Id = int | Name
Format = Literal["json", "markdown", "plain", "yaml"]
Method = Literal["hybrid", "bm25", "vector"]
Expansion = Literal["neighbours", "walk"]
Mode = Literal["hybrid", "bm25", "vector", "walk"]
Paths = Annotated[
    bool, Field(description="What links led to says by which, by titles: in `text` and as `via`")
]
TierName = Annotated[
    Literal["core", "writer_pro", "teams", "enterprise"],
    Field(description="A lower tier than the key's; never a higher one"),
]


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("must be text such as 2026-01-31T12:00:00Z")
    try:
        return codec.text_to_time(value)
    except OverflowError:
        raise ValueError("is out of range") from None


def _no_file(model: str) -> str:
    if model.lower().endswith(".json"):
        raise ValueError("must be the name of a model: files of the server are not read")
    return model


Time = Annotated[datetime, BeforeValidator(_time)]
Model = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_no_file)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


class ContextRequest(Shape):
    """Ask for context: entry points by search, related nodes by links, entities, all within one token budget."""

    model_config = example(
        query="How do I process a refund request?",
        tenant_ids=["support", "shared"],
        entry_types=["faq", "playbook"],
        max_tokens=4000,
    )

    query: Annotated[str, Field(max_length=100_000)] = ""
    tenant_ids: Annotated[Names, Field(description="Spaces to look in; none means none")] = []
    entry_types: Annotated[
        Types | None,
        Field(
            description="Types to search; null: faq, playbook, permission_rule, concept and what the flags add"
        ),
    ] = None
    entry_limit: Annotated[int, Field(ge=1, le=1000)] = 10
    expand: bool = True
    expansion_types: Annotated[
        Types | None, Field(description="Types that links may lead to; null: all")
    ] = None
    expansion: Annotated[
        Expansion,
        Field(
            description="Follow links by weight, near ones first, or those that lead towards the question"
        ),
    ] = "neighbours"
    max_depth: Annotated[int, Field(ge=0, le=10)] = 2
    context_limit: Annotated[int, Field(ge=1, le=1000)] = 50
    include_entities: bool = True
    include_schemas: bool = False
    include_examples: bool = False
    max_tokens: Annotated[int | None, Field(ge=0, le=10_000_000, description="null: no limit")] = (
        None
    )
    token_model: Model = "gpt-4"
    tags: Names | None = None
    search_method: Method = "hybrid"
    bm25_weight: Weight = 0.6
    vector_weight: Weight = 0.4
    min_score: Fraction = 0.0
    agent: Annotated[
        Name | None,
        Field(description="Ask as this agent does, instead of with entry types, limits and depth"),
    ] = None
    tier: TierName | None = None
    format: Annotated[
        Format | None, Field(description="Also give the context as text, ready for a prompt")
    ] = None
    paths: Paths = False
    as_of: Annotated[Time | None, Field(description="As it was known and valid at that time")] = (
        None
    )
    now: Annotated[
        Time | None,
        Field(description="The time of the request, for answers that can be repeated byte by byte"),
    ] = None


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
    via: Annotated[
        str | None, Field(description="The path by titles, if `paths` was asked for")
    ] = None


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

    model_config = example(
        query="refund over 100 dollars", spaces=["support"], types=["faq", "playbook"], limit=5
    )

    query: Annotated[str, Field(max_length=100_000)]
    spaces: Names
    kinds: Names = []
    types: Names = []
    exclude_types: Names = []
    tags: Names = []
    subject: Name | None = None
    created_from: Time | None = None
    created_to: Time | None = None
    min_confidence: Fraction = 0.0
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    mode: Mode = "hybrid"
    min_score: Fraction = 0.0
    as_of: Time | None = None
    now: Time | None = None
    tier: TierName | None = None


class ExplainRequest(Shape):
    """The same as a context of the library, with the reason for everything in it and everything left out."""

    model_config = example(
        query="How do I process a refund request?",
        spaces=["support"],
        ids=["gift-card-refunds"],
        max_tokens=800,
    )

    query: Annotated[str, Field(max_length=100_000)]
    spaces: Names
    ids: Names = []
    max_tokens: Annotated[int | None, Field(ge=0, le=10_000_000)] = 2000
    recipe: Name = "knowledge"
    agent: Annotated[
        Name | None,
        Field(description="Instead of a recipe; it has a budget and a format of its own"),
    ] = None
    tier: TierName | None = None
    format: Format = "markdown"
    model: Model = "gpt-4"
    entity: Name | None = None
    kinds: Names | None = None
    types: Names | None = None
    exclude_types: Names | None = None
    tags: Names | None = None
    limit: Annotated[int | None, Field(ge=1, le=1000)] = None
    depth: Annotated[int | None, Field(ge=0, le=10)] = None
    mode: Mode | None = None
    min_score: Fraction | None = None
    as_of: Time | None = None
    now: Time | None = None
    paths: Paths = False
    remedies: Annotated[
        bool,
        Field(description="Also find out what would bring the rest in; costs a few more fittings"),
    ] = True


class ItemBody(Shape):
    """An item. `space` and `version` may stay in it as they were read: the one must be that of the address, the other is an If-Match."""

    model_config = example(
        id="late-parcels",
        type="faq",
        title="Where is my parcel?",
        text="Ask the carrier after 5 days.",
        tags=["delivery"],
    )

    id: Annotated[
        Id, Field(description="Text or a whole number; numbers are given back as numbers")
    ]
    kind: Name = "node"
    type: Label = ""
    title: Annotated[str, Field(max_length=10_000)] = ""
    text: Text = ""
    summary: Text = ""
    properties: dict[str, Any] = {}
    tags: Names = []
    section: Label = "context"
    subject: int | Label | None = None
    confidence: Fraction | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    source: Label | None = None
    embedding_text: Text | None = None
    space: Name | None = None
    version: Label | None = None


class EdgeBody(Shape):
    """A link from an item of this space to one of this or another space."""

    model_config = example(source="late-parcels", target="lost-parcel", type="related", weight=0.8)

    source: Id
    target: Id
    type: Name = "related"
    weight: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    item_id: Id | None = None
    properties: dict[str, Any] = {}
    target_space: Label = ""


class BulkRequest(Shape):
    """Many items and edges. Rows that are not right are reported and skipped; the rest is stored."""

    model_config = example(
        items=[{"id": 1, "type": "faq", "title": "A"}, {"id": 2, "text": "B"}],
        edges=[{"source": 1, "target": 2}],
    )

    items: Annotated[list[dict[str, Any]], Field(max_length=10_000)] = []
    edges: Annotated[list[dict[str, Any]], Field(max_length=50_000)] = []
    embed: Annotated[
        bool,
        Field(
            description="Make the vectors before answering; without, `knowloom embed` does it later"
        ),
    ] = True


class LayersRequest(Shape):
    """Knowledge in three layers. Entries that are not right are reported and skipped; the rest is stored."""

    model_config = example(
        metadata={"user:maya": {"entity_type": "user", "properties": {"team": "Customer Care"}}},
        pieces=[
            {
                "piece_id": "freeze",
                "content": "Freeze the payout before a refund",
                "knowledge_type": "procedure",
                "info_type": "instructions",
            }
        ],
        graph={
            "nodes": [{"node_id": "process:refund", "node_type": "process", "label": "Refunds"}],
            "edges": [
                {
                    "source_id": "user:maya",
                    "target_id": "process:refund",
                    "edge_type": "APPROVES",
                    "properties": {"piece_id": "freeze"},
                }
            ],
        },
    )

    metadata: Annotated[
        dict[str, Any], Field(max_length=10_000, description="Profiles by the id of their entity")
    ] = {}
    pieces: Annotated[list[Any], Field(max_length=10_000)] = []
    graph: Annotated[dict[str, Any], Field(description="`nodes` and `edges`")] = {}
    embed: Annotated[
        bool,
        Field(
            description="Make the vectors before answering; without, `knowloom embed` does it later"
        ),
    ] = True
