"""Invariants of every context: the budget, whole items, formats that read back, and reasons."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Context, Hit, Item, Recipe
from knowloom.caching import TwoGenerationCache
from knowloom.context import packing, renderings
from knowloom.context.excerpts import is_long
from knowloom.context.packing import SectionCandidates, pack
from knowloom.context.repetition import find_repetitions
from knowloom.formats.layout import FORMATS, assemble, get_layout
from knowloom.model import Form
from knowloom.tokens import get_counter
from random_requests import (
    MINILM,
    MODELS,
    RECIPES,
    SPECIALS,
    VOCABULARY,
    Case,
    cases,
    random_item,
    random_text,
)

EXAMPLES = int(os.environ.get("KNOWLOOM_EXAMPLES", "300"))
REQUESTS_PER_STORE = 20
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@pytest.fixture(scope="module")
def random_cases() -> list[Case]:
    stores = range(max(1, EXAMPLES // REQUESTS_PER_STORE))
    return [case for seed in stores for case in cases(seed, REQUESTS_PER_STORE)]


def blocks(context: Context) -> list[tuple[str, list[str]]]:
    shown = get_layout(context.query.format)
    return [
        (part.name, [shown.block(b.hit, b.form, b.passages) for b in part.chosen])
        for part in context.fragments
    ]


def ids(context: Context) -> dict[str, list[str]]:
    return {
        fragment.name: [hit.item.id for hit in fragment.hits]
        for fragment in context.fragments
        if fragment.chosen
    }


def test_the_text_never_exceeds_max_tokens(random_cases):
    for case in random_cases:
        assert case.context.tokens == get_counter(case.context.query.model).count(case.context.text)
        assert (
            case.context.query.max_tokens is None
            or case.context.tokens <= case.context.query.max_tokens
        )


def test_no_tokens_give_no_text(random_cases):
    for case in random_cases[:: max(1, len(random_cases) // 50)]:
        context = case.request(max_tokens=0)
        assert (context.text, context.tokens, context.hits) == ("", 0, ())


def test_without_a_budget_every_candidate_is_included_whole(random_cases):
    for case in random_cases:
        if case.context.query.max_tokens is None:
            assert all(
                chosen.form is Form.WHOLE
                for fragment in case.context.fragments
                for chosen in fragment.chosen
            )
            assert case.context.left_out == ()


def test_a_large_budget_includes_everything_whole(random_cases):
    for case in random_cases:
        if case.context.query.max_tokens is None and case.options["recipe"] in (
            "search",
            RECIPES[5],
        ):
            assert (
                case.request(max_tokens=2 * case.context.tokens + 100, limit=200).text
                == case.request(limit=200).text
            )


def test_every_candidate_is_included_or_left_out_with_a_reason(random_cases):
    for case in random_cases:
        context = case.context
        keys = [hit.item.key for hit in context.hits] + [
            entry.hit.item.key for entry in context.left_out
        ]
        assert len(keys) == len(set(keys)) == context.stats.candidates
        assert all(
            entry.reason and entry.fragment in ids_of_parts(context) for entry in context.left_out
        )


def ids_of_parts(context: Context) -> list[str]:
    return [fragment.name for fragment in context.fragments]


def test_items_are_never_cut(random_cases):
    for case in random_cases:
        context = case.context
        assert context.text == assemble(get_layout(context.query.format), blocks(context))
        assert [[chosen.text for chosen in fragment.chosen] for fragment in context.fragments] == [
            texts for _, texts in blocks(context)
        ]


def test_json_and_yaml_read_back_as_the_chosen_items_in_order(random_cases):
    for case in random_cases:
        if case.context.text and case.context.query.format in ("json", "yaml"):
            read = (
                json.loads(case.context.text)
                if case.context.query.format == "json"
                else yaml.load(case.context.text, LOADER)
            )
            assert {name: [row["id"] for row in rows] for name, rows in read.items()} == ids(
                case.context
            )


def test_the_same_request_gives_the_same_bytes(random_cases):
    for case in random_cases[:: max(1, len(random_cases) // 200)]:
        again = case.request()
        assert (again.text, again.digest, again.left_out) == (
            case.context.text,
            case.context.digest,
            case.context.left_out,
        )


def test_too_large_items_do_not_fit_alone_and_outweighed_ones_do(random_cases):
    for case in random_cases[:: max(1, len(random_cases) // 200)]:
        query = case.context.query
        for entry in case.context.left_out[:5]:
            alone = pack(
                [SectionCandidates(recipe_of(case, entry.fragment), (entry.hit,))],
                query.max_tokens,
                get_layout(query.format),
                get_counter(query.model),
                query=query.text,
            )
            fits = bool(alone.fragments[0].chosen)
            if entry.reason.startswith("repeats"):
                candidates = [entry.hit, *case.context.hits]
                assert 0 in find_repetitions(candidates, query.text), entry
            elif entry.reason.startswith("outweighed: other items"):
                assert is_long(entry.hit), entry
            else:
                assert entry.reason.startswith("outweighed" if fits else "too large")


def recipe_of(case: Case, name: str) -> Recipe:
    named = case.options["recipe"]
    recipes = knowloom.recipes.RECIPES[named] if isinstance(named, str) else named
    return next(recipe for recipe in recipes if recipe.name == name)


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o", MINILM])
@pytest.mark.parametrize("name", FORMATS)
def test_a_tight_budget_is_used_to_the_last_few_tokens(name, model):
    chance = random.Random(3)
    for budget in (1000, 1777, 2500, 4000):
        paragraphs = tuple(
            Hit(paragraph(chance, number), round(chance.random(), 3))
            for number in range(budget // 10)
        )
        fitted = pack(
            [SectionCandidates(Recipe("one"), paragraphs)],
            budget,
            get_layout(name),
            get_counter(model),
        )
        assert 0.97 * budget <= fitted.tokens <= budget


def paragraph(chance: random.Random, number: int) -> Item:
    title, text, summary = (
        " ".join(chance.choices(VOCABULARY, k=length))
        for length in (4, chance.randint(20, 120), chance.choice([0, 8]))
    )
    return Item(f"i{number}", "s", title=title, text=text, summary=summary)


def test_no_section_exceeds_its_cap(random_cases):
    for case in random_cases:
        if case.options["recipe"] == RECIPES[4] and case.context.query.max_tokens is not None:
            caps = {"first": 0.6, "linked": 0.5, "see_also": 1.0}
            assert all(
                fragment.tokens <= caps[fragment.name] * case.context.query.max_tokens
                for fragment in case.context.fragments
            )


def test_a_cap_is_a_share_of_the_budget_not_of_the_candidates():
    hits = tuple(
        Hit(Item(f"i{number}", "s", title=f"Title {number}", text="word " * 50), 0.5)
        for number in range(10)
    )
    fitted = pack(
        [SectionCandidates(Recipe("half", max_share=0.5), hits)],
        10_000,
        get_layout("markdown"),
        get_counter("gpt-4"),
    )
    assert fitted.left_out == ()


def test_a_section_of_less_relevant_items_gets_its_share():
    text = "word " * 30
    good = tuple(Hit(Item(f"good{n}", "s", text=f"{text} {n}"), 1.0) for n in range(20))
    poor = tuple(Hit(Item(f"poor{n}", "s", text=f"{text} -{n}"), 0.1) for n in range(20))
    parts = [
        SectionCandidates(Recipe("good", share=0.5), good),
        SectionCandidates(Recipe("poor", share=0.5), poor),
    ]
    fitted = pack(parts, 800, get_layout("markdown"), get_counter("gpt-4"))
    assert fitted.fragments[1].tokens > 0.4 * 800


def test_tokens_unused_by_a_section_go_to_the_others():
    text = "word " * 30
    hits = tuple(Hit(Item(f"i{n}", "s", text=f"{text} {n}"), 1.0) for n in range(40))
    parts = [
        SectionCandidates(Recipe("rich", share=0.1), hits),
        SectionCandidates(Recipe("empty", share=0.9), ()),
    ]
    assert pack(parts, 800, get_layout("plain"), get_counter("gpt-4")).tokens > 0.95 * 800


def test_a_better_item_is_preferred_to_a_worse_one_of_the_same_size():
    hits = tuple(
        Hit(Item(f"i{number}", "s", text="word " * 30), score)
        for number, score in enumerate([0.2, 0.9, 0.3])
    )
    fitted = pack(
        [SectionCandidates(Recipe("one", forms=(Form.WHOLE,)), hits)],
        45,
        get_layout("markdown"),
        get_counter("gpt-4"),
    )
    assert [chosen.hit.item.id for chosen in fitted.fragments[0].chosen] == ["i1"]


def test_a_summary_is_used_where_the_whole_item_does_not_fit():
    hit = Hit(Item("i", "s", title="Refunds", text="word " * 500, summary="In short."), 1.0)
    fitted = pack(
        [SectionCandidates(Recipe("one"), (hit,))], 60, get_layout("markdown"), get_counter("gpt-4")
    )
    assert "In short." in fitted.text


def test_a_pointer_is_used_where_nothing_else_fits():
    hit = Hit(Item("the-id", "s", title="Refunds", text="word " * 500), 1.0)
    fitted = pack(
        [SectionCandidates(Recipe("one"), (hit,))], 30, get_layout("markdown"), get_counter("gpt-4")
    )
    assert "the-id" in fitted.text and "word" not in fitted.text


def test_an_item_that_needs_another_is_not_included_without_it():
    hits = (
        Hit(Item("link", "s", text="link"), 1.0),
        Hit(Item("end", "s", text="word " * 100), 0.1),
    )
    part = SectionCandidates(Recipe("one", forms=(Form.WHOLE,)), hits, needs=(((1,),), ()))
    small, large = (
        pack([part], budget, get_layout("markdown"), get_counter("gpt-4")) for budget in (60, 200)
    )
    assert small.text == ""
    assert [chosen.hit.item.id for chosen in large.fragments[0].chosen] == ["link", "end"]


ANY = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30
) | st.lists(st.sampled_from(SPECIALS), max_size=6).map("".join)
hits = st.builds(
    lambda number, score, fields: Hit(Item(f"i{number}", "s", **fields), score),
    st.integers(0, 10**6),
    st.floats(0, 1),
    st.fixed_dictionaries(
        {
            "title": ANY,
            "text": ANY,
            "summary": ANY,
            "type": ANY,
            "properties": st.dictionaries(ANY, ANY | st.integers(), max_size=2),
        }
    ),
)


@settings(max_examples=max(50, EXAMPLES // 4), deadline=None)
@given(
    st.lists(st.lists(hits, max_size=6), max_size=3),
    st.integers(0, 300),
    st.sampled_from(list(FORMATS)),
    st.sampled_from(MODELS),
)
def test_no_text_however_strange_makes_a_context_too_long(sections, budget, name, model):
    parts = [
        SectionCandidates(Recipe(f"part{number}", share=0.4), tuple(many))
        for number, many in enumerate(sections)
    ]
    fitted = pack(parts, budget, get_layout(name), get_counter(model))
    assert fitted.tokens == get_counter(model).count(fitted.text) <= budget


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("model", MODELS)
def test_every_budget_is_respected_token_by_token(name, model):
    chance = random.Random(7)
    parts = [
        SectionCandidates(Recipe("one", share=0.5), random_hits(chance, 8)),
        SectionCandidates(Recipe("two", share=0.5), random_hits(chance, 8)),
    ]
    for budget in range(0, 400, 7):
        fitted = pack(parts, budget, get_layout(name), get_counter(model))
        assert fitted.tokens == get_counter(model).count(fitted.text) <= budget


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o", "some-other-model"])
def test_where_counts_add_up_the_first_solution_fits(name, model, monkeypatch):
    chance = random.Random(7)
    parts = [
        SectionCandidates(Recipe("one", share=0.5), random_hits(chance, 8)),
        SectionCandidates(Recipe("two", share=0.5), random_hits(chance, 8)),
    ]
    monkeypatch.setattr(packing, "MAX_ATTEMPTS", 1)
    assert all(
        pack(parts, budget, get_layout(name), get_counter(model)).text
        for budget in range(200, 600, 7)
    )


def random_hits(chance: random.Random, many: int) -> tuple[Hit, ...]:
    return tuple(
        Hit(replace(random_item(chance, number), text=random_text(chance, 20)), chance.random())
        for number in range(many)
    )


def test_a_text_of_a_megabyte_is_left_out_of_a_small_context_and_shown_in_a_large_one():
    parts: Sequence[SectionCandidates] = [
        SectionCandidates(
            Recipe("one", forms=(Form.WHOLE,)), (Hit(Item("i", "s", text="word " * 200_000), 1.0),)
        )
    ]
    small, large = (
        pack(parts, budget, get_layout("markdown"), get_counter("gpt-4"))
        for budget in (1000, 300_000)
    )
    assert small.left_out[0].tokens > 200_000
    assert large.tokens <= 300_000 and large.text.count("word") == 200_000


def test_irrelevant_items_are_included_whole_where_there_is_room():
    kb = knowloom.open("memory:", embedder=None)
    kb.add(Item("a", "one", title="Refunds", text="A refund takes five days. " * 3))
    hardly = [Recipe("entry_points", sharpness=100.0)]
    shown = kb.context("refund zebra giraffe lion", spaces=["one"], recipe=hardly, max_tokens=500)
    assert [chosen.form.value for part in shown.fragments for chosen in part.chosen] == ["whole"]


@pytest.mark.parametrize(
    "texts",
    [
        ("Done!\n", "/home\n"),
        ("Done!\n", " x\n"),
        ("Done!", "'s\n"),
        ("wor", "d\n"),
        ("Done!\n\n", "x\n\n"),
    ],
)
@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o", "some-other-model"])
def test_blocks_that_cannot_be_counted_one_by_one_are_counted_together(texts, model):
    bare = replace(
        get_layout("markdown"), name="bare", block=lambda hit, _: hit.item.text, is_cacheable=False
    )
    hits = tuple(
        Hit(Item(f"i{number}", "s", title="t", text=text), 1.0) for number, text in enumerate(texts)
    )
    fitted = pack(
        [SectionCandidates(Recipe("one", forms=(Form.WHOLE,)), hits)], 100, bare, get_counter(model)
    )
    assert len(fitted.fragments[0].chosen) == 2
    assert fitted.tokens == get_counter(model).count(fitted.text)


@pytest.mark.parametrize("field", ["title", "text", "summary", "properties"])
def test_renderings_of_large_items_are_not_remembered(field, monkeypatch):
    cache = TwoGenerationCache("test", 100)
    monkeypatch.setattr(renderings, "_cache", cache)
    for size in (10, renderings.MAX_CACHED_CHARACTERS + 5):
        large = "word " * (size // 5)
        item = Item(
            f"i{size}", "s", **{field: {"notes": large} if field == "properties" else large}
        )
        pack(
            [SectionCandidates(Recipe("one"), (Hit(item, 1.0),))],
            100,
            get_layout("markdown"),
            get_counter("gpt-4"),
        )
    assert [key[4] for key in cache] == ["i10"]
