"""PostgreSQL gives the answers of an SQLite file, number by number and byte by byte."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Item
from knowloom.model import Filter, ItemCondition, Key
from knowloom.ports import LinkUpdate
from knowloom.stores.postgresql.store import PostgresqlStore
from knowloom.stores.postgresql.writing import space_counters
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing.knowledge import NOW, babble, batch, directions, section
from letters import Letters
from postgresql_server import url_of
from servers.postgresql import Server

SPACES = ("acme", "zoo", "ark")
KEYS = [(space, f"{number}") for space in SPACES for number in range(8)]
TEXTS = [
    *("", "refund policy", "a parcel on monday", "返金ポリシー", "water " * 300),
    *("'; DROP TABLE item; --", "100 % of %s and $1 \\ \0 \x01", "x" * 3000),
    section("refund policy") + section("parcel"),
    section("monday") * 3 + section("refund"),
]
QUESTIONS = ["refund", "parcel policy monday", "返金 water", "drop table item", "x" * 3000]
VECTORS = directions(60, 24)
ALL = Filter(SPACES)
FILTERS = [
    ALL,
    Filter(("acme",)),
    replace(ALL, types=("faq",)),
    replace(ALL, exclude_types=("faq",), tags=("vip",)),
    replace(ALL, subjects=("anna",), valid_at=NOW, min_confidence=0.5),
    replace(ALL, where=(ItemCondition("price", "$gte", (2,)),)),
    replace(ALL, where=(ItemCondition("$tags", "$any", ("vip",)),)),
]


class Steps:
    """Random writes, the same to every store."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def item(self) -> Item:
        chance, (space, id) = self.chance, self.chance.choice(KEYS)
        return Item(
            id,
            space,
            type=chance.choice(["", "faq"]),
            title=chance.choice(TEXTS),
            text=chance.choice(TEXTS),
            tags=chance.choice([(), ("vip",), ("vip", "vip")]),
            subject=chance.choice([None, "anna"]),
            confidence=chance.choice([None, 0.5]),
            valid_to=chance.choice([None, NOW]),
            properties=chance.choice([{}, {"price": chance.randrange(4)}, {"price": "3"}]),
            created_at=NOW,
        )

    def edge(self) -> Edge:
        (space, id), (target_space, target) = self.chance.sample(KEYS, 2)
        weight = self.chance.choice([0.5, 1.0, 2.0])
        kind = self.chance.choice(["related", "part of"])
        return Edge(id, target, kind, weight, space, target_space=target_space)

    def step(self) -> Any:
        """Return a function that writes to a store."""
        chance = self.chance
        items = [self.item() for _ in range(chance.randrange(4))]
        edges = [self.edge() for _ in range(chance.randrange(4))]
        gone = chance.sample(KEYS, chance.randrange(3))
        unlinked = [self.edge().key for _ in range(chance.randrange(3))]
        vectors = {key: VECTORS[chance.randrange(40)] for key in chance.sample(KEYS, 5)}
        size = chance.choice([400, 800])
        steps = [
            *[lambda store: store.apply(batch(items, edges, gone, unlinked))] * 6,
            *[lambda store: store.put_vectors(vectors, "e1")] * 3,
            lambda store: store.forget_vectors(),
            lambda store: store.resegment(size),
            lambda store: store.rebuild_words(store.find(ALL, 1000)),
            link,
        ]
        return chance.choice(steps)


def link(store: Any) -> None:
    """Store the lists of nearest items, as the linker does."""
    for space in SPACES:
        dirty = store.dirty_ids(space)
        marks, near = store.dirty_items(space, dirty), store.nearest_items(space, dirty, 0.0)
        update = LinkUpdate(space, marks.version, done=tuple(dirty), nearest=near.lists)
        assert store.put_links(update) or not dirty


