"""Rerankers: cross-encoders from a folder, servers on loopback, and the guard in front of them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from small_cross_encoder import build_folder

from fake_server import FakeServer, Handler, Request
from knowloom.errors import Invalid, Unavailable
from knowloom.registry import open_reranker, resolve_reranker
from knowloom.rerankers.cross_encoder import OnnxReranker
from knowloom.rerankers.guard import MAX_FAILURES, PAUSE_S, RerankGuard
from knowloom.testing import RerankerContract

KEY = "sk-secret-123"
QUERY, TEXTS = "refund days", ["five refund days", "monday", "the refund"]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> OnnxReranker:
    return OnnxReranker.open(str(build_folder(tmp_path_factory.mktemp("cross"))))


class TestOnnx(RerankerContract):
    @pytest.fixture
    def reranker(self, cross_encoder: OnnxReranker) -> OnnxReranker:
        return cross_encoder


def test_two_classes_are_a_probability(tmp_path):
    single = OnnxReranker(build_folder(tmp_path / "single"))
    double = OnnxReranker(build_folder(tmp_path / "double", classes=2))
    assert double.rerank(QUERY, TEXTS) == pytest.approx(single.rerank(QUERY, TEXTS))
    assert single.fingerprint != double.fingerprint


def test_the_query_survives_a_long_text(tmp_path):
    reranker = OnnxReranker(build_folder(tmp_path), window=32)
    near, far = reranker.rerank("refund", ["refund " + "water " * 500, "water " * 500])
    assert near > far


def test_folders_without_a_cross_encoder_are_refused_with_what_was_found(tmp_path):
    with pytest.raises(Invalid, match="must be a folder, got nothing"):
        OnnxReranker(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").write_text("hello")
    with pytest.raises(Invalid, match=r"must contain model.onnx .*, found: README.md"):
        OnnxReranker(tmp_path / "empty")
    folder = build_folder(tmp_path / "bare")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(Invalid, match=r"must contain tokenizer.json .*found: model.onnx"):
        OnnxReranker(folder)
    with pytest.raises(Invalid, match=r"must return one number, or two classes.*3 numbers"):
        OnnxReranker(build_folder(tmp_path / "three", classes=3))
    with pytest.raises(Invalid, match="for another language"):
        OnnxReranker(build_folder(tmp_path / "foreign", words=["退款 政策 说明"]))
    with pytest.raises(Invalid, match="pass onnx:FOLDER"):
        open_reranker("onnx:")


def test_a_graph_with_other_inputs_is_refused(tmp_path):
    folder = build_folder(tmp_path)
    node = helper.make_node("Identity", ["pixels"], ["logits"])
    value = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1])
        for name in ("pixels", "logits")
    ]
    graph = helper.make_graph([node], "image", value[:1], value[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(folder / "model.onnx"),
    )
    with pytest.raises(Invalid, match=r"must take input_ids .*found: pixels"):
        OnnxReranker(folder)


# Servers


def overlap(query: str, text: str) -> float:
    return min(1.0, len(set(query.lower().split()) & set(text.lower().split())) / 4)


class RerankServer(FakeServer[str]):
    """Answers /rerank in the shape of the request, best first, or misbehaves as scripted."""

    def __init__(self, script: Sequence[str] = ()) -> None:
        super().__init__(list(script), "ok", _Handler)


class _Handler(Handler):
    def take(self, step: str, request: Request) -> None:
        body = request.body
        texts = body.get("documents") or body.get("texts") or []
        field = "relevance_score" if "documents" in body else "score"
        rows: list[dict[str, Any]] = [
            {"index": index, field: overlap(body["query"], text)}
            for index, text in enumerate(texts)
        ]
        rows.sort(key=lambda row: -row[field])
        if step == "silent":
            self.fake.closing.wait()
        elif step.isdigit():
            self.send(int(step), json.dumps({"message": f"no {KEY} {texts[0]}"}))
        elif step == "429 after 40":
            self.send(429, "{}", {"Retry-After": "40"})
        else:
            rows = CHANGES[step](rows, field)
            answer = rows if "texts" in body else {"results": rows}
            self.send(200, "not json" if step == "text" else json.dumps(answer))


CHANGES: dict[str, Callable[[list[dict[str, Any]], str], Any]] = {
    "ok": lambda rows, _: rows,
    "text": lambda rows, _: rows,
    "short": lambda rows, _: rows[1:],
    "long": lambda rows, field: [*rows, {"index": len(rows), field: 0.5}],
    "twice": lambda rows, _: [*rows[1:], rows[1]],
    "nan": lambda rows, field: [rows[0] | {field: float("nan")}, *rows[1:]],
    "words": lambda rows, field: [rows[0] | {field: "high"}, *rows[1:]],
    "missing": lambda rows, field: [{"index": 0}, *rows[1:]],
    "nothing": lambda rows, _: None,
    "negative": lambda rows, field: [row | {field: row[field] - 0.1} for row in rows],
}


@pytest.fixture(params=["cohere", "jina", "tei"])
def shape(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def address(shape: str, server: RerankServer) -> str:
    return f"tei:{server.base_url}" if shape == "tei" else f"{shape}:model-x@{server.base_url}"


def test_a_server_scores_texts_in_their_order(shape):
    with RerankServer() as server:
        reranker = open_reranker(address(shape, server), api_key=KEY, batch_size=2)
        assert list(reranker.rerank(QUERY, TEXTS)) == [0.5, 0.0, 0.25]
        assert list(reranker.rerank(QUERY, TEXTS[:1])) == [0.5]
        assert list(reranker.rerank(QUERY, [])) == []
        assert [request.path for request in server.requests] == ["/v1/rerank"] * 3
        assert {request.authorization for request in server.requests} == {f"Bearer {KEY}"}
        if shape != "tei":
            assert server.requests[0].body["model"] == "model-x"
            assert server.requests[0].body["top_n"] == 2
        assert KEY not in repr(reranker) + reranker.fingerprint


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("text", "not JSON"),
        ("short", "expected one score for each of 3 texts, got 2"),
        ("long", "expected one score for each of 3 texts, got 4"),
        ("twice", "scores a text twice"),
        ("nan", "not a finite number"),
        ("words", "not a finite number"),
        ("missing", "lacks results"),
        ("nothing", "lacks results"),
        ("500", "status 500"),
        ("401", "status 401"),
        ("429 after 40", "status 429"),
    ],
)
def test_a_bad_answer_is_unavailable_without_the_key_and_the_texts(shape, step, message, caplog):
    caplog.set_level(logging.DEBUG)
    with RerankServer([step]) as server:
        reranker = open_reranker(address(shape, server), api_key=KEY)
        with pytest.raises(Unavailable, match=message) as caught:
            reranker.rerank(QUERY, TEXTS)
    assert caught.value.code == "rerank"
    assert KEY not in f"{caught.value} {caplog.text}" and TEXTS[0] not in str(caught.value)


def test_scores_below_zero_are_zero(shape):
    with RerankServer(["negative"]) as server:
        assert min(open_reranker(address(shape, server)).rerank(QUERY, TEXTS)) == 0.0


def test_addresses_and_settings_are_checked():
    with pytest.raises(Invalid, match="tei: the URL is missing"):
        open_reranker("tei:")
    with pytest.raises(Invalid, match="tei: base_url must begin with http"):
        open_reranker("tei:ftp://host")
    with pytest.raises(Invalid, match=r"unknown setting of cohere 'key'.*api_key"):
        open_reranker("cohere:m", key="x")
    with pytest.raises(Invalid, match=r"unknown reranker 'coher'.*cohere"):
        open_reranker("coher:m")
    with pytest.raises(Invalid, match="must not contain spaces") as caught:
        open_reranker("jina:m", api_key="a b secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(Invalid, match=r"a Reranker or None.*without 'name'"):
        resolve_reranker(object(), None)  # type: ignore[arg-type]
    assert resolve_reranker("none", None) is None and resolve_reranker("", {}) is None


# The guard


class Scripted:
    name, fingerprint = "scripted", "scripted:1"

    def __init__(self, *answers: Any) -> None:
        self.answers, self.calls = list(answers), 0

    def rerank(self, query: str, texts: Sequence[str]) -> Any:
        self.calls += 1
        answer = self.answers.pop(0) if self.answers else [0.5] * len(texts)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5], "returned 1 scores for 2 texts"),
        ([0.5] * 3, "returned 3 scores for 2 texts"),
        ([0.5, float("nan")], "from 0 to 1, got nan"),
        ([0.5, float("inf")], "from 0 to 1, got inf"),
        ([0.5, -3.2], "from 0 to 1, got -3.2"),
        ([0.5, 1.01], "from 0 to 1, got 1.01"),
        (None, "a number for each text"),
        (["a", "b"], "a number for each text"),
        (KeyError("x"), "failed: KeyError"),
        (Unavailable("down"), "down"),
        (lambda: time.sleep(1), "did not answer within 0.05 s"),
    ],
)
def test_every_failure_is_unavailable(answer, message):
    guard = RerankGuard(Scripted(answer), 0.05)
    with pytest.raises(Unavailable, match=message) as caught:
        guard.rerank("q", ["a", "b"])
    assert caught.value.code == "rerank"
    assert guard.rerank("q", ["a", "b"]) == [0.5, 0.5]


def test_a_reranker_that_fails_repeatedly_is_left_alone_for_a_while():
    now = [100.0]
    reranker = Scripted(*[OSError()] * (MAX_FAILURES + 1))
    guard = RerankGuard(reranker, 1.0, lambda: now[0])
    for _ in range(MAX_FAILURES + 2):
        with pytest.raises(Unavailable):
            guard.rerank("q", ["a"])
    assert reranker.calls == MAX_FAILURES
    now[0] += PAUSE_S + 1
    with pytest.raises(Unavailable, match="failed: OSError"):
        guard.rerank("q", ["a"])
    now[0] += PAUSE_S + 1
    assert guard.rerank("q", ["a"]) == [0.5]


def test_a_server_that_asks_for_a_pause_gets_it():
    now = [0.0]
    with RerankServer(["429 after 40"]) as server:
        guard = RerankGuard(open_reranker(f"tei:{server.base_url}"), 5.0, lambda: now[0])
        for _ in range(3):
            with pytest.raises(Unavailable):
                guard.rerank(QUERY, TEXTS)
        assert len(server.requests) == 1
        now[0] = 41.0
        assert guard.rerank(QUERY, TEXTS)[0] == 0.5


def test_a_silent_server_ends_at_the_deadline():
    with RerankServer(["silent"]) as server:
        guard = RerankGuard(open_reranker(f"tei:{server.base_url}", timeout_s=30), 0.2)
        started = time.monotonic()
        with pytest.raises(Unavailable, match=r"did not answer within 0.2 s"):
            guard.rerank(QUERY, TEXTS)
        assert time.monotonic() - started < 5


def test_closing_the_guard_closes_the_reranker(tmp_path: Path):
    with RerankServer() as server:
        reranker = open_reranker(f"tei:{server.base_url}")
        RerankGuard(reranker, 1.0).close()
        with pytest.raises((Unavailable, RuntimeError)):
            reranker.rerank(QUERY, TEXTS)
