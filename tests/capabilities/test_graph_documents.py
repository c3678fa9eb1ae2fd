"""Graph contexts for documents: links, selections, and the terms of long texts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_graph import CHAIN, entity, graph, ids

import knowloom
from knowloom import Document, GraphContext, LinkedEntity
from knowloom.errors import Invalid
from paths import ROOT

HARBOR = ROOT / "examples" / "harbor"


@pytest.fixture(scope="module")
def harbor():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(HARBOR)
        yield kb


@pytest.fixture
def kb():
    with knowloom.open("memory:", embedder=None) as engine:
        yield engine


class TestDocuments:
    def test_linked_entities_are_used(self, kb):
        doc = Document(
            "d",
            content="Alpha and beta.",
            linked_entities=(
                LinkedEntity("Alpha", "alpha", 0.9),
                LinkedEntity("that", "gamma", 0.7),
            ),
        )
        answer = graph(kb, *CHAIN).for_document(doc)
        assert [(entity.item.id, entity.score) for entity in answer.entities] == [
            ("alpha", 0.9),
            ("gamma", 0.7),
        ]

    def test_uncertain_and_dangling_links_are_reported(self, kb):
        doc = Document(
            "d",
            linked_entities=(
                LinkedEntity("A", "alpha"),
                LinkedEntity("B", "beta", 0.05),
                LinkedEntity("C"),
                LinkedEntity("D", "gone"),
            ),
        )
        answer = graph(kb, *CHAIN).for_document(doc)
        assert ids(answer) == ["alpha"]
        assert [omission.reason for omission in answer.left_out] == [
            "its link has the confidence 0.05, below 0.1",
            "the mention is linked to no entity",
            "no such entity is stored",
        ]

    def test_a_document_without_links_is_searched_by_its_content(self, kb):
        assert ids(
            graph(kb, *CHAIN).for_document(
                Document("d", content="How does Gamma work?"), relationship_depth=0
            )
        ) == ["gamma"]

    def test_only_the_selected_text_counts(self, kb):
        provider = graph(kb, *CHAIN)
        links = (LinkedEntity("Alpha", "alpha"), LinkedEntity("Beta", "beta"))
        doc = Document(
            "d",
            content="Alpha is old. Beta is new. Gamma too.",
            linked_entities=links,
            selection=(14, 26),
        )
        assert ids(provider.for_document(doc)) == ["beta"]
        assert ids(provider.for_document(replace(doc, selection=(27, 37)))) == ["gamma"]

    def test_a_long_document_is_searched_by_its_characteristic_terms(self, kb):
        filler = "the process goes on as it was described before and nothing of note has "
        filler = f"{filler}happened in the meantime so far. " * 3000
        text = (
            f"{filler}We moved Zephyrine to the new data centre, and Zephyrine runs well. {filler}"
        )
        answer = graph(kb, entity("z", "Zephyrine"), *CHAIN).for_document(
            Document("d", "Notes", text)
        )
        assert ids(answer) == ["z"] and len(answer.query or "") < 2000

    @pytest.mark.parametrize("selection", [(0, 99), (5, 5), (-1, 2), (3, 1), (0, 1.5), (1,), "ab"])
    def test_a_selection_out_of_range_is_refused(self, harbor, selection):
        with pytest.raises(Invalid, match="selection"):
            GraphContext(harbor, ["shared"]).for_document(
                Document("d", content="some text", selection=selection)
            )

    def test_an_empty_document_is_refused(self, harbor):
        provider = GraphContext(harbor, ["shared"])
        for wrong in (
            Document("d"),
            Document("d", content="  ", linked_entities=(LinkedEntity("x"),)),
            Document("d", content="\ud800"),
            {"content": "x"},
        ):
            with pytest.raises(Invalid):
                provider.for_document(wrong)
