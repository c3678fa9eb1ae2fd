"""The number of times that a request waits for the server, counted on the wire."""

from __future__ import annotations

import knowloom
from bench.corpus import SPACE, GeneratedCorpus
from knowloom.stores.postgresql.store import PostgresqlStore
from postgresql_server import url_of
from servers.postgresql import Server
from servers.relay import Relay

MAX_ROUND_TRIPS = 8


def test_a_context_takes_at_most_eight_round_trips_and_two_again(
    server: Server, store: PostgresqlStore
) -> None:
    corpus = GeneratedCorpus(600)
    with Relay(server.port) as relay:
        url = url_of(server).replace(str(server.port), str(relay.port))
        with knowloom.open(f"postgresql://{url}", embedder=None, links=[]) as kb:
            for items, vectors in corpus.batches(300):
                kb.add(items, embed=False)
                by_key = {item.key: row for item, row in zip(items, vectors, strict=True)}
                kb._stores.vectors.put_vectors(by_key, "bench")
            for edges in corpus.edges():
                kb.add([], edges)
            queries, vectors = corpus.texts(16, 6), corpus.vectors(16)

            def ask(number: int) -> int:
                before = relay.round_trips
                vector = vectors[number].tolist()
                kb.context(queries[number], spaces=[SPACE], max_tokens=2000, vector=vector)
                return relay.round_trips - before

            for number in range(8):  # the space is read, and the driver prepares its statements
                ask(number)
            assert max(ask(number) for number in range(8, 16)) <= MAX_ROUND_TRIPS
            assert ask(15) <= 2
