"""Errors as problem details (RFC 9457): the right status, a message that names the field, nothing of the inside."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from weft.errors import WeftError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "Bad request",
    401: "Key required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    412: "Precondition failed",
    413: "Body too large",
    415: "Unsupported media type",
    421: "Wrong host",
    422: "Not acceptable",
    429: "Too many requests",
    500: "Internal error",
    501: "Not installed",
    503: "Unavailable",
}


def problem(status: int, detail: str, code: str, errors: Sequence[dict[str, Any]] = (), headers: dict[str, str] | None = None) -> JSONResponse:
    body: dict[str, Any] = {"type": f"urn:weft:{code}", "title": TITLES.get(status, "Error"), "status": status, "detail": detail, "code": code}
    if errors:
        body["errors"] = list(errors)
    return JSONResponse(body, status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """One handler for each kind of error."""
    app.add_exception_handler(WeftError, _weft)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


async def _weft(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, WeftError)
    if error.status >= 500:
        log.error("request failed: %s", error.code)
    # The library names the spaces that exist; a stranger is not told.
    detail = str(error).partition(";")[0] if error.code == "unknown_space" else str(error)
    return problem(error.status, detail, error.code)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Which fields are wrong and how; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    found = [{"field": ".".join(map(str, one["loc"][1:])) or "body", "message": one["msg"]} for one in error.errors()]
    if any(one["type"] == "json_invalid" for one in error.errors()):
        return problem(400, "the body is not JSON", "malformed", found)
    return problem(422, "; ".join(f"{one['field']}: {one['message']}" for one in found[:5]), "invalid", found)


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail), TITLES.get(error.status_code, "error").lower().replace(" ", "_"), headers=dict(error.headers or {}))


async def _unforeseen(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RecursionError):
        return problem(400, "the body is nested too deeply", "malformed")
    log.error("request failed: %s", type(error).__name__, exc_info=error)
    return problem(500, "something went wrong inside; the log has the reason", "error")
