"""Calibration: embedders with narrow cosines on one scale, and models that are swapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_samples import AxisEmbedder, node, vector_problems

import knowloom
from knowloom.embedders.cache import CachedEmbedder, calibrate_in_memory
from knowloom.embedders.calibration import (
    PROBE_TEXT,
    CalibratedEmbedder,
    Calibration,
    calibrate,
    calibrated_fingerprint,
    calibration_texts,
)
from knowloom.embedders.minilm import MiniLM
from knowloom.errors import Conflict, Unavailable
from knowloom.registry import open_stores

TEXTS = calibration_texts()
TOPICS = ["refund", "parcel", "vaccine", "orchard", "violin", "glacier"]


class NarrowEmbedder:
    """An embedder with a cosine of about .9 for unrelated texts: hashed words and a constant."""

    name, dimensions = "narrow", 65
    fingerprint = "narrow:1"

    def __init__(self, constant: float = 3.0, seed: str = "") -> None:
        self.constant, self.seed = constant, seed
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> list[Any]:
        self.calls.append(list(texts))
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Any:
        vector = np.zeros(65)
        for word in text.lower().split():
            seed = int.from_bytes((self.seed + word).encode()[:16].ljust(16), "big")
            vector[:64] += np.random.default_rng(seed).normal(size=64)
        vector /= np.linalg.norm(vector) or 1.0
        vector[64] = self.constant
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class RoleEmbedder(NarrowEmbedder):
    """A narrow embedder with a common part of its own for queries."""

    fingerprint = "roles:1"

    def embed_queries(self, texts: Sequence[str]) -> list[Any]:
        self.calls.append([f"query: {text}" for text in texts])
        return [np.roll(self._vector(text), 1) for text in texts]


def cosines(vectors: Sequence[Any]) -> Any:
    matrix = np.stack(vectors)
    return (matrix @ matrix.T)[np.triu_indices(len(matrix), 1)]


def open_calibrated(embedder: Any) -> CalibratedEmbedder:
    return CalibratedEmbedder(CachedEmbedder(embedder), open_stores("memory:", {}).vectors)


def test_an_embedder_without_a_store_is_calibrated_in_memory() -> None:
    raw = NarrowEmbedder()
    calibrated = calibrate_in_memory(raw)
    assert abs(cosines(calibrated.embed(TOPICS))).max() < 0.4
    calibrated.embed(["once more"])
    assert sum(len(call) > 100 for call in raw.calls) == 1
    bundled = MiniLM()
    assert calibrate_in_memory(bundled) is bundled


class TestTexts:
    def test_there_are_some_hundred_different_texts_of_both_roles(self) -> None:
        texts = [*TEXTS.queries, *TEXTS.passages]
        assert len(TEXTS.queries) > 50 and len(TEXTS.passages) > 80
        assert len(set(texts)) == len(texts) - 1  # the probe has both roles
        assert TEXTS.queries[-1] == TEXTS.passages[-1] == PROBE_TEXT
        assert min(map(len, texts)) < 30 and max(map(len, texts)) > 150

    def test_they_tell_the_bundled_model_that_it_needs_no_calibration(self) -> None:
        assert abs(float(cosines(MiniLM().embed(TEXTS.passages[:40])).mean())) < 0.06


class TestTransform:
    def test_unrelated_texts_come_to_lie_near_zero_and_equal_ones_stay_equal(self) -> None:
        raw = NarrowEmbedder()
        assert cosines(raw.embed(TOPICS)).min() > 0.85
        calibrated = open_calibrated(raw).embed([*TOPICS, "refund parcel", "refund"])
        assert abs(cosines(calibrated[:6])).max() < 0.4
        assert float(calibrated[0] @ calibrated[6]) > 0.5
        np.testing.assert_array_equal(calibrated[0], calibrated[7])
        np.testing.assert_allclose(np.linalg.norm(calibrated, axis=1), 1.0, atol=1e-6)

    def test_a_query_that_equals_a_passage_has_its_vector_without_roles(self) -> None:
        embedder = open_calibrated(NarrowEmbedder())
        np.testing.assert_array_equal(embedder.embed(["tea"]), embedder.embed_queries(["tea"]))

    def test_queries_and_passages_with_roles_are_centred_apart(self) -> None:
        embedder = open_calibrated(RoleEmbedder())
        queries = embedder.embed_queries(TEXTS.queries)
        passages = embedder.embed(TEXTS.passages)
        between = np.stack(queries) @ np.stack(passages).T
        assert abs(float(between.mean())) < 0.05 and abs(float(cosines(passages).mean())) < 0.05

    def test_the_same_embedder_has_the_same_calibration(self) -> None:
        first, second = (open_calibrated(NarrowEmbedder()).calibration() for _ in range(2))
        assert first.encode() == second.encode()
        assert 0.85 < first.unrelated < 0.95 and first.spread < 0.1

    def test_an_embedder_that_cannot_tell_texts_apart_is_left_as_it_is(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        embedder = AxisEmbedder()
        calibrated = open_calibrated(embedder)
        np.testing.assert_array_equal(calibrated.embed(["refund"]), embedder.embed(["refund"]))
        assert "of the calibration texts apart" in caplog.text

    def test_a_text_of_nothing_but_the_common_part_keeps_its_vector(self) -> None:
        vectors = NarrowEmbedder().embed(TEXTS.passages)
        calibration = calibrate("x", vectors, vectors)
        mean = calibration.passage_mean
        np.testing.assert_array_equal(calibration.apply_to_passages(mean), mean)

    def test_a_calibration_is_decoded_as_it_was_encoded(self) -> None:
        calibration = open_calibrated(NarrowEmbedder()).calibration()
        decoded = Calibration.decode(calibration.encode())
        assert decoded is not None and decoded.encode() == calibration.encode()
        for damaged in (b"", b"{}", b"{}\nabc", b"[]\n", calibration.encode()[:-2], b"\xff\xfe"):
            assert Calibration.decode(damaged) is None


class TestEngine:
    def test_the_bundled_model_is_stored_as_it_is(self, store_url: str) -> None:
        with knowloom.open(store_url) as kb:
            kb.add(node("a", "refund"))
            assert kb.maintenance.stats().embedder == MiniLM().fingerprint
            (vector,) = MiniLM().embed(["refund"])
            np.testing.assert_array_equal(kb.reader.embed_texts(["refund"])[0], vector)

    def test_scores_of_a_narrow_embedder_are_on_the_common_scale(self, store_url: str) -> None:
        with knowloom.open(store_url, embedder=NarrowEmbedder()) as kb:
            kb.add([node(topic, f"{topic} {topic}s") for topic in TOPICS])
            hits = kb.search("refund", spaces=["s"], mode="vector")
            assert hits[0].item.id == "refund" and hits[0].score > 0.4
            assert all(hit.score < 0.4 for hit in hits[1:])

    def test_the_calibration_is_computed_once_per_store(self, tmp_path: Path) -> None:
        first, second = NarrowEmbedder(), NarrowEmbedder()
        with knowloom.open(tmp_path / "k.db", embedder=first) as kb:
            kb.add(node("a", "refund"))
        assert max(map(len, first.calls)) == len(TEXTS.queries) + len(TEXTS.passages) - 1
        with knowloom.open(tmp_path / "k.db", embedder=second) as kb:
            kb.add(node("b", "parcel"))
            kb.search("violin", spaces=["s"])
        assert second.calls == [[PROBE_TEXT, "parcel"], [PROBE_TEXT, "violin"]]

    def test_knowledge_of_other_spaces_does_not_change_a_vector(self, tmp_path: Path) -> None:
        vectors = []
        for number, others in enumerate(([], ["glacier"] * 30)):
            with knowloom.open(tmp_path / f"{number}.db", embedder=NarrowEmbedder()) as kb:
                kb.add([node(f"o{place}", text) for place, text in enumerate(others)])
                vectors.append(kb.reader.embed_texts(["refund"])[0])
        np.testing.assert_array_equal(*vectors)

    def test_vectors_from_before_calibration_are_noticed(self, store_url: str) -> None:
        class Declared(NarrowEmbedder):
            is_calibrated = True

        with knowloom.open(store_url, embedder=Declared()) as kb:
            kb.add(node("a", "refund"))
            other = knowloom.Engine(kb._stores, NarrowEmbedder())
            assert vector_problems(other, "refund") == ["reindex_required"]
            assert other.reindex() == 1
            assert other.maintenance.stats().embedder == calibrated_fingerprint("narrow:1")

    def test_supplied_vectors_are_calibrated_like_those_of_the_embedder(
        self, store_url: str
    ) -> None:
        raw = NarrowEmbedder()
        with knowloom.open(store_url, embedder=NarrowEmbedder()) as kb:
            kb.add(node("a", "refund"))
            kb.add(node("b", "violin"), vectors=[raw.embed(["violin"])[0].tolist()])
            query = raw.embed(["violin"])[0].tolist()
            hits = kb.search("", spaces=["s"], mode="vector", vector=query)
            assert (hits[0].item.id, round(hits[0].score, 3)) == ("b", 1.0)
            assert all(hit.score < 0.4 for hit in hits[1:])


class TestSwappedModel:
    def test_another_model_under_the_same_name_is_noticed_until_a_reindex(
        self, tmp_path: Path
    ) -> None:
        cache = tmp_path / "vectors.cache"
        with knowloom.open(tmp_path / "k.db", embedder=NarrowEmbedder(), cache=cache) as kb:
            kb.add([node(topic, topic) for topic in TOPICS])
        swapped = NarrowEmbedder(constant=0.1, seed="other")
        with knowloom.open(tmp_path / "k.db", embedder=swapped, cache=cache) as kb:
            assert vector_problems(kb, "a new violin") == ["model_changed"]
            with pytest.raises(Conflict, match=r"is another one now: .* run reindex"):
                kb.search("a violin", spaces=["s"], mode="vector")
            assert "another one now" in kb.add(node("late", "violin concerto")).problems[0]
            assert kb.reindex() == len(TOPICS) + 1
            assert vector_problems(kb, "a new violin") == []
            (hit, *_) = kb.search("orchard", spaces=["s"], mode="vector")
            assert (hit.item.id, round(hit.score, 2)) == ("orchard", 1.0)

    def test_a_running_process_checks_again_after_a_while(self) -> None:
        from knowloom.embedders.calibration import CHECK_INTERVAL_S, ModelCheck

        now = [0.0]
        raw, index = NarrowEmbedder(), open_stores("memory:", {}).vectors
        check = ModelCheck(raw, index, clock=lambda: now[0])
        vectors = raw.embed(TEXTS.passages)
        calibration = calibrate("x", vectors, vectors)
        index.put_calibration(calibrated_fingerprint(raw.fingerprint), calibration.encode())
        check.embed(["a"])
        raw.seed = "other"
        raw.constant = 0.0
        check.embed(["b"])
        now[0] += CHECK_INTERVAL_S
        with pytest.raises(Conflict, match="run reindex"):
            check.embed(["c"])

    def test_small_differences_of_a_server_are_no_other_model(self, tmp_path: Path) -> None:
        class Noisy(NarrowEmbedder):
            def _vector(self, text: str) -> Any:
                noise = np.random.default_rng().normal(0, 0.005, 65)
                vector = super()._vector(text) + noise
                return (vector / np.linalg.norm(vector)).astype(np.float32)

        for _ in range(3):
            with knowloom.open(tmp_path / "k.db", embedder=Noisy()) as kb:
                assert kb.add(node("a", "refund", title=str(_))).problems == ()
                assert vector_problems(kb, "refund") == []

    def test_other_dimensions_are_a_conflict(self) -> None:
        calibrated = open_calibrated(NarrowEmbedder())
        calibration = calibrated.calibration()
        with pytest.raises(Conflict, match="65 dimensions and returns 3 now: run reindex"):
            calibration.apply_to_query(np.ones(3, np.float32))


def test_calibration_fails_as_the_embedder_does(store_url: str) -> None:
    class Dead(NarrowEmbedder):
        def embed(self, texts: Sequence[str]) -> list[Any]:
            raise Unavailable("out of order")

    with knowloom.open(store_url, embedder=Dead()) as kb:
        report = kb.add(node("a", "refund"))
        assert report.added == 1 and "out of order" in report.problems[0]
