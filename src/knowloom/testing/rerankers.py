"""The contract of rerankers."""

from __future__ import annotations

import pytest

from knowloom.ports import Reranker
from knowloom.testing.embedders import ODD_TEXTS


class RerankerContract:
    """The promises of `ports.Reranker`: override the fixture `reranker`.

    Each text has a score from 0 to 1, the same whatever texts are scored with it and in whatever
    order. `QUERY` and `TEXTS` may be replaced; the first text must answer the query best.
    """

    QUERY = "How long does a refund take?"
    TEXTS = ("A refund takes five days.", "Parcels leave on Mondays.", "Water boils at 100 °C.")

    @pytest.fixture
    def reranker(self) -> Reranker:
        raise NotImplementedError("override the fixture `reranker`")

    def test_it_has_a_name_and_a_fingerprint(self, reranker: Reranker) -> None:
        assert reranker.name and reranker.fingerprint == reranker.fingerprint

    def test_the_best_text_has_the_highest_score(self, reranker: Reranker) -> None:
        scores = list(reranker.rerank(self.QUERY, self.TEXTS))
        assert len(scores) == len(self.TEXTS) and scores[0] == max(scores) > min(scores)

    def test_scores_are_between_0_and_1(self, reranker: Reranker) -> None:
        assert all(0 <= score <= 1 for score in reranker.rerank(self.QUERY, self.TEXTS))

    def test_the_same_pair_has_the_same_score(self, reranker: Reranker) -> None:
        first, second = (list(reranker.rerank(self.QUERY, self.TEXTS)) for _ in range(2))
        assert first == second

    def test_scores_come_in_the_order_of_the_texts(self, reranker: Reranker) -> None:
        forwards = list(reranker.rerank(self.QUERY, self.TEXTS))
        backwards = list(reranker.rerank(self.QUERY, self.TEXTS[::-1]))
        assert forwards == pytest.approx(backwards[::-1], abs=1e-5)

    def test_a_score_does_not_depend_on_the_other_texts(self, reranker: Reranker) -> None:
        (alone,) = reranker.rerank(self.QUERY, self.TEXTS[:1])
        assert reranker.rerank(self.QUERY, self.TEXTS)[0] == pytest.approx(alone, abs=1e-5)

    def test_no_texts_have_no_scores(self, reranker: Reranker) -> None:
        assert list(reranker.rerank(self.QUERY, [])) == []

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
    def test_any_text_has_a_score(self, reranker: Reranker, text: str) -> None:
        assert all(0 <= score <= 1 for score in reranker.rerank(text, [text, "refund"]))
