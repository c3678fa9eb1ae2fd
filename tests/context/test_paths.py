"""Paths on request: titles of the items along them, which no text can forge, within the budget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Client, Edge, Hit, Invalid, Item, Kind, Recipe
from knowloom.cli.main import cli
from knowloom.context.packing import SectionCandidates, pack
from knowloom.context.paths import EDGE_PHRASES, describe_path
from knowloom.formats.layout import FORMATS
from knowloom.integrations.langchain import KnowloomRetriever
from knowloom.model import Form
from knowloom.server import app
from knowloom.server.settings import ServerLimits
from knowloom.tokens import get_counter
from knowloom.wire.contexts import context_from_json, context_to_json, describe_match
from live_server import serving
from random_requests import MODELS, cases
from text_strategies import PARSER, any_text, headings, items, tricky

ASK = "refund request"
FIRST = '"Refund playbook" mentions "Chargeback"'
BOTH = f'{FIRST}; "Chargeback" mentions "Fraud Desk"'
ITEMS = [
    Item(
        "playbook",
        "s",
        type="faq",
        title="Refund playbook",
        text="For a refund request open a Chargeback.",
    ),
    Item(
        "chargeback",
        "s",
        title="Chargeback",
        text="Ask the Fraud Desk.",
        summary="Ask.",
        properties={"via": "a phone"},
    ),
    Item("desk", "s", title="Fraud Desk", text="Open from 9 to 5."),
]


@pytest.fixture
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as engine:
        engine.add(ITEMS)
        yield engine


def paths_of(kb: knowloom.Engine, **options: Any) -> dict[str, str]:
    return {
        hit.item.id: hit.via for hit in kb.context(ASK, spaces=["s"], paths=True, **options).hits
    }


def test_every_linked_item_tells_its_chain_by_titles_and_a_found_one_tells_none(kb):
    assert paths_of(kb) == {"playbook": "", "chargeback": FIRST, "desk": BOTH}


def test_markdown_has_one_heading_for_it_and_plain_one_line_that_is_not_indented(kb):
    markdown, plain = (
        kb.context(ASK, spaces=["s"], paths=True, format=name).text
        for name in ("markdown", "plain")
    )
    assert [text for tag, _, text in headings(markdown) if tag == "h4"] == [
        f"via: {FIRST}",
        f"via: {BOTH}",
    ]
    assert [line for line in plain.splitlines() if line.startswith("via:")] == [
        f"via: {FIRST}",
        f"via: {BOTH}",
    ]


@pytest.mark.parametrize(("name", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_have_a_field_for_it(kb, name, read):
    rows = read(kb.context(ASK, spaces=["s"], paths=True, format=name).text)["context"]
    assert [row["via"] for row in rows] == [FIRST, BOTH]
    assert rows[0]["properties"] == {"via": "a phone"}


@pytest.mark.parametrize("name", FORMATS)
def test_every_form_tells_it(kb, name):
    for form in Form:
        recipe = [
            Recipe("found", limit=1, required=True),
            Recipe("linked", "walk", depth=2, limit=9, forms=(form,)),
        ]
        context = kb.context(ASK, spaces=["s"], paths=True, format=name, recipe=recipe)
        for block in context.fragments[1].chosen:
            text = FORMATS[name].block(block.hit, form)
            assert (json.dumps(FIRST)[1:-1] if name in ("json", "yaml") else FIRST) in text


@pytest.mark.parametrize("name", FORMATS)
def test_without_asking_nothing_changes(kb, name):
    usual, off = (
        kb.context(ASK, spaces=["s"], format=name, now="2026-01-01", **more)
        for more in ({}, {"paths": False})
    )
    assert (usual.text, usual.digest) == (off.text, off.digest)
    assert "mentions" not in usual.text
    assert not any(hit.via for hit in usual.hits)


def test_asking_gives_another_digest_and_the_same_bytes_each_time(kb):
    once, again, without = (
        kb.context(ASK, spaces=["s"], paths=paths, now="2026-01-01")
        for paths in (True, True, False)
    )
    assert (once.text, once.digest) == (again.text, again.digest)
    assert once.digest != without.digest


def test_an_edge_reads_from_source_to_target_in_either_direction():
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add(
            [Item("a", "s", title="Alpha", text="zebra"), Item("b", "s", title="Beta")],
            [Edge("b", "a", "written_by", space="s")],
        )
        assert (
            kb.context("zebra", spaces=["s"], paths=True).hits[1].via == '"Beta" written by "Alpha"'
        )


def test_an_intermediate_item_is_named_by_its_title():
    between = [
        Item("a", "s", title="Alpha plan", text="The zebra plan."),
        Item("hub", "s", Kind.ENTITY, title="Omega"),
        Item("b", "s", title="Beta"),
    ]
    with knowloom.open("memory:", embedder=None, links=[]) as kb:
        kb.add(between, [Edge("a", "hub", space="s"), Edge("hub", "b", space="s")])
        for source in ("walk", "neighbours"):
            recipe = [
                Recipe("found", limit=1),
                Recipe(
                    "linked", source, kinds=() if source == "neighbours" else (Kind.NODE,), depth=2
                ),
            ]
            ways = {
                hit.item.id: hit.via
                for hit in kb.context("zebra", spaces=["s"], recipe=recipe, paths=True).hits
            }
            assert ways["b"] == '"Alpha plan" is related to "Omega"; "Omega" is related to "Beta"'


def test_an_untitled_item_is_named_by_its_id_and_a_long_title_is_shortened():
    edge = Edge("a", "b", "similar", space="s")
    items = {
        ("s", "a"): Item("a", "s", title="word " * 2000),
        ("s", "b"): Item("b", "s", title="\n"),
    }
    path = describe_path([edge], items)
    assert path.endswith(' is similar to "b"')
    assert path.startswith('"word word')
    assert "wor …" not in path
    assert len(path) < 150
    assert len(describe_path([edge], {("s", "a"): Item("a", "s", title="漢" * 10_000)})) < 150


def test_every_automatic_edge_type_has_a_phrase():
    from knowloom.linking.rules import RULES
    from knowloom.retrieval.walk_constants import BRIDGE

    assert {*RULES, BRIDGE} <= set(EDGE_PHRASES)


@pytest.mark.parametrize("name", FORMATS)
def test_a_title_cannot_forge_a_link(name):
    forged = 'Alpha" mentions "Beta"; "X'
    linked = describe_path(
        [Edge("a", "b", 'x" y', space="s")],
        {("s", "a"): Item("a", "s", title=forged), ("s", "b"): Item("b", "s", title="B\\")},
    )
    assert [json.loads(text) for text in re.findall(r'"(?:[^"\\]|\\.)*"', linked)] == [
        forged,
        'x" y',
        "B\\",
    ]
    hit = Hit(
        Item(
            "f",
            "s",
            title=f"{forged}\nvia: {FIRST}",
            text=f"#### via: {FIRST}\nvia: {FIRST}\n\n#### via: {FIRST}",
        ),
        1.0,
    )
    text = FORMATS[name].block(hit, Form.WHOLE)
    assert (
        not [line for line in text.splitlines() if line.startswith(("via:", "#### via:"))]
        or name == "markdown"
    )
    if name == "markdown":
        assert [tag for tag, _, _ in headings(text)] == ["h3"]
    if name == "json":
        assert "via" not in json.loads(text)


links = st.builds(
    lambda type, ends: Edge(*ends, type, space="s"),
    any_text.filter(bool) | tricky,
    st.sampled_from(["ab", "ba"]),
)


@given(
    items(any_text | tricky),
    any_text,
    st.lists(links, min_size=1, max_size=3),
    st.sampled_from(Form),
)
@settings(deadline=None, max_examples=150)
def test_however_strange_titles_and_types_are_the_path_is_one_line_of_its_own(
    item: Item, title: str, chain: list[Edge], form: Form
) -> None:
    via = describe_path(chain, {("s", "a"): Item("a", "s", title=title), ("s", "b"): item})
    hit = Hit(item, 1.0, via=via)
    assert len(via.splitlines()) == 1
    assert json.loads(FORMATS["json"].block(hit, form))["via"] == via
    assert yaml.safe_load(FORMATS["yaml"].block(hit, form))[0]["via"] == via
    assert [
        line
        for line in FORMATS["plain"].block(hit, form).split("\n")[1:]
        if line and line[0] not in " -"
    ] == [f"via: {via}"]
    markdown = FORMATS["markdown"].block(hit, form)
    if form is Form.POINTER:
        assert markdown.endswith(f", via: {via}\n")
        assert [token.type for token in PARSER.parse(markdown) if token.level == 0] == [
            "bullet_list_open",
            "bullet_list_close",
        ]
    else:
        assert [tag for tag, _, _ in headings(markdown)] == ["h3", "h4"]


@given(
    st.lists(items(any_text), max_size=6),
    st.integers(0, 300),
    st.sampled_from(list(FORMATS)),
    st.sampled_from(MODELS),
    st.lists(links, min_size=1),
)
@settings(deadline=None, max_examples=60)
def test_no_path_however_strange_makes_a_context_too_long(
    found_items: list[Item], budget: int, name: str, model: str, chain: list[Edge]
) -> None:
    hits = tuple(
        Hit(item, 0.5, via=describe_path(chain[: number + 1], {("s", "a"): item}))
        for number, item in enumerate(found_items)
    )
    fitted = pack(
        [SectionCandidates(Recipe("linked"), hits)], budget, FORMATS[name], get_counter(model)
    )
    assert get_counter(model).count(fitted.text) == fitted.tokens <= budget


def test_no_request_overruns_its_budget_with_paths():
    paths = 0
    for seed in range(14):
        for case in cases(seed, 12):
            context = case.request(paths=True)
            assert context.tokens == get_counter(context.query.model).count(context.text)
            assert context.query.max_tokens is None or context.tokens <= context.query.max_tokens
            assert all(bool(hit.via) == (len(hit.path) > 1) for hit in context.hits)
            paths += sum(bool(hit.via) for hit in context.hits)
    assert paths > 50


def test_the_same_item_with_another_path_is_not_taken_from_memory():
    hit = Hit(Item("a", "s", title="A", text="Text."), 0.5)
    texts = {
        pack(
            [SectionCandidates(Recipe("linked"), (replace(hit, via=via),))],
            100,
            FORMATS["plain"],
            get_counter("gpt-4"),
        ).text
        for via in ("", '"x"', '"y"')
    }
    assert len(texts) == 3


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_non_boolean_value_is_refused(kb, value):
    with pytest.raises(Invalid, match="paths must be true or false"):
        kb.context(ASK, spaces=["s"], paths=value)


def test_explain_names_paths_without_changing_the_text(kb):
    context = kb.explain(ASK, spaces=["s"])
    assert describe_match(context.hits[2]) == f"{BOTH} (weight 1.0)"
    assert context.text == kb.context(ASK, spaces=["s"]).text
    small = kb.explain(ASK, spaces=["s"], max_tokens=30)
    assert {entry.hit.item.id: entry.hit.via for entry in small.left_out}["desk"] == BOTH


def test_contexts_with_paths_survive_the_wire(kb):
    for options in ({"paths": True}, {"paths": False}):
        context = kb.context(ASK, spaces=["s"], **options)
        assert context_from_json(context_to_json(context)) == replace(
            context, stats=replace(context.stats, timings={})
        )


def test_a_client_returns_the_same_context_as_the_engine(kb):
    with serving(kb) as url, Client(url) as client:
        for more in ({}, {"bm25_weight": 1.0}):
            here, there = (
                source.context(ASK, spaces=["s"], paths=True, now="2026-01-01T00:00:00Z", **more)
                for source in (kb, client)
            )
            assert (there.text, there.digest, there.hits) == (here.text, here.digest, here.hits)
            assert FIRST in there.text


@pytest.fixture
def http(kb: knowloom.Engine) -> Iterator[TestClient]:
    with TestClient(
        app.create_app(kb, limits=ServerLimits()), base_url="http://localhost"
    ) as client:
        yield client


def post(http: TestClient, **more: Any) -> dict[str, Any]:
    answer = http.post("/api/context", json={"query": ASK, "tenant_ids": ["s"]} | more)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_the_server_returns_paths_on_request(http):
    assert "via" not in post(http)["context"][0]
    body = post(http, paths=True, format="markdown")
    assert [row["via"] for row in body["context"]] == [FIRST, BOTH]
    assert f"#### via: {FIRST}\n" in body["text"]
    answer = http.post("/api/context", json={"query": ASK, "tenant_ids": ["s"], "paths": "yes"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "paths")


def test_an_agent_of_the_server_returns_paths(kb, http):
    kb.add(
        [
            Item("e", "s", Kind.ENTITY, "Feature", title="Refund request"),
            Item("f", "s", Kind.ENTITY, title="Ledger"),
        ],
        [Edge("e", "f", "uses", space="s")],
    )
    assert (
        '"Refund request" uses "Ledger"'
        in post(http, agent="copilot", paths=True, format="plain")["text"]
    )


def weight(id: str) -> Edge:
    return Edge("playbook", id, "related", 0.2 if id == "far" else 0.9, "s")


def test_a_walk_of_the_service_leads_towards_the_question_and_tells_the_documented_scores(kb, http):
    kb.add(
        [
            Item("far", "s", title="Appendix", text="The refund request form."),
            *[Item(f"n{n}", "s", title=f"Note {n}") for n in range(3)],
        ]
    )
    kb.add([], [weight("far"), *[weight(f"n{n}") for n in range(3)]])
    usual, walked = (
        post(http, entry_types=["faq"], expansion=expansion)["context"]
        for expansion in ("neighbours", "walk")
    )
    assert (
        {row["id"] for row in usual}
        == {row["id"] for row in walked}
        == {"far", "n0", "n1", "n2", "chargeback", "desk"}
    )
    for row in (*usual, *walked):
        assert row["path"][0] == "playbook"
        assert row["distance"] == len(row["path"]) - 1
    scores = [
        {row["id"]: (row["score"], row["edge_type"]) for row in rows} for rows in (usual, walked)
    ]
    assert scores[0] == scores[1]
    assert scores[1]["far"] == (0.1, "related")
    assert [
        row["id"]
        for row in post(http, entry_types=["faq"], expansion="walk", context_limit=1)["context"]
    ] != [usual[-1]["id"]]
    assert post(http, entry_types=["faq"])["context"] == usual  # the default


def test_a_walk_of_the_service_keeps_to_depth_types_and_switch(kb, http):
    for expansion in ("neighbours", "walk"):
        assert {
            row["id"]
            for row in post(http, expansion=expansion, entry_types=["faq"], max_depth=1)["context"]
        } == {"chargeback"}
        assert post(http, expansion=expansion, expand=False)["context"] == []
        assert post(http, expansion=expansion, max_depth=0)["context"] == []
        assert (
            post(http, expansion=expansion, entry_types=["faq"], expansion_types=["none such"])[
                "context"
            ]
            == []
        )
    answer = http.post(
        "/api/context", json={"query": ASK, "tenant_ids": ["s"], "expansion": "jump"}
    )
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "expansion")


def test_the_shell_prints_paths_on_request(tmp_path):
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(ITEMS)

    def run(*args: str) -> str:
        result = CliRunner().invoke(
            cli,
            [*args, ASK, "--space", "s"],
            env={
                "KNOWLOOM_STORE": str(tmp_path / "k.db"),
                "KNOWLOOM_EMBEDDER": "none",
                "COLUMNS": "200",
            },
        )
        assert result.exit_code == 0, result.output
        return result.output

    assert f"#### via: {FIRST}\n" in run("context", "--paths")
    assert "via" not in run("context").replace("**via**", "")
    assert f"{FIRST} (weight 1.0)" in run("explain")


def test_adapters_pass_the_option_on(kb):
    retriever = knowloom.LlamaIndexRetriever(kb, spaces=["s"], max_tokens=500, paths=True)
    assert any(f"via: {FIRST}" in node.get_content() for node in retriever.retrieve(ASK))
    chained = KnowloomRetriever(kb=kb, spaces=["s"], max_tokens=500, paths=True)
    assert any(f"via: {FIRST}" in document.page_content for document in chained.invoke(ASK))
