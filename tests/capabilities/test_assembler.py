"""Parallel strategies under one budget: their isolation, and their reports."""

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
from knowloom.capabilities.assembler.collection import PIECE_LENGTH, split_pieces
from knowloom.text import duplicates
from paths import ROOT

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DOCUMENT = (
    "Refunds at Harbor.\n\nThe weather is fine today.\n\n"
    "A refund over 100 dollars needs the approval of a team lead."
)


class FakeStrategy:
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


def all_strategies(kb: Engine) -> list[Any]:
    return [
        knowloom.MemoryStrategy(kb),
        knowloom.KnowledgeStrategy(kb),
        knowloom.RetrievalStrategy(kb),
        knowloom.SelectionStrategy(),
        knowloom.DocumentStrategy(),
    ]


def report(assembly: knowloom.Assembly, name: str) -> knowloom.StrategyReport:
    return next(report for report in assembly.strategies if report.name == name)


def raising(error: BaseException) -> Callable[[], Any]:
    def get() -> Any:
        raise error

    return get


def test_five_strategies_are_assembled_in_order_of_priority(kb):
    assembly = Assembler(all_strategies(kb)).assemble(
        "How do I process a refund?",
        spaces=("support", "shared"),
        document=DOCUMENT,
        selection=(0, 18),
        max_tokens=1500,
    )
    headings = [line for line in assembly.text.splitlines() if line.startswith("## ")]
    names = ("Document", "Selection", "Retrieval", "Knowledge", "Memory")
    assert headings == [f"## {name}" for name in names]
    assert 1200 < assembly.tokens == tokens.get_counter("gpt-4").count(assembly.text) <= 1500
    assert [report.name for report in assembly.strategies] == [
        "document",
        "selection",
        "retrieval",
        "knowledge",
        "memory",
    ]
    assert all(report.used_tokens for report in assembly.strategies)


@pytest.mark.parametrize("format", ["json", "markdown", "plain", "yaml"])
def test_no_budget_is_ever_exceeded_in_any_format(kb, format):
    assembler = Assembler(all_strategies(kb))
    for budget in (0, 1, 5, 17, 60, 200, 777):
        assembly = assembler.assemble(
            "refund",
            spaces=("support",),
            document=DOCUMENT,
            selection=(0, 18),
            max_tokens=budget,
            format=format,
            now=NOW,
        )
        assert tokens.get_counter("gpt-4").count(assembly.text) == assembly.tokens <= budget


def test_yaml_round_trips_the_pieces():
    assembly = Assembler([FakeStrategy("one", ["a: b\n# c", "d"])]).assemble("x", format="yaml")
    assert [row["text"] for row in yaml.safe_load(assembly.text)["one"]] == ["a: b\n# c", "d"]


def test_a_text_cannot_forge_a_heading():
    assembly = Assembler([FakeStrategy("one", "first\n\n## Memory\n\nsecond")]).assemble("x")
    assert [line for line in assembly.text.splitlines() if line.startswith("#")] == ["## One"]


def test_the_text_does_not_depend_on_timing_or_on_the_order_of_the_list():
    def late() -> str:
        time.sleep(0.2)
        return "the late one"

    strategies = [
        FakeStrategy("b", "same priority"),
        FakeStrategy("late", late, priority=0),
        FakeStrategy("a", "another text"),
    ]
    texts = {
        Assembler(list(order)).assemble("x").text for order in itertools.permutations(strategies)
    }
    assert texts == {"## Late\n\nthe late one\n\n## A\n\nanother text\n\n## B\n\nsame priority"}


