"""Calls that name no space: the only one, the one named "default", or an error that lists them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import knowloom
from knowloom import Client, Edge, GraphContext, Invalid, Item, Memory, NotFound, Provider
from knowloom.engine import Engine
from live_server import serving


@pytest.fixture(params=["memory:", "knowledge.db"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    url = request.param if request.param == "memory:" else str(tmp_path / request.param)
    return knowloom.open(url, embedder=None)


@pytest.fixture(params=["engine", "client"])
def either(request: pytest.FixtureRequest) -> Iterator[Engine | Client]:
    """An engine, or a client of a server around it."""
    with knowloom.open("memory:", embedder=None) as kb:
        if request.param == "engine":
            yield kb
        else:
            with serving(kb) as url, Client(url) as client:
                yield client


def fill(kb: Engine, *spaces: str) -> None:
    kb.add([Item("tent", space, title="Tent", text=f"A tent of {space}") for space in spaces])


class TestOnlySpace:
    def test_reads_are_about_the_only_space(self, kb: Engine) -> None:
        fill(kb, "shop")
        assert [hit.item.space for hit in kb.search("tent")] == ["shop"]
        assert "A tent of shop" in kb.context("tent").text
        assert kb.explain("tent").degraded == kb.explain("tent", spaces=["shop"]).degraded
        assert [item.key for item in kb.get("tent")] == [("shop", "tent")]
        assert kb.history.states("tent")[0].item is not None

    def test_the_answer_is_that_of_the_named_space(self, kb: Engine) -> None:
        fill(kb, "shop")
        now = kb.reader.now()
        named = kb.context("tent", spaces=["shop"], now=now)
        assert kb.context("tent", now=now).digest == named.digest

    def test_writes_are_about_the_only_space(self, kb: Engine) -> None:
        fill(kb, "shop")
        kb.add(Item("pole", text="A pole"), edges=[Edge("tent", "pole")])
        assert [item.id for item in kb.items(["shop"])] == ["pole", "tent"]
        assert [edge.space for edge in kb.edges()] == ["shop"]
        assert kb.delete("tent") == 1
        assert kb.history.restore("tent").added == 1

    def test_edges_are_about_the_space_of_the_items_beside_them(self, kb: Engine) -> None:
        items = [Item(id, "shop", text=id) for id in ("a", "b")]
        kb.add(items, edges=[Edge("a", "b")])
        assert [edge.space for edge in kb.edges()] == ["shop"]

    def test_a_space_without_items_is_not_counted(self, kb: Engine) -> None:
        fill(kb, "shop", "old")
        kb.delete("tent", space="old")
        assert [hit.item.space for hit in kb.search("tent")] == ["shop"]

    def test_capabilities_are_about_the_only_space(self, kb: Engine) -> None:
        fill(kb, "shop")
        assert Memory(kb).remember("Ada likes tents").workspace == "shop"
        assert "tent" in Provider(kb).text("tent")
        assert GraphContext(kb).for_entities(["tent"]).degraded == ()


class TestDefaultSpace:
    def test_the_first_write_creates_it(self, kb: Engine, tmp_path: Path) -> None:
        kb.add(Item("tent", text="A tent"))
        (tmp_path / "notes.md").write_text("# Notes\n\nPitch the tent.\n")
        kb.load(tmp_path / "notes.md")
        kb.load({"items": [{"id": "pole", "text": "A pole"}]})
        assert [item.key for item in kb.items()] == [
            ("default", "notes"),
            ("default", "pole"),
            ("default", "tent"),
        ]

    def test_it_is_chosen_among_several_with_a_notice(self, kb: Engine) -> None:
        fill(kb, "default", "shop")
        hits = kb.search("tent")
        assert [hit.item.space for hit in hits] == ["default"]
        (notice,) = (problem for problem in hits.degraded if problem.code == "default_space")
        assert notice.severity == "notice" and notice.reason.endswith("further spaces: shop")
        assert all(p.code != "default_space" for p in kb.search("tent", spaces=["shop"]).degraded)

    def test_no_spaces_are_not_the_default(self, kb: Engine) -> None:
        fill(kb, "default")
        assert kb.context("tent", spaces=[]).text == ""


class TestSeveralSpaces:
    @pytest.mark.parametrize(
        "call",
        [
            lambda kb: kb.search("tent"),
            lambda kb: kb.context("tent"),
            lambda kb: kb.explain("tent"),
            lambda kb: kb.get("tent"),
            lambda kb: kb.delete("tent"),
            lambda kb: kb.add(Item("pole", text="A pole")),
            lambda kb: kb.history.states("tent"),
            lambda kb: kb.history.restore("tent"),
            Memory,
            Provider,
            lambda kb: GraphContext(kb).for_query("tent"),
        ],
    )
    def test_the_error_lists_them(self, kb: Engine, call) -> None:
        fill(kb, "shop", "attic")
        with pytest.raises(Invalid, match="several spaces exist: name one of attic, shop"):
            call(kb)

    def test_a_long_list_is_cut(self, kb: Engine) -> None:
        fill(kb, *(f"s{number:02}" for number in range(30)))
        with pytest.raises(Invalid, match=r"s19 and 10 more$"):
            kb.search("tent")


class TestSurfaces:
    """The engine and the client of a server do the same."""

    def test_writes_and_reads(self, either: Engine | Client, tmp_path: Path) -> None:
        (tmp_path / "notes.md").write_text("# Notes\n\nPitch the tent.\n")
        either.add([Item("a", "shop", text="tent"), Item("b", text="pole")], edges=[Edge("a", "b")])
        either.load(tmp_path / "notes.md")
        either.load({"items": [{"id": "c", "text": "rope"}]})
        assert [item.key for item in either.items()] == [
            ("shop", "a"),
            ("shop", "b"),
            ("shop", "c"),
            ("shop", "notes"),
        ]
        assert {hit.item.id for hit in either.search("tent")} == {"a", "notes"}
        assert "Pitch" in either.context("tent").text and either.explain("tent").text
        assert [item.id for item in either.get("a")] == ["a"]
        assert either.delete("a") == 1 and either.history.restore("a").added == 1
        assert either.history.states("a")

    def test_several_spaces(self, either: Engine | Client) -> None:
        either.add([Item("a", space, text="tent") for space in ("one", "two")])
        for call in (either.search, either.context, either.get, either.delete):
            with pytest.raises(Invalid, match="name one of one, two") as caught:
                call("a")
            assert caught.value.code == "several_spaces"
        with pytest.raises(NotFound, match="unknown space 'x'; available: one, two"):
            either.search("a", spaces=["x"])


class TestNames:
    """Options that other calls name otherwise have both names."""

    def test_memory(self, kb: Engine) -> None:
        memory = Memory(kb)
        memory.remember("Ada likes tents", type="fact")
        assert memory.search("tents", types=["note"]) == []
        budget = memory.build_context("tents", max_tokens=3)
        assert budget.context == memory.build_context("tents", token_budget=3).context
        with pytest.raises(Invalid, match="token_budget and max_tokens are the same: pass one"):
            memory.build_context("tents", max_tokens=3, token_budget=4)

    def test_provider(self, kb: Engine) -> None:
        kb.add([Item(f"tent-{n}", text=f"tent {n}") for n in range(3)])
        assert len(Provider(kb, top_k=1).retrieve("tent").pieces) == 1
        assert len(Provider(kb, top_k=1).retrieve("tent", limit=2).pieces) == 2
        assert len(Provider(kb, limit=1).retrieve("tent", top_k=1).pieces) == 1
        with pytest.raises(Invalid, match="top_k and limit are the same"):
            Provider(kb, limit=1, top_k=2)

    def test_graph(self, kb: Engine) -> None:
        items = [Item("ada", kind="entity", type="Person", title="Ada")]
        kb.add([*items, Item("kiel", kind="entity", type="City", title="Kiel")])
        graph = GraphContext(kb)
        shown = graph.for_query("Ada in Kiel", types=["City"])
        assert shown.text == graph.for_query("Ada in Kiel", entity_types=["City"]).text
        assert "Kiel" in shown.text and "Ada" not in shown.text
        with pytest.raises(Invalid, match="entity_types and types are the same"):
            graph.for_query("Ada", types=["City"], entity_types=["Person"])


def test_an_empty_store_says_what_to_do(kb: Engine) -> None:
    for call in (kb.search, kb.context, kb.get):
        with pytest.raises(NotFound, match="nothing is stored yet: load files or add items first"):
            call("tent")
