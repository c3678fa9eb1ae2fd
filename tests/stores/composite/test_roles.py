"""Roles of stores in `open` and in the settings of the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import knowloom
from knowloom import Invalid, MissingExtra, Unavailable
from knowloom.cli.main import cli
from paths import ROOT


@pytest.mark.parametrize(
    ("roles", "error", "message"),
    [
        (
            {"pieces": "memory:"},
            Invalid,
            "unknown role 'pieces'; available: graph, items, metadata, vectors, words",
        ),
        (
            {"metadata": "carrier-pigeon:x"},
            Invalid,
            "unknown store 'carrier-pigeon'; available: bolt, elasticsearch, file, fts5, "
            "lancedb, memory, neo4j, networkx, opensearch, postgresql, redis, rediss, sqlite",
        ),
        (
            {"words": "file:x"},
            Invalid,
            "'file:x' cannot store words; it supports: metadata, graph",
        ),
        (
            {"metadata": "networkx:g.json"},
            Invalid,
            "'networkx:g.json' cannot store metadata; it supports: graph",
        ),
        (
            {"metadata": "file:both", "graph": "file:both"},
            Invalid,
            "metadata and graph must not both be 'file:both'",
        ),
        ({"metadata": "file:"}, Invalid, "names no folder"),
        ({"graph": "networkx:/nowhere/at/all/g.json"}, Unavailable, "does not exist"),
    ],
)
def test_invalid_roles_are_refused(roles: dict[str, str], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        knowloom.open("memory:", embedder=None, **roles)


def test_a_missing_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    monkeypatch.delitem(sys.modules, "knowloom.stores.networkx", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'knowloom\[networkx\]'"):
        knowloom.open("memory:", embedder=None, graph="networkx:")


def test_stores_opened_before_a_failure_are_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable, match="must be a folder"):
        knowloom.open(str(tmp_path / "k.db"), embedder=None, metadata=f"file:{tmp_path}/file")
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        assert kb.verify() == []


class TestSettings:
    """Roles in the settings, as the command line uses them."""

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

    def test_load_and_provide_use_the_configured_stores(self, tmp_path: Path) -> None:
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

    def test_configured_roles_are_not_combined_with_another_store(self) -> None:
        self.run("load", str(ROOT / "examples" / "maya.json"), "--space", "care")
        result = self.run("stats", "--db", "other.db")
        assert (result.exit_code, "whose metadata, graph the settings name" in result.stderr) == (
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
    def test_a_store_in_memory_is_not_served_by_several_processes(
        self, name: str, url: str
    ) -> None:
        result = self.run("serve", "--processes", "2", **{name: url})
        assert (result.exit_code, "needs a store in a file" in result.stderr) == (1, True)

    def test_a_store_that_cannot_play_its_role_is_refused(self) -> None:
        result = self.run("load", str(ROOT / "examples" / "docs"), KNOWLOOM_WORDS="file:words")
        assert (result.exit_code, "cannot store words" in result.stderr) == (1, True)
