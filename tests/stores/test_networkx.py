"""The networkx store: its graph and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowloom import Corrupt, Unavailable
from knowloom.stores.networkx import NetworkxStore
from knowloom.testing.knowledge import batch, edge


def test_the_graph_is_a_networkx_graph(tmp_path: Path) -> None:
    store = NetworkxStore.open(str(tmp_path / "g.json"))
    store.apply(batch(edges=[edge("a", "b", 0.5), edge("a", "b", type="x")]))
    assert (
        store.graph.number_of_edges(),
        store.graph.edges[("acme", "a"), ("acme", "b"), "related"]["weight"],
    ) == (2, 0.5)


def test_a_graph_file_of_a_pre_release_version_is_refused_and_left_untouched(
    tmp_path: Path,
) -> None:
    content = b'{"format":1,"edges":[]}'
    (tmp_path / "graph.json").write_bytes(content)
    with pytest.raises(Corrupt, match="pre-release version with another file format") as caught:
        NetworkxStore.open(str(tmp_path / "graph.json"))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"graph.json": content}
    assert caught.value.code == "foreign_file"


def test_a_graph_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"format": 99, "edges": []}')
    with pytest.raises(Unavailable, match="newer knowloom"):
        NetworkxStore.open(str(tmp_path / "g.json"))


def test_a_graph_file_that_is_not_json_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text("[")
    with pytest.raises(Corrupt, match=r"h\.json"):
        NetworkxStore.open(str(tmp_path / "h.json"))
