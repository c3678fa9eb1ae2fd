"""Three layers become items and edges; invalid entries are reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loads import MAYA, counts, ids, reasons, write_files

import knowloom
from knowloom import Edge, Kind
from knowloom.engine import Engine
from knowloom.wire.knowledge import edge_to_json, item_to_json
from paths import ROOT


class TestThreeLayers:
    def test_each_layer_becomes_items_and_edges(self, kb: Engine) -> None:
        report = kb.load(ROOT / "examples" / "maya.json", space="care")
        assert (counts(report), report.edges, report.skipped) == ((7, 0, 0, 0), 2, ())
        maya, piece, team = kb.get(
            ["user:maya", "open-chargebacks-block-refunds", "team:payments-operations"],
            space="care",
        )
        assert (maya.kind, maya.type, maya.title, maya.section) == (
            Kind.PROFILE,
            "user",
            "Maya Okafor",
            "user_profile",
        )
        assert maya.properties == MAYA["metadata"]["user:maya"]["properties"]
        assert (piece.kind, piece.type, piece.section, piece.subject) == (
            Kind.NODE,
            "instruction",
            "instructions",
            "user:maya",
        )
        assert (piece.text, piece.embedding_text) == (
            MAYA["pieces"][0]["content"],
            MAYA["pieces"][0]["embedding_text"],
        )
        assert (team.kind, team.type, team.title, team.properties) == (
            Kind.ENTITY,
            "team",
            "Payments Operations",
            {"channel": "#payments"},
        )
        assert list(kb.edges()) == [
            Edge(
                "user:maya",
                "skill:chargebacks",
                "SPECIALIZES_IN",
                space="care",
                item_id="open-chargebacks-block-refunds",
            ),
            Edge(
                "user:maya",
                "team:payments-operations",
                "WORKS_WITH",
                space="care",
                properties={"since": 2024},
            ),
        ]

    def test_a_dict_gives_the_same_as_the_file_and_a_second_load_changes_nothing(
        self, kb: Engine
    ) -> None:
        kb.load(MAYA, space="care")
        digest = kb.maintenance.stats().spaces[0].digest
        for source in (ROOT / "examples" / "maya.json", MAYA):
            report = kb.load(source, space="care")
            assert (counts(report), report.edges) == ((0, 0, 7, 0), 0)
        assert kb.maintenance.stats().spaces[0].digest == digest

    @pytest.mark.parametrize("names", [("graph", "metadata", "pieces"), ("z", "y", "x")])
    def test_one_file_per_layer_loads_the_same_as_one_file(
        self, kb: Engine, tmp_path: Path, names: tuple[str, ...]
    ) -> None:
        kb.load(MAYA, space="one")
        for name, layer in zip(names, ("graph", "metadata", "pieces"), strict=True):
            (tmp_path / f"{name}.json").write_text(json.dumps({layer: MAYA[layer]}))
        first, again = kb.load(tmp_path, space="files"), kb.load(tmp_path, space="files")
        assert (counts(first), first.edges, first.skipped) == ((7, 0, 0, 0), 2, ())
        assert (counts(again), again.edges, again.skipped) == ((0, 0, 7, 0), 0, ())
        whole, parts = (
            [replace(item, space="", created_at=None) for item in kb.items([space])]
            for space in ("one", "files")
        )
        assert whole == parts

    @pytest.mark.parametrize("names", [("graph", "metadata", "pieces"), ("z", "y", "x")])
    def test_the_node_remains_when_its_profile_vanishes_from_the_source(
        self, kb: Engine, tmp_path: Path, names: tuple[str, ...]
    ) -> None:
        for name, layer in zip(names, ("graph", "metadata", "pieces"), strict=True):
            (tmp_path / f"{name}.json").write_text(json.dumps({layer: MAYA[layer]}))
        kb.load(tmp_path, space="s")
        (tmp_path / f"{names[1]}.json").write_text("broken")
        assert counts(kb.load(tmp_path, space="s"))[1::2] == (0, 0)
        (tmp_path / f"{names[1]}.json").unlink()
        assert counts(kb.load(tmp_path, space="s", keep=True))[1::2] == (0, 0)
        assert counts(kb.load(tmp_path, space="s"))[1::2] == (
            1,
            1,
        )  # user:maya becomes a node, global is no more
        (maya,) = kb.get("user:maya", space="s")
        assert (maya.kind, maya.title, maya.properties, len(list(kb.edges()))) == (
            Kind.ENTITY,
            "Maya Okafor",
            {},
            2,
        )
        (tmp_path / f"{names[1]}.json").write_text(json.dumps({"metadata": MAYA["metadata"]}))
        assert counts(kb.load(tmp_path, space="s"))[:2] == (1, 1)
        assert counts(kb.load(tmp_path, space="s")) == (0, 0, 7, 0)

    def test_an_entity_has_one_node_and_one_profile(self, kb: Engine, tmp_path: Path) -> None:
        node, profile = (
            {"graph": {"nodes": [{"node_id": "e", "node_type": "user", "label": "E"}]}},
            {"metadata": {"e": {"entity_type": "user"}}},
        )
        files = {
            "a_json": node,
            "b_json": profile,
            "c_json": node,
            "d_json": {"pieces": [{"piece_id": "e", "content": "x"}]},
        }
        report = kb.load(
            write_files(tmp_path, **{name: json.dumps(layers) for name, layers in files.items()}),
            space="s",
        )
        assert [Path(skip.where.partition(":")[0]).name for skip in report.skipped] == [
            "c.json",
            "d.json",
        ]
        assert [(item.kind, item.title) for item in kb.items()] == [(Kind.PROFILE, "E")]

    @pytest.mark.parametrize(
        ("layer", "entry", "where", "reason"),
        [
            (
                "metadata",
                {"x": {"properties": {"a": 1}}},
                "metadata['x']",
                "entity_type is missing",
            ),
            (
                "metadata",
                {"x": {"entity_type": "user", "entity_id": "y"}},
                "metadata['x']",
                "entity_id must be 'x', the key of its entry, got 'y'",
            ),
            (
                "metadata",
                {"x": {"entity_type": "user", "properties": [1]}},
                "metadata['x']",
                "properties must be an object, got list",
            ),
            ("metadata", {"x": 5}, "metadata['x']", "not an object"),
            ("metadata", [], "metadata", "not an object of entities by their ids"),
            (
                "pieces",
                [{"piece_id": "x", "content": "  "}],
                "pieces[0]",
                "content must not be empty",
            ),
            ("pieces", [{"piece_id": "x"}], "pieces[0]", "content is missing"),
            (
                "pieces",
                [{"piece_id": "x", "content": 7}],
                "pieces[0]",
                "content must be text, got int",
            ),
            (
                "pieces",
                [{"piece_id": "x", "content": "c", "knowledge_type": "rumour"}],
                "pieces[0]",
                "unknown knowledge_type 'rumour'; available: episodic, fact, instruction, note, "
                "preference, procedure",
            ),
            (
                "pieces",
                [{"piece_id": "x", "content": "c", "tags": "a"}],
                "pieces[0]",
                "tags must be a list of texts",
            ),
            (
                "pieces",
                [{"piece_id": "x", "content": "c", "colour": 1}],
                "pieces[0]",
                "unknown field 'colour'; available: confidence, content",
            ),
            ("pieces", {}, "pieces", "not a list"),
            (
                "graph",
                {"nodes": [{"node_type": "t", "label": "L"}]},
                "graph.nodes[0]",
                "node_id is missing",
            ),
            (
                "graph",
                {"nodes": [{"node_id": "n", "label": "L"}]},
                "graph.nodes[0]",
                "node_type is missing",
            ),
            (
                "graph",
                {"edges": [{"source_id": "a", "target_id": "gone", "edge_type": "T"}]},
                "graph.edges[0]",
                "no item 'a'",
            ),
            (
                "graph",
                {"edges": [{"source_id": "a", "edge_type": "T"}]},
                "graph.edges[0]",
                "target_id is missing",
            ),
            ("graph", {"links": []}, "graph", "unknown field 'links'; available: edges, nodes"),
            ("graph", 5, "graph", "not an object with nodes and edges"),
            (
                "version",
                2,
                "version",
                "unknown layer 'version'; available: graph, metadata, pieces",
            ),
        ],
    )
    def test_an_invalid_entry_is_reported_and_the_others_are_stored(
        self, kb: Engine, layer: str, entry: object, where: str, reason: str
    ) -> None:
        good = {"metadata": {"global": {"entity_type": "org", "properties": {"a": 1}}}}
        layers = {
            **good,
            "pieces": [],
            layer: {**good["metadata"], **entry}
            if layer == "metadata" and isinstance(entry, dict)
            else entry,
        }
        report = kb.load(layers, space="s")
        assert [skip.where for skip in report.skipped] == [f"dict: {where}"]
        assert reason in report.skipped[0].why
        assert report.added == (0 if entry == [] else 1)

    def test_any_info_type_is_accepted_and_missing_fields_have_defaults(self, kb: Engine) -> None:
        kb.load(
            {
                "pieces": [
                    {
                        "piece_id": "a",
                        "content": "c",
                        "info_type": "house rules",
                        "knowledge_type": "Fact",
                    },
                    {"content": "Boil the water first."},
                ]
            },
            space="s",
        )
        a, b = sorted(kb.items(), key=lambda item: item.section, reverse=True)
        assert (a.section, a.type, b.section, b.type) == ("house rules", "fact", "context", "fact")
        assert b.id.startswith("boil-the-water-first-")

    def test_an_edge_without_its_piece_is_stored_and_completed_later(self, kb: Engine) -> None:
        broken = {**MAYA, "pieces": MAYA["pieces"][1:]}
        report = kb.load(broken, space="s")
        assert reasons(report) == [
            "no item 'open-chargebacks-block-refunds' in space 's'; the edge is stored"
        ]
        assert next(iter(kb.edges())).properties == {"piece_id": "open-chargebacks-block-refunds"}
        kb.load(MAYA, space="s")
        assert next(iter(kb.edges())).item_id == "open-chargebacks-block-refunds"

    def test_an_edge_of_a_deleted_piece_can_be_exported_and_loaded(self, kb: Engine) -> None:
        kb.load(MAYA, space="s")
        kb.delete("open-chargebacks-block-refunds", space="s")
        rows = {
            "items": [item_to_json(item) for item in kb.items()],
            "edges": [edge_to_json(edge) for edge in kb.edges()],
        }
        with knowloom.open("memory:", embedder=None) as other:
            report = other.load(rows)
            assert (report.edges, reasons(report)) == (
                2,
                ["no item 'open-chargebacks-block-refunds' in space 's'; the edge is stored"],
            )
            assert (other.maintenance.stats().spaces[0].digest, other.verify()) == (
                kb.maintenance.stats().spaces[0].digest,
                [],
            )
        assert kb.load(rows).edges == 0

    def test_a_node_of_one_file_does_not_replace_the_profile_of_another(self, kb: Engine) -> None:
        profile = {"metadata": MAYA["metadata"]}
        graph = {
            "graph": {
                "nodes": [
                    {
                        "node_id": "user:maya",
                        "node_type": "user",
                        "label": "Maya Okafor",
                        "properties": {"shoe": 39},
                    }
                ]
            }
        }
        for _ in range(2):
            kb.load(profile, space="s")
            report = kb.load(graph, space="s")
        (maya,) = kb.get("user:maya", space="s")
        assert (maya.kind, maya.title, maya.properties) == (
            Kind.PROFILE,
            "Maya Okafor",
            MAYA["metadata"]["user:maya"]["properties"],
        )
        assert reasons(report) == ["shoe: not kept, as the entity has a profile; set them there"]
        assert counts(report) == (0, 0, 1, 0)

    def test_a_duplicate_edge_is_reported(self, kb: Engine) -> None:
        links = [
            {"source_id": "a", "target_id": "b", "edge_type": "USES", "properties": {"n": n}}
            for n in (1, 1, 2)
        ]
        report = kb.load(
            {
                "graph": {
                    "nodes": [{"node_id": id, "node_type": "t"} for id in "ab"],
                    "edges": links,
                }
            },
            space="s",
        )
        assert [(skip.where, skip.why) for skip in report.skipped] == [
            ("dict: graph.edges[2]", "duplicate edge 'a' -[USES]-> 'b'; the first is used")
        ]

    def test_circular_and_deeply_nested_entries_are_reported(self, kb: Engine) -> None:
        loop: dict[str, Any] = {}
        loop["again"] = loop
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        pieces = [
            {"piece_id": "a", "content": "x", "properties": loop},
            deep,
            {"piece_id": "b", "content": "fine"},
        ]
        report = kb.load({"pieces": pieces}, space="s")
        assert ids(kb) == ["b"]
        assert ["nested more than 32 deep" in reasons(report)[0], reasons(report)[1]] == [
            True,
            "not an object",
        ]
        del deep, pieces
