"""Store reads of a graph context: edges of an entity once, items by subject without a full scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from knowloom import Edge, GraphContext, Item
from knowloom.capabilities.graph import entities, relationships
from knowloom.capabilities.graph.documents import QueryText
from knowloom.capabilities.graph.entities import EntityHit, Neighbours
from knowloom.capabilities.graph.options import GraphOptions
from knowloom.capabilities.graph.rankers import RankingRequest, TermRanker, split_terms
from knowloom.engine import Engine
from knowloom.model import AUTOMATIC, Filter, Hit, Key, Kind
from knowloom.ports import (
    Batch,
    LinkUpdate,
    Stores,
)
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite import edges as links
from knowloom.stores.sqlite.store import SqliteStore

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TYPES = ("OWNS", "PART_OF", "USES")
SPACES = ("one", "two")


def entity(id: str, space: str = "one", **properties: object) -> Item:
    return Item(id, space, Kind.ENTITY, "System", id.title(), properties=properties, created_at=NOW)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore | SqliteStore]:
    opened = (
        MemoryStore()
        if request.param == "memory"
        else SqliteStore.open(str(tmp_path / "a.knowloom"))
    )
    yield opened
    opened.close()


class Watched(MemoryStore):
    """Records the keys whose edges were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[list[str]] = []

    def edges_of(self, keys: Sequence[Key], *rest: Any, **more: Any) -> list[Edge]:
        self.reads.append([id for _, id in keys])
        return super().edges_of(keys, *rest, **more)


def watched(*edges: Edge, ids: Sequence[str]) -> tuple[Engine, Watched]:
    store = Watched()
    kb = Engine(Stores(store, store, store, store))
    kb.add([entity(id) for id in ids], list(edges))
    store.reads.clear()
    return kb, store


def test_edges_of_hits_are_read_once() -> None:
    kb, store = watched(Edge("alpha", "beta", "USES", 0.5, "one"), ids=("alpha", "beta"))
    answer = GraphContext(kb, ["one"]).for_entities(["alpha", "beta"])
    assert [relationship.edge.type for relationship in answer.relationships] == [
        "USES"
    ] and store.reads == [["alpha", "beta"]]


def test_only_edges_of_new_entities_are_read_again() -> None:
    kb, store = watched(
        Edge("alpha", "beta", "USES", 0.5, "one"),
        Edge("beta", "beta", "OWNS", 0.5, "one"),
        ids=("alpha", "beta"),
    )
    answer = GraphContext(kb, ["one"]).for_entities(["alpha"])
    assert sorted(relationship.edge.type for relationship in answer.relationships) == [
        "OWNS",
        "USES",
    ] and store.reads == [["alpha"], ["beta"]]


def test_edges_of_an_incompletely_read_entity_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entities, "HUB_CAP", 2)
    monkeypatch.setattr(relationships, "HUB_CAP", 2)
    kb, store = watched(
        *(Edge("alpha", id, "USES", 0.5, "one") for id in ("beta", "gamma", "delta")),
        ids=("alpha", "beta", "gamma", "delta"),
    )
    answer = GraphContext(kb, ["one"]).for_entities(["alpha", "beta", "gamma", "delta"])
    assert len(answer.relationships) == 3 and store.reads == [
        ["alpha", "beta", "gamma", "delta"],
        ["alpha"],
    ]


