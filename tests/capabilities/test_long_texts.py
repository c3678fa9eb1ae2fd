"""Capabilities over long texts: excerpts instead of pointers, within every budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import knowloom
from knowloom import (
    Assembler,
    Assembly,
    Document,
    DocumentStrategy,
    Engine,
    GraphContext,
    Memory,
    Provider,
    SelectionStrategy,
    check_answer,
    tokens,
)
from knowloom.model import Edge, Form, Item, Kind
from knowloom.templates.template import Template

TOPICS = (
    "billing",
    "shipping",
    "onboarding",
    "holidays",
    "security",
    "travel",
    "hardware",
    "payroll",
    "parking",
    "canteen",
)
FACT = "Kestrel tents can be refunded up to 340 euros without approval."
HIDDEN = "Parcels leave the depot in Rotterdam at 17:45."
QUESTION = "Up to which amount can Kestrel tents be refunded without approval?"


def article(fact: str = FACT, sections: int = 10) -> str:
    """Return a handbook of about 1,000 characters a section, with the fact in the last but one.

    The second section has a fact as well.
    """
    texts = ["# Handbook"]
    for number in range(sections):
        topic = TOPICS[number % len(TOPICS)]
        sentence = f"The team for {topic} answers on weekdays and writes down what was decided. "
        facts = {1: f"{HIDDEN} ", sections - 2: f"{fact} "}
        body = sentence * 6 + facts.get(number, "") + sentence * 6
        texts.append(f"## About {topic} {number}\n\n{body}")
    return "\n\n".join(texts)


@pytest.fixture
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as engine:
        yield engine


def count(text: str) -> int:
    return tokens.get_counter("gpt-4").count(text)


@pytest.mark.parametrize("template", ["chat", "detailed", "summary"])
@pytest.mark.parametrize("budget", [120, 400, 1_500])
def test_a_long_memory_is_shown_by_the_part_that_answers(
    kb: Engine, template: str, budget: int
) -> None:
    memory = Memory(kb, "home")
    memory.remember(article())
    for topic in TOPICS:
        memory.remember(f"Somebody likes the team for {topic}.")
    preview = memory.preview(QUESTION, token_budget=budget, template=template)
    assert FACT in preview.context
    assert preview.token_count == count(preview.context) <= budget
    assert preview.truncated


@pytest.mark.parametrize("budget", [0, 5, 30, 60])
def test_a_long_memory_never_exceeds_a_small_budget(kb: Engine, budget: int) -> None:
    memory = Memory(kb, "home")
    memory.remember(article())
    preview = memory.preview(QUESTION, token_budget=budget)
    assert preview.token_count == count(preview.context) <= budget


def test_a_long_memory_that_fits_is_shown_whole(kb: Engine) -> None:
    memory = Memory(kb, "home")
    memory.remember(article(sections=2))
    preview = memory.preview(
        QUESTION, token_budget=4_000, template={"memory_format": "{{content}}"}
    )
    assert preview.context == article(sections=2)
    assert not preview.truncated


def test_memories_beside_an_excerpt_stay_as_they_are(kb: Engine) -> None:
    memory = Memory(kb, "home")
    memory.remember(article())
    memory.remember("Kestrel tents were refunded twice in May.")
    preview = memory.preview(QUESTION, token_budget=300)
    assert "- Kestrel tents were refunded twice in May." in preview.context
    assert FACT in preview.context
    assert preview.token_count == count(preview.context) <= 300


@pytest.fixture
def graph(kb: Engine) -> GraphContext:
    teams = [
        Item(
            topic,
            "s",
            Kind.ENTITY,
            "Team",
            topic.title(),
            f"The team for {topic} handles Kestrel tents now and then.",
        )
        for topic in TOPICS
    ]
    edges = [Edge(topic, "handbook", "wrote", space="s") for topic in TOPICS[:3]]
    kb.add([Item("handbook", "s", Kind.ENTITY, "Document", "Handbook", article()), *teams], edges)
    return GraphContext(kb, ["s"])


@pytest.mark.parametrize("format", ["markdown", "plain", "yaml", "json"])
@pytest.mark.parametrize("budget", [150, 400, 1_200])
def test_a_long_entity_is_shown_by_excerpts(graph: GraphContext, format: str, budget: int) -> None:
    answer = graph.for_query(f"Handbook: {QUESTION}", max_tokens=budget, format=format)
    entity = next(entity for entity in answer.entities if entity.item.id == "handbook")
    assert entity.form is Form.EXCERPT and entity.passages
    assert FACT in answer.text
    assert answer.tokens == count(answer.text) <= budget
    assert answer.truncated
    if format == "json":
        json.loads(answer.text)


@pytest.mark.parametrize("budget", [0, 10, 40, 80])
def test_a_graph_of_long_entities_never_exceeds_a_small_budget(
    graph: GraphContext, budget: int
) -> None:
    answer = graph.for_query(f"Handbook: {QUESTION}", max_tokens=budget)
    assert answer.tokens == count(answer.text) <= budget


def test_evidence_of_an_excerpt_is_what_the_excerpt_shows(graph: GraphContext) -> None:
    answer = graph.for_query(f"Handbook: {QUESTION}", max_tokens=150)
    claim = "Kestrel tents can be refunded up to 340 euros."
    assert check_answer(claim, answer).grounded
    assert HIDDEN not in answer.text
    assert not check_answer(HIDDEN, answer).grounded


def test_evidence_of_a_context_is_what_its_excerpts_show(kb: Engine) -> None:
    kb.add([Item("handbook", "s", title="Handbook", text=article())])
    context = kb.context(QUESTION, spaces=["s"], max_tokens=150)
    assert [block.form for block in context.fragments[0].chosen] == [Form.EXCERPT]
    assert FACT in context.text
    assert check_answer("Kestrel tents can be refunded up to 340 euros.", context).grounded
    assert HIDDEN not in context.text
    assert not check_answer(HIDDEN, context).grounded


def test_a_document_of_200_000_characters_links_the_graph(graph: GraphContext) -> None:
    nothing = "It was a quiet day and nobody had anything new to say about it. " * 40
    text = "\n\n".join([nothing] * 40 + ["The Canteen and Payroll teams met."] + [nothing] * 40)
    assert len(text) > 200_000
    answer = graph.for_document(Document("d", "Minutes", text), max_tokens=800)
    assert {"canteen", "payroll"} <= {entity.item.id for entity in answer.entities}
    assert answer.tokens == count(answer.text) <= 800


def test_a_long_neighbour_is_shown_by_the_passage_nearest_to_the_query(kb: Engine) -> None:
    long = article(sections=40)
    kb.add(
        [
            Item("manual", "s", Kind.ENTITY, "Document", "Manual", long),
            Item("billing", "s", Kind.ENTITY, "Team", "Billing", "It answers."),
        ],
        [Edge("billing", "manual", "wrote", space="s")],
    )
    answer = GraphContext(kb, ["s"]).for_query("Billing: Kestrel tents refunded?", max_tokens=300)
    assert FACT in answer.text
    assert answer.tokens == count(answer.text) <= 300


@pytest.fixture
def provider(kb: Engine) -> Provider:
    notes = [
        Item(topic, "s", type="note", title=topic.title(), text=f"The team for {topic} has tents.")
        for topic in TOPICS
    ]
    handbook = Item("handbook", "s", type="procedure", title="Handbook", text=article())
    kb.add([handbook, *notes])
    return Provider(kb, spaces=["s"], tier="enterprise")


@pytest.mark.parametrize("budget", [100, 250, 800])
def test_a_long_piece_is_provided_by_excerpts(provider: Provider, budget: int) -> None:
    provision = provider.provide(QUESTION, max_tokens=budget)
    assert any(FACT in text for text in provision.sections.values())
    assert provision.tokens == sum(map(count, provision.sections.values())) <= budget
    text = provider.text(QUESTION, max_tokens=budget)
    assert FACT in text and count(text) <= budget


@pytest.mark.parametrize(
    "format",
    [
        "* {title}: {text}",
        Template("{% for entry in entries %}* {{ entry.text }}\n{% endfor %}"),
        lambda entries: "\n".join(entry.text for entry in entries),
    ],
)
def test_formats_of_users_show_long_pieces_by_excerpts(
    kb: Engine, provider: Provider, format: Any
) -> None:
    formatted = Provider(kb, spaces=["s"], tier="enterprise", formats={"*": format})
    provision = formatted.provide(QUESTION, max_tokens=250)
    assert any(FACT in text for text in provision.sections.values())
    assert provision.tokens == sum(map(count, provision.sections.values())) <= 250


def test_a_long_piece_that_fits_is_provided_whole(provider: Provider) -> None:
    provision = provider.provide(QUESTION, max_tokens=8_000)
    lines = [line.strip() for text in provision.sections.values() for line in text.splitlines()]
    assert all(line.strip() in lines for line in article().splitlines()[1:])


@pytest.mark.parametrize("budget", [0, 5, 40])
def test_a_long_piece_never_exceeds_a_small_budget(provider: Provider, budget: int) -> None:
    provision = provider.provide(QUESTION, max_tokens=budget)
    assert provision.tokens == sum(map(count, provision.sections.values())) <= budget


def assemble(request: str, document: str, **options: Any) -> Assembly:
    strategies = [DocumentStrategy(), SelectionStrategy()]
    return Assembler(strategies).assemble(request, document=document, **options)


@pytest.mark.parametrize("format", ["markdown", "plain", "yaml", "json"])
@pytest.mark.parametrize("budget", [120, 200, 600, 3_000])
def test_a_long_document_is_shown_by_the_passage_that_answers(format: str, budget: int) -> None:
    document = article(sections=220)
    assert len(document) > 200_000
    assembly = assemble(QUESTION, document, max_tokens=budget, format=format)
    assert FACT in assembly.text
    assert assembly.tokens == count(assembly.text) <= budget


def test_a_long_document_is_shown_around_the_selection() -> None:
    paragraphs = [
        f"Paragraph {number} says a little about its own number." for number in range(900)
    ]
    document = "\n\n".join(paragraphs)
    start = document.index(paragraphs[700])
    assembly = assemble("Shorten it.", document, selection=(start, start + 30), max_tokens=200)
    document_text = assembly.text.partition("## Selection")[0]
    shown = [number for number in range(900) if paragraphs[number] in document_text]
    assert 699 in shown and 701 in shown
    assert assembly.tokens == count(assembly.text) <= 200


def test_a_document_of_many_paragraphs_is_not_cut_at_its_start() -> None:
    paragraphs = ["Nothing to see here, as usual."] * 12_000 + [FACT]
    assert FACT in assemble(QUESTION, "\n\n".join(paragraphs), max_tokens=100).text


def test_headings_and_code_of_a_document_stay_together() -> None:
    code = "```\ndef refund():\n\n    return 340\n```"
    noise = "\n\n".join(f"Paragraph {number} is about something else." for number in range(300))
    document = f"{noise}\n\n## Refunds of Kestrel tents\n\n{code}\n\n{noise}"
    text = assemble("refund Kestrel tents", document, max_tokens=120).text
    assert f"## Refunds of Kestrel tents\n\n{code}" in text
