"""Errors as problem details (RFC 9457): the right status, a message that names the field, nothing of the inside."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from knowloom.errors import KnowloomError

log = logging.getLogger("knowloom.http")

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "Bad request",
    401: "Key required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Body too slow",
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
CODES = {
    400: "malformed",
    404: "no_route",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail", "code")},
        "status": {"type": "integer"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "example": {
        "type": "urn:knowloom:invalid",
        "title": "Not acceptable",
        "status": 422,
        "detail": "entry_limit: Input should be less than or equal to 1000",
        "code": "invalid",
        "errors": [
            {"field": "entry_limit", "message": "Input should be less than or equal to 1000"}
        ],
    },
}


class Json(JSONResponse):
    """JSON of anything, also of text that is not Unicode: half a surrogate pair is written as its escape."""

    def render(self, content: Any) -> bytes:
        return json.dumps(
            content, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode("utf-8", "backslashreplace")


def problem(
    status: int,
    detail: str,
    code: str,
    errors: Sequence[dict[str, Any]] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    body: dict[str, Any] = {
        "type": f"urn:knowloom:{code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "code": code,
    }
    if errors:
        body["errors"] = list(errors)
    return Json(body, status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """One handler for each kind of error."""
    app.add_exception_handler(KnowloomError, _knowloom)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def known_parameters(request: Request) -> None:
    """A dependency of every route: a parameter that it does not have was meant to be another. Async, as others take a worker."""
    if not request.query_params:
        return
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    message = f"no such parameter; known: {', '.join(sorted(known)) or 'none'}"
    if wrong := [name for name in request.query_params if name not in known]:
        raise RequestValidationError(
            [{"loc": ("query", name), "type": "extra_forbidden", "msg": message} for name in wrong]
        )


async def _knowloom(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowloomError)
    if error.status >= 500:
        log.error("request failed: %s: %s", error.code, error)
        return problem(
            error.status,
            "this cannot be done now; the log of the server has the reason",
            error.code,
        )
    # The library names the spaces that exist; a stranger is not told.
    detail = str(error).partition(";")[0] if error.code == "unknown_space" else str(error)
    return problem(error.status, detail, error.code)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Which fields are wrong and how; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    found = [
        {
            "field": ".".join(str(part)[:100] for part in one["loc"][1:]) or "body",
            "message": one["msg"],
        }
        for one in error.errors()[:20]
    ]
    if any(one["type"] == "json_invalid" for one in error.errors()):
        return problem(400, "the body is not JSON", "malformed")
    return problem(
        422, "; ".join(f"{one['field']}: {one['message']}" for one in found[:5]), "invalid", found
    )


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = "the body is not JSON" if error.status_code == 400 else str(error.detail)
    return problem(
        error.status_code,
        detail,
        CODES.get(error.status_code, "error"),
        headers=dict(error.headers or {}),
    )


def unforeseen(error: Exception) -> JSONResponse:
    """Where it happened goes to the log; what the error says does not, as that may be the user's text."""
    if isinstance(error, RecursionError):
        return problem(400, "the body is nested too deeply", "malformed")
    places = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in reversed(extract_tb(error.__traceback__)[-5:])
    )
    log.error("request failed: %s at %s", type(error).__name__, places)
    return problem(
        500, "something went wrong inside; the log of the server has the reason", "error"
    )
