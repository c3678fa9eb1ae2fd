"""Memory and SQLite stores: contracts, equal results, processes, damage and full disks."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import apsw
import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom.errors import Conflict, Corrupt, Unavailable
from knowloom.loading import loader
from knowloom.model import Batch, Edge, Filter, Item
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite import (
    database,
    postings,
    rows,
    search,
    space_view,
    vector_search,
    writer,
)
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing import StoreContract
from knowloom.testing.graph import link
from knowloom.testing.knowledge import (
    ACME,
    BOTH,
    NOW,
    babble,
    batch,
    directions,
    edge,
    item,
    matches,
    unit,
)
from knowloom.testing.vectors import embed

Start = Callable[..., "subprocess.Popen[str]"]
Store = MemoryStore | SqliteStore


def folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, in memory if possible: it is faster."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


@pytest.fixture
def path() -> Iterator[str]:
    """The path of a new file."""
    with folder() as parent:
        yield f"{parent}/knowloom.db"


@pytest.fixture
def sqlite(path: str) -> Iterator[SqliteStore]:
    store = SqliteStore.open(path)
    yield store
    store.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that a few items cross them all."""
    monkeypatch.setattr(postings, "DELTA_LIMIT", 4)
    monkeypatch.setattr(search, "SMALL_RESULT", 3)
    for module in (rows, space_view, vector_search, writer):
        monkeypatch.setattr(module, "CHUNK", 8)
    for module in (space_view, postings):
        monkeypatch.setattr(module, "BLOCK", 4)


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore.open()


class TestSqlite(StoreContract):
    @pytest.fixture
    def store(self, sqlite: SqliteStore) -> SqliteStore:
        return sqlite


class TestSqliteWithSmallLimits(StoreContract):
    @pytest.fixture
    def store(self, small: None, sqlite: SqliteStore) -> SqliteStore:
        return sqlite


# The same operations on both stores

