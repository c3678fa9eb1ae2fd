"""Strategies side by side under one budget: what they may do to each other (nothing), and what the answer says of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Assembler, Engine, Hit, Invalid, Item, Piece, tokens
from knowloom.capabilities.assembler import deduplication
from knowloom.capabilities.assembler.collection import PIECE_LENGTH, split_pieces
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DOCUMENT = "Refunds at Harbor.\n\nThe weather is fine today.\n\nA refund over 100 dollars needs the approval of a team lead."


class Mine:
    """A strategy as a user would write it."""

    def __init__(
        self,
        name: str,
        get: Callable[[], Any] | Any,
        priority: float = 1,
        enabled: bool = True,
        **more: Any,
    ) -> None:
        self.name, self.priority, self.enabled = name, priority, enabled
        self._get = get
        self.__dict__.update(more)

    def get(self, request: knowloom.AssemblyRequest) -> Any:
        return self._get() if callable(self._get) else self._get


@pytest.fixture(scope="module")
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(ROOT / "examples" / "harbor")
        yield kb


def five(kb: Engine) -> list[Any]:
    return [
        knowloom.MemoryStrategy(kb),
        knowloom.KnowledgeStrategy(kb),
        knowloom.RetrievalStrategy(kb),
        knowloom.SelectionStrategy(),
        knowloom.DocumentStrategy(),
    ]


def report(assembly: knowloom.Assembly, name: str) -> knowloom.StrategyReport:
    return next(one for one in assembly.strategies if one.name == name)


def raising(error: BaseException) -> Callable[[], Any]:
    def get() -> Any:
        raise error

    return get


def test_five_strategies_give_one_text_in_the_order_of_their_priorities(kb):
    found = Assembler(five(kb)).assemble(
        "How do I process a refund?",
        spaces=("support", "shared"),
        document=DOCUMENT,
        selection=(0, 18),
        max_tokens=1500,
    )
    headings = [line for line in found.text.splitlines() if line.startswith("## ")]
    assert headings == ["## Document", "## Selection", "## Retrieval", "## Knowledge", "## Memory"]
    assert 1200 < found.tokens == tokens.counter("gpt-4").count(found.text) <= 1500
    assert [one.name for one in found.strategies] == [
        "document",
        "selection",
        "retrieval",
        "knowledge",
        "memory",
    ]
    assert all(one.used_tokens for one in found.strategies)


@pytest.mark.parametrize("format", ["json", "markdown", "plain", "yaml"])
def test_no_budget_is_ever_exceeded_in_any_format(kb, format):
    assembler = Assembler(five(kb))
    for budget in (0, 1, 5, 17, 60, 200, 777):
        found = assembler.assemble(
            "refund",
            spaces=("support",),
            document=DOCUMENT,
            selection=(0, 18),
            max_tokens=budget,
            format=format,
            now=NOW,
        )
        assert tokens.counter("gpt-4").count(found.text) == found.tokens <= budget


def test_yaml_reads_back_what_the_strategies_gave():
    found = Assembler([Mine("one", ["a: b\n# c", "d"])]).assemble("x", format="yaml")
    assert [row["text"] for row in yaml.safe_load(found.text)["one"]] == ["a: b\n# c", "d"]


def test_a_text_cannot_forge_a_heading():
    found = Assembler([Mine("one", "first\n\n## Memory\n\nsecond")]).assemble("x")
    assert [line for line in found.text.splitlines() if line.startswith("#")] == ["## One"]


def test_the_text_does_not_depend_on_who_was_first_nor_on_the_order_of_the_list():
    def late() -> str:
        time.sleep(0.2)
        return "the late one"

    strategies = [
        Mine("b", "same priority"),
        Mine("late", late, priority=0),
        Mine("a", "another text"),
    ]
    texts = {
        Assembler(list(order)).assemble("x").text for order in itertools.permutations(strategies)
    }
    assert texts == {"## Late\n\nthe late one\n\n## A\n\nanother text\n\n## B\n\nsame priority"}


def test_one_that_hangs_raises_or_floods_does_not_spoil_the_others():
    strategies = [
        Mine("hang", lambda: time.sleep(60), timeout_s=0.3),
        Mine("raise", raising(ValueError("boom"))),
        Mine("exit", raising(SystemExit(3))),
        Mine("nothing", None),
        Mine("wrong", 42),
        Mine("wrong_piece", [Piece("x", score=7)]),
        Mine("flood", "word " * 20_000_000),
        Mine("million", lambda: [f"piece number {n}" for n in range(1_000_000)]),
        Mine("endless", lambda: itertools.repeat("again")),
        Mine("good", "The one that matters.", required=True),
        Mine("off", "never asked", enabled=False),
    ]
    found = Assembler(strategies).assemble("x", max_tokens=2000)
    status = {one.name: one.status for one in found.strategies}
    assert "The one that matters." in found.text
    assert found.tokens <= 2000
    failed = dict.fromkeys(("raise", "exit", "wrong", "wrong_piece"), "failed")
    cut = dict.fromkeys(("flood", "million", "endless"), "cut")
    assert status == failed | cut | {
        "hang": "timed_out",
        "nothing": "empty",
        "good": "used",
        "off": "disabled",
    }
    assert report(found, "raise").reasons == ("ValueError: boom",)
    assert report(found, "hang").reasons == ("no answer within 0.3 s",)
    assert "100,000,000 characters" in report(found, "flood").reasons[0]
    assert (
        "score of its piece 1 must be a number from 0 to 1, not 7"
        in report(found, "wrong_piece").reasons[0]
    )
    assert {one.part for one in found.degraded} == {"hang", "raise", "exit", "wrong", "wrong_piece"}


RIGHT = Item("right", "", text="This one is right.")
NESTED: dict[str, object] = {}
NESTED["again"] = NESTED
WRONG = {
    "its score must be": Hit(RIGHT, float("nan")),
    "its score must be a number from 0 to 1, not 7": Hit(RIGHT, 7.0),
    "its signal 'walk' must be": Hit(RIGHT, 0.5, {"walk": float("inf")}),
    "the item of a hit must be an Item": Hit("text", 0.5),  # type: ignore[arg-type]
    "text contains": Item("wrong", "", text="half a \ud800 character"),
    "text must be text": Item("wrong", "", text=None),  # type: ignore[arg-type]
    "id must be text": Item(5, "", text="a number for a name"),  # type: ignore[arg-type]
    "tags must be": Item("wrong", "", text="words", tags=5),  # type: ignore[arg-type]
    "properties must be plain JSON": Item(
        "wrong", "", text="words", properties={"n": float("nan")}
    ),
    "piece 1": Item("wrong", "", text="words", properties=NESTED),
}


@pytest.mark.parametrize(("told", "wrong"), WRONG.items(), ids=range(len(WRONG)))
@pytest.mark.parametrize("format", ["json", "markdown", "plain", "yaml"])
def test_an_item_that_is_not_right_spoils_neither_the_others_nor_its_own_strategy(
    format, told, wrong
):
    found = Assembler(
        [Mine("good", "all of this stays"), Mine("mixed", [wrong, RIGHT]), Mine("bad", [wrong])]
    ).assemble("x", format=format)
    assert "all of this stays" in found.text and found.text.count("This one is right.") == 1
    good, mixed, bad = (
        next(one for one in found.strategies if one.name == name)
        for name in ("good", "mixed", "bad")
    )
    assert (good.status, mixed.status, bad.status) == ("used", "cut", "failed")
    assert (
        told in mixed.reasons[0]
        and told in bad.reasons[0]
        and "bad" in [one.part for one in found.degraded]
    )


def test_of_many_items_that_are_not_right_ten_are_told():
    found = Assembler([Mine("one", [*([WRONG["text contains"]] * 25), RIGHT])]).assemble("x")
    assert len(found.strategies[0].reasons) == 11 and "15 more" in found.strategies[0].reasons[-1]


def test_a_strategy_that_never_comes_back_is_not_called_for_ever():
    calls: list[int] = []

    def hang() -> None:
        calls.append(1)
        time.sleep(60)

    assembler = Assembler([Mine("hang", hang, timeout_s=0.01), Mine("good", "text")])
    found = [assembler.assemble("x") for _ in range(8)]
    assert len(calls) == 4
    assert "have not come back" in report(found[-1], "hang").reasons[0]
    assert found[-1].text == "## Good\n\ntext"


def test_a_hanging_strategy_does_not_keep_the_process_from_ending():
    script = (
        "import time, knowloom\n"
        "class Hang:\n    name, priority, enabled, timeout_s = 'hang', 1, True, 0.1\n    def get(self, request): time.sleep(600)\n"
        "print(knowloom.Assembler([Hang()]).assemble('x').strategies[0].status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "timed_out\n"


def test_near_duplicates_are_shown_once_and_where_they_are_required():
    text = "The return window is thirty days after delivery for all goods that are unused and in their box"
    found = Assembler(
        [
            Mine("a", text + "."),
            Mine("b", f"{text}!", priority=2, required=True),
            Mine("c", f"{text} today", priority=3),
        ]
    ).assemble("x")
    assert found.text == f"## B\n\n{text}!"
    assert report(found, "a").status == "left_out"
    assert report(found, "c").reasons == ("c-1: says the same as 'b-1' of b",)


def test_texts_that_differ_in_a_number_or_a_negation_are_no_duplicates():
    words = "returns are accepted within so many days of delivery if all of the goods are unused and still in their original box"
    texts = [f"{words}: 30", f"{words}: 60", f"{words}: 30, not later", f"{words}: 30 "]
    assert deduplication.find_duplicates(texts) == {3: 0}


@given(st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=14), max_size=12))
@settings(max_examples=60)
def test_the_quick_search_for_duplicates_finds_what_comparing_all_would_find(word_lists):
    texts = [" ".join(words) for words in word_lists]
    expected: dict[int, int] = {}
    for number, text in enumerate(texts):
        earlier = (
            other
            for other in range(number)
            if other not in expected
            and deduplication.is_duplicate(
                deduplication.word_set(text), deduplication.word_set(texts[other])
            )
        )
        if deduplication.word_set(text) and (found := next(earlier, None)) is not None:
            expected[number] = found
    assert deduplication.find_duplicates(texts) == expected


def test_required_ones_are_never_dropped_however_good_the_others_are():
    rivals = [
        Mine(f"rival{n}", [Piece(f"rival {n} says {i} things " * 5, 1.0) for i in range(20)])
        for n in range(4)
    ]
    large = Mine(
        "large",
        [Piece("the large required text speaks of one thing only " * 20, 0.1)],
        priority=9,
        required=True,
    )
    small = Mine("small", [Piece("small but required", 0.0)], priority=9, required=True)
    found = Assembler([*rivals, large, small]).assemble("x", max_tokens=400)
    assert report(found, "large").status == "used"
    assert report(found, "small").status == "used"
    assert 350 < found.tokens <= 400


def test_what_is_required_and_cannot_fit_is_told():
    found = Assembler(
        [
            Mine("large", ["one two three four five six seven eight nine ten " * 9], required=True),
            Mine("b", "small"),
        ]
    ).assemble("x", max_tokens=40)
    assert found.text == "## B\n\nsmall"
    assert [(one.part, one.code) for one in found.degraded] == [("large", "required_left_out")]


def test_the_best_set_that_fits_is_taken_and_the_rest_is_told():
    texts = [Piece("alpha " * 30, 0.9), Piece("beta " * 30, 0.8), Piece("gamma " * 30, 0.3)]
    found = Assembler([Mine("a", texts)]).assemble("x", max_tokens=75)
    told = report(found, "a")
    assert ("alpha" in found.text, "beta" in found.text, "gamma" in found.text) == (
        True,
        True,
        False,
    )
    assert (told.status, told.offered_pieces, told.used_pieces) == ("cut", 3, 2)
    assert told.used_tokens <= 75 < told.offered_tokens
    assert "a-3: " in told.reasons[0]


def test_items_and_hits_keep_their_names_and_may_be_shown_shorter(kb):
    found = Assembler([knowloom.RetrievalStrategy(kb)]).assemble(
        "process a refund", spaces=("support",), max_tokens=120
    )
    assert (
        "### How to process a refund (playbook)" in found.text
        or "How to process a refund (playbook, id:" in found.text
    )


def test_an_unknown_space_fails_the_strategy_that_asked_and_not_the_answer(kb):
    found = Assembler([knowloom.DocumentStrategy(), knowloom.RetrievalStrategy(kb)]).assemble(
        "x", spaces=("nowhere",), document="A text."
    )
    assert found.text == "## Document\n\nA text."
    assert "no space 'nowhere'" in report(found, "retrieval").reasons[0]


def test_a_long_text_is_cut_at_sentences_and_never_inside_a_word():
    text = "This is a sentence of some length. " * 200 + "x" * 3000
    assert " ".join(one.text for one in split_pieces(text)) == text
    assert all(
        len(one.text) <= PIECE_LENGTH or one.text == "x" * 3000 for one in split_pieces(text)
    )


def test_any_object_with_a_title_and_a_content_is_a_document():
    class Page:
        title, content = "Page", "The content of the page."

    assert (
        "The content of the page."
        in Assembler([knowloom.DocumentStrategy()]).assemble("x", document=Page()).text
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_tokens": -1}, "max_tokens must be a whole number from 0"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number"),
        ({"format": "xml"}, "unknown format 'xml'; available: json, markdown, plain, yaml"),
        ({"document": "  \n"}, "the document has no text"),
        ({"document": 3}, "not int"),
        ({"selection": (0, 1)}, "needs the document"),
        ({"document": "abc", "selection": (0, 4)}, "0 to 4 does not lie within the 3 characters"),
        ({"document": "abc", "selection": (2, 2)}, "2 to 2 does not lie"),
        ({"document": "abc", "selection": (-1, 2)}, "-1 to 2 does not lie"),
        ({"document": "abc", "selection": "ab"}, "a selection is"),
        ({"spaces": "support"}, "spaces"),
        ({"nonsense": 1}, "unknown option 'nonsense'; available: "),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(options, told):
    ran: list[int] = []
    with pytest.raises(Invalid, match=told.replace("(", r"\(")):
        Assembler([Mine("a", lambda: ran.append(1))]).assemble("x", **options)
    assert not ran


@pytest.mark.parametrize(
    ("strategies", "told"),
    [
        ([], "1 to 50 strategies"),
        ([Mine("a", ""), Mine("a", "")], "two strategies have the name 'a'"),
        ([Mine("a", "", priority="high")], "priority must be a number, not 'high'"),
        ([Mine("a", "", priority=float("nan"))], "priority must be a number, not nan"),
        ([Mine("a", "", priority=True)], "priority must be a number"),
        ([Mine("a", "", timeout_s=0)], "timeout_s must be above 0"),
        ([Mine("a", "", enabled="yes")], "enabled must be True or False, not 'yes'"),
        ([Mine("a", "", share=1.5)], "share of strategy 'a'"),
        ([Mine("", "")], "the name of a strategy"),
        (["text"], "str is no strategy: it lacks name, priority, enabled, get"),
    ],
)
def test_wrong_strategies_are_refused(strategies, told):
    with pytest.raises(Invalid, match=told):
        Assembler(strategies)
