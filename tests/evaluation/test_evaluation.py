"""Evaluation: metrics against hand-computed values, significance, input files, and reports."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom.cli.main import cli
from knowloom.errors import Invalid, NotFound
from knowloom.evaluation import datasets, html_report, questions, svg_plots
from knowloom.evaluation.compare import format_verdict
from knowloom.evaluation.metrics import complete_recall, fact_recall, ndcg, recall
from knowloom.evaluation.results import Evaluation, QuestionResult
from knowloom.evaluation.significance import Difference, bootstrap_interval, compare_paired
from paths import ROOT

RANKINGS = st.lists(st.integers(0, 12), max_size=15)
EXPECTED = st.frozensets(st.integers(0, 12), min_size=1, max_size=6)


# measures


def test_ndcg_equals_the_formula_by_hand():
    assert ndcg("abc", {"a"}) == 1
    assert ndcg("xa", {"a"}) == pytest.approx(1 / math.log2(3))  # 0.6309
    # found at places 2 and 4 of 3 expected: (1/log2 3 + 1/log2 5) / (1 + 1/log2 3 + 1/2)
    assert ndcg("xaybz", {"a", "b", "c"}) == pytest.approx(
        (0.6309297536 + 0.4306765581) / 2.1309297536
    )
    assert ndcg("xxxa", {"a"}, k=1) == 0
    assert ndcg([*range(100, 110), 1], {1}) == 0, "place 11 counts nothing"
    assert ndcg("ab", set("abcdefghijkl"), k=2) == 1, "no more than k can be found"


def test_recall_and_all_found_count_the_best_k():
    assert [recall("axb", {"a", "b"}, k) for k in (1, 2, 3)] == [0.5, 0.5, 1]
    assert [complete_recall("axb", {"a", "b"}, k) for k in (1, 2, 3)] == [0, 0, 1]


def test_facts_are_whole_words_in_any_case_and_spacing():
    assert (
        fact_recall(
            "Paid within 30\n  DAYS, at most.", [("within 30 days",), ("nowhere", "at most")]
        )
        == 1
    )
    assert fact_recall("Within 130 days", [("30 days",)]) == 0


@given(RANKINGS, EXPECTED, st.integers(1, 15))
def test_measures_are_shares_and_recall_grows_with_k(ranking, expected, k):
    for measure in (recall, complete_recall, ndcg):
        assert 0 <= measure(ranking, expected, k) <= 1
    assert recall(ranking, expected, k) <= recall(ranking, expected, k + 1)
    assert complete_recall(ranking, expected, k) <= recall(ranking, expected, k)
    assert (complete_recall(ranking, expected, k) == 1) == (recall(ranking, expected, k) == 1)


@given(EXPECTED, RANKINGS)
def test_a_perfect_ranking_has_all_measures_at_1(expected, rest):
    ranking = [*sorted(expected), *rest]
    assert ndcg(ranking, expected, 10) == pytest.approx(1)
    assert (
        recall(ranking, expected, len(expected))
        == complete_recall(ranking, expected, len(expected))
        == 1
    )


@given(RANKINGS, EXPECTED, st.permutations(range(13)))
def test_measures_depend_on_positions_and_not_on_ids(ranking, expected, names):
    renamed, renamed_expected = (
        [names[name] for name in ranking],
        frozenset(names[name] for name in expected),
    )
    for measure in (recall, complete_recall, ndcg):
        assert measure(ranking, expected, 5) == pytest.approx(measure(renamed, renamed_expected, 5))


@given(st.lists(st.integers(0, 12), unique=True, min_size=2, max_size=10), EXPECTED, st.data())
def test_moving_an_expected_item_up_raises_ndcg(ranking, expected, data):
    place = data.draw(st.integers(1, len(ranking) - 1))
    if ranking[place] in expected and ranking[place - 1] not in expected:
        better = [*ranking[: place - 1], ranking[place], ranking[place - 1], *ranking[place + 1 :]]
        assert ndcg(better, expected) > ndcg(ranking, expected)


def test_measures_reject_invalid_arguments():
    with pytest.raises(Invalid, match="at least one item"):
        recall("a", set(), 5)
    with pytest.raises(Invalid, match="k must be an integer >= 1, got 0"):
        ndcg("a", {"a"}, 0)


# chance


def test_without_a_true_difference_about_one_in_twenty_seems_real():
    """30 of 600 comparisons of equals are 5 %; more than 3 standard deviations (16) is a bug."""
    comparisons = []
    for seed in range(600):
        chance = np.random.default_rng(seed)
        first, second = chance.random(16), chance.random(16)
        comparisons.append(
            compare_paired(first, second, np.random.default_rng(seed + 10_000), rounds=400)
        )
    assert 14 <= sum(comparison.real for comparison in comparisons) <= 46
    assert 14 <= sum(comparison.p < 0.05 for comparison in comparisons) <= 46, "p alone"
    assert 263 <= sum(comparison.p < 0.5 for comparison in comparisons) <= 337, "p is spread evenly"
    assert (
        14 <= sum(not comparison.low <= 0 <= comparison.high for comparison in comparisons) <= 65
    ), "intervals of few questions are a little narrow"


@pytest.mark.parametrize(
    ("p", "low", "high", "real"),
    [
        (0.04, 0.01, 0.2, True),
        (0.04, -0.2, -0.01, True),
        (0.06, 0.01, 0.2, False),
        (0.04, -0.01, 0.2, False),
    ],
)
def test_a_difference_is_real_if_p_and_the_interval_agree(p, low, high, real):
    assert Difference((low + high) / 2, low, high, p, 5, 3, 2).real is real


def test_equal_chances_on_few_answers_are_no_alarm_either():
    """Binary values make the test conservative: at most one false alarm in twenty."""
    alarms = 0
    for seed in range(300):
        chance = np.random.default_rng(seed)
        first, second = (
            chance.integers(0, 2, 20).astype(float),
            chance.integers(0, 2, 20).astype(float),
        )
        alarms += compare_paired(
            first, second, np.random.default_rng(seed + 10_000), rounds=400
        ).real
    assert alarms <= 26


def test_a_true_difference_is_detected():
    detected = 0
    for seed in range(50):
        chance = np.random.default_rng(seed)
        first = chance.random(40)
        detected += compare_paired(
            first, first + 0.1 + 0.15 * chance.standard_normal(40), chance, rounds=400
        ).real
    assert detected >= 45


def test_the_interval_covers_the_true_mean_at_its_level():
    covered = 0
    for seed in range(400):
        chance = np.random.default_rng(seed)
        low, high = bootstrap_interval(chance.random(50), chance, rounds=400)
        covered += low <= 0.5 <= high
    assert 0.91 <= covered / 400 <= 0.98


def test_the_same_seed_gives_the_same_answer_and_swapping_turns_it_round():
    first, second = np.linspace(0, 1, 30), np.linspace(0, 1, 30) ** 2
    comparison, again = (compare_paired(first, second, np.random.default_rng(5)) for _ in range(2))
    back = compare_paired(second, first, np.random.default_rng(5))
    assert comparison == again
    assert (back.mean, back.better, back.worse, back.p) == (
        pytest.approx(-comparison.mean),
        comparison.worse,
        comparison.better,
        comparison.p,
    )
    assert comparison != compare_paired(first, second, np.random.default_rng(6))


def test_no_difference_is_no_difference():
    same = compare_paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], np.random.default_rng(0))
    assert (same.mean, same.p, same.real, same.equal) == (0, 1, False, 3)
    assert (
        format_verdict("a", "b", "recall@5", same)
        == "No difference: recall@5 is the same on all 3 questions."
    )


def test_one_question_alone_proves_nothing():
    assert not compare_paired([0.0], [1.0], np.random.default_rng(0)).real


@pytest.mark.parametrize(
    ("first", "second"), [([1.0], [1.0, 2.0]), ([], []), ([float("nan")], [1.0])]
)
def test_incomparable_values_are_rejected(first, second):
    with pytest.raises(Invalid):
        compare_paired(first, second, np.random.default_rng(0))


# questions


def test_a_file_of_questions_is_read_whole(tmp_path: Path):
    rows = [
        {
            "question": "Who?",
            "expected": ["a", {"space": "s", "id": "b"}],
            "id": "q1",
            "spaces": "s",
            "facts": ["x", ["y", "z"]],
            "answer": 7,
        },
        {"question": "What?", "expected": ["c"]},
        {"text": "As data sets say it", "gold": ["d"], "id": 12, "type": "bridge"},
    ]
    parsed = questions.read_questions(written(tmp_path, *rows))
    assert parsed[0] == knowloom.Question(
        "Who?", ("a", ("s", "b")), "q1", ("s",), (("x",), ("y", "z")), ("7",)
    )
    assert parsed[0].statements == (("x",), ("y", "z"), ("7",))
    assert parsed[1].statements == ()
    assert [(question.id, question.text, question.expected) for question in parsed[1:]] == [
        ("2", "What?", ("c",)),
        ("12", "As data sets say it", ("d",)),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": no questions"),
        ("\n  \n", ": no questions"),
        ('{"question": "a", "expected": ["x"]}\n\n{"question": ', "line 3: invalid JSON"),
        ("[1]", "line 1: must be an object such as"),
        ('{"question": "a"}', "line 1: expected must be a non-empty list of ids, got None"),
        (
            '{"question": "a", "expected": []}',
            "line 1: expected must be a non-empty list of ids, got []",
        ),
        ('{"question": "a", "expected": "x"}', "line 1: expected must be a non-empty list"),
        ('{"question": "a", "expected": [5]}', "line 1: expected must be an id or"),
        ('{"question": "a", "expected": ["x", "x"]}', "line 1: duplicate expected id 'x'"),
        ('{"question": " ", "expected": ["x"]}', "line 1: question must be a non-blank string"),
        ('{"expected": ["x"]}', "line 1: question must be a non-blank string, got None"),
        (
            '{"question": "a", "expected": ["x"], "space": "s"}',
            (
                "line 1: unknown field 'space'; available: answer, expected, facts, id, question,"
                " spaces"
            ),
        ),
        (
            '{"question": "a", "expected": ["x"], "spaces": [1]}',
            "line 1: spaces must be a list of names",
        ),
        ('{"question": "a", "expected": ["x"], "facts": "f"}', "line 1: facts must be a list"),
        (
            '{"question": "a", "expected": ["x"], "answer": "…"}',
            "line 1: answer must be a string with a word",
        ),
        (
            '{"question": "a", "expected": ["x"], "id": true}',
            "line 1: id must be a string or an integer, got True",
        ),
        (
            '{"question": "a", "expected": ["x"]}\n{"question": "a", "expected": ["y"]}',
            "line 2: duplicate question 'a', first in line 1",
        ),
        (
            '{"text": "a", "gold": ["x"]}\n{"text": "a", "gold": ["y"]}',
            "line 2: duplicate question 'a', first in line 1",
        ),
        (
            r'{"question": "a\ud800", "expected": ["x"]}',
            "line 1: query must not contain lone surrogates",
        ),
        (
            r'{"question": "a", "expected": ["x", "y\udc00"]}',
            r"line 1: 'y\udc00' contains lone surrogates",
        ),
        (
            r'{"question": "a", "expected": ["x"], "id": "\ud800"}',
            r"line 1: '\ud800' contains lone surrogates",
        ),
        (
            r'{"question": "a", "expected": ["x"], "facts": ["b", ["c", "d\ud800"]]}',
            r"line 1: 'd\ud800' contains lone surrogates",
        ),
        (
            f'{{"question": "{"a" * 100_001}", "expected": ["x"]}}',
            "line 1: query must be text of at most 100,000 characters",
        ),
        (
            (
                '{"question": "a", "expected": ["x"], "id": "q"}\n{"question": "b", "expected":'
                ' ["y"], "id": "q"}'
            ),
            "line 2: duplicate id 'q', first in line 1",
        ),
    ],
)
def test_an_invalid_line_is_named(tmp_path: Path, content: str, message: str):
    path = tmp_path / "questions.jsonl"
    path.write_text(content)
    with pytest.raises(Invalid) as caught:
        questions.read_questions(path)
    assert message in str(caught.value) and "questions.jsonl" in str(caught.value)


def test_unreadable_files_are_rejected(tmp_path: Path):
    with pytest.raises(Invalid, match="no file"):
        questions.read_questions(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "caf\xe9"}')
    with pytest.raises(Invalid, match="must be UTF-8"):
        questions.read_questions(tmp_path / "latin.jsonl")


def test_a_folder_is_a_corpus_and_its_questions(tmp_path: Path):
    data_set(tmp_path)
    dataset = datasets.read_dataset(tmp_path, space_by="conv", split="test")
    assert [(item.space, item.id, item.title) for item in dataset.items] == [
        ("one", "a", "Apples"),
        ("two", "b", ""),
    ]
    assert [
        (question.text, question.spaces, question.expected) for question in dataset.questions
    ] == [("Which fruit?", ("one",), ("a",))]
    assert dataset.notes == (
        "1 items without title and text were left out",
        "1 questions of other splits were left out",
        "1 questions without expected items were left out",
    )


def test_in_a_folder_questions_may_share_an_id_and_expect_what_cannot_be_stored(tmp_path: Path):
    data_set(tmp_path)
    rows = [
        {"id": "1", "text": "Which fruit?", "gold": ["a", "c"]},
        {"id": "1", "text": "Which colour?", "gold": ["b"]},
    ]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = datasets.read_dataset(tmp_path)
    assert [(question.id, question.expected) for question in dataset.questions] == [
        ("1", ("a",)),
        ("1#2", ("b",)),
    ]
    assert "1 questions had a duplicate id; their line number was appended" in dataset.notes


def test_invalid_folders_are_rejected(tmp_path: Path):
    data_set(tmp_path)
    with pytest.raises(Invalid, match="no questions in split 'dev'; available: test, train"):
        datasets.read_dataset(tmp_path, split="dev")
    with pytest.raises(
        Invalid, match=r"corpus.jsonl, line 1: 'speaker' must name a space, got None"
    ):
        datasets.read_dataset(tmp_path, space_by="speaker")
    (tmp_path / "queries.jsonl").unlink()
    with pytest.raises(NotFound, match=r"no queries.jsonl or questions.jsonl"):
        datasets.read_dataset(tmp_path)


def test_an_id_that_stands_twice_in_a_corpus_is_named_however_far_apart(tmp_path: Path):
    rows = [{"id": str(number), "text": f"number {number}"} for number in range(2100)]
    corpus_of(tmp_path, *rows, {"id": "7", "text": "another"})
    with pytest.raises(
        Invalid, match=r"corpus.jsonl, line 2101: duplicate id '7', first in line 8"
    ):
        datasets.read_dataset(tmp_path)


def test_an_id_may_stand_in_several_spaces_of_a_corpus_even_if_one_of_its_items_is_empty(
    tmp_path: Path,
):
    corpus_of(
        tmp_path,
        {"id": "7", "text": "", "conv": "one"},
        {"id": "7", "text": "seven", "conv": "two"},
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"text": "Seven?", "gold": ["7"], "conv": "two"}\n{"text": "Seven?", "gold": ["7"],'
        ' "conv": "one"}\n'
    )
    dataset = datasets.read_dataset(tmp_path, space_by="conv")
    assert [item.key for item in dataset.items] == [("two", "7")]
    assert [(question.expected, question.spaces) for question in dataset.questions] == [
        (("7",), ("two",))
    ], "what cannot be stored is not expected"


def corpus_of(folder: Path, *rows: dict[str, Any]) -> None:
    data_set(folder)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def data_set(folder: Path) -> None:
    corpus = [
        {"id": "a", "title": "Apples", "text": "red", "conv": "one"},
        {"id": "b", "text": "green", "conv": "two"},
        {"id": "c", "text": "", "conv": "two"},
    ]
    queries = [
        {"id": "1", "text": "Which fruit?", "gold": ["a"], "conv": "one", "split": "test"},
        {"id": "2", "text": "Which colour?", "gold": ["b"], "conv": "two", "split": "train"},
        {"id": "3", "text": "Nothing?", "gold": [], "conv": "two", "split": "test"},
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# evaluating

KINGS = [
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
    *(
        knowloom.Item(
            f"noise-{number}",
            "kings",
            title=f"Tale {number}",
            text="When did the mother of the queen die? Nobody says.",
        )
        for number in range(12)
    ),
    knowloom.Item("lothair", "ships", title="A ship", text="The ship Lothair sank."),
]
QUESTIONS = (
    knowloom.Question(
        "When did the mother of Lothair II die?",
        ("lothair", "ermengarde"),
        "second-hop",
        ("kings",),
        (("20 March 851",), ("Lothair I",)),
    ),
    knowloom.Question("Which empress is from Tours?", ("ermengarde",), "plain", ("kings",)),
)


@pytest.fixture
def kings():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(KINGS)
        yield kb


def test_measures_agree_with_search_and_context(kings):
    evaluation = knowloom.evaluate(kings, QUESTIONS, mode="walk", budgets=(60, 2000))
    for answer, question in zip(evaluation.answers, QUESTIONS, strict=True):
        hits = kings.search(question.text, spaces=["kings"], limit=10, mode="walk")
        assert answer.ranking == tuple(hit.item.key for hit in hits)
        for budget in (60, 2000):
            context = kings.context(question.text, spaces=["kings"], max_tokens=budget, mode="walk")
            whole = {
                candidate.hit.item.id
                for part in context.fragments
                for candidate in part.chosen
                if candidate.form.value == "whole"
            }
            assert answer.values[f"evidence@{budget}"] == len(whole & set(question.expected)) / len(
                question.expected
            )
            assert answer.tokens[budget] == context.tokens
    assert evaluation.measures[:3] == ("recall@2", "recall@5", "recall@10")
    assert evaluation.mean("recall@2") == 1
    assert evaluation.means()["facts@2000"] == 1
    assert [measure in evaluation.answers[1].values for measure in ("facts@60", "recall@5")] == [
        False,
        True,
    ]


def test_evidence_is_an_item_shown_whole_and_a_summary_is_none():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(
            knowloom.Item(
                "zebra", "s", title="Zebra", text="The zebra has stripes. " * 40, summary="Stripes."
            )
        )
        evaluation = knowloom.evaluate(
            kb,
            [knowloom.Question("zebra stripes", ("zebra",), answer=("Stripes",))],
            budgets=(40, 2000),
        )
        assert [
            hit.item.id for hit in kb.context("zebra stripes", spaces=["s"], max_tokens=40).hits
        ] == ["zebra"]
    assert evaluation.means() == {
        **evaluation.means(),
        "evidence@40": 0,
        "evidence@2000": 1,
        "whole@40": 0,
        "whole@2000": 1,
        "facts@40": 1,
        "facts@2000": 1,
    }


def test_a_walk_is_better_than_plain_search_where_two_pieces_are_needed(kings):
    plain, walk = (
        knowloom.evaluate(kings, QUESTIONS[:1], mode=mode, ks=(2,), budgets=())
        for mode in ("bm25", "walk")
    )
    assert (plain.mean("all-found@2"), walk.mean("all-found@2")) == (0, 1)


def test_latency_comes_from_the_timer_after_a_warm_up_question(kings):
    ticks = count()
    evaluation = knowloom.evaluate(
        kings, QUESTIONS, ks=(2,), budgets=(100,), timer=lambda: next(ticks) / 1000
    )
    assert evaluation.latency() == {
        "search": (pytest.approx(1), pytest.approx(1)),
        "context@100": (pytest.approx(1), pytest.approx(1)),
    }
    assert next(ticks) == 3 * 4, "three questions were asked, two of them counted"


def test_retrieval_settings_are_options_and_leave_the_engine_unchanged(kings):
    by_options = knowloom.evaluate(
        kings, QUESTIONS, mode="walk", walk_onward=0.1, ks=(2,), budgets=()
    )
    by_settings = knowloom.evaluate(
        kings.with_retrieval(knowloom.RetrievalSettings(walk_onward=0.1)),
        QUESTIONS,
        mode="walk",
        ks=(2,),
        budgets=(),
    )
    assert [answer.ranking for answer in by_options.answers] == [
        answer.ranking for answer in by_settings.answers
    ]
    assert kings.retrieval == knowloom.RetrievalSettings()


def test_questions_without_spaces_search_all_or_the_given_spaces(kings):
    anywhere = replace(QUESTIONS[1], spaces=())
    assert knowloom.evaluate(kings, [anywhere]).answers[0].question.spaces == ("kings", "ships")
    assert knowloom.evaluate(kings, [anywhere], spaces=["kings"]).answers[0].question.spaces == (
        "kings",
    )


def test_missing_expected_ids_are_named(kings):
    wrong = [
        replace(QUESTIONS[0], expected=("lothair", "pippin")),
        replace(QUESTIONS[1], expected=("charles",)),
    ]
    with pytest.raises(
        NotFound,
        match=(
            r"expected items not found: 'pippin' \(question second-hop, in kings\); 'charles'"
            r" \(question plain"
        ),
    ) as caught:
        knowloom.evaluate(kings, wrong)
    assert caught.value.code == "unknown_ids"


def test_an_id_in_several_spaces_must_name_its_space(kings):
    both = replace(QUESTIONS[0], spaces=("kings", "ships"))
    with pytest.raises(Invalid, match=r"'lothair' is ambiguous, it exists in kings, ships"):
        knowloom.evaluate(kings, [both])
    evaluation = knowloom.evaluate(kings, [replace(both, expected=(("ships", "lothair"),))])
    assert evaluation.answers[0].expected == {("ships", "lothair")}
    with pytest.raises(NotFound, match="'ships', 'lothair'"):
        knowloom.evaluate(kings, [replace(QUESTIONS[0], expected=(("ships", "lothair"),))])


@pytest.mark.parametrize(
    ("questions", "options", "message"),
    [
        ([], {}, "one or more Question values"),
        (["x"], {}, "one or more Question values"),
        (QUESTIONS, {"colour": 1}, "unknown option 'colour'; available: agent, bm25_weight"),
        (QUESTIONS, {"mode": "magic"}, "unknown mode 'magic'"),
        (QUESTIONS, {"walk_onward": 2}, "walk_onward must be a number from 0 to 1"),
        (QUESTIONS, {"ks": (0,)}, "ks must be an integer from 1 to 1,000, got 0"),
        (QUESTIONS, {"ks": "5"}, "ks must be a list of integers, got '5'"),
        (QUESTIONS, {"budgets": (-1,)}, "budgets must be an integer"),
        (QUESTIONS, {"ks": (), "budgets": ()}, "must not both be empty"),
        (QUESTIONS * 2, {}, "duplicate question id 'second-hop'"),
        ([replace(QUESTIONS[0], spaces=("moon",))], {}, "unknown space 'moon'"),
        (
            [replace(QUESTIONS[0], expected=())],
            {},
            "question second-hop: needs a text and at least one expected id",
        ),
        ([replace(QUESTIONS[0], text=7)], {}, "question second-hop: needs a text"),
        (
            [replace(QUESTIONS[0], expected="lothair")],
            {},
            (
                "question second-hop: expected must be a list of ids or (space, id) pairs, got"
                " 'lothair'"
            ),
        ),
        (
            [replace(QUESTIONS[0], expected=(("kings", "lothair", "x"),))],
            {},
            "expected must be a list of ids or (space, id) pairs, got (('kings'",
        ),
        (
            [replace(QUESTIONS[0], spaces="kings", id="")],
            {},
            "question 1: spaces must be a list of names, got 'kings'",
        ),
        (
            [replace(QUESTIONS[0], facts=("20 March 851",))],
            {},
            "question second-hop: facts must be a list of lists of wordings, got ('20 March 851',)",
        ),
        (
            [replace(QUESTIONS[0], text="Lothair\ud800")],
            {},
            "question second-hop: query must not contain lone surrogates",
        ),
    ],
)
def test_invalid_evaluations_are_rejected(kings, questions, options, message):
    with pytest.raises((Invalid, NotFound)) as caught:
        knowloom.evaluate(kings, questions, **options)
    assert message in str(caught.value)


def test_only_engines_are_measured():
    for ask in (knowloom.evaluate, knowloom.tune):
        with pytest.raises(Invalid, match=r"kb must be an engine from knowloom.open, got str"):
            ask("knowledge.db", QUESTIONS)  # type: ignore[arg-type]


def test_knowledge_without_items_is_refused():
    with (
        knowloom.open("memory:", embedder=None) as kb,
        pytest.raises(NotFound, match="the knowledge base is empty"),
    ):
        knowloom.evaluate(kb, [knowloom.Question("a", ("x",))])


def test_an_unavailable_embedder_ends_the_evaluation():
    class Broken:
        name, dimensions, fingerprint = "broken", 3, "broken"
        ready = True

        def embed(self, texts):
            if not self.ready:
                raise knowloom.Unavailable("the embedder is gone")
            return [np.ones(3, dtype=np.float32) for _ in texts]

    embedder = Broken()
    with knowloom.open("memory:", embedder=embedder) as kb:
        kb.add(KINGS)
        embedder.ready = False
        with pytest.raises(knowloom.EmbeddingError, match="the embedder is gone"):
            knowloom.evaluate(kb, QUESTIONS)


# comparing


def test_two_evaluations_are_compared_question_by_question(kings):
    plain, walk = (knowloom.evaluate(kings, QUESTIONS, mode=mode) for mode in ("bm25", "walk"))
    compared = knowloom.compare(plain, walk)
    assert compared.headline == "nDCG@10"
    assert {name: difference.mean for name, difference in compared.differences.items()} == {
        name: pytest.approx(walk.mean(name) - plain.mean(name)) for name in plain.measures
    }
    assert [(change.before.question.id, change.by > 0) for change in compared.changes()] == [
        ("second-hop", True)
    ]
    assert compared.verdict.startswith("No significant difference")


def evaluation(name: str, **values: float) -> Evaluation:
    """An evaluation with these values of recall@5, by question."""
    return Evaluation(
        name,
        {},
        tuple(
            QuestionResult(
                knowloom.Question(id, ("x",), id), frozenset({("s", "x")}), (), {"recall@5": value}
            )
            for id, value in values.items()
        ),
    )


def test_questions_that_changed_come_worst_first_then_by_id():
    compared = knowloom.compare(
        evaluation("old", a=0.5, b=0.5, c=0.5, d=0.5, e=1),
        evaluation("new", a=1, b=0, c=0.25, d=0, e=1),
    )
    assert [(change.before.question.id, change.by) for change in compared.changes()] == [
        ("b", -0.5),
        ("d", -0.5),
        ("c", -0.25),
        ("a", 0.5),
    ]
    assert (
        compared.differences["recall@5"].better,
        compared.differences["recall@5"].worse,
        compared.differences["recall@5"].equal,
    ) == (1, 3, 1)


def test_a_real_difference_is_reported_with_its_direction():
    many = {f"q{number}": number / 100 for number in range(40)}
    better = knowloom.compare(
        evaluation("old", **many),
        evaluation(
            "new", **{id: value + 0.2 + 0.001 * (len(id) % 3) for id, value in many.items()}
        ),
    )
    assert better.verdict.startswith("new is significantly better than old: recall@5 +20.")
    worse = knowloom.compare(better.after, better.before)
    assert (
        worse.verdict.startswith("old is significantly worse than new: recall@5 −20.")
        and "p < 0.001; 0 questions better, 40 worse" in worse.verdict
    )


def test_where_rankings_are_the_same_the_headline_is_one_of_contexts(kings):
    few, many = (
        knowloom.evaluate(kings, QUESTIONS, ks=(2,), budgets=(100,), recipe=recipe)
        for recipe in ("search", "knowledge")
    )
    assert knowloom.compare(few, many).headline == "evidence@100"
    assert knowloom.compare(few, few).headline == "nDCG@10"


def test_other_questions_and_unknown_measures_are_rejected(kings):
    first, both = knowloom.evaluate(kings, QUESTIONS[:1]), knowloom.evaluate(kings, QUESTIONS)
    with pytest.raises(Invalid, match="have different questions"):
        knowloom.compare(first, both)
    with pytest.raises(Invalid, match="unknown measure 'recall@7'; available: all-found@10"):
        knowloom.compare(both, both, measure="recall@7")


# the page


class Page(HTMLParser):
    """The resources that a browser would load or run, and the tags that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
        ]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1] == tag:
            self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def shown_page(kings, text: str = "<script>alert(1)</script> & \"more\" 'q'") -> str:
    hostile = [
        replace(QUESTIONS[0], text=f"{text} When did the mother of Lothair II die?"),
        QUESTIONS[1],
    ]
    plain, walk = (
        knowloom.evaluate(kings, hostile, mode=mode, name=f"<{mode}>") for mode in ("bm25", "walk")
    )
    return html_report.render_page(knowloom.compare(plain, walk))


