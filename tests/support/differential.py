"""A state machine that drives several set-ups of stores side by side, and compares every answer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from knowloom import Edge, Engine, Item, Kind, KnowloomError
from knowloom.registry import open_stores

START = datetime(2026, 1, 1, tzinfo=UTC)
SPACES = ("a", "b")
OTHER = "tenant '; --"  # its texts are in no answer of the others
CANARY = "quetzalcoatl"
REFERENCE = "sqlite"
INJECTIONS = [
    "'; DROP TABLE item; --",
    'x" OR "1"="1',
    "%s %(a)s $1 ? :id {0} \\",
    'title:(refund AND *) +"parcel"~2 [a TO z]^9',
    "}) MATCH (n) DETACH DELETE n //",
    "*3\r\n$3\r\nSET\r\n$1\r\na\r\n",
    "{{ 7 * 7 }} {% include 'x' %} ${7*7} <%= x %>",
    "\u202e\ufeff\U0001f600 e\u0301 ｆｕｌｌ",
]
UNSTORABLE = ["a\0b", "\ud800"]
SENTENCES = [
    "The refund of a parcel takes five days.",
    "Ada Byron owns the Lantern Desk in Ghent.",
    "Lantern Desk: refunds, parcels and labels.",
    "返金ポリシーと小包",
    "A label costs 4 euros; ask Ada Byron. " * 40,
    "## Refunds\n\nWithin 30 days.\n\n## Parcels\n\nOn Monday. " * 30,
    *INJECTIONS,
]
TITLES = ["", "Lantern Desk", "Ada Byron", "Refunds", INJECTIONS[0], INJECTIONS[4]]
IDS = ["1", "2", "3", "4", "5", "it's", '"q"', "{{x}}", "é"]
QUESTIONS = ["refund parcel", "Who is Ada Byron?", "label 4 euros", "返金", "nothing", *INJECTIONS]
WHERES: list[Any] = [
    None,
    None,
    {"price": {"$gte": 2}},
    {"$or": [{"tags": "vip"}, {"price": {"$lt": 2}}]},
    {"name": INJECTIONS[0]},
]

ids, spaces = st.sampled_from(IDS), st.sampled_from(SPACES)
texts, questions = st.sampled_from(SENTENCES), st.sampled_from(QUESTIONS)
kinds = st.sampled_from([Kind.NODE, Kind.NODE, Kind.ENTITY, Kind.MEMORY, Kind.PROFILE])
items = st.builds(
    Item,
    ids,
    spaces,
    kinds,
    type=st.sampled_from(["", "faq", INJECTIONS[1]]),
    title=st.sampled_from(TITLES),
    text=texts,
    tags=st.sampled_from([(), ("vip",), ("vip", INJECTIONS[0])]),
    subject=st.sampled_from([None, None, "1"]),
    confidence=st.sampled_from([None, 0.5]),
    valid_to=st.sampled_from([None, None, START + timedelta(minutes=20)]),
    properties=st.sampled_from([{}, {"price": 1}, {"price": 3}, {"name": INJECTIONS[0]}]),
)
edge_types = st.sampled_from(["related", "part of", "similar", INJECTIONS[0]])
edges = st.builds(
    lambda source, target, space, other, type, weight: Edge(
        source, target, type, weight, space, target_space=other
    ),
    ids,
    ids,
    spaces,
    st.sampled_from(["", "", "b"]),
    edge_types,
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
)
filters = st.fixed_dictionaries(
    {
        "types": st.sampled_from([(), (), ("faq",), (INJECTIONS[1],)]),
        "tags": st.sampled_from([(), (), ("vip",)]),
        "kinds": st.sampled_from([(), (), ("node", "entity")]),
        "where": st.sampled_from(WHERES),
    }
)
scopes = st.sampled_from([["a"], ["b"], ["a", "b"]])


class Halves:
    """An embedder whose vectors every store keeps as they are: four components of a half."""

    name, fingerprint, dimensions = "halves", "halves:16", 16
    is_calibrated = True

    def embed(self, texts: Any) -> list[Any]:
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> Any:
        hashes = [crc32(word.encode(errors="replace")) % 16 for word in text.lower().split()]
        places = list(dict.fromkeys([*hashes, *range(16)]))[:4]
        vector = np.zeros(16, np.float32)
        vector[places] = 0.5
        return vector


class Differential(RuleBasedStateMachine):
    """Every rule does the same everywhere and compares the results with those of one file."""

    setups: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # URLs by role, "{folder}" replaced
    prepare: ClassVar[Callable[[], None]] = lambda: None  # empties databases
    operations: ClassVar[int] = 0

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.now = START
        type(self).prepare()
        self.engines: dict[str, Engine] = {}
        for name, setup in self.setups.items():
            urls = {role: url.format(folder=self.folder) for role, url in setup.items()}
            stores = open_stores(urls.pop("store"), urls)
            self.engines[name] = Engine(stores, Halves(), clock=lambda: self.now)
        self.do(lambda kb: kb.add(Item("0", OTHER, text=f"{CANARY} refund")))
        self.times: list[datetime] = []

    def teardown(self) -> None:
        for engine in getattr(self, "engines", {}).values():
            engine.close()
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)

    def do(self, call: Callable[[Engine], Any], *, only_state: bool = False) -> Any:
        """Call every engine, and compare what they return or raise."""
        type(self).operations += 1
        self.now += timedelta(minutes=1)
        results = {name: _run(call, engine) for name, engine in self.engines.items()}
        expected = results[REFERENCE]
        for name, result in results.items():
            if "profiles" not in name or only_state:
                assert result == expected, (name, result, expected)
            assert CANARY not in str(result)
        return expected

    # writing

    @rule(new=st.lists(items, max_size=4), linked=st.lists(edges, max_size=3))
    def put(self, new: list[Item], linked: list[Edge]) -> None:
        unique = list({item.key: item for item in new}.values())
        self.do(lambda kb: kb.add(unique, _distinct(linked)), only_state=True)
        self.times.append(self.now)

    @rule(new=st.lists(items, min_size=1, max_size=6))
    def put_without_edges(self, new: list[Item]) -> None:
        unique = list({item.key: item for item in new}.values())
        self.do(lambda kb: kb.add(unique), only_state=True)

    @rule(item=items)
    def put_without_vector(self, item: Item) -> None:
        self.do(lambda kb: kb.add(item, embed=False))
        self.do(lambda kb: kb.maintenance.embed())

    @rule(id=ids, space=spaces, text=st.sampled_from(UNSTORABLE))
    def put_what_cannot_be_stored(self, id: str, space: str, text: str) -> None:
        result = self.do(lambda kb: kb.add(Item(id, space, text=text)))
        assert result[0] == "Invalid"

    @rule(linked=st.lists(edges, min_size=1, max_size=4))
    def link(self, linked: list[Edge]) -> None:
        def write(kb: Engine) -> Any:
            stored = {item.key for item in kb.items(list(SPACES))}
            ends = [edge for edge in linked if {edge.source_key, edge.target_key} <= stored]
            return kb.add([], _distinct(ends))

        self.do(write, only_state=True)

    @rule(place=st.integers(0, 20))
    def unlink(self, place: int) -> None:
        def write(kb: Engine) -> Any:
            stored = list(kb.edges(automatic=False))
            return kb.delete_edges(stored[place : place + 1])

        self.do(write, only_state=True)

    @rule(chosen=st.lists(ids, min_size=1, max_size=3, unique=True), space=spaces)
    def delete(self, chosen: list[str], space: str) -> None:
        self.do(lambda kb: kb.delete(chosen, space=space), only_state=True)

    @rule(new=st.lists(items, max_size=4), space=spaces)
    def load(self, new: list[Item], space: str) -> None:
        rows = [
            {"id": item.id, "title": item.title, "text": item.text, "tags": list(item.tags)}
            for item in {item.id: item for item in new}.values()
        ]
        self.do(lambda kb: _comparable(kb.load({"items": rows}, space=space)))

    @precondition(lambda self: self.times)
    @rule(place=st.integers(0, 5), dry_run=st.booleans())
    def roll_back(self, place: int, dry_run: bool) -> None:
        to = self.times[-1 - place % len(self.times)]
        self.do(lambda kb: kb.history.rollback(to, spaces=list(SPACES), dry_run=dry_run))

    @rule(id=ids, space=spaces)
    def restore(self, id: str, space: str) -> None:
        self.do(lambda kb: kb.history.restore(id, space=space))

    @rule(id=ids, space=spaces)
    def purge(self, id: str, space: str) -> None:
        self.do(lambda kb: replace(kb.maintenance.purge(id, space=space), problems=()))

    @rule(size=st.sampled_from([None, None, 400, 800]))
    def reindex(self, size: int | None) -> None:
        self.do(lambda kb: kb.reindex(passage_size=size))

    @rule(text=texts)
    def write_of_another_tenant(self, text: str) -> None:
        """Nothing in the answers to others changes, not even a score."""

        def ask(kb: Engine) -> Any:
            hits = kb.search("refund parcel", spaces=["a"], mode="walk", now=START)
            return _comparable(hits), kb.context("Ada Byron", spaces=["a"], now=START).text

        before = self.do(ask)
        new = [Item(f"{number}", OTHER, text=f"{text} {CANARY}") for number in range(3)]
        self.do(lambda kb: kb.add(new, [Edge("0", "1", space=OTHER)]))
        assert self.do(ask) == before

    # reading

    @rule(
        query=questions,
        mode=st.sampled_from(["hybrid", "bm25", "vector", "walk"]),
        only=filters,
        scope=scopes,
        limit=st.sampled_from([1, 3, 50]),
    )
    def search(self, query: str, mode: Any, only: Any, scope: list[str], limit: int) -> None:
        self.do(
            lambda kb: _comparable(kb.search(query, spaces=scope, mode=mode, limit=limit, **only))
        )

    @rule(query=questions, scope=scopes, place=st.integers(0, 5))
    def search_the_past(self, query: str, scope: list[str], place: int) -> None:
        at = self.times[-1 - place % len(self.times)] if self.times else START
        self.do(lambda kb: _comparable(kb.search(query, spaces=scope, as_of=at)))

    @rule(
        query=questions,
        scope=scopes,
        tokens=st.sampled_from([60, 200, 1500]),
        entity=st.sampled_from([None, "1"]),
        format=st.sampled_from(["markdown", "yaml", "json"]),
        only=filters,
    )
    def context(
        self,
        query: str,
        scope: list[str],
        tokens: int,
        entity: str | None,
        format: str,
        only: Any,
    ) -> None:
        options: Any = {"max_tokens": tokens, "entity": entity, "format": format, **only}

        def ask(kb: Engine) -> Any:
            context = kb.context(query, spaces=scope, **options)
            return context.text, context.digest, context.tokens, context.degraded

        self.do(ask)

    @rule(query=questions, scope=scopes)
    def explain(self, query: str, scope: list[str]) -> None:
        def ask(kb: Engine) -> Any:
            context = kb.explain(query, spaces=scope, max_tokens=300)
            return context.text, repr(context.left_out)

        self.do(ask)

    @rule(id=ids, space=spaces)
    def history(self, id: str, space: str) -> None:
        def ask(kb: Engine) -> Any:
            return [replace(state, number=0) for state in kb.history.states(id, space=space)]

        self.do(ask)

    @invariant()
    def states_are_equal(self) -> None:
        """Items, edges and digests are compared after every step."""
        if not hasattr(self, "engines"):
            return
        states = {name: _state(engine, name) for name, engine in self.engines.items()}
        for name, state in states.items():
            size = 3 if "profiles" in name else len(state)
            assert state[:size] == states[REFERENCE][:size], (name, state, states[REFERENCE])


class Verified(Differential):
    """The same, and every store is verified at the end."""

    def teardown(self) -> None:
        try:
            for name, engine in getattr(self, "engines", {}).items():
                assert (name, engine.verify()) == (name, [])
        finally:
            super().teardown()


def _run(call: Callable[[Engine], Any], engine: Engine) -> Any:
    try:
        return call(engine)
    except KnowloomError as error:
        return type(error).__name__, error.code, str(error)


def _state(engine: Engine, name: str) -> tuple[Any, ...]:
    infos = engine.reader.spaces()
    names = [info.name for info in infos]
    return (
        [(info.name, info.items, info.edges, info.digest) for info in infos],
        list(engine.items(names)),
        list(engine.edges(names, automatic=False)),
        list(engine.edges(names, automatic=True)),
        [info.links_digest for info in infos],
    )


def _comparable(value: Any) -> Any:
    """Return hits with everything that can differ; reports as they are."""
    if hasattr(value, "degraded"):
        hits = [(hit.item, hit.score, dict(hit.signals), hit.passages) for hit in value]
        return hits, value.degraded
    return value


def _distinct(linked: list[Edge]) -> list[Edge]:
    return list({edge.key: edge for edge in linked}.values())