@pytest.mark.parametrize("seed", range(12))
def test_relationships_do_not_depend_on_edges_read_before(
    store: MemoryStore | SqliteStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hubs, forbidden edges, edges across spaces, and automatic edges beside explicit ones."""
    monkeypatch.setattr(entities, "HUB_CAP", 3)
    monkeypatch.setattr(relationships, "HUB_CAP", 3)
    chance = Random(seed)
    keys = [(space, f"e{number}") for space in SPACES for number in range(9)]
    store.apply(
        Batch(NOW, tuple(entity(id, space) for space, id in keys), tuple(_edges(chance, keys, 60)))
    )
    for space in SPACES:
        space_keys = [key for key in keys if key[0] == space]
        store.put_links(
            LinkUpdate(
                space,
                store.dirty_items(space, []).version,
                tuple(_edges(chance, space_keys, 12, AUTOMATIC)),
            )
        )
    kb = Engine(Stores(store, store, store, store))
    with kb.reader.request("", spaces=SPACES, recipes=[]) as request:
        options = GraphOptions(relationship_depth=chance.randrange(1, 3), max_entities=8)
        seeds = [EntityHit(Hit(item, 0.5)) for item in store.get(chance.sample(keys, 6))]
        near = entities.expand_neighbours(request, seeds, QueryText("", (), ""), options)
        shown = [
            entity.hit
            for entity in (*seeds[: chance.randrange(6)], *near.entities[: chance.randrange(8)])
        ]
        result = relationships.find_relationships(request, shown, options, near)
        assert near.edges and result == relationships.find_relationships(
            request, shown, options, Neighbours()
        )


def _edges(chance: Random, keys: Sequence[Key], count: int, origin: str = "") -> list[Edge]:
    result = {}
    for _ in range(count):
        (space, source), (target_space, target) = (
            keys[chance.randrange(4)] if chance.random() < 0.5 else chance.choice(keys),
            chance.choice(keys),
        )
        edge = Edge(
            source,
            target,
            chance.choice(TYPES),
            chance.choice((0.0, 0.5, 0.5, 1.0, chance.random())),
            space,
            None,
            {},
            target_space,
            origin,
        )
        edge = (
            edge
            if target_space != space
            else Edge(source, target, edge.type, edge.weight, space, origin=origin)
        )
        result[edge.key] = edge
    return list(result.values())


@pytest.mark.parametrize("few", [0, 3, 20_000])
@pytest.mark.parametrize("settled", [False, True])
def test_items_are_found_by_subject_for_all_result_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, settled: bool
) -> None:
    monkeypatch.setattr("knowloom.stores.sqlite.search.SMALL_RESULT", few)
    files, memory = SqliteStore.open(str(tmp_path / "a.knowloom")), MemoryStore()
    rows = [
        Item(
            f"r{number}",
            SPACES[number % 2],
            (Kind.RULE, Kind.CLAIM)[number % 3 == 0],
            subject=f"s{number % 5}",
            created_at=NOW,
        )
        for number in range(30)
    ]
    for some in (files, memory):
        some.apply(Batch(NOW, (*rows, entity("s1"))))
        some.apply(Batch(NOW, deleted=(rows[6].key, rows[11].key)))
    if settled:
        files.rebuild_words(files.find(Filter(SPACES), 100))
    for only in (
        Filter(SPACES, (Kind.RULE,), subjects=("s1", "s2", "none")),
        Filter(SPACES[:1], subjects=("s1", "s4")),
        Filter(SPACES, subjects=("none",)),
    ):
        for limit, after in ((100, None), (2, None), (3, ("one", "r14"))):
            assert files.find(only, limit, after) == memory.find(only, limit, after)
    files.close()


@pytest.mark.parametrize("per_walked", [1, 3, 10, 1000])
@pytest.mark.parametrize("few", [0, 20_000])
def test_items_are_found_by_kind_for_all_id_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, per_walked: int
) -> None:
    monkeypatch.setattr("knowloom.stores.sqlite.search.SMALL_RESULT", few)
    monkeypatch.setattr("knowloom.stores.sqlite.search.SORTS_PER_SCAN", per_walked)
    files, memory = SqliteStore.open(str(tmp_path / "a.knowloom")), MemoryStore()
    first = [Item(f"a{number:02}", "one", Kind.NODE, created_at=NOW) for number in range(40)]
    last = [Item(f"z{number:02}", "one", Kind.ENTITY, created_at=NOW) for number in range(40)]
    mixed = [
        Item(f"{number:02}", "two", (Kind.NODE, Kind.ENTITY)[number % 2], created_at=NOW)
        for number in range(40)
    ]
    for some in (files, memory):
        some.apply(Batch(NOW, (*first, *last, *mixed)))
    for only in (
        Filter(SPACES, (Kind.NODE,)),
        Filter(SPACES, (Kind.ENTITY,)),
        Filter(("two",), (Kind.ENTITY,)),
        Filter(SPACES, (Kind.RULE,)),
    ):
        for limit in (0, 1, 3, 30, 100):
            for after in (None, ("one", "a38"), ("one", "z38"), ("two", "17")):
                assert files.find(only, limit, after) == memory.find(only, limit, after)
    files.close()


def test_edges_of_equal_weight_are_unique_and_ordered_by_ends_then_spaces() -> None:
    edges = [
        Edge(source, "b", type, weight, space, target_space="zoo" if space == "acme" else "")
        for space in ("zoo", "acme")
        for source in ("a", "c")
        for type in ("x", "y")
        for weight in (0.5, 0.25)
    ]
    expected = sorted(
        edges, key=lambda edge: (-edge.weight, edge.source, edge.target, edge.type, edge.space)
    )
    for seed in range(20):
        twice = [*edges, *Random(seed).sample(edges, 5)]
        assert links.sort_unique(Random(seed).sample(twice, len(twice))) == expected
    assert links.sort_unique([]) == [] and links.sort_unique(edges[:1]) == edges[
        :1
    ] == links.sort_unique([edges[0], replace(edges[0])])


WORDS = ("red", "RED tent", "Straße", "ΟΔΟΣ", "İstanbul", "two\nlines", "", "tent", "des")


@pytest.mark.parametrize("seed", range(30))
def test_terms_are_counted_in_each_value_separately(seed: int) -> None:
    chance = Random(seed)
    item = Item(
        "a",
        "one",
        Kind.ENTITY,
        chance.choice(WORDS),
        chance.choice(WORDS),
        properties={str(n): chance.choice((*WORDS, 7, ["red"])) for n in range(5)},
    )
    passages = tuple(" ".join(chance.choices(WORDS, k=3)) for _ in range(chance.randrange(1, 4)))
    (result,) = TermRanker().rank(RankingRequest(passages, "", NOW), [Hit(item, 0.5)])
    values = [str(value).lower() for value in item.properties.values()]
    counted = [
        (
            sum(term in item.name.lower() for term in terms)
            + 0.5 * sum(term in item.type.lower() for term in terms),
            sum(t in v for t in terms for v in values),
        )
        for terms in map(split_terms, passages)
        if terms
    ]
    raws = [
        (ends + 0.3 * inside) / len(terms)
        for (ends, inside), terms in zip(
            counted, filter(None, map(split_terms, passages)), strict=True
        )
    ]
    assert result.raw == pytest.approx(
        max(raws, default=0.0), abs=1e-6
    ) and result.score == pytest.approx(min(1.0, max(raws, default=0.0)), abs=1e-6)
