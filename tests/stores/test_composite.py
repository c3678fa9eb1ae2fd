"""Stores that share the roles: contracts of each backend, folders after kills, failing stores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Conflict, Corrupt, Edge, Engine, Invalid, Item, Kind, MissingExtra, Unavailable
from knowloom.cli.main import cli
from knowloom.files import safe_name
from knowloom.model import Batch, Filter
from knowloom.ports import Stores
from knowloom.registry import open_store, open_stores
from knowloom.stores.composite.store import CompositeStore
from knowloom.stores.file import folder as files
from knowloom.stores.file.store import FileStore
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.networkx import NetworkxStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing import GraphStoreContract, HistoryContract, ItemStoreContract, StoreContract
from knowloom.testing.knowledge import ACME, NOW, batch, edge, item
from paths import ROOT


class TestFileAsMetadata(ItemStoreContract, HistoryContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileStore:
        return FileStore.open(str(tmp_path / "profiles"))


class TestFileAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileStore:
        return FileStore.open(str(tmp_path / "graph"))


class TestNetworkxAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> NetworkxStore:
        return NetworkxStore.open(str(tmp_path / "graph.json"))


class TestNetworkxInMemoryAsGraph(GraphStoreContract):
    @pytest.fixture
    def store(self) -> NetworkxStore:
        return NetworkxStore.open("")


def layers(url: str, **roles: str) -> Any:
    """Open stores; profiles in a store of their own are not indexed and not searched."""
    return open_stores(url, roles).items


class TestProfilesInMemory(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Any]:
        yield layers("memory:", metadata="memory:profiles")


class WithProfiles:
    """Run the contracts with profiles only, so that everything uses the other store."""

    @pytest.fixture(autouse=True)
    def profiles(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from knowloom.testing import changes, filters, graph, items, spaces

        def profile(id: str, text: str = "", *, space: str = "acme", **fields: Any) -> Item:
            return item(id, text, space=space, **{"kind": Kind.PROFILE, **fields})

        for module in (changes, filters, graph, items, spaces):
            monkeypatch.setattr(module, "item", profile)


class TestProfilesInSqlite(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        store = layers(str(tmp_path / "k.db"), metadata=str(tmp_path / "profiles.db"))
        yield store
        store.close()


class TestProfilesInFiles(ItemStoreContract, HistoryContract, GraphStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        store = layers(
            str(tmp_path / "k.db"),
            metadata=f"file:{tmp_path}/profiles",
            graph=f"networkx:{tmp_path}/graph.json",
        )
        yield store
        store.close()


class TestOnlyProfilesInFiles(WithProfiles, ItemStoreContract, GraphStoreContract):
    """Batches of the same microsecond in two logs have no order; see the test below."""

    test_the_change_log_records_each_action_and_the_state_before = None  # type: ignore[assignment]
    test_edges_of_a_deleted_item_are_logged_by_key = None  # type: ignore[assignment]
    test_an_unlinked_edge_is_logged = None  # type: ignore[assignment]

    def test_the_logs_of_both_layers_are_one(self, store: Any) -> None:
        for minute, step in enumerate(
            [
                batch([item("p", kind=Kind.PROFILE), item("a")], [edge("p", "a")]),
                batch([item("q", kind=Kind.PROFILE), item("p")]),
                batch([item("p", "new", kind=Kind.PROFILE)], deleted=[("acme", "a")]),
            ]
        ):
            store.apply(replace(step, at=NOW + timedelta(minutes=minute)))
        assert [(change.id, change.action) for change in store.changes("acme")] == [
            *[("a", "add"), ("p", "add"), ("p", "link")],
            *[("p", "delete"), ("p", "add"), ("q", "add")],
            *[("p", "unlink"), ("a", "delete"), ("p", "delete"), ("p", "add")],
        ]
        assert [change.number for change in store.changes("acme", after=4, limit=3)] == [5, 6, 7]

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        store = layers(str(tmp_path / "k.db"), metadata=f"file:{tmp_path}/profiles")
        yield store
        store.close()


class TestGraphInFiles(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        yield layers("memory:", graph=f"file:{tmp_path}/graph")


class TestEveryRoleElsewhere(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Any]:
        roles = {"words": f"{tmp_path}/w.db", "vectors": "memory:v", "graph": f"{tmp_path}/g.db"}
        store = layers(str(tmp_path / "k.db"), **roles)
        yield store
        store.close()


# Profiles beside everything else


class Letters:
    name, fingerprint, dimensions = "letters", "letters:26", 26

    def embed(self, texts: Sequence[str]) -> list[Any]:
        import numpy as np

        counted = [
            np.array([1 + text.lower().count(chr(97 + n)) for n in range(26)], np.float32)
            for text in texts
        ]
        return [vector / np.linalg.norm(vector) for vector in counted]


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Engine]:
    minutes = iter(range(1000))
    stores = open_stores(
        str(tmp_path / "k.db"),
        {"metadata": f"file:{tmp_path}/profiles", "graph": f"networkx:{tmp_path}/graph.json"},
    )
    with Engine(stores, Letters(), clock=lambda: NOW + timedelta(minutes=next(minutes))) as kb:
        yield kb


def node(id: str, text: str = "some text", **fields: Any) -> Item:
    return Item(id, "s", text=text, **fields)


def maya(**fields: Any) -> Item:
    return Item(
        "maya",
        "s",
        **{"kind": Kind.PROFILE, "properties": {"plan": "gold"}, "subject": "user:maya", **fields},
    )


def test_a_profile_is_in_its_folder_and_nowhere_else(kb: Engine, tmp_path: Path) -> None:
    kb.add([maya(), node("a")], [Edge("maya", "a", space="s")])
    assert [path.name for path in (tmp_path / "profiles" / "items").rglob("*.json")] == [
        "i-maya.json"
    ]
    with SqliteStore.open(str(tmp_path / "k.db")).reading() as reader:
        assert [row[0] for row in reader.connection.execute("SELECT id FROM item")] == ["a"]
    assert [item.id for item in kb.items()] == ["a", "maya"] and kb.get("maya", space="s")[
        0
    ].properties == {"plan": "gold"}
    assert (kb.verify(), [info.items for info in kb.maintenance.stats().spaces]) == ([], [2])


def test_the_same_knowledge_has_the_same_digest_wherever_it_lies(kb: Engine) -> None:
    with Engine(open_stores("memory:", {}), None, clock=lambda: NOW) as plain:
        for engine in (kb, plain):
            engine.add(
                [maya(created_at=NOW), node("a", created_at=NOW)], [Edge("maya", "a", space="s")]
            )
        assert kb.maintenance.stats().spaces == plain.maintenance.stats().spaces


def test_a_search_finds_pieces_and_an_agent_its_profile(kb: Engine) -> None:
    kb.add([node("a", "refund policy"), maya(title="refund lover")], embed=True)
    assert [hit.item.id for hit in kb.search("refund", spaces=["s"])] == ["a"]
    assert kb.maintenance.stats().without_vector == 0
    assert kb.context("refund", spaces=["s"]).degraded == ()


def test_without_any_vector_words_alone_answer_and_nothing_is_said_to_be_wrong(
    tmp_path: Path,
) -> None:
    with Engine(
        open_stores("memory:", {"metadata": "memory:profiles"}), Letters(), clock=lambda: NOW
    ) as kb:
        kb.add([node("a", "refund"), maya()], embed=False)
        assert {problem.code for problem in kb.context("refund", spaces=["s"]).degraded} == {
            "vectors_pending"
        }


@pytest.mark.parametrize("there_and_back", [False, True])
def test_an_item_whose_kind_changes_moves_and_keeps_its_links(
    kb: Engine, tmp_path: Path, there_and_back: bool
) -> None:
    kb.add(
        [maya(), node("a")],
        [Edge("maya", "a", space="s"), Edge("a", "maya", weight=0.5, space="s")],
    )
    edges = list(kb.edges())
    kb.add(maya(kind=Kind.NODE, text="refund"))
    if there_and_back:
        kb.add(maya())
    profiles = FileStore.open(str(tmp_path / "profiles"))
    assert [item.id for item in profiles.find(Filter(("s",)), 9)] == (
        ["maya"] if there_and_back else []
    )
    assert [hit.item.id for hit in kb.search("refund", spaces=["s"], mode="bm25")] == (
        [] if there_and_back else ["maya"]
    )
    assert (list(kb.edges()), kb.verify(), kb.maintenance.stats().spaces[0].items) == (edges, [], 2)


def test_deleting_a_profile_takes_its_links_along_and_restoring_brings_them_back(
    kb: Engine,
) -> None:
    kb.add([maya(), node("a")], [Edge("maya", "a", space="s"), Edge("a", "maya", space="s")])
    before, edges = kb.maintenance.stats().spaces, list(kb.edges())
    kb.delete("maya", space="s")
    assert (list(kb.edges()), kb.verify()) == ([], [])
    assert kb.history.restore("maya", space="s").edges == 2
    assert (kb.maintenance.stats().spaces, list(kb.edges()), kb.verify()) == (before, edges, [])


def test_an_expected_version_holds_in_either_layer(kb: Engine) -> None:
    kb.add([maya(), node("a")])
    for key in ("maya", "a"):
        (stored,) = kb.get(key, space="s")
        with pytest.raises(Conflict):
            kb.add(Item(key, "s", stored.kind, text="new"), expected={stored.key: "0" * 16})
        kb.add(
            Item(key, "s", Kind.PROFILE, text="new"),
            expected={stored.key: kb.history.version(stored)},
        )
        assert kb.get(key, space="s")[0].text == "new"


_step = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([Kind.NODE, Kind.PROFILE, None]),
        st.sampled_from(["x", "y"]),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(_step, min_size=1, max_size=6), st.data())
def test_layers_answer_and_roll_back_as_one_store_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], data: Any
) -> None:
    folder, now = tmp_path_factory.mktemp("layers"), NOW
    roles = {"metadata": f"file:{folder}/profiles", "graph": f"networkx:{folder}/graph.json"}
    with (
        Engine(open_stores("memory:", {}), None, clock=lambda: now) as plain,
        Engine(open_stores("memory:", roles), None, clock=lambda: now) as split,
    ):
        moments = []
        for step in steps:
            for id, kind, text, other in step:
                now += timedelta(seconds=1)
                for kb in (plain, split):
                    if kind is None and kb.maintenance.stats().spaces:
                        kb.delete(id, space="s")
                    elif kind is not None:
                        existing = {item.id for item in kb.items()} | {id}
                        kb.add(
                            Item(id, "s", kind, text=text),
                            [Edge(id, other, space="s")] if other in existing else [],
                        )
            assert everything(plain) == everything(split)
            moments.append((now, everything(split)))
        back, expected = data.draw(st.sampled_from(moments))
        now += timedelta(seconds=1)
        split.history.rollback(back)
        assert (everything(split)[1:], split.verify()) == (expected[1:], [])


def everything(kb: Engine) -> list[Any]:
    return [
        [info.digest for info in kb.maintenance.stats().spaces if info.items],
        list(kb.items()),
        list(kb.edges()),
    ]


# One of several stores fails


class Failing(MemoryStore):
    """A memory store that fails on demand."""

    failing = False
    closed = 0

    def apply(self, batch: Batch) -> None:
        if self.failing:
            raise Unavailable("out of order")
        super().apply(batch)

    def close(self) -> None:
        self.closed += 1
        if self.failing:
            raise Unavailable("out of order")


@pytest.mark.parametrize("role", ["words", "vectors", "graph"])
def test_a_store_that_failed_behind_the_truth_is_reported_and_repaired(
    tmp_path: Path, role: str
) -> None:
    truth, failing = SqliteStore.open(str(tmp_path / "k.db")), Failing()
    roles: dict[str, Any] = {
        name: failing if name == role else truth for name in ("words", "vectors", "graph")
    }
    several = CompositeStore(truth, **roles)
    with Engine(
        Stores(several, several, several, several, several), Letters(), clock=lambda: NOW
    ) as kb:
        kb.add([node("a", "refund"), node("b")], [Edge("a", "b", space="s")])
        failing.failing = True
        with pytest.raises(Unavailable):
            kb.add(
                [node("a", "parcel"), node("c", "parcel")],
                [Edge("a", "b", weight=0.5, space="s"), Edge("c", "a", space="s")],
            )
        with pytest.raises(Unavailable):
            kb.delete("b", space="s")
        failing.failing = False
        assert [item.id for item in kb.items()] == ["a", "c"]
        assert [problem for problem in kb.verify() if "run reindex" in problem]
        kb.reindex()
        assert kb.verify() == []
        assert [hit.item.id for hit in kb.search("parcel", spaces=["s"], mode="bm25")] == ["a", "c"]
        assert [edge.source for edge in kb.edges()] == ["c"]


def test_an_item_in_two_layers_is_reported_and_repaired(tmp_path: Path) -> None:
    profiles, pieces = Failing(), MemoryStore()
    several = CompositeStore(pieces, pieces, pieces, pieces, profiles)
    with Engine(Stores(several, several, several, several, several), None, clock=lambda: NOW) as kb:
        kb.add(maya())
        profiles.failing = True
        with pytest.raises(Unavailable):
            kb.add(maya(kind=Kind.NODE))
        profiles.failing = False
        assert any("two stores" in problem for problem in kb.verify())
        kb.reindex()
        assert (kb.verify(), [item.kind for item in kb.items()]) == ([], [Kind.NODE])


def test_a_profile_is_never_lost_between_the_layers(tmp_path: Path) -> None:
    profiles, pieces = Failing(), MemoryStore()
    several = CompositeStore(pieces, pieces, pieces, pieces, profiles)
    with Engine(Stores(several, several, several, several, several), None, clock=lambda: NOW) as kb:
        kb.add(maya(kind=Kind.NODE))
        profiles.failing = True
        with pytest.raises(Unavailable):
            kb.add(maya())
        profiles.failing = False
        assert ([item.kind for item in kb.items()], kb.verify()) == ([Kind.NODE], [])


def test_closing_closes_every_store_once_even_if_one_fails() -> None:
    stores = [Failing() for _ in range(4)]
    several = CompositeStore(stores[0], stores[1], stores[1], stores[2], stores[3])
    stores[3].failing = True
    with pytest.raises(Unavailable):
        Engine(Stores(several, several, several, several, several)).close()
    assert [store.closed for store in stores] == [1, 1, 1, 1]


# Bad input


@pytest.mark.parametrize(
    ("roles", "error", "words"),
    [
        (
            {"pieces": "memory:"},
            Invalid,
            "unknown role 'pieces'; available: graph, items, metadata, vectors, words",
        ),
        (
            {"metadata": "carrier-pigeon:x"},
            Invalid,
            "unknown store 'carrier-pigeon'; available: file, memory, networkx, sqlite",
        ),
        (
            {"words": "file:x"},
            Invalid,
            "cannot play 'words'; a store of this kind plays: metadata, graph",
        ),
        (
            {"metadata": "networkx:g.json"},
            Invalid,
            "cannot play 'metadata'; a store of this kind plays: graph",
        ),
        (
            {"metadata": "file:both", "graph": "file:both"},
            Invalid,
            "metadata and graph cannot both be at 'file:both'",
        ),
        ({"metadata": "file:"}, Invalid, "names no folder"),
        ({"graph": "networkx:/nowhere/at/all/g.json"}, Unavailable, "does not exist"),
    ],
)
def test_roles_that_cannot_be_are_refused(roles: dict[str, str], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        knowloom.open("memory:", embedder=None, **roles)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    monkeypatch.delitem(sys.modules, "knowloom.stores.networkx", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'knowloom\[networkx\]'"):
        knowloom.open("memory:", embedder=None, graph="networkx:")


def test_a_store_opened_before_one_that_cannot_be_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable, match="not a folder"):
        knowloom.open(str(tmp_path / "k.db"), embedder=None, metadata=f"file:{tmp_path}/file")
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        assert kb.verify() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Unavailable, match="permission"):
        FileStore.open(str(tmp_path / "x"))


def test_a_file_that_is_not_json_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    FileStore.open(str(tmp_path)).apply(batch([item("a", "one"), item("b", "two")]))
    broken = tmp_path / "items" / "s-acme" / "i-a.json"
    broken.write_text("{")
    with pytest.raises(Corrupt, match=r"i-a\.json"):
        FileStore.open(str(tmp_path))
    assert broken.read_text() == "{"
    broken.write_text(
        json.dumps(
            {"id": "a", "space": "acme", "text": "one", "created_at": "2025-06-01T12:00:00Z"}
        )
    )
    store = FileStore.open(str(tmp_path))
    assert (store.find(ACME, 9), store.verify()) == ([item("a", "one"), item("b", "two")], [])


def test_a_newer_format_and_a_foreign_folder_are_left_alone(tmp_path: Path) -> None:
    FileStore.open(str(tmp_path / "x"))
    (tmp_path / "x" / files.MARKER).write_text('{"format": 99}')
    with pytest.raises(Unavailable, match="newer knowloom") as caught:
        FileStore.open(str(tmp_path / "x"))
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "letter.txt").write_text("dear")
    with pytest.raises(Corrupt, match="another program"):
        FileStore.open(str(tmp_path / "y"))
    (tmp_path / "g.json").write_text('{"format": 99, "edges": []}')
    with pytest.raises(Unavailable, match="newer knowloom"):
        NetworkxStore.open(str(tmp_path / "g.json"))
    (tmp_path / "h.json").write_text("[")
    with pytest.raises(Corrupt, match=r"h\.json"):
        NetworkxStore.open(str(tmp_path / "h.json"))
    assert (caught.value.code, (tmp_path / "y" / "letter.txt").read_text()) == (
        "newer_version",
        "dear",
    )


@pytest.mark.parametrize("marker", [files.LEGACY_MARKER, files.MARKER])
def test_a_folder_of_a_pre_release_version_is_refused_and_left_untouched(
    tmp_path: Path, marker: str
) -> None:
    contents = {
        marker: b'{"format": 1}',
        files.LOG: b'{"number": 1}\n',
        files.JOURNAL: b'{"files": {}, "log": "", "offset": 0}',
        files.LOCK: b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Corrupt, match="pre-release version with another file format") as caught:
        FileStore.open(str(tmp_path))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == contents
    assert caught.value.code == "foreign_file"


def test_a_graph_file_of_a_pre_release_version_is_refused_and_left_untouched(
    tmp_path: Path,
) -> None:
    content = b'{"format":1,"edges":[]}'
    (tmp_path / "graph.json").write_bytes(content)
    with pytest.raises(Corrupt, match="pre-release version with another file format") as caught:
        NetworkxStore.open(str(tmp_path / "graph.json"))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"graph.json": content}
    assert caught.value.code == "foreign_file"


@pytest.mark.parametrize("damage", ["changed", "missing", "foreign", "log"])
def test_verify_notices_what_others_did_to_the_files(tmp_path: Path, damage: str) -> None:
    store = FileStore.open(str(tmp_path))
    store.apply(batch([item("a", "one"), item("b")], [edge("a", "b")]))
    assert store.verify() == []
    stored = tmp_path / "items" / "s-acme" / "i-a.json"
    if damage == "changed":
        stored.write_text(stored.read_text().replace("one", "two"))
    elif damage == "missing":
        (tmp_path / "edges" / "s-acme" / "i-a.json").unlink()
    elif damage == "foreign":
        (stored.parent / "i-c.json").write_text(stored.read_text())
    else:
        stored.unlink()
        store = FileStore.open(str(tmp_path))
    assert store.verify() != []


# Names

ODD = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a\0b",
    "CON",
    "con",
    "nul",
    "aux.json",
    "A",
    "a",
    "ä",
    "Ä",
    "x" * 5000,
    "x" * 4999 + "y",
    "%41",
    "a/b",
    "a\\b",
    "é" * 300,
    "🧵",
    " ",
    "a ",
    "a.",
    "~",
    "$HOME",
    "\n",
]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(st.text(max_size=400) | st.sampled_from(ODD), unique=True, min_size=2, max_size=12))
def test_no_name_escapes_its_folder_and_no_two_collide(names: list[str]) -> None:
    file_names = [safe_name("i", name) for name in names]
    assert len({name.casefold() for name in file_names}) == len(names)
    for name in file_names:
        assert (
            name.startswith("i-")
            and len(name.encode()) < 200
            and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-%.")
            and ".." not in name
        )


def test_odd_ids_and_spaces_come_back_from_the_folder(tmp_path: Path) -> None:
    names = [name for name in ODD if name]
    stored = [
        item(id, f"text {number}", space=space)
        for number, id in enumerate(names)
        for space in ("acme", "../zoo", "ACME")
    ]
    FileStore.open(str(tmp_path / "inside" / "it")).apply(
        batch(stored, [edge(names[0], id) for id in names])
    )
    store = FileStore.open(str(tmp_path / "inside" / "it"))
    items = store.find(Filter(("acme", "../zoo", "ACME")), 1000)
    assert (items, len(store.edges(["acme"], 1000)), store.verify()) == (
        sorted(stored, key=lambda item: item.key),
        len(names),
        [],
    )
    assert [path.name for path in tmp_path.iterdir()] == ["inside"] and [
        path.name for path in (tmp_path / "inside").iterdir()
    ] == ["it"]


# Kills and processes

WRITER = """
import sys
from datetime import UTC, datetime
from knowloom.model import Batch, Edge, Item
from knowloom.registry import open_store
store, name = open_store(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    ids = [f"{name}-{number}-{part}" for part in range(3)]
    items = tuple(Item(id, "acme", text="x" * 2000) for id in ids)
    edges = tuple(Edge(ids[0], id, space="acme") for id in ids)
    store.apply(Batch(datetime.now(UTC), items, edges))
"""


def writer(url: str, name: str, count: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(knowloom.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url, name, str(count)],
        env=environment,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("scheme", ["file", "networkx"])
def test_a_writer_that_is_killed_leaves_whole_batches(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}:{tmp_path}/store"
    seen = 0
    for round in range(8):
        process = writer(url, f"w{round}", 100_000)
        assert process.stdout is not None and process.stdout.readline()
        time.sleep(0.02 + 0.013 * round)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = open_store(url)
        edges = store.edges(["acme"], 1_000_000)
        assert len(edges) % 3 == 0 and len(edges) >= seen
        seen = len(edges)
        if scheme == "file":
            items = store.find(ACME, 1_000_000)
            assert (len(items), store.verify()) == (len(edges), [])
            assert not (tmp_path / "store" / files.JOURNAL).exists()
    assert seen


@pytest.mark.parametrize("scheme", ["file", "networkx"])
def test_two_writers_lose_nothing_and_readers_see_what_they_wrote(
    tmp_path: Path, scheme: str
) -> None:
    url = f"{scheme}:{tmp_path}/store"
    reader = open_store(url)
    writers = [writer(url, name, 15) for name in ("one", "two")]
    for process in writers:
        assert process.wait(60) == 0
        assert process.stdout is not None
        process.stdout.close()
    assert len(reader.edges(["acme"], 1000)) == 90
    if scheme == "file":
        assert (
            len(reader.find(ACME, 1000)),
            [change.number for change in reader.changes("acme", limit=1000)],
            reader.verify(),
        ) == (90, list(range(1, 181)), [])


@pytest.mark.parametrize("step", ["journal", "files", "log"])
def test_a_write_that_stops_anywhere_is_finished_or_never_was(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileStore.open(str(tmp_path)).apply(batch([item("a", "old"), item("b")]))
    whole = files.write_atomic

    def stop(path: Path, data: bytes) -> None:
        if step == "journal" or (step == "files" and path.name == "i-b.json"):
            raise KeyboardInterrupt
        whole(path, data)

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, AttributeError)):
        store = FileStore.open(str(tmp_path))
        patch.setattr(files, "write_atomic", stop)
        if step == "log":
            patch.setattr(files, "os", None)  # the log cannot be brought to the disk
        store.apply(batch([item("a", "new"), item("b", "new")]))
    after = FileStore.open(str(tmp_path))
    assert ([item.text for item in after.find(ACME, 9)], after.verify()) == (
        ["old", ""] if step == "journal" else ["new", "new"],
        [],
    )


def test_a_reading_block_of_a_file_store_sees_one_state(tmp_path: Path) -> None:
    first, second = FileStore.open(str(tmp_path)), FileStore.open(str(tmp_path))
    first.apply(batch([item("a")]))
    with second.reading():
        before = second.find(ACME, 9)
        first.apply(batch([item("b")]))
        assert second.find(ACME, 9) == before
    assert [item.id for item in second.find(ACME, 9)] == ["a", "b"]


def test_the_graph_is_a_networkx_graph(tmp_path: Path) -> None:
    store = NetworkxStore.open(str(tmp_path / "g.json"))
    store.apply(batch(edges=[edge("a", "b", 0.5), edge("a", "b", type="x")]))
    assert (
        store.graph.number_of_edges(),
        store.graph.edges[("acme", "a"), ("acme", "b"), "related"]["weight"],
    ) == (2, 0.5)


class TestSettings:
    """The places of the layers, for those who use the shell."""

    @pytest.fixture(autouse=True)
    def folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in [name for name in os.environ if name.startswith("KNOWLOOM_")]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "knowloom.toml").write_text(
            'store = "k.db"\nembedder = "none"\n'
            'metadata = "file:profiles"\ngraph = "networkx:graph.json"\n'
        )

    def run(self, *args: str, **environ: str) -> Result:
        return CliRunner().invoke(cli, args, prog_name="knowloom", env=environ)

    def test_a_load_goes_to_the_layers_and_a_question_is_answered_from_them(
        self, tmp_path: Path
    ) -> None:
        assert (
            self.run("load", str(ROOT / "examples" / "maya.json"), "--space", "care").exit_code == 0
        )
        with knowloom.open(
            "memory:", embedder=None, metadata=f"file:{tmp_path / 'profiles'}"
        ) as kb:
            assert [item.id for item in kb.items()] == ["global", "user:maya"]
        assert "SPECIALIZES_IN" in (tmp_path / "graph.json").read_text("utf-8")
        assert (
            "Team lead, Customer Care"
            in self.run("provide", "chargebacks", "--space", "care", "--entity", "user:maya").stdout
        )
        assert self.run("verify").exit_code == 0

    def test_layers_are_not_mixed_with_another_store(self) -> None:
        self.run("load", str(ROOT / "examples" / "maya.json"), "--space", "care")
        refused = self.run("stats", "--db", "other.db")
        assert (refused.exit_code, "whose metadata, graph the settings name" in refused.stderr) == (
            1,
            True,
        )
        assert (
            self.run(
                "load",
                str(ROOT / "examples" / "docs"),
                "--db",
                "other.db",
                KNOWLOOM_METADATA="",
                KNOWLOOM_GRAPH="",
            ).exit_code
            == 0
        )
        assert self.run("stats", "--db", "k.db").exit_code == 0

    @pytest.mark.parametrize(
        ("name", "url"),
        [
            ("KNOWLOOM_METADATA", "memory:"),
            ("KNOWLOOM_GRAPH", "networkx:"),
            ("KNOWLOOM_STORE", "memory:"),
        ],
    )
    def test_what_is_only_in_memory_is_not_served_by_several_processes(
        self, name: str, url: str
    ) -> None:
        refused = self.run("serve", "--processes", "2", **{name: url})
        assert (refused.exit_code, "needs knowledge in a file" in refused.stderr) == (1, True)

    def test_a_store_that_cannot_hold_a_layer_is_refused(self) -> None:
        refused = self.run("load", str(ROOT / "examples" / "docs"), KNOWLOOM_WORDS="file:words")
        assert (refused.exit_code, "cannot play 'words'" in refused.stderr) == (1, True)
