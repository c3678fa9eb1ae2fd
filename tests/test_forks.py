"""Engines after a fork: refused with every store, and their parents go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Engine, Item, KnowloomError

STORES: dict[str, dict[str, Any]] = {
    "sqlite": {},
    "memory": {"store": "memory:"},
    "networkx": {"graph": "networkx:{folder}/graph.json"},
    "file": {"metadata": "file:{folder}/profiles"},
}


def open_engine(folder: Path, name: str) -> Engine:
    urls = {role: url.format(folder=folder) for role, url in STORES[name].items()}
    store = urls.pop("store", str(folder / "k.db"))
    return knowloom.open(store, embedder=None, **urls)


def run_forked(call: Callable[[], str]) -> str:
    """Return the result of a call in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, call().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def codes(*calls: Callable[[], object]) -> str:
    found = []
    for call in calls:
        try:
            call()
            found.append("none")
        except KnowloomError as error:
            found.append(str(error.code))
    return " ".join(found)


@pytest.mark.parametrize("name", STORES)
def test_reads_and_writes_are_refused_in_a_forked_process(tmp_path: Path, name: str) -> None:
    with open_engine(tmp_path, name) as kb:
        kb.add(Item("a", "s", text="refund"))
        restricted = knowloom.restrict(kb, {"team": "x"})
        calls = (
            lambda: kb.get("a", space="s"),
            lambda: kb.search("refund", spaces=["s"]),
            lambda: kb.add(Item("b", "s", text="b")),
            lambda: kb.delete(["a"], space="s"),
            lambda: restricted.search("refund", spaces=["s"]),
            kb.maintenance.stats,
        )
        assert run_forked(lambda: codes(*calls)) == " ".join(["forked"] * len(calls))
        run_forked(lambda: str(kb.close()))
        assert kb.add(Item("c", "s", text="parcel")).added == 1  # closing it there closed nothing
        assert [hit.item.id for hit in kb.search("refund", spaces=["s"])] == ["a"]
