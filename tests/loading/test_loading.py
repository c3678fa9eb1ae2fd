"""Knowledge from files and folders: three layers, pages in sections, and a second load that changes only what changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Invalid, Item, Kind, Report
from knowloom.engine import Engine
from knowloom.loading import front_matter, markdown, provenance, readers
from knowloom.loading.loader import Loading
from knowloom.validation import LEDGER
from knowloom.wire import encoding as wire
from paths import ROOT

MAYA: dict[str, Any] = json.loads((ROOT / "examples" / "maya.json").read_text("utf-8"))


@pytest.fixture(params=["memory", "sqlite"])
def kb(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    url = "memory:" if request.param == "memory" else str(tmp_path_factory.mktemp("store") / "k.db")
    with knowloom.open(url, embedder=None) as opened:
        yield opened
        assert opened.verify() == []


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def ids(kb: Engine) -> list[str]:
    return [item.id for item in kb.items()]


def counts(report: Report) -> tuple[int, int, int, int]:
    return (report.added, report.updated, report.unchanged, report.removed)


def whys(report: Report) -> list[str]:
    return [one.why for one in report.skipped]


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
        digest = kb.stats().spaces[0].digest
        for source in (ROOT / "examples" / "maya.json", MAYA):
            report = kb.load(source, space="care")
            assert (counts(report), report.edges) == ((0, 0, 7, 0), 0)
        assert kb.stats().spaces[0].digest == digest

    @pytest.mark.parametrize("names", [("graph", "metadata", "pieces"), ("z", "y", "x")])
    def test_layers_in_a_file_each_give_the_same_as_one_file(
        self, kb: Engine, tmp_path: Path, names: tuple[str, ...]
    ) -> None:
        kb.load(MAYA, space="one")
        for name, layer in zip(names, ("graph", "metadata", "pieces"), strict=True):
            (tmp_path / f"{name}.json").write_text(json.dumps({layer: MAYA[layer]}))
        first, again = kb.load(tmp_path, space="files"), kb.load(tmp_path, space="files")
        assert (counts(first), first.edges, first.skipped) == ((7, 0, 0, 0), 2, ())
        assert (counts(again), again.edges, again.skipped) == ((0, 0, 7, 0), 0, ())
        one, files = (
            [replace(item, space="", created_at=None) for item in kb.items([space])]
            for space in ("one", "files")
        )
        assert one == files

    @pytest.mark.parametrize("names", [("graph", "metadata", "pieces"), ("z", "y", "x")])
    def test_a_profile_that_vanished_from_its_source_leaves_the_node(
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
            write(tmp_path, **{name: json.dumps(layers) for name, layers in files.items()}),
            space="s",
        )
        assert [Path(one.where.partition(":")[0]).name for one in report.skipped] == [
            "c.json",
            "d.json",
        ]
        assert [(item.kind, item.title) for item in kb.items()] == [(Kind.PROFILE, "E")]

    @pytest.mark.parametrize(
        ("layer", "entry", "where", "why"),
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
                "entity_id 'y' stands under the name 'x'",
            ),
            (
                "metadata",
                {"x": {"entity_type": "user", "properties": [1]}},
                "metadata['x']",
                "properties must be an object, not list",
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
                "content must be text, not int",
            ),
            (
                "pieces",
                [{"piece_id": "x", "content": "c", "knowledge_type": "rumour"}],
                "pieces[0]",
                "no knowledge_type 'rumour'; known: episodic, fact, instruction, note, preference, procedure",
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
                "no field 'colour'; known: confidence, content",
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
                "there is no item 'a'",
            ),
            (
                "graph",
                {"edges": [{"source_id": "a", "edge_type": "T"}]},
                "graph.edges[0]",
                "target_id is missing",
            ),
            ("graph", {"links": []}, "graph", "no field 'links'; known: edges, nodes"),
            ("graph", 5, "graph", "not an object with nodes and edges"),
            ("version", 2, "version", "no layer 'version'; known: metadata, pieces, graph"),
        ],
    )
    def test_an_entry_that_is_not_right_is_reported_and_the_rest_is_stored(
        self, kb: Engine, layer: str, entry: object, where: str, why: str
    ) -> None:
        good = {"metadata": {"global": {"entity_type": "org", "properties": {"a": 1}}}}
        given = {
            **good,
            "pieces": [],
            layer: {**good["metadata"], **entry}
            if layer == "metadata" and isinstance(entry, dict)
            else entry,
        }
        report = kb.load(given, space="s")
        assert [one.where for one in report.skipped] == [f"dict: {where}"]
        assert why in report.skipped[0].why
        assert report.added == (0 if entry == [] else 1)

    def test_any_info_type_is_taken_and_what_is_not_said_has_a_default(self, kb: Engine) -> None:
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

    def test_a_link_whose_piece_is_missing_is_kept_without_it_and_completed_later(
        self, kb: Engine
    ) -> None:
        broken = {**MAYA, "pieces": MAYA["pieces"][1:]}
        report = kb.load(broken, space="s")
        assert whys(report) == [
            "there is no item 'open-chargebacks-block-refunds' in space 's': the link is kept"
        ]
        assert next(iter(kb.edges())).properties == {"piece_id": "open-chargebacks-block-refunds"}
        kb.load(MAYA, space="s")
        assert next(iter(kb.edges())).item_id == "open-chargebacks-block-refunds"

    def test_what_a_deleted_piece_explained_can_be_exported_and_loaded(self, kb: Engine) -> None:
        kb.load(MAYA, space="s")
        kb.delete("open-chargebacks-block-refunds", space="s")
        rows = {
            "items": [wire.item(item) for item in kb.items()],
            "edges": [wire.edge(edge) for edge in kb.edges()],
        }
        with knowloom.open("memory:", embedder=None) as other:
            report = other.load(rows)
            assert (report.edges, whys(report)) == (
                2,
                [
                    "there is no item 'open-chargebacks-block-refunds' in space 's': the link is kept"
                ],
            )
            assert (other.stats().spaces[0].digest, other.verify()) == (
                kb.stats().spaces[0].digest,
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
        assert whys(report) == ["shoe: not kept, as the entity has a profile; say it there"]
        assert counts(report) == (0, 0, 1, 0)

    def test_two_links_between_the_same_entities_are_not_silently_one(self, kb: Engine) -> None:
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
        assert [(one.where, one.why) for one in report.skipped] == [
            ("dict: graph.edges[2]", "the link 'a' -[USES]-> 'b' stands twice; the first is kept")
        ]

    def test_what_contains_itself_is_reported(self, kb: Engine) -> None:
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
        assert ["nested more than 32 deep" in whys(report)[0], whys(report)[1]] == [
            True,
            "not an object",
        ]
        del deep, pieces


PAGE = """---
title: Boats
tags: harbour, boats
owner: Ada
built: 2020-02-29
---
Above all headings.

