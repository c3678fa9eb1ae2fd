"""Request of /api/assemble."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowloom.server.schemas.fields import (
    ONLY_SPACE,
    DocumentText,
    Format,
    Fraction,
    Label,
    Model,
    Name,
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


class AssemblyDocumentBody(RequestModel):
    """The document open in an editor."""

    id: Label = ""
    title: Title = ""
    content: DocumentText


class SelectionBody(RequestModel):
    """The selected range, in characters of the document's content."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class StrategyBody(RequestModel):
    """Changes to a strategy."""

    priority: Annotated[
        float | None, Field(ge=-1e6, le=1e6, allow_inf_nan=False, description="Lowest first")
    ] = None
    enabled: bool | None = None
    required: bool | None = None
    timeout_s: Annotated[float | None, Field(gt=0, le=30, allow_inf_nan=False)] = None
    share: Annotated[Fraction | None, Field(description="Guaranteed share of the budget")] = None


class AssembleRequest(RequestModel):
    """Assemble document, selection, retrieval, knowledge and memory into one text."""

    model_config = examples(
        {
            "query": "How do I process a refund?",
            "spaces": ["support"],
            "document": {"content": "Dear team, …"},
        }
    )

    query: QueryText
    spaces: Annotated[
        SpaceNames, Field(description=f"{ONLY_SPACE}; none if there is a document")
    ] = None
    document: AssemblyDocumentBody | None = None
    selection: SelectionBody | None = None
    max_tokens: Annotated[Tokens | None, Field(description="null: no limit")] = 8000
    agent: Annotated[Name | None, Field(description="Agent whose recipes retrieve knowledge")] = (
        None
    )
    tier: TierName | None = None
    entity: Name | None = None
    format: Format = "markdown"
    model: Model = "gpt-4"
    strict: Strict = False
    where: Where = None
    as_of: Time | None = None
    now: Time | None = None
    strategies: dict[str, StrategyBody] = Field(
        {}, max_length=50, description="Changes to strategies, by name"
    )
    fragments: Annotated[bool, Field(description="Also return the parts of the text")] = False
