"""Contexts over the turns of a conversation, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from http_api import ask_context

TURN: dict[str, Any] = {"format": "markdown", "max_tokens": 4000, "new_tokens": 500}


def ids(answer: Any, *forms: str) -> set[str]:
    rows = [row for part in ("entry_points", "context") for row in answer[part]]
    return {row["id"] for row in rows if not forms or row["form"] in forms}


def test_a_response_has_what_the_next_request_needs(client: TestClient) -> None:
    first = ask_context(client, query="How do I process a refund?", **TURN, citations=True)
    cited = len(first["citations"])
    after = {"text": first["text"], "shown": first["shown"], "cited": cited}
    second = ask_context(client, query="Who approves refunds?", **TURN, citations=True, after=after)
    assert second["prefix"] == len(first["text"])
    assert second["text"].startswith(first["text"]) and second["text"] != first["text"]
    assert ids(first, "whole") and not ids(first, "whole") & ids(second)
    assert second["citations"][0]["number"] == cited + 1
    assert {row["id"] for row in second["shown"]} > {row["id"] for row in first["shown"]}


def test_seen_items_are_named(client: TestClient) -> None:
    query = "How do I process a refund?"
    first = ask_context(client, query=query, format="markdown", max_tokens=800, seen=[])
    second = ask_context(
        client, query=query, format="markdown", max_tokens=800, seen=first["shown"]
    )
    assert not ids(first, "whole") & ids(second) and second["shown_before"]
    assert "shown" not in ask_context(client, query=query, max_tokens=800)
    by_id = ask_context(client, query=query, max_tokens=800, seen=["process-a-refund"])
    assert "process-a-refund" not in ids(by_id)


@pytest.mark.parametrize(
    "fields",
    [
        {"seen": "process-a-refund"},
        {"seen": [{"space": "support"}]},
        {"seen": [{"id": "x", "ranges": [[1]]}]},
        {"after": "text"},
        {"after": {"text": "x", "cited": -1}, "format": "markdown"},
        {"new_tokens": -1},
        {"after": {"text": "x"}, "format": "json"},
    ],
)
def test_malformed_turns_are_refused(client: TestClient, fields: dict[str, Any]) -> None:
    body = {"query": "refund", "tenant_ids": ["support"]} | fields
    assert client.post("/api/context", json=body).status_code == 422
