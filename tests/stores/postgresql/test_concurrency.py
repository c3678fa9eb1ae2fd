"""Several stores on one schema, as several processes have them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from knowloom.ports import LinkUpdate
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.testing.knowledge import ACME, BOTH, batch, edge, item, unit
from postgresql_server import url_of
from servers.postgresql import Server


@pytest.fixture
def other(server: Server, store: PostgresqlStore) -> Iterator[PostgresqlStore]:
    """Another store of the same schema."""
    opened = PostgresqlStore.open(url_of(server))
    yield opened
    opened.close()


def test_a_write_is_seen_at_once_by_others(store: PostgresqlStore, other: PostgresqlStore) -> None:
    for number in range(3):
        store.apply(batch([item("a", f"water {number}"), item(f"{number}", "fire")]))
        assert other.search_text("fire", ACME, 9).considered == number + 1
        assert other.get([("acme", "a")]) == [item("a", f"water {number}")]
        other.apply(batch([item("b", "earth")], [edge("b", "a", number + 1)]))
        assert store.edges_of([("acme", "a")], ["acme"]) == [edge("b", "a", number + 1)]
    store.apply(batch(deleted=[("acme", "a")]))
    assert other.search_text("water", ACME, 9).matches == ()
    assert other.edges_of([("acme", "b")], ["acme"]) == [] and other.verify() == []


def test_a_snapshot_does_not_change_while_others_write(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    store.apply(batch([item("a", "water")], [edge("a", "a")]))
    store.put_vectors({("acme", "a"): unit(1, 0)}, "e1")

    def look() -> object:
        return (
            store.find(ACME, 9),
            store.spaces(),
            store.search_text("water", ACME, 9),
            store.search_vector(unit(1, 0), ACME, 9),
            store.edges_of([("acme", "a")], ["acme"]),
            store.changes("acme"),
        )

    with store.reading():
        before = look()
        other.apply(batch([item("a", "fire"), item("b", "water")], [edge("a", "a", 3)]))
        other.put_vectors({("acme", "a"): unit(0, 1)}, "e1")
        assert look() == before
    assert store.find(ACME, 9) == [item("a", "fire"), item("b", "water")]
    assert store.search_vector(unit(0, 1), ACME, 9).matches == ((("acme", "a"), 1.0),)


def test_overlapping_batches_in_any_order_do_not_deadlock(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    keys = [(space, f"{number}") for space in ("acme", "zoo", "new") for number in range(6)]

    def write(seed: int) -> None:
        chance = random.Random(seed)
        target = (store, other)[seed % 2]
        for _ in range(4):
            chosen = chance.sample(keys, 8)
            ends = [chance.sample(keys, 2) for _ in range(4)]
            edges = [
                edge(source[1], end[1], space=source[0], target_space=end[0])
                for source, end in ends
            ]
            items = [item(id, f"text {seed}", space=space) for space, id in chosen[:6]]
            target.apply(batch(items, edges, deleted=chosen[6:]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    # Edges may end at deleted items: stores are not asked to prevent that.
    problems = [text for text in store.verify() if "missing item" not in text]
    assert problems == []
    assert store.count(BOTH) == len(store.find(BOTH, 99)) == len(other.find(BOTH, 99))


def test_an_expected_version_wins_once(store: PostgresqlStore, other: PostgresqlStore) -> None:
    from dataclasses import replace

    from knowloom.errors import Conflict

    def create(number: int) -> bool:
        change = replace(batch([item("a", f"{number}")]), expected=((("acme", "a"), ""),))
        try:
            (store, other)[number % 2].apply(change)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(8))) == 1


def test_links_computed_on_an_outdated_space_are_refused(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    store.apply(batch([item("a")]))
    version = store.dirty_items("acme", []).version
    other.apply(batch([item("b")]))
    assert not store.put_links(LinkUpdate("acme", version, done=("a",)))
    assert store.dirty_ids("acme") == ["a", "b"]
