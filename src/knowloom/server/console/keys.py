"""Routes of API keys: the rights of the own key, and keys that admins create and revoke."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from knowloom.errors import Conflict, Forbidden, NotFound
from knowloom.server.auth import Keyring
from knowloom.server.dependencies import get_key
from knowloom.server.keys.api_keys import ALL_SPACES, ApiKey
from knowloom.server.schemas.fields import Name, Names, RequestModel, TierName, Where, examples
from knowloom.tiers import TIERS
from knowloom.wire import JsonObject

router = APIRouter(prefix="/api", tags=["keys"])

SHOWN = ("id", "name", "role", "tier", "reads", "writes", "created_at", "revoked_at")


class KeyRequest(RequestModel):
    """A key to create: its role, and the spaces that it may read, or read and write."""

    model_config = examples({"name": "reporting", "reads": ["support"], "role": "viewer"})

    name: Name
    reads: Names = Field([])
    writes: Names = Field([])
    role: Annotated[str, Field(max_length=50, description="viewer, editor or admin")] = "viewer"
    tier: TierName = "teams"
    where: Where = None


@router.get("/key")
def own_key(request: Request) -> JSONResponse:
    """Return the role and the spaces of the key of this request, and if the server has keys."""
    key = get_key(request)
    keyring = request.app.state.keyring
    is_open = keyring is None or keyring.is_open()
    return JSONResponse(key_to_json(key) | {"filtered": bool(key.where), "open": is_open})


@router.get("/keys")
def list_keys(request: Request) -> JSONResponse:
    """List the keys without their secrets, as far as the admin may use their spaces."""
    key = get_key(request)
    key.check_role("admin")
    keyring: Keyring | None = request.app.state.keyring
    stored = [] if keyring is None else keyring.keys()
    rows = [key_to_json(other) for other in stored if _covers(key, other.reads, other.writes)]
    return JSONResponse({"keys": rows, "open": keyring is None})


@router.post("/keys", status_code=201)
def create_key(request: Request, body: KeyRequest) -> JSONResponse:
    """Create a key with no more rights than the admin's own; its secret is shown only now."""
    key = get_key(request)
    key.check_role("admin")
    keyring = _open_keyring(request)
    if not _covers(key, body.reads, body.writes):
        raise Forbidden("a key may not have spaces that the key of its creator does not have")
    order = list(TIERS)
    if order.index(body.tier) > order.index(key.tier):
        raise Forbidden(f"tier must not be above {key.tier!r}, the tier of the key of its creator")
    created, secret = keyring.add(
        body.name,
        reads=body.reads,
        writes=body.writes,
        role=body.role,
        tier=body.tier,
        where=body.where,
        now=datetime.now(UTC),
    )
    return JSONResponse(key_to_json(created) | {"secret": secret}, 201)


@router.post("/keys/{id}/revoke")
def revoke_key(request: Request, id: str) -> JSONResponse:
    """Revoke a key at once, on every server that uses the key file."""
    key = get_key(request)
    key.check_role("admin")
    keyring = _open_keyring(request)
    stored = {other.id: other for other in list(keyring.keys())}.get(id)
    if stored is None or not _covers(key, stored.reads, stored.writes):
        raise NotFound(f"unknown key {id!r}")
    return JSONResponse(key_to_json(keyring.revoke(id, datetime.now(UTC))))


def key_to_json(key: ApiKey) -> JsonObject:
    values = {name: getattr(key, name) for name in SHOWN}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def _open_keyring(request: Request) -> Keyring:
    keyring: Keyring | None = request.app.state.keyring
    if keyring is None:
        message = 'this server has no keys: run "knowloom keys add" and restart it'
        raise Conflict(message, "no_keys")
    return keyring


def _covers(key: ApiKey, reads: Sequence[str], writes: Sequence[str]) -> bool:
    """Return True if the key has all these spaces itself."""
    if key.where:
        return False
    may_read, may_write = {*key.reads, *key.writes}, set(key.writes)
    return (ALL_SPACES in may_read or set(reads) <= may_read) and (
        ALL_SPACES in may_write or set(writes) <= may_write
    )
