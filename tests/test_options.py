"""Typed options of requests, and retrieval settings from a file, a table or a value."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import get_type_hints

import pytest

import knowloom
from knowloom import config
from knowloom.errors import Invalid
from knowloom.evaluation import evaluate
from knowloom.integrations import lookup
from knowloom.options import (
    CONTEXT_OPTIONS,
    SEARCH_OPTIONS,
    ContextArguments,
    ContextOptions,
    SearchArguments,
    SearchOptions,
)
from knowloom.recipes import KNOWLEDGE, SEARCH, Recipe, Walk
from knowloom.retrieval_settings import (
    SETTING_NAMES,
    RetrievalSettings,
    load_settings,
    resolve_settings,
)
from knowloom.server.schemas.client_api import ClientContextRequest, ClientSearchRequest
from knowloom.tiers import TIERS
from knowloom.wire.recipes import recipe_from_json

ITEMS = [
    knowloom.Item(
        "lothair",
        "kings",
        title="Lothair II",
        text="Lothair II was a son of Lothair I and Ermengarde of Tours.",
    ),
    knowloom.Item(
        "ermengarde",
        "kings",
        title="Ermengarde of Tours",
        text="The empress passed away on 20 March 851.",
    ),
    knowloom.Item(
        "mothers",
        "kings",
        title="Mothers in tales",
        text="When did the mother of the hero die? In most tales, early.",
    ),
]
QUESTION = "When did the mother of Lothair II die?"


@pytest.fixture
def kings():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(ITEMS)
        yield kb


def found_by(context: knowloom.Context) -> set[str]:
    return {by for hit in context.hits for by in hit.found_by}


def test_empty_settings_leave_recipes_unchanged():
    assert [RetrievalSettings().apply(recipe) for recipe in KNOWLEDGE] == list(KNOWLEDGE)


def test_every_walk_parameter_has_a_setting():
    assert {f"walk_{field.name}" for field in fields(Walk)} == {
        name for name in SETTING_NAMES if name.startswith("walk_")
    }


def test_each_recipe_takes_the_settings_of_its_source():
    search, walk, entities = (
        RetrievalSettings(
            bm25_weight=0.1, vector_weight=0.9, sharpness=2, depth=3, walk_starts=4, walk_onward=0.7
        ).apply(recipe)
        for recipe in KNOWLEDGE
    )
    assert (search.bm25_weight, search.vector_weight, search.sharpness) == (0.1, 0.9, 2)
    assert (walk.depth, walk.walk, walk.bm25_weight) == (
        3,
        Walk(starts=4, onward=0.7),
        Recipe("x").bm25_weight,
    )
    assert entities.depth == 1, "the entities of an item are one link away, however far a walk goes"


def test_a_request_can_enable_a_walk_that_the_settings_disable(kings):
    plain = kings.with_retrieval(RetrievalSettings(depth=0))
    assert "graph" in found_by(kings.context("son of Lothair I", spaces=["kings"]))
    assert "graph" not in found_by(plain.context("son of Lothair I", spaces=["kings"]))
    assert "graph" in found_by(plain.context("son of Lothair I", spaces=["kings"], depth=2))


def test_a_walk_search_uses_the_walk_settings(kings):
    def scores(kb: knowloom.Engine) -> dict[str, float]:
        return {
            hit.item.id: hit.score for hit in kb.search(QUESTION, spaces=["kings"], mode="walk")
        }

    assert (
        scores(kings)["ermengarde"]
        > scores(kings.with_retrieval(RetrievalSettings(walk_onward=0.1)))["ermengarde"]
    )


def test_a_request_overrides_the_settings(kings):
    other = kings.with_retrieval(RetrievalSettings(sharpness=1))
    query = {"spaces": ["kings"], "now": kings.reader.now()}
    assert other.context(QUESTION, **query).digest != kings.context(QUESTION, **query).digest
    assert (
        other.context(QUESTION, recipe=SEARCH, **query).digest
        == kings.context(QUESTION, recipe=SEARCH, **query).digest
    ), "recipes given as values stay"
    assert (
        other.context(QUESTION, agent="copilot", **query).digest
        == kings.context(QUESTION, agent="copilot", **query).digest
    )


def test_with_retrieval_does_not_change_the_original_engine(kings):
    kings.with_retrieval(RetrievalSettings(depth=0))
    assert kings.retrieval == RetrievalSettings()


def test_a_file_a_table_and_a_value_are_equivalent(tmp_path: Path):
    path = tmp_path / "patch.toml"
    path.write_text("[retrieval]\nbm25_weight = 0.3\nwalk_starts = 20\n")
    expected = RetrievalSettings(bm25_weight=0.3, walk_starts=20)
    assert (
        resolve_settings(path)
        == resolve_settings(str(path))
        == resolve_settings({"bm25_weight": 0.3, "walk_starts": 20})
        == resolve_settings(expected)
        == expected
    )
    with knowloom.open("memory:", embedder=None, retrieval=path) as kb:
        assert kb.retrieval == expected


def test_knowloom_toml_can_contain_the_table_or_name_a_file(tmp_path: Path):
    (tmp_path / "knowloom.toml").write_text('store = "x.db"\n[retrieval]\nsharpness = 3.0\n')
    assert resolve_settings(config.load({}, tmp_path).retrieval) == RetrievalSettings(sharpness=3.0)
    (tmp_path / "knowloom.toml").write_text('retrieval = "patch.toml"\n')
    assert config.load({}, tmp_path).retrieval == "patch.toml"
    assert config.load({"KNOWLOOM_RETRIEVAL": "other.toml"}, tmp_path).retrieval == "other.toml"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "[retrieval]\nbm26_weight = 1",
            "unknown retrieval setting 'bm26_weight'; available: bm25_weight, confidence_floor",
        ),
        (
            "[retrieval]\nbm25_weight = -1",
            "bm25_weight must be a number >= 0, got -1",
        ),
        ("[retrieval]\nbm25_weight = 0\nvector_weight = 0", "must not both be 0"),
        (
            "[retrieval]\nsharpness = 'much'",
            "sharpness must be a number >= 0, got 'much'",
        ),
        ("[retrieval]\ndepth = 11", "depth must be an integer from 0 to 10, got 11"),
        ("[retrieval]\ndepth = 1.5", "depth must be an integer"),
        (
            "[retrieval]\nwalk_starts = 0",
            "walk_starts must be an integer from 1 to 1,000, got 0",
        ),
        ("[retrieval]\nwalk_onward = 1.5", "walk_onward must be a number from 0 to 1, got 1.5"),
        (
            "[retrieval]\nwalk_sharpness = 0",
            "walk_sharpness must be a number from 0.1 to 100, got 0",
        ),
        (
            "[retrieval]\nwalk_sharpness = nan",
            "walk_sharpness must be a number from 0.1 to 100, got nan",
        ),
        ("[retrieval]\nwalk_named = true", "walk_named must be a number from 0 to 1, got True"),
        ("[other]\nx = 1", "no table [retrieval]"),
        ("retrieval = 5", "no table [retrieval]"),
        ("retrieval = [", "not TOML"),
    ],
)
def test_invalid_settings_are_refused_with_the_file(tmp_path: Path, content: str, message: str):
    path = tmp_path / "patch.toml"
    path.write_text(content)
    with pytest.raises(Invalid) as caught:
        load_settings(path)
    assert message in str(caught.value) and "patch.toml" in str(caught.value)


def test_a_missing_file_and_values_of_other_types_are_refused(kings):
    with pytest.raises(Invalid, match=r"no file 'nowhere.toml'"):
        knowloom.open("memory:", embedder=None, retrieval="nowhere.toml")
    with pytest.raises(
        Invalid, match="retrieval must be a file, a mapping or a RetrievalSettings, got int"
    ):
        resolve_settings(5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="walk_bridge must be a number from 0 to 1, got 2"):
        kings.with_retrieval(RetrievalSettings(walk_bridge=2))


def test_a_recipe_sent_as_json_keeps_its_walk():
    sent = Recipe("x", "walk", walk=Walk(starts=3))
    assert recipe_from_json(asdict(sent)).walk == Walk(starts=3)
    with pytest.raises(Invalid, match="unknown field of a Walk 'stars'"):
        recipe_from_json({"name": "x", "walk": {"stars": 3}})


def test_a_server_uses_its_settings_unless_a_request_overrides_them():
    pytest.importorskip("fastapi")
    from knowloom.server.routes.context import build_context
    from knowloom.server.schemas.context import ContextRequest

    tier = TIERS["enterprise"]
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(ITEMS)
        at = {"query": QUESTION, "tenant_ids": ["kings"], "now": "2026-01-01T00:00:00Z"}
        other = kb.with_retrieval(RetrievalSettings(bm25_weight=0.9, vector_weight=0.1))
        digests = [
            build_context(engine, ContextRequest(**at, **weights), ["kings"], tier).digest
            for engine, weights in (
                (kb, {}),
                (other, {}),
                (other, {"bm25_weight": 0.6, "vector_weight": 0.4}),
            )
        ]
        explicit = build_context(
            kb, ContextRequest(**at, bm25_weight=0.6, vector_weight=0.4), ["kings"], tier
        ).digest
    assert digests[0] != digests[1] and digests[2] == explicit


@pytest.mark.parametrize(
    ("options", "arguments"), [(ContextOptions, ContextArguments), (SearchOptions, SearchArguments)]
)
def test_options_and_their_keyword_arguments_agree(options, arguments):
    assert get_type_hints(options) == get_type_hints(arguments)


@pytest.mark.parametrize("call", ["context", "explain", "search"])
def test_an_unknown_option_is_refused_with_the_available_ones(kings, call):
    with pytest.raises(Invalid, match=r"unknown option 'limits'; available: .*limit, .*mode"):
        getattr(kings, call)(QUESTION, spaces=["kings"], limits=3)


def test_option_lists_of_other_surfaces_agree():
    assert set(evaluate.SEARCH_OPTIONS) <= set(SEARCH_OPTIONS) & set(CONTEXT_OPTIONS)
    assert set(evaluate.OPTIONS) <= {*CONTEXT_OPTIONS, *SETTING_NAMES}
    assert set(lookup.OPTIONS) <= set(CONTEXT_OPTIONS)
    context = set(ClientContextRequest.model_fields) - {"query", "spaces", "ids", "remedies"}
    assert context == set(CONTEXT_OPTIONS)
    assert set(ClientSearchRequest.model_fields) - {"query", "spaces"} == set(SEARCH_OPTIONS)


@pytest.mark.parametrize("call", ["context", "search"])
def test_the_spaces_of_a_query_are_a_list(kings, call):
    with pytest.raises(Invalid, match="spaces must be a list of names, got 'kings'"):
        getattr(kings, call)(QUESTION, spaces="kings")
