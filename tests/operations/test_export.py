"""Exports: one state of the knowledge, whoever writes meanwhile, on all surfaces."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from client_helpers import failure, node

import knowloom
from knowloom import Client, Edge, Engine, Exported, Unavailable
from live_server import serving


class InterruptingFile(io.StringIO):
    """A file during whose first write another process changes the knowledge."""

    def __init__(self, other: Engine) -> None:
        super().__init__()
        self._other: Engine | None = other

    def write(self, text: str) -> int:
        if self._other is not None:
            other, self._other = self._other, None
            other.delete("b", space="s")
            other.add([node("z")], [Edge("z", "a", space="s")])
        return super().write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def fill(kb: Engine) -> None:
    kb.add([node("a"), node("b", "line\u2028break")], [Edge("a", "b", space="s")])


def test_an_export_is_a_state_that_existed(path: Path) -> None:
    with (
        knowloom.open(path, embedder=None) as kb,
        knowloom.open(path, embedder=None) as other,
    ):
        fill(kb)
        expected = io.StringIO()
        kb.maintenance.export(expected)
        file = InterruptingFile(other)
        assert kb.maintenance.export(file) == Exported(2, 1)
        assert file.getvalue() == expected.getvalue()
        assert kb.maintenance.export(io.StringIO()) == Exported(2, 1)
        assert [edge.source for edge in kb.edges()] == ["z"]


def test_an_export_is_loaded_back_exactly(kb: Engine, tmp_path: Path) -> None:
    fill(kb)
    file = tmp_path / "all.jsonl"
    kb.maintenance.export(file, spaces=["s"])
    with knowloom.open("memory:", embedder=None) as other:
        other.load(file)
        assert list(other.items(["s"])) == list(kb.items(["s"]))
        assert list(other.edges(["s"])) == list(kb.edges(["s"]))


def test_a_failed_export_leaves_the_old_file(kb: Engine, tmp_path: Path) -> None:
    fill(kb)
    file = tmp_path / "all.jsonl"
    file.write_text("before")
    assert failure(lambda: kb.maintenance.export(file, spaces=["none"]))[1] == "unknown_space"
    assert failure(lambda: kb.maintenance.export(tmp_path / "no" / "x"))[0] is Unavailable
    assert file.read_text() == "before"
    assert not [name for name in tmp_path.iterdir() if "partial" in name.name]


def test_a_restricted_engine_exports_what_it_sees(kb: Engine) -> None:
    kb.add([node("a", properties={"team": "x"}), node("b")], [Edge("a", "b", space="s")])
    restricted = knowloom.restrict(kb, {"team": "x"})
    assert restricted.maintenance.export(io.StringIO()) == Exported(1, 0)


def test_the_client_exports_what_the_engine_does(kb: Engine, tmp_path: Path) -> None:
    fill(kb)
    local, remote = io.StringIO(), io.StringIO()
    with serving(kb) as address, Client(address) as client:
        assert client.maintenance.export(remote) == kb.maintenance.export(local) == Exported(2, 1)
        client.maintenance.export(tmp_path / "x.jsonl", spaces=["s"])
    assert remote.getvalue() == local.getvalue()
    assert (tmp_path / "x.jsonl").read_text("utf-8") == local.getvalue()
