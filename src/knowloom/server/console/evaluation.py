"""POST /api/evaluate: retrieval measured on questions, as a stream of progress and a result."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from queue import Queue
from threading import Event, Thread
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from knowloom import tiers
from knowloom.engine import Engine
from knowloom.errors import Invalid, KnowloomError, unknown_name
from knowloom.evaluation import compare, evaluate, json_report
from knowloom.evaluation.questions import Question, question_from_row
from knowloom.server.bulk import NDJSON
from knowloom.server.dependencies import cpu_turn, get_engine, get_key, get_tier
from knowloom.server.schemas.fields import Name, RequestModel, Rows, SpaceNames, examples
from knowloom.wire import JsonObject

log = logging.getLogger("knowloom.http")

router = APIRouter(prefix="/api", tags=["context"])

MAX_QUESTIONS = 2000
Numbers = Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=5)]


class ConfigurationBody(RequestModel):
    """A configuration to measure: options of search and contexts, such as mode or depth."""

    name: Name
    options: dict[str, Any] = Field({})


class EvaluateRequest(RequestModel):
    """Questions with the ids of their answers, and one or two configurations."""

    model_config = examples(
        {
            "questions": [{"question": "How long do refunds take?", "expected": ["refund-policy"]}],
            "spaces": ["support"],
            "configurations": [{"name": "words", "options": {"mode": "bm25"}}],
        }
    )

    questions: Annotated[Rows, Field(min_length=1, max_length=MAX_QUESTIONS)]
    spaces: SpaceNames = None
    configurations: Annotated[list[ConfigurationBody], Field(min_length=1, max_length=2)]
    ks: Numbers = Field([2, 5, 10])
    budgets: Numbers = Field([512, 1024, 2048])
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class _Abandoned(Exception):
    """The client is gone: nobody waits for the result."""


@router.post("/evaluate", response_class=StreamingResponse)
def evaluate_questions(request: Request, body: EvaluateRequest) -> StreamingResponse:
    """Measure one configuration, or compare two.

    The response is JSON Lines: objects with `progress`, then one with `result` or `error`.
    """
    tiers.check_full(get_tier(request), "evaluation")
    spaces, questions = _read_questions(request, body)
    engine = get_engine(request)
    tasks = evaluate.assign_spaces(engine, questions, spaces)
    evaluate.resolve_expected(engine, tasks)  # raises before the response begins
    lines: Queue[JsonObject | None] = Queue()
    abandoned = Event()

    def run() -> None:
        try:
            with cpu_turn(request):
                lines.put({"result": _measure(engine, tasks, body, lines, abandoned)})
        except _Abandoned:
            log.info("evaluation abandoned")
        except KnowloomError as error:
            detail = {"status": error.status, "code": error.code, "detail": str(error)}
            lines.put({"error": detail})
        except Exception:  # the status of the response is sent already
            log.exception("evaluation failed")
            lines.put({"error": {"status": 500, "code": "error", "detail": "internal error"}})
        finally:
            lines.put(None)

    Thread(target=run, name="knowloom-evaluation", daemon=True).start()
    return StreamingResponse(_stream(lines, abandoned), media_type=NDJSON)


def _stream(lines: Queue[JsonObject | None], abandoned: Event) -> Iterator[str]:
    try:
        while (line := lines.get()) is not None:
            yield json.dumps(line) + "\n"
    finally:
        abandoned.set()


def _read_questions(
    request: Request, body: EvaluateRequest
) -> tuple[list[str], tuple[Question, ...]]:
    """Return the default spaces and the questions, all of which the key may read."""
    key, reader = get_key(request), get_engine(request).reader
    spaces = key.visible(reader.resolve_spaces()) if body.spaces is None else body.spaces
    questions = tuple(
        question_from_row(row, str(number), f"questions[{number - 1}]")
        for number, row in enumerate(body.questions, 1)
    )
    key.check_stored(sorted({*spaces, *(name for q in questions for name in q.spaces)}))
    if len({question.id for question in questions}) < len(questions):
        raise Invalid("questions: two have the same id")
    for configuration in body.configurations:
        for option in configuration.options:
            if option not in evaluate.OPTIONS:
                raise unknown_name("option", option, evaluate.OPTIONS)
    return list(spaces), questions


def _measure(
    engine: Engine,
    tasks: Sequence[Question],
    body: EvaluateRequest,
    lines: Queue[JsonObject | None],
    abandoned: Event,
) -> JsonObject:
    def report(stage: str, done: int, total: int) -> None:
        if abandoned.is_set():
            raise _Abandoned
        lines.put({"progress": {"stage": stage, "done": done, "total": total}})

    evaluations = [
        evaluate.evaluate(
            engine,
            tasks,
            ks=body.ks,
            budgets=body.budgets,
            name=configuration.name,
            progress=report,
            **configuration.options,
        )
        for configuration in body.configurations
    ]
    rows = [
        json_report.evaluation_to_json(each, body.seed)
        | {"answers": json_report.answers_to_json(each)}
        for each in evaluations
    ]
    result: JsonObject = {"configurations": rows}
    if len(evaluations) == 2:
        comparison = compare.compare(*evaluations, seed=body.seed)
        result["comparison"] = json_report.comparison_to_json(comparison)
    return result
