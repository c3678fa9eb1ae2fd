"""Copies between set-ups: complete, verified, continued after a kill, refused if they would mix."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import knowloom
from cli_runs import run, run_json
from knowloom import Conflict, Edge, Engine, Forbidden, Invalid, Item, Kind, NotFound, Unavailable
from knowloom.stores.sqlite import database
from letters import Letters
from paths import ROOT
from postgresql_server import execute, require_server, url_of

SPACES = ["a", "b"]
QUERY = "refund of a parcel in Ghent"
START = datetime(2026, 1, 1, tzinfo=UTC)
LAYERS = {"metadata": "file:profiles", "graph": "networkx:graph.json", "words": "words.db"}
CHILD = """
import sys, knowloom
def report(stage, done, total):
    print(stage, done, flush=True)
    sys.stdin.readline()
knowloom.copy(sys.argv[1], sys.argv[2], progress=report)
"""


def clock() -> Callable[[], datetime]:
    """Return a clock that advances by a minute with each call."""
    minutes = iter(range(10**9))
    return lambda: START + timedelta(minutes=next(minutes))


def open_at(url: Any, **roles: str) -> Engine:
    """Open an engine whose writes have times of their own."""
    kb = knowloom.open(url, embedder=Letters(), **roles)
    kb.reader._clock = kb._commits._clock = clock()
    return kb


def fill(kb: Engine) -> None:
    """Write, change, link, delete, purge and roll back items of two spaces."""
    nodes = [
        Item(f"n{number}", "a", text=f"A parcel {number} to Ghent, refund {number % 3}.")
        for number in range(9)
    ]
    others = [
        Item("x", "b", text="refund '; DROP TABLE item; -- of parcels"),
        Item("y", "b", title="Y"),
    ]
    maya = Item("maya", "a", Kind.PROFILE, title="Maya", properties={"plan": "gold"})
    kb.add([*nodes, *others, maya], [Edge("n1", "n2", space="a", weight=0.5)])
    kb.add([], [Edge("n1", "x", "about", space="a", target_space="b"), Edge("n1", "n2", space="a")])
    kb.add([], [Edge("n3", "n4", "similar", 0.0, "a"), Edge("maya", "n5", space="a")])
    knowloom.act_as(kb, "ada").add(Item("n2", "a", text="changed: the refund took a week"))
    kb.delete("x", space="b")
    kb.add(Item("x", "b", text="again"), [Edge("n1", "x", "about", space="a", target_space="b")])
    kb.maintenance.purge("n7", space="a")
    kb.delete("n8", space="a")
    kb.maintenance.set_retention("b", 30_000)


def describe(kb: Engine) -> Any:
    """Return everything that a copy has in common with its source."""
    keys = [("a", f"n{number}") for number in range(9)] + [("b", "x"), ("a", "maya")]
    context = kb.context(QUERY, spaces=SPACES, max_tokens=600, entity="maya", now=START)
    return (
        [(info.name, info.items, info.edges, info.digest) for info in kb.reader.spaces()],
        list(kb.items()),
        list(kb.edges()),
        [kb.reader.stores.items.changes_of([key]) for key in keys],
        [[entry.at for entry in kb.maintenance.audit([space])] for space in SPACES],
        context.text,
        context.digest,
        kb.search(QUERY, spaces=SPACES, mode="walk"),
        kb.maintenance.retention(),
    )


def without_numbers(described: Any) -> Any:
    """Return the description without the numbers of the lines, which count all spaces."""
    history = [[(*_line(change),) for change in log] for log in described[3]]
    return (*described[:3], history, *described[4:])


def _line(change: Any) -> tuple[Any, ...]:
    before = change.before if change.before is None else repr(change.before)
    return (change.at, change.space, change.id, change.action, before, change.link, change.actor)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "source.db"
    with open_at(path) as kb:
        fill(kb)
    return path


@pytest.fixture
def source(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shutil.copyfile(filled, tmp_path / "source.db")


def described(url: Any, **roles: str) -> Any:
    with knowloom.open(url, embedder=Letters(), **roles) as kb:
        assert kb.verify() == []
        return without_numbers(describe(kb))


def test_a_copy_and_the_copy_of_it_are_the_same_knowledge(source: Path) -> None:
    server = require_server()
    execute(server, "DROP SCHEMA IF EXISTS copies CASCADE")
    url = f"postgresql://{url_of(server, 'copies')}"
    first, second = knowloom.copy(source, url), knowloom.copy(url, "back.db")
    expected = described(source)
    assert described(url) == described("back.db") == expected
    assert first == second and first.problems == ()
    assert knowloom.copy(source, "back.db").written is False


def test_a_copy_passes_through_layers_of_several_stores(source: Path) -> None:
    copied = knowloom.copy(source, {"store": "truth.db", **LAYERS})
    assert copied.problems == ()
    assert described("truth.db", **LAYERS)[:3] == described(source)[:3]
    knowloom.copy({"store": "truth.db", **LAYERS}, "back.db")
    assert described("back.db")[:3] == described(source)[:3]
    assert knowloom.copy({"store": "truth.db", **LAYERS}, "back.db").written is False


def test_a_history_that_profiles_of_their_own_cannot_have_is_refused(source: Path) -> None:
    target = {"store": "truth.db", "metadata": "file:profiles"}
    with knowloom.open(source, embedder=Letters()) as kb:
        kb.add(Item("n1", "a", Kind.PROFILE, title="N1", properties={"plan": "gold"}))
    with pytest.raises(Invalid, match=r"'n1' .* was changed from or to a profile"):
        knowloom.copy(source, target)
    assert knowloom.copy(source, target, history=False).problems == ()


def test_engines_in_memory_are_copied(source: Path) -> None:
    with knowloom.open("memory:", embedder=Letters()) as kb:
        assert knowloom.copy(source, kb).written
        assert without_numbers(describe(kb))[:5] == described(source)[:5]
        assert knowloom.copy(kb, "back.db").problems == ()
        with pytest.raises(Forbidden, match="restricted"):
            knowloom.copy(knowloom.restrict(kb, where={"type": "faq"}), "part.db")
    assert described("back.db")[:5] == described(source)[:5]


def test_the_next_copy_adds_what_changed_since(source: Path) -> None:
    knowloom.copy(source, "copy.db")
    with open_at(source) as kb:
        kb.reader._clock = kb._commits._clock = lambda: START + timedelta(days=9)
        kb.add([Item("new", "a", text="a new parcel"), Item("n2", "a", text="changed again")])
        kb.delete("n1", space="a")
    assert knowloom.copy(source, "copy.db").written
    assert described("copy.db") == described(source)


def test_without_history_only_the_state_is_copied(source: Path) -> None:
    copied = knowloom.copy(source, "copy.db", history=False)
    assert described("copy.db")[:3] == described(source)[:3]
    assert knowloom.copy(source, "copy.db", history=False).written is False
    assert {space.changes for space in copied.spaces} == {0}
    with pytest.raises(Conflict, match="its history is another one"):
        knowloom.copy(source, "copy.db")


def test_spaces_are_copied_by_name(source: Path) -> None:
    copied = knowloom.copy(source, "copy.db", spaces=["b"])
    assert [space.name for space in copied.spaces] == ["b"]
    with knowloom.open("copy.db", embedder=None) as kb:
        assert [item.id for item in kb.items()] == ["x", "y"]
    with pytest.raises(Invalid, match=r"edges to space 'b'.*copy both"):
        knowloom.copy(source, "other.db", spaces=["a"])
    with pytest.raises(NotFound, match="unknown space 'c'; available: a, b"):
        knowloom.copy(source, "other.db", spaces=["c"])


def test_states_that_retention_erased_stay_erased(source: Path) -> None:
    with knowloom.open(source, embedder=None) as kb:
        assert kb.maintenance.set_retention("a", 1)
    knowloom.copy(source, "copy.db")
    assert described("copy.db") == described(source)


@pytest.mark.parametrize("pause", [1, 4, 9])
def test_a_copy_that_was_killed_is_continued(source: Path, pause: int) -> None:
    with kill_copy(source, "copy.db", pause) as reports:
        assert len(reports) == pause
    copied = knowloom.copy(source, "copy.db")
    assert copied.problems == () and described("copy.db") == described(source)


def test_a_copy_to_several_stores_that_was_killed_is_continued(source: Path) -> None:
    layers = {"store": "truth.db", "metadata": "file:profiles", "graph": "graph.db"}
    child = CHILD.replace("sys.argv[2]", repr(layers))
    with kill_copy(source, "", 3, child):
        pass
    assert knowloom.copy(source, layers).problems == ()
    layers.pop("store")
    assert described("truth.db", **layers)[:3] == described(source)[:3]


class kill_copy:
    """A copy in another process, killed after some of its reports."""

    def __init__(self, source: Path, target: str, pause: int, code: str = CHILD) -> None:
        command = [sys.executable, "-c", code, str(source), target]
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True
        )
        self._pause = pause

    def __enter__(self) -> list[str]:
        process, reports = self._process, []
        assert process.stdout is not None and process.stdin is not None
        for _ in range(self._pause):
            reports.append(process.stdout.readline())
            if len(reports) < self._pause:
                print(file=process.stdin, flush=True)
        process.send_signal(signal.SIGKILL)
        return reports

    def __exit__(self, *error: object) -> None:
        self._process.communicate()


def test_other_knowledge_in_the_target_is_refused_and_stays(source: Path) -> None:
    with knowloom.open("copy.db", embedder=Letters()) as kb:
        kb.add([Item("n1", "a", text="mine"), Item("z", "c", text="elsewhere")])
    for history in (True, False):
        with pytest.raises(Conflict, match="other knowledge in space 'a'"):
            knowloom.copy(source, "copy.db", history=history)
    with knowloom.open("copy.db", embedder=Letters()) as kb:
        assert [item.id for item in kb.items()] == ["n1", "z"]
        kb.delete("n1", space="a")
    with pytest.raises(Conflict, match="its history is another one"):
        knowloom.copy(source, "copy.db")


def test_other_spaces_of_the_target_stay(source: Path) -> None:
    with knowloom.open("copy.db", embedder=Letters()) as kb:
        kb.add([Item("z", "c", text="elsewhere")])
    knowloom.copy(source, "copy.db")
    with knowloom.open("copy.db", embedder=Letters()) as kb:
        assert [item.id for item in kb.items(["c"])] == ["z"]
        assert (kb.verify(), len(list(kb.items(["a"])))) == ([], 8)


class Short(Letters):
    """Another embedder."""

    name, fingerprint, dimensions = "short", "short:2", 2

    def embed(self, texts: Any) -> list[Any]:
        return [vector[:2] / (vector[:2] @ vector[:2]) ** 0.5 for vector in super().embed(texts)]


def test_vectors_of_another_size_are_refused(source: Path) -> None:
    with knowloom.open("copy.db", embedder=Short()) as kb:
        kb.add(Item("z", "c", text="elsewhere"))
    with pytest.raises(Conflict, match=r"'short:2' with 2 dimensions, the source.* with 26"):
        knowloom.copy(source, "copy.db")


def test_another_passage_size_is_refused_unless_the_target_is_empty(source: Path) -> None:
    with knowloom.open("copy.db", embedder=None, passage_size=400) as kb:
        kb.add(Item("z", "c", text="elsewhere"))
    with pytest.raises(Conflict, match="passages of 400 characters, the source of 800"):
        knowloom.copy(source, "copy.db")
    with knowloom.open("empty.db", embedder=None, passage_size=400):
        pass
    knowloom.copy(source, "empty.db")
    assert described("empty.db") == described(source)


def test_a_target_that_is_read_only_is_refused(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with knowloom.open("copy.db", embedder=None) as kb:
        kb.add(Item("z", "c", text="elsewhere"))
    # The tests may run as root, for whom no folder is read-only.
    monkeypatch.setattr(database, "_open", database._open_in_read_only_folder)
    with pytest.raises(Unavailable) as caught:
        knowloom.copy(source, "copy.db")
    assert caught.value.code == "read_only"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("source.db", "have 'source.db' in common"),
        ("./sub/../source.db", "in common"),
        ({"store": "other.db", "graph": "source.db"}, "in common"),
        ({"graph": "other.db"}, "a dict with 'store'"),
        ({"store": "other.db", "edges": "x.db"}, "unknown role 'edges'"),
        (7, "a path, a URL, a dict"),
    ],
)
def test_impossible_targets_are_refused(source: Path, target: Any, message: str) -> None:
    Path("sub").mkdir()
    with pytest.raises(Invalid, match=message):
        knowloom.copy(source, target)
    assert not Path("other.db").exists()


def test_a_source_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        knowloom.copy(tmp_path / "none.db", tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_the_shell_copies_what_settings_name(source: Path) -> None:
    settings = [f'{name} = "{url}"\n' for name, url in {"store": "truth.db", **LAYERS}.items()]
    Path("other.toml").write_text("".join(settings))
    result = run("copy", "source.db", "other.toml")
    assert (result.exit_code, "copied and verified: 2 spaces" in result.stdout) == (0, True)
    again = run_json("copy", "source.db", "other.toml")
    assert (again["written"], [space["items"] for space in again["spaces"]]) == (False, [8, 2])
    result = run("copy", "source.db", "source.db")
    assert (result.exit_code, "in common" in result.stderr) == (1, True)


def test_a_copy_is_in_the_audit_log_of_the_target(source: Path) -> None:
    knowloom.copy(source, "copy.db")
    with knowloom.open("copy.db", embedder=None) as kb:
        (entry,) = kb.maintenance.audit(actions=["copy"])
        assert (entry.actor, entry.id) == ("local", f"from {source}")
