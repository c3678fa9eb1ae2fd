"""Differences between contexts: in the library, in the shell and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import knowloom
from cli_runs import run, run_json
from http_api import bearer, create_secret, serve_app
from knowloom import Client, Context, Engine, Item, diff_contexts
from knowloom.capabilities.differences import MAX_LINES
from knowloom.model import Query
from knowloom.server.auth import Keyring
from knowloom.wire.contexts import context_from_json, context_to_json
from live_server import NOW, serving

ASK: dict[str, Any] = {"spaces": ["s"], "now": NOW}


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Engine]:
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        items = [Item(f"i{n}", "s", title=f"Refund {n}", text=f"refund {n} " * 9) for n in range(4)]
        kb.add(items)
        yield kb


def test_equal_contexts_have_no_difference(kb: Engine) -> None:
    diff = diff_contexts(kb.context("refund", **ASK), kb.context("refund", **ASK))
    assert diff.is_empty and (diff.text, diff.first_byte, diff.unchanged) == ("", None, 4)


def test_added_removed_and_changed_items_are_told_apart(kb: Engine) -> None:
    before = kb.context("refund", **ASK)
    kb.add([Item("i0", "s", title="Refund 0", text="refund of another text")])
    kb.add([Item("new", "s", title="Refund new", text="refund refund")])
    kb.delete("i3", space="s")
    after = kb.context("refund", **ASK)
    diff = diff_contexts(before, after)
    kinds = {change.id: (change.kind, change.is_text_changed) for change in diff.items}
    assert kinds["i0"] == ("changed", True)
    assert (kinds["new"], kinds["i3"]) == (("added", False), ("removed", False))
    assert "+refund of another text" in diff.text.splitlines()
    assert diff.bytes_after == len(after.text.encode())
    assert diff.first_byte is not None
    first, second = before.text.encode(), after.text.encode()
    assert first[: diff.first_byte] == second[: diff.first_byte]
    assert first[diff.first_byte] != second[diff.first_byte]


def test_a_removed_item_has_the_reason_of_the_budget(kb: Engine) -> None:
    diff = diff_contexts(kb.context("refund", **ASK), kb.context("refund", max_tokens=60, **ASK))
    removed = [change for change in diff.items if change.kind == "removed"]
    assert removed and all("tokens" in change.reason for change in removed)


def test_a_score_alone_is_a_change_of_an_item_but_of_no_byte(kb: Engine) -> None:
    row = context_to_json(kb.context("refund", **ASK))
    other = json.loads(json.dumps(row))
    other["fragments"][0]["chosen"][0]["score"] = 0.125
    diff = diff_contexts(context_from_json(row), context_from_json(other))
    assert (diff.first_byte, diff.text, len(diff.items), diff.is_empty) == (None, "", 1, False)


@given(before=st.text(max_size=30), after=st.text(max_size=30))
def test_the_first_byte_is_the_first_that_differs(before: str, after: str) -> None:
    contexts = [Context(text, 0, Query("q", (), NOW)) for text in (before, after)]
    diff, (first, second) = diff_contexts(*contexts), [t.encode() for t in (before, after)]
    assert (diff.first_byte is None) == (first == second) == diff.is_empty
    if diff.first_byte is not None:
        place = diff.first_byte
        assert first[:place] == second[:place] and first[place : place + 1] != second[place:][:1]


def test_long_texts_are_compared_by_bytes_only() -> None:
    contexts = [Context(f"{n}\n" * (MAX_LINES + 1), 0, Query("q", (), NOW)) for n in (1, 2)]
    diff = diff_contexts(*contexts)
    assert diff.first_byte == 0 and "not compared line by line" in diff.text


def test_the_shell_compares_files(kb: Engine, tmp_path: Path) -> None:
    db, files = tmp_path / "k.db", [tmp_path / "a.json", tmp_path / "b.json"]
    for file, budget in zip(files, ("60", "none"), strict=True):
        args = ("context", "refund", "--space", "s", "--max-tokens", budget, "--json")
        file.write_text(run(*args, db=db).stdout)
    names = [str(file) for file in files]
    result = run("diff", *names)
    assert (result.exit_code, "+ s/i" in result.stdout) == (1, True)
    assert "differ from byte" in result.stdout
    assert run("diff", names[0], names[0]).exit_code == 0
    assert run_json("diff", names[0], "-", stdin=files[1].read_text())["equal"] is False


@pytest.mark.parametrize("content", ["{}", "[]", "no json", "", '{"text": 5}'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(content)
    result = run("diff", str(file), str(file))
    assert result.exit_code == 1
    assert "must be the JSON of a context" in result.stderr
    assert run("diff", "-", "-", stdin="{}").exit_code == 2


def test_the_server_compares_requests_and_responses(kb: Engine) -> None:
    request = {"query": "refund", "spaces": ["s"], "now": "2026-06-01T12:00:00Z"}
    with serve_app(kb) as client:
        response = client.post("/api/explain", json=request).json()
        body = {"before": request | {"max_tokens": 60}, "after_context": response}
        diff = client.post("/api/diff", json=body).json()
        assert {change["change"] for change in diff["items"]} >= {"added"}
        same = {"before": request, "after_context": response}
        assert client.post("/api/diff", json=same).json()["equal"] is True
        for bad in ({}, {"before": request}, same | {"after": request}, same | {"x": 1}):
            assert client.post("/api/diff", json=bad).status_code == 422
        wrong = {"before": request, "after_context": {"text": "x"}}
        assert "after_context must be" in client.post("/api/diff", json=wrong).json()["detail"]


def test_a_key_compares_only_what_it_may_read(kb: Engine, tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    secret = create_secret(keyring, reads=("other",))
    request = {"query": "refund", "spaces": ["s"]}
    with serve_app(kb, keyring) as client:
        body = {"before": request, "after": request}
        assert client.post("/api/diff", json=body, headers=bearer(secret)).status_code == 403


def test_contexts_of_a_client_are_compared_too(kb: Engine) -> None:
    with serving(kb) as address, Client(address) as client:
        assert diff_contexts(kb.context("refund", **ASK), client.context("refund", **ASK)).is_empty