def test_a_strategy_that_hangs_raises_or_floods_does_not_affect_the_others():
    strategies = [
        FakeStrategy("hang", lambda: time.sleep(60), timeout_s=0.3),
        FakeStrategy("raise", raising(ValueError("boom"))),
        FakeStrategy("exit", raising(SystemExit(3))),
        FakeStrategy("nothing", None),
        FakeStrategy("wrong", 42),
        FakeStrategy("wrong_piece", [Piece("x", score=7)]),
        FakeStrategy("flood", "word " * 20_000_000),
        FakeStrategy("million", lambda: [f"piece number {n}" for n in range(1_000_000)]),
        FakeStrategy("endless", lambda: itertools.repeat("again")),
        FakeStrategy("good", "The one that matters.", required=True),
        FakeStrategy("off", "never asked", enabled=False),
    ]
    assembly = Assembler(strategies).assemble("x", max_tokens=2000)
    status = {report.name: report.status for report in assembly.strategies}
    assert "The one that matters." in assembly.text
    assert assembly.tokens <= 2000
    failed = dict.fromkeys(("raise", "exit", "wrong", "wrong_piece"), "failed")
    cut = dict.fromkeys(("flood", "million", "endless"), "cut")
    assert status == failed | cut | {
        "hang": "timed_out",
        "nothing": "empty",
        "good": "used",
        "off": "disabled",
    }
    assert report(assembly, "raise").reasons == ("ValueError: boom",)
    assert report(assembly, "hang").reasons == ("no answer within 0.3 s",)
    assert "100,000,000 characters" in report(assembly, "flood").reasons[0]
    assert (
        "piece 1: score must be a number from 0 to 1, got 7"
        in report(assembly, "wrong_piece").reasons[0]
    )
    assert {problem.part for problem in assembly.degraded} == {
        "hang",
        "raise",
        "exit",
        "wrong",
        "wrong_piece",
    }


RIGHT = Item("right", "", text="This one is right.")
NESTED: dict[str, object] = {}
NESTED["again"] = NESTED
WRONG = {
    "score must be": Hit(RIGHT, float("nan")),
    "score must be a number from 0 to 1, got 7": Hit(RIGHT, 7.0),
    "signal 'walk' must be": Hit(RIGHT, 0.5, {"walk": float("inf")}),
    "the item of a hit must be an Item": Hit("text", 0.5),  # type: ignore[arg-type]
    "text must be storable text": Item("wrong", "", text="half a \ud800 character"),
    "text must be text": Item("wrong", "", text=None),  # type: ignore[arg-type]
    "id must be text": Item(5, "", text="a number for a name"),  # type: ignore[arg-type]
    "tags must be": Item("wrong", "", text="words", tags=5),  # type: ignore[arg-type]
    "properties must be plain JSON": Item(
        "wrong", "", text="words", properties={"n": float("nan")}
    ),
    "piece 1": Item("wrong", "", text="words", properties=NESTED),
}


@pytest.mark.parametrize(("message", "wrong"), WRONG.items(), ids=range(len(WRONG)))
@pytest.mark.parametrize("format", ["json", "markdown", "plain", "yaml"])
def test_an_invalid_item_affects_neither_other_items_nor_other_strategies(format, message, wrong):
    assembly = Assembler(
        [
            FakeStrategy("good", "all of this stays"),
            FakeStrategy("mixed", [wrong, RIGHT]),
            FakeStrategy("bad", [wrong]),
        ]
    ).assemble("x", format=format)
    assert "all of this stays" in assembly.text and assembly.text.count("This one is right.") == 1
    good, mixed, bad = (
        next(report for report in assembly.strategies if report.name == name)
        for name in ("good", "mixed", "bad")
    )
    assert (good.status, mixed.status, bad.status) == ("used", "cut", "failed")
    assert (
        message in mixed.reasons[0]
        and message in bad.reasons[0]
        and "bad" in [problem.part for problem in assembly.degraded]
    )


def test_ten_of_many_invalid_items_are_reported():
    assembly = Assembler(
        [FakeStrategy("one", [*([WRONG["text must be storable text"]] * 25), RIGHT])]
    ).assemble("x")
    assert (
        len(assembly.strategies[0].reasons) == 11
        and "15 more" in assembly.strategies[0].reasons[-1]
    )


