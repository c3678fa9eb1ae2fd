"""Neighbours of an item: the same from an engine and from a client of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from client_helpers import Kb

from knowloom import Client, Edge, Engine, Forbidden, Invalid, Item, NotFound, find_related
from knowloom.registry import open_stores
from knowloom.server.auth import Keyring
from live_server import NOW, serving

ITEMS = [Item(id, "s", title=id.title(), text=f"about {id}") for id in ("a", "b", "c", "d")]
EDGES = [
    Edge("a", "b", "NEEDS", 0.5, "s"),
    Edge("c", "a", "USES", 0.9, "s"),
    Edge("b", "d", "NEEDS", 1.0, "s"),
]


def related(kb: Kb, id: str, **options: object) -> list[tuple[str, str]]:
    call = kb.related if isinstance(kb, Client) else lambda *a, **o: find_related(kb, *a, **o)
    return [(hit.item.id, hit.via) for hit in call(id, **options)]


@pytest.fixture(params=["engine", "client"])
def kb(request: pytest.FixtureRequest) -> Iterator[Kb]:
    with Engine(open_stores("memory:", {}), None, clock=lambda: NOW, links=()) as engine:
        engine.add([*ITEMS, Item("z", "t", text="elsewhere")], EDGES)
        if request.param == "engine":
            yield engine
        else:
            with serving(engine) as url, Client(url) as client:
                yield client


def test_neighbours_come_by_weight_with_the_reason(kb: Kb) -> None:
    assert related(kb, "a", space="s") == [("c", '"C" USES "A"'), ("b", '"A" NEEDS "B"')]
    assert related(kb, "a", limit=1) == related(kb, "a")[:1]


def test_mistakes_are_named(kb: Kb) -> None:
    with pytest.raises(NotFound, match="no item 'x'"):
        related(kb, "x", space="s")
    with pytest.raises(NotFound, match="nowhere"):
        related(kb, "a", space="nowhere")
    with pytest.raises(Invalid, match="limit"):
        related(kb, "a", limit=0)


def test_a_key_reaches_only_its_spaces(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    _, secret = keyring.add("t", reads=["t"], writes=[], role="viewer", tier="enterprise", now=NOW)
    with Engine(open_stores("memory:", {}), None, clock=lambda: NOW) as engine:
        engine.add([*ITEMS, Item("z", "t", text="elsewhere")], EDGES)
        with serving(engine, keyring) as url, Client(url, key=secret) as client:
            with pytest.raises(NotFound):
                client.related("a")
            with pytest.raises((Forbidden, NotFound)):
                client.related("a", space="s")
