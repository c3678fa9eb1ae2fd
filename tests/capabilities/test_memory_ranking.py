"""Ranking of memories over time, turns within their conversations, and links between results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Corrupt, Edge, Engine, Memory, SearchResult
from knowloom.capabilities.memory import turn_scores
from knowloom.capabilities.memory.turn_scores import question_share
from knowloom.ports import Stores
from knowloom.stores.memory.store import MemoryStore

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DELAYS = [HOUR, DAY, 7 * DAY, 365 * DAY]


@pytest.fixture(params=["memory", "sqlite", "composite", "networkx"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    stores: dict[str, dict[str, Any]] = {
        "memory": {"url": "memory:"},
        "sqlite": {"url": str(tmp_path / "knowledge.db")},
        "composite": {"url": str(tmp_path / "knowledge.db"), "graph": "memory:"},
        "networkx": {
            "url": str(tmp_path / "knowledge.db"),
            "graph": f"networkx:{tmp_path / 'g.json'}",
        },
    }
    with knowloom.open(**stores[request.param], embedder=None) as engine:
        yield engine


@pytest.fixture
def memory(kb: Engine) -> Memory:
    return Memory(kb, "home")


def contents(results: Sequence[SearchResult]) -> list[str]:
    return [result.memory.content for result in results]


def turn(speaker: str, content: str, minutes: int = 0) -> dict[str, Any]:
    return {"speaker": speaker, "content": content, "at": NOW - 30 * DAY + minutes * HOUR / 60}


class TestTime:
    @pytest.mark.parametrize("delay", DELAYS)
    def test_a_new_memory_does_not_outrank_a_similar_one(
        self, memory: Memory, delay: timedelta
    ) -> None:
        memory.remember("Ada drinks green tea", created_at=NOW - 90 * DAY)
        for number in range(20):
            memory.remember(f"Bob made tea number {number} for his guests", created_at=NOW)
        best = memory.search("Does Ada drink green tea?", now=NOW + delay)[0]
        assert best.memory.content == "Ada drinks green tea"

    @pytest.mark.parametrize("delay", DELAYS)
    def test_the_newer_of_equally_similar_memories_is_first(
        self, memory: Memory, delay: timedelta
    ) -> None:
        # The ids order them the other way round.
        memory.remember("Ada lives in Rome", id="a", created_at=NOW - 90 * DAY)
        memory.remember("Ada lives in Kiel", id="b", created_at=NOW - 30 * DAY)
        memory.remember("Ada lives in Bonn", id="c", created_at=NOW)
        answer = contents(memory.search("Where does Ada live? lives", now=NOW + delay))
        assert answer == ["Ada lives in Bonn", "Ada lives in Kiel", "Ada lives in Rome"]

    @pytest.mark.parametrize("delay", DELAYS)
    def test_the_surer_of_equally_similar_memories_is_first(
        self, memory: Memory, delay: timedelta
    ) -> None:
        memory.remember("Ada lives in Rome", id="a", confidence=0.4, created_at=NOW)
        memory.remember("Ada lives in Kiel", id="b", confidence=0.9, created_at=NOW)
        assert contents(memory.search("Ada lives", now=NOW + delay))[0] == "Ada lives in Kiel"

    def test_weights_of_the_caller_let_recency_decide(self, memory: Memory) -> None:
        memory.remember("tea tea tea", created_at=NOW - 90 * DAY)
        memory.remember("tea and much else that is drunk here", created_at=NOW)
        ranking = {"similarity_weight": 0.5, "recency_weight": 0.5, "confidence_weight": 0.0}
        assert contents(memory.search("tea", now=NOW))[0] == "tea tea tea"
        assert contents(memory.search("tea", now=NOW, ranking=ranking))[0] != "tea tea tea"


class TestTurns:
    def test_an_answer_outranks_its_question(self, memory: Memory) -> None:
        memory.add_conversation(
            [
                turn("Bob", "What kind of pet would you like, Ada?"),
                turn("Ada", "A hamster would be nice, I think."),
                turn("Bob", "Then it is settled, we go on Monday."),
            ],
            conversation="c1",
        )
        memory.remember("The kind words of Bob", created_at=NOW - 30 * DAY)
        plain = memory.search("what kind of pet would Ada like", now=NOW, ranker="similarity")
        assert contents(plain)[:2] == [
            "What kind of pet would you like, Ada?",
            "A hamster would be nice, I think.",
        ]
        question, answer = plain[:2]
        assert question.hit is not None and answer.hit is not None
        assert answer.score > 0.4 * question.score

    def test_a_turn_rises_only_with_a_better_neighbour(self, kb: Engine) -> None:
        linked, apart = Memory(kb, "linked"), Memory(kb, "apart")
        turns = [
            turn("Ada", "We adopted a hamster from the shelter in Kiel.", 0),
            turn("Bob", "What lovely news about the hamster.", 1),
            turn("Ada", "He sleeps the whole day.", 2),
        ]
        linked.add_conversation(turns, conversation="c1")
        for number, message in enumerate(turns):
            apart.add_conversation([message], conversation=f"c{number}")

        def score(memory: Memory, text: str) -> float:
            results = memory.search("hamster from the shelter Ada", now=NOW)
            return next(result.score for result in results if text in result.memory.content)

        assert score(linked, "lovely") > score(apart, "lovely")
        assert score(linked, "sleeps") == score(apart, "sleeps")
        assert score(linked, "adopted") == score(apart, "adopted")

    def test_scores_stay_between_zero_and_one_and_follow_the_filters(self, memory: Memory) -> None:
        memory.add_conversation([turn("Ada", "tea", 0), turn("Bob", "tea?", 1)], conversation="c1")
        memory.add_conversation([turn("Ada", "tea, tea", 0)], conversation="c2")
        results = memory.search("tea", now=NOW, conversation_id="c2")
        assert contents(results) == ["tea, tea"]
        assert all(0 <= result.score <= 1 for result in memory.search("tea", now=NOW))

    def test_no_result_is_below_the_minimum(self, memory: Memory) -> None:
        memory.add_conversation([turn("Ada", "Is there tea?", 0)], conversation="c1")
        (result,) = memory.search("tea", now=NOW)
        assert result.hit is not None
        limit = result.score + 1e-6
        assert memory.search("tea", now=NOW, min_score=limit) == []
        assert memory.search("tea", now=NOW, min_score=result.score) == [result]

    def test_the_first_results_do_not_depend_on_the_limit(self, memory: Memory) -> None:
        turns = [turn("Ada", f"tea number {number} with milk", number) for number in range(30)]
        memory.add_conversation(turns, conversation="c1")
        ten = contents(memory.search("tea with milk", now=NOW, ranker="similarity"))
        three = memory.search("tea with milk", now=NOW, limit=3, ranker="similarity")
        assert contents(three) == ten[:3]

    def test_later_turns_do_not_raise_a_turn_of_an_earlier_view(self, memory: Memory) -> None:
        first = memory.add_conversation([turn("Ada", "We adopted a pet.", 0)], conversation="c1")
        as_of = NOW - 20 * DAY
        before = memory.search("pet hamster", now=NOW, as_of=as_of)
        later = {"speaker": "Bob", "content": "A hamster as a pet!", "at": NOW - 10 * DAY}
        memory.add_conversation([later], conversation="c1", after=first[0].id)
        assert contents(memory.search("pet hamster", now=NOW, as_of=as_of)) == contents(before)

    @pytest.mark.parametrize(
        ("text", "share"),
        [
            ("Where do you live?", 1.0),
            ("I live in Kiel.", 0.0),
            ("abcd. efgh?", 0.5),
            ("どこに住んでいますか？", 1.0),
            ("أين تسكن؟", 1.0),
            ("", 0.0),
            ("???", 0.0),
            ("Really?! No.", 0.7),
        ],
    )
    def test_the_share_of_questions_is_by_characters(self, text: str, share: float) -> None:
        assert question_share(text) == pytest.approx(share, abs=0.1)

    @settings(max_examples=200, deadline=None)
    @given(st.text("ab.?! \n？", max_size=50))
    def test_the_share_of_questions_is_a_fraction(self, text: str) -> None:
        assert 0.0 <= question_share(text) <= 1.0

    def test_memories_that_are_no_turns_keep_their_scores(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        memory.remember("tea", created_at=NOW)
        monkeypatch.setattr(turn_scores, "_raise_by_neighbours", None)
        assert contents(memory.search("tea", now=NOW)) == ["tea"]


class BrokenGraph(MemoryStore):
    """A graph store that cannot be read."""

    def edges_of(self, *_: Any, **__: Any) -> list[Edge]:
        raise Corrupt("the graph is damaged")


def test_a_damaged_graph_does_not_stop_a_search(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with Engine(Stores(store, store, store, store), None) as kb:
        Memory(kb, "home").add_conversation(
            [turn("Ada", "tea is hot", 0), turn("Bob", "Is it?", 1)], conversation="c1"
        )
        broken = Engine(Stores(store, store, store, BrokenGraph()), None)
        memory = Memory(broken, "home")
        assert contents(memory.search("tea", now=NOW)) == ["tea is hot"]
        assert "tea is hot" in memory.build_context("tea", now=NOW).context
        assert "neighbouring turns are not considered: the graph is damaged" in caplog.text
        related = memory.search("tea", now=NOW, include_relationships=True)
        assert contents(related) == ["tea is hot"]
        assert [(problem.part, problem.code) for problem in related.degraded] == [
            ("graph", "corrupt")
        ]


class TestLinks:
    @pytest.fixture
    def pair(self, memory: Memory) -> tuple[str, str]:
        rome = memory.remember("Ada lives in Rome", created_at=NOW - 3 * DAY)
        kiel = memory.remember(
            "Ada lives in Kiel", created_at=NOW - 2 * DAY, related={rome.id: "contradicts"}
        )
        return rome.id, kiel.id

    @pytest.mark.parametrize("include_relationships", [True, False])
    def test_a_link_between_results_is_part_of_both(
        self, memory: Memory, pair: tuple[str, str], include_relationships: bool
    ) -> None:
        results = memory.search("Ada lives", now=NOW, include_relationships=include_relationships)
        rome, kiel = pair
        assert len(results) == 2
        for result in results:
            (edge,) = result.links
            assert (edge.source, edge.target, edge.type) == (kiel, rome, "contradicts")
            assert result.relationships == ()

    def test_links_to_memories_beyond_the_results_are_left_out(
        self, memory: Memory, pair: tuple[str, str]
    ) -> None:
        (result,) = memory.search("Ada lives", now=NOW, limit=1)
        assert result.links == ()

    def test_links_can_be_restricted_by_type_and_time(
        self, memory: Memory, pair: tuple[str, str]
    ) -> None:
        memory.relate(*pair, "same person", now=NOW - DAY)

        def types(**options: Any) -> set[str]:
            results = memory.search("Ada lives", now=NOW, **options)
            return {edge.type for result in results for edge in result.links}

        assert types() == {"contradicts", "same person"}
        assert types(relationship_types=["same person"]) == {"same person"}
        assert types(as_of=NOW - 1.5 * DAY) == {"contradicts"}

    def test_links_are_told_in_the_text_on_request(
        self, memory: Memory, pair: tuple[str, str]
    ) -> None:
        linked = memory.build_context("Ada lives", now=NOW, include_relationships=True)
        assert linked.context.splitlines()[2:] == [
            "- Ada lives in Kiel ([1], contradicts [2])",
            "- Ada lives in Rome ([2])",
        ]
        assert "[" not in memory.build_context("Ada lives", now=NOW).context
        assert all(result.links for result in linked.memories)

    def test_pinned_and_related_memories_are_linked_too(
        self, memory: Memory, pair: tuple[str, str]
    ) -> None:
        rome, kiel = pair
        memory.remember("call her Ada", pinned=True, created_at=NOW, related={kiel: "about"})
        memory.remember("an island of ducks", id="x", created_at=NOW, related={rome: "near"})
        text = memory.build_context("lives", now=NOW, include_relationships=True).context
        assert text.splitlines()[2:] == [
            "- call her Ada ([1], about [2])",
            "- Ada lives in Kiel ([2], contradicts [3])",
            "- Ada lives in Rome ([3])",
            "- an island of ducks ([4], near [3])",
        ]

    @settings(max_examples=25, deadline=None)
    @given(
        budget=st.integers(0, 90), edges=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    )
    def test_links_never_displace_a_memory_nor_exceed_the_budget(
        self, budget: int, edges: set[tuple[int, int]]
    ) -> None:
        with knowloom.open("memory:", embedder=None) as kb:
            memory = Memory(kb, "home")
            ids = [memory.remember(f"tea number {n}", created_at=NOW).id for n in range(5)]
            plain = memory.preview("tea", now=NOW, token_budget=budget)
            for source, target in sorted(edges):
                if source != target:
                    memory.relate(ids[source], ids[target], f"kind {source}", now=NOW)
            linked = memory.preview("tea", now=NOW, token_budget=budget, include_relationships=True)
            assert linked.memory_ids == plain.memory_ids
            count = knowloom.tokens.get_counter("gpt-4").count
            assert linked.token_count == count(linked.context) <= budget