def test_the_page_is_self_contained_and_escapes_user_text(kings):
    text = shown_page(kings)
    page = Page(text)
    assert "script" not in page.tags and "link" not in page.tags and not page.links
    assert not re.search(r"url\(|@import|https?:", text)
    assert page.open == []
    assert page.tags.count("svg") == 6
    assert "&lt;script&gt;alert(1)" in text and "&lt;walk&gt;" in text


def test_a_line_plot_is_not_stretched_when_it_stands_alone(kings):
    text = html_report.render_page(knowloom.evaluate(kings, QUESTIONS, budgets=(512,)))
    assert text.count('viewBox="0 0 350 220"') == 1, (
        "recall has three values, evidence one: no line"
    )
    assert re.search(r"\.pair \{[^}]*auto-fill", text), "an empty column keeps its room"
    assert int(re.findall(r"\.pair svg \{[^}]*max-width: (\d+)px", text)[0]) < 1.25 * 350, (
        "letters are about as large as in the other plots"
    )


def test_the_page_has_every_number_and_every_question_that_changed(kings):
    plain, walk = (knowloom.evaluate(kings, QUESTIONS, mode=mode) for mode in ("bm25", "walk"))
    text = html_report.render_page(knowloom.compare(plain, walk))
    for measure in plain.measures:
        assert (
            f'<th scope="row">{measure}</th><td'
            f" class=number>{100 * plain.mean(measure):.1f}</td><td"
            f" class=number>{100 * walk.mean(measure):.1f}</td>" in text
        )
    place = plain.answers[0].rank(("kings", "ermengarde")) or "not found"
    assert f"<code>ermengarde</code> {place} → 2</span>" in text
    assert "Got better: 1 question<" in text and "No question, in nDCG@10." in text


