"""GET /: the console for browsers, an overview of the server as JSON for programs."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from knowloom import __version__
from knowloom.server.middleware import CONSOLE_ASSETS

router = APIRouter()

STATIC = Path(__file__).parent / "static"
# No inline code, no other server, and no text of an item can become markup.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # an upgraded server must not meet scripts of an older one
}


class ConsoleFiles(StaticFiles):
    """The files of the console, with its security headers."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


def mount_files(app: FastAPI) -> None:
    """Serve the scripts and styles of the console, which need no key."""
    app.mount(CONSOLE_ASSETS, ConsoleFiles(directory=STATIC))


@router.get("/", include_in_schema=False)
async def overview(request: Request) -> Response:
    """Return the console to a browser, else the addresses of the server."""
    if "text/html" in request.headers.get("accept", ""):
        return FileResponse(STATIC / "index.html", headers=HEADERS | {"Vary": "Accept"})
    addresses = {
        "name": "knowloom",
        "version": __version__,
        "documentation": "/docs",
        "openapi": "/openapi.json",
        "health": "/healthz",
    }
    return JSONResponse(addresses, headers={"Vary": "Accept"})
