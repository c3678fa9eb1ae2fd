"""Servers that are killed, paused, full or wrong: typed errors, no secrets, and recovery."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import knowloom
from knowloom import Item
from knowloom.errors import Invalid, KnowloomError, Unavailable
from knowloom.registry import open_store
from knowloom.stores.elasticsearch.documents import document_id
from knowloom.stores.elasticsearch.layer import IndexedLayer
from knowloom.testing.knowledge import ACME, item
from knowloom.testing.layers.contract import build_entry
from search_engines import address_of, open_layer, refusing_server, send
from servers.process import Instance

SECRET = "s3cret"


def test_a_killed_server_is_reported_and_used_again_once_it_is_back(
    engine: str, search_server: Instance, index: str, tmp_path: Path
) -> None:
    url = f"{engine}://{address_of(search_server, index)}?timeout=5"
    with knowloom.open(str(tmp_path / "k.db"), embedder=None, words=url) as kb:
        kb.add([Item("a", "s", text="refund"), Item("b", "s", text="parcel")])
        search_server.kill()
        context = kb.context("refund", spaces=["s"])
        assert "refund" in context.text
        assert {problem.part for problem in context.degraded} == {"words"}
        kb.add(Item("c", "s", text="refund refund"))  # queued
        assert kb.context("refund", spaces=["s"]).degraded
        search_server.start()
        kb.reindex()
        context = kb.context("refund", spaces=["s"])
        assert context.degraded == () and kb.verify() == []
        assert [hit.item.id for hit in kb.search("refund", spaces=["s"])] == ["c", "a"]


def test_a_paused_server_gives_an_error_in_time_and_answers_once_it_is_resumed(
    engine: str, search_server: Instance, index: str
) -> None:
    patient = open_layer(engine, search_server, index, "?timeout=120")
    patient.put([build_entry(item("a", "refund"))])
    layer = open_layer(engine, search_server, index, "?timeout=5")
    search_server.pause()
    try:
        begin = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            layer.match_text("refund", ACME, 5)
        assert caught.value.code == "timeout" and "127.0.0.1" in str(caught.value)
        assert time.monotonic() - begin < 60
        with pytest.raises(Unavailable):
            layer.put([build_entry(item("a", "old"), "old")])  # may be written when it is resumed
    finally:
        search_server.resume()
    patient.put([build_entry(item("a", "new"), "new")])
    assert patient.versions("acme", "", 5) == [("a", "new")]
    assert patient.match_text("new", ACME, 5).keys == (("acme", "a"),)
    for each in (layer, patient):
        each.close()


def test_a_write_that_arrives_late_does_not_undo_a_later_one(layer: IndexedLayer) -> None:
    layer.put([build_entry(item("a", "new"), "new"), build_entry(item("b", "x"))])
    layer.remove([("acme", "b")])
    for id in "ab":
        target = {"_index": "contract", "_id": document_id(("acme", id)), "version": 5}
        action = {"index": {**target, "version_type": "external_gte"}}
        lines = [json.dumps(action), json.dumps({"space": "acme", "id": "late"})]
        assert layer._connection.bulk(lines)[0]["status"] == 409
    assert layer.versions("acme", "", 5) == [("a", "new")]


def test_a_clock_that_is_behind_does_not_keep_a_write_from_being_made(
    layer: IndexedLayer,
) -> None:
    layer.put([build_entry(item("a", "x"), "1"), build_entry(item("b", "x"), "1")])
    layer._now_us = lambda: 7
    layer.put([build_entry(item("a", "x"), "2")])
    layer.remove([("acme", "b")])
    assert layer.versions("acme", "", 5) == [("a", "2")]


@pytest.mark.parametrize(
    ("block", "code"),
    [("blocks.read_only", "read_only"), ("blocks.read_only_allow_delete", "disk_full")],
)
def test_a_read_only_or_full_index_can_be_read_and_refuses_writes(
    engine: str, search_server: Instance, index: str, block: str, code: str
) -> None:
    layer = open_layer(engine, search_server, index)
    layer.put([build_entry(item("a", "refund"))])
    send(search_server, "PUT", f"/{index}/_settings", f'{{"index.{block}": true}}')
    try:
        with pytest.raises(Unavailable) as caught:
            layer.put([build_entry(item("b", "refund"))])
        assert caught.value.code == code
        assert layer.match_text("refund", ACME, 5).keys == (("acme", "a"),)
    finally:
        send(search_server, "PUT", f"/{index}/_settings", f'{{"index.{block}": null}}')
    layer.put([build_entry(item("b", "refund"))])
    assert len(layer.match_text("refund", ACME, 5).keys) == 2
    layer.close()


def test_an_index_of_another_program_is_refused_and_left_alone(
    engine: str, search_server: Instance, index: str, tmp_path: Path
) -> None:
    send(search_server, "PUT", f"/{index}", '{"mappings": {"_meta": {"author": "x"}}}')
    url = f"{engine}://{address_of(search_server, index)}"
    with pytest.raises(Unavailable, match="belongs to another program"):
        knowloom.open(str(tmp_path / "k.db"), embedder=None, words=url)


def test_an_index_that_was_deleted_is_an_error_and_not_empty(
    engine: str, search_server: Instance, index: str
) -> None:
    layer = open_layer(engine, search_server, index)
    send(search_server, "DELETE", f"/{index}-entries-1")
    for call in (
        lambda: layer.match_text("refund", ACME, 5),
        lambda: layer.put([build_entry(item("a", "x"))]),
        layer.indexed_spaces,
    ):
        with pytest.raises(Unavailable) as caught:
            call()
        assert caught.value.code == "no_index"
    layer.close()


def test_a_wrong_password_or_host_is_named_without_the_secret(engine: str) -> None:
    with refusing_server(f"no access for {SECRET}") as port:
        _assert_hidden(f"{engine}://u:{SECRET}@127.0.0.1:{port}/i", "access_denied")
        if engine == "elasticsearch":
            url = f"{engine}://127.0.0.1:{port}/i?api_key={SECRET}"
            _assert_hidden(url, "access_denied")
    _assert_hidden(f"{engine}://u:{SECRET}@127.0.0.1:1/i?timeout=2", "unreachable")


def _assert_hidden(url: str, code: str) -> None:
    with pytest.raises(Unavailable) as caught:
        open_store(url, ["words"])
    error: BaseException | None = caught.value
    assert caught.value.code == code and "127.0.0.1" in str(error)
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("host/i?colour=red", "unknown option"),
        ("host/i?timeout=0", "timeout must be a whole number from 1 to 3600"),
        ("host/Upper", "an index must consist of lower-case letters"),
        ("host/a/../_all", "an index must consist of"),
        ("host:99999/i", "a port from 1 to 65535"),
        ("", "must name host"),
        (f"user@host/i?x={SECRET}", "must have a password"),
        ("host/i?tls=yes", "tls must be true or false"),
    ],
)
def test_a_url_that_is_not_understood_is_refused(engine: str, rest: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        open_store(f"{engine}://{rest}", ["words"])


def test_other_roles_are_refused(engine: str) -> None:
    with pytest.raises(KnowloomError, match="cannot store graph"):
        open_store(f"{engine}://127.0.0.1:1/i", ["graph"])
