"""Request and response of /api/provide."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from knowloom.capabilities.provider.options import OTHER_NAMES
from knowloom.server.schemas.context import ProblemNote
from knowloom.server.schemas.fields import (
    Depth,
    Fraction,
    Label,
    Limit,
    Method,
    Model,
    Name,
    Names,
    QueryText,
    RequestModel,
    SpaceNames,
    Strict,
    TierName,
    Time,
    Tokens,
    Where,
    examples,
)
from knowloom.templates.template import MAX_SOURCE


class SectionTemplate(RequestModel):
    """A template for a whole section, with the variables `section` and `entries`."""

    source: Annotated[str, Field(max_length=MAX_SOURCE)]
    engine: Literal["jinja2", "handlebars", "format"] = "jinja2"


class ProvideRequest(RequestModel):
    """Retrieve knowledge by prompt section.

    `max_tokens` is for all sections together, `caps` for single ones.
    """

    model_config = examples(
        {
            "query": "How do I process a refund request?",
            "spaces": ["support", "shared"],
            "max_tokens": 800,
            "caps": {"skills": 200},
        }
    )

    other_names: ClassVar = {**OTHER_NAMES, "entity": "entity_id"}

    query: QueryText
    spaces: Annotated[SpaceNames, Field(min_length=1)] = None
    entity_id: Annotated[
        Name | None, Field(description="The entity the agent works for, such as user:maya")
    ] = None
    max_tokens: Annotated[
        Tokens | None, Field(description="For all sections together; null: no limit")
    ] = 2000
    caps: dict[Label, Tokens] = Field(
        default_factory=dict, max_length=200, description="Maximum tokens by section"
    )
    formats: Annotated[
        dict[Label, Annotated[str, Field(max_length=MAX_SOURCE)] | SectionTemplate],
        Field(
            max_length=50,
            description="By section, * for all others: a text such as `{title}: {text}` for each "
            "entry, or a template (tier enterprise)",
        ),
    ] = Field({})
    model: Model = "gpt-4"
    strict: Strict = False
    metadata_info_type: Annotated[Name, Field(description="Section of the profiles")] = (
        "user_profile"
    )
    top_k: Annotated[Limit, Field(description="Maximum number of pieces from the search")] = 10
    types: Names = Field(default_factory=list)
    tags: Names = Field(default_factory=list)
    mode: Method = "hybrid"
    min_score: Fraction = 0.0
    scope: Annotated[
        Literal["entity", "all"],
        Field(description="Search pieces of the entity and of no entity, or all pieces"),
    ] = "entity"
    graph_traversal_depth: Depth = 2
    graph_limit: Limit = 50
    edge_types: Names = Field(default_factory=list)
    where: Where = None
    as_of: Time | None = None
    now: Time | None = None
    tier: TierName | None = None


class ProvideResponse(BaseModel):
    """Knowledge by prompt section, and its sources."""

    sections: Annotated[dict[str, str], Field(description="Text by section, ready for a prompt")]
    tokens: int
    token_counter: str
    entity_id: str | None
    pieces: list[dict[str, Any]]
    graph_context: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    confidence: float | None
    degraded: list[ProblemNote]