def test_the_page_of_one_evaluation_lists_what_was_not_found(kings):
    text = html_report.render_page(knowloom.evaluate(kings, QUESTIONS, mode="bm25"))
    assert "Not perfect: 1 question<" in text and "<code>ermengarde</code> not found" in text
    assert Page(text).open == []


def test_a_comparison_of_equals_has_a_page(kings):
    evaluation = knowloom.evaluate(kings, QUESTIONS)
    assert "No difference: nDCG@10 is the same on all 2 questions." in html_report.render_page(
        knowloom.compare(evaluation, evaluation)
    )


def test_long_lists_are_folded(kings):
    many = [replace(QUESTIONS[0], id=str(number)) for number in range(50)]
    text = html_report.render_page(knowloom.evaluate(kings, many, mode="bm25"))
    assert "<details><summary>30 more</summary>" in text


def test_marks_are_drawn_at_their_values():
    drawn = svg_plots.draw_dots(
        "x", [("recall@5", [svg_plots.Mark(50, 25, 75, "told")])], low=0, high=100, label=104
    )
    assert 'cx="404.0"' in drawn and '<line x1="254.0" x2="554.0"' in drawn, (
        "from 104 to 704 are 6 pixels a point"
    )
    up, down = re.findall(
        r'<rect class="(\w+)" x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="([\d.]+)"',
        svg_plots.draw_steps("x", [("a", -50), ("b", 100)]),
    )[::-1]
    assert (up[0], down[0]) == ("better", "worse")
    assert float(up[2]) == pytest.approx(2 * float(down[2]), abs=0.1)
    assert float(up[1]) + float(up[2]) == pytest.approx(float(down[1])), "both stand on 0"


