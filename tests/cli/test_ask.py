"""The command ask, with a chat server on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import run, run_json
from fake_llm import FakeLLM, Say

QUESTION = "Who approves a refund over 100 dollars?"
ASK = ("ask", QUESTION, "--space", "support", "--max-tokens", "600")


def model_at(server: FakeLLM) -> str:
    return f"openai:test-model@{server.base_url}"


def test_the_answer_has_its_sources_and_the_grounding_check(store: Path) -> None:
    reply = "A team lead approves refunds over 100 dollars [1]. The moon approves the rest [9]."
    with FakeLLM([Say(reply)]) as server:
        result = run(*ASK, db=store, KNOWLOOM_LLM=model_at(server))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(reply)
    assert "\nSources:\n[1] " in result.stdout and "[9] is not in the context" in result.stdout
    assert "\n[2]" not in result.stdout  # sources that the answer does not cite
    assert "unsupported: The moon approves the rest." in result.stdout


def test_the_model_gets_the_question_and_the_context_that_is_reported(store: Path) -> None:
    with FakeLLM([Say("It is the team lead [1].")]) as server:
        row = run_json(*ASK, db=store, KNOWLOOM_LLM=model_at(server), OPENAI_API_KEY="sk-test")
        (request,) = server.requests
    system, user = request.messages
    assert system["role"] == "system" and "cite" in system["content"]
    assert QUESTION in user["content"] and row["context"]["text"] in user["content"]
    assert "## Sources" in row["context"]["text"]
    assert request.authorization == "Bearer sk-test"
    assert [citation["number"] for citation in row["citations"]] == [1]
    assert {"grounded", "share", "sentences"} <= set(row["check"])
    assert "sk-test" not in json.dumps(row)


def test_marks_of_sources_are_not_checked_as_numbers(store: Path) -> None:
    run("add --space support --id limit --text", "Refunds over 100 dollars need Ada.", db=store)
    with FakeLLM([Say("Refunds over 100 dollars need Ada [1, 2].")]) as server:
        row = run_json(*ASK, db=store, KNOWLOOM_LLM=model_at(server))
    assert row["check"]["grounded"] and len(row["citations"]) == 2


def test_the_question_may_come_from_standard_input(store: Path) -> None:
    with FakeLLM([Say("The team lead [1].")]) as server:
        result = run(
            "ask - --space support", stdin=QUESTION, db=store, KNOWLOOM_LLM=model_at(server)
        )
        assert QUESTION in server.requests[0].messages[1]["content"]
    assert result.exit_code == 0


def test_nothing_is_sent_without_knowledge(store: Path) -> None:
    with FakeLLM([Say("anything")]) as server:
        result = run("ask zyzzyva --space support", db=store, KNOWLOOM_LLM=model_at(server))
        assert server.requests == []
    assert result.exit_code == 1
    assert "was not sent: no item matches the query; try other words" in result.stderr


@pytest.mark.parametrize(
    ("settings", "status", "advice"),
    [
        ({}, 2, "pass --llm, such as openai:gpt-4o-mini"),
        ({"KNOWLOOM_LLM": "openai:gpt-4o-mini"}, 1, "set OPENAI_API_KEY"),
        (
            {"KNOWLOOM_LLM": "openai:m@http://127.0.0.1:9/v1", "KNOWLOOM_LLM_TIMEOUT_S": "0.2"},
            1,
            "is the server running? --llm or KNOWLOOM_LLM names its URL",
        ),
    ],
)
def test_a_missing_model_key_or_server_says_what_to_set(
    settings: dict[str, str], status: int, advice: str, store: Path
) -> None:
    result = run(*ASK, db=store, **settings)
    assert (result.exit_code, advice in result.stderr) == (status, True), result.stderr


@pytest.mark.parametrize(
    ("step", "advice"),
    [("401", "set OPENAI_API_KEY"), ("404", "check the model and the URL"), (Say(""), "is empty")],
)
def test_a_refusal_of_the_server_says_what_to_set(
    step: Say | str, advice: str, store: Path
) -> None:
    with FakeLLM([step]) as server:
        result = run(*ASK, db=store, KNOWLOOM_LLM=model_at(server))
    assert (result.exit_code, advice in result.stderr) == (1, True), result.stderr


def test_an_incomplete_answer_is_reported(store: Path) -> None:
    with FakeLLM([Say("The team lead [1]", "length")]) as server:
        result = run(*ASK, db=store, KNOWLOOM_LLM=model_at(server))
    assert "the answer is incomplete" in result.stderr


@pytest.mark.parametrize("option", ["--format=yaml", "--no-citations"])
def test_sources_must_be_numbered(option: str, store: Path) -> None:
    result = run(*ASK, option, db=store, KNOWLOOM_LLM="openai:m@http://127.0.0.1:9/v1")
    assert (result.exit_code, "numbered sources" in result.stderr) == (2, True)
