"""Validation of three layers, entry by entry."""

from __future__ import annotations

from typing import Any

import pytest
from structured_text import (
    GOOD,
    PIECE,
    piece,
    pieces,
)

from knowloom.errors import Invalid
from knowloom.structuring import prompting, schema


class TestSchema:
    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"extra": 1}, "extra"),
            ({"metadata": []}, "metadata"),
            ({"metadata": {"User Alice": {"entity_type": "user"}}}, "metadata['User Alice']"),
            (
                {"metadata": {"user:alice": {"properties": {}}}},
                "metadata['user:alice'].entity_type",
            ),
            (
                {"metadata": {"user:alice": {"entity_type": "user", "properties": []}}},
                "metadata['user:alice'].properties",
            ),
            ({"pieces": {}}, "pieces"),
            ({"pieces": ["x"]}, "pieces[0]"),
            ({"pieces": [piece(piece_id="warmStart")]}, "pieces[0].piece_id"),
            ({"pieces": [piece(piece_id="user:warm")]}, "pieces[0].piece_id"),
            ({"pieces": [piece(content=" ")]}, "pieces[0].content"),
            ({"pieces": [piece(knowledge_type="Fact")]}, "pieces[0].knowledge_type"),
            ({"pieces": [piece(info_type=None)]}, "pieces[0].info_type"),
            ({"pieces": [piece(tags="a")]}, "pieces[0].tags"),
            ({"pieces": [piece(tags=["a", 1])]}, "pieces[0].tags[1]"),
            ({"pieces": [piece(entity_id="user:nobody")]}, "pieces[0].entity_id"),
            ({"pieces": [piece(titel="x")]}, "pieces[0].titel"),
            ({"pieces": [PIECE, PIECE]}, "pieces[1].piece_id"),
            ({"graph": {"links": []}}, "graph.links"),
            ({"graph": {"nodes": [{"node_id": "les", "label": "x"}]}}, "graph.nodes[0].node_type"),
            (
                {
                    "graph": {
                        "edges": [{"source_id": "user:alice", "target_id": "x", "edge_type": "T"}]
                    }
                },
                "graph.edges[0].target_id",
            ),
            (
                {"graph": {"edges": [{"source_id": "user:alice", "target_id": "user:alice"}]}},
                "graph.edges[0].edge_type",
            ),
            (
                {
                    "graph": {
                        "edges": [
                            {
                                "source_id": "user:alice",
                                "target_id": "user:alice",
                                "edge_type": "T",
                                "properties": {"piece_id": "no"},
                            }
                        ]
                    }
                },
                "graph.edges[0].properties.piece_id",
            ),
        ],
    )
    def test_every_problem_names_its_place(self, change: dict[str, Any], place: str) -> None:
        layers = {name: layer for name, layer in GOOD.items() if name != "graph"} | change
        _, problems = schema.validate_layers(layers)
        assert place in [problem.where for problem in problems]

    def test_valid_layers_have_no_problems_and_are_unchanged(self) -> None:
        assert schema.validate_layers(GOOD) == (GOOD, [])
        assert (
            schema.validate_layers(pieces(piece(piece_id="überblick-2", info_type="anything")))[1]
            == []
        )

    def test_deeply_nested_json_is_invalid(self) -> None:
        with pytest.raises(Invalid, match="not JSON"):
            prompting.parse_answer('{"a": ' + "[" * 100_000)
