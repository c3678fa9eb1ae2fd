"""POST /api/assemble: document, retrieval, knowledge and memory in one text; GET /api/agents."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom.capabilities.assembler.model import AssemblyRequest
from knowloom.capabilities.assembler.strategies import build_assembler, validate_agent
from knowloom.recipes import RECIPES
from knowloom.server.dependencies import get_engine, get_tier, read_spaces, record_context
from knowloom.server.schemas.assembly import AssembleRequest
from knowloom.wire.assembly import assembly_sources_to_json, assembly_to_json
from knowloom.wire.recipes import agent_to_json

router = APIRouter(prefix="/api", tags=["context"])


@router.post("/assemble")
def assemble(request: Request, body: AssembleRequest) -> JSONResponse:
    """Assemble one text within the budget, and report the outcome of each strategy."""
    is_about_knowledge = body.spaces is None and body.document is None
    spaces = read_spaces(request, None if is_about_knowledge else body.spaces or [])
    engine = get_engine(request)
    validate_agent(engine.agents, body.agent)
    changes = {
        name: strategy.model_dump(exclude_none=True) for name, strategy in body.strategies.items()
    }
    assembly = build_assembler(engine, changes).assemble(
        AssemblyRequest(
            body.query,
            tuple(spaces),
            body.max_tokens,
            body.document,
            None if body.selection is None else (body.selection.start, body.selection.end),
            body.entity,
            body.agent,
            get_tier(request, body.tier),
            body.format,
            body.model,
            body.now,
            body.as_of,
            body.where,
            body.strict,
        )
    )
    record_context(request, assembly.tokens, assembly.degraded)
    sources = assembly_sources_to_json(assembly) if body.fragments else {}
    timings = {"timings_ms": dict(assembly.timings)}
    return JSONResponse(assembly_to_json(assembly) | sources | timings)


@router.get("/agents")
def list_agents(request: Request) -> JSONResponse:
    """List the agents that a request can name."""
    agents = get_engine(request).agents
    rows = [agent_to_json(agents[name]) for name in sorted(agents)]
    return JSONResponse({"agents": rows, "recipes": sorted(RECIPES)})
