"""The stage that reranks: blending, second hops, failures, and the surfaces that reach it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from small_cross_encoder import build_folder

import knowloom
from http_api import ask_context, serve_app
from knowloom import Item
from knowloom.cli.main import cli
from knowloom.errors import Invalid, Unavailable
from knowloom.integrations.lookup import Lookup
from knowloom.model import Hit
from knowloom.retrieval.reranking import INHERITED, blend, rerank_text
from live_server import serving

ITEMS = [
    Item("lothair", "kings", title="Lothair II", text="Lothair II was a son of Ermengarde."),
    Item("ermengarde", "kings", title="Ermengarde", text="The empress passed away in 851."),
    Item("mothers", "kings", title="Mothers", text="When did the mother of the hero die? Early."),
    Item("tales", "kings", title="Tales", text="In tales the mother of Lothair did not die."),
]
QUERY = "When did the mother of Lothair II die?"


class Fixed:
    """Scores a text by the first of the words that it contains."""

    name, fingerprint = "fixed", "fixed:1"

    def __init__(self, **scores: float) -> None:
        self.scores, self.calls = scores, list[list[str]]()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self.calls.append(list(texts))
        return [
            next((score for word, score in self.scores.items() if word in text), 0.0)
            for text in texts
        ]


class Broken:
    name, fingerprint = "broken", "broken:1"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def rerank(self, query: str, texts: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture(params=["memory:", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory:" else str(tmp_path / "k.db")


def open_kings(url: str = "memory:", **options: Any) -> knowloom.Engine:
    kb = knowloom.open(url, embedder=None, **options)
    kb.add(ITEMS)
    return kb


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.item.id for hit in hits]


def test_a_reranker_changes_the_order_and_shows_its_score(url):
    with open_kings(url, rerank=Fixed(empress=1.0, son=0.1)) as kb:
        plain = kb.search(QUERY, spaces=["kings"], mode="walk", rerank=False)
        hits = kb.search(QUERY, spaces=["kings"], mode="walk")
        assert ids(plain)[0] == "lothair" and ids(hits)[0] == "ermengarde"
        assert hits[0].signals["rerank"] == 1.0 and "walk" in hits[0].signals
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert all(0 <= hit.score <= 1 for hit in hits)
        assert "rerank" not in plain[0].signals


def test_contexts_are_reranked_and_explained(url):
    settings = {"weight": 0.8}
    with open_kings(url, rerank=Fixed(tales=1.0, Early=0.9), rerank_settings=settings) as kb:
        plain = kb.context(QUERY, spaces=["kings"], rerank=False)
        context = kb.context(QUERY, spaces=["kings"], max_tokens=40)
        why = kb.explain(QUERY, spaces=["kings"], max_tokens=40)
        assert context.degraded == () and ids(context.hits)[0] == "tales"
        assert why.text == context.text
        assert why.hits[0].signals["rerank"] == 1.0
        assert not [hit for hit in plain.hits if "rerank" in hit.signals]


def test_an_answer_is_scored_once_per_request_even_if_it_is_explained():
    reranker = Fixed(son=1.0)
    with open_kings(rerank=reranker) as kb:
        kb.explain(QUERY, spaces=["kings"], max_tokens=30)
        texts = [text for call in reranker.calls for text in call]
        assert len(texts) == len(set(texts)) and texts


def test_the_same_request_gives_the_same_bytes_and_the_digest_knows_the_reranker():
    digests = set()
    with open_kings(rerank=Fixed(son=1.0)) as kb:
        now = kb.reader.now()
        for rerank in (None, None, False):
            context = kb.context(QUERY, spaces=["kings"], now=now, rerank=rerank)
            digests.add((context.digest, context.text))
    assert len(digests) == 2
    with open_kings(rerank=Fixed(son=1.0), rerank_settings={"weight": 0.6}) as kb:
        other = kb.context(QUERY, spaces=["kings"], now=now)
    assert other.digest not in {digest for digest, _ in digests}


def test_a_second_hop_that_does_not_resemble_the_question_stays():
    # A cross-encoder sees nothing of the question in the second item of the answer.
    with open_kings(rerank=Fixed(son=0.9, Early=0.6, tales=0.5)) as kb:
        hits = kb.search(QUERY, spaces=["kings"], mode="walk")
        assert ids(hits)[:2] == ["lothair", "ermengarde"]
        assert hits[1].signals["rerank"] == 0.0


def test_a_linked_item_inherits_a_part_of_the_score():
    first, second, third = (Item(id, "s", text=id) for id in "abc")
    path = (first.key, second.key, third.key)
    hits = [
        Hit(first, 0.5, path=path[:1]),
        Hit(second, 0.5, path=path[:2]),
        Hit(third, 0.5, path=path),
    ]
    scores = {first.key: 1.0, second.key: 0.0, third.key: 0.0}
    assert blend(hits, scores, 1.0) == {
        first.key: 0.5,
        second.key: pytest.approx(0.5 * INHERITED),
        third.key: pytest.approx(0.5 * INHERITED**2),
    }
    assert blend(hits, scores, 0.0) == dict.fromkeys(path, 0.5)
    assert blend(hits, dict.fromkeys(path, 0.3), 0.5) == {}


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [0.5] * 99,
        None,
        [float("nan")] * 4,
        [7.0] * 4,
        Unavailable("status 429: slow down"),
        RuntimeError("boom"),
    ],
)
def test_a_failing_reranker_leaves_the_order_and_says_so(url, answer, caplog):
    with open_kings(url, rerank=Broken(answer)) as kb:
        plain = kb.search(QUERY, spaces=["kings"], rerank=False)
        assert kb.search(QUERY, spaces=["kings"]) == plain
        assert "the order is that of the search" in caplog.text
        context = kb.context(QUERY, spaces=["kings"])
        assert [problem.code for problem in context.degraded] == ["rerank"]
        without = kb.context(QUERY, spaces=["kings"], rerank=False)
        assert context.text == without.text and context.digest != without.digest


def test_the_best_passage_is_scored_below_its_title_and_headings():
    reranker = Fixed(penguin=1.0)
    filler = "Other words fill this part of the long handbook with text about parcels. " * 12
    text = f"# Guide\n\n## Birds\n\n{filler}\n\n## Ice\n\nThe penguin lives on ice. {filler}"
    with knowloom.open("memory:", embedder=None, rerank=reranker) as kb:
        kb.add([Item("book", "s", title="Handbook", text=text), Item("b", "s", text="a penguin")])
        hits = kb.search("penguin", spaces=["s"])
        (text,) = [text for text in reranker.calls[0] if text.startswith("Handbook")]
        assert "penguin" in text and "Birds" not in text and len(text) < 1500
        assert rerank_text(hits[0]) in reranker.calls[0]


def test_only_the_best_hits_are_scored_and_the_others_stay_behind():
    reranker = Fixed(apple=0.2, pear=0.9)
    with knowloom.open(
        "memory:", embedder=None, rerank=reranker, rerank_settings={"limit": 2}
    ) as kb:
        kb.add([Item(f"{n}", "s", text="fruit " * (5 - n) + "apple" + " x" * n) for n in range(5)])
        hits = kb.search("fruit", spaces=["s"], limit=5)
        assert [len(call) for call in reranker.calls] == [2] and len(hits) == 5
        assert sum("rerank" in hit.signals for hit in hits) == 2
        assert ["rerank" in hit.signals for hit in hits[:2]] == [True, True]
        assert len(kb.search("fruit", spaces=["s"], limit=1)) == 1


def test_options_and_settings_are_checked():
    with open_kings() as kb:
        assert kb.search(QUERY, spaces=["kings"], rerank=False)
        with pytest.raises(Invalid, match="without a reranker"):
            kb.search(QUERY, spaces=["kings"], rerank=True)
        with pytest.raises(Invalid, match="without a reranker"):
            kb.context(QUERY, spaces=["kings"], rerank=True)
        with pytest.raises(Invalid, match="rerank must be"):
            kb.search(QUERY, spaces=["kings"], rerank="yes")  # type: ignore[arg-type]
    for settings in (
        {"limit": 0},
        {"limit": 201},
        {"weight": 1.5},
        {"timeout_s": 0},
        {"limt": 1},
        5,
    ):
        with pytest.raises(Invalid):
            knowloom.open("memory:", embedder=None, rerank="tei:http://x", rerank_settings=settings)


def test_an_empty_query_and_empty_spaces_are_not_scored():
    reranker = Fixed()
    with open_kings(rerank=reranker) as kb:
        assert kb.search("zzzz", spaces=["kings"]) == []
        assert kb.context("zzzz", spaces=["kings"]).hits == ()
        assert reranker.calls == []


def test_the_command_line_reads_the_setting(tmp_path, monkeypatch):
    folder, file = build_folder(tmp_path / "model"), str(tmp_path / "k.db")
    open_kings(file).close()
    monkeypatch.setenv("KNOWLOOM_RERANK", f"onnx:{folder}")
    monkeypatch.setenv("KNOWLOOM_RERANK_API_KEY", "sk-unused")
    base = ["search", QUERY, "--space", "kings", "--db", file, "--embedder", "none", "--json"]
    for flags, expected in (([], True), (["--no-rerank"], False), (["--rerank"], True)):
        run = CliRunner().invoke(cli, [*base, *flags], catch_exceptions=False)
        assert run.exit_code == 0, run.output
        hits = json.loads(run.stdout)["hits"]
        assert ("rerank" in hits[0]["signals"]) is expected
    monkeypatch.setenv("KNOWLOOM_RERANK", f"onnx:{tmp_path}")
    run = CliRunner().invoke(cli, base)
    assert run.exit_code != 0 and "must contain model.onnx" in run.output


def test_secrets_of_the_settings_are_not_printed():
    settings = knowloom.config.Settings(rerank_api_key="sk-secret")
    assert "sk-secret" not in repr(settings)


def test_http_reranks_and_reports_failures():
    kb = open_kings(rerank=Fixed(empress=1.0, son=0.1), rerank_settings={"weight": 0.8})
    search = {"query": QUERY, "spaces": ["kings"], "mode": "walk"}
    with serve_app(kb) as client:
        hits = client.post("/api/search", json=search).json()["hits"]
        assert hits[0]["signals"]["rerank"] == 1.0
        plain = client.post("/api/search", json=search | {"rerank": False}).json()["hits"]
        assert plain[0]["item"]["id"] == "lothair" and "rerank" not in plain[0]["signals"]
        context = ask_context(client, query=QUERY, tenant_ids=["kings"], entry_types=None)
        assert context["degraded"] == []
        assert client.post("/api/search", json=search | {"rerank": "x"}).status_code == 422
    with serve_app(open_kings(rerank=Broken([]))) as client:
        explained = client.post("/api/explain", json={"query": QUERY, "spaces": ["kings"]}).json()
        assert [problem["code"] for problem in explained["degraded"]] == ["rerank"]
        response = client.post("/api/search", json=search).json()
        assert response["hits"] and "the order is that of the search" in json.dumps(response)
    with serve_app(open_kings()) as client:
        refused = client.post("/api/search", json=search | {"rerank": True})
        assert refused.status_code in (400, 422) and "without a reranker" in refused.text


def test_adapters_of_frameworks_pass_the_option_on():
    with open_kings(rerank=Fixed(empress=1.0), rerank_settings={"weight": 1.0}) as kb:
        options = {"mode": "walk"}
        first, plain = (
            Lookup.create(kb, ["kings"], 4, options | rerank).retrieve(QUERY)[0].text
            for rerank in ({}, {"rerank": False})
        )
        assert "empress" in first and "empress" not in plain


def test_the_client_passes_the_option_on():
    kb = open_kings(rerank=Fixed(empress=1.0), rerank_settings={"weight": 1.0})
    with serving(kb) as url, knowloom.Client(url) as client:
        for ask in (kb, client):
            hits = ask.search(QUERY, spaces=["kings"], mode="walk")
            plain = ask.search(QUERY, spaces=["kings"], mode="walk", rerank=False)
            assert hits[0].signals["rerank"] == 1.0 and "rerank" not in plain[0].signals
            assert hits[0].relevance == hits[0].signals["blended"]
            context = ask.context(QUERY, spaces=["kings"], rerank=False)
            assert not [hit for hit in context.hits if "rerank" in hit.signals]
    kb.close()