KEYS = [(space, f"{number}") for space in ("acme", "zoo", "ark") for number in range(6)]
TEXTS = [
    "",
    "refund policy",
    "refunds and parcels",
    "a parcel on monday",
    "返金ポリシー",
    "water " * 300,
    "policy policy monday",
]
VECTORS = directions(21, 24)
QUESTIONS = ["refund", "parcel policy monday", "返金 water", "unknown"]
FILTERS = [
    ACME,
    BOTH,
    Filter(("ark", "zoo", "acme")),
    replace(BOTH, types=("faq",)),
    replace(BOTH, exclude_types=("faq",), tags=("vip",)),
    replace(ACME, subjects=("anna",), valid_at=NOW),
    replace(ACME, min_confidence=0.5),
]
_keys = st.sampled_from(KEYS)
_item = st.builds(
    lambda key, **fields: Item(key[1], key[0], created_at=NOW, **fields),
    _keys,
    type=st.sampled_from(["", "faq"]),
    title=st.sampled_from(TEXTS),
    text=st.sampled_from(TEXTS),
    tags=st.sampled_from([(), ("vip",)]),
    subject=st.sampled_from([None, "anna"]),
    confidence=st.sampled_from([None, 0.5]),
    valid_to=st.sampled_from([None, NOW]),
)
_edge = st.builds(
    lambda source, target, type, weight: Edge(
        source[1], target[1], type, weight, source[0], target_space=target[0]
    ),
    _keys,
    _keys,
    st.sampled_from(["related", "part of"]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
_write = st.fixed_dictionaries(
    {
        "items": st.lists(_item, max_size=4),
        "edges": st.lists(_edge, max_size=4),
        "deleted": st.lists(_keys, max_size=2),
        "deleted_edges": st.lists(_edge.map(lambda edge: edge.key), max_size=2),
    }
)
_embed = st.dictionaries(_keys, st.integers(0, 19), max_size=8)
_steps = st.lists(
    _write | _write | _embed | st.sampled_from(["forget", "rebuild", "reopen"]), max_size=14
)


class TestSqliteMatchesMemory:
    @pytest.mark.usefixtures("small")
    def test_whatever_was_written(self) -> None:
        self.check_random_steps()

    @settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @given(_steps)
    def check_random_steps(self, steps: list[Any]) -> None:
        with folder() as parent:
            memory, sqlite = MemoryStore(), SqliteStore.open(f"{parent}/knowloom.db")
            for step in steps:
                sqlite = take(step, memory, sqlite, f"{parent}/knowloom.db")
                compare(memory, sqlite)
            assert sqlite.verify() == []
            sqlite.close()

    def test_after_many_adds_of_every_size(self, sqlite: SqliteStore) -> None:
        memory, texts, some = MemoryStore(), babble(2600, 1), directions(2600, 24)
        for start, end in pairwise([0, 1, 6, 306, 307, 1007, 1012, 1100, 1900, 2600]):
            for store in (memory, sqlite):
                store.apply(
                    batch(item(f"{number:05}", texts[number]) for number in range(start, end))
                )
                store.put_vectors(
                    {("acme", f"{number:05}"): some[number] for number in range(start, end)}, "e1"
                )
        compare(memory, sqlite)
        assert sqlite.verify() == []


def take(step: Any, memory: MemoryStore, sqlite: SqliteStore, path: str) -> SqliteStore:
    """Apply one step to both stores; return the SQLite store, which may be reopened."""
    if step == "reopen":
        sqlite.close()
        return SqliteStore.open(path)
    for store in (memory, sqlite):
        if step == "forget":
            store.forget_vectors()
        elif step == "rebuild":
            store.rebuild_words(memory.find(Filter(("acme", "zoo", "ark")), 1000))
        elif "items" in step:
            existing = {item.key for item in step["items"]} | {
                key for key in KEYS if store.get([key]) and key not in step["deleted"]
            }
            edges = [
                edge for edge in step["edges"] if {edge.source_key, edge.target_key} <= existing
            ]
            store.apply(batch(step["items"], edges, step["deleted"], step["deleted_edges"]))
        else:
            store.put_vectors({key: VECTORS[number] for key, number in step.items()}, "e1")
    return sqlite


def compare(memory: MemoryStore, sqlite: SqliteStore) -> None:
    names = ["zoo", "acme", "ark"]
    for ask in (
        lambda store: store.spaces(),
        lambda store: [store.find(only, 5) for only in FILTERS],
        lambda store: [store.find(only, 5, KEYS[8]) for only in FILTERS],
        lambda store: [store.visible(KEYS[::-1], only) for only in FILTERS],
        lambda store: [store.edges_of(KEYS, names, limit=limit) for limit in (1, 2, 100)],
        lambda store: [
            store.edges_of(KEYS, names[:2], ["part of"], min_weight=0.6),
            store.edges(names, 100),
        ],
        lambda store: [store.changes(name) for name in names],
        lambda store: (
            store.fingerprint(),
            store.missing_vectors(names, 1000),
            store.count_missing(names),
        ),
    ):
        assert ask(sqlite) == ask(memory)
    for only in FILTERS:
        for question in QUESTIONS:
            ours, theirs = (
                store.search_text(question, only, 9999, also=KEYS) for store in (sqlite, memory)
            )
            assert dict(ours.matches) == pytest.approx(dict(theirs.matches), abs=1.1e-6)
            assert dict(ours.others) == pytest.approx(dict(theirs.others), abs=1.1e-6)
            assert ours.considered == theirs.considered
        near, exact = (store.search_vector(VECTORS[-1], only, 500) for store in (sqlite, memory))
        assert [score for _, score in near.matches] == pytest.approx(
            [score for _, score in exact.matches], abs=2e-3
        )
        assert near.considered == exact.considered


def test_text_is_ranked_as_by_an_independent_bm25() -> None:
    texts, question = babble(200, 11), ["zeta", "tau"]
    reference = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    reference.index([text.split() for text in texts], show_progress=False)
    store = MemoryStore()
    store.apply(batch(item(f"{number}", text) for number, text in enumerate(texts)))
    matched = dict(store.search_text("zeta tau", ACME, 200).matches)
    scores = np.array([matched.get(("acme", f"{number}"), 0.0) for number in range(200)])
    expected = reference.get_scores(question)
    assert scores / scores.max() == pytest.approx(expected / expected.max(), abs=1e-5)


# Readers and writers


def test_a_reading_block_sees_one_state_of_the_store(sqlite: SqliteStore) -> None:
    link(sqlite, edge("a", "b"))
    with sqlite.reading():
        before = (
            sqlite.find(ACME, 10),
            sqlite.spaces(),
            sqlite.search_text("refund", ACME, 10),
            sqlite.edges(["acme"], 10),
        )
        sqlite.apply(batch([item("a", "refund"), item("c", "refund")], deleted=[("acme", "b")]))
        assert (
            sqlite.find(ACME, 10),
            sqlite.spaces(),
            sqlite.search_text("refund", ACME, 10),
            sqlite.edges(["acme"], 10),
        ) == before
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a", "c"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_threads_read_whole_batches_while_one_writes(kind: str, sqlite: SqliteStore) -> None:
    store = sqlite if kind == "sqlite" else MemoryStore()

    def read(_: int) -> set[bool]:
        return {consistent(store) for _ in range(60)}

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, number) for number in range(4)]
        for number in range(60):
            store.apply(pair(number))
            store.put_vectors(
                {("acme", f"{number}a"): unit(1, number), ("acme", f"{number}b"): unit(number, 1)},
                "e1",
            )
        assert [reader.result() for reader in readers] == [{True}] * 4


