"""Adapters that do not show the same items twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import knowloom
from knowloom import Invalid
from knowloom.integrations.haystack import HaystackRetriever
from knowloom.integrations.langchain import KnowloomRetriever
from knowloom.integrations.lookup import Lookup

QUERY = "refund"


@pytest.fixture
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        words = "alpha beta gamma delta epsilon zeta eta theta".split()
        texts = {word: f"The refund of {word} takes days and a label. " * 3 for word in words}
        kb.add([knowloom.Item(word, "s", title=word, text=text) for word, text in texts.items()])
        yield kb


def shown(context: knowloom.Context) -> set[str]:
    chosen = [block for fragment in context.fragments for block in fragment.chosen]
    return {block.hit.item.id for block in chosen if block.form != "pointer"}


def test_a_record_keeps_a_tool_from_repeating_itself(kb: knowloom.Engine) -> None:
    record = knowloom.ShownRecord()
    lookup = Lookup(kb, ["s"], max_tokens=150, seen=record)
    first, second = lookup.context(QUERY), lookup.context(QUERY)
    assert shown(first) and not shown(first) & shown(second)
    record.clear()
    assert lookup.context(QUERY).text == first.text


def test_a_retriever_takes_ids(kb: knowloom.Engine) -> None:
    retriever = KnowloomRetriever(kb=kb, spaces=["s"], max_tokens=150, seen=["alpha"])
    documents = retriever.invoke("refund of alpha")
    parts = {document.metadata["id"]: document.metadata["part"] for document in documents}
    assert parts.get("alpha", "shown_before") == "shown_before"


def test_seen_needs_a_budget(kb: knowloom.Engine) -> None:
    with pytest.raises(Invalid, match="seen applies to contexts: set max_tokens, too"):
        Lookup(kb, ["s"], seen=["alpha"])


def test_a_saved_pipeline_has_ids_only() -> None:
    retriever = HaystackRetriever("kb.db", spaces=["s"], max_tokens=9, seen=["alpha"])
    assert retriever.to_dict()["init_parameters"]["seen"] == ["alpha"]
    record = knowloom.ShownRecord()
    retriever = HaystackRetriever("kb.db", spaces=["s"], max_tokens=9, seen=record)
    with pytest.raises(Invalid, match="seen must be ids in a saved pipeline"):
        retriever.to_dict()
