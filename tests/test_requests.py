"""Searches and contexts that the engine refuses."""

from __future__ import annotations

from typing import Any

import pytest
from engine_samples import AxisEmbedder, node

import knowloom
from knowloom import (
    Invalid,
    NotFound,
    Recipe,
    Weights,
)

REFUSED_REQUESTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"spaces": ["nowhere"]}, NotFound, "unknown space 'nowhere'; available: s"),
    ({"spaces": "s"}, Invalid, "spaces must be a list of names, got 's'"),
    ({"spaces": {"s"}}, Invalid, "spaces must be a list of names"),
    ({"spaces": [5]}, Invalid, "spaces must be text, got int"),
    ({"text": 5}, Invalid, "query must be text of at most 100,000 characters"),
    ({"text": "x" * 100_001}, Invalid, "query must be text of at most 100,000 characters"),
    ({"text": "\ud800"}, Invalid, "lone surrogates"),
    ({"types": "faq"}, Invalid, "types must be a list of names, got 'faq'"),
    ({"tags": "x"}, Invalid, "tags must be a list of names, got 'x'"),
    ({"exclude_types": "faq"}, Invalid, "exclude_types must be a list of names, got 'faq'"),
    ({"types": ["\ud800"]}, Invalid, "lone surrogates"),
    (
        {"kinds": ["animal"]},
        Invalid,
        "unknown kind 'animal'; available: claim, entity, memory, node, profile, rule",
    ),
    ({"kinds": "node"}, Invalid, "kinds must be a list of names, got 'node'"),
    ({"mode": "magic"}, Invalid, "unknown mode 'magic'; available: bm25, hybrid, vector, walk"),
    ({"limit": 0}, Invalid, "limit must be an integer from 1 to 10,000, got 0"),
    ({"limit": -1}, Invalid, "limit must be an integer from 1 to 10,000, got -1"),
    ({"limit": 10_001}, Invalid, "limit must be an integer from 1 to 10,000, got 10001"),
    ({"limit": True}, Invalid, "limit must be an integer from 1 to 10,000, got True"),
    ({"limit": 2.5}, Invalid, "limit must be an integer from 1 to 10,000, got 2.5"),
    ({"min_score": 1.5}, Invalid, "min_score must be a number from 0 to 1, got 1.5"),
    ({"min_score": float("nan")}, Invalid, "min_score must be a number from 0 to 1, got nan"),
    ({"now": "soon"}, Invalid, "now must be a time such as 2026-01-31T12:00:00Z, got 'soon'"),
    ({"now": 0}, Invalid, "now must be a time such as 2026-01-31T12:00:00Z, got 0"),
    ({"now": ""}, Invalid, "now must be a time such as 2026-01-31T12:00:00Z, got ''"),
    ({"as_of": 12}, Invalid, "as_of must be a time such as 2026-01-31T12:00:00Z, got 12"),
    ({"vector": [float("nan")]}, Invalid, "finite numbers"),
    ({"vector": [0.0, 0.0]}, Invalid, "not all of them 0"),
    ({"vector": "abc"}, Invalid, "a list of numbers"),
]
REFUSED_CONTEXTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    *REFUSED_REQUESTS,
    (
        {"max_tokens": -1},
        Invalid,
        "max_tokens must be an integer from 0 to 100,000,000, got -1",
    ),
    (
        {"max_tokens": 10**9},
        Invalid,
        "max_tokens must be an integer from 0 to 100,000,000, got 1000000000",
    ),
    (
        {"max_tokens": "many"},
        Invalid,
        "max_tokens must be an integer from 0 to 100,000,000, got 'many'",
    ),
    ({"format": "xml"}, Invalid, "unknown format 'xml'; available: json, markdown, plain, yaml"),
    ({"format": ["json"]}, Invalid, "format must be text, got list"),
    ({"model": ""}, Invalid, "model must be an OpenAI model"),
    ({"model": None}, Invalid, "for an estimate, got 'None'"),
    ({"model": "nowhere.json"}, Invalid, "no tokenizer file 'nowhere.json'"),
    (
        {"recipe": "soup"},
        Invalid,
        "unknown recipe 'soup'; available: knowledge, memories, profile, search",
    ),
    (
        {"recipe": []},
        Invalid,
        "recipe must be one of knowledge, memories, profile, search or a list of Recipe values, "
        "got []",
    ),
    ({"recipe": Recipe("x")}, Invalid, "or a list of Recipe values, got Recipe"),
    ({"recipe": ["search"]}, Invalid, "or a list of Recipe values, got ['search']"),
    ({"recipe": [Recipe("x"), Recipe("x")]}, Invalid, "duplicate recipe name 'x'"),
    (
        {"recipe": [Recipe("x", forms=("huge",))]},
        Invalid,
        "unknown form 'huge'; available: excerpt, pointer, summary, whole",
    ),
    (
        {"recipe": [Recipe("x", forms="whole")]},
        Invalid,
        "forms must be a list of names, got 'whole'",
    ),
    ({"recipe": [Recipe(5)]}, Invalid, "a recipe's name must be text, got int"),
    ({"recipe": [Recipe("x", types="faq")]}, Invalid, "types must be a list of names, got 'faq'"),
    ({"recipe": [Recipe("x", kinds=("animal",))]}, Invalid, "unknown kind 'animal'"),
    (
        {"recipe": [Recipe("x", source="web")]},
        Invalid,
        "unknown source 'web'; available: links, neighbours, profile, search, subjects, walk",
    ),
    (
        {"recipe": [Recipe("x", share=-0.5)]},
        Invalid,
        "share must be a number from 0 to 1, got -0.5",
    ),
    (
        {"recipe": [Recipe("x", max_share=2)]},
        Invalid,
        "max_share must be a number from 0 to 1, got 2",
    ),
    (
        {"recipe": [Recipe("x", sharpness=-1)]},
        Invalid,
        "sharpness must be a number >= 0, got -1",
    ),
    (
        {"recipe": [Recipe("x", near=-1)]},
        Invalid,
        "near must be an integer from 0 to 100, got -1",
    ),
    (
        {"recipe": [Recipe("x", depth=11)]},
        Invalid,
        "depth must be an integer from 0 to 10, got 11",
    ),
    (
        {"recipe": [Recipe("x", hub_cap=0)]},
        Invalid,
        "hub_cap must be an integer from 1 to 10,000, got 0",
    ),
    ({"recipe": [Recipe("x", weights=Weights(match=0))]}, Invalid, "weights must not all be 0"),
    (
        {"recipe": [Recipe("x", weights=Weights(name=-1))]},
        Invalid,
        "the weight of name must be a number >= 0, got -1",
    ),
    ({"depth": 11}, Invalid, "depth must be an integer from 0 to 10, got 11"),
    ({"depth": -1}, Invalid, "depth must be an integer from 0 to 10, got -1"),
    ({"bm25_weight": -1}, Invalid, "bm25_weight must be a number >= 0, got -1"),
    (
        {"bm25_weight": 0, "vector_weight": 0},
        Invalid,
        "bm25_weight and vector_weight must not both be 0",
    ),
    ({"entity": 5}, Invalid, "entity must be text, got int"),
    ({"entity": "\ud800"}, Invalid, "lone surrogates"),
    (
        {"max_token": 100},
        Invalid,
        "unknown option 'max_token'; available: after, agent, as_of, bm25_weight",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED_REQUESTS)
def test_an_invalid_search_is_refused(refund_kb, options, error, message):
    with pytest.raises(error) as caught:
        refund_kb.search(**{"text": "refund", "spaces": ["s"]} | options)
    assert message in str(caught.value)


@pytest.mark.parametrize(("options", "error", "message"), REFUSED_CONTEXTS)
def test_an_invalid_context_request_is_refused(refund_kb, options, error, message):
    for method in (refund_kb.context, refund_kb.explain):
        with pytest.raises(error) as caught:
            method(**{"text": "refund", "spaces": ["s"]} | options)
        assert message in str(caught.value)


def test_a_query_vector_of_wrong_dimensions_is_refused(store_url):
    with knowloom.open(store_url, embedder=AxisEmbedder()) as kb:
        kb.add(node("a", "refund"))
        with pytest.raises(Invalid, match="a vector must have 5 dimensions, got 2"):
            kb.search("refund", spaces=["s"], vector=[1, 0])
