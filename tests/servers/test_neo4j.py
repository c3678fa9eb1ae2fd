"""Edges in Neo4j: the contract, the answers of one SQLite file, injections and failures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import knowloom
from knowloom import Corrupt, Edge, Engine, Invalid, Item, Unavailable
from knowloom.stores.neo4j.bolt import BoltClient
from knowloom.stores.neo4j.graph_address import parse_graph_address
from knowloom.stores.neo4j.store import BoltStore, Neo4jStore
from knowloom.testing import GraphStoreContract
from knowloom.testing.knowledge import batch, edge
from servers.neo4j import Neo4j, SecuredNeo4j

A = ("acme", "a")


def open_client(server: Neo4j) -> BoltClient:
    return BoltClient(parse_graph_address(server.url))


def empty(server: Neo4j) -> None:
    client = open_client(server)
    client.write([("MATCH (n) DETACH DELETE n", {})])
    client.close()


def open_store(server: Neo4j, options: str = "") -> Neo4jStore:
    return BoltStore.open(f"{server.url.removeprefix('bolt://')}{options}")


@pytest.fixture
def store(neo4j_server: Neo4j) -> Iterator[Neo4jStore]:
    empty(neo4j_server)
    store = open_store(neo4j_server)
    yield store
    store.close()


class TestNeo4jAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self, store: Neo4jStore) -> Neo4jStore:
        return store


def test_a_graph_is_reached_with_routing_too(neo4j_server: Neo4j) -> None:
    empty(neo4j_server)
    store = Neo4jStore.open(f"{neo4j_server.url.removeprefix('bolt://')}/neo4j")
    store.apply(batch(edges=[edge("a", "b")]))
    assert store.edges(["acme"], 10) == [edge("a", "b")]
    store.close()


INJECTIONS = [
    *("'", '"', "`", "\\", "$keys", "{key: 1}", "') DETACH DELETE n //", "`) DETACH DELETE n //"),
    *("'}) MATCH (n) DETACH DELETE n RETURN n //", "\\u0027", "\0", "\n", "🧵", "\ufb00"),
]


def test_texts_that_look_like_cypher_stay_texts(store: Neo4jStore) -> None:
    canary = edge("canary", "bird", space="other")
    edges = [
        Edge(text, f"{text}!", text, 0.5, text, properties={text: {"nested": [text]}})
        for text in INJECTIONS
    ]
    store.apply(batch(edges=[canary, *edges]))
    assert store.edges(INJECTIONS, 100) == sorted(edges, key=lambda edge: edge.key)
    for each in edges:
        assert store.edges_of([each.source_key], [each.space], [each.type]) == [each]
    store.apply(batch(deleted=[edges[0].source_key], deleted_edges=[edges[1].key]))
    assert store.get_edges([each.key for each in edges]) == edges[2:]
    assert store.edges(["other"], 10) == [canary]


def test_ties_are_ordered_by_code_points(store: Neo4jStore) -> None:
    """UTF-16, which Neo4j compares, orders the first of these behind the second."""
    edges = [edge("a", "\ufb00"), edge("a", "🧵")]
    store.apply(batch(edges=edges))
    assert store.edges_of([A], ["acme"], limit=1) == store.edges(["acme"], 1) == edges[:1]


def test_numbers_that_json_does_not_have_are_refused_before_anything_is_written(
    store: Neo4jStore,
) -> None:
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON"):
            store.apply(batch(edges=[edge("a", "b"), edge("a", "c", properties={"x": number})]))
    assert store.edges(["acme"], 10) == []


def test_the_longest_names_are_kept(store: Neo4jStore) -> None:
    long = "🧵" * 500
    edges = [edge(long, long, type=f"{long[1:]}{end}", space=long) for end in "ab"]
    store.apply(batch(edges=edges))
    assert store.edges_of([(long, long)], [long]) == edges
    assert store.get_edges([edges[1].key]) == edges[1:] and len(store.edges([long], 9)) == 2


def test_nodes_of_other_programs_are_never_touched(neo4j_server: Neo4j) -> None:
    empty(neo4j_server)
    client = open_client(neo4j_server)
    client.write([("CREATE (:Person {key: 'x'})-[:KNOWS]->(:Item {name: 'theirs'})", {})])
    store = open_store(neo4j_server)
    store.apply(batch(edges=[edge("a", "b")]))
    client.write([("MATCH (n:KnowloomItem), (p:Person) CREATE (p)-[:LIKES]->(n)", {})])
    store.apply(batch(deleted=[A, ("acme", "b")]))
    count = "MATCH (p:Person) RETURN COUNT { (p)-[:KNOWS]->(:Item) }, COUNT { (p)-[:LIKES]->() }"
    assert (client.read(count), store.edges(["acme"], 10)) == ([[1, 2]], [])
    client.write([("MATCH (m:KnowloomGraph) DELETE m", {})])
    with pytest.raises(Corrupt, match="did not write") as caught:
        open_store(neo4j_server)
    assert caught.value.code == "foreign_file"
    client.write([("CREATE (:KnowloomGraph {format: 99})", {})])
    with pytest.raises(Unavailable, match="newer knowloom"):
        open_store(neo4j_server)
    store.close()
    client.close()


def fill(kb: Engine) -> None:
    topics = ["refund", "parcel", "invoice", "warranty", "account", "voucher"]
    items = [
        Item(f"{topic}-{n}", "s", title=f"{topic} {n}", text=f"How a {topic} works, part {n}.")
        for topic in topics
        for n in range(8)
    ]
    edges = [
        Edge(items[n].id, items[(n * 7 + far) % len(items)].id, f"t{far}", 1 / far, "s")
        for n in range(len(items))
        for far in (1, 2, 3)
    ]
    kb.add(items, edges)


def test_contexts_and_walks_are_those_of_one_file(neo4j_server: Neo4j, tmp_path: Path) -> None:
    empty(neo4j_server)
    with (
        knowloom.open(str(tmp_path / "a.db"), embedder=None) as alone,
        knowloom.open(str(tmp_path / "b.db"), embedder=None, graph=neo4j_server.url) as layered,
    ):
        for kb in (alone, layered):
            fill(kb)
        for query in ("refund of a parcel", "warranty account", "voucher 3"):
            one, other = (kb.context(query, max_tokens=700) for kb in (alone, layered))
            assert (other.text, other.degraded) == (one.text, ())
        assert layered.verify() == []
        alone.delete(["refund-1"]), layered.delete(["refund-1"])
        one, other = (kb.context("refund", max_tokens=700) for kb in (alone, layered))
        assert (other.text, other.degraded, layered.verify()) == (one.text, (), [])


def test_a_server_that_is_down_is_left_out_and_used_again(
    neo4j_server: Neo4j, tmp_path: Path
) -> None:
    empty(neo4j_server)
    url = f"{neo4j_server.url}?timeout=5&connect_timeout=1"
    with knowloom.open(str(tmp_path / "k.db"), embedder=None, graph=url) as kb:
        fill(kb)
        kb.reindex()
        whole = kb.context("refund parcel", max_tokens=700)
        neo4j_server.pause()
        try:
            paused = kb.context("refund parcel", max_tokens=700)
        finally:
            neo4j_server.resume()
        neo4j_server.kill()
        killed = kb.context("refund parcel", max_tokens=700)
        kb.add([], [Edge("refund-1", "parcel-1", "new", 0.9, "s")])
        neo4j_server.start()
        kb.reindex()
        again = kb.context("refund parcel", max_tokens=700)
        assert kb.verify() == []
    for context in (paused, killed):
        assert context.text == whole.text
        assert [problem.part for problem in context.degraded] == ["graph"]
    assert again.degraded == ()


def test_a_paused_server_times_out_and_its_connections_are_replaced(neo4j_server: Neo4j) -> None:
    empty(neo4j_server)
    store = open_store(neo4j_server, "?timeout=0.5")
    store.apply(batch(edges=[edge("a", "b")]))
    neo4j_server.pause()
    try:
        with pytest.raises(Unavailable, match="no answer within") as caught:
            store.edges_of([A], ["acme"])
    finally:
        neo4j_server.resume()
    assert caught.value.code == "timeout"
    store.close()
    store = open_store(neo4j_server)
    assert store.edges_of([A], ["acme"]) == [edge("a", "b")]
    store.close()


def test_a_wrong_password_is_refused_without_naming_it(secured_neo4j: SecuredNeo4j) -> None:
    address = secured_neo4j.url.removeprefix("bolt://").partition("@")[2] or (
        secured_neo4j.url.removeprefix("bolt://")
    )
    for login in ("", "neo4j:s3cr3t-canary@"):
        with pytest.raises(Unavailable, match=r"bolt://127\.0\.0\.1") as caught:
            BoltStore.open(f"{login}{address}")
        assert caught.value.code == "access_denied"
        assert "canary" not in f"{caught.value!r} {caught.value.__cause__!r}"
    with pytest.raises(Unavailable) as caught:
        BoltStore.open(f"neo4j:{secured_neo4j.password[0]}@{address}/nowhere")
    assert caught.value.code == "no_database"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("neo4j://", "must be like"),
        ("neo4j://h:hidden", "must be like"),
        ("bolt://u:hidden@h/a/b", "must be like"),
        ("bolt://h?tiemout=1", "available: connect_timeout, timeout, tls"),
        ("bolt://h?timeout=x", "seconds from"),
    ],
)
def test_an_invalid_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        parse_graph_address(url)
    assert "u:hidden" not in str(caught.value)
