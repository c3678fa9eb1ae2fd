"""Request of /api/check_answer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from knowloom.server.schemas.fields import (
    ONLY_SPACE,
    Model,
    Name,
    QueryText,
    RequestModel,
    SpaceNames,
    Strict,
    TierName,
    Time,
    Where,
    examples,
)

EXAMPLES: list[dict[str, Any]] = [
    {
        "answer": "Gift cards are not refundable.",
        "question": "How are gift cards refunded?",
        "spaces": ["support"],
    },
    {"answer": "Refunds take 9 days.", "texts": ["Refunds take 3 days."]},
]


class CheckAnswerRequest(RequestModel):
    """Check an answer against texts, against the context of a question, or both."""

    model_config = examples(*EXAMPLES)

    answer: QueryText
    texts: Annotated[
        list[str], Field(max_length=200, default_factory=list, description="Supporting texts")
    ]
    question: Annotated[
        QueryText | None, Field(description="The question; null: search by the answer itself")
    ] = None
    spaces: Annotated[SpaceNames, Field(description=f"{ONLY_SPACE}; none if there are texts")] = (
        None
    )
    recipe: Annotated[Name | None, Field(description="Recipe of the context; null: knowledge")] = (
        None
    )
    agent: Annotated[Name | None, Field(description="Instead of a recipe")] = None
    max_tokens: Annotated[
        int, Field(ge=0, le=1_000_000, description="Token budget of the context")
    ] = 4000
    model: Model = "gpt-4"
    strict: Strict = False
    entity: Name | None = None
    meaning: Annotated[
        bool, Field(description="Also accept paraphrases as support, using the embedder")
    ] = False
    where: Where = None
    as_of: Time | None = None
    now: Time | None = None
    tier: TierName | None = None
