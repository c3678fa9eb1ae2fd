"""Contexts over the turns of a conversation: nothing twice, and texts that continue others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

import knowloom
from knowloom import Invalid
from knowloom.conversation.earlier_turns import earlier_of, list_shown
from knowloom.tokens import get_counter
from knowloom.wire.contexts import context_from_json, context_to_json

count = get_counter("gpt-4").count
NOW = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu nu xi omicron".split()
LONG = "\n\n".join(f"The {word} harbour. " + f"Ships of {word} rest here. " * 30 for word in WORDS)


def note(number: int, text: str = "") -> knowloom.Item:
    word = WORDS[number]
    text = text or f"The ship {word} carries salt and sails at {number} o'clock. " * 3
    return knowloom.Item(f"ship-{word}", "s", title=f"Ship {word}", text=text)


@pytest.fixture
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([note(number) for number in range(len(WORDS))])
        yield kb


def ask(kb: knowloom.Engine, text: str, **options: Any) -> knowloom.Context:
    return kb.context(text, spaces=["s"], now=NOW, **options)


def shown_ids(context: knowloom.Context) -> set[str]:
    return {
        chosen.hit.item.id
        for fragment in context.fragments
        for chosen in fragment.chosen
        if chosen.form != "pointer"
    }


def pointers(context: knowloom.Context) -> list[str]:
    return [
        chosen.hit.item.id
        for fragment in context.fragments
        if fragment.name == "shown_before"
        for chosen in fragment.chosen
    ]


def reasons(context: knowloom.Context) -> dict[str, str]:
    return {entry.hit.item.id: entry.reason for entry in context.left_out}


# seen


def test_what_was_shown_is_not_shown_again_but_named(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha salt", max_tokens=300)
    second = ask(kb, "ship alpha salt", max_tokens=300, seen=first)
    assert shown_ids(first) and not shown_ids(first) & shown_ids(second)
    assert "ship-alpha" in pointers(second)
    assert "## Shown before" in second.text
    assert count(second.text) == second.tokens <= 300


def test_turns_add_up_what_was_shown(kb: knowloom.Engine) -> None:
    context, ids = None, set[str]()
    for _ in range(4):
        context = ask(kb, "ship salt", max_tokens=300, seen=context)
        assert not shown_ids(context) & ids
        ids |= shown_ids(context)
    assert context is not None
    assert {entry.id for entry in list_shown(context)} == ids


def test_a_changed_item_is_shown_again(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha", max_tokens=300)
    kb.add(note(0, "The ship alpha sank."))
    second = ask(kb, "ship alpha", max_tokens=300, seen=first)
    assert "ship-alpha" in shown_ids(second) and "The ship alpha sank." in second.text


def test_ids_are_seen_in_any_state_and_space(kb: knowloom.Engine) -> None:
    kb.add(replace(note(0), space="other"))
    context = kb.context("ship alpha", spaces=["s", "other"], now=NOW, seen=["ship-alpha"])
    assert "ship-alpha" not in shown_ids(context)
    one = knowloom.Shown("ship-alpha", "other")
    context = kb.context("ship alpha", spaces=["s", "other"], now=NOW, seen=one)
    assert [hit.item.space for hit in context.hits if hit.item.id == "ship-alpha"].count("s") == 1


def test_other_passages_of_a_long_item_are_new(kb: knowloom.Engine) -> None:
    kb.add(knowloom.Item("guide", "s", title="Harbours", text=LONG))
    first = ask(kb, "alpha harbour rest", max_tokens=350, types=[""])
    assert "Ships of alpha rest" in first.text and "Ships of kappa rest" not in first.text
    same = ask(kb, "alpha harbour rest", max_tokens=350, seen=first)
    assert "Ships of alpha rest" not in same.text
    other = ask(kb, "kappa harbour rest", max_tokens=350, seen=first)
    assert "Ships of kappa rest" in other.text and "Ships of alpha rest" not in other.text


def test_every_seen_candidate_has_a_reason(kb: knowloom.Engine) -> None:
    seen = [f"ship-{word}" for word in WORDS]
    context = kb.explain("ship salt", spaces=["s"], now=NOW, max_tokens=300, seen=seen)
    assert not shown_ids(context) and len(pointers(context)) <= 5
    omitted = {entry.hit.item.id: entry for entry in context.left_out if "shown" in entry.reason}
    assert omitted and set(pointers(context)).isdisjoint(omitted)
    assert {entry.remedy for entry in omitted.values()} == {"a request without it in seen or after"}


@pytest.mark.parametrize("budget", [0, 10, 40, 100, 177, 400, 1000])
def test_budgets_hold_with_pointers(kb: knowloom.Engine, budget: int) -> None:
    for format in ("markdown", "plain", "yaml", "json"):
        context = ask(
            kb,
            "ship alpha salt",
            max_tokens=budget,
            seen=["ship-alpha", "ship-beta"],
            format=format,
            citations=True,
        )
        assert count(context.text) == context.tokens <= budget


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (5, "seen must be ids or contexts, got int"),
        ([5], "seen"),
        ({"a": 1}, "seen must be ids or contexts, got dict"),
        ("a" * 64, "a digest does not tell what was shown"),
        ([f"i{n}" for n in range(10_001)], "at most 10,000 items, got 10,001"),
    ],
)
def test_bad_arguments_are_refused(kb: knowloom.Engine, seen: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        ask(kb, "ship", seen=seen)


# after


def test_a_text_continues_byte_for_byte(kb: knowloom.Engine) -> None:
    context, ids = None, set[str]()
    for word in WORDS[:8]:
        before = context
        context = ask(kb, f"ship {word}", max_tokens=5000, new_tokens=250, after=context)
        assert count(context.text) == context.tokens <= 5000
        ids |= shown_ids(context)
        anew = ask(kb, f"ship {word}", max_tokens=250)
        assert shown_ids(anew) <= ids, "what a context made anew shows is in the text"
        if before is not None:
            assert context.text.startswith(before.text) and context.prefix == len(before.text)
            assert not context.degraded
    assert context is not None
    assert {entry.id for entry in earlier_of(context).shown} == ids
    assert all(context.text.count(f"Ship {WORDS[number]}\n") <= 1 for number in range(8))


def test_nothing_new_leaves_the_text_as_it_is(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha salt", max_tokens=250)
    again = ask(kb, "ship alpha salt", max_tokens=2000, new_tokens=250, after=first)
    assert again.text == first.text and again.tokens == first.tokens
    assert set(reasons(again)) >= shown_ids(first)


@pytest.mark.parametrize("budget", [0, 100, 300])
def test_a_text_that_does_not_fit_begins_anew_and_says_so(kb: knowloom.Engine, budget: int) -> None:
    first = ask(kb, "ship alpha salt", max_tokens=300)
    second = ask(kb, "ship kappa salt", max_tokens=budget, after=first)
    assert second.prefix == 0 and second.tokens <= budget
    assert [problem.code for problem in second.degraded] == ["prefix_dropped"]
    assert second.text == ask(kb, "ship kappa salt", max_tokens=budget).text


def test_a_window_is_filled_by_turns_and_then_begun_anew(kb: knowloom.Engine) -> None:
    context, codes = None, []
    for word in WORDS:
        context = ask(kb, f"ship {word}", max_tokens=600, new_tokens=200, after=context)
        assert context.tokens <= 600
        codes += [problem.code for problem in context.degraded]
    assert "prefix_dropped" in codes and codes.count("prefix_dropped") < len(WORDS) / 2


def test_the_same_turn_gives_the_same_bytes_and_digest(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha", max_tokens=250)
    turns: dict[str, Any] = {"max_tokens": 2000, "new_tokens": 250, "after": first}
    second, same = (ask(kb, "ship kappa", **turns) for _ in range(2))
    assert (second.text, second.digest) == (same.text, same.digest)
    explained = kb.explain("ship kappa", spaces=["s"], now=NOW, **turns)
    assert (explained.text, explained.digest) == (second.text, second.digest)
    others = [
        ask(kb, "ship kappa", max_tokens=2000, new_tokens=250),
        ask(kb, "ship kappa", max_tokens=2000, new_tokens=250, seen=first),
        ask(kb, "ship kappa", max_tokens=2000, new_tokens=251, after=first),
    ]
    assert len({second.digest, *(context.digest for context in others)}) == 4


def test_citations_are_numbered_on(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha", max_tokens=300, citations=True)
    turns: dict[str, Any] = {"max_tokens": 3000, "new_tokens": 300, "citations": True}
    second = ask(kb, "ship kappa", after=first, **turns)
    third = ask(kb, "ship mu", after=second, **turns)
    numbers = [c.number for context in (first, second, third) for c in context.citations]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 3


@pytest.mark.parametrize("format", ["plain", "yaml"])
def test_other_formats_are_continued(kb: knowloom.Engine, format: str) -> None:
    first = ask(kb, "ship alpha", max_tokens=250, format=format)
    turns: dict[str, Any] = {"max_tokens": 2000, "new_tokens": 250}
    second = ask(kb, "ship kappa", after=first, format=format, **turns)
    assert second.text.startswith(first.text) and second.prefix
    if format == "yaml":
        assert len(list(yaml.safe_load_all(second.text))) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"after": "text"}, "after must be a context, got str"),
        ({"new_tokens": -1}, "new_tokens must be"),
        ({"new_tokens": True}, "new_tokens must be"),
    ],
)
def test_bad_turns_are_refused(kb: knowloom.Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        ask(kb, "ship", **options)


def test_json_cannot_be_continued(kb: knowloom.Engine) -> None:
    with pytest.raises(Invalid, match="a format that can be continued, not 'json'"):
        ask(kb, "ship", after=ask(kb, "ship"), format="json")


def test_a_continued_context_survives_json(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha", max_tokens=250)
    for window in (2000, 260):
        second = ask(kb, "ship kappa", max_tokens=window, new_tokens=250, after=first, seen=["x"])
        restored = context_from_json(context_to_json(second))
        assert restored.query == second.query and restored.prefix == second.prefix
        assert earlier_of(restored) == earlier_of(second)


def test_an_unanswerable_question_keeps_the_text(kb: knowloom.Engine) -> None:
    first = ask(kb, "ship alpha", max_tokens=250)
    second = ask(kb, "zebra crossing", max_tokens=500, after=first, min_answer_confidence=0.9)
    assert second.text == first.text
    assert "low_confidence" in [problem.code for problem in second.degraded]
