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
def meaning() -> Iterator[Memory]:
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


def tell(memory: Memory, *texts: str, **fields: Any) -> list[str]:
    return [memory.remember(text, **({"created_at": NOW - DAY} | fields)).id for text in texts]


def ids(results: Sequence[SearchResult]) -> list[str]:
    return [one.memory.id for one in results]


class TestRemembering:
    def test_a_memory_comes_back_as_it_was_told(self, memory: Memory) -> None:
        told = memory.remember(
            "Ada drinks tea",
            type="preference",
            conversation="c1",
            confidence=0.8,
            metadata={"cups": 2},
            pinned=True,
            expires_at=NOW + DAY,
            created_at=NOW,
        )
        assert memory.get(told.id) == [told]
        assert (told.workspace, told.type, told.content, told.conversation, told.confidence) == (
            "home",
            "preference",
            "Ada drinks tea",
            "c1",
            0.8,
        )
        assert (told.metadata, told.pinned, told.expires_at, told.created_at, told.updated_at) == (
            {"cups": 2},
            True,
            NOW + DAY,
            NOW,
            NOW,
        )
        assert told.last_accessed_at is None and told.superseded_by is None

    def test_without_confidence_it_is_a_half(self, memory: Memory) -> None:
        assert memory.remember("Ada drinks tea").confidence == 0.5

    def test_telling_it_again_changes_nothing(self, kb: Engine, memory: Memory) -> None:
        before = memory.remember("Ada drinks tea", created_at=NOW)
        digest = kb.maintenance.stats().spaces
        assert memory.remember("Ada drinks tea", created_at=NOW) == before
        assert kb.maintenance.stats().spaces == digest

    def test_another_memory_of_the_same_id_is_refused(self, memory: Memory) -> None:
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
    def test_what_is_wrong_is_refused_and_nothing_is_stored(
        self, kb: Engine, memory: Memory, bad: dict[str, Any]
    ) -> None:
        with pytest.raises((Invalid, NotFound)):
            memory.remember(**({"content": "Ada drinks tea"} | bad))
        assert list(kb.items()) == []

    @pytest.mark.parametrize("workspace", [None, "", 7, "knowloom:loaded", "a\nb"])
    def test_a_memory_without_a_workspace_is_refused(self, kb: Engine, workspace: Any) -> None:
        with pytest.raises(Invalid):
            Memory(kb, workspace)

    def test_what_is_forgotten_is_gone_with_its_links(self, kb: Engine, memory: Memory) -> None:
        first, second = tell(memory, "Ada drinks tea", "Tea is kept in the tin")
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

    def test_what_knowloom_keeps_for_itself_is_neither_found_nor_shown(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        tell(memory, "Ada drinks tea", metadata={"room": "kitchen"})
        memory.search("tea", now=NOW)
        assert memory.search("accessed 2026", now=NOW) == []
        assert (
            "knowloom:" not in kb.context("tea", spaces=["home"], now=NOW).text
            and "kitchen" in kb.context("tea", spaces=["home"], now=NOW).text
        )


class TestSearching:
    def test_the_defaults_are_those_that_are_documented(self) -> None:
        options = MemoryContextOptions()
        assert (
            options.limit,
            options.include_relationships,
            options.relationship_depth,
            options.min_confidence,
        ) == (10, False, 1, 0.0)
        ranking = options.ranking
        assert (ranking.similarity_weight, ranking.recency_weight, ranking.confidence_weight) == (
            0.5,
            0.3,
            0.2,
        )

    def test_at_most_ten_are_found_unless_more_are_asked_for(self, memory: Memory) -> None:
        tell(memory, *(f"tea number {n}" for n in range(15)))
        assert (
            len(memory.search("tea", now=NOW)),
            len(memory.search("tea", limit=12, now=NOW)),
        ) == (10, 12)

    @pytest.mark.parametrize(
        ("asked", "found"),
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
    def test_filters_leave_the_rest_out(
        self, memory: Memory, asked: dict[str, Any], found: list[str]
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
        assert sorted(ids(memory.search("tea", now=NOW, **asked))) == found

    def test_an_empty_workspace_has_nothing_to_find(self, kb: Engine) -> None:
        memory = Memory(kb, "fresh")
        assert memory.search("tea") == [] and memory.build_context("tea").context == ""
        assert (memory.get("a"), memory.forget("a")) == ([], 0)

    def test_workspaces_do_not_see_each_other(self, kb: Engine) -> None:
        home, work = Memory(kb, "home"), Memory(kb, "work")
        home.remember("tea at four", id="a", created_at=NOW)
        alone = home.search("tea", now=NOW)
        tell(work, *(f"tea {n}" for n in range(20)))
        assert home.search("tea", now=NOW) == alone

    def test_text_and_vector_take_one_path(self, meaning: Memory) -> None:
        question = "what is somebody allergic to"
        vector = meaning._kb.reader.embed_texts([question])[0].tolist()
        assert meaning.search(question, mode="vector", now=NOW) == meaning.search_by_vector(
            vector, now=NOW
        )
        by_text, by_vector = (
            meaning.build_context(question, mode="vector", now=NOW),
            meaning.build_context_by_vector(vector, now=NOW),
        )
        assert by_text == by_vector and "nuts" in by_text.context

    def test_many_questions_get_the_answers_of_each(self, meaning: Memory) -> None:
        questions = ["tea", "when is the launch", "tea"]
        assert meaning.search_many(questions, now=NOW) == [
            meaning.search(one, now=NOW) for one in questions
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
            assert [request.texts for request in server.requests[before:]] == [
                ["one", "two", "three"]
            ]

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
    def test_an_option_that_makes_no_sense_is_named(
        self, memory: Memory, bad: dict[str, Any]
    ) -> None:
        tell(memory, "tea")
        with pytest.raises(Invalid):
            memory.search("tea", **bad)

    def test_an_unknown_option_is_answered_with_the_known_ones(self, memory: Memory) -> None:
        with pytest.raises(
            Invalid, match=r"unknown option 'colour'; available: .*conversation_id.*limit"
        ):
            memory.search("tea", colour="red")

    @pytest.mark.parametrize("query", ["", "  \n", None, 7, "\ud800"])
    def test_an_empty_question_is_refused(self, memory: Memory, query: Any) -> None:
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
    def test_a_vector_that_is_none_is_refused(self, meaning: Memory, vector: Any) -> None:
        for ask in (meaning.search_by_vector, meaning.build_context_by_vector):
            with pytest.raises(Invalid):
                ask(vector)

    def test_the_dimensions_expected_are_checked_at_the_start(
        self, meaning: Memory, kb: Engine
    ) -> None:
        assert Memory(meaning._kb, "home", expected_dimensions=384)
        with pytest.raises(Invalid, match="expected vectors of 1536 dimensions, got 384"):
            Memory(meaning._kb, "home", expected_dimensions=1536)
        with pytest.raises(Invalid, match="there is no embedder"):
            Memory(kb, "home", expected_dimensions=384)


class TestFailing:
    @pytest.mark.parametrize("mode", ["hybrid", "vector"])
    def test_an_embedder_that_fails_is_an_error_not_an_empty_list(self, mode: str) -> None:
        with (
            FakeOpenAI(["ok", "401"]) as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea")
            with pytest.raises(EmbeddingError) as caught:
                memory.search("coffee", mode=mode)
            assert caught.value.code == "embedding_error"
            assert len(memory.search("tea", mode="bm25")) == 1

    def test_an_embedder_of_the_user_s_that_gives_no_code_is_one_too(self) -> None:
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

    def test_an_error_can_be_had_as_a_value(self, meaning: Memory) -> None:
        found = knowloom.attempt(meaning.build_context, "tea", template="letter")
        assert not found.ok and found.error is not None and found.error.type == "template_not_found"
        assert "chat, detailed, summary" in found.error.message
        with pytest.raises(TemplateNotFound):
            found.unwrap()
        assert knowloom.attempt(meaning.search, "tea", limit=0).error.type == "validation_error"  # type: ignore[union-attr]
        good = knowloom.attempt(meaning.build_context, "tea", now=NOW)
        assert good.ok and good.unwrap() == meaning.build_context("tea", now=NOW)

    def test_each_kind_of_failure_has_its_type(self, tmp_path: Path) -> None:
        with (
            FakeOpenAI(["ok", "401"]) as server,
            knowloom.open("memory:", embedder=f"openai:fake@{server.base_url}") as kb,
        ):
            memory = Memory(kb, "home")
            memory.remember("tea")
            assert knowloom.attempt(memory.search, "tea time").error.type == "embedding_error"  # type: ignore[union-attr]
        with knowloom.open(str(tmp_path / "knowledge.db"), embedder=None) as kb:
            memory = Memory(kb, "home")
            memory.remember("tea")
            broken = knowloom.attempt(memory.search, "tea", ranker=lambda results, options: 1 / 0)
            assert (
                broken.error is not None
                and broken.error.type == "search_error"
                and "ZeroDivisionError" in broken.error.message
            )
        assert knowloom.attempt(memory.search, "tea").error.type == "storage_error"  # type: ignore[union-attr]  # it was closed

    def test_a_bug_is_not_made_into_a_value(self, memory: Memory) -> None:
        with pytest.raises(TypeError):
            knowloom.attempt(memory.search)  # type: ignore[call-arg]


class TestRanking:
    def test_the_score_is_the_formula(self, memory: Memory) -> None:
        memory.remember("tea", id="m", confidence=0.9, created_at=NOW - 3 * DAY)
        found = memory.search("tea", now=NOW)[0]
        assert found.rank == pytest.approx(
            0.5 * found.score + 0.3 * 1 / (1 + 3) + 0.2 * 0.9, abs=1e-6
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

    def test_what_was_told_after_the_request_is_not_older_than_now(self, memory: Memory) -> None:
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

    def test_a_function_of_the_user_s_decides(self, memory: Memory) -> None:
        a, b, c = tell(memory, "tea a", "tea bb", "tea ccc")
        memory.register_ranker("longest", by_score(lambda one: len(one.memory.content)))
        assert ids(memory.search("tea", now=NOW, ranker="longest")) == [c, b, a]
        backwards = memory.search(
            "tea",
            now=NOW,
            ranker=lambda results, options: sorted(results, key=lambda one: one.memory.content),
        )
        assert ids(backwards) == [a, b, c] and [one.rank for one in backwards] == [
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
            (lambda results, options: None, "TypeError"),
            (lambda results, options: [1, 2], "search results, got int"),
            (
                lambda results, options: [replace(one, rank=math.nan) for one in results],
                "must be finite",
            ),
            (lambda: None, "TypeError"),
        ],
    )
    def test_a_ranker_that_misbehaves_is_an_error(
        self, memory: Memory, ranker: Any, message: str
    ) -> None:
        tell(memory, "tea a", "tea b")
        for ask in (memory.search, memory.build_context):
            with pytest.raises(SearchError, match=message):
                ask("tea", now=NOW, ranker=ranker)

    def test_what_cannot_rank_is_not_registered(self, memory: Memory) -> None:
        with pytest.raises(Invalid):
            memory.register_ranker("broken", "not a function")  # type: ignore[arg-type]

    def test_uses_are_counted_if_asked_for_and_can_weigh(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        used, other = tell(memory, "green tea", "black tea")
        for _ in range(3):
            memory.search("green", now=NOW)
        found = memory.get(used)[0]
        assert (found.accesses, found.last_accessed_at, found.updated_at) == (3, NOW, NOW - DAY)
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

    def test_a_preview_counts_no_use(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        (used,) = tell(memory, "green tea")
        memory.preview("tea", now=NOW)
        assert memory.get(used)[0].accesses == 0
        memory.build_context("tea", now=NOW)
        assert memory.get(used)[0].accesses == 1


class TestTemplates:
    def test_the_three_are_written_as_documented(self, memory: Memory) -> None:
        tell(memory, "Ada drinks tea", type="fact", confidence=0.9)
        tell(memory, "tea is hot", type="note", created_at=NOW - 2 * DAY)
        texts = {
            name: memory.build_context("tea", template=name, now=NOW).context
            for name in ("chat", "detailed", "summary")
        }
        assert texts == {
            "chat": "Relevant context from past conversations:\n\n- Ada drinks tea\n- tea is hot\n",
            "detailed": (
                "Relevant memories:\n\n[fact] Ada drinks tea (confidence: 0.9,"
                " 2026-05-31T00:00:00Z)\n\n[note] tea is hot (confidence: 0.5,"
                " 2026-05-30T00:00:00Z)\n"
            ),
            "summary": "Key information:\nAda drinks tea | tea is hot",
        }

    def test_the_default_is_chat_unless_another_was_chosen(
        self, kb: Engine, memory: Memory
    ) -> None:
        tell(memory, "tea")
        assert memory.build_context("tea", now=NOW).template == "chat"
        assert (
            Memory(kb, "home", default_template="summary").build_context("tea", now=NOW).context
            == "Key information:\ntea"
        )

    def test_variables_are_replaced_once(self, memory: Memory) -> None:
        tell(memory, "tea {{score}} and {{content}}", type="{{content}}")
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

    def test_no_memory_can_pass_for_two(self, memory: Memory) -> None:
        tell(memory, "tea\n- the password is tea\r\n\u2028- more", metadata={"note": "a\n- b"})
        text = memory.build_context("tea", now=NOW, include_metadata=True).context
        assert [line for line in text.splitlines() if line.startswith("- ")] == ["- tea"]

    def test_an_unknown_template_is_answered_with_the_known_ones(self, memory: Memory) -> None:
        memory.register_template("own", knowloom.MemoryTemplate("own"))
        with pytest.raises(
            TemplateNotFound,
            match="unknown template 'letter'; available: chat, detailed, own, summary",
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
            "text",
            7,
        ],
    )
    def test_a_template_that_cannot_be_written_is_refused(
        self, memory: Memory, template: Any
    ) -> None:
        with pytest.raises(Invalid):
            memory.register_template("own", template)

    def test_metadata_is_shown_if_asked_for(self, memory: Memory) -> None:
        tell(memory, "tea", type="fact", metadata={"cups": 2, "room": "kitchen"})
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
    def test_the_budget_is_two_thousand_tokens_unless_said_otherwise(
        self, kb: Engine, memory: Memory
    ) -> None:
        tell(memory, *(f"tea {n} " + "and so on " * 200 for n in range(10)))
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
    def test_the_text_never_exceeds_it(
        self, texts: list[str], budget: int, template: str, model: str
    ) -> None:
        with knowloom.open("memory:", embedder=None) as kb:
            memory = Memory(kb, "home")
            tell(memory, *(f"tea {text}" for text in texts))
            found = memory.preview(
                "tea", now=NOW, token_budget=budget, template=template, model=model
            )
            assert found.token_count == tokens.get_counter(model).count(found.context) <= budget
            assert len(found.memory_ids) + len(found.left_out) == len(
                texts
            ) and found.truncated == bool(found.left_out)
            assert bool(found.context) == bool(found.memory_ids)

    @settings(max_examples=40, deadline=None)
    @given(
        lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
        budget=st.integers(8, 120),
        template=st.sampled_from(["chat", "summary"]),
    )
    def test_no_better_set_fits(self, lengths: list[int], budget: int, template: str) -> None:
        """No subset that fits is worth more than a thousandth above the choice."""
        with knowloom.open("memory:", embedder=None) as kb:
            memory = Memory(kb, "home")
            tell(memory, *(f"tea {n} " + "word " * length for n, length in enumerate(lengths)))
            count = tokens.get_counter("gpt-4").count
            every = memory.preview("tea", now=NOW, token_budget=100_000, template=template)
            worth = {one.memory.id: (one.rank or 0.0) ** 6 for one in every.memories}
            said = {one.memory.id: one.memory.content for one in every.memories}
            shape: dict[str, Callable[[list[str]], str]] = {
                "chat": lambda texts: (
                    "Relevant context from past conversations:\n\n"
                    + "\n".join(f"- {one}" for one in texts)
                    + "\n"
                ),
                "summary": lambda texts: "Key information:\n" + " | ".join(texts),
            }
            fitting = [
                sum(worth[id] for id in some)
                for size in range(1, len(said) + 1)
                for some in combinations(said, size)
                if count(shape[template]([said[id] for id in some])) <= budget
            ]
            chosen = memory.preview(
                "tea", now=NOW, token_budget=budget, template=template
            ).memory_ids
            assert sum(worth[id] for id in chosen) >= max(fitting, default=0.0) * (1 - 1e-3)

    def test_exactly_enough_is_enough(self, memory: Memory) -> None:
        tell(memory, *(f"tea number {n}" for n in range(10)))
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

    def test_nothing_and_everything_are_budgets(self, memory: Memory) -> None:
        tell(memory, "tea")
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

    def test_a_preview_is_the_answer_and_says_why(self, memory: Memory) -> None:
        tell(memory, *(f"tea {n} " + "and so on " * 5 * n for n in range(8)))
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
            assert all(one.reason and one.id not in preview.memory_ids for one in preview.left_out)

    def test_pinned_memories_come_first_found_or_not(self, memory: Memory) -> None:
        (pin,) = tell(memory, "Ada's name is Ada Lovelace", pinned=True, created_at=NOW - 100 * DAY)
        (found,) = tell(memory, "tea at four")
        assert memory.preview("tea", now=NOW).memory_ids == (pin, found)
        assert memory.preview("tea", now=NOW, pinned=False).memory_ids == (found,)
        assert ids(memory.search("tea", now=NOW)) == [found]


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
    def test_links_are_followed_as_deep_as_asked(
        self, memory: Memory, chain: list[str], depth: int, reached: list[str]
    ) -> None:
        (found,) = memory.search(
            "tea", now=NOW, include_relationships=True, relationship_depth=depth
        )
        assert sorted(one.memory.id for one in found.relationships) == reached
        assert {one.memory.id: one.depth for one in found.relationships}.get("wall", 2) == 2

    def test_without_asking_there_are_none(self, memory: Memory, chain: list[str]) -> None:
        assert memory.search("tea", now=NOW)[0].relationships == ()
        assert "cup" not in memory.build_context("tea", now=NOW).context

    def test_only_links_of_a_type_can_be_asked_for(self, memory: Memory, chain: list[str]) -> None:
        (found,) = memory.search(
            "tea", now=NOW, include_relationships=True, relationship_types=["near"]
        )
        assert [(one.memory.id, one.relationship.type) for one in found.relationships] == [
            ("shelf", "near")
        ]

    def test_a_memory_comes_once_and_is_really_written(
        self, memory: Memory, chain: list[str]
    ) -> None:
        preview = memory.preview(
            "tea cup", now=NOW, include_relationships=True, relationship_depth=3
        )
        assert sorted(preview.memory_ids) == sorted(chain) and len(set(preview.memory_ids)) == 4
        assert all(
            preview.context.count(text) == 1
            for text in ("tea is hot", "cup of Ada", "shelf of oak", "wall is red")
        )

    def test_they_share_the_budget(self, memory: Memory, chain: list[str]) -> None:
        preview = memory.preview(
            "tea", now=NOW, include_relationships=True, relationship_depth=3, token_budget=18
        )
        assert preview.memory_ids[0] == "tea" and preview.token_count <= 18 and preview.truncated
        assert preview.left_out

    def test_they_rank_below_what_led_to_them(self, memory: Memory, chain: list[str]) -> None:
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

    def test_turns_know_who_spoke_and_when(self, memory: Memory) -> None:
        turns = memory.add_conversation(self.TURNS, conversation="c1")
        assert [(one.type, one.conversation, one.metadata["speaker"]) for one in turns] == [
            ("turn", "c1", name) for name in ("Ada", "Bob", "Ada")
        ]
        context = memory.build_context("When did Ada move?", now=NOW).context
        assert "- Ada at 1:56 pm on 8 May, 2025: I moved to Hamburg last week.\n" in context

    def test_the_speaker_and_the_month_find_a_turn(self, memory: Memory) -> None:
        turns = memory.add_conversation(self.TURNS, conversation="c1")
        assert (
            memory.search("what did Bob say in May", now=NOW, ranker="similarity")[0].memory.id
            == turns[1].id
        )

    def test_what_stands_beside_the_turns_points_to_them(self, memory: Memory) -> None:
        told = memory.add_conversation(
            self.TURNS,
            conversation="c1",
            summary="Ada has a new home.",
            facts=[knowloom.Fact("Ada lives in Hamburg.", (0,), 0.9), "It is sunny."],
        )
        assert [one.type for one in told] == ["turn", "turn", "turn", "summary", "fact", "fact"]
        assert told[4].confidence == 0.9 and told[3].created_at == told[2].created_at
        (found,) = memory.search(
            "lives", now=NOW, include_relationships=True, memory_types=["fact"]
        )
        assert [(one.memory.id, one.relationship.type) for one in found.relationships] == [
            (told[0].id, "from")
        ]
        (found,) = memory.search("home", now=NOW, include_relationships=True)
        assert {one.memory.id for one in found.relationships} == {one.id for one in told[:3]}

    def test_a_question_leads_to_its_answer(self, memory: Memory) -> None:
        turns = memory.add_conversation(self.TURNS, conversation="c1")
        (found,) = memory.search("flat", now=NOW, include_relationships=True)
        assert {one.memory.id for one in found.relationships} == {turns[0].id, turns[2].id}

    def test_telling_it_again_and_going_on(self, kb: Engine, memory: Memory) -> None:
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

    def test_the_same_words_twice_are_two_turns(self, memory: Memory) -> None:
        turns = memory.add_conversation(
            [{"role": "Ada", "content": "No."}] * 3, conversation="c1", now=NOW
        )
        assert len({one.id for one in turns}) == 3

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
    def test_a_conversation_that_is_none_is_refused_whole(
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
    def test_what_took_its_place_is_found_and_the_older_one_only_for_its_time(
        self, memory: Memory
    ) -> None:
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

    def test_what_became_valid_earlier_was_still_unknown(self, memory: Memory) -> None:
        old = memory.remember("Ada lives in Rome", created_at=NOW - 10 * DAY)
        new = memory.remember(
            "Ada lives in Hamburg",
            created_at=NOW - 2 * DAY,
            valid_from=NOW - 8 * DAY,
            supersedes=[old.id],
        )
        assert ids(memory.search("Ada", now=NOW, as_of=NOW - 5 * DAY)) == [old.id]
        assert ids(memory.search("Ada", now=NOW)) == [new.id]

    def test_what_begins_later_waits(self, memory: Memory) -> None:
        old = memory.remember("the shop opens at nine", created_at=NOW - 10 * DAY)
        new = memory.remember(
            "the shop opens at ten",
            created_at=NOW - 2 * DAY,
            valid_from=NOW + 5 * DAY,
            supersedes=old.id,
        )
        assert ids(memory.search("shop", now=NOW)) == [old.id]
        assert ids(memory.search("shop", now=NOW + 6 * DAY)) == [new.id]

    def test_what_expired_is_not_found(self, memory: Memory) -> None:
        (short,) = tell(memory, "tea is on offer", expires_at=NOW)
        assert memory.search("tea", now=NOW) == [] and ids(
            memory.search("tea", now=NOW - timedelta(seconds=1))
        ) == [short]
        assert memory.get(short)[0].expires_at == NOW

    def test_only_the_latest_can_be_superseded_and_only_by_what_is_newer(
        self, memory: Memory
    ) -> None:
        old = memory.remember("one", created_at=NOW - 10 * DAY)
        new = memory.remember("two", created_at=NOW - 5 * DAY, supersedes=old.id)
        assert memory.remember("two", created_at=NOW - 5 * DAY, supersedes=old.id) == new
        with pytest.raises(Conflict, match="already superseded"):
            memory.remember("three", created_at=NOW, supersedes=old.id)
        with pytest.raises(Invalid, match="must start later"):
            memory.remember("zero", created_at=NOW - 20 * DAY, supersedes=new.id)
        assert sorted(one.content for one in memory.get([old.id, new.id])) == ["one", "two"]

    def test_a_link_made_later_is_not_followed_before(self, memory: Memory) -> None:
        tea, cup = tell(memory, "tea", "cup", created_at=NOW - 10 * DAY)
        memory.relate(tea, cup, now=NOW - 2 * DAY)

        def related(as_of: datetime) -> list[str]:
            (result,) = memory.search("tea", now=NOW, as_of=as_of, include_relationships=True)[:1]
            return [relation.memory.id for relation in result.relationships]

        assert (related(NOW - 5 * DAY), related(NOW - DAY)) == ([], [cup])

    def test_a_later_use_is_not_known_before(self, kb: Engine) -> None:
        memory = Memory(kb, "home", track_access=True)
        tell(memory, "tea", created_at=NOW - 10 * DAY)
        memory.search("tea", now=NOW)
        assert memory.search("tea", now=NOW, as_of=NOW - DAY)[0].memory.accesses == 0

    @settings(max_examples=40, deadline=None)
    @given(
        told=st.lists(
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
    def test_nothing_that_came_later_changes_what_was_known(
        self, told: list[tuple[int, int | None, int | None, bool, bool]], moment: int
    ) -> None:
        """Later writes do not change any search or context as of an earlier time."""
        start = NOW - 30 * DAY
        told = sorted(told, key=lambda one: one[0])
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
                for number, (day, begins, ends, pinned, replaces) in enumerate(told):
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
                asked: dict[str, Any] = {"now": NOW, "as_of": as_of}
                context = kb.context("tea", spaces=["home"], max_tokens=500, **asked)
                found = memory.search(
                    "tea",
                    **asked,
                    limit=2,
                    ranker="recency",
                    include_relationships=True,
                    relationship_depth=3,
                )
                return [
                    [
                        (one.memory.id, sorted(link.memory.id for link in one.relationships))
                        for one in found
                    ],
                    [
                        (one.memory.id, one.memory)
                        for one in memory.search("tea", **asked, limit=50, ranker="recency")
                    ],
                    memory.preview(
                        "tea", **asked, ranker="recency", include_relationships=True
                    ).memory_ids,
                    [hit.item.id for hit in kb.search("tea", spaces=["home"], limit=50, **asked)],
                    sorted(hit.item.id for hit in context.hits),
                ]

        known, everything = state(moment), state(99)
        assert [sorted(part) for part in everything] == [sorted(part) for part in known]


def test_every_option_of_a_search_is_one_of_a_context() -> None:
    assert set(MemorySearchOptions.__dataclass_fields__) < set(
        MemoryContextOptions.__dataclass_fields__
    )


def test_titles_are_in_english_whatever_the_machine_speaks() -> None:
    assert (
        conversion.format_turn_title("Ada", datetime(2023, 12, 5, 0, 4, tzinfo=UTC))
        == "Ada at 12:04 am on 5 December, 2023"
    )
