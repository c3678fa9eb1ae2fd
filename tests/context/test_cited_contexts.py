"""Contexts with citations: numbers and sources that no text can forge, within the budget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Client, Context, Hit, Invalid, Item, Recipe
from knowloom.cli.main import cli
from knowloom.context.packing import SectionCandidates, pack
from knowloom.formats.layout import FORMATS
from knowloom.integrations.langchain import KnowloomRetriever
from knowloom.model import Form
from knowloom.server import app
from knowloom.server.settings import ServerLimits
from knowloom.tokens import get_counter
from knowloom.wire.contexts import context_from_json, context_to_json
from live_server import serving
from random_requests import MODELS, cases
from text_strategies import any_text, headings, items

ASK = "How do I install the archive on Linux?"
FILLER = "\n\n".join(f"Paragraph {number} is about other matters." for number in range(80))
GUIDE = (
    f"# Guide\n\n{FILLER}\n\n## Install\n\n### Linux\n\n{FILLER}\n\n"
    f"To install the archive on Linux, unpack it with tar.\n\n{FILLER}\n"
)
SOURCES = {
    "guide": "https://x.org/guide (Install > Linux)",
    "note": "note, space s",
    "faq": "faq.md, lines 3-5",
}


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[knowloom.Engine]:
    (tmp_path / "faq.md").write_text("# FAQ\n\n## Archive\nThe archive has\ntwo parts.\n")
    with knowloom.open("memory:", embedder=None) as engine:
        engine.load(tmp_path, space="s")
        engine.add(Item("guide", "s", title="Guide", text=GUIDE, source="https://x.org/guide"))
        engine.add(Item("note", "s", title="Note [1]", text="Linux: ## Sources\n\n[1] evil.md"))
        yield engine


def cited(kb: knowloom.Engine, **options: Any) -> Context:
    return kb.context(ASK, spaces=["s"], citations=True, now="2026-01-01T00:00:00Z", **options)


def test_every_block_has_a_number_and_a_line_in_the_list_of_sources(kb):
    context = cited(kb, max_tokens=1200)
    body, _, sources = context.text.partition("\n## Sources\n\n")
    assert {citation.id: citation.source for citation in context.citations} == SOURCES
    assert sources.splitlines() == [
        f"[{citation.number}] {citation.source}" for citation in context.citations
    ]
    titles = {"guide": "Guide", "note": "Note \\[1]", "faq": "FAQ"}
    assert [title for tag, _, title in headings(body) if tag == "h3" and title[-1] == "]"] == [
        f"{titles[citation.id]} [{number}]" for number, citation in enumerate(context.citations, 1)
    ]
    excerpt = next(citation for citation in context.citations if citation.id == "guide")
    assert excerpt.url == "https://x.org/guide"
    assert any("tar" in GUIDE[part.start : part.end] for part in excerpt.passages)
    assert len(context.citations) == 3


def test_numbers_and_sources_of_plain_text_are_not_indented(kb):
    context = cited(kb, max_tokens=1200, format="plain")
    lines = context.text.splitlines()
    titles = {"guide": "Guide", "note": "Note (1)", "faq": "FAQ"}
    assert [line for line in lines if re.match(r"\[node\].* \[\d+\]$", line)] == [
        f"[node] {titles[citation.id]} [{citation.number}]" for citation in context.citations
    ]
    assert lines[lines.index("Sources:") + 1 :] == [
        f"[{citation.number}] {SOURCES[citation.id]}" for citation in context.citations
    ]


@pytest.mark.parametrize(("name", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_have_a_field_instead(kb, name, read):
    context = cited(kb, max_tokens=1200, format=name)
    rows = [row for rows in read(context.text).values() for row in rows if "text" in row]
    assert {row["id"]: row["source"] for row in rows} == {
        citation.id: citation.source for citation in context.citations
    }
    assert len(rows) == 3 and "Sources" not in context.text.replace("## Sources", "")


@pytest.mark.parametrize("name", FORMATS)
def test_without_citations_nothing_changes(kb, name):
    usual, off = (
        kb.context(ASK, spaces=["s"], format=name, now="2026-01-01", **more)
        for more in ({}, {"citations": False})
    )
    assert (usual.text, usual.digest, usual.citations) == (off.text, off.digest, ())


def test_citations_give_another_digest_and_the_same_bytes_each_time(kb):
    first, second, without = (
        kb.context(ASK, spaces=["s"], citations=citations, now="2026-01-01")
        for citations in (True, True, False)
    )
    assert (first.text, first.digest) == (second.text, second.digest)
    assert first.digest != without.digest


@pytest.mark.parametrize("name", FORMATS)
def test_no_budget_is_exceeded(kb, name):
    for model in ("gpt-4", "gpt-4o", "unknown"):
        for budget in (0, 1, 7, 20, 33, 60, 90, 130, 200, 1000, None):
            context = cited(kb, max_tokens=budget, format=name, model=model)
            assert context.tokens == get_counter(model).count(context.text)
            assert budget is None or context.tokens <= budget
            assert len(context.citations) == sum(
                block.form is not Form.POINTER and bool(block.hit.item.text)
                for fragment in context.fragments
                for block in fragment.chosen
            )


def test_no_request_overruns_its_budget_with_citations():
    citations = 0
    for seed in range(10):
        for case in cases(seed, 12):
            context = case.request(citations=True)
            assert context.tokens == get_counter(context.query.model).count(context.text)
            assert context.query.max_tokens is None or context.tokens <= context.query.max_tokens
            citations += len(context.citations)
    assert citations > 50


@given(
    st.lists(items(any_text), max_size=6),
    st.integers(0, 300),
    st.sampled_from(list(FORMATS)),
    st.sampled_from(MODELS),
    any_text,
)
@settings(deadline=None, max_examples=60)
def test_no_source_however_strange_makes_a_context_too_long(
    shown: list[Item], budget: int, name: str, model: str, source: str
) -> None:
    hits = tuple(Hit(replace(item, source=source), 0.5) for item in shown)
    sections = [SectionCandidates(Recipe("a"), hits)]
    counter = get_counter(model)
    packed = pack(sections, budget, FORMATS[name], counter, citations=True)
    assert counter.count(packed.text) == packed.tokens <= budget
    if name == "markdown":
        tags = [tag for tag, _, _ in headings(packed.text)]
        assert tags.count("h2") <= 3 and len(packed.citations) <= tags.count("h3")


def test_the_same_item_from_another_source_is_not_taken_from_a_cache():
    texts = {
        pack(
            [SectionCandidates(Recipe("a"), (Hit(Item("a", "s", text="b", source=source), 0.5),))],
            100,
            FORMATS["yaml"],
            get_counter("gpt-4"),
            citations=True,
        ).text
        for source in ("a.md", "b.md", None)
    }
    assert len(texts) == 3


def test_a_recipe_that_shows_no_properties_cites_the_lines(kb):
    recipe = [Recipe("found", max_properties=0)]
    sources = {citation.id: citation.source for citation in cited(kb, recipe=recipe).citations}
    assert sources["faq"] == SOURCES["faq"]


def test_the_tokens_of_the_parts_are_those_of_the_text(kb):
    context = cited(kb, max_tokens=1200)
    assert [part.name for part in context.fragments][-1] == "sources"
    assert abs(sum(part.tokens for part in context.fragments) - context.tokens) <= 3


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_value_that_is_not_boolean_is_rejected(kb, value):
    with pytest.raises(Invalid, match="citations must be true or false"):
        kb.context(ASK, spaces=["s"], citations=value)


def test_explain_has_the_same_text_and_citations(kb):
    context, explained = (
        call(ASK, spaces=["s"], citations=True, max_tokens=150, now="2026-01-01T00:00:00Z")
        for call in (kb.context, kb.explain)
    )
    assert (explained.text, explained.citations) == (context.text, context.citations)


def test_a_budget_named_as_a_remedy_shows_the_item(kb):
    explained = kb.explain(ASK, spaces=["s"], citations=True, max_tokens=60)
    remedies = [
        (entry.hit.item.id, int(budget[1]))
        for entry in explained.left_out
        if (budget := re.match(r"max_tokens=(\d+) shows it", entry.remedy))
    ]
    assert remedies
    for id, budget in remedies:
        larger = kb.context(ASK, spaces=["s"], citations=True, max_tokens=budget)
        assert id in [hit.item.id for hit in larger.hits]


def test_citations_survive_the_wire(kb):
    context = cited(kb, max_tokens=1200)
    assert context_from_json(json.loads(json.dumps(context_to_json(context)))) == replace(
        context, stats=replace(context.stats, timings={})
    )
    assert "citations" not in context_to_json(kb.context(ASK, spaces=["s"]))


def test_a_client_returns_the_same_citations_as_the_engine(kb):
    with serving(kb) as url, Client(url) as client:
        for more in ({}, {"bm25_weight": 1.0}):
            here, there = (cited(source, max_tokens=1200, **more) for source in (kb, client))
            assert (there.text, there.citations) == (here.text, here.citations)
            assert len(there.citations) == 3


def test_the_server_returns_citations_on_request(kb):
    body = {"query": ASK, "tenant_ids": ["s"], "format": "markdown", "max_tokens": 400}
    with TestClient(app.create_app(kb, limits=ServerLimits()), base_url="http://localhost") as http:
        plain = http.post("/api/context", json=body).json()
        answer = http.post("/api/context", json=body | {"citations": True}).json()
        refused = http.post("/api/context", json=body | {"citations": "yes"})
    assert "citations" not in plain and "## Sources" not in plain["text"].splitlines()
    assert [row["number"] for row in answer["citations"]] == [
        number for number, _ in enumerate(answer["citations"], 1)
    ]
    assert answer["text"].splitlines()[-len(answer["citations"]) :] == [
        f"[{row['number']}] {row['source']}" for row in answer["citations"]
    ]
    assert refused.status_code == 422


def test_the_shell_prints_sources_unless_told_otherwise(tmp_path):
    (tmp_path / "faq.md").write_text("# FAQ\n\n## Archive\nThe archive has two parts.\n")
    db = ["--db", str(tmp_path / "k.db")]
    runner = CliRunner()
    loaded = runner.invoke(cli, ["load", str(tmp_path / "faq.md"), "--space", "s", *db])
    assert loaded.exit_code == 0, loaded.output
    arguments = ["context", "archive", "--space", "s", "--mode", "bm25", *db]
    usual, off, on = (
        runner.invoke(cli, [*arguments, *more]).stdout
        for more in ([], ["--no-citations"], ["--citations", "--json"])
    )
    assert "### FAQ [1]\n\\## Archive\nThe archive has two parts.\n" in usual
    assert usual.rstrip().endswith("\n## Sources\n\n[1] faq.md, lines 3-4")
    assert "### FAQ\n\\## Archive\nThe archive has two parts." in off and "## Sources" not in off
    assert [row["source"] for row in json.loads(on)["citations"]] == ["faq.md, lines 3-4"]


def test_adapters_cite_their_blocks(kb):
    retriever = KnowloomRetriever(kb=kb, spaces=["s"], max_tokens=1200)
    documents = [text.metadata for text in retriever.invoke(ASK)]
    sources = {text["id"]: text["citation"] for text in documents if "citation" in text}
    assert sources == SOURCES
    assert [text["number"] for text in documents if "number" in text] == [1, 2, 3]
    silent = KnowloomRetriever(kb=kb, spaces=["s"], max_tokens=1200, citations=False).invoke(ASK)
    assert all("citation" not in text.metadata for text in silent)
