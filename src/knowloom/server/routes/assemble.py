"""POST /api/assemble: a document, its selection, retrieval, knowledge and memory under one budget; GET /api/agents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from knowloom.capabilities.assembler.model import AssemblyRequest
from knowloom.capabilities.assembler.strategies import build_assembler, validate_agent
from knowloom.server.dependencies import engine, key_of, metrics, tier_of
from knowloom.server.schemas import Format, Fraction, Model, Name, Names, Shape, TierName, Time
from knowloom.wire import assembly
from knowloom.wire.contexts import agent_to_json

routes = APIRouter(prefix="/api", tags=["context"])


class DocumentBody(Shape):
    """A document as an editor has it."""

    id: Annotated[str, Field(max_length=500)] = ""
    title: Annotated[str, Field(max_length=10_000)] = ""
    content: Annotated[str, Field(max_length=10_000_000)]


class SelectionBody(Shape):
    """Where the selection begins and ends, in characters of the document's content."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class StrategyBody(Shape):
    """What is changed of a strategy."""

    priority: Annotated[
        float | None,
        Field(ge=-1e6, le=1e6, allow_inf_nan=False, description="The lowest stands first"),
    ] = None
    enabled: bool | None = None
    required: bool | None = None
    timeout_s: Annotated[float | None, Field(gt=0, le=30, allow_inf_nan=False)] = None
    share: Annotated[
        Fraction | None, Field(description="Of the budget: what it is sure to get if it can use it")
    ] = None


class AssembleRequest(Shape):
    """Ask for everything an agent should see, as one text: the strategies document, selection, retrieval, knowledge and memory."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "How do I process a refund?",
                    "spaces": ["support"],
                    "document": {"content": "Dear team, …"},
                }
            ]
        }
    )

    query: Annotated[str, Field(max_length=100_000)]
    spaces: Names = Field([])
    document: DocumentBody | None = None
    selection: SelectionBody | None = None
    max_tokens: Annotated[int | None, Field(ge=0, le=10_000_000, description="null: no limit")] = (
        8000
    )
    agent: Annotated[Name | None, Field(description="Whose recipes gather the knowledge")] = None
    tier: TierName | None = None
    entity: Name | None = None
    format: Format = "markdown"
    model: Model = "gpt-4"
    as_of: Time | None = None
    now: Time | None = None
    strategies: dict[str, StrategyBody] = Field(
        {}, max_length=50, description="What is changed of a strategy, by its name"
    )
    fragments: Annotated[
        bool, Field(description="Also give the pieces that the text is made of")
    ] = False


@routes.post("/assemble")
def assemble(request: Request, asked: AssembleRequest) -> JSONResponse:
    """One text within the budget, and of each strategy what it asked for, what it got, and why."""
    key_of(request).check_read(asked.spaces)
    validate_agent(engine(request).agents, asked.agent)
    changed = {name: one.model_dump(exclude_none=True) for name, one in asked.strategies.items()}
    found = build_assembler(engine(request), changed).assemble(
        AssemblyRequest(
            asked.query,
            tuple(asked.spaces),
            asked.max_tokens,
            asked.document,
            None if asked.selection is None else (asked.selection.start, asked.selection.end),
            asked.entity,
            asked.agent,
            tier_of(request, asked.tier),
            asked.format,
            asked.model,
            asked.now,
            asked.as_of,
        )
    )
    metrics(request).tokens.inc(found.tokens)
    for one in found.degraded:
        metrics(request).degraded.labels(one.code).inc()
    made_of = assembly.assembly_sources_to_json(found) if asked.fragments else {}
    return JSONResponse(
        assembly.assembly_to_json(found) | made_of | {"timings_ms": dict(found.timings)}
    )


@routes.get("/agents")
def agents(request: Request) -> JSONResponse:
    """The agents a request can name."""
    table = engine(request).agents
    return JSONResponse({"agents": [agent_to_json(table[name]) for name in sorted(table)]})