def pair(number: int) -> Batch:
    return batch(
        [item(f"{number}a", "refund"), item(f"{number}b", "refund")],
        [edge(f"{number}a", f"{number}b")],
    )


def consistent(store: Store) -> bool:
    """Return True if each index has every batch of `pair` as a whole."""
    with store.reading():
        stored = store.find(ACME, 1000)
        counts = {
            len(stored),
            store.search_text("refund", ACME, 5).considered,
            2 * len(store.edges(["acme"], 1000)),
        }
        embedded = store.search_vector(unit(1, 1), ACME, 5).considered
        return (
            len(counts) == 1
            and embedded + store.count_missing(["acme"]) == len(stored)
            and not embedded % 2
        )


def test_an_interrupted_refresh_starts_over(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    for step in ("_load_records", "_load_signs", "_load_delta"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(space_view.SpaceView, step, interrupted)
            sqlite.search_text("refund", ACME, 10)
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a"]


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("nested", [False, True])
def test_changes_to_a_returned_item_are_not_shared(sqlite: SqliteStore, nested: bool) -> None:
    sqlite.apply(batch([item("a", properties={"size": ["small"] if nested else "small"})]))
    for _ in range(3):
        (read,) = sqlite.get([("acme", "a")])
        assert read.properties == {"size": ["small"] if nested else "small"}
        assert isinstance(read.properties, dict)
        read.properties["size"] = "large"


def test_cached_items_match_the_file(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_view, "MAX_CACHED_ITEMS", 2)
    items = [
        item(id, text=f"{id} first", title=id.upper(), tags=("x",), confidence=0.5) for id in "abc"
    ]
    sqlite.apply(batch(items))
    for _ in range(2):
        assert [item.text for item in sqlite.get([("acme", id) for id in "cab"])] == [
            "c first",
            "a first",
            "b first",
        ]
    other = SqliteStore.open(sqlite._path)
    other.apply(batch([replace(items[0], text="second")]))
    other.close()
    assert [item.text for item in sqlite.get([("acme", id) for id in "abc"])] == [
        "second",
        "b first",
        "c first",
    ]


def test_cached_postings_match_the_file(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_view, "MAX_CACHED_POSTINGS", 3 * space_view.TERM_OVERHEAD)
    sqlite.apply(
        batch(
            [
                item("a", "refund parcel"),
                item("b", "parcel"),
                item("c", "monday tuesday sunday friday"),
            ]
        )
    )
    other, memory = SqliteStore.open(sqlite._path), MemoryStore()
    memory.apply(
        batch(
            [
                item("a", "refund parcel"),
                item("b", "parcel"),
                item("c", "monday tuesday sunday friday"),
            ]
        )
    )
    for change in ([], [item("d", "refund")], [item("a", "friday")]):
        other.apply(batch(change))
        memory.apply(batch(change))
        for text in (
            "refund",
            "parcel refund",
            "refund parcel unknown",
            "monday tuesday sunday friday",
            "refund",
        ):
            assert matches(sqlite.search_text(text, ACME, 10)) == matches(
                memory.search_text(text, ACME, 10)
            )
            with sqlite.reading() as reader:
                assert len(list(reader.views(["acme"])["acme"]._postings)) <= 3
    other.close()


def test_the_mask_cache_is_bounded(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    for number in range(200):
        sqlite.find(replace(ACME, created_to=NOW + timedelta(seconds=number)), 10)
    with sqlite.reading() as reader:
        assert len(reader.views(["acme"])["acme"]._masks) <= space_view.MAX_MASKS


# Processes

PRELUDE = """
import os, sys, time
from datetime import UTC, datetime
from knowloom.model import Batch, Filter, Item
from knowloom.stores.sqlite.store import SqliteStore
NOW, ACME = datetime(2025, 6, 1, 12, tzinfo=UTC), Filter(("acme",))
def put(*ids, text="refund"):
    store.apply(Batch(NOW, tuple(Item(id, "acme", text=text, created_at=NOW) for id in ids)))
path = sys.argv[1]
def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture
def start(path: str) -> Iterator[Start]:
    """Run a script in another Python process, with `path` and these arguments."""
    running: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", PRELUDE + dedent(script), path, *arguments]
        folders = os.pathsep.join(
            [str(Path(knowloom.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        )
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running.append(
            subprocess.Popen(command, env={**os.environ, "PYTHONPATH": folders}, **pipes)
        )  # type: ignore[call-overload]
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def answer(process: subprocess.Popen[str], question: str = "") -> str:
    """Return the next line of the process, after sending it a line."""
    assert process.stdin is not None and process.stdout is not None
    if question:
        process.stdin.write(f"{question}\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def test_processes_see_each_others_writes_at_once(sqlite: SqliteStore, start: Start) -> None:
    other = start("""
        store = SqliteStore.open(path)
        for line in sys.stdin:
            if line.startswith("put"):
                put(line.split()[1])
            say(*(id for (_, id), _ in store.search_text("refund", ACME, 10).matches))
        """)
    assert answer(other, "put a") == "a"
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a"]
    sqlite.apply(batch([item("b", "refund"), item("a", "parcel")]))
    assert answer(other, "look") == "b"
    assert answer(other, "put a") == "a b"
    assert matches(sqlite.search_text("refund", ACME, 10)) == ["a", "b"]


def test_processes_read_whole_batches_while_another_writes(
    sqlite: SqliteStore, start: Start
) -> None:
    sqlite.apply(pair(0))
    script = """
        store, seen, odd = SqliteStore.open(path), 0, 0
        say("ready")
        while seen < 100:
            with store.reading():
                seen = len(store.find(ACME, 1000))
                odd += seen % 2 or seen != store.search_text("refund", ACME, 5).considered
        say(odd)
        """
    readers = [start(script) for _ in range(3)]
    assert [answer(reader) for reader in readers] == ["ready"] * 3
    for number in range(1, 50):
        sqlite.apply(pair(number))
    assert [answer(reader) for reader in readers] == ["0"] * 3


def test_processes_that_write_at_once_all_succeed(path: str, start: Start) -> None:
    script = """
        store = SqliteStore.open(path)  # all at once make the file, too
        for number in range(40):
            put(f"{sys.argv[2]}-{number}", "shared")
        say("done")
        """
    writers = [start(script, name) for name in "abc"]
    assert [answer(writer) for writer in writers] == ["done"] * 3
    store = SqliteStore.open(path)
    assert (len(store.find(ACME, 1000)), len(store.changes("acme")), store.verify()) == (
        121,
        240,
        [],
    )
    store.close()


def test_a_killed_writer_loses_only_its_batch(path: str, start: Start) -> None:
    writer = start("""
        class Slow(dict):
            def items(self):
                say("in the middle")
                time.sleep(60)
        store = SqliteStore.open(path)
        put("a")
        text = "refund " * 50
        many = tuple(Item(f"{n}", "acme", text=text, created_at=NOW) for n in range(3000))
        store.apply(Batch(NOW, (*many, Item("slow", "acme", properties=Slow(x=1), created_at=NOW))))
        """)
    assert answer(writer) == "in the middle"
    writer.kill()
    writer.wait()
    store = SqliteStore.open(path)
    assert (matches(store.search_text("refund", ACME, 10)), store.verify()) == (["a"], [])
    store.apply(batch([item("b", "refund")]))
    assert (len(store.find(ACME, 10)), store.verify()) == (2, [])
    store.close()


def test_a_file_in_a_read_only_folder_can_be_read(path: str, start: Start) -> None:
    store = SqliteStore.open(path)
    store.apply(batch([item("a", "refund")]))
    store.close()
    Path(path).parent.chmod(0o555)
    Path(path).chmod(0o444)
    reader = start("""
        if os.geteuid() == 0:
            os.setuid(65534)  # permissions do not bind root
        store = SqliteStore.open(path)
        say(*(id for (_, id), _ in store.search_text("refund", ACME, 10).matches))
        try:
            put("b")
        except Exception as error:
            say(type(error).__name__, error.code)
        """)
    assert (answer(reader), answer(reader)) == ("a", "Unavailable read_only")
    Path(path).parent.chmod(0o755)


def test_writes_that_wait_beside_a_read_only_file_are_not_passed_over(path: str) -> None:
    sqlite = SqliteStore.open(path)
    sqlite.apply(batch([item("a", "refund")]))
    copy = f"{path}.copy"
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    with pytest.raises(Unavailable) as caught:
        database._open_in_read_only_folder(copy)
    assert caught.value.code == "read_only" and "-wal" in str(caught.value)
    sqlite.close()


# Files


def test_knowledge_is_still_there_after_closing(path: str) -> None:
    first = SqliteStore.open(path)
    link(first, edge("a", "b"))
    embed(first, directions(5, 24))
    before = (
        first.find(ACME, 10),
        first.spaces(),
        first.edges(["acme"], 10),
        first.search_vector(directions(5, 24)[0], ACME, 10),
    )
    first.close()
    again = SqliteStore.open(path)
    assert (
        again.find(ACME, 10),
        again.spaces(),
        again.edges(["acme"], 10),
        again.search_vector(directions(5, 24)[0], ACME, 10),
    ) == before
    again.close()


@pytest.mark.parametrize(
    "use",
    [lambda store: store.find(ACME, 1), lambda store: store.apply(batch([item("a")]))],
    ids=["read", "write"],
)
def test_a_closed_store_raises_unavailable(
    sqlite: SqliteStore, use: Callable[[SqliteStore], None]
) -> None:
    sqlite.close()
    with pytest.raises(Unavailable) as caught:
        use(sqlite)
    assert caught.value.code == "closed"


def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: str) -> None:
    SqliteStore.open(path).close()
    run(path, "PRAGMA journal_mode=DELETE", "PRAGMA user_version=99")
    assert refused(path) == "newer_version"


@pytest.mark.parametrize("version", [0, 1, 99])
def test_a_file_of_another_program_is_refused_and_left_alone(path: str, version: int) -> None:
    run(path, "CREATE TABLE photo(id)", f"PRAGMA user_version={version}")
    assert refused(path) == "foreign_file"


def test_a_file_of_a_pre_release_version_is_refused_and_left_untouched(path: str) -> None:
    run(path, f"PRAGMA application_id={database.LEGACY_APPLICATION_ID}", "CREATE TABLE item(id)")
    with pytest.raises(Corrupt, match="pre-release version with another file format"):
        SqliteStore.open(path)
    assert refused(path) == "foreign_file"


@pytest.mark.parametrize(
    "content",
    [b"hello", random.Random(1).randbytes(9000), b"SQLite format 3\0" + bytes(84)],
    ids=len,
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    assert refused(path) == "corrupt"


def refused(path: str) -> str:
    """Return the error code of opening the file, which must stay untouched."""
    before = Path(path).read_bytes()
    with pytest.raises(Unavailable) as caught:
        SqliteStore.open(path)
    assert (Path(path).read_bytes(), len(list(Path(path).parent.iterdir()))) == (before, 1)
    return caught.value.code


def test_an_empty_file_is_a_new_store(path: str) -> None:
    Path(path).touch()
    store = SqliteStore.open(path)
    assert (store.spaces(), store.verify()) == ([], [])
    store.close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nowhere"):
        SqliteStore.open(str(tmp_path / "nowhere" / "knowloom.db"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SqliteStore.open(str(tmp_path))


def test_a_full_disk_stores_nothing_of_the_batch(sqlite: SqliteStore) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    before = sqlite.spaces()
    assert sqlite._writer is not None
    sqlite._writer.pragma("max_page_count", sqlite._writer.pragma("page_count") + 5)
    with pytest.raises(Unavailable) as caught:
        sqlite.apply(batch(item(f"{number}", "refund " * 100) for number in range(500)))
    assert (caught.value.code, sqlite.spaces(), sqlite.find(ACME, 10)) == (
        "disk_full",
        before,
        [item("a", "refund")],
    )
    sqlite._writer.pragma("max_page_count", 2**31)
    sqlite.apply(batch([item("b", "refund")]))
    assert (matches(sqlite.search_text("refund", ACME, 10)), sqlite.verify()) == (["a", "b"], [])


def test_a_load_on_a_full_disk_keeps_what_it_wrote_and_is_finished_by_loading_again(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "BATCH_SIZE", 50)
    (tmp_path / "s.jsonl").write_text(
        "".join(f'{{"id": "{number}", "text": "{"refund " * 100}"}}\n' for number in range(500))
    )
    with knowloom.open(path, embedder=None, links=[]) as kb:
        kb.add(Item("a", "s", text="refund"))
        writer = kb._stores.items._writer
        writer.pragma("max_page_count", writer.pragma("page_count") + 60)
        with pytest.raises(Unavailable, match="earlier writes are kept") as caught:
            kb.load(tmp_path / "s.jsonl", space="s")
        assert (caught.value.code, kb.maintenance.stats().spaces[0].items > 50) == (
            "disk_full",
            True,
        )
        writer.pragma("max_page_count", 2**31)
        assert (
            kb.load(tmp_path / "s.jsonl", space="s").unchanged > 0,
            kb.maintenance.stats().spaces[0].items,
            kb.verify(),
        ) == (True, 501, [])


def test_words_of_another_analyser_must_be_rebuilt(sqlite: SqliteStore, path: str) -> None:
    sqlite.apply(batch([item("a", "refund")]))
    run(path, "UPDATE meta SET value = 'klingon-1' WHERE key = 'analyser'")
    with pytest.raises(Conflict) as caught:
        sqlite.search_text("refund", ACME, 10)
    sqlite.rebuild_words(sqlite.find(ACME, 10))
    assert (caught.value.code, matches(sqlite.search_text("refund", ACME, 10))) == (
        "reindex_required",
        ["a"],
    )


# Damage

DAMAGE = {
    "a lost posting": "DELETE FROM posting WHERE id = (SELECT min(id) FROM posting)",
    "a surplus posting": "INSERT INTO posting VALUES (999, 1, 'zebra', 0, x'000001')",
    "a changed posting": "UPDATE posting SET data = x'000007' WHERE term = 'refund'",
    "a posting that is no posting": "UPDATE posting SET data = 'x' WHERE term = 'refund'",
    "a lost waiting word": "DELETE FROM delta",
    "a surplus waiting word": """UPDATE delta SET terms = replace(terms, '{', '{"zebra": 1, ')""",
    "a changed body": "UPDATE item SET body = replace(body, 'refund', 'parcel') WHERE id = 'a'",
    "a changed title": "UPDATE item SET body = replace(body, 'How', 'Why') WHERE id = 'a'",
    "a body that is no JSON": "UPDATE item SET body = '{' WHERE id = 'a'",
    "a body that is no item": "UPDATE item SET body = '[]' WHERE id = 'a'",
    "a body that is no text": "UPDATE item SET body = CAST(x'7b80' AS TEXT) WHERE id = 'a'",
    "another id": "UPDATE item SET id = 'x' WHERE id = 'e'",
    "a lost item": "DELETE FROM item WHERE id = 'e'",
    "a lost record": "DELETE FROM item_meta",
    "an empty record": "UPDATE item_meta SET data = zeroblob(length(data))",
    "half a record": "UPDATE item_meta SET data = substr(data, 1, 7)",
    "an orphan vector": "INSERT INTO vector SELECT row + 100, data FROM vector LIMIT 1",
    "a lost vector": "DELETE FROM vector WHERE row = (SELECT min(row) FROM vector)",
    "a cut vector": "UPDATE vector SET data = substr(data, 1, 7)",
    "a vector of another item": """UPDATE vector
        SET data = (SELECT data FROM vector ORDER BY row DESC LIMIT 1)""",
    "lost signs": "DELETE FROM sign",
    "wrong signs": "UPDATE sign SET data = zeroblob(length(data))",
    "a dangling edge": """INSERT INTO edge VALUES (1, 'a', 1, 'ghost', 'related', 1.0, NULL, '')""",
    "a lost edge": "DELETE FROM edge",
    "a changed edge": "UPDATE edge SET weight = 9",
    "an edge that is no JSON": "UPDATE edge SET body = 'x'",
    "a wrong number of items": "UPDATE space SET items = items + 1",
    "a wrong number of edges": "UPDATE space SET edges = edges + 1",
    "a wrong length": "UPDATE space SET length = length + 1",
    "a wrong digest": "UPDATE space SET digest = '1'",
    "a lost space": "DELETE FROM space WHERE no = 1",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_verify_finds_planted_damage(
    path: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "DELTA_LIMIT", 3)
    store = some_knowledge(path)
    assert store.verify() == []
    run(path, damage)
    assert store.verify() != []
    store.close()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_truncated_file_is_noticed(path: str, share: float) -> None:
    some_knowledge(path).close()
    Path(path).write_bytes(Path(path).read_bytes()[: int(Path(path).stat().st_size * share)])
    assert problems(path)


def test_no_flipped_bit_changes_an_item_unnoticed(path: str) -> None:
    store = some_knowledge(path)
    before = store.find(ACME, 10)
    store.close()
    whole, chance = Path(path).read_bytes(), random.Random(5)
    stored = [place for place in range(len(whole)) if whole[place]]  # empty pages may hold anything
    for place in [
        whole.index(b"refund me"),
        whole.index(b'"title":"How'),
        *chance.sample(stored, 150),
    ]:
        Path(path).write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        assert problems(path) or items(path) == before, f"byte {place}"


def test_a_damaged_item_is_an_error_of_ours(path: str) -> None:
    store = some_knowledge(path)
    for body in ("'{'", "'[]'", "CAST(x'7b80' AS TEXT)"):
        run(path, f"UPDATE item SET body = {body} WHERE id = 'a'")
        for read in (
            lambda: store.get([("acme", "b"), ("acme", "a")]),
            lambda: store.find(ACME, 10),
            lambda: store.find(replace(ACME, tags=("vip",)), 10),
        ):
            with pytest.raises(Corrupt, match="the item 'a' of space 'acme' cannot be read"):
                read()
    store.close()


READS: dict[str, Callable[[SqliteStore], object]] = {
    "item": lambda store: store.get([("acme", "a")]),
    "posting": lambda store: store.search_text("refund", ACME, 10),
    "edge": lambda store: store.edges(["acme"], 10),
    "change_log": lambda store: store.apply(batch([item("a", "new")])),
}


@pytest.mark.parametrize("table", READS)
def test_a_file_that_lost_a_table_is_damaged(path: str, table: str) -> None:
    some_knowledge(path).close()
    run(path, f"DROP TABLE {table}")
    store = SqliteStore.open(path)
    for read in (READS[table], SqliteStore.verify):
        with pytest.raises(
            Corrupt, match=f"is damaged or not an SQLite file .*no such table: (main.)?{table}"
        ):
            read(store)
    store.close()


def some_knowledge(path: str) -> SqliteStore:
    store = SqliteStore.open(path)
    store.apply(
        batch(
            [
                item("a", "refund me", title="How?", tags=("vip",)),
                item("b", "parcel"),
                item("c"),
                item("d"),
            ],
            [edge("a", "b")],
        )
    )
    store.apply(batch([item("e", "water")]))
    store.put_vectors(
        {("acme", name): vector for name, vector in zip("abd", directions(3, 64), strict=True)},
        "e1",
    )
    return store


def problems(path: str) -> list[str]:
    """Return the problems of verify, or the code of the error that prevents it."""
    try:
        store = SqliteStore.open(path)
    except Unavailable as error:
        return [error.code]
    try:
        return store.verify()
    except Unavailable as error:
        return [error.code]
    finally:
        store.close()


def items(path: str) -> list[Item]:
    store = SqliteStore.open(path)
    try:
        return store.find(ACME, 10)
    finally:
        store.close()


def run(path: str, *statements: str) -> None:
    """Execute raw SQL."""
    connection = apsw.Connection(path)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()
