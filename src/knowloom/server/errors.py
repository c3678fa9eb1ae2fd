"""Errors as problem details (RFC 9457), without internals."""

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

from knowloom.errors import DeadlineExceeded, KnowloomError, NotFound, unknown_space

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
    504: "Deadline exceeded",
}
CODES = {
    400: "malformed",
    404: "no_route",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    429: "rate_limited",
}
SCHEMA = {
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
MAX_FIELDS = 20  # invalid fields in one response
MAX_DETAIL = 5  # invalid fields in its detail


class LenientJSONResponse(JSONResponse):
    """A JSON response whose text may contain lone surrogates, which are escaped."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def problem_response(
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
    return LenientJSONResponse(body, status, headers, media_type=MEDIA_TYPE)


def install_handlers(app: FastAPI) -> None:
    app.add_exception_handler(KnowloomError, _handle_knowloom_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_error)


async def reject_unknown_parameters(request: Request) -> None:
    """Raise for query parameters that the route does not have: they are probably misspelled.

    A dependency of every route; async, because sync dependencies take a worker thread.
    """
    if not request.query_params:
        return
    names = {field.alias for field in request.scope["route"].dependant.query_params}
    message = f"unknown parameter; available: {', '.join(sorted(names)) or 'none'}"
    fault = {"type": "extra_forbidden", "msg": message}
    unknown = [name for name in request.query_params if name not in names]
    if unknown:
        raise RequestValidationError([{"loc": ("query", name)} | fault for name in unknown])


async def _handle_knowloom_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowloomError)
    if error.status >= 500 and not isinstance(error, DeadlineExceeded):
        log.error("request failed: %s: %s", error.code, error)
        detail = "the request cannot be served now; see the server log"
        return problem_response(error.status, detail, error.code)
    if isinstance(error, NotFound) and error.space:  # lists all spaces, which a client may not know
        error = unknown_space(error.space, request.state.key.visible(error.available))
    detail = str(error)
    return problem_response(error.status, detail, error.code)


async def _handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
    """Report the invalid fields without repeating their values."""
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return problem_response(400, "the body is not JSON", "malformed")
    fields = [
        {
            "field": ".".join(str(part)[:100] for part in fault["loc"][1:]) or "body",
            "message": fault["msg"],
        }
        for fault in faults[:MAX_FIELDS]
    ]
    detail = "; ".join(f"{field['field']}: {field['message']}" for field in fields[:MAX_DETAIL])
    return problem_response(422, detail, "invalid", fields)


async def _handle_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = "the body is not JSON" if error.status_code == 400 else str(error.detail)
    code = CODES.get(error.status_code, "error")
    return problem_response(error.status_code, detail, code, headers=dict(error.headers or {}))


def internal_error(error: Exception) -> JSONResponse:
    """Log the location of an unexpected error, not its message, which may hold the user's text."""
    if isinstance(error, RecursionError):
        return problem_response(400, "the body is nested too deeply", "malformed")
    places = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in reversed(extract_tb(error.__traceback__)[-5:])
    )
    log.error("request failed: %s at %s", type(error).__name__, places)
    return problem_response(500, "internal error; see the server log", "error")
