"""POST /api/provide: knowledge by prompt section."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom import tiers
from knowloom.capabilities.provider.formats import Format
from knowloom.capabilities.provider.provider import Provider
from knowloom.server.dependencies import get_engine, get_tier, read_spaces, record_context
from knowloom.server.schemas.provision import ProvideRequest, ProvideResponse
from knowloom.templates.sandbox import Limits
from knowloom.templates.template import Template
from knowloom.wire.provision import provision_to_json

# Of the templates that users post.
POSTED = Limits(memory_mb=64, cpu_s=0.25)

router = APIRouter(prefix="/api", tags=["context"])


@router.post("/provide", response_model=ProvideResponse)
def provide(request: Request, body: ProvideRequest) -> JSONResponse:
    """Return the entity's profile, pieces found by search, and its links, by prompt section."""
    options = body.model_dump(exclude={"query", "spaces", "formats", "now", "as_of", "tier"})
    options["spaces"] = read_spaces(request, body.spaces)
    options["tier"] = tier = get_tier(request, body.tier)
    if body.formats:
        tiers.check_custom(tier, "custom formats")  # before a template runs
        options["formats"] = _parse_formats(body)
    provider = Provider(get_engine(request), **options)
    provision = provider.provide(body.query, now=body.now, as_of=body.as_of)
    record_context(request, provision.tokens, provision.degraded)
    return JSONResponse(provision_to_json(provision))


def _parse_formats(body: ProvideRequest) -> dict[str, Format]:
    return {
        section: value if isinstance(value, str) else Template(value.source, value.engine, POSTED)
        for section, value in body.formats.items()
    }
