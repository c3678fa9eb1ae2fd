"""Search by vectors: fusion, outages and mismatches of the embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from engine_samples import AxisEmbedder, ids, node, request_context

import knowloom
from knowloom import (
    Conflict,
    Engine,
    Invalid,
    Recipe,
    Unavailable,
)
from knowloom.embedders import batches


@pytest.fixture
def kb_and_embedder(store_url: str) -> Iterator[tuple[Engine, AxisEmbedder]]:
    embedder = AxisEmbedder()
    with knowloom.open(store_url, embedder=embedder) as engine:
        engine.add(
            [
                node("words", "refund of a parcel"),
                node("both", "refund the money"),
                node("sense", "money"),
                node("none", "food"),
            ]
        )
        yield engine, embedder


def test_each_mode_reports_its_match_source(kb_and_embedder):
    kb, _ = kb_and_embedder
    sources = {
        mode: {
            hit.item.id: hit.match_source
            for hit in kb.search("refund money", spaces=["s"], mode=mode, min_score=0.05)
        }
        for mode in ("bm25", "vector", "hybrid")
    }
    assert sources["bm25"] == {"words": "bm25", "both": "bm25", "sense": "bm25"}
    assert set(sources["vector"].values()) == {"vector"}
    assert sources["hybrid"]["both"] == "hybrid"


def test_hybrid_scores_are_the_weighted_sum_of_both_signals(kb_and_embedder):
    kb, _ = kb_and_embedder
    for hit in kb.search("refund", spaces=["s"]):
        assert hit.score == pytest.approx(
            0.6 * hit.signals.get("bm25", 0) + 0.4 * hit.signals.get("vector", 0), abs=2e-6
        )


def test_ties_between_words_and_vectors_go_by_id(kb):
    kb.add(node("b", "unrelated"), vectors=[[0, 1]])
    kb.add(node("a", "zebra"), vectors=[[0, 1]])
    assert ids(
        request_context(
            kb, "zebra", recipe=[Recipe("r", limit=1, bm25_weight=0)], vector=[0, 1]
        ).hits
    ) == ["a"]


def test_a_query_vector_replaces_the_query_text(kb_and_embedder):
    kb, _ = kb_and_embedder
    assert ids(kb.search("", spaces=["s"], mode="vector", vector=[0, 0, 0, 9, 0.9], limit=1)) == [
        "none"
    ]


def test_a_request_can_weight_words_and_vectors(kb_and_embedder):
    kb, _ = kb_and_embedder
    word_hits, vector_hits = (
        request_context(
            kb, "refund", recipe="search", bm25_weight=share, vector_weight=1 - share
        ).hits
        for share in (1, 0)
    )
    assert [hit.score for hit in word_hits] == [hit.signals.get("bm25", 0) for hit in word_hits]
    assert [hit.score for hit in vector_hits] == [
        hit.signals.get("vector", 0) for hit in vector_hits
    ]


def test_without_its_embedder_a_context_uses_words_and_reports_it(kb_and_embedder):
    kb, embedder = kb_and_embedder
    healthy = request_context(kb, "refund please")
    embedder.down = True
    context = request_context(kb, "refund now")
    assert set(ids(context.hits)) == {"words", "both"}
    assert [
        (problem.part, problem.code)
        for problem in context.degraded
        if problem.severity == "failure"
    ] == [("vectors", "unavailable")]
    assert "connection refused" in context.degraded[0].reason
    assert healthy.degraded == ()


def test_without_its_embedder_a_vector_search_fails(kb_and_embedder):
    kb, embedder = kb_and_embedder
    embedder.down = True
    with pytest.raises(Unavailable, match="connection refused"):
        kb.search("anything", spaces=["s"], mode="vector")
    with pytest.raises(Unavailable, match="connection refused"):
        request_context(kb, "anything", mode="vector")


def test_a_degraded_context_has_a_different_digest(store_url):
    embedder = AxisEmbedder()
    with knowloom.open(store_url, embedder=embedder) as kb:
        kb.add([node("a", "refund"), node("b", "money")])
        embedder.down = True
        degraded = request_context(kb, "refund please")
        embedder.down = False
        assert request_context(kb, "refund please").digest != degraded.digest


def test_a_vector_search_without_vectors_does_not_fall_back_to_words(refund_kb):
    with pytest.raises(Conflict, match="none of the 12 items has one"):
        refund_kb.search("refund", spaces=["s"], mode="vector")


def test_items_without_vectors_are_found_by_words_and_flagged(store_url):
    with knowloom.open(store_url, embedder=AxisEmbedder()) as kb:
        kb.add(node("a", "refund"))
        kb.add(node("b", "refund by mail"), embed=False)
        context = request_context(kb)
        assert sorted(ids(context.hits)) == ["a", "b"]
        assert [problem.code for problem in context.degraded] == ["vectors_pending"]
        assert kb.maintenance.embed() == 1
        assert request_context(kb).degraded == ()


def test_items_that_cannot_be_embedded_are_stored_and_reported(store_url):
    embedder = AxisEmbedder()
    embedder.down = True
    with knowloom.open(store_url, embedder=embedder) as kb:
        report = kb.add(node("a", "refund"))
        assert report.added == 1 and "1 items are stored but not embedded" in report.problems[0]
        assert ids(kb.search("refund", spaces=["s"])) == ["a"]


def test_a_change_of_embedding_dimensions_is_flagged(store_url):
    embedder = AxisEmbedder()
    with knowloom.open(store_url, embedder=embedder) as kb:
        kb.add(node("a", "refund"))
        embedder.words = ("refund",)  # the server behind the name changed
        assert ids(kb.search("refund please", spaces=["s"])) == ["a"]
        assert [
            (problem.code, "5 dimensions" in problem.reason)
            for problem in request_context(kb, "refund please").degraded
            if problem.severity == "failure"
        ] == [("reindex_required", True)]
        with pytest.raises(Conflict, match="run reindex"):
            kb.search("refund again", spaces=["s"], mode="vector")


def test_a_query_vector_of_wrong_dimensions_is_refused_without_an_embedder(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=AxisEmbedder()) as kb:
        kb.add(node("a", "refund"))
    with (
        knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb,
        pytest.raises(Invalid, match="a vector must have 5 dimensions, got 3"),
    ):
        kb.search("refund", spaces=["s"], vector=[1, 2, 3])


def test_vectors_of_wrong_dimensions_are_refused_with_a_remedy(kb):
    kb.add(node("a"), vectors=[[1, 2]])
    with pytest.raises(Conflict, match="pass vectors of 2 dimensions, or use a new file"):
        kb.add(node("b"), vectors=[[1, 2, 3]])


BAD_EMBEDDINGS: dict[str, Callable[[Sequence[str]], Any]] = {
    "an error of its own": lambda texts: 1 / 0,
    "none": lambda texts: None,
    "too few": lambda texts: [],
    "not a number": lambda texts: [[float("nan")] * 5 for _ in texts],
    "nothing but zeros": lambda texts: [[0.0] * 5 for _ in texts],
    "a number": lambda texts: [5.0 for _ in texts],
    "texts": lambda texts: list(texts),
}


@pytest.mark.parametrize("bad", BAD_EMBEDDINGS.values(), ids=BAD_EMBEDDINGS)
def test_any_embedder_failure_loses_only_the_vectors(store_url, bad, monkeypatch):
    embedder = AxisEmbedder()
    with knowloom.open(store_url, embedder=embedder) as kb:
        kb.add(node("a", "refund"))
        monkeypatch.setattr(embedder, "embed", bad)
        report = kb.add(node("b", "refund of money"))
        assert (
            report.added == 1
            and "1 items are stored but not embedded: embedder 'axes'" in report.problems[0]
        )
        assert ids(kb.search("refund please", spaces=["s"])) == ["a", "b"]
        problems = request_context(kb, "refund please").degraded
        failures = {problem.code for problem in problems if problem.severity == "failure"}
        assert failures == {"embedding_failed"}
        with pytest.raises(knowloom.EmbeddingError, match="embedder 'axes'"):
            kb.search("refund please", spaces=["s"], mode="vector")


def test_stored_vectors_without_an_embedder_are_flagged(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=AxisEmbedder()) as kb:
        kb.add(node("a", "refund"))
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        assert [problem.code for problem in request_context(kb).degraded] == ["embedder_required"]
        assert ids(request_context(kb).hits) == ["a"]


def test_supplied_vectors_are_stored_with_their_items(kb):
    kb.add([node("a"), node("b")], vectors=[[1, 0, 0], [0, 2, 0]])
    assert [
        (hit.item.id, hit.score)
        for hit in kb.search("", spaces=["s"], mode="vector", vector=[0, 5, 0], limit=1)
    ] == [("b", 1.0)]


def test_the_bundled_embedder_matches_texts_without_a_common_word(tmp_path):
    with knowloom.open(str(tmp_path / "k.db")) as kb:
        kb.add(
            [
                node("a", "How to get your money back for a purchase"),
                node("b", "Opening hours of the canteen"),
            ]
        )
        hit = kb.search("reimbursement", spaces=["s"])[0]
        assert (hit.item.id, hit.match_source) == ("a", "vector")
        assert kb.maintenance.stats().without_vector == 0


class RecordingEmbedder(AxisEmbedder):
    """An embedder that records the texts of each call."""

    def __init__(self, window: object = None) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        if window is not None:
            self.window = window

    def embed(self, texts: Sequence[str]) -> list[Any]:
        self.batches.append(list(texts))
        return super().embed(texts)


def chapters(*words: str) -> str:
    """Return a text with a passage for each of the words."""
    return "\n\n".join(f"# About {word}\n\n{f'{word} ' * (600 // len(word))}" for word in words)


class TestPassages:
    def test_each_passage_is_embedded_with_title_and_text(self, store_url):
        embedder = RecordingEmbedder()
        with knowloom.open(store_url, embedder=embedder) as kb:
            kb.add(node("a", chapters("refund", "car"), title="Desk"))
            (texts,) = embedder.batches
            starts = [text.split("\n\n")[0] for text in texts]
            assert starts == ["Desk\n# About refund", "Desk\n# About car"]
            vector = [0, 0, 1, 0, 0]
            (hit,) = kb.search("", spaces=["s"], mode="vector", vector=vector)
            assert hit.passage.number == 1 and hit.signals["vector"] > 0.9

    def test_batches_are_of_passages_and_progress_is_of_items(self, store_url, monkeypatch):
        monkeypatch.setattr(batches, "BATCH_SIZE", 4)
        embedder, steps = RecordingEmbedder(), []
        with knowloom.open(store_url, embedder=embedder) as kb:
            kb.add(
                [
                    node("huge", chapters(*(f"food{number}" for number in range(11)))),
                    *(node(f"long{number}", chapters("car", "food", "money")) for number in "ab"),
                    *(node(f"short{number}", f"money {number}") for number in "abc"),
                ],
                embed=False,
            )
            assert kb.maintenance.embed(progress=lambda *step: steps.append(step)) == 6
            assert max(len(batch) for batch in embedder.batches) == 4
            vectors = [step[1:] for step in steps if step[0] == "vectors"]
            assert vectors[-1] == (6, 6) and vectors == sorted(vectors)
            assert kb.maintenance.stats().without_vector == 0 and kb.verify() == []

    def test_one_supplied_vector_serves_a_long_item(self, kb):
        kb.add(node("a", chapters("refund", "car")), vectors=[[0.6, 0.8]])
        (hit,) = kb.search("", spaces=["s"], mode="vector", vector=[1, 0])
        assert [round(scored.score, 2) for scored in hit.passages] == [0.6, 0.6]

    def test_an_item_with_a_text_for_embedding_is_embedded_once(self, store_url):
        embedder = RecordingEmbedder()
        with knowloom.open(store_url, embedder=embedder) as kb:
            kb.add(node("a", chapters("refund", "car"), embedding_text="money"))
            assert (embedder.batches, kb.maintenance.stats().without_vector) == ([["money"]], 0)

    def test_items_that_change_while_they_are_embedded_are_reported(self, tmp_path):
        class Changing(RecordingEmbedder):
            def embed(self, texts: Sequence[str]) -> list[Any]:
                if len(texts) > 1:  # another process writes meanwhile
                    with knowloom.open(tmp_path / "k.db", embedder=None) as other:
                        other.add(node("a", chapters(*["food"] * (len(self.batches) + 4))))
                return super().embed(texts)

        with knowloom.open(tmp_path / "k.db", embedder=Changing()) as kb:
            report = kb.add([node("a", chapters("refund", "car")), node("b", "money")])
            assert [problem[:40] for problem in report.problems] == [
                "1 items are stored but not embedded: the"
            ]
            assert kb.maintenance.stats().without_vector == 1


class TestWindows:
    @pytest.mark.parametrize(
        ("window", "size"), [(None, 800), (8192, 800), (256, 800), (250, 800), (100, 320), (8, 200)]
    )
    def test_new_knowledge_is_cut_to_what_the_embedder_reads(self, store_url, window, size):
        with knowloom.open(store_url, embedder=RecordingEmbedder(window)) as kb:
            assert kb._stores.words.passage_size() == size

    def test_a_window_too_small_for_any_passage_is_reported(self, store_url):
        with knowloom.open(store_url, embedder=RecordingEmbedder(8)) as kb:
            assert kb.add(node("short", "money")).problems == ()
            (problem,) = kb.add(node("a", chapters("refund", "car"))).problems
        assert "the 8 tokens that the embedder 'axes' reads" in problem
        assert problem.endswith("no passage size fits, the smallest is 200")

    def test_stored_passages_beyond_the_window_are_reported_until_a_reindex(self, tmp_path):
        with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
            kb.add(node("a", chapters("refund", "car")))
        with knowloom.open(tmp_path / "k.db", embedder=RecordingEmbedder(100)) as kb:
            (problem,) = kb.add(node("b")).problems
            assert "800 characters" in problem and "'axes'" in problem and "100 tokens" in problem
            assert problem.endswith("run reindex with passage_size=320")
            assert kb.reindex() == 2 and kb._stores.words.passage_size() == 320
            assert kb.add(node("c", chapters("food", "car"))).problems == ()

    def test_a_passage_size_beyond_the_window_is_refused(self, tmp_path):
        embedder = RecordingEmbedder(100)
        with pytest.raises(Invalid, match="at most 320 for the embedder 'axes', which reads 100"):
            knowloom.open(tmp_path / "k.db", embedder=embedder, passage_size=321)
        with (
            knowloom.open(tmp_path / "k.db", embedder=embedder, passage_size=320) as kb,
            pytest.raises(Invalid, match="at most 320"),
        ):
            kb.reindex(passage_size=321)

    @pytest.mark.parametrize("window", [0, -1, 2.5, "256", True])
    def test_an_invalid_window_is_refused(self, store_url, window):
        with pytest.raises(Invalid, match="the window of the embedder 'axes' must be an integer"):
            knowloom.open(store_url, embedder=RecordingEmbedder(window))


class TestPassageSize:
    def test_it_is_set_for_new_knowledge_and_stored(self, tmp_path):
        with knowloom.open(tmp_path / "k.db", embedder=None, passage_size=300) as kb:
            kb.add(node("a", "money " * 100))
            assert len(kb.search("money", spaces=["s"])[0].passages) > 1
        for size in (None, 300):
            with knowloom.open(tmp_path / "k.db", embedder=None, passage_size=size) as kb:
                assert kb._stores.words.passage_size() == 300

    def test_another_size_than_the_stored_one_is_a_conflict(self, tmp_path):
        with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
            kb.add(node("a"))
        with pytest.raises(Conflict, match="of 800 characters, not of 300: run reindex") as caught:
            knowloom.open(tmp_path / "k.db", embedder=None, passage_size=300)
        assert caught.value.code == "reindex_required"
        with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
            kb.delete("a", space="s")
        with knowloom.open(tmp_path / "k.db", embedder=None, passage_size=300) as kb:
            assert kb._stores.words.passage_size() == 300

    @pytest.mark.parametrize("size", [199, 8001, -800, 0, 500.0, "500", True])
    def test_sizes_out_of_range_are_refused(self, tmp_path, kb, size):
        message = "passage_size must be an integer from 200 to 8,000, got"
        with pytest.raises(Invalid, match=message):
            knowloom.open(tmp_path / "k.db", embedder=None, passage_size=size)
        with pytest.raises(Invalid, match=message):
            kb.reindex(passage_size=size)

    def test_reindex_cuts_words_and_vectors_anew(self, store_url):
        with knowloom.open(store_url, embedder=AxisEmbedder()) as kb:
            kb.add([node("a", "refund money. " * 100), node("b", "car")])
            counts = []
            for size in (300, 2000, None):
                assert kb.reindex(passage_size=size) == 2 and kb.verify() == []
                counts.append(len(kb.search("refund", spaces=["s"])[0].passages))
            assert counts[0] > 3 and counts[1:] == [0, 0]
            assert kb.maintenance.stats().without_vector == 0

    def test_a_layer_of_another_passage_size_follows_the_store_of_the_items(self, tmp_path):
        roles = {"words": f"{tmp_path}/w.db"}
        with knowloom.open(f"{tmp_path}/w.db", embedder=None, passage_size=300):
            pass
        with knowloom.open(f"{tmp_path}/k.db", embedder=AxisEmbedder(), **roles) as kb:
            assert kb.add(node("a", "refund money. " * 100)).problems == ()
            assert kb.search("refund", spaces=["s"]).degraded == () and kb.verify() == []
        with knowloom.open(f"{tmp_path}/w.db", embedder=None) as words:
            assert words._stores.words.passage_size() == 800
        with knowloom.open(f"{tmp_path}/k.db", embedder=AxisEmbedder(), **roles) as kb:
            assert kb.reindex(passage_size=500) == 1 and kb.verify() == []
            assert len(kb.search("refund", spaces=["s"])[0].passages) > 1
