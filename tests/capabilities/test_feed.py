"""Knowledge merged into a prompt's feed."""

import pytest

import knowloom

FEED = {"user_profile": "name: Maya", "user_input": "Set up the run", "action_result": ""}
KNOWLEDGE = {"user_profile": "team: aero", "instructions": "[procedure] Start from a steady state"}


def test_knowledge_replaces_values_of_the_feed_by_default():
    assert knowloom.merge_feed(FEED, KNOWLEDGE) == knowloom.merge_feed(FEED, KNOWLEDGE, "FEED_ONLY")
    assert knowloom.merge_feed(FEED, KNOWLEDGE) == {**FEED, **KNOWLEDGE}


def test_with_attribute_only_the_feed_keeps_its_values_and_gains_new_names():
    merged = knowloom.merge_feed(FEED, KNOWLEDGE, "ATTRIBUTE_ONLY")
    assert merged == {**FEED, "instructions": KNOWLEDGE["instructions"]}


def test_with_attribute_only_an_empty_value_of_the_feed_is_preserved():
    assert knowloom.merge_feed({"context": ""}, {"context": "known"}, "ATTRIBUTE_ONLY") == {
        "context": ""
    }


def test_with_merge_both_values_are_joined_by_a_newline():
    assert knowloom.merge_feed(FEED, KNOWLEDGE, "MERGE")["user_profile"] == "name: Maya\nteam: aero"


@pytest.mark.parametrize(
    ("existing", "text", "both"), [("", "b", "b"), (None, "b", "b"), ("a", "", "a")]
)
def test_merging_with_an_empty_value_adds_no_newline(existing, text, both):
    assert knowloom.merge_feed({"x": existing}, {"x": text}, "MERGE") == {"x": both}


def test_neither_argument_is_changed_and_names_keep_their_order():
    feed, knowledge = dict(FEED), dict(KNOWLEDGE)
    assert list(knowloom.merge_feed(feed, knowledge, "MERGE")) == [
        "user_profile",
        "user_input",
        "action_result",
        "instructions",
    ]
    assert (feed, knowledge) == (FEED, KNOWLEDGE)


@pytest.mark.parametrize("strategy", ["merge", "", "REPLACE", None])
def test_an_unknown_strategy_is_rejected_with_the_available_ones(strategy):
    with pytest.raises(
        knowloom.Invalid, match=r"unknown strategy .*; available: ATTRIBUTE_ONLY, FEED_ONLY, MERGE"
    ):
        knowloom.merge_feed(FEED, KNOWLEDGE, strategy)


@pytest.mark.parametrize(
    ("feed", "knowledge", "says"),
    [
        (None, {}, "feed must be a mapping"),
        ({}, "text", "knowledge must be a mapping"),
        ({1: "x"}, {}, "must be a string, got 1"),
        ({}, {"context": 3}, "'context' must be a string, got int"),
        ({"context": ["a"]}, {"context": "b"}, "'context' is of type list"),
    ],
)
def test_invalid_feeds_are_rejected(feed, knowledge, says):
    with pytest.raises(knowloom.Invalid, match=says):
        knowloom.merge_feed(feed, knowledge, "MERGE")
