"""POST /api/ingest, GET /api/jobs/{id} and Client.ingest, with a language model on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from structured_text import TEXT

import knowloom
from fake_llm import FakeLLM, Say
from http_api import NOW, bearer, create_secret
from knowloom import Client, Conflict, Engine, Forbidden, Invalid, NotFound, Unavailable
from knowloom.cli.session import Session
from knowloom.ports import Completion
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from knowloom.server.jobs import Job, JobBoard
from knowloom.server.settings import ServerLimits
from live_server import serving

PIECE = {
    "piece_id": "refund-limit",
    "content": "Refunds above 100 dollars need Maya's approval.",
    "knowledge_type": "instruction",
    "info_type": "instructions",
}
ANSWER = Say(json.dumps({"pieces": [PIECE]}))
Limits = Callable[..., ServerLimits]


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Engine]:
    with knowloom.open(str(tmp_path / "knowledge.db"), embedder=None) as kb:
        yield kb


@pytest.fixture
def model() -> Iterator[Limits]:
    """Start a model that follows a script, and return the limits of a server that uses it."""
    with ExitStack() as stack:

        def start(*script: Say | str) -> ServerLimits:
            server = stack.enter_context(FakeLLM(script))
            return ServerLimits(llm=f"openai:fake@{server.base_url}", llm_api_key="k")

        yield start


@contextmanager
def connect(kb: Engine, limits: ServerLimits | None = None) -> Iterator[Client]:
    with serving(kb, None, limits) as address, Client(address) as client:
        yield client


@contextmanager
def post_to(
    kb: Engine, limits: ServerLimits | None = None, keyring: Keyring | None = None
) -> Iterator[TestClient]:
    app = create_app(kb, keyring, limits)
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def wait(client: TestClient, response: Any, **headers: Any) -> Any:
    assert response.status_code == 202, response.text
    address = response.headers["location"]
    for _ in range(400):
        job = client.get(address, **headers).json()
        if job["status"] in ("done", "failed"):
            return job
        time.sleep(0.005)
    raise AssertionError(job)


def test_a_text_is_structured_and_stored_by_a_job(kb: Engine, model: Limits) -> None:
    with post_to(kb, model(ANSWER)) as client:
        body = {"text": TEXT, "space": "team", "entity": "user:maya"}
        response = client.post("/api/ingest", json=body)
        assert response.json()["status"] == "waiting"
        job = wait(client, response)
    assert (job["status"], job["error"], job["space"]) == ("done", None, "team")
    assert job["result"]["report"]["added"] == 2
    assert job["result"]["layers"]["pieces"][0]["piece_id"] == "refund-limit"
    assert "/" not in job["result"]["record"] and "process" not in job
    assert kb.get("refund-limit", space="team")[0].subject == "user:maya"


def test_the_client_returns_the_result_of_the_engine(
    kb: Engine, model: Limits, tmp_path: Path
) -> None:
    with connect(kb, model(ANSWER)) as client:
        steps: list[tuple[str, int, int]] = []
        first = client.ingest(TEXT, space="team", progress=lambda *step: steps.append(step))
        second = client.ingest(TEXT, space="team")
    assert (first.report.added, first.duplicate, second.duplicate) == (1, False, True)
    assert first.record is not None
    assert (tmp_path / "knowledge.db.checkins" / first.record / "record.json").is_file()
    assert first.layers == second.layers


def test_a_dry_run_stores_nothing(kb: Engine, model: Limits) -> None:
    with connect(kb, model(ANSWER)) as client:
        result = client.ingest(TEXT, space="team", dry_run=True)
    assert result.layers["pieces"] and kb.reader.spaces() == []


@pytest.mark.parametrize(
    ("script", "text", "error", "code"),
    [
        ([Say("no JSON at all")], TEXT, Unavailable, "unstructured"),
        (["500"], TEXT, Unavailable, "llm_failed"),
        ([], "key: AKIAQ3EGRFNTOIZXCVBN\npassword = hunter2hunter2hunter2", Invalid, "secret"),
        ([], "   ", Invalid, "invalid"),
    ],
)
def test_a_failed_job_raises_the_error_of_the_engine(
    kb: Engine, model: Limits, script: list[Any], text: str, error: type[Exception], code: str
) -> None:
    with connect(kb, model(*script)) as client, pytest.raises(error) as caught:
        client.ingest(text, space="team", max_retries=0)
    assert caught.value.code == code  # type: ignore[attr-defined]
    assert "127.0.0.1" not in str(caught.value)


def test_without_a_model_the_request_is_refused(kb: Engine) -> None:
    with connect(kb) as client, pytest.raises(Conflict, match="KNOWLOOM_LLM") as caught:
        client.ingest(TEXT, space="team")
    assert caught.value.code == "no_llm"


def test_a_job_needs_the_right_to_write_its_space(
    kb: Engine, model: Limits, keyring: Keyring
) -> None:
    reader = create_secret(keyring, reads=("team",))
    editor = create_secret(keyring, "editor", reads=(), writes=("team",))
    other = create_secret(keyring, "editor", reads=(), writes=("other",))
    limits = {"reads": (), "writes": ("team",), "role": "editor", "now": NOW}
    lower = keyring.add("lower", tier="writer_pro", **limits)[1]
    filtered = keyring.add("filtered", tier="teams", where={"a": 1}, **limits)[1]
    body = {"text": TEXT, "space": "team"}
    with post_to(kb, model(ANSWER), keyring) as client:
        for secret in (reader, other, lower, filtered):
            response = client.post("/api/ingest", json=body, headers=bearer(secret))
            assert response.status_code == 403, response.text
        response = client.post("/api/ingest", json=body, headers=bearer(editor))
        job = wait(client, response, headers=bearer(editor))
        assert job["status"] == "done"
        for secret in (reader, other):
            address = response.headers["location"]
            assert client.get(address, headers=bearer(secret)).status_code == 403


@pytest.mark.parametrize("id", ["x", "0" * 24, "..%2Fkeys", "0" * 23 + "G"])
def test_unknown_jobs_are_not_found(kb: Engine, id: str) -> None:
    with post_to(kb) as client:
        assert client.get(f"/api/jobs/{id}").status_code == 404


@pytest.mark.parametrize(
    "change",
    [{"text": ""}, {"text": 5}, {"max_chars": 10}, {"max_retries": 21}, {"text": "a" * 2_000_001}],
)
def test_bad_fields_are_refused_at_once(kb: Engine, model: Limits, change: dict[str, Any]) -> None:
    with post_to(kb, model()) as client:
        response = client.post("/api/ingest", json={"text": TEXT, "space": "team"} | change)
    assert response.status_code == 422


class Slow:
    """A model that waits until it is told to answer."""

    name = "slow"

    def __init__(self) -> None:
        self.go = threading.Event()

    def complete(self, messages: object) -> Completion:
        self.go.wait(10)
        return Completion(json.dumps({"pieces": [PIECE]}))


def test_a_job_blocks_no_other_request_and_the_queue_is_bounded(kb: Engine) -> None:
    model, app = Slow(), create_app(kb)
    app.state.llm = model
    with TestClient(app, base_url="http://localhost") as client:
        texts = [{"text": f"{TEXT} {number}", "space": "team"} for number in range(40)]
        responses = [client.post("/api/ingest", json=body) for body in texts]
        refused = [response for response in responses if response.status_code != 202]
        assert 10 < len(refused) < 20
        assert {(row.status_code, row.json()["code"]) for row in refused} == {(503, "busy")}
        assert client.get("/api/spaces").status_code == 200
        assert client.get(responses[0].headers["location"]).json()["status"] == "running"
        model.go.set()
        assert wait(client, responses[0])["status"] == "done"


def test_a_client_that_does_not_wait_longer_names_the_job(kb: Engine, model: Limits) -> None:
    with (
        connect(kb, model("slow", ANSWER)) as client,
        pytest.raises(Unavailable, match="goes on on the server") as caught,
    ):
        client.ingest(TEXT, space="team", wait_s=0.01)
    assert caught.value.code == "timeout"


def test_jobs_are_shared_by_processes_and_fail_with_theirs(tmp_path: Path) -> None:
    first, second = JobBoard(tmp_path / "jobs"), JobBoard(tmp_path / "jobs")
    job = first.submit("s", lambda progress: {"n": 1})
    for _ in range(400):
        if second.get(job.id).status == "done":
            break
        time.sleep(0.005)
    assert second.get(job.id).result == {"n": 1}
    dead = Job("0" * 24, "s", "2026-06-01T00:00:00Z", 2**22 + 1, "running")
    first._write(dead)
    error = second.get(dead.id).error
    assert error is not None and (error["status"], error["code"]) == (503, "interrupted")
    assert {path.stat().st_mode & 0o77 for path in (tmp_path / "jobs").iterdir()} == {0}


def test_an_unexpected_error_is_a_failed_job_without_its_message(tmp_path: Path) -> None:
    board = JobBoard(tmp_path)

    def fail(progress: object) -> Any:
        raise ZeroDivisionError("private")

    job = board.submit("s", fail)
    for _ in range(400):
        if board.get(job.id).status == "failed":
            break
        time.sleep(0.005)
    assert "private" not in json.dumps(board.get(job.id).error)
    with pytest.raises(NotFound, match="unknown job"):
        board.get("0" * 24)


def test_the_server_command_passes_the_model_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kb: Engine
) -> None:
    monkeypatch.setenv("KNOWLOOM_LLM", "openai:fake@http://127.0.0.1:1")
    monkeypatch.setenv("KNOWLOOM_LLM_API_KEY", "very-secret")
    limits = ServerLimits(**Session(str(tmp_path / "k.db"), "none", False, True).server_settings())
    assert "fake" in create_app(kb, None, limits).state.llm.name
    assert "very-secret" not in repr(limits)
    with pytest.raises(Invalid, match="nothing"):
        create_app(kb, None, ServerLimits(llm="nothing:x"))


def test_forbidden_is_the_error_of_a_client_without_the_right(kb: Engine, keyring: Keyring) -> None:
    secret = create_secret(keyring, reads=("team",))
    with (
        serving(kb, keyring) as address,
        Client(address, key=secret) as client,
        pytest.raises(Forbidden),
    ):
        client.ingest(TEXT, space="team")