# Hull *and* `keel`
Text of the hull.

```
# not a heading
```

## Paint
Red.

~~~text
## neither
~~~

    # nor this

Sail
====
White.

## Paint
Again, for the sail.
"""


class TestPages:
    def test_a_page_is_split_at_headings_and_code_stays_whole(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        assert counts(kb.load(write(tmp_path, boats_md=PAGE) / "boats.md", space="s")) == (
            5,
            0,
            0,
            0,
        )
        found = {item.id: item for item in kb.items()}
        assert {id: item.title for id, item in found.items()} == {
            "boats": "Boats",
            "boats#hull-and-keel": "Boats > Hull and keel",
            "boats#paint": "Boats > Hull and keel > Paint",
            "boats#paint-2": "Boats > Sail > Paint",
            "boats#sail": "Boats > Sail",
        }
        assert found["boats#hull-and-keel"].text == "Text of the hull.\n\n```\n# not a heading\n```"
        assert found["boats#paint"].text == "Red.\n\n~~~text\n## neither\n~~~\n\n    # nor this"
        assert found["boats"].properties == {"owner": "Ada", "built": "2020-02-29"}
        assert {(item.source, item.tags) for item in found.values()} == {
            ("boats.md", ("harbour", "boats"))
        }
        assert {(edge.source, edge.target) for edge in kb.edges()} == {
            ("boats#hull-and-keel", "boats"),
            ("boats#paint", "boats#hull-and-keel"),
            ("boats#paint-2", "boats#sail"),
            ("boats#sail", "boats"),
        }
        assert {edge.type for edge in kb.edges()} == {"parent"}

    def test_a_single_first_heading_is_the_title_of_the_page(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        kb.load(write(tmp_path, guide__a_md="# Guide\nHello.\n## Start\nGo.\n"), space="s")
        assert [(item.id, item.title, item.text) for item in kb.items()] == [
            ("guide/a", "Guide", "Hello."),
            ("guide/a#start", "Guide > Start", "Go."),
        ]

    def test_headings_in_lists_and_quotes_do_not_split(self) -> None:
        assert [one.title for one in markdown.markdown("- a\n\n  # b\n\n> # c\n\n# d\n")] == [
            "",
            "d",
        ]

    def test_a_long_section_is_split_between_paragraphs_and_code_never_is(self) -> None:
        paragraph, code = "word " * 150 + "end.", "```\n" + "line of code\n\n" * 300 + "```"
        (section,) = markdown.markdown(
            "\n\n".join([paragraph, paragraph, paragraph, code, paragraph])
        )
        assert section.parts == (f"{paragraph}\n\n{paragraph}", paragraph, code, paragraph)

    def test_a_long_list_is_split_between_its_entries(self) -> None:
        entries = [f"- entry {number} " + "x" * 90 + "\n  goes on" for number in range(50)]
        (section,) = markdown.markdown("\n".join(entries))
        assert "\n".join(section.parts) == "\n".join(entries)
        assert len(section.parts) > 2
        assert all(
            part.startswith("- entry") and len(part) <= markdown.LONG for part in section.parts
        )

    def test_the_parts_of_a_long_section_are_items_that_belong_to_the_first(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        text = "\n\n".join(["word " * 300] * 3)
        kb.load(write(tmp_path, log_txt=text), space="s")
        assert [(item.id, item.title) for item in kb.items()] == [
            ("log.txt", "log"),
            ("log.txt/2", "log (2)"),
            ("log.txt/3", "log (3)"),
        ]
        assert [(edge.source, edge.target) for edge in kb.edges()] == [
            ("log.txt/2", "log.txt"),
            ("log.txt/3", "log.txt"),
        ]

    def test_no_text_of_a_page_is_lost(self) -> None:
        for page in sorted((ROOT / "docs").glob("*.md")):
            text = page.read_text("utf-8")
            kept = "".join(
                part for one in markdown.markdown(text) for part in (one.title, *one.parts)
            )
            words = [
                word
                for line in text.splitlines()
                if not line.startswith("#")
                for word in line.split()
            ]
            assert [word for word in words if word not in kept] == []

    def test_a_folder_of_pages_rows_and_layers_is_loaded(self, kb: Engine, tmp_path: Path) -> None:
        folder = write(
            tmp_path / "mixed",
            a_md="# A\nx",
            deep__b_txt="y",
            rows_jsonl='{"id": "r", "text": "z"}',
            maya_json=json.dumps(MAYA),
        )
        write(folder, _hidden__c_md="hidden", _secret_md="hidden")
        (folder / "picture.png").write_bytes(b"\x89PNG\0")
        (folder / "broken.md").write_bytes(b"text\0more")
        report = kb.load(folder)
        assert [(space.name, space.items) for space in kb.stats().spaces] == [
            ("maya", 7),
            ("mixed", 2),
            ("rows", 1),
        ]
        assert [(Path(one.where).name, one.why.partition(";")[0]) for one in report.skipped] == [
            ("broken.md", "binary: byte 4 is 0"),
            ("mixed", "not of a kind that can be loaded: .png (1)"),
        ]

    def test_the_example_pages_answer_a_question(self, kb: Engine) -> None:
        report = kb.load(ROOT / "examples" / "docs")
        assert report.skipped == ()
        assert (
            kb.search("restart checkout", spaces=["docs"])[0].item.id
            == "on-call#restart-the-checkout"
        )


class TestFrontMatter:
    @pytest.mark.parametrize(
        ("head", "why"),
        [
            ("a: &x [1]\nb: *x", "line 3: aliases (*x) are not taken"),
            ("a: " + "[" * 500 + "]" * 500, "nested more than 16 deep"),
            ("a: [1", "not YAML: line"),
            ("- a\n- b", "must be names with values, not list"),
            ("a: " + "x" * 70_000, "the most is 64,000"),
            ("a: !!python/object/apply:os.system [ls]", "not YAML"),
            ("a: 2026-02-30", "not YAML"),
        ],
    )
    def test_what_is_not_plain_yaml_is_reported_and_the_page_goes_on(
        self, kb: Engine, tmp_path: Path, head: str, why: str
    ) -> None:
        report = kb.load(write(tmp_path, p_md=f"---\n{head}\n---\nBody.\n"), space="s")
        assert (ids(kb), [item.text for item in kb.items()]) == (["p"], ["Body."])
        assert [(one.what, why in one.why) for one in report.skipped] == [("front matter", True)]

    def test_what_json_does_not_know_becomes_text(self) -> None:
        said = front_matter.values(
            "a: .nan\nb: 2026-01-02T03:04:05Z\nc: !!set {x, y}\n7: yes\nd: {e: null}"
        )
        assert said == {
            "a": "nan",
            "b": "2026-01-02T03:04:05Z",
            "c": ["x", "y"],
            "7": True,
            "d": {"e": None},
        }

    def test_a_rule_of_dashes_is_no_front_matter(self) -> None:
        assert front_matter.parted("text\n---\nmore\n---\n") == ("", "text\n---\nmore\n---\n")


class TestLoadingAgain:
    def folder(self, tmp_path: Path) -> Path:
        return write(
            tmp_path / "docs",
            a_md="# A\nx\n## One\n1\n## Two\n2\n",
            b_md="# B\ny\n",
            rows_jsonl='{"id": "r1", "text": "z"}\n{"id": "r2", "text": "z"}\n',
        )

    def test_only_what_changed_is_written_and_what_vanished_is_removed(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        assert counts(kb.load(folder, space="s")) == (6, 0, 0, 0)
        assert counts(kb.load(folder, space="s")) == (0, 0, 6, 0)
        write(
            folder,
            a_md="# A\nx\n## One\nchanged\n## Three\n3\n",
            rows_jsonl='{"id": "r2", "text": "z"}\n',
        )
        (folder / "b.md").unlink()
        report = kb.load(folder, space="s")
        assert (counts(report), ids(kb)) == ((1, 1, 2, 3), ["a", "a#one", "a#three", "r2"])
        assert {(edge.source, edge.target) for edge in kb.edges()} == {
            ("a#one", "a"),
            ("a#three", "a"),
        }
        assert kb.load(folder, space="s") == Report(unchanged=4)

    def test_nothing_is_removed_when_it_is_to_be_kept_until_it_is_not(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        (folder / "b.md").unlink()
        assert counts(kb.load(folder, space="s", keep=True)) == (0, 0, 5, 0)
        assert counts(kb.load(folder, space="s")) == (0, 0, 5, 1)

    def test_the_same_folder_written_differently_is_the_same_source(
        self, kb: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        (folder / "b.md").unlink()
        (folder / "rows.jsonl").unlink()
        monkeypatch.chdir(tmp_path)
        assert kb.load("docs/", space="s").removed == 3
        write(folder, b_md="# B\n")
        os.symlink(folder, tmp_path / "link")
        assert kb.load(tmp_path / "link", space="s").added == 1
        (folder / "b.md").unlink()
        (tmp_path / "x").mkdir()
        assert kb.load(f"{tmp_path}/x/../docs", space="s").removed == 1

    def test_a_file_that_cannot_be_read_keeps_its_items(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        write(folder, rows_json=json.dumps([{"id": "j", "text": "x"}]))
        kb.load(folder, space="s")
        (folder / "a.md").write_bytes(b"# A\n\xff")
        (folder / "rows.json").write_text('[{"id": "j", ')
        (folder / "rows.jsonl").write_text('{"id": "r1", "text": "z"}\n{"id": "r2", \n')
        (folder / "b.md").unlink()
        report = kb.load(folder, space="s")
        assert (report.removed, ids(kb)) == (1, ["a", "a#one", "a#two", "j", "r1", "r2"])
        assert [edge.source for edge in kb.edges()] == ["a#one", "a#two"]
        assert "line 1 column 14" in whys(report)[1]
        for name, text in (
            ("a.md", "# A\nx\n"),
            ("rows.json", "[]"),
            ("rows.jsonl", '{"id": "r1", "text": "z"}\n'),
        ):
            (folder / name).write_text(text)
        assert (kb.load(folder, space="s").removed, ids(kb)) == (4, ["a", "r1"])

    def test_other_sources_and_what_was_put_by_hand_are_never_removed(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        other = write(tmp_path / "other", c_md="# C\nz\n", rows_jsonl='{"id": "r1", "text": "z"}\n')
        kb.add([Item("hand", "s", text="by hand"), Item("r2", "s", text="z")])
        kb.load(folder, space="s")
        kb.load(other, space="s")
        kb.load(folder, space="t")
        kb.add(Item("b", "s", title="B", text="corrected by hand", source="b.md"))
        for name in ("a.md", "b.md", "rows.jsonl"):
            (folder / name).unlink()
        write(folder, z_md="# Z\n")
        assert kb.load(folder, space="s").removed == 3
        assert [item.id for item in kb.items(["s"])] == ["b", "c", "hand", "r1", "r2", "z"]
        assert len(list(kb.items(["t"]))) == 6
        (other / "rows.jsonl").unlink()
        assert kb.load(other, space="s").removed == 1

    def test_an_item_that_moves_to_another_file_stays(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        shutil.move(folder / "rows.jsonl", folder / "moved.jsonl")
        assert kb.load(folder, space="s") == Report(unchanged=6)

    def test_links_that_vanished_are_removed_and_those_by_hand_stay(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        path = tmp_path / "maya.json"
        path.write_text(json.dumps(MAYA))
        kb.load(path, space="s")
        kb.add([], [Edge("user:maya", "train-new-agents", "WROTE", space="s")])
        path.write_text(
            json.dumps({**MAYA, "graph": {"nodes": MAYA["graph"]["nodes"], "edges": []}})
        )
        report = kb.load(path, space="s")
        assert (report.edges, report.removed, [edge.type for edge in kb.edges()]) == (
            2,
            0,
            ["WROTE"],
        )

    def test_an_interrupted_load_is_remembered(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        stores = kb._stores

        class Stop(Exception):
            pass

        class Stopped(Loading):
            def _remember(self) -> None:
                raise Stop

        with pytest.raises(Stop):
            Stopped(
                stores, kb._door.parsed, kb._apply, kb._clock(), provenance.origin(folder, "s")
            ).run(readers.parts(folder, "s"), keep=False)
        (folder / "b.md").unlink()
        assert counts(kb.load(folder, space="s")) == (0, 0, 5, 1)

    def test_a_folder_that_lost_everything_is_refused_and_nothing_is_wiped(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        for file in folder.iterdir():
            file.unlink()
        with pytest.raises(Invalid, match="file in"):
            kb.load(folder, space="s")
        assert len(ids(kb)) == 6

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.jsonl", '{"id": "a", "text": "x"}\n'),
            ("a.json", '[{"id": "a", "text": "x"}]'),
            ("a.md", "# A\n\nx\n"),
        ],
    )
    def test_a_file_that_lost_everything_is_reported_and_nothing_is_wiped(
        self, kb: Engine, tmp_path: Path, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text)
        kb.load(tmp_path / name, space="s")
        (tmp_path / name).write_text("")
        for source in (tmp_path / name, tmp_path):
            report = kb.load(source, space="s")
            assert (counts(report), [one.what for one in report.skipped], len(ids(kb))) == (
                (0, 0, 0, 0),
                ["the whole file"],
                1,
            )

    def test_many_items_are_remembered_page_by_page(self, kb: Engine, tmp_path: Path) -> None:
        path = tmp_path / "many.jsonl"
        rows = [json.dumps({"id": f"i{number:04}", "text": "x"}) for number in range(2500)]
        path.write_text("\n".join(rows))
        kb.load(path, space="s")
        path.write_text("\n".join([*rows[:-1], json.dumps({"id": "new", "text": "x"})]))
        assert counts(kb.load(path, space="s")) == (1, 0, 2499, 1)
        assert kb.load(path, space="s") == Report(unchanged=2500)

    def test_what_knowloom_remembers_is_seen_by_nobody(self, kb: Engine, tmp_path: Path) -> None:
        kb.load(self.folder(tmp_path), space="s")
        assert [info.name for info in kb.stats().spaces] == ["s"]
        assert {item.space for item in kb.items()} == {"s"}
        for call in (
            lambda: kb.search("x", spaces=[LEDGER]),
            lambda: kb.get("x", space=LEDGER),
            lambda: kb.delete("x", space=LEDGER),
        ):
            with pytest.raises(knowloom.NotFound):
                call()
        with pytest.raises(Invalid, match="is knowloom's own"):
            kb.add(Item("x", LEDGER, text="x"))
        with pytest.raises(Invalid, match="is knowloom's own"):
            kb.add([], [Edge("r1", "x", space="s", target_space=LEDGER)])

    def test_it_is_remembered_after_reindexing(self, kb: Engine, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        kb.load(folder, space="s")
        kb.reindex()
        (folder / "b.md").unlink()
        assert counts(kb.load(folder, space="s")) == (0, 0, 5, 1)


class TestBadFiles:
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.md", "# Ärger\nx\n"),
            ("a.jsonl", '{"id": "a", "title": "Ärger"}\n'),
            ("a.json", '[{"id": "a", "title": "Ärger"}]'),
        ],
    )
    def test_a_byte_order_mark_says_how_to_read(
        self, kb: Engine, tmp_path: Path, encoding: str, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text, encoding=encoding)
        assert kb.load(tmp_path / name, space="s").skipped == ()
        assert [item.title for item in kb.items()] == ["Ärger"]

    @pytest.mark.parametrize(
        ("name", "content", "why"),
        [
            (
                "a.md",
                "# caf\u00e9".encode("latin-1"),
                "not UTF-8: byte 5 is 0xe9 (unexpected end of data); save it as UTF-8",
            ),
            ("a.md", b"", "empty: there is no text in it"),
            ("a.txt", b" \n\n", "empty: there is no text in it"),
            ("a.json", b'{"pieces": [,]}', "not JSON: Expecting value: line 1 column 13 (char 12)"),
            ("a.json", b"[" * 100_000, "not JSON: nested too deeply"),
            (
                "a.md",
                b"\xff\xfe\x00",
                "not UTF-16: byte 2 is 0x00 (truncated data); save it as UTF-8",
            ),
        ],
    )
    def test_what_cannot_be_read_is_reported_with_its_place(
        self, kb: Engine, tmp_path: Path, name: str, content: bytes, why: str
    ) -> None:
        (tmp_path / name).write_bytes(content)
        assert whys(kb.load(tmp_path / name, space="s")) == [why]

    def test_folders_that_lead_back_to_themselves_are_read_once(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = write(tmp_path / "docs", a_md="# A\nx", deep__b_md="# B\ny")
        os.symlink(folder, folder / "deep" / "up")
        os.symlink(tmp_path / "nowhere", folder / "gone.md")
        report = kb.load(folder, space="s")
        assert (ids(kb), [(Path(one.where).name, one.why) for one in report.skipped]) == (
            ["a", "deep/b"],
            [
                ("up", "leads to a folder that is read already"),
                ("gone.md", "cannot be read: No such file or directory"),
            ],
        )

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    def test_a_pipe_is_not_waited_for(self, kb: Engine, tmp_path: Path) -> None:
        for name in ("pipe.md", "pipe.jsonl", "pipe.json"):
            os.mkfifo(tmp_path / name)
        assert whys(kb.load(tmp_path, space="s")) == ["not a regular file"] * 3

    def test_a_file_that_vanishes_while_others_are_read_is_reported_and_keeps_its_items(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        folder = write(tmp_path, a_md="# A\nx", b_md="# B\ny")
        kb.load(folder, space="s")
        parts = readers.parts(folder, "s")
        (folder / "b.md").unlink()
        loading = Loading(
            kb._stores, kb._door.parsed, kb._apply, kb._clock(), provenance.origin(folder, "s")
        )
        report = loading.run(parts, keep=False)
        assert (whys(report), report.removed, ids(kb)) == (
            ["cannot be read: No such file or directory"],
            0,
            ["a", "b"],
        )

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.md", "# A\nx"),
            ("a.jsonl", '\n{"id": "x", "text": "y"}\n'),
            ("a.json", '[{"id": "x"}]'),
            ("a.json", '{"pieces": [{"piece_id": "p", "content": "c"}]}'),
        ],
    )
    def test_one_file_that_names_no_space_is_refused(
        self, kb: Engine, tmp_path: Path, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(
            knowloom.Invalid, match="does not say which space it belongs to: name one, such as 'a'"
        ):
            kb.load(tmp_path / name)
        assert kb.stats().spaces == ()

    def test_a_row_without_a_space_behind_one_that_has_it_is_reported(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        (tmp_path / "a.jsonl").write_text(
            '{"id": "x", "space": "s", "text": "t"}\n{"id": "y", "text": "t"}\n'
        )
        report = kb.load(tmp_path / "a.jsonl")
        assert (report.added, whys(report)) == (
            1,
            ["no space: name one for the whole load, or give each row its own"],
        )
