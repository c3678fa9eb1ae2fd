"""Numbers of retrieval from a file, a table or a value: what they change, what they leave alone, what is refused."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

import pytest

import knowloom
from knowloom import config
from knowloom.errors import Invalid, NotFound
from knowloom.options import NAMES, RetrievalSettings, known, load
from knowloom.recipes import KNOWLEDGE, SEARCH, Recipe, Walk
from knowloom.tiers import TIERS
from knowloom.wire import decoding

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
ASKED = "When did the mother of Lothair II die?"


@pytest.fixture
def kings():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(ITEMS)
        yield kb


def found_by(context: knowloom.Context) -> set[str]:
    return {by for hit in context.hits for by in hit.found_by}


def test_without_numbers_recipes_stay_as_they_are():
    assert [RetrievalSettings().applied(one) for one in KNOWLEDGE] == list(KNOWLEDGE)


def test_every_number_of_a_walk_may_be_set():
    assert {f"walk_{one.name}" for one in fields(Walk)} == {
        name for name in NAMES if name.startswith("walk_")
    }


def test_each_recipe_takes_what_it_has_a_use_for():
    search, walk, entities = (
        RetrievalSettings(
            bm25_weight=0.1, vector_weight=0.9, sharpness=2, depth=3, walk_starts=4, walk_onward=0.7
        ).applied(one)
        for one in KNOWLEDGE
    )
    assert (search.bm25_weight, search.vector_weight, search.sharpness) == (0.1, 0.9, 2)
    assert (walk.depth, walk.walk, walk.bm25_weight) == (
        3,
        Walk(starts=4, onward=0.7),
        Recipe("x").bm25_weight,
    )
    assert entities.depth == 1, "the entities of an item are one link away, however far a walk goes"


def test_the_walk_is_switched_off_for_all_contexts_and_a_request_may_want_it_back(kings):
    plain = kings.with_retrieval(RetrievalSettings(depth=0))
    assert "graph" in found_by(kings.context("son of Lothair I", spaces=["kings"]))
    assert "graph" not in found_by(plain.context("son of Lothair I", spaces=["kings"]))
    assert "graph" in found_by(plain.context("son of Lothair I", spaces=["kings"], depth=2))


def test_a_search_along_links_takes_the_numbers_of_the_walk(kings):
    def scores(kb: knowloom.Engine) -> dict[str, float]:
        return {hit.item.id: hit.score for hit in kb.search(ASKED, spaces=["kings"], mode="walk")}

    assert (
        scores(kings)["ermengarde"]
        > scores(kings.with_retrieval(RetrievalSettings(walk_onward=0.1)))["ermengarde"]
    )


def test_a_request_wins_over_the_numbers(kings):
    other = kings.with_retrieval(RetrievalSettings(sharpness=1))
    query = {"spaces": ["kings"], "now": kings.now()}
    assert other.context(ASKED, **query).digest != kings.context(ASKED, **query).digest
    assert (
        other.context(ASKED, recipe=SEARCH, **query).digest
        == kings.context(ASKED, recipe=SEARCH, **query).digest
    ), "recipes given as values stay"
    assert (
        other.context(ASKED, agent="copilot", **query).digest
        == kings.context(ASKED, agent="copilot", **query).digest
    )


def test_other_numbers_leave_the_first_engine_alone(kings):
    kings.with_retrieval(RetrievalSettings(depth=0))
    assert kings.retrieval == RetrievalSettings()


def test_a_file_a_table_and_a_value_say_the_same(tmp_path: Path):
    path = tmp_path / "patch.toml"
    path.write_text("[retrieval]\nbm25_weight = 0.3\nwalk_starts = 20\n")
    expected = RetrievalSettings(bm25_weight=0.3, walk_starts=20)
    assert (
        known(path)
        == known(str(path))
        == known({"bm25_weight": 0.3, "walk_starts": 20})
        == known(expected)
        == expected
    )
    with knowloom.open("memory:", embedder=None, retrieval=path) as kb:
        assert kb.retrieval == expected


def test_knowloom_toml_may_hold_the_table_or_name_the_file(tmp_path: Path):
    (tmp_path / "knowloom.toml").write_text('store = "x.db"\n[retrieval]\nsharpness = 3.0\n')
    assert known(config.load({}, tmp_path).retrieval) == RetrievalSettings(sharpness=3.0)
    (tmp_path / "knowloom.toml").write_text('retrieval = "patch.toml"\n')
    assert config.load({}, tmp_path).retrieval == "patch.toml"
    assert config.load({"KNOWLOOM_RETRIEVAL": "other.toml"}, tmp_path).retrieval == "other.toml"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "[retrieval]\nbm26_weight = 1",
            "no number of retrieval 'bm26_weight'; known: bm25_weight, depth",
        ),
        (
            "[retrieval]\nbm25_weight = -1",
            "bm25_weight must be a number that is not negative, not -1",
        ),
        ("[retrieval]\nbm25_weight = 0\nvector_weight = 0", "must not both be 0"),
        (
            "[retrieval]\nsharpness = 'much'",
            "sharpness must be a number that is not negative, not 'much'",
        ),
        ("[retrieval]\ndepth = 11", "depth must be a whole number from 0 to 10, not 11"),
        ("[retrieval]\ndepth = 1.5", "depth must be a whole number"),
        (
            "[retrieval]\nwalk_starts = 0",
            "walk_starts must be a whole number from 1 to 1,000, not 0",
        ),
        ("[retrieval]\nwalk_onward = 1.5", "walk_onward must be a number from 0 to 1, not 1.5"),
        (
            "[retrieval]\nwalk_sharpness = 0",
            "walk_sharpness must be a number from 0.1 to 100, not 0",
        ),
        (
            "[retrieval]\nwalk_sharpness = nan",
            "walk_sharpness must be a number from 0.1 to 100, not nan",
        ),
        ("[retrieval]\nwalk_named = true", "walk_named must be a number from 0 to 1, not True"),
        ("[other]\nx = 1", "has no table [retrieval]"),
        ("retrieval = 5", "has no table [retrieval]"),
        ("retrieval = [", "not TOML"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_with_the_file(
    tmp_path: Path, content: str, message: str
):
    path = tmp_path / "patch.toml"
    path.write_text(content)
    with pytest.raises(Invalid) as caught:
        load(path)
    assert message in str(caught.value) and "patch.toml" in str(caught.value)


def test_a_file_that_is_not_there_and_values_of_other_kinds_are_refused(kings):
    with pytest.raises(NotFound, match=r"no file 'nowhere.toml'"):
        knowloom.open("memory:", embedder=None, retrieval="nowhere.toml")
    with pytest.raises(
        Invalid, match="retrieval is a file, a table of numbers or a RetrievalSettings, not int"
    ):
        known(5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="walk_bridge must be a number from 0 to 1, not 2"):
        kings.with_retrieval(RetrievalSettings(walk_bridge=2))


def test_a_recipe_that_a_program_sends_keeps_its_walk():
    sent = Recipe("x", "walk", walk=Walk(starts=3))
    assert decoding.recipe(asdict(sent)).walk == Walk(starts=3)
    with pytest.raises(Invalid, match="no field of a Walk 'stars'"):
        decoding.recipe({"name": "x", "walk": {"stars": 3}})


def test_a_server_uses_its_numbers_unless_a_request_says_others():
    pytest.importorskip("fastapi")
    from knowloom.server.routes.context import answer
    from knowloom.server.schemas import ContextRequest

    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(ITEMS)
        at = {"query": ASKED, "tenant_ids": ["kings"], "now": "2026-01-01T00:00:00Z"}
        other = kb.with_retrieval(RetrievalSettings(bm25_weight=0.9, vector_weight=0.1))
        digests = [
            answer(one, ContextRequest(**at, **said), TIERS["enterprise"])[1]["digest"]
            for one, said in (
                (kb, {}),
                (other, {}),
                (other, {"bm25_weight": 0.6, "vector_weight": 0.4}),
            )
        ]
        said = answer(
            kb, ContextRequest(**at, bm25_weight=0.6, vector_weight=0.4), TIERS["enterprise"]
        )[1]["digest"]
    assert digests[0] != digests[1] and digests[2] == said