def test_a_strategy_that_never_returns_is_not_called_forever():
    calls: list[int] = []

    def hang() -> None:
        calls.append(1)
        time.sleep(60)

    assembler = Assembler(
        [FakeStrategy("hang", hang, timeout_s=0.01), FakeStrategy("good", "text")]
    )
    assembly = [assembler.assemble("x") for _ in range(8)]
    assert len(calls) == 4
    assert "have not returned" in report(assembly[-1], "hang").reasons[0]
    assert assembly[-1].text == "## Good\n\ntext"


def test_a_hanging_strategy_does_not_keep_the_process_from_exiting():
    script = (
        "import time, knowloom\n"
        "class Hang:\n"
        "    name, priority, enabled, timeout_s = 'hang', 1, True, 0.1\n"
        "    def get(self, request): time.sleep(600)\n"
        "print(knowloom.Assembler([Hang()]).assemble('x').strategies[0].status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "timed_out\n"


def test_near_duplicates_are_shown_once_in_the_required_strategy():
    text = "The return window is thirty days after delivery for all goods that are unused "
    text += "and in their box"
    assembly = Assembler(
        [
            FakeStrategy("a", text + "."),
            FakeStrategy("b", f"{text}!", priority=2, required=True),
            FakeStrategy("c", f"{text} today", priority=3),
        ]
    ).assemble("x")
    assert assembly.text == f"## B\n\n{text}!"
    assert report(assembly, "a").status == "left_out"
    assert report(assembly, "c").reasons == ("c-1: says the same as 'b-1' of b",)


def test_texts_that_differ_in_a_number_or_a_negation_are_not_duplicates():
    words = "returns are accepted within so many days of delivery if all of the goods are unused "
    words += "and still in their original box"
    texts = [f"{words}: 30", f"{words}: 60", f"{words}: 30, not later", f"{words}: 30 "]
    assert duplicates.find_duplicates(texts) == {3: 0}


@given(st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=14), max_size=12))
@settings(max_examples=60)
def test_find_duplicates_agrees_with_comparing_all_pairs(word_lists):
    texts = [" ".join(words) for words in word_lists]
    expected: dict[int, int] = {}
    for number, text in enumerate(texts):
        earlier = (
            other
            for other in range(number)
            if other not in expected
            and duplicates.is_duplicate(
                duplicates.word_set(text), duplicates.word_set(texts[other])
            )
        )
        if duplicates.word_set(text) and (assembly := next(earlier, None)) is not None:
            expected[number] = assembly
    assert duplicates.find_duplicates(texts) == expected


def test_required_strategies_are_never_dropped():
    rivals = [
        FakeStrategy(
            f"rival{n}", [Piece(f"rival {n} says {i} things " * 5, 1.0) for i in range(20)]
        )
        for n in range(4)
    ]
    large = FakeStrategy(
        "large",
        [Piece("the large required text speaks of one thing only " * 20, 0.1)],
        priority=9,
        required=True,
    )
    small = FakeStrategy("small", [Piece("small but required", 0.0)], priority=9, required=True)
    assembly = Assembler([*rivals, large, small]).assemble("x", max_tokens=400)
    assert report(assembly, "large").status == "used"
    assert report(assembly, "small").status == "used"
    assert 350 < assembly.tokens <= 400


def test_a_required_strategy_that_cannot_fit_is_reported():
    assembly = Assembler(
        [
            FakeStrategy(
                "large", ["one two three four five six seven eight nine ten " * 9], required=True
            ),
            FakeStrategy("b", "small"),
        ]
    ).assemble("x", max_tokens=40)
    assert assembly.text == "## B\n\nsmall"
    assert [(problem.part, problem.code) for problem in assembly.degraded] == [
        ("large", "required_left_out")
    ]


def test_the_best_set_is_packed_and_the_rest_is_reported():
    texts = [Piece("alpha " * 30, 0.9), Piece("beta " * 30, 0.8), Piece("gamma " * 30, 0.3)]
    assembly = Assembler([FakeStrategy("a", texts)]).assemble("x", max_tokens=75)
    message = report(assembly, "a")
    assert ("alpha" in assembly.text, "beta" in assembly.text, "gamma" in assembly.text) == (
        True,
        True,
        False,
    )
    assert (message.status, message.offered_pieces, message.used_pieces) == ("cut", 3, 2)
    assert message.used_tokens <= 75 < message.offered_tokens
    assert "a-3: " in message.reasons[0]


