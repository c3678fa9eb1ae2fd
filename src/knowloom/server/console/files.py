"""POST /api/spaces/{space}/files: documents as a browser uploads them."""

from __future__ import annotations

import base64
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from knowloom.errors import Invalid
from knowloom.loading.json_rows import ROW_READERS
from knowloom.loading.source_rows import NamedBytes
from knowloom.report import Report, Skipped
from knowloom.server.dependencies import get_engine, get_key
from knowloom.server.errors import LenientJSONResponse
from knowloom.server.routes.knowledge import SpaceName
from knowloom.server.schemas.fields import Embed, RequestModel, examples
from knowloom.wire.knowledge import report_to_json

router = APIRouter(prefix="/api", tags=["knowledge"])

NOTEBOOK = ".ipynb"  # JSON that is a document
ROWS_REASON = "rows of JSON: send them to /api/spaces/{space}/bulk, which checks their spaces"


class FileBody(RequestModel):
    """A file: its path, which names its items, and its bytes in base64."""

    path: Annotated[str, Field(min_length=1, max_length=500)]
    content: Annotated[str, Field(description="The bytes in base64")]


class FilesRequest(RequestModel):
    """Documents to load. The same path again replaces the items that it brought before."""

    model_config = examples({"files": [{"path": "refunds.md", "content": "IyBSZWZ1bmRz"}]})

    files: Annotated[list[FileBody], Field(min_length=1, max_length=200)]
    embed: Embed = True


@router.post("/spaces/{space}/files")
def load_files(request: Request, space: SpaceName, body: FilesRequest) -> JSONResponse:
    """Load documents; files that cannot be read are reported as skipped."""
    get_key(request).check_write(space)
    report = Report()
    for file in body.files:
        report += _load_file(request, space, file, body.embed)
    return LenientJSONResponse(report_to_json(report))


def _load_file(request: Request, space: str, file: FileBody, embed: bool) -> Report:
    path = _clean_path(file.path)
    try:
        data = base64.b64decode(file.content, validate=True)
    except ValueError:  # binascii.Error, or characters beyond ASCII
        raise Invalid(f"content of {file.path!r} is not base64") from None
    suffix = PurePosixPath(path).suffix.lower()
    # Rows name their spaces themselves: here nothing would check them against the key.
    has_rows = suffix in ROW_READERS or (suffix != NOTEBOOK and data.lstrip()[:1] == b"{")
    if has_rows:
        return Report(skipped=(Skipped(path, "the whole file", ROWS_REASON),))
    return get_engine(request).load(NamedBytes(path, data), space=space, embed=embed)


def _clean_path(path: str) -> str:
    """Return a relative path without empty parts; raise Invalid if it leaves its folder."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise Invalid(f"path must name a file inside a folder, got {path!r}")
    return "/".join(parts)
