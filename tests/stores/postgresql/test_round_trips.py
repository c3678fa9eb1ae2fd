"""The number of times that a request waits for the server, counted on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle

import pytest

import knowloom
from bench.corpus import SPACE, GeneratedCorpus
from knowloom.stores.postgresql.store import PostgresqlStore
from postgresql_server import url_of
from servers.postgresql import Server
from servers.relay import Relay

MAX_ROUND_TRIPS = 8


def place(edge: knowloom.Edge, spaces: Mapping[str, str]) -> knowloom.Edge:
    """Return an edge between the spaces of its items."""
    return replace(edge, space=spaces[edge.source], target_space=spaces[edge.target])


@pytest.mark.parametrize("spaces", [[SPACE], [SPACE, "two"]], ids=["one space", "two spaces"])
def test_a_context_takes_at_most_eight_round_trips_and_two_again(
    server: Server, store: PostgresqlStore, spaces: list[str]
) -> None:
    corpus = GeneratedCorpus(600)
    with Relay(server.port) as relay:
        url = url_of(server).replace(str(server.port), str(relay.port))
        with knowloom.open(f"postgresql://{url}", embedder=None, links=[]) as kb:
            for (items, vectors), space in zip(corpus.batches(300), cycle(spaces), strict=False):
                items = [replace(item, space=space) for item in items]
                kb.add(items, embed=False)
                by_key = {item.key: row for item, row in zip(items, vectors, strict=True)}
                kb._stores.vectors.put_vectors(by_key, "bench")
            keys = {item.id: item.space for item in kb.items(spaces=spaces)}
            for edges in corpus.edges():
                kb.add([], [place(edge, keys) for edge in edges])
            queries, vectors = corpus.texts(16, 6), corpus.vectors(16)

            def ask(number: int) -> int:
                before = relay.round_trips
                vector = vectors[number].tolist()
                kb.context(queries[number], spaces=spaces, max_tokens=2000, vector=vector)
                return relay.round_trips - before

            for number in range(8):  # the space is read, and the driver prepares its statements
                ask(number)
            assert max(ask(number) for number in range(8, 16)) <= MAX_ROUND_TRIPS
            assert ask(15) <= 2
