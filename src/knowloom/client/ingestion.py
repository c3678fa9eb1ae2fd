"""Ingestion on a server: send a text, wait for its job, return the result of the engine."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Unpack

from knowloom.client.transport import Transport, error_class
from knowloom.errors import Unavailable
from knowloom.ports import Progress
from knowloom.structuring.pipeline import IngestArguments, Ingested
from knowloom.validation import validate_positive
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import ingested_from_json

FIRST_POLL_S, MAX_POLL_S = 0.05, 2.0
WAIT_S = 1800.0


def ingest_remotely(
    transport: Transport,
    text: str,
    *,
    space: str | None,
    entity: str | None,
    embed: bool,
    wait_s: float,
    progress: Progress | None,
    **options: Unpack[IngestArguments],
) -> Ingested:
    """Return the result of a job of the server; see `Client.ingest`."""
    validate_positive("wait_s", wait_s)
    body: JsonObject = {"text": text, "space": space, "entity": entity, "embed": embed, **options}
    job, start, pause_s = transport.write("/api/ingest", body, dict), monotonic(), FIRST_POLL_S
    seen: object = None
    while job["status"] in ("waiting", "running"):
        if monotonic() - start > wait_s:
            raise Unavailable(
                f"job {job['id']} was not done within {wait_s:g} s; it goes on on the server, and "
                "the same text will be recognised",
                "timeout",
            )
        sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_POLL_S)
        job = transport.read(f"/api/jobs/{job['id']}", None, dict)
        step = job["progress"]
        if progress is not None and step is not None and step != seen:
            progress(step["stage"], step["done"], step["total"])
            seen = step
    if job["status"] == "failed":
        problem = job["error"]
        raise error_class(problem["status"], problem["code"])(problem["detail"], problem["code"])
    return ingested_from_json(job["result"])