@settings(max_examples=200)
@given(st.floats(-100, 100), st.floats(0.02, 200))
def test_ticks_are_few_round_and_inside(low, span):
    ticks = svg_plots.axis_ticks(low, low + span)
    assert len(ticks) <= 8
    assert all(low - 1e-6 <= tick <= low + span + 1e-6 for tick in ticks)
    assert (0 in ticks) == (low <= 0 <= low + span)
    assert ticks == sorted(ticks)


# the command


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, **settings: str) -> Result:
    result = CliRunner().invoke(
        cli,
        args,
        prog_name="knowloom",
        env={"KNOWLOOM_EMBEDDER": "none", "KNOWLOOM_STORE": "knowledge.db", **settings},
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


HARBOR, QUESTIONS_FILE = (
    str(ROOT / "examples" / "harbor"),
    str(ROOT / "examples" / "questions.jsonl"),
)


def test_the_example_is_evaluated_and_nothing_stays_behind(place: Path):
    result = run("eval", HARBOR, QUESTIONS_FILE, "--k", "5", "--budgets", "512")
    assert result.exit_code == 0, result.output
    assert re.search(r"44 questions.*\n.*default", result.stdout)
    assert re.search(r"recall@5 +\d\d\.\d .*█", result.stdout) and re.search(
        r"search +[\d.]+ / [\d.]+", result.stdout
    )
    assert list(place.iterdir()) == []


def test_two_ways_are_compared_in_words_and_as_json_and_on_a_page(place: Path):
    run("load", HARBOR, "--db", "k.db")
    args = (
        "eval",
        "k.db",
        QUESTIONS_FILE,
        "--with",
        "mode=walk",
        "--against",
        "mode=bm25",
        "--html",
        "page.html",
        "--budgets",
        "512",
    )
    result, row = run(*args), json.loads(run(*args, "--json").stdout)
    assert result.exit_code == 0 and row["comparison"]["verdict"] in " ".join(result.stdout.split())
    assert [configuration["name"] for configuration in row["configurations"]] == [
        "mode=bm25",
        "mode=walk",
    ]
    means = [
        configuration["measures"]["nDCG@10"]["mean"] for configuration in row["configurations"]
    ]
    assert row["comparison"]["differences"]["nDCG@10"]["mean"] == pytest.approx(
        means[1] - means[0], abs=1e-5
    )
    assert [len(configuration["answers"]) for configuration in row["configurations"]] == [44, 44]
    assert "mode=walk compared with mode=bm25" in (place / "page.html").read_text("utf-8")
    changed = row["comparison"]["better"][0]
    answer = next(
        entry for entry in row["configurations"][1]["answers"] if entry["id"] == changed["id"]
    )
    places = [
        answer["found"].index({"space": place["space"], "id": place["id"]}) + 1
        for place in changed["after"]
        if place["place"]
    ]
    assert places and places == [place["place"] for place in changed["after"] if place["place"]]
    assert row["comparison"] == json.loads(run(*args, "--json").stdout)["comparison"], (
        "the same seed, the same answer"
    )


def test_a_page_on_standard_output_has_it_for_itself(place: Path):
    args = ("eval", HARBOR, QUESTIONS_FILE, "--k", "5", "--budgets", "", "--html", "-")
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("<!doctype html>") and result.stdout.endswith("</html>\n")
    assert re.search(r"recall@5 +\d\d\.\d", result.stderr), "the table is not lost"
    both = run(*args, "--json")
    assert (
        both.exit_code,
        both.stdout,
        "--html - and --json cannot share standard output" in both.stderr,
    ) == (2, "", True), both.output


@pytest.mark.parametrize("path", ["nowhere/page.html", ".", f"{'long' * 100}.html"])
def test_an_unwritable_page_is_rejected_before_the_work(place: Path, path: str):
    result = run("eval", "no-such.db", QUESTIONS_FILE, "--html", path)
    assert (result.exit_code, f"error: cannot write {path!r}: " in result.stderr) == (
        1,
        True,
    ), result.output
    assert list(place.iterdir()) == []


def test_items_without_vectors_are_reported(place: Path):
    run("load", HARBOR, "--db", "k.db")
    result = CliRunner().invoke(
        cli,
        [
            "eval",
            "k.db",
            QUESTIONS_FILE,
            "--embedder",
            "minilm",
            "--k",
            "5",
            "--budgets",
            "",
            "--json",
        ],
        prog_name="knowloom",
    )
    assert (result.exit_code, "179 items have no vector" in result.stderr) == (
        0,
        True,
    ), result.output


def test_a_patch_and_the_default_can_be_compared(place: Path):
    (place / "patch.toml").write_text("[retrieval]\nsharpness = 1.0\n")
    row = json.loads(
        run(
            "eval",
            HARBOR,
            QUESTIONS_FILE,
            "--with",
            "patch.toml",
            "--against",
            "default",
            "--k",
            "5",
            "--budgets",
            "512",
            "--json",
        ).stdout
    )
    assert [configuration["options"] for configuration in row["configurations"]] == [
        {},
        {"sharpness": 1.0},
    ]
    assert row["comparison"]["headline"] == "evidence@512", "sharpness changes no ranking"


@pytest.mark.parametrize(
    ("ways", "numbers"),  # and what each would be if it were set, first that of --against
    [
        (("--against", "default"), ("", "depth = 0")),
        (("--against", "default", "--with", "set.toml"), ("", "depth = 0")),
        (("--against", "depth=0", "--with", "other.toml"), ("depth = 0", "sharpness = 1")),
        (
            ("--against", "sharpness=1", "--with", "default", "--with", "sharpness=1"),
            ("depth = 0\nsharpness = 1", "sharpness = 1"),
        ),
    ],
)
def test_default_and_files_stand_for_themselves_whatever_is_set_and_all_else_is_beside_it(
    place: Path, ways, numbers
):
    tables = {
        "set.toml": "depth = 0",
        "other.toml": "sharpness = 1",
        "before.toml": numbers[0],
        "after.toml": numbers[1],
    }
    for name, table in tables.items():
        (place / name).write_text(f"[retrieval]\n{table}\n")
    args = ("eval", HARBOR, QUESTIONS_FILE, "--k", "", "--budgets", "512", "--json")
    together = json.loads(run(*args, *ways, KNOWLOOM_RETRIEVAL="set.toml").stdout)["configurations"]
    alone = [
        json.loads(run(*args, KNOWLOOM_RETRIEVAL=name).stdout)["configurations"][0]
        for name in ("before.toml", "after.toml")
    ]
    assert [configuration["answers"] for configuration in together] == [
        configuration["answers"] for configuration in alone
    ]
    assert together[0]["answers"] != together[1]["answers"]


def test_the_way_that_is_not_named_is_called_by_what_it_is(place: Path):
    (place / "set.toml").write_text("[retrieval]\ndepth = 0\n")
    args = ("eval", HARBOR, QUESTIONS_FILE, "--k", "5", "--budgets", "", "--json")
    named = [
        json.loads(run(*args, **settings).stdout)["configurations"][0]["name"]
        for settings in ({}, {"KNOWLOOM_RETRIEVAL": "set.toml"})
    ]
    assert named == ["default", "what is set"]


def test_a_folder_brings_its_knowledge_along(place: Path):
    (place / "set").mkdir()
    data_set(place / "set")
    row = run("eval", "set", "--space-by", "conv", "--split", "test", "--json")
    assert json.loads(row.stdout)["configurations"][0]["measures"]["recall@2"]["mean"] == 0, (
        "no word in common"
    )
    assert "1 questions without expected items were left out" in row.stderr


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("none.jsonl",), 1, "no file 'none.jsonl'"),
        (("k.db", QUESTIONS_FILE), 1, "no file 'k.db'"),
        ((HARBOR,), 1, "no corpus.jsonl in folder"),
        (
            (HARBOR, QUESTIONS_FILE, "--with", "colour=1"),
            1,
            "unknown option 'colour'; available: agent",
        ),
        ((HARBOR, QUESTIONS_FILE, "--with", "embedder=minilm"), 1, "embedder must be none"),
        (
            (HARBOR, QUESTIONS_FILE, "--with", "none.toml"),
            1,
            "no file 'none.toml'",
        ),
        ((HARBOR, QUESTIONS_FILE, "--measure", "recall@7"), 1, "unknown measure 'recall@7'"),
        ((HARBOR, QUESTIONS_FILE, "--k", "five"), 2, "must be integers such as 2,5,10, got 'five'"),
        ((HARBOR, QUESTIONS_FILE, "--k", "0"), 1, "ks must be an integer from 1"),
        ((HARBOR, QUESTIONS_FILE, "--split", "test"), 2, "--space-by and --split need a folder"),
        (
            (HARBOR, QUESTIONS_FILE, "--db", "k.db"),
            2,
            "the knowledge is either the first argument or --db",
        ),
        (("a", "b", "c"), 2, "[KNOWLEDGE] QUESTIONS"),
    ],
)
def test_errors_are_one_line(place: Path, args: tuple[str, ...], status: int, message: str):
    result = run("eval", *args)
    assert (result.exit_code, message in result.stderr) == (status, True), result.output


def test_evaluations_are_frozen(kings):
    evaluation = knowloom.evaluate(kings, QUESTIONS)
    assert isinstance(evaluation, Evaluation)
    with pytest.raises(AttributeError):
        evaluation.name = "x"  # type: ignore[misc]
