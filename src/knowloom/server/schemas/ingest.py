"""Request and responses of /api/ingest and /api/jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from knowloom.server.schemas.fields import Embed, Label, Name, RequestModel, examples
from knowloom.structuring.pipeline import MAX_RETRIES, MAX_TEXT


class IngestBody(RequestModel):
    """Structure free text with the language model of the server and store it."""

    model_config = examples(
        {
            "space": "support",
            "text": "Anything over 100 bucks has to go through Maya before we refund it.",
            "entity": "user:maya",
        }
    )

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    space: Annotated[Name | None, Field(description="null: the only space of the key")] = None
    entity: Annotated[
        Name | None, Field(description="The entity that the text is about, such as user:maya")
    ] = None
    source: Annotated[Label, Field(description="Where the text comes from")] = ""
    max_retries: Annotated[
        int, Field(ge=0, le=MAX_RETRIES, description="After an invalid answer of the model")
    ] = 3
    max_chars: Annotated[int, Field(ge=500, le=200_000, description="Per chunk")] = 12_000
    again: Annotated[
        bool, Field(description="Call the model even for a text that has a record")
    ] = False
    dry_run: Annotated[bool, Field(description="Write the record, but store nothing")] = False
    embed: Embed = True


class JobResponse(BaseModel):
    """The state of a job."""

    id: str
    status: Literal["waiting", "running", "done", "failed"]
    space: str
    submitted_at: str
    progress: Annotated[
        dict[str, Any] | None, Field(description="`stage`, `done` and `total` of its steps")
    ]
    result: Annotated[dict[str, Any] | None, Field(description="When it is done")]
    error: Annotated[
        dict[str, Any] | None,
        Field(description="When it failed: `status`, `code` and `detail` of the problem"),
    ]
