"""POST /api/check_answer: which sentences of an answer its context supports, and which it contradicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from knowloom.capabilities.grounding.check import check_answer
from knowloom.capabilities.grounding.evidence import shown_items
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.model import Context, Item
from knowloom.server.dependencies import engine, key_of, metrics, tier_of
from knowloom.server.schemas import Model, Name, Names, Shape, TierName, Time
from knowloom.wire.contexts import problem_to_json
from knowloom.wire.grounding import answer_check_to_json

routes = APIRouter(prefix="/api", tags=["context"])

MOST_TEXT = 1_000_000  # characters of all texts together
EXAMPLES: list[Any] = [
    {
        "answer": "Gift cards are not refundable.",
        "question": "How are gift cards refunded?",
        "spaces": ["support"],
    },
    {"answer": "Refunds take 9 days.", "texts": ["Refunds take 3 days."]},
]


class CheckAnswerRequest(Shape):
    """Hold an answer against texts, against the context that the spaces have for a question, or against both."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})

    answer: Annotated[str, Field(max_length=100_000)]
    texts: Annotated[
        list[str],
        Field(max_length=200, default_factory=list, description="What it must be supported by"),
    ]
    question: Annotated[
        str | None,
        Field(
            max_length=100_000,
            description="What was asked; null: the answer itself is searched for",
        ),
    ] = None
    spaces: Names = Field(default_factory=list)
    recipe: Annotated[
        Name | None, Field(description="How the context is gathered; null: knowledge")
    ] = None
    agent: Annotated[Name | None, Field(description="Instead of a recipe")] = None
    max_tokens: Annotated[
        int, Field(ge=0, le=1_000_000, description="The budget of that context")
    ] = 4000
    model: Model = "gpt-4"
    entity: Name | None = None
    meaning: Annotated[
        bool,
        Field(
            description="Also take what says the same in other words for support, with the embedder"
        ),
    ] = False
    as_of: Time | None = None
    now: Time | None = None
    tier: TierName | None = None


class _Meaning:
    """The engine's own embedder, which remembers texts."""

    def __init__(self, kb: Engine) -> None:
        if kb.reader.dimensions is None:
            raise Invalid("meaning needs an embedder, and this server has none")
        self.name, self.dimensions, self.fingerprint = "the engine", kb.reader.dimensions, ""
        self.embed = kb.reader.embed_texts


@routes.post("/check_answer")
def check(request: Request, asked: CheckAnswerRequest) -> JSONResponse:
    """Every sentence of an answer with its verdict, without a language model: supported, unsupported, contradicted, nothing_to_check."""
    key_of(request).check_read(asked.spaces)
    if not asked.texts and not asked.spaces:
        raise Invalid("nothing to hold it against: give texts, or spaces and a question")
    if sum(map(len, asked.texts)) > MOST_TEXT:
        raise Invalid(
            f"texts have {sum(map(len, asked.texts)):,} characters together; the most is {MOST_TEXT:,}"
        )
    kb = engine(request)
    meaning = _Meaning(kb) if asked.meaning else None
    found = _context(request, asked, kb) if asked.spaces else None
    items: Sequence[Item | str] = [*asked.texts, *(shown_items(found) if found is not None else ())]
    checked = check_answer(asked.answer, items, embedder=meaning)
    degraded = [] if found is None else [problem_to_json(one) for one in found.degraded]
    return JSONResponse(answer_check_to_json(checked) | {"degraded": degraded})


def _context(request: Request, asked: CheckAnswerRequest, kb: Engine) -> Context:
    """What the tier lets the request see; nothing else can support an answer."""
    names = ("recipe", "agent", "entity", "as_of", "now", "model", "max_tokens")
    options = {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    question = asked.answer[:2000] if asked.question is None else asked.question
    found = kb.context(question, spaces=asked.spaces, tier=tier_of(request, asked.tier), **options)
    for one in found.degraded:
        metrics(request).degraded.labels(one.code).inc()
    return found
