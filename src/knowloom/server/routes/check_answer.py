"""POST /api/check_answer: the sentences of an answer that its context supports or contradicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom.capabilities.grounding.check import check_answer
from knowloom.capabilities.grounding.evidence import shown_items
from knowloom.engine import Engine
from knowloom.errors import Invalid
from knowloom.model import Context, Item
from knowloom.options import ContextArguments
from knowloom.server.dependencies import get_engine, get_tier, read_spaces, record_problems
from knowloom.server.schemas.grounding import CheckAnswerRequest
from knowloom.wire.contexts import problem_to_json
from knowloom.wire.grounding import answer_check_to_json

router = APIRouter(prefix="/api", tags=["context"])

MAX_TEXT = 1_000_000  # characters of all texts together
MAX_QUERY = 2000  # characters of an answer that stands in for the question
CONTEXT_OPTIONS = (
    *("recipe", "agent", "entity", "as_of", "now", "model", "strict", "max_tokens", "where"),
)


class _EngineEmbedder:
    """The engine's embedder, whose cache holds texts that were embedded before."""

    def __init__(self, engine: Engine) -> None:
        reader = engine.reader
        if reader.dimensions is None:
            raise Invalid("meaning requires an embedder, and this server has none")
        self.name, self.dimensions, self.fingerprint = "the engine", reader.dimensions, ""
        self.embed = reader.embed_texts


@router.post("/check_answer")
def check(request: Request, body: CheckAnswerRequest) -> JSONResponse:
    """Check each sentence of an answer, without a language model.

    Verdicts are supported, unsupported, contradicted and nothing_to_check.
    """
    is_about_knowledge = body.spaces is None and not body.texts
    spaces = read_spaces(request, None if is_about_knowledge else body.spaces or [])
    if not body.texts and not spaces:
        raise Invalid("nothing to check against: pass texts, or spaces and a question")
    size = sum(map(len, body.texts))
    if size > MAX_TEXT:
        raise Invalid(f"texts must have at most {MAX_TEXT:,} characters together, got {size:,}")
    embedder = _EngineEmbedder(get_engine(request)) if body.meaning else None
    sources: list[Item | str] = list(body.texts)
    problems: Sequence[object] = ()
    if spaces:
        context = _build_context(request, body, spaces)
        sources += shown_items(context)
        problems = [problem_to_json(problem) for problem in context.degraded]
    result = check_answer(body.answer, sources, embedder=embedder)
    return JSONResponse(answer_check_to_json(result) | {"degraded": list(problems)})


def _build_context(request: Request, body: CheckAnswerRequest, spaces: Sequence[str]) -> Context:
    """Build the context the tier may see; nothing else can support the answer."""
    values = {name: getattr(body, name) for name in CONTEXT_OPTIONS}
    options = {name: value for name, value in values.items() if value is not None}
    options["tier"] = get_tier(request, body.tier)
    question = body.answer[:MAX_QUERY] if body.question is None else body.question
    context = get_engine(request).context(
        question, spaces=spaces, **cast(ContextArguments, options)
    )
    record_problems(request, context.degraded)
    return context
