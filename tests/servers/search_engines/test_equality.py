"""The answers with words and vectors on a search engine are those of one file."""

from __future__ import annotations

from pathlib import Path

import knowloom
from knowloom import Item
from knowloom.testing.layers.contract import build_entry
from layered_answers import assert_same_as_a_file
from letters import Letters
from search_engines import address_of, open_layer
from servers.process import Instance
from servers.relay import Relay

MAX_ROUND_TRIPS = 8


def test_contexts_are_those_of_a_file(
    engine: str, search_server: Instance, index: str, tmp_path: Path
) -> None:
    url = f"{engine}://{address_of(search_server, index)}?shards=2"
    assert_same_as_a_file(tmp_path, words=url, vectors=url)


def test_a_context_takes_at_most_eight_round_trips(
    engine: str, search_server: Instance, index: str
) -> None:
    with Relay(search_server.port) as relay:
        url = f"{engine}://127.0.0.1:{relay.port}/{index}"
        with knowloom.open("memory:", embedder=Letters(), words=url, vectors=url) as kb:
            kb.load("examples/harbor/support.jsonl", space="support")
            kb.context("refund", spaces=["support"])
            before = relay.round_trips
            context = kb.context("How do I process a refund?", spaces=["support"])
            assert 0 < relay.round_trips - before <= MAX_ROUND_TRIPS
            assert context.degraded == ()


def test_a_lagging_index_never_shows_deleted_or_changed_text(
    engine: str, search_server: Instance, index: str
) -> None:
    url = f"{engine}://{address_of(search_server, index)}"
    with knowloom.open("memory:", embedder=None, words=url) as kb:
        kb.add([Item(id, "s", text=f"refund {id}") for id in ("kept", "gone", "changed")])
        kb.delete(["gone"], space="s")
        kb.add(Item("changed", "s", text="parcel"))
        layer = open_layer(engine, search_server, index)
        layer.put([build_entry(Item("gone", "s", text="refund gone"))])  # as a late write would
        layer.put([build_entry(Item("changed", "s", text="refund refund"))])
        layer.close()
        hits = kb.search("refund", spaces=["s"])
        assert [hit.item.id for hit in hits] == ["kept"]
        assert len(kb.verify()) == 2
        kb.reindex()
        assert kb.verify() == []