def answers(store: Any) -> list[Any]:
    """Return what a store says about everything that was written."""
    names = list(SPACES)
    result: list[Any] = [
        store.spaces(),
        [replace(change, number=0) for name in names for change in store.changes(name)],
        [store.edges_of(KEYS, names, limit=limit) for limit in (1, 2, 100)],
        store.edges_of(KEYS, names[:2], ["part of"], min_weight=0.6),
        store.edges(names, 100),
        (store.fingerprint(), store.missing_vectors(names, 99), store.count_missing(names)),
        [store.tag_holders(name, ["vip"], 3) for name in names],
        store.score_vectors(VECTORS[-1], KEYS),
        store.score_vector_passages(VECTORS[-1], KEYS),
        [near_pairs(store, name) for name in names],
    ]
    for only in FILTERS:
        result += [store.find(only, 5), store.find(only, 5, KEYS[8]), store.count(only)]
        result.append(store.visible(KEYS[::-1], only))
        result.append(store.search_vector(VECTORS[-1], only, 4))
        for question in QUESTIONS:
            result.append(store.search_text(question, only, 3, also=KEYS[::2]))
            result.append(store.score_text_passages(question, only, KEYS))
    return result


def near_pairs(store: Any, space: str) -> set[tuple[frozenset[str], float]]:
    near = store.nearest_items(space, [id for name, id in KEYS if name == space], 0.0)
    return {(frozenset((id, other)), cosine) for id, other, cosine in near.pairs}


def test_random_writes_give_the_same_answers(
    store: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_counters, "TAIL_SLOTS", 8)
    monkeypatch.setattr(space_counters, "BLOCK_SLOTS", 40)
    sqlite, steps = SqliteStore.open(str(tmp_path / "k.db")), Steps(1)
    for number in range(50):
        step = steps.step()
        for each in (sqlite, store):
            step(each)
        if number % 10 == 9:
            for mine, expected in zip(answers(store), answers(sqlite), strict=True):
                assert mine == expected
    assert [text for text in store.verify() if "missing item" not in text] == []
    sqlite.close()


def test_more_vectors_than_are_scored_have_the_same_candidates(
    store: PostgresqlStore, tmp_path: Path
) -> None:
    sqlite, some = SqliteStore.open(str(tmp_path / "k.db")), directions(2500, 64)
    texts = babble(2500, 3)
    keys: list[Key] = [("acme", f"{number:04}") for number in range(2500)]
    items = [Item(id, space, text=texts[int(id)]) for space, id in keys]
    for each in (sqlite, store):
        each.apply(batch(items[:1200]))
        each.apply(batch(items[1200:]))
        each.put_vectors(dict(zip(keys, some, strict=True)), "e1")
    for number in (0, 7, 99):
        mine, expected = (
            each.search_vector(some[number], Filter(("acme",)), 30) for each in (store, sqlite)
        )
        assert mine == expected
        mine, expected = (
            each.search_text(texts[number], Filter(("acme",)), 30) for each in (store, sqlite)
        )
        assert mine == expected
    sqlite.close()


def test_contexts_are_those_of_a_file(
    server: Server, store: PostgresqlStore, tmp_path: Path
) -> None:
    contexts: list[Any] = []
    for url in (f"postgresql://{url_of(server)}", str(tmp_path / "k.db")):
        with knowloom.open(url, embedder=Letters()) as kb:
            kb.load("examples/harbor/shared.jsonl", space="shared")
            kb.load("examples/harbor/support.jsonl", space="support")
            spaces = ["support", "shared"]
            for question in ("How do I process a refund?", "Who owns Lantern?", "label cost"):
                context = kb.context(question, spaces=spaces, max_tokens=700, now=NOW)
                hits = kb.search(question, spaces=spaces, mode="walk", now=NOW)
                contexts.append((context.text, context.digest))
                contexts.append([(hit.item.key, hit.score) for hit in hits])
            contexts.append(list(kb.edges(automatic=True)))
            assert kb.verify() == []
    half = len(contexts) // 2
    assert contexts[:half] == contexts[half:] and contexts[half - 1]