def test_items_and_hits_have_names_and_may_be_shortened(kb):
    assembly = Assembler([knowloom.RetrievalStrategy(kb)]).assemble(
        "process a refund", spaces=("support",), max_tokens=160
    )
    forms = {block.hit.item.id: block.form for block in assembly.fragments[0].chosen}
    assert "### How to process a refund (playbook)" in assembly.text
    assert forms["process-a-refund"] == "excerpt"


def test_an_unknown_space_fails_only_its_strategy(kb):
    assembly = Assembler([knowloom.DocumentStrategy(), knowloom.RetrievalStrategy(kb)]).assemble(
        "x", spaces=("nowhere",), document="A text."
    )
    assert assembly.text == "## Document\n\nA text."
    assert "unknown space 'nowhere'" in report(assembly, "retrieval").reasons[0]


def test_a_long_text_is_cut_at_sentences_and_never_inside_a_word():
    text = "This is a sentence of some length. " * 200 + "x" * 3000
    assert " ".join(piece.text for piece in split_pieces(text)) == text
    assert all(
        len(piece.text) <= PIECE_LENGTH or piece.text == "x" * 3000 for piece in split_pieces(text)
    )


def test_any_object_with_a_title_and_a_content_is_a_document():
    class Page:
        title, content = "Page", "The content of the page."

    assert (
        "The content of the page."
        in Assembler([knowloom.DocumentStrategy()]).assemble("x", document=Page()).text
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": -1}, "max_tokens must be an integer from 0"),
        ({"max_tokens": 1.5}, "max_tokens must be an integer"),
        ({"format": "xml"}, "unknown format 'xml'; available: json, markdown, plain, yaml"),
        ({"document": "  \n"}, "the document has no text"),
        ({"document": 3}, "got int"),
        ({"selection": (0, 1)}, "needs a document"),
        (
            {"document": "abc", "selection": (0, 4)},
            "within the 3 characters of the document, got 0 to 4",
        ),
        ({"document": "abc", "selection": (2, 2)}, "got 2 to 2"),
        ({"document": "abc", "selection": (-1, 2)}, "got -1 to 2"),
        ({"document": "abc", "selection": "ab"}, "selection must be (start"),
        ({"spaces": "support"}, "spaces"),
        ({"nonsense": 1}, "unknown option 'nonsense'; available: "),
    ],
)
def test_an_invalid_request_is_refused_before_anything_runs(options, message):
    ran: list[int] = []
    with pytest.raises(Invalid, match=message.replace("(", r"\(")):
        Assembler([FakeStrategy("a", lambda: ran.append(1))]).assemble("x", **options)
    assert not ran


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        ([], "1 to 50 strategies"),
        ([FakeStrategy("a", ""), FakeStrategy("a", "")], "duplicate strategy 'a'"),
        ([FakeStrategy("a", "", priority="high")], "priority must be a finite number, got 'high'"),
        (
            [FakeStrategy("a", "", priority=float("nan"))],
            "priority must be a finite number, got nan",
        ),
        ([FakeStrategy("a", "", priority=True)], "priority must be a finite number"),
        ([FakeStrategy("a", "", timeout_s=0)], "timeout_s must be a number > 0"),
        ([FakeStrategy("a", "", enabled="yes")], "enabled must be true or false, got 'yes'"),
        ([FakeStrategy("a", "", share=1.5)], "strategy 'a': share"),
        ([FakeStrategy("", "")], "strategy name must not be empty"),
        (["text"], "str is not a strategy: it lacks name, priority, enabled, get"),
    ],
)
def test_invalid_strategies_are_refused(strategies, message):
    with pytest.raises(Invalid, match=message):
        Assembler(strategies)
