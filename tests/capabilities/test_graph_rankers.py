"""Rankers of entities: terms, weighted signals, and custom ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from small_graph import NOW, entity, graph, ids

import knowloom
from knowloom import Item
from knowloom.capabilities.graph.rankers import (
    EntityScore,
    RankingRequest,
    SignalRanker,
    TermRanker,
    split_terms,
)
from knowloom.errors import Invalid
from knowloom.model import Hit


@pytest.fixture
def kb():
    with knowloom.open("memory:", embedder=None) as engine:
        yield engine


class TestRanking:
    def ranked(self, ranker, query: str, item: Item, **more: object) -> EntityScore:
        return ranker.rank(RankingRequest((query,), query, NOW, **more), [Hit(item, 0.5)])[0]

    def test_terms_are_longer_than_two_letters_unless_all_are_short(self):
        assert split_terms('How to use the "API-gateway", v20?') == [
            "how",
            "use",
            "the",
            "api",
            "gateway",
            "v20",
        ]
        assert split_terms("AI in Go") == ["ai", "in", "go"] and split_terms("") == []
        assert split_terms("退款申请") == ["退款", "款申", "申请"]

    def test_a_term_weighs_1_in_the_name_half_in_the_type_and_less_in_each_property(self):
        result = self.ranked(
            TermRanker(),
            "payment service xyz",
            entity("a", "Payment Hub", "Service", one="payment", two="a payment service"),
        )
        assert result.raw == pytest.approx((1.0 + 0.5 + 3 * 0.3) / 3, abs=1e-6)
        assert result.signals == {
            "name": 0.333333,
            "type": 0.166667,
            "property": 0.3,
        } and result.matched_terms == ("payment", "service")

    def test_scores_are_capped_at_1_and_ties_are_broken_by_the_raw_score(self, kb):
        provider = graph(kb, entity("a", "Alpha Alpha"), entity("b", "Alpha", "Alpha"))
        answer = provider.for_query("alpha")
        assert [(entity.item.id, entity.score) for entity in answer.entities] == [
            ("b", 1.0),
            ("a", 1.0),
        ]

    def test_five_signals_are_weighted(self):
        item = replace(entity("a", "Payment Hub", "Service"), updated_at=NOW - timedelta(days=73))
        result = self.ranked(
            SignalRanker(),
            "Payment Hub, the payment hub",
            item,
            preferred_types=("Service",),
            semantic={("s", "a"): 0.4},
        )
        assert result.signals == {
            "semantic": 0.4,
            "mention": 0.8,
            "type": 1.0,
            "recency": 0.8,
            "name": 1.0,
        }
        assert result.score == pytest.approx(
            0.35 * 0.4 + 0.25 * 0.8 + 0.2 + 0.1 * 0.8 + 0.1, abs=1e-6
        )

    def test_without_a_vector_the_other_signals_are_divided_by_their_weights(self):
        result = self.ranked(
            SignalRanker(),
            "nothing",
            replace(entity("a", "Payment Hub"), created_at=NOW - timedelta(days=400)),
        )
        assert result.signals == {
            "mention": 0.0,
            "type": 0.5,
            "recency": 0.0,
            "name": 0.0,
        } and result.score == pytest.approx(0.2 * 0.5 / 0.65, abs=1e-6)
        assert (
            self.ranked(SignalRanker(), "x", entity("a"), preferred_types=("Team",)).signals["type"]
            == 0.3
        )

    def test_a_name_inside_a_word_is_not_a_mention(self):
        assert self.ranked(SignalRanker(), "carpet", entity("a", "Car")).signals["mention"] == 0.0

    def test_rankers_are_chosen_by_name_and_can_be_replaced(self, kb):
        class Backwards:
            def rank(self, request: RankingRequest, hits: list[Hit]) -> list[EntityScore]:
                return [EntityScore(0.9 if hit.item.id == "beta" else 0.2) for hit in hits]

        provider = graph(kb, entity("alpha"), entity("beta"))
        assert ids(provider.for_query("alpha alpha beta", ranker=Backwards())) == ["beta", "alpha"]
        assert "mention" in provider.for_query("alpha", ranker="signals").entities[0].signals
        assert provider.for_query("alpha", ranker=TermRanker(name=0.5)).entities[0].score == 0.5

    def test_a_score_out_of_bounds_is_refused(self, kb):
        class Wild:
            def rank(self, request: RankingRequest, hits: list[Hit]) -> list[EntityScore]:
                return [EntityScore(7.0) for _ in hits]

        with pytest.raises(Invalid, match="score must be from 0 to 1"):
            graph(kb, entity("alpha")).for_query("alpha", ranker=Wild())
