"""Requests of the graph context and axiom check routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from knowloom.capabilities.graph.options import OTHER_NAMES
from knowloom.server.schemas.fields import (
    CustomFormat,
    Depth,
    DocumentText,
    Format,
    Fraction,
    Label,
    Method,
    Model,
    Name,
    Names,
    NonEmptyNames,
    QueryText,
    RequestModel,
    SpaceNames,
    Strict,
    TierName,
    Time,
    Title,
    Tokens,
    Where,
    examples,
)

EXAMPLES: list[dict[str, Any]] = [
    {
        "query": "Kestrel tent warranty",
        "spaces": ["shared"],
        "include_claims": True,
        "max_tokens": 1000,
    },
    {
        "entities": ["tidewater", "gangway"],
        "spaces": ["shared"],
        "relationship_depth": 2,
        "format": "yaml",
    },
    {
        "document": {
            "id": "notes",
            "content": "Gangway pays refunds that were approved in Tidewater.",
        },
        "spaces": ["shared"],
    },
]

Count = Annotated[int, Field(ge=0, le=1000)]


class LinkedEntityBody(RequestModel):
    """A mention in a document and the entity it was linked to, if any."""

    mention: Label
    entity_id: Name | None = None
    confidence: Fraction = 1.0


class GraphDocumentBody(RequestModel):
    """A document with its linked entities. `selection` is [start, end] in characters."""

    id: Label = ""
    title: Title = ""
    content: DocumentText = ""
    linked_entities: Annotated[
        list[LinkedEntityBody], Field(max_length=10_000, default_factory=list)
    ]
    selection: Annotated[
        list[Annotated[int, Field(ge=0)]] | None, Field(min_length=2, max_length=2)
    ] = None


class GraphRequest(RequestModel):
    """Build a graph context. Exactly one of query, entities and document."""

    model_config = examples(*EXAMPLES)
    other_names = OTHER_NAMES

    spaces: SpaceNames = None
    query: QueryText | None = None
    entities: Annotated[Names | None, Field(description="Ids, in the order of the text")] = None
    document: GraphDocumentBody | None = None
    max_tokens: Annotated[Tokens | None, Field(description="null: no limit")] = 2000
    max_entities: Count = 20
    entity_types: Annotated[NonEmptyNames | None, Field(description="null: all")] = None
    exclude_entity_types: Annotated[Names, Field(default_factory=list)]
    min_relevance_score: Fraction = 0.1
    include_relationships: bool = True
    relationship_depth: Depth = 1
    max_relationships: Count = 100
    include_axioms: bool = True
    include_claims: bool = False
    max_claims_per_entity: Count = 3
    include_violations: Annotated[bool, Field(description="Also as notes in the text")] = False
    format: Annotated[
        Format | CustomFormat, Field(description="A custom format needs the tier enterprise")
    ] = "markdown"
    include_properties: bool = True
    max_properties_per_entity: Count = 10
    include_property_descriptions: bool = False
    include_entity_ids: bool = False
    entity_separator: Annotated[str, Field(max_length=200)] = "\n"
    ranker: Literal["signals", "terms"] = "terms"
    preferred_types: Annotated[Names, Field(default_factory=list)]
    mode: Method = "hybrid"
    model: Model = "gpt-4"
    strict: Strict = False
    where: Where = None
    as_of: Time | None = None
    now: Time | None = None
    vector: Annotated[
        list[float] | None,
        Field(max_length=10_000, description="A precomputed vector of the query or document"),
    ] = None
    tier: TierName | None = None


class CheckRequest(RequestModel):
    """Check the contents of spaces against their axioms."""

    model_config = examples({"spaces": ["shared"]})

    spaces: Annotated[Names | None, Field(description="null: all that the key may read")] = None
