"""POST /api/ingest: free text structured by a language model, as a job; GET /api/jobs/{id}."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from knowloom import tiers
from knowloom.errors import Conflict, Invalid
from knowloom.ports import LLM, Progress
from knowloom.server.dependencies import (
    get_engine,
    get_key,
    get_tier,
    refuse_filter,
    write_space,
)
from knowloom.server.jobs import Job, JobBoard
from knowloom.server.schemas.ingest import IngestBody, JobResponse
from knowloom.structuring.pipeline import IngestArguments
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import ingested_to_json

router = APIRouter(prefix="/api", tags=["knowledge"])


@router.post("/ingest", status_code=202, response_model=JobResponse)
def ingest(request: Request, body: IngestBody) -> JSONResponse:
    """Queue a text for the language model of the server, and respond with the job.

    Its result has the report, the structured layers and the name of the check-in record.
    """
    space, engine = write_space(request, body.space), get_engine(request)
    tiers.check_full(get_tier(request), "ingestion")
    refuse_filter(request, "ingest: the model chooses what is stored")
    llm: LLM | None = request.app.state.llm
    if llm is None:
        raise Conflict("this server has no language model: start it with KNOWLOOM_LLM", "no_llm")
    if not body.text.strip():
        raise Invalid("text must not be empty")
    options: IngestArguments = {
        "source": body.source,
        "max_retries": body.max_retries,
        "max_chars": body.max_chars,
        "again": body.again,
        "dry_run": body.dry_run,
    }

    def run(progress: Progress) -> JsonObject:
        ingested = engine.ingest(
            body.text,
            llm=llm,
            space=space,
            entity=body.entity,
            embed=body.embed,
            progress=progress,
            **options,
        )
        record = "" if ingested.record is None else ingested.record.name
        return ingested_to_json(ingested) | {"layers": dict(ingested.layers), "record": record}

    job = _get_board(request).submit(space, run)
    return JSONResponse(_job_to_json(job), 202, {"Location": f"/api/jobs/{job.id}"})


@router.get("/jobs/{id}", response_model=JobResponse)
def get_job(request: Request, id: str) -> JSONResponse:
    """Return the state of a job; it is available for a day after its end."""
    job = _get_board(request).get(id)
    get_key(request).check_write(job.space)
    refuse_filter(request, "read jobs: their results are not filtered")
    return JSONResponse(_job_to_json(job))


def _get_board(request: Request) -> JobBoard:
    board: JobBoard = request.app.state.jobs
    return board


def _job_to_json(job: Job) -> JsonObject:
    row = asdict(job)
    del row["process"]
    return row
