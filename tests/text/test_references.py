"""References in texts: links of every shape, files, code, URLs, anchors; names in all scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import knowloom
from knowloom import Edge, Item
from knowloom.engine import Engine
from knowloom.linking import name_edges as batch

X = "https://example.org/b"

PARAGRAPHS = (
    "The harbour office keeps a ledger of tides.\n\n" * 150
)  # two exceed the limit of a page


def automatic_edges(
    items: list[Item], edges: list[Edge] | None = None
) -> set[tuple[str, str, str]]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(items, edges or [])
        edges = {(edge.source, edge.type, edge.target) for edge in kb.edges(["s"], automatic=True)}
    if not edges:
        assert edges == {
            (edge.source, edge.type, edge.target) for edge in batch.build_name_edges(items)
        }
    return edges


def item(id: str, title: str = "", text: str = "text", **more: Any) -> Item:
    return Item(id, "s", title=title, text=text, **more)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("See [it](b.md).", {"source": "docs/b.md"}),
        ("See [it](../docs/b.md?raw=1#part).", {"source": "docs/b.md"}),
        ("See [it][1].\n\n[1]: b.md", {"source": "docs/b.md"}),
        ("See [it][1].\n\n[1]: <b.md> 'A title'", {"source": "docs/b.md"}),
        (f"See <{X}>.", {"properties": {"url": X}}),
        (f"It is at {X}.", {"properties": {"url": X}}),
        (
            "Look into src/knowloom/engine.py for it.",
            {"properties": {"path": "src/knowloom/engine.py"}},
        ),
        (
            "Look into ./src/knowloom/engine.py, please",
            {"properties": {"file": "src/knowloom/engine.py"}},
        ),
        ("Rows come from `orders`.", {"properties": {"table": "orders"}}),
        ("Then `os.path.join()` is called.", {"properties": {"symbol": "os.path.join"}}),
        ("See [[Some Where|there]].", {"title": "Some Where"}),
        (
            "See [the part](page.md#deep-part).",
            {"source": "docs/elsewhere.md", "id": "docs/page#deep-part"},
        ),
    ],
)
def test_every_shape_of_reference_leads_to_its_target(text, more):
    target = item(**{"id": "b", **more})
    assert ("a", "refers_to", target.id) in automatic_edges(
        [item("a", "First page", text, source="docs/a.md"), target]
    )


@pytest.mark.parametrize(
    "text",
    [
        "Say `the` or `x` or `42`.",
        "Either and/or both, 1/2 of it.",
        "We met, e.g. him.",
        "See http://",
        "`" * 50,
        "[a]: ",
    ],
)
def test_text_that_only_looks_like_a_reference_creates_no_edge(text):
    others = [
        item(id, properties={"table": id})
        for id in ("the", "x", "42", "and/or", "1/2", "and", "e.g", "http:")
    ]
    assert not [
        edge for edge in automatic_edges([item("a", "First page", text), *others]) if edge[0] == "a"
    ]


def test_a_link_to_a_part_of_a_long_page_leads_to_that_part(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        f"# Alpha\nSee [policy](b.md#refund-policy) and [below](#more).\n\n{PARAGRAPHS}"
        f"## More\nAll of it.\n\n{PARAGRAPHS}"
    )
    (tmp_path / "b.md").write_text(
        f"# Bee\nIntro.\n\n{PARAGRAPHS}## Refund Policy\nFive days.\n\n{PARAGRAPHS}"
    )
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(tmp_path, space="s")
        linked = {
            (edge.source, edge.target): edge.properties["name"]
            for edge in kb.edges(["s"], automatic=True)
            if edge.type == "refers_to"
        }
    assert linked["a", "b#refund-policy"] == "b#refund-policy"
    assert linked["a", "a#more"] == "a#more"


def test_link_definitions_at_the_end_of_a_page_apply_to_every_section(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.md").write_text(
        f"# Alpha\n{PARAGRAPHS}See [it][1].\n\n"
        f"## More\n{PARAGRAPHS}And [Bee][] again, with [site].\n\n"
        "[1]: b.md\n[bee]: <b.md> 'B'\n[site]: https://x.org/\n[no]: n.md\n"
    )
    (tmp_path / "b.md").write_text("# Bee\nIntro.\n")
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(tmp_path, space="s")
        assert {
            edge.source
            for edge in kb.edges(["s"], automatic=True)
            if edge.type == "refers_to" and edge.target == "b"
        } == {"a", "a#more"}
        first, more = kb.get(["a", "a#more"], space="s")
    assert first.text.endswith("\n\nSee [it][1].\n\n[1]: b.md")
    assert "[site].\n\n[1]: b.md\n[bee]: <b.md> 'B'\n[site]: https://x.org/" in more.text


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("จุฬาลงกรณ์มหาวิทยาลัย", "ฉันเรียนที่จุฬาลงกรณ์มหาวิทยาลัยมาก่อน"),
        ("コンピュータネットワーク", "昨日はコンピュータネットワークを学んだ"),
        ("北京大学", "我在北京大学学习。"),
        ("თბილისი", "მე ვნახე თბილისი გუშინ"),
        ("جامعة القاهرة", "زرت جامعة القاهرة أمس"),
        ("दिल्ली विश्वविद्यालय", "मैं दिल्ली विश्वविद्यालय गया"),
    ],
)
def test_names_in_scripts_without_capitals_or_spaces_are_found(title, text):
    assert ("a", "mentions", "b") in automatic_edges(
        [item("a", "First page", text), item("b", title)]
    )


def test_a_long_run_of_signs_is_not_a_name():
    assert automatic_edges([item("a", "First page", "漢" * 300), item("b", "漢" * 25)]) == set()


@pytest.mark.parametrize("again", ["relink", "re-add", "change"])
def test_explicit_edges_survive_rebuilds_and_new_versions(again):
    pair = [item("a", "First page", "Ask the Fraud Desk."), item("b", "Fraud Desk")]
    elsewhere = [
        Item(original.id, "t", title=original.title, text=original.text) for original in pair
    ]
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([*pair, *elsewhere], [Edge("a", "b", "mentions", 0, "s")])
        if again == "relink":
            kb.maintenance.relink()
        elif again == "change":
            kb.add(item("a", "First page", "Ask the Fraud Desk again."))
        else:
            kb.add([item("b", "Fraud Desk", "Other text."), *pair[:1]])
            kb.add(pair)
        assert not list(kb.edges(["s"], automatic=True))
        assert [edge.weight for edge in kb.edges(["s"])] == [0]
        assert len(list(kb.edges(["t"], automatic=True))) == 1


def test_deleting_an_explicit_edge_restores_the_automatic_one(
    tmp_path: Path,
) -> None:
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(
            [item("a", "First page", "Ask the Fraud Desk."), item("b", "Fraud Desk")],
            [Edge("a", "b", "mentions", 0.5, "s")],
        )
        assert not list(kb.edges(["s"], automatic=True))
        kb.delete_edges([Edge("a", "b", "mentions", space="s")])
        assert [edge.weight for edge in kb.edges(["s"], automatic=True)] == [1.0]
        assert kb.verify() == []


def test_knowledge_linked_by_older_rules_is_relinked(tmp_path: Path) -> None:
    def linked(kb: Engine) -> int:
        return len(list(kb.edges(["s"], automatic=True)))

    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(
            [item("a", "First page", "See `orders`."), item("b", properties={"table": "orders"})]
        )
        store: Any = kb.maintenance._linker._store
        store.forget_links(store.link_rules().replace("refers_to/3", "refers_to/2"))
        assert linked(kb) == 0
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.maintenance.link()
        assert linked(kb) == 1
