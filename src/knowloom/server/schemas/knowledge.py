"""Requests of the routes that write, load, restore and roll back items and edges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from knowloom.server.schemas.context import ProblemNote
from knowloom.server.schemas.fields import (
    BulkLimit,
    Embed,
    Fraction,
    Id,
    Label,
    Model,
    Name,
    Names,
    RequestModel,
    Rows,
    SpaceName,
    Strict,
    Text,
    Time,
    Title,
    Version,
    examples,
)

PageNumber = Annotated[int, Field(ge=1)]
PageTokens = Annotated[
    int, Field(ge=1, le=10_000_000, description="Token budget of a page; more for long items")
]
PassageNumber = Annotated[
    int, Field(ge=0, description="Open the page where this passage begins, instead of `page`")
]


class ItemBody(RequestModel):
    """An item. `space`, if present, must match the path; `version` acts as If-Match."""

    model_config = examples(
        {
            "id": "late-parcels",
            "type": "faq",
            "title": "Where is my parcel?",
            "text": "Ask the carrier after 5 days.",
            "tags": ["delivery"],
        }
    )

    id: Annotated[Id, Field(description="Text or an integer; integers are returned as integers")]
    kind: Name = "node"
    type: Label = ""
    title: Title = ""
    text: Text = ""
    summary: Text = ""
    properties: dict[str, Any] = Field({})
    tags: Names = Field([])
    section: Label = "context"
    subject: int | Label | None = None
    confidence: Fraction | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    source: Label | None = None
    embedding_text: Text | None = None
    trust: Literal["trusted", "untrusted"] = "trusted"
    space: Name | None = None
    version: Label | None = None


class EdgeBody(RequestModel):
    """A link from an item of this space to an item of this or another space."""

    model_config = examples(
        {"source": "late-parcels", "target": "lost-parcel", "type": "related", "weight": 0.8}
    )

    source: Id
    target: Id
    type: Name = "related"
    weight: Fraction = 1.0
    item_id: Id | None = None
    properties: dict[str, Any] = Field({})
    target_space: Label = ""


class BulkRequest(RequestModel):
    """Many items and edges. Invalid rows are reported and skipped; the others are stored."""

    model_config = examples(
        {
            "items": [{"id": 1, "type": "faq", "title": "A"}, {"id": 2, "text": "B"}],
            "edges": [{"source": 1, "target": 2}],
        }
    )

    items: Annotated[Rows, Field(max_length=10_000)] = Field([])
    edges: Annotated[Rows, Field(max_length=50_000)] = Field([])
    embed: Embed = True


class LayersRequest(RequestModel):
    """Knowledge in three layers. Invalid entries are reported and skipped."""

    model_config = examples(
        {
            "metadata": {
                "user:maya": {"entity_type": "user", "properties": {"team": "Customer Care"}}
            },
            "pieces": [
                {
                    "piece_id": "freeze",
                    "content": "Freeze the payout before a refund",
                    "knowledge_type": "procedure",
                    "info_type": "instructions",
                }
            ],
            "graph": {
                "nodes": [
                    {"node_id": "process:refund", "node_type": "process", "label": "Refunds"}
                ],
                "edges": [
                    {
                        "source_id": "user:maya",
                        "target_id": "process:refund",
                        "edge_type": "APPROVES",
                        "properties": {"piece_id": "freeze"},
                    }
                ],
            },
        }
    )

    metadata: Annotated[
        dict[str, Any], Field(max_length=10_000, description="Profiles by the id of their entity")
    ] = Field({})
    pieces: Annotated[list[Any], Field(max_length=10_000)] = Field([])
    graph: Annotated[dict[str, Any], Field(description="`nodes` and `edges`")] = Field({})
    embed: Embed = True


class ReadRequest(RequestModel):
    """A page of an item. Without spaces it is looked up in all that the key may read."""

    model_config = examples({"id": "process-a-refund", "spaces": ["support"], "max_tokens": 500})

    id: Id
    spaces: Names | None = None
    page: PageNumber = 1
    max_tokens: PageTokens | None = 2000
    passage: PassageNumber | None = None
    model: Model = "gpt-4"
    strict: Strict = False


class RelatedRequest(RequestModel):
    """An item whose neighbours are listed; it is in one of the spaces, or in any readable one."""

    model_config = examples({"id": "process-a-refund", "spaces": ["support"], "limit": 5})

    id: Id
    spaces: Names | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10


class PageResponse(BaseModel):
    """A page of an item. Summary, tags and properties are on the first page."""

    id: Id
    space: str
    kind: str
    type: str
    title: str
    source: str | None
    page: int
    pages: int
    next: Annotated[int | None, Field(description="The next page; null on the last one")]
    tokens: int
    start: Annotated[int, Field(description="Offset of `text` in the text of the item")]
    end: int
    headings: Annotated[list[str], Field(description="Headings above the page, outermost first")]
    passages: Annotated[list[int], Field(description="Passages shown, at least in part")]
    is_cut: Annotated[bool, Field(description="Begins or ends inside a passage")]
    note: Annotated[str, Field(description="What was left out because it does not fit")]
    degraded: list[ProblemNote]
    summary: str = ""
    tags: list[str] = Field([])
    properties: dict[str, Any] = Field({})
    text: str


class HistoryRequest(RequestModel):
    """Read the history of an item."""

    space: SpaceName = None
    id: Name
    limit: BulkLimit = 1000


class RestoreRequest(RequestModel):
    """Restore an item as of a time or a version; by default, the last state before deletion."""

    space: SpaceName = None
    id: Name
    at: Time | None = None
    version: Version | None = None
    edges_of: Annotated[
        Names | None,
        Field(description="Restore only links owned by these spaces; null: all writable spaces"),
    ] = None
    embed: bool = True


class RollbackRequest(RequestModel):
    """Roll spaces back to a time."""

    to: Time
    spaces: Annotated[Names | None, Field(description="null: all")] = None
    dry_run: Annotated[bool, Field(description="Only report what would change")] = False
    embed: bool = True
