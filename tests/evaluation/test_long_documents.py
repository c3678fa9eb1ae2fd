"""Evidence of long documents: in evaluations, and in the retrieval benchmark."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import knowloom
from bench.evidence import (
    Answer,
    Quote,
    Share,
    Shown,
    find_answer,
    find_evidence,
    fold,
    split_sentences,
)
from bench.long_documents import Place, find_places, join_passages, join_sessions
from bench.retrieval import compare_files, compare_results, measure_shown
from bench.sets import Join, read_set
from knowloom.errors import Invalid
from knowloom.evaluation import html_report
from knowloom.evaluation.evaluate import context_metrics
from knowloom.evaluation.json_report import evaluation_to_json
from knowloom.evaluation.significance import compare_paired
from knowloom.model import Chosen, Context, Form, Fragment, Hit, Item, Passage, Query

# evaluations


ZEBRA = Item(
    "zebra",
    "s",
    title="Zebra",
    text="\n\n".join(
        f"Paragraph {number} of the zebra. {'Much grass grows here. ' * 20}" for number in range(30)
    ),
)


def excerpt_context(text: str) -> Context:
    """A context that shows a passage of the zebra and a pointer to another item."""
    lion = Item("lion", "s", title="Lion", text="The lion roars.")
    passage = Passage(3, 100, 200)
    chosen = (
        Chosen(Hit(ZEBRA, 0.9), Form.EXCERPT, 20, text, (passage,)),
        Chosen(Hit(lion, 0.2), Form.POINTER, 5, "- Lion"),
    )
    fragment = Fragment("knowledge", chosen, 25, text)
    return Context(text, 25, Query("zebra", ("s",), datetime(2026, 1, 1)), (fragment,))


def test_an_excerpt_is_evidence_of_an_item_but_does_not_show_it_whole():
    expected = frozenset({("s", "zebra"), ("s", "lion")})
    question = knowloom.Question("zebra", ("zebra", "lion"))
    assert context_metrics(excerpt_context("A herd."), question, expected) == {
        "evidence": 0.5,
        "whole": 0,
    }


def test_with_facts_an_excerpt_is_evidence_only_if_it_shows_them():
    facts = (("Stripes of the zebra are unique",), ("eats grass", "grazes"))
    question = knowloom.Question("zebra", ("zebra",), facts=facts, answer=("a herd",))
    expected = frozenset({("s", "zebra")})
    shown = [
        context_metrics(excerpt_context(text), question, expected)
        for text in (
            "### Zebra\n\n\\* Stripes of\n  the zebra are unique. It grazes in a herd.",
            "Stripes of the zebra are unique.",
            "Much grass grows here.",
        )
    ]
    assert [values["evidence"] for values in shown] == [1, 0.5, 0]
    assert [values["facts"] for values in shown] == [1, 1 / 3, 0]
    assert [values["whole"] for values in shown] == [0, 0, 0]


def test_an_engine_is_measured_by_the_excerpts_of_its_long_items():
    paragraphs = [f"Paragraph {n}. {'Much grass grows here. ' * 20}" for n in range(30)]
    paragraphs[17] = "The quagga was last seen in Amsterdam in 1883, in the zoo called Artis."
    questions = [
        knowloom.Question(
            "quagga in the zoo", ("book",), "shown", facts=(("last seen in Amsterdam",),)
        ),
        knowloom.Question("quagga in the zoo", ("book",), "hidden", facts=(("Paragraph 29",),)),
        knowloom.Question("quagga in the zoo", ("book",), "items"),
    ]
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(Item("book", "s", title="Animals", text="\n\n".join(paragraphs)))
        evaluation = knowloom.evaluate(kb, questions, ks=(), budgets=(300, 20_000))
        comparison = knowloom.compare(evaluation, evaluation, measure="evidence@300", rounds=10)
    assert evaluation.values("evidence@300") == [1, 0, 1]
    assert evaluation.values("whole@300") == [0, 0, 0]
    assert evaluation.values("evidence@20000") == evaluation.values("whole@20000") == [1, 1, 1]
    assert comparison.differences["evidence@300"].equal == 3
    assert "evidence@300" in html_report.render_page(evaluation)
    assert evaluation_to_json(evaluation, 0)["measures"]["whole@300"]["mean"] == 0


# the benchmark's long documents


PASSAGES = [
    Item(f"p{number}", "s", title=f"Title {number}", text=f"Text {number}. More of {number}.")
    for number in range(7)
]


def test_passages_are_joined_under_their_titles_and_have_their_places():
    documents, places = join_passages(PASSAGES, 3)
    assert [(item.id, item.title) for item in documents] == [
        ("document-1", "Document 1"),
        ("document-2", "Document 2"),
        ("document-3", "Document 3"),
    ]
    assert documents[2].text == "# Title 6\n\nText 6. More of 6."
    assert documents[0].text.startswith(
        "# Title 0\n\nText 0. More of 0.\n\n# Title 1\n\nText 1. More of 1.\n\n# Title 2"
    )
    assert_places(documents, places)


def assert_places(documents: list[Item], places: dict[Any, Place], passages=PASSAGES) -> None:
    texts = {item.key: item.text for item in documents}
    assert {
        key: (place.title, texts[place.key][place.start : place.end])
        for key, place in places.items()
    } == {passage.key: (passage.title, passage.text) for passage in passages}


@given(st.integers(1, 9), st.integers(0, 1000))
def test_a_random_order_depends_on_the_seed_only_and_loses_nothing(size, seed):
    documents, places = join_passages(PASSAGES, size, seed)
    assert (documents, places) == join_passages(PASSAGES, size, seed)
    assert_places(documents, places)


def test_a_seed_changes_the_order_and_leaves_the_passages_as_they_are():
    before = list(PASSAGES)
    joins = {join_passages(PASSAGES, 7, seed)[0][0].text for seed in (None, 1, 2)}
    assert len(joins) == 3
    assert before == PASSAGES


def test_passages_of_different_spaces_are_never_joined():
    passages = [Item(f"p{n}", f"s{n % 2}", title=f"T{n}", text=f"Text {n}.") for n in range(4)]
    documents, places = join_passages(passages, 9)
    assert [item.space for item in documents] == ["s0", "s1"]
    assert_places(documents, places, passages)


def test_sessions_are_joined_with_their_speakers():
    rows = [
        {"id": "1", "conv": "c", "session": "session_1", "date": "May 8", "speaker": "Ann"},
        {"id": "2", "conv": "c", "session": "session_1", "date": "May 8", "speaker": "Bo"},
        {"id": "3", "conv": "c", "session": "session_2", "date": "May 9", "speaker": "Ann"},
    ]
    turns = [Item(str(number), "c", title="t", text=f"Turn {number}") for number in (1, 2, 3)]
    documents, places = join_sessions(turns, rows)
    assert [(item.id, item.title, item.text) for item in documents] == [
        ("session_1", "Session 1, May 8", "Ann: Turn 1\n\nBo: Turn 2"),
        ("session_2", "Session 2, May 9", "Ann: Turn 3"),
    ]
    place = places["c", "2"]
    assert documents[0].text[place.start : place.end] == "Turn 2"


# the benchmark's evidence


def show(item: Item, *ranges: tuple[int, int], form: Form = Form.EXCERPT, text: str = "") -> Shown:
    passages = tuple(Passage(number, *span) for number, span in enumerate(ranges))
    block = text or "\n\n…\n\n".join(item.text[start:end] for start, end in ranges)
    chosen = Chosen(Hit(item, 0.9), form, 10, block, passages)
    query = Query("q", (item.space,), datetime(2026, 1, 1))
    return Shown(Context(block, 10, query, (Fragment("knowledge", (chosen,), 10, block),)))


def test_text_is_compared_without_white_space_and_escapes():
    assert fold("a\n  b\\# c\\_d  \\[e]") == "a b# c_d [e]"
    assert Quote("1. A *b*").is_shown(show(PASSAGES[0], form=Form.POINTER, text="1\\. A\n\\*b\\*"))
    assert not Quote("A b").is_shown(show(PASSAGES[0], form=Form.POINTER, text="A c b"))


def test_a_passage_of_a_document_is_shown_by_the_ranges_that_overlap_it():
    documents, places = join_passages(PASSAGES, 3)
    place = places["s", "p1"]
    middle = (place.start + place.end) // 2
    shown = show(documents[0], (0, 5), (place.start - 4, middle))
    length = place.end - place.start
    assert shown.share(place) == (middle - place.start) / length
    assert shown.parts(place) == [documents[0].text[place.start : middle]]
    assert shown.share(places["s", "p2"]) == 0
    assert shown.share(places["s", "p5"]) == 0
    overlapping = show(documents[0], (place.start, middle), (place.start, place.end))
    assert overlapping.share(place) == 1
    assert Share(place, 0.5).is_shown(show(documents[0], (place.start, place.end - 5)))
    assert not Share(place, 0.5).is_shown(show(documents[0], (place.start, place.start + 5)))


def test_pointers_and_summaries_show_no_passage():
    place = find_places(PASSAGES)["s", "p1"]
    for form in (Form.POINTER, Form.SUMMARY):
        shown = show(PASSAGES[1], form=form, text=PASSAGES[1].text)
        assert (shown.share(place), shown.whole) == (0, set())
    shown = show(PASSAGES[1], form=Form.WHOLE, text=PASSAGES[1].text)
    assert (shown.share(place), shown.whole) == (1, {("s", "p1")})


def test_a_range_that_is_not_in_the_text_of_its_block_is_not_counted():
    shown = show(PASSAGES[1], (0, 7), text="Another text.")
    assert (shown.unconfirmed, shown.ranges) == (1, {})


def test_an_answer_counts_inside_its_passage_only():
    documents, places = join_passages(PASSAGES, 3)
    place = places["s", "p1"]
    step = Answer((place,), ("more of 1", "rest of 1"))
    other = places["s", "p0"]
    assert step.is_shown(show(documents[0], (place.start, place.end)))
    assert not step.is_shown(show(documents[0], (other.start, other.end)))
    assert not step.is_shown(show(documents[0], (place.start, place.start + 7)))
    assert Answer((place,), ("title 1",)).is_shown(show(documents[0], (place.start, place.end)))
    assert not Answer((place,), ("title 1",)).is_shown(
        show(documents[0], (other.start, place.start))
    )


GOLDS = [Place(("s", "a"), 0, 34, "Ann"), Place(("s", "b"), 0, 20, "Bo")]
TEXTS = ["Ann was born in 1990. She sings.  ", "Bo lives in St. Ives. He is ill."]


@pytest.mark.parametrize(
    ("fields", "evidence"),
    [
        (
            {"supporting_facts": [["Bo", 0], ["Ann", 1], ["Ann", 9]]},
            (Quote("Bo lives in St. Ives."), Quote("She sings."), Quote("She sings.")),
        ),
        (
            {
                "decomposition": [
                    {"answer": "St. Ives", "paragraph_support_idx": 16},
                    {"answer": "1990", "paragraph_support_idx": 3},
                    {"answer": "2000", "paragraph_support_idx": 3},
                ]
            },
            (Answer((GOLDS[1],), ("St. Ives",)), Answer((GOLDS[0],), ("1990",))),
        ),
        ({"facts": ["She sings."]}, (Quote("She sings."),)),
        (
            {"raw_evidence": ["x"]},
            (Share(Place(("s", "a"), 0, 32, "Ann"), 1.0), Share(GOLDS[1], 1.0)),
        ),
        ({}, (Share(GOLDS[0], 0.5), Share(GOLDS[1], 0.5))),
    ],
)
def test_the_fields_of_a_question_define_its_evidence(fields, evidence):
    assert find_evidence(fields, GOLDS, TEXTS) == evidence


def test_the_answer_is_measured_where_a_gold_passage_holds_it():
    assert find_answer({"answer": 1990}, GOLDS, TEXTS) == Answer((GOLDS[0],), ("1990",))
    aliases = {"answer": "nobody", "answer_aliases": ["Bo"]}
    assert find_answer(aliases, GOLDS, TEXTS) == Answer((GOLDS[1],), ("nobody", "Bo"))
    for answer in ("2000", "yes", "", None):
        assert find_answer({"answer": answer}, GOLDS, ["yes", "yes"]) is None


def test_sentences_end_at_their_marks_but_not_after_abbreviations():
    assert split_sentences(
        'Dr. J. Om met the U.S. team. "Hi!" He left at 5 p.m. today.\nThe end'
    ) == [
        "Dr. J. Om met the U.S. team.",
        '"Hi!"',
        "He left at 5 p.m. today.",
        "The end",
    ]
    assert split_sentences("") == []


def write_set(folder: Path) -> Path:
    folder.mkdir()
    corpus = [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES]
    corpus.append({"id": "empty", "title": "", "text": ""})
    queries = [
        {"id": "q", "text": "Which one?", "gold": ["p0", "p2"], "answer": "Text 0"},
        {"id": "q", "text": "And this?", "gold": ["p5", "empty"], "answer": "yes"},
        {"id": "r", "text": "And that?", "gold": [], "answer": "no"},
        {"id": "s", "text": "Or?", "gold": ["empty"], "answer": "no"},
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return folder


def test_a_set_is_read_with_or_without_joining(tmp_path: Path):
    folder = write_set(tmp_path / "set")
    plain, joined = read_set(folder, Join()), read_set(folder, Join(3))
    assert (len(plain.items), plain.is_joined) == (7, False)
    assert (len(joined.items), joined.is_joined) == (3, True)
    assert [task.question.expected for task in plain.tasks] == [("p0", "p2"), ("p5",)]
    assert [task.question.expected for task in joined.tasks] == [("document-1",), ("document-2",)]
    assert [task.question.id for task in joined.tasks] == ["q#1", "q#2"]
    assert str(Join(3, 1)) == "joined by 3, shuffled by 1"


def test_a_question_is_measured_by_what_is_shown(tmp_path: Path):
    joined = read_set(write_set(tmp_path / "set"), Join(3))
    task, document = joined.tasks[0], joined.items[0]
    first = task.golds[0]
    shown = show(document, (first.start, first.end))
    assert measure_shown(task, shown, True) == {"evidence": 0.5, "gold": 0.5, "answer": 1}
    assert measure_shown(task, show(document), False) == {
        "evidence": 0,
        "gold": 0,
        "whole": 0,
        "answer": 0,
    }


# comparison of two runs


def test_runs_are_compared_on_the_questions_and_measures_that_both_have():
    before = {f"q{n}": {"evidence@512": 0.0, "used@512": 0.9} for n in range(12)}
    after = {f"q{n}": {"evidence@512": 1.0} for n in range(2, 14)}
    before["q3"] = {}
    differences = compare_results(before, after)
    assert list(differences) == ["evidence@512"]
    ids, means, difference = differences["evidence@512"]
    assert ids == ["q2", *(f"q{n}" for n in range(4, 12))]
    assert means == (0, 1)
    assert difference == compare_paired([0.0] * 9, [1.0] * 9, np.random.default_rng(0))
    assert difference.real
    with pytest.raises(Invalid, match="no question in common"):
        compare_results(before, {"x": {}})


def test_two_files_are_compared_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    runs = {
        "before": {f"q{n}": {"evidence@512": 1.0, "gold@512": 0.5} for n in range(20)},
        "after": {f"q{n}": {"evidence@512": 0.0, "gold@512": 0.5} for n in range(20)},
    }
    paths = [tmp_path / f"{name}.json" for name in runs]
    for path, questions in zip(paths, runs.values(), strict=True):
        path.write_text(json.dumps({"sets": {"hotpotqa": {"questions": questions}}}), "utf-8")
    compare_files(*paths)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hotpotqa: 20 questions"
    assert lines[1].startswith("  evidence@512       100.0 ->   0.0 −100.0")
    assert lines[1].endswith("p < 0.001; 0 better, 20 worse) WORSE")
    assert lines[2].endswith("the same")
    paths[1].write_text('{"sets": {"musique": {}}}', "utf-8")
    with pytest.raises(SystemExit, match="no set in common: hotpotqa and musique"):
        compare_files(*paths)
