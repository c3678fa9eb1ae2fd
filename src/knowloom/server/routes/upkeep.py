"""Routes for admins: backups, erasure, retention and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from knowloom.maintenance import Maintenance
from knowloom.ports import AuditEntry
from knowloom.server.dependencies import get_engine, get_key, write_space
from knowloom.server.keys.api_keys import ALL_SPACES, ApiKey
from knowloom.server.schemas.client_api import BackupRequest, PurgeRequest, RetentionRequest
from knowloom.wire.upkeep import audit_to_json, backup_to_json, backups_to_json, purged_to_json

Names = Annotated[list[str] | None, Query(max_length=200)]
Text = Annotated[str, Query(max_length=500)]

router = APIRouter(prefix="/api", tags=["operations"])


def _maintenance(request: Request) -> Maintenance:
    get_key(request).check_role("admin")
    return get_engine(request).maintenance


@router.post("/backup")
def backup(request: Request, body: BackupRequest) -> JSONResponse:
    """Write a verified backup beside the knowledge. Requires an admin of all spaces."""
    get_key(request).check_all("write")
    keyring = request.app.state.keyring
    file = keyring.file if keyring is not None else None
    keys = file if file is not None and file.exists() else None
    result = _maintenance(request).backup(keep=body.keep, keys=keys)
    return JSONResponse(backup_to_json(result))


@router.get("/backups")
def list_backups(request: Request) -> JSONResponse:
    """List the backups that were written. Requires an admin of all spaces."""
    get_key(request).check_all("read")
    return JSONResponse(backups_to_json(_maintenance(request).backups()))


@router.post("/purge")
def purge(request: Request, body: PurgeRequest) -> JSONResponse:
    """Erase items with all traces of their texts. Requires the role admin."""
    maintenance = _maintenance(request)
    result = maintenance.purge(body.ids, space=write_space(request, body.space))
    return JSONResponse(purged_to_json(result))


@router.get("/retention")
def show_retention(request: Request) -> JSONResponse:
    """Return the days that the history of each limited space is kept. Requires the role admin."""
    days = _maintenance(request).retention()
    visible = get_key(request).visible(sorted(days))
    return JSONResponse({"retention": {space: days[space] for space in visible}})


@router.post("/retention")
def set_retention(request: Request, body: RetentionRequest) -> JSONResponse:
    """Limit the history of a space and erase what is older. Requires the role admin."""
    maintenance = _maintenance(request)
    erased = maintenance.set_retention(write_space(request, body.space), body.days)
    return JSONResponse({"erased": erased})


@router.get("/audit")
def audit(
    request: Request,
    space: Names = None,
    id: Text = "",
    actor: Text = "",
    action: Names = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> JSONResponse:
    """Return who did what to which item and when, newest first. Requires the role admin.

    A key that may not read all spaces gets the entries of those that it may read.
    """
    key, spaces = get_key(request), space or ()
    key.check_read(spaces)
    maintenance = _maintenance(request)
    if not spaces and ALL_SPACES not in {*key.reads, *key.writes}:
        spaces = sorted({*key.reads, *key.writes})
    entries = maintenance.audit(
        spaces,
        id=id,
        actor=actor,
        actions=action or (),
        since=since,
        until=until,
        limit=limit,
        before=before,
    )
    return JSONResponse(audit_to_json([entry for entry in entries if _can_see(key, entry)]))


def _can_see(key: ApiKey, entry: AuditEntry) -> bool:
    """Return True unless an end of the entry's edge is in a space that the key may not read."""
    spaces = [space for space, _ in entry.link[:2]] if entry.link else []
    return key.visible(spaces) == spaces
