"""Requests to the language model, and retries after invalid answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structured_text import (
    GOOD,
    KEY,
    PIECE,
    TEXT,
    Serve,
    Take,
    piece,
    pieces,
    records,
    say,
)

import knowloom
from fake_llm import Say
from knowloom.errors import Invalid, Unavailable
from knowloom.structuring import schema


class TestAnswers:
    def test_the_prompt_has_the_rules_the_entity_and_the_text(
        self, take: Take, serve: Serve
    ) -> None:
        llm, server = serve(say())
        take(llm, entity="user:alice")
        system, user = server.requests[0].messages
        assert (system["role"], user["role"], server.requests[0].body["temperature"]) == (
            "system",
            "user",
            0.0,
        )
        assert all(
            word in system["content"]
            for word in (
                "metadata",
                "pieces",
                "graph",
                *schema.KNOWLEDGE_TYPES,
                "passwords",
                "API keys",
            )
        )
        assert "user:alice" in user["content"]
        assert user["content"].endswith(TEXT)

    @pytest.mark.parametrize(
        "around",
        [
            "JSON",
            "```json\nJSON\n```",
            "Here is {it}:\nJSON\nDone.",
            '<think>{"a": 1} or so</think>\nJSON',
        ],
    )
    def test_text_around_the_json_is_ignored(self, around: str, take: Take, serve: Serve) -> None:
        llm, server = serve(Say(around.replace("JSON", json.dumps(GOOD))))
        assert take(llm).report.added == 3
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        ("bad", "problem"),
        [
            ('{"pieces": [', "not JSON: "),
            ("I am sorry, I cannot do that.", "no JSON object in the answer 'I am sorry"),
            ("", "the answer is empty"),
            ('[{"piece_id": "x"}]', "is a JSON list"),
            ('{"pieces": []} {"pieces": []}', "more than one JSON object"),
            ('{"pieces": [], "pieces": []}', "duplicate name 'pieces'"),
            (
                '{"metadata": {"x": {"entity_type": "y", "properties": {"n": NaN}}}}',
                "NaN is not a number",
            ),
            (
                json.dumps(pieces(piece(knowledge_type="Wisdom"))),
                "pieces[0].knowledge_type: must be one of fact, instruction",
            ),
            ('{"pieces": []}', "nothing was extracted"),
        ],
    )
    def test_an_invalid_answer_is_retried_with_its_problem(
        self, bad: str, problem: str, take: Take, serve: Serve
    ) -> None:
        llm, server = serve(Say(bad), say())
        assert take(llm).report.added == 3
        answer, repair = server.requests[1].messages[-2:]
        assert (answer["role"], answer["content"]) == ("assistant", bad or "(nothing)")
        assert problem in repair["content"]

    def test_after_the_last_retry_a_refusal_is_an_error_and_nothing_is_stored(
        self, kb: knowloom.Engine, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(*[Say(None, refusal="I'm sorry, I can't help with that.")] * 3)
        with pytest.raises(
            Unavailable, match=r"no usable answer in 3 attempts.*I'm sorry, I can't help"
        ) as caught:
            take(llm, max_retries=2)
        assert (caught.value.code, len(server.requests), kb.maintenance.stats().spaces) == (
            "unstructured",
            3,
            (),
        )
        (record,) = records(tmp_path)
        assert json.loads((record / "record.json").read_text())["error"] == str(caught.value)
        assert len(list((record / "artifacts").iterdir())) == 3
        assert not (record / "structured.json").exists()

    def test_after_the_last_retry_valid_entries_are_stored_and_the_others_reported(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        mixed = pieces(PIECE, piece(piece_id="Not Kebab", content="x"))
        worse = pieces(PIECE, piece(piece_id="Not Kebab"), piece(piece_id="b", content=""))
        result = take(serve(say(mixed), say(worse))[0], max_retries=1)
        assert [item.id for item in kb.items(["team"])] == ["warm-start"]
        assert [(skip.where, skip.what) for skip in result.report.skipped] == [
            ("chunk 1: pieces[1].piece_id", "'Not Kebab'")
        ]

    def test_a_chunk_whose_answer_is_cut_off_is_split(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        text = "\n\n".join(f"Paragraph {number}. " + "word " * 100 for number in range(4))
        llm, server = serve(
            Say('{"pieces": [{"pie', "length"),
            say(pieces(PIECE)),
            say(pieces(piece(piece_id="other", content="Other."))),
        )
        assert take(llm, text).report.added == 2
        prompts = [request.messages[1]["content"] for request in server.requests]
        assert ["Paragraph 0" in prompt for prompt in prompts] == [True, True, False]
        assert ["Paragraph 3" in prompt for prompt in prompts] == [True, False, True]

    def test_a_short_text_whose_answers_are_all_cut_off_is_a_clear_error(
        self, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(Unavailable, match="cut off at the model's length limit"):
            take(serve(*[Say('{"pieces": [{"pie', "length")] * 2)[0], max_retries=1)

    def test_a_long_text_is_split_in_chunks_and_equal_ids_are_distinguished(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        text = "\n".join(f"# Part {number}\n\n" + "word " * 100 for number in range(3))
        other = {
            **pieces(piece(content="Another thing.")),
            "graph": {"nodes": GOOD["graph"]["nodes"], "edges": GOOD["graph"]["edges"]},
        }
        llm, server = serve(
            say(),
            say(other),
            say(pieces(piece(piece_id="renamed", content=f"  {PIECE['content']}\n"))),
        )
        result = take(llm, text, max_chars=600)
        assert len(server.requests) == 3
        assert {item.id for item in kb.items(["team"], kinds=["node"])} == {
            "warm-start",
            "warm-start-2",
        }
        assert [edge["properties"] for edge in result.layers["graph"]["edges"]] == [
            {"piece_id": "warm-start"}
        ]

    def test_a_chunk_without_content_does_not_stop_the_others(
        self, take: Take, serve: Serve
    ) -> None:
        text = "\n".join(f"# Part {number}\n\n" + "word " * 100 for number in range(2))
        result = take(serve(say({"pieces": []}), say())[0], text, max_chars=600, max_retries=0)
        assert (result.report.added, [skip.where for skip in result.report.skipped]) == (
            3,
            ["chunk 1: pieces"],
        )

    def test_an_answer_without_a_valid_entry_is_an_error(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(
            Unavailable,
            match=r"no usable answer in 1 attempts, chunk 1: pieces\[0\]\.content: must be a text",
        ):
            take(serve(say(pieces(piece(content=""))))[0], max_retries=0)
        assert kb.maintenance.stats().spaces == ()


class TestServer:
    def test_a_busy_server_is_retried_after_the_time_it_names(
        self, take: Take, serve: Serve, waits: list[float]
    ) -> None:
        assert take(serve("429 after 7", "503", say())[0]).report.added == 3
        assert waits == [7.0, 1.0]

    def test_a_wrong_key_is_not_tried_twice_and_never_shown(
        self, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve("401 echoing the key")
        with pytest.raises(Unavailable, match="status 401") as caught:
            take(llm)
        assert (
            len(server.requests),
            KEY in str(caught.value),
            server.requests[0].authorization,
        ) == (1, False, f"Bearer {KEY}")
        assert not [
            file for file in tmp_path.rglob("*") if file.is_file() and KEY in file.read_text()
        ]

    def test_a_server_that_never_answers_is_named_with_the_time_limit(
        self, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        with pytest.raises(Unavailable, match=r"fake at 127.0.0.1: no answer within 0.05 s"):
            take(serve("slow", timeout_s=0.05, retries=0)[0])
        assert (
            "no answer within"
            in json.loads((records(tmp_path)[0] / "record.json").read_text())["error"]
        )

    @pytest.mark.parametrize(
        ("step", "message"),
        [
            ("garbage", "not JSON"),
            ("no choices", "lacks choices"),
            ("content is a list", "must be text, got list"),
            ("drop connection", "no connection"),
        ],
    )
    def test_unusable_responses_are_errors(
        self, step: str, message: str, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(Unavailable, match=message):
            take(serve(step, retries=0)[0])

    def test_a_refusal_that_repeats_the_text_does_not_show_it(
        self, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(Unavailable) as caught:
            take(serve("400 echoing the text")[0])
        assert "large-eddy" not in str(caught.value)

    def test_a_closed_model_is_refused(self, serve: Serve, take: Take) -> None:
        llm, _ = serve()
        llm.close()
        with pytest.raises(Unavailable, match="closed"):
            take(llm)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("openai:", "model is missing"),
            ("openai:m@ftp://x", "must be such as openai:model@http"),
            ("magic:m", "available: openai"),
            ("", "openai:model"),
        ],
    )
    def test_an_invalid_model_name_is_rejected(self, name: str, message: str) -> None:
        with pytest.raises(Invalid, match=message):
            knowloom.open_llm(name)
