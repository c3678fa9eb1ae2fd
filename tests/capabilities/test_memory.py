"""Memory: storing, searching, ranking, packing, and views as of an earlier time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from fake_openai import FakeOpenAI
from knowloom import (
    Conflict,
    EmbeddingError,
    Engine,
    Invalid,
    Memory,
    NotFound,
    SearchError,
    SearchResult,
    TemplateNotFound,
    tokens,
)
from knowloom.capabilities.memory import conversion
from knowloom.capabilities.memory.options import MemoryContextOptions, MemorySearchOptions
from knowloom.capabilities.memory.ranking import by_score

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with knowloom.open(
        "memory:" if request.param == "memory" else str(tmp_path / "knowledge.db"), embedder=None
    ) as engine:
        yield engine


@pytest.fixture
def memory(kb: Engine) -> Memory:
    return Memory(kb, "home")


@pytest.fixture(scope="module")
def embedded() -> Iterator[Memory]:
    """Memories that have vectors of the bundled embedder."""
    with knowloom.open("memory:") as kb:
        memory = Memory(kb, "home")
        for number, text in enumerate(
            [
                "Ada drinks tea in the morning",
                "The launch is planned for March",
                "Bob is allergic to nuts",
            ]
        ):
            memory.remember(text, id=f"m{number}", created_at=NOW - 10 * DAY)
        yield memory


def remember_all(memory: Memory, *texts: str, **fields: Any) -> list[str]:
    return [memory.remember(text, **({"created_at": NOW - DAY} | fields)).id for text in texts]


def ids(results: Sequence[SearchResult]) -> list[str]:
    return [result.memory.id for result in results]


def failure_type(call: Callable[..., object], *args: Any, **options: Any) -> str:
    """Return the error type of a call that must fail."""
    error = knowloom.attempt(call, *args, **options).error
    assert error is not None
    return error.type


class TestRemembering:
    def test_a_memory_is_returned_as_it_was_stored(self, memory: Memory) -> None:
        stored = memory.remember(
            "Ada drinks tea",
            type="preference",
            conversation="c1",
            confidence=0.8,
            metadata={"cups": 2},
            pinned=True,
            expires_at=NOW + DAY,
            created_at=NOW,
        )
        assert memory.get(stored.id) == [stored]
        assert (
            stored.workspace,
            stored.type,
            stored.content,
            stored.conversation,
            stored.confidence,
        ) == (
            "home",
            "preference",
            "Ada drinks tea",
            "c1",
            0.8,
        )
        assert (
            stored.metadata,
            stored.pinned,
            stored.expires_at,
            stored.created_at,
            stored.updated_at,
        ) == (
            {"cups": 2},
            True,
            NOW + DAY,
            NOW,
            NOW,
        )
        assert stored.last_accessed_at is None and stored.superseded_by is None

    def test_confidence_defaults_to_one_half(self, memory: Memory) -> None:
        assert memory.remember("Ada drinks tea").confidence == 0.5

    def test_storing_the_same_memory_again_changes_nothing(
        self, kb: Engine, memory: Memory
    ) -> None:
        before = memory.remember("Ada drinks tea", created_at=NOW)
        digest = kb.maintenance.stats().spaces
        assert memory.remember("Ada drinks tea", created_at=NOW) == before
        assert kb.maintenance.stats().spaces == digest

    def test_a_different_memory_with_the_same_id_is_rejected(self, memory: Memory) -> None:
        memory.remember("Ada drinks tea", id="m")
        for other in (
            {"content": "Ada drinks coffee"},
            {"confidence": 0.9},
            {"metadata": {"cups": 2}},
            {"type": "fact"},
            {"pinned": True},
        ):
            with pytest.raises(Conflict, match="supersedes"):
                memory.remember(**({"content": "Ada drinks tea", "id": "m"} | other))
        assert memory.remember("Ada drinks tea", id="m").id == "m"
        assert memory.get("m")[0].content == "Ada drinks tea"

    @pytest.mark.parametrize(
        "bad",
        [
            {"content": " "},
            {"content": None},
            {"confidence": 1.5},
            {"confidence": math.nan},
            {"confidence": "high"},
            {"valid_from": NOW, "valid_to": NOW - DAY},
            {"expires_at": "tomorrow"},
            {"pinned": "yes"},
            {"metadata": ["a"]},
            {"metadata": {"knowloom:accesses": 7}},
            {"colour": "red"},
            {"conversation": 7},
            {"created_at": "31 May"},
            {"supersedes": ["nobody"]},
            {"related": {"nobody": "about"}},
            {"metadata": {"password": "hunter2" * 2}},
        ],
    )
    def test_invalid_memories_are_rejected_and_nothing_is_stored(
        self, kb: Engine, memory: Memory, bad: dict[str, Any]
    ) -> None:
        with pytest.raises((Invalid, NotFound)):
            memory.remember(**({"content": "Ada drinks tea"} | bad))
        assert list(kb.items()) == []

    @pytest.mark.parametrize("workspace", ["", 7, "knowloom:loaded", "a\nb"])
    def test_an_invalid_workspace_is_rejected(self, kb: Engine, workspace: Any) -> None:
        with pytest.raises(Invalid):
            Memory(kb, workspace)

    def test_a_forgotten_memory_is_deleted_with_its_edges(self, kb: Engine, memory: Memory) -> None:
        first, second = remember_all(memory, "Ada drinks tea", "Tea is kept in the tin")
        memory.relate(first, second)
        assert memory.forget([first, "nobody"]) == 1
        assert ids(memory.search("tea", now=NOW)) == [second] and list(kb.edges()) == []

    def test_items_of_other_kinds_are_not_memories(self, kb: Engine, memory: Memory) -> None:
        kb.add(knowloom.Item("faq", "home", text="tea is served at four"))
        assert (memory.get("faq"), memory.forget("faq"), memory.search("tea", now=NOW)) == (
            [],
            0,
            [],
        )
        assert kb.get("faq", space="home")

    def test_internal_properties_are_neither_searched_nor_shown(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        remember_all(memory, "Ada drinks tea", metadata={"room": "kitchen"})
        memory.search("tea", now=NOW)
        assert memory.search("accessed 2026", now=NOW) == []
        assert (
            "knowloom:" not in kb.context("tea", spaces=["home"], now=NOW).text
            and "kitchen" in kb.context("tea", spaces=["home"], now=NOW).text
        )


class TestSearching:
    def test_defaults_are_as_documented(self) -> None:
        options = MemoryContextOptions()
        assert (
            options.limit,
            options.include_relationships,
            options.relationship_depth,
            options.min_confidence,
        ) == (10, False, 1, 0.0)
        ranking = options.ranking
        assert (ranking.similarity_weight, ranking.recency_weight, ranking.confidence_weight) == (
            0.94,
            0.03,
            0.03,
        )

    def test_search_returns_ten_results_by_default(self, memory: Memory) -> None:
        remember_all(memory, *(f"tea number {n}" for n in range(15)))
        assert (
            len(memory.search("tea", now=NOW)),
            len(memory.search("tea", limit=12, now=NOW)),
        ) == (10, 12)

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"memory_types": ["fact"]}, ["fact"]),
            ({"memory_types": ["fact", "decision"]}, ["decision", "fact"]),
            ({"conversation_id": "c2"}, ["decision"]),
            ({"min_confidence": 0.6}, ["sure"]),
            ({"date_from": NOW - 2 * DAY}, ["sure"]),
            ({"date_to": NOW - 4 * DAY}, ["fact"]),
            ({"date_from": NOW - 4 * DAY, "date_to": NOW - 2 * DAY}, ["decision"]),
        ],
    )
    def test_filters_restrict_the_results(
        self, memory: Memory, options: dict[str, Any], expected: list[str]
    ) -> None:
        memory.remember(
            "tea is green", id="fact", type="fact", conversation="c1", created_at=NOW - 5 * DAY
        )
        memory.remember(
            "we buy tea",
            id="decision",
            type="decision",
            conversation="c2",
            created_at=NOW - 3 * DAY,
        )
        memory.remember("tea is hot", id="sure", type="note", confidence=0.9, created_at=NOW - DAY)
        assert sorted(ids(memory.search("tea", now=NOW, **options))) == expected

    def test_an_empty_workspace_returns_no_results(self, kb: Engine) -> None:
        memory = Memory(kb, "fresh")
        assert memory.search("tea") == [] and memory.build_context("tea").context == ""
        assert (memory.get("a"), memory.forget("a")) == ([], 0)

    def test_an_empty_list_says_why(self, memory: Memory) -> None:
        assert [row.code for row in memory.search("tea").degraded] == ["unknown_space"]
        assert [row.code for row in memory.preview("tea").degraded] == ["unknown_space"]
        remember_all(memory, "Ada drinks tea", type="fact")
        assert memory.search("tea").degraded == ()
        for query, options, reason in (
            ("tea", {"min_score": 0.99}, "min_score 0.99 left out 1"),
            ("tea", {"memory_types": ["decision"]}, "no item passes the filters"),
            ("volcano", {}, "no item matches the query"),
        ):
            results = memory.search(query, mode="bm25", **options)
            assert results == [] and [row.code for row in results.degraded] == ["no_results"]
            assert reason in results.degraded[0].reason

    def test_workspaces_are_isolated(self, kb: Engine) -> None:
        home, work = Memory(kb, "home"), Memory(kb, "work")
        home.remember("tea at four", id="a", created_at=NOW)
        alone = home.search("tea", now=NOW)
        remember_all(work, *(f"tea {n}" for n in range(20)))
        assert home.search("tea", now=NOW) == alone

    def test_search_by_text_and_by_vector_agree(self, embedded: Memory) -> None:
        question = "what is somebody allergic to"
        vector = embedded._kb.reader.embed_texts([question])[0].tolist()
        assert embedded.search(question, mode="vector", now=NOW) == embedded.search_by_vector(
            vector, now=NOW
        )
        by_text, by_vector = (
            embedded.build_context(question, mode="vector", now=NOW),
            embedded.build_context_by_vector(vector, now=NOW),
        )
        assert by_text == by_vector and "nuts" in by_text.context

    def test_search_many_equals_single_searches(self, embedded: Memory) -> None:
        questions = ["tea", "when is the launch", "tea"]
        assert embedded.search_many(questions, now=NOW) == [
            embedded.search(question, now=NOW) for question in questions
        ]

    def test_many_questions_are_embedded_in_one_batch(self) -> None:
        with (
            FakeOpenAI([]) as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea")
            before = len(server.requests)
            memory.search_many(["one", "two", "three"])
            (request,) = server.requests[before:]
            assert request.texts[-3:] == ["one", "two", "three"]

    @pytest.mark.parametrize(
        "bad",
        [
            {"limit": 0},
            {"limit": None},
            {"limit": 10**9},
            {"date_from": NOW, "date_to": NOW - DAY},
            {"date_from": "yesterday"},
            {"min_confidence": 2},
            {"memory_types": "fact"},
            {"relationship_depth": 11},
            {"relationship_depth": -1},
            {"include_relationships": "yes"},
            {"mode": "magic"},
            {"ranker": "alphabet"},
            {"ranker": 7},
            {"ranking": {"similarity_weight": -1}},
            {"ranking": {"similarity_weight": 0, "recency_weight": 0, "confidence_weight": 0}},
            {"ranking": {"colour": 1}},
            {"ranking": {"half_life_days": 0}},
            {"conversation_id": 3},
            {"as_of": "never"},
            {"colour": "red"},
        ],
    )
    def test_invalid_options_are_rejected(self, memory: Memory, bad: dict[str, Any]) -> None:
        remember_all(memory, "tea")
        with pytest.raises(Invalid):
            memory.search("tea", **bad)

    def test_an_unknown_option_is_rejected_with_the_available_ones(self, memory: Memory) -> None:
        with pytest.raises(
            Invalid, match=r"unknown option 'colour'; available: .*conversation_id.*limit"
        ):
            memory.search("tea", colour="red")

    @pytest.mark.parametrize("query", ["", "  \n", None, 7, "\ud800"])
    def test_an_empty_query_is_rejected(self, memory: Memory, query: Any) -> None:
        for ask in (memory.search, memory.build_context, memory.preview):
            with pytest.raises(Invalid):
                ask(query)

    @pytest.mark.parametrize(
        "vector",
        [
            [],
            [1.0, 2.0],
            [math.nan] * 384,
            [math.inf] + [0.0] * 383,
            [0.0] * 384,
            "abc",
            [[1.0]],
            None,
        ],
    )
    def test_an_invalid_vector_is_rejected(self, embedded: Memory, vector: Any) -> None:
        for ask in (embedded.search_by_vector, embedded.build_context_by_vector):
            with pytest.raises(Invalid):
                ask(vector)

    def test_expected_dimensions_are_checked_at_construction(
        self, embedded: Memory, kb: Engine
    ) -> None:
        assert Memory(embedded._kb, "home", expected_dimensions=384)
        with pytest.raises(Invalid, match="expected vectors of 1536 dimensions, got 384"):
            Memory(embedded._kb, "home", expected_dimensions=1536)
        with pytest.raises(Invalid, match="there is no embedder"):
            Memory(kb, "home", expected_dimensions=384)


class TestFailing:
    @pytest.mark.parametrize("mode", ["hybrid", "vector"])
    def test_an_embedder_that_fails_is_an_error_even_if_nothing_is_embedded(
        self, mode: str
    ) -> None:
        with (
            FakeOpenAI(100 * ["401"]) as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea")
            for ask in (
                memory.search,
                memory.build_context,
                memory.preview,
                lambda query, **options: memory.search_many([query], **options),
            ):
                with pytest.raises(EmbeddingError):
                    ask("coffee", mode=mode)
                assert failure_type(ask, "tea", mode=mode) == "embedding_error"
            assert len(memory.search("tea", mode="bm25")) == 1

    def test_memories_without_vectors_are_an_error_unless_words_match(self) -> None:
        with (
            FakeOpenAI() as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea", embed=False)
            assert len(memory.search("tea")) == 1
            with pytest.raises(EmbeddingError, match="no memory of workspace 'home' is embedded"):
                memory.search("coffee")
            assert memory.search("coffee", mode="bm25") == []
            assert memory.search("coffee", memory_types=["fact"]) == []
            kb.maintenance.embed()
            assert knowloom.attempt(memory.search, "coffee").ok

    @pytest.mark.parametrize("mode", ["hybrid", "vector"])
    def test_an_embedder_that_fails_is_an_error_not_an_empty_list(self, mode: str) -> None:
        with (
            FakeOpenAI(["ok", *20 * ["401"]]) as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea")
            with pytest.raises(EmbeddingError) as caught:
                memory.search("coffee", mode=mode)
            assert caught.value.code == "embedding_error"
            assert len(memory.search("tea", mode="bm25")) == 1

    def test_a_failing_custom_embedder_without_a_code_is_an_error_too(self) -> None:
        class Tired:
            name, fingerprint, dimensions = "tired", "tired:2", 2
            awake = True

            def embed(self, texts: Sequence[str]) -> list[Any]:
                if not self.awake:
                    raise knowloom.Unavailable("too tired")
                return [np.array([1.0, 0.0], np.float32) for _ in texts]

        embedder = Tired()
        with knowloom.open("memory:", embedder=embedder) as kb:
            memory = Memory(kb, "home")
            memory.remember("tea")
            embedder.awake = False
            for ask in (
                memory.search,
                memory.build_context,
                lambda query: memory.search_many([query]),
            ):
                with pytest.raises(EmbeddingError, match="too tired"):
                    ask("coffee")

    def test_vectors_of_another_embedder_are_an_error(self, tmp_path: Path) -> None:
        file = str(tmp_path / "knowledge.db")
        with knowloom.open(file) as kb:
            Memory(kb, "home").remember("tea")
        with (
            knowloom.open(file, embedder=None) as kb,
            pytest.raises(EmbeddingError, match="no embedder was opened"),
        ):
            Memory(kb, "home").search("tea")

    def test_attempt_returns_an_error_as_a_value(self, embedded: Memory) -> None:
        outcome = knowloom.attempt(embedded.build_context, "tea", template="letter")
        assert (
            not outcome.ok
            and outcome.error is not None
            and outcome.error.type == "template_not_found"
        )
        assert "bullets, chat, detailed, summary, timeline, xml" in outcome.error.message
        with pytest.raises(TemplateNotFound):
            outcome.unwrap()
        assert failure_type(embedded.search, "tea", limit=0) == "validation_error"
        good = knowloom.attempt(embedded.build_context, "tea", now=NOW)
        assert good.ok and good.unwrap() == embedded.build_context("tea", now=NOW)

    def test_each_kind_of_failure_has_its_type(self, tmp_path: Path) -> None:
        with (
            FakeOpenAI(["ok", *20 * ["401"]]) as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea")
            assert failure_type(memory.search, "tea time") == "embedding_error"
        with knowloom.open(str(tmp_path / "knowledge.db"), embedder=None) as kb:
            memory = Memory(kb, "home")
            memory.remember("tea")
            broken = knowloom.attempt(memory.search, "tea", ranker=lambda results, options: 1 / 0)
            assert (
                broken.error is not None
                and broken.error.type == "search_error"
                and "ZeroDivisionError" in broken.error.message
            )
        assert failure_type(memory.search, "tea") == "storage_error"

    def test_attempt_does_not_catch_bugs(self, memory: Memory) -> None:
        with pytest.raises(TypeError):
            knowloom.attempt(memory.search)  # type: ignore[call-arg]


async def rank_later(results: Sequence[SearchResult], options: object) -> Sequence[SearchResult]:
    return results


class TestRanking:
    def test_the_rank_follows_the_formula(self, memory: Memory) -> None:
        memory.remember("tea", id="m", confidence=0.9, created_at=NOW - 3 * DAY)
        result = memory.search("tea", now=NOW)[0]
        assert result.rank == pytest.approx(
            0.94 * result.score + 0.03 * 1 / (1 + 3) + 0.03 * 0.9, abs=1e-6
        )

    def test_weights_can_be_replaced_and_recency_can_halve(self, memory: Memory) -> None:
        memory.remember("tea", id="m", confidence=0.9, created_at=NOW - 20 * DAY)
        weights = {
            "similarity_weight": 0.0,
            "recency_weight": 1.0,
            "confidence_weight": 0.1,
            "half_life_days": 10,
        }
        assert memory.search("tea", now=NOW, ranking=weights)[0].rank == pytest.approx(0.25 + 0.09)

    def test_a_memory_from_the_future_counts_as_new(self, memory: Memory) -> None:
        memory.remember("tea", id="m", created_at=NOW + DAY)
        assert memory.search("tea", now=NOW, ranker="recency")[0].rank == 1.0

    @pytest.mark.parametrize(
        ("ranker", "order"),
        [
            ("similarity", ["like", "new", "sure"]),
            ("recency", ["new", "sure", "like"]),
            ("confidence", ["sure", "like", "new"]),
        ],
    )
    def test_one_signal_alone_can_decide(
        self, memory: Memory, ranker: str, order: list[str]
    ) -> None:
        memory.remember("tea tea tea", id="like", created_at=NOW - 9 * DAY)
        memory.remember(
            "tea and much else that is drunk here", id="new", confidence=0.4, created_at=NOW - DAY
        )
        memory.remember(
            "tea and much else that is drunk in the evening by all of us",
            id="sure",
            confidence=1.0,
            created_at=NOW - 5 * DAY,
        )
        assert ids(memory.search("tea", now=NOW, ranker=ranker)) == order

    def test_a_custom_ranker_decides_the_order(self, memory: Memory) -> None:
        a, b, c = remember_all(memory, "tea a", "tea bb", "tea ccc")
        memory.register_ranker("longest", by_score(lambda result: len(result.memory.content)))
        assert ids(memory.search("tea", now=NOW, ranker="longest")) == [c, b, a]
        backwards = memory.search(
            "tea",
            now=NOW,
            ranker=lambda results, options: sorted(
                results, key=lambda result: result.memory.content
            ),
        )
        assert ids(backwards) == [a, b, c] and [result.rank for result in backwards] == [
            1.0,
            0.666667,
            0.333333,
        ]

    @pytest.mark.parametrize(
        ("ranker", "message"),
        [
            (lambda results, options: results[1:], "lost"),
            (lambda results, options: [*results, results[0]], "repeated"),
            (
                lambda results, options: [
                    replace(results[0], memory=replace(results[0].memory, id="x")),
                    *results[1:],
                ],
                "lost",
            ),
            (lambda results, options: 1 / 0, "ZeroDivisionError"),
            (lambda results, options: None, "must return a list of SearchResult, got NoneType"),
            (lambda results, options: "tea", "must return a list of SearchResult, got str"),
            (lambda results, options: {"a": 1}, "must return a list of SearchResult, got dict"),
            (rank_later, "must return a list of SearchResult, got coroutine"),
            (lambda results, options: [1, 2], "must return SearchResult values, got int"),
            (
                lambda results, options: [replace(result, rank=math.nan) for result in results],
                "must be finite",
            ),
            (lambda: None, "TypeError"),
        ],
    )
    def test_a_ranker_that_misbehaves_is_an_error(
        self, memory: Memory, ranker: Any, message: str
    ) -> None:
        remember_all(memory, "tea a", "tea b")
        for ask in (memory.search, memory.build_context):
            with pytest.raises(SearchError, match=message):
                ask("tea", now=NOW, ranker=ranker)

    def test_an_invalid_ranker_is_not_registered(self, memory: Memory) -> None:
        with pytest.raises(Invalid):
            memory.register_ranker("broken", "not a function")  # type: ignore[arg-type]

    def test_accesses_are_counted_on_request_and_can_affect_the_rank(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        used, other = remember_all(memory, "green tea", "black tea")
        for _ in range(3):
            memory.search("green", now=NOW)
        stored = memory.get(used)[0]
        assert (stored.accesses, stored.last_accessed_at, stored.updated_at) == (3, NOW, NOW - DAY)
        assert memory.get(other)[0].accesses == 0
        assert (
            ids(
                memory.search(
                    "tea",
                    now=NOW,
                    ranking={"similarity_weight": 0.0, "recency_weight": 0.0, "access_weight": 1.0},
                )
            )[0]
            == used
        )

    def test_a_preview_counts_no_access(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        (used,) = remember_all(memory, "green tea")
        memory.preview("tea", now=NOW)
        assert memory.get(used)[0].accesses == 0
        memory.build_context("tea", now=NOW)
        assert memory.get(used)[0].accesses == 1


class TestTemplates:
    def test_builtin_templates_render_as_documented(self, memory: Memory) -> None:
        remember_all(memory, "Ada drinks tea", type="fact", confidence=0.9)
        remember_all(memory, "Bob drinks tea", type="note", created_at=NOW - 2 * DAY)
        texts = {
            name: memory.build_context("tea", template=name, now=NOW).context
            for name in ("chat", "detailed", "summary")
        }
        assert texts == {
            "chat": (
                "Relevant context from past conversations:\n\n- Ada drinks tea\n- Bob drinks tea\n"
            ),
            "detailed": (
                "Relevant memories:\n\n[fact] Ada drinks tea (confidence: 0.9,"
                " 2026-05-31T00:00:00Z)\n\n[note] Bob drinks tea (confidence: 0.5,"
                " 2026-05-30T00:00:00Z)\n"
            ),
            "summary": "Key information:\nAda drinks tea | Bob drinks tea",
        }

    def test_the_default_template_is_chat_unless_configured(
        self, kb: Engine, memory: Memory
    ) -> None:
        remember_all(memory, "tea")
        assert memory.build_context("tea", now=NOW).template == "chat"
        assert (
            Memory(kb, "home", default_template="summary").build_context("tea", now=NOW).context
            == "Key information:\ntea"
        )

    def test_variables_are_replaced_once(self, memory: Memory) -> None:
        remember_all(memory, "tea {{score}} and {{content}}", type="{{content}}")
        memory.register_template(
            "own",
            {"memory_format": "<{{type}}|{{ content }}|{{confidence}}|{{timestamp}}|{{score}}>"},
        )
        text = memory.build_context("tea", template="own", now=NOW).context
        score = memory.search("tea", now=NOW)[0].score
        assert (
            text == "<{{content}}|tea {{score}} and"
            f" {{{{content}}}}|0.5|2026-05-31T00:00:00Z|{score:.2f}>"
        )

    def test_a_memory_cannot_imitate_two_entries(self, memory: Memory) -> None:
        remember_all(
            memory, "tea\n- the password is tea\r\n\u2028- more", metadata={"note": "a\n- b"}
        )
        text = memory.build_context("tea", now=NOW, include_metadata=True).context
        assert [line for line in text.splitlines() if line.startswith("- ")] == ["- tea"]

    def test_an_unknown_template_is_rejected_with_the_available_ones(self, memory: Memory) -> None:
        memory.register_template("own", knowloom.MemoryTemplate("own"))
        with pytest.raises(
            TemplateNotFound,
            match="'letter'; available: bullets, chat, detailed, own, summary, timeline, xml",
        ):
            memory.build_context("tea", template="letter")

    @pytest.mark.parametrize(
        "template",
        [
            {"memory_format": "{{colour}}"},
            {"memory_format": 7},
            {"header": None},
            {"footer": "\ud800"},
            {"colour": "red"},
            {"include_metadata": 1},
            {"memory_format": "no variable"},
            {"memory_format": "{content}"},
            {"memory_format": "{% if content %}{{content}}{% endif %}"},
            {"memory_format": "{{#each memories}}{{content}}{{/each}}"},
            {"order": "alphabet"},
            {"order": 7},
            {"escape": "html"},
            {"escape": None},
            "text",
            "{{content}}",
            7,
        ],
    )
    def test_an_invalid_template_is_rejected(self, memory: Memory, template: Any) -> None:
        with pytest.raises(Invalid):
            memory.register_template("own", template)

    def test_metadata_is_shown_on_request(self, memory: Memory) -> None:
        remember_all(memory, "tea", type="fact", metadata={"cups": 2, "room": "kitchen"})
        shown = memory.build_context(
            "tea", now=NOW, include_metadata=True, template="summary"
        ).context
        assert (
            shown
            == "Key information:\ntea (type: fact, confidence: 0.5, created: 2026-05-31T00:00:00Z,"
            " cups: 2, room: kitchen)"
        )
        assert memory.build_context(
            "tea", now=NOW, include_metadata=True, template="detailed"
        ).context.endswith("00:00Z) (cups: 2, room: kitchen)\n")


class TestBudget:
    def test_the_budget_defaults_to_two_thousand_tokens(self, kb: Engine, memory: Memory) -> None:
        words = [" ".join(f"word{n * 300 + m}" for m in range(200)) for n in range(10)]
        remember_all(memory, *(f"tea {text}" for text in words))
        assert 1500 < memory.build_context("tea", now=NOW).token_count <= 2000
        assert (
            Memory(kb, "home", default_token_budget=700).build_context("tea", now=NOW).token_count
            <= 700
        )

    @settings(max_examples=60, deadline=None)
    @given(
        texts=st.lists(
            st.text("ab \n/|-é🧵", min_size=1, max_size=60).filter(str.strip),
            min_size=1,
            max_size=8,
            unique=True,
        ),
        budget=st.integers(0, 120),
        template=st.sampled_from(["chat", "detailed", "summary"]),
        model=st.sampled_from(["gpt-4", "gpt-4o", "mystery"]),
    )
    def test_the_text_never_exceeds_the_budget(
        self, texts: list[str], budget: int, template: str, model: str
    ) -> None:
        with knowloom.open("memory:", embedder=None) as kb:
            memory = Memory(kb, "home")
            remember_all(memory, *(f"tea {text}" for text in texts))
            preview = memory.preview(
                "tea", now=NOW, token_budget=budget, template=template, model=model
            )
            assert preview.token_count == tokens.get_counter(model).count(preview.context) <= budget
            assert len(preview.memory_ids) + len(preview.left_out) == len(
                texts
            ) and preview.truncated == bool(preview.left_out)
            assert bool(preview.context) == bool(preview.memory_ids)

    @settings(max_examples=40, deadline=None)
    @given(
        lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
        budget=st.integers(8, 120),
        template=st.sampled_from(["chat", "summary"]),
    )
    def test_the_chosen_set_is_optimal(
        self, lengths: list[int], budget: int, template: str
    ) -> None:
        """No subset that fits is worth more than a thousandth above the choice."""
        with knowloom.open("memory:", embedder=None) as kb:
            memory = Memory(kb, "home")
            remember_all(
                memory, *(f"tea {n} " + "word " * length for n, length in enumerate(lengths))
            )
            count = tokens.get_counter("gpt-4").count
            full = memory.preview("tea", now=NOW, token_budget=100_000, template=template)
            worth = {result.memory.id: (result.rank or 0.0) ** 6 for result in full.memories}
            contents = {result.memory.id: result.memory.content for result in full.memories}
            shape: dict[str, Callable[[list[str]], str]] = {
                "chat": lambda texts: (
                    "Relevant context from past conversations:\n\n"
                    + "\n".join(f"- {text}" for text in texts)
                    + "\n"
                ),
                "summary": lambda texts: "Key information:\n" + " | ".join(texts),
            }
            fitting = [
                sum(worth[id] for id in subset)
                for size in range(1, len(contents) + 1)
                for subset in combinations(contents, size)
                if count(shape[template]([contents[id] for id in subset])) <= budget
            ]
            chosen = memory.preview(
                "tea", now=NOW, token_budget=budget, template=template
            ).memory_ids
            assert sum(worth[id] for id in chosen) >= max(fitting, default=0.0) * (1 - 1e-3)

    def test_a_budget_of_the_exact_size_fits(self, memory: Memory) -> None:
        remember_all(memory, *(f"tea number {n}" for n in range(10)))
        for template in ("chat", "detailed", "summary"):
            whole = memory.preview("tea", now=NOW, template=template)
            assert (
                memory.preview(
                    "tea", now=NOW, template=template, token_budget=whole.token_count
                ).context
                == whole.context
            )
            assert (
                memory.preview(
                    "tea", now=NOW, template=template, token_budget=whole.token_count
                ).budget_used
                == 100.0
            )

    def test_a_budget_may_be_zero_or_unlimited(self, memory: Memory) -> None:
        remember_all(memory, "tea")
        nothing, everything = (
            memory.preview("tea", token_budget=0, now=NOW),
            memory.preview("tea", token_budget=100_000_000, now=NOW),
        )
        assert (nothing.context, nothing.token_count, nothing.truncated, nothing.budget_used) == (
            "",
            0,
            True,
            0.0,
        )
        assert everything.context and not everything.truncated
        for bad in (-1, 10**12, 1.5, "all"):
            with pytest.raises(Invalid, match="token_budget"):
                memory.build_context("tea", token_budget=bad)

    def test_a_preview_equals_the_context_and_gives_reasons(self, memory: Memory) -> None:
        remember_all(memory, *(f"tea {n} " + "and so on " * 5 * n for n in range(8)))
        for options in (
            {},
            {"template": "detailed", "token_budget": 100},
            {"ranker": "recency", "limit": 3},
            {"token_budget": 30},
        ):
            answer, preview = (
                memory.build_context("tea", now=NOW, **options),
                memory.preview("tea", now=NOW, **options),
            )
            assert preview.result() == answer and type(answer) is knowloom.ContextResult
            assert (
                preview.memory_ids == tuple(ids(answer.memories)) == tuple(preview.ranking_scores)
            )
            assert preview.budget_used == pytest.approx(
                100 * answer.token_count / options.get("token_budget", 2000), abs=0.01
            )  # type: ignore[call-overload]
            assert all(
                omission.reason and omission.id not in preview.memory_ids
                for omission in preview.left_out
            )

    def test_pinned_memories_come_first_even_without_a_match(self, memory: Memory) -> None:
        (pin,) = remember_all(
            memory, "Ada's name is Ada Lovelace", pinned=True, created_at=NOW - 100 * DAY
        )
        (match,) = remember_all(memory, "tea at four")
        assert memory.preview("tea", now=NOW).memory_ids == (pin, match)
        assert memory.preview("tea", now=NOW, pinned=False).memory_ids == (match,)
        assert ids(memory.search("tea", now=NOW)) == [match]


class TestRelationships:
    @pytest.fixture
    def chain(self, memory: Memory) -> list[str]:
        """tea -> cup -> shelf -> wall, and the first is also linked to the third."""
        names = [
            memory.remember(text, id=text.split()[0], created_at=NOW - DAY).id
            for text in ("tea is hot", "cup of Ada", "shelf of oak", "wall is red")
        ]
        for source, target in (("tea", "cup"), ("cup", "shelf"), ("shelf", "wall")):
            memory.relate(source, target, "on", confidence=0.8, now=NOW - DAY)
        memory.relate("tea", "shelf", "near", confidence=0.5, now=NOW - DAY)
        return names

    @pytest.mark.parametrize(
        ("depth", "reached"),
        [
            (0, []),
            (1, ["cup", "shelf"]),
            (2, ["cup", "shelf", "wall"]),
            (9, ["cup", "shelf", "wall"]),
        ],
    )
    def test_edges_are_followed_to_the_requested_depth(
        self, memory: Memory, chain: list[str], depth: int, reached: list[str]
    ) -> None:
        (result,) = memory.search(
            "tea", now=NOW, include_relationships=True, relationship_depth=depth
        )
        assert sorted(relation.memory.id for relation in result.relationships) == reached
        assert {relation.memory.id: relation.depth for relation in result.relationships}.get(
            "wall", 2
        ) == 2

    def test_relationships_are_off_by_default(self, memory: Memory, chain: list[str]) -> None:
        assert memory.search("tea", now=NOW)[0].relationships == ()
        assert "cup" not in memory.build_context("tea", now=NOW).context

    def test_relationships_can_be_restricted_by_type(
        self, memory: Memory, chain: list[str]
    ) -> None:
        (result,) = memory.search(
            "tea", now=NOW, include_relationships=True, relationship_types=["near"]
        )
        assert [
            (relation.memory.id, relation.relationship.type) for relation in result.relationships
        ] == [("shelf", "near")]

    def test_a_related_memory_is_rendered_once(self, memory: Memory, chain: list[str]) -> None:
        preview = memory.preview(
            "tea cup", now=NOW, include_relationships=True, relationship_depth=3
        )
        assert sorted(preview.memory_ids) == sorted(chain) and len(set(preview.memory_ids)) == 4
        assert all(
            preview.context.count(text) == 1
            for text in ("tea is hot", "cup of Ada", "shelf of oak", "wall is red")
        )

    def test_related_memories_share_the_budget(self, memory: Memory, chain: list[str]) -> None:
        preview = memory.preview(
            "tea", now=NOW, include_relationships=True, relationship_depth=3, token_budget=18
        )
        assert preview.memory_ids[0] == "tea" and preview.token_count <= 18 and preview.truncated
        assert preview.left_out

    def test_related_memories_rank_below_their_source(
        self, memory: Memory, chain: list[str]
    ) -> None:
        preview = memory.preview("tea", now=NOW, include_relationships=True)
        assert max(preview.ranking_scores, key=lambda id: preview.ranking_scores[id]) == "tea"


NO_TIME, NO_FIELD = (
    [{"role": "a", "content": "x", "at": "noon"}],
    [{"role": "a", "content": "x", "mood": "good"}],
)


class TestConversations:
    TURNS = (
        knowloom.Turn(
            "Ada", "I moved to Hamburg last week.", datetime(2025, 5, 8, 13, 56, tzinfo=UTC)
        ),
        {"role": "Bob", "text": "How is the new flat?", "created_at": "2025-05-08T13:57:00Z"},
        {"speaker": "Ada", "content": "It has a balcony.", "at": "2025-05-08T13:58:00Z"},
    )

    def test_turns_record_speaker_and_time(self, memory: Memory) -> None:
        turns = memory.add_conversation(self.TURNS, conversation="c1")
        assert [(turn.type, turn.conversation, turn.metadata["speaker"]) for turn in turns] == [
            ("turn", "c1", name) for name in ("Ada", "Bob", "Ada")
        ]
        context = memory.build_context("When did Ada move?", now=NOW).context
        assert "- Ada at 1:56 pm on 8 May, 2025: I moved to Hamburg last week.\n" in context

    def test_a_turn_matches_its_speaker_and_month(self, memory: Memory) -> None:
        turns = memory.add_conversation(self.TURNS, conversation="c1")
        assert (
            memory.search("what did Bob say in May", now=NOW, ranker="similarity")[0].memory.id
            == turns[1].id
        )

    def test_summaries_and_facts_link_to_their_turns(self, memory: Memory) -> None:
        memories = memory.add_conversation(
            self.TURNS,
            conversation="c1",
            summary="Ada has a new home.",
            facts=[knowloom.Fact("Ada lives in Hamburg.", (0,), 0.9), "It is sunny."],
        )
        assert [stored.type for stored in memories] == [
            "turn",
            "turn",
            "turn",
            "summary",
            "fact",
            "fact",
        ]
        assert memories[4].confidence == 0.9 and memories[3].created_at == memories[2].created_at
        (result,) = memory.search(
            "lives", now=NOW, include_relationships=True, memory_types=["fact"]
        )
        assert [
            (relation.memory.id, relation.relationship.type) for relation in result.relationships
        ] == [(memories[0].id, "from")]
        (result,) = memory.search("home", now=NOW, include_relationships=True)
        assert {relation.memory.id for relation in result.relationships} == {
            turn.id for turn in memories[:3]
        }

    def test_neighbouring_turns_are_linked(self, memory: Memory) -> None:
        turns = memory.add_conversation(self.TURNS, conversation="c1")
        (result,) = memory.search("flat", now=NOW, include_relationships=True)
        assert {relation.memory.id for relation in result.relationships} == {
            turns[0].id,
            turns[2].id,
        }

    def test_a_conversation_can_be_repeated_and_continued(self, kb: Engine, memory: Memory) -> None:
        first = memory.add_conversation(self.TURNS, conversation="c1")
        digests = kb.maintenance.stats().spaces
        assert (
            memory.add_conversation(self.TURNS, conversation="c1") == first
            and kb.maintenance.stats().spaces == digests
        )
        more = memory.add_conversation(
            [{"role": "Bob", "content": "And a garden?", "at": "2025-05-08T13:59:00Z"}],
            conversation="c1",
            after=first[-1].id,
        )
        assert (first[-1].id, more[0].id) in {(edge.source, edge.target) for edge in kb.edges()}

    def test_a_repeated_text_is_two_turns(self, memory: Memory) -> None:
        turns = memory.add_conversation(
            [{"role": "Ada", "content": "No."}] * 3, conversation="c1", now=NOW
        )
        assert len({turn.id for turn in turns}) == 3

    @pytest.mark.parametrize(
        "messages",
        [
            "text",
            {"role": "a"},
            [{"role": "Ada"}],
            [{"content": "x"}],
            [{"role": "", "content": "x"}],
            [{"role": "a", "content": " "}],
            [7],
            NO_TIME,
            NO_FIELD,
        ],
    )
    def test_an_invalid_conversation_is_rejected_as_a_whole(
        self, kb: Engine, memory: Memory, messages: Any
    ) -> None:
        with pytest.raises(Invalid):
            memory.add_conversation(
                messages if isinstance(messages, str | dict) else [self.TURNS[0], *messages],
                conversation="c1",
            )
        with pytest.raises(Invalid):
            memory.add_conversation(self.TURNS, conversation="c1", facts=[knowloom.Fact("x", (3,))])
        with pytest.raises(Invalid):
            memory.add_conversation(self.TURNS, conversation="")
        assert list(kb.items()) == []


class TestTime:
    def test_a_superseded_memory_is_found_only_as_of_its_time(self, memory: Memory) -> None:
        old = memory.remember("the launch is in March", created_at=NOW - 10 * DAY)
        new = memory.remember("the launch is in April", created_at=NOW - 5 * DAY, supersedes=old.id)
        assert ids(memory.search("launch", now=NOW)) == [new.id]
        (then,) = memory.search("launch", now=NOW, as_of=NOW - 6 * DAY)
        assert (
            then.memory == old
            and then.memory.superseded_by is None
            and then.memory.expires_at is None
        )
        assert memory.get(old.id)[0].superseded_by == new.id
        assert "March" in memory.build_context("launch", now=NOW, as_of=NOW - 6 * DAY).context

    def test_a_memory_is_not_visible_before_it_was_stored(self, memory: Memory) -> None:
        old = memory.remember("Ada lives in Rome", created_at=NOW - 10 * DAY)
        new = memory.remember(
            "Ada lives in Hamburg",
            created_at=NOW - 2 * DAY,
            valid_from=NOW - 8 * DAY,
            supersedes=[old.id],
        )
        assert ids(memory.search("Ada", now=NOW, as_of=NOW - 5 * DAY)) == [old.id]
        assert ids(memory.search("Ada", now=NOW)) == [new.id]

    def test_a_memory_is_not_visible_before_it_is_valid(self, memory: Memory) -> None:
        old = memory.remember("the shop opens at nine", created_at=NOW - 10 * DAY)
        new = memory.remember(
            "the shop opens at ten",
            created_at=NOW - 2 * DAY,
            valid_from=NOW + 5 * DAY,
            supersedes=old.id,
        )
        assert ids(memory.search("shop", now=NOW)) == [old.id]
        assert ids(memory.search("shop", now=NOW + 6 * DAY)) == [new.id]

    def test_an_expired_memory_is_not_found(self, memory: Memory) -> None:
        (short,) = remember_all(memory, "tea is on offer", expires_at=NOW)
        assert memory.search("tea", now=NOW) == [] and ids(
            memory.search("tea", now=NOW - timedelta(seconds=1))
        ) == [short]
        assert memory.get(short)[0].expires_at == NOW

    def test_only_the_latest_memory_can_be_superseded_by_a_newer_one(self, memory: Memory) -> None:
        old = memory.remember("one", created_at=NOW - 10 * DAY)
        new = memory.remember("two", created_at=NOW - 5 * DAY, supersedes=old.id)
        assert memory.remember("two", created_at=NOW - 5 * DAY, supersedes=old.id) == new
        with pytest.raises(Conflict, match="already superseded"):
            memory.remember("three", created_at=NOW, supersedes=old.id)
        with pytest.raises(Invalid, match="must start later"):
            memory.remember("zero", created_at=NOW - 20 * DAY, supersedes=new.id)
        assert sorted(stored.content for stored in memory.get([old.id, new.id])) == ["one", "two"]

    def test_an_edge_is_not_followed_before_its_creation(self, memory: Memory) -> None:
        tea, cup = remember_all(memory, "tea", "cup", created_at=NOW - 10 * DAY)
        memory.relate(tea, cup, now=NOW - 2 * DAY)

        def related(as_of: datetime) -> list[str]:
            (result,) = memory.search("tea", now=NOW, as_of=as_of, include_relationships=True)[:1]
            return [relation.memory.id for relation in result.relationships]

        assert (related(NOW - 5 * DAY), related(NOW - DAY)) == ([], [cup])

    def test_an_access_is_not_visible_before_it_happened(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        remember_all(memory, "tea", created_at=NOW - 10 * DAY)
        memory.search("tea", now=NOW)
        assert memory.search("tea", now=NOW, as_of=NOW - DAY)[0].memory.accesses == 0

    @settings(max_examples=40, deadline=None)
    @given(
        entries=st.lists(
            st.tuples(
                st.integers(0, 20),
                st.none() | st.integers(-5, 5),
                st.none() | st.integers(1, 10),
                st.booleans(),
                st.booleans(),
            ),
            min_size=1,
            max_size=12,
        ),
        moment=st.integers(-1, 22),
    )
    def test_later_changes_do_not_alter_an_earlier_view(
        self, entries: list[tuple[int, int | None, int | None, bool, bool]], moment: int
    ) -> None:
        """Later writes do not change any search or context as of an earlier time."""
        start = NOW - 30 * DAY
        entries = sorted(entries, key=lambda entry: entry[0])
        as_of = start + moment * DAY + timedelta(hours=12)

        def state(upto: int) -> list[Any]:
            with knowloom.open("memory:", embedder=None) as kb:
                memory, last = Memory(kb, "home"), None
                kb.add(
                    knowloom.Item(
                        "anchor",
                        "home",
                        knowloom.Kind.MEMORY,
                        text="nothing at all",
                        created_at=start - 9 * DAY,
                    )
                )
                for number, (day, begins, ends, pinned, replaces) in enumerate(entries):
                    if day <= upto:
                        at = start + day * DAY + timedelta(minutes=number)
                        begin = None if begins is None else at + begins * DAY
                        last_one, last = (
                            last,
                            memory.remember(
                                f"tea number {number}",
                                id=f"m{number:02}",
                                created_at=at,
                                valid_from=begin,
                                valid_to=None if ends is None else (begin or at) + ends * DAY,
                                pinned=pinned,
                                supersedes=(
                                    [last.id]
                                    if replaces and last and (last.valid_from or at - DAY) < at
                                    else ()
                                ),
                            ),
                        )
                        if last_one:
                            memory.relate(last_one.id, last.id, now=at)
                options: dict[str, Any] = {"now": NOW, "as_of": as_of}
                context = kb.context("tea", spaces=["home"], max_tokens=500, **options)
                results = memory.search(
                    "tea",
                    **options,
                    limit=2,
                    ranker="recency",
                    include_relationships=True,
                    relationship_depth=3,
                )
                return [
                    [
                        (result.memory.id, sorted(link.memory.id for link in result.relationships))
                        for result in results
                    ],
                    [
                        (result.memory.id, result.memory)
                        for result in memory.search("tea", **options, limit=50, ranker="recency")
                    ],
                    memory.preview(
                        "tea", **options, ranker="recency", include_relationships=True
                    ).memory_ids,
                    [hit.item.id for hit in kb.search("tea", spaces=["home"], limit=50, **options)],
                    sorted(hit.item.id for hit in context.hits),
                ]

        visible, everything = state(moment), state(99)
        assert [sorted(part) for part in everything] == [sorted(part) for part in visible]


def test_search_options_are_a_subset_of_context_options() -> None:
    assert set(MemorySearchOptions.__dataclass_fields__) < set(
        MemoryContextOptions.__dataclass_fields__
    )


def test_titles_are_in_english_in_any_locale() -> None:
    assert (
        conversion.format_turn_title("Ada", datetime(2023, 12, 5, 0, 4, tzinfo=UTC))
        == "Ada at 12:04 am on 5 December, 2023"
    )
