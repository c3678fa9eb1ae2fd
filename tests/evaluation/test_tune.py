"""Tuning: finding better settings, adopting them only if held-out questions confirm."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import knowloom
from knowloom.cli.main import cli
from knowloom.errors import Invalid
from knowloom.evaluation.tune import DEFAULTS, MIN_QUESTIONS, TABLE
from knowloom.recipes import KNOWLEDGE
from knowloom.retrieval_settings import (
    SETTING_NAMES,
    RetrievalSettings,
    load_settings,
    resolve_settings,
)

TOPICS = 24


class Marked:
    """An embedder whose vectors encode the topic of a text, whatever its words."""

    name, dimensions, fingerprint = "marked", TOPICS + 2, "marked"
    is_calibrated = True

    def __init__(self, likeness=lambda topic: 0.25):
        self._likeness = likeness  # of a question and its true answer, by topic

    def embed(self, texts):
        vectors = []
        for text in texts:
            vector = np.full(TOPICS + 2, 0.01, dtype=np.float32)
            topic = int(text.rpartition("meaning ")[2])
            vector[topic] = 1.0
            vector[-1] = (
                (self._likeness(topic) ** -2 - 1) ** 0.5 if text.startswith("question") else 0.0
            )
            vectors.append(vector / np.linalg.norm(vector))
        return vectors


@pytest.fixture
def kb(tmp_path: Path):
    """Words mislead and vectors are right: questions share words with items of other topics."""
    with filled(tmp_path / "k.db", Marked()) as opened:
        yield opened


@pytest.fixture
def uneven(tmp_path: Path):
    """The same, but the best share of words and vectors differs from question to question."""
    with filled(
        tmp_path / "k.db", Marked(lambda topic: 0.06 + 0.8 * (topic * 7 % TOPICS) / TOPICS)
    ) as opened:
        yield opened


def filled(path: Path, embedder: Marked) -> knowloom.Engine:
    items = [
        knowloom.Item(f"true-{n}", "s", text=f"about something else entirely, meaning {n}")
        for n in range(TOPICS)
    ]
    items += [
        knowloom.Item(
            f"false-{n}",
            "s",
            text=f"An answer to question word{n} other{n} third{n}, meaning {TOPICS}",
        )
        for n in range(TOPICS)
    ]
    opened = knowloom.open(str(path), embedder=embedder, links=[])
    opened.add(items)
    return opened


QUESTIONS = [
    knowloom.Question(f"question word{n} other{n} third{n} meaning {n}", (f"true-{n}",), str(n))
    for n in range(TOPICS)
]


def test_better_settings_are_adopted_and_the_patch_reproduces_the_measure(kb, tmp_path: Path):
    tuning = knowloom.tune(kb, QUESTIONS, measure="recall@1")
    assert tuning.adopted and tuning.changes["vector_weight"] > KNOWLEDGE[0].vector_weight
    assert tuning.after > tuning.before + 0.2
    path = tmp_path / "patch.toml"
    path.write_text(tuning.patch())
    assert (
        load_settings(path)
        == resolve_settings(tuning.numbers)
        == RetrievalSettings(**tuning.changes)
    )
    with knowloom.open(str(tmp_path / "k.db"), embedder=Marked(), retrieval=path) as patched:
        assert knowloom.evaluate(patched, QUESTIONS, ks=(1,), budgets=()).mean(
            "recall@1"
        ) == pytest.approx(tuning.after)
    assert knowloom.evaluate(kb, QUESTIONS, ks=(1,), budgets=()).mean("recall@1") == pytest.approx(
        tuning.before
    )


def test_random_gains_are_not_adopted(kb):
    """Questions with random answers: some settings fit them, and no others."""
    chance = np.random.default_rng(3)
    drawn = [
        knowloom.Question(
            question.text,
            (f"{'true' if chance.random() < 0.5 else 'false'}-{question.id}",),
            question.id,
        )
        for question in QUESTIONS
    ]
    tuning = knowloom.tune(kb, drawn, measure="recall@1")
    assert tuning.after >= tuning.before and not tuning.adopted
    assert (
        tuning.numbers == {}
        and "[retrieval]\n" in tuning.patch()
        and "=" not in tuning.patch().partition("[retrieval]")[2]
    )
    assert "settings stay" in tuning.verdict or "Nothing to change" in tuning.verdict


def test_noise_is_rarely_adopted_for_any_seed(uneven):
    """Each share is best for some of these random answers, so tuning must not adopt any."""
    adopted, gained = 0, 0
    table = {
        "shares": [
            {"bm25_weight": share / 20, "vector_weight": 1 - share / 20} for share in range(1, 20)
        ]
    }
    for seed in range(8):
        chance = np.random.default_rng(seed)
        drawn = [
            knowloom.Question(
                question.text,
                (f"{'true' if chance.random() < 0.5 else 'false'}-{question.id}",),
                question.id,
            )
            for question in QUESTIONS
        ]
        tuning = knowloom.tune(uneven, drawn, measure="recall@1", seed=seed, table=table, folds=12)
        adopted, gained = adopted + tuning.adopted, gained + (tuning.after > tuning.before + 0.05)
    assert (adopted <= 1, gained >= 4) == (True, True), (adopted, gained)


def test_current_settings_are_the_start_and_stay_in_the_patch(kb):
    configured = kb.with_retrieval(RetrievalSettings(walk_onward=0.4, bm25_weight=0.9))
    tuning = knowloom.tune(configured, QUESTIONS, measure="recall@1")
    assert tuning.current == {"walk_onward": 0.4, "bm25_weight": 0.9}
    assert tuning.numbers["walk_onward"] == 0.4 and tuning.numbers["bm25_weight"] < 0.9


def test_numbers_of_the_options_are_in_the_patch_as_all_was_measured_with_them(kb):
    configured = kb.with_retrieval(RetrievalSettings(sharpness=4.0, walk_onward=0.9))
    tuning = knowloom.tune(
        configured,
        QUESTIONS,
        measure="recall@1",
        table={"shares": TABLE["shares"]},
        mode="walk",
        walk_onward=0.02,
    )
    assert tuning.current == {"sharpness": 4.0, "walk_onward": 0.02} and tuning.changes
    assert tomllib.loads(tuning.patch()) == {"retrieval": {**tuning.current, **tuning.changes}}


def test_where_other_numbers_are_set_those_of_knowloom_are_tried_too(kb):
    """Only the default share beats the current one: the table has none as good."""
    words = [
        knowloom.Question(question.text, (f"false-{question.id}",), question.id)
        for question in QUESTIONS
    ]
    configured = kb.with_retrieval(RetrievalSettings(bm25_weight=0.1, vector_weight=0.9))
    table = {"shares": [{"bm25_weight": 0.2, "vector_weight": 0.8}]}
    tuning = knowloom.tune(configured, words, measure="recall@1", table=table)
    assert tuning.adopted and tuning.changes == {
        "bm25_weight": KNOWLEDGE[0].bm25_weight,
        "vector_weight": KNOWLEDGE[0].vector_weight,
    }
    assert knowloom.tune(kb, words, measure="recall@1", table=table).tried == 2, (
        "what is set is knowloom's own: once is enough"
    )


def test_the_defaults_are_those_of_the_default_recipe():
    assert set(DEFAULTS) == set(SETTING_NAMES) - {"confidence_floor"}  # it moves no result
    assert [resolve_settings(DEFAULTS).apply(recipe) for recipe in KNOWLEDGE[:2]] == [
        replace(KNOWLEDGE[0], depth=KNOWLEDGE[1].depth),
        KNOWLEDGE[1],
    ]


def test_the_same_seed_tunes_the_same(kb):
    assert knowloom.tune(kb, QUESTIONS, measure="nDCG@10", seed=4) == knowloom.tune(
        kb, QUESTIONS, measure="nDCG@10", seed=4
    )


def test_settings_without_effect_are_not_tried(kb):
    plain = knowloom.tune(kb, QUESTIONS, measure="recall@1")
    assert plain.tried <= 1 + len(TABLE["shares"]), "a search without links has only its shares"
    with pytest.raises(Invalid, match="no setting affects a search with mode=bm25"):
        knowloom.tune(kb, QUESTIONS, measure="recall@1", mode="bm25")


def test_contexts_can_be_tuned(kb):
    tuning = knowloom.tune(
        kb,
        QUESTIONS,
        measure="evidence@30",
        table={"shares": TABLE["shares"], "sharpness": TABLE["sharpness"]},
    )
    assert tuning.adopted and tuning.after > tuning.before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "speed"}, "unknown measure 'speed'; available: all-found@K, evidence@TOKENS"),
        ({"measure": "recall@many"}, "unknown measure 'recall@many'"),
        ({"measure": "nDCG@5"}, "unknown measure 'nDCG@5'"),
        ({"measure": "facts@100"}, "tuning facts@100 needs at least 12 questions, got 0"),
        ({"folds": 1}, "folds must be an integer from 2 to 24, got 1"),
        ({"table": {"mine": ({"walk_onward": 5},)}}, "walk_onward must be a number from 0 to 1"),
        ({"bm25_weight": 0.3}, "bm25_weight is both an option and in the row 'shares'"),
        ({"colour": 1}, "unknown option 'colour'"),
    ],
)
def test_invalid_tunings_are_rejected(kb, options, message):
    with pytest.raises(Invalid) as caught:
        knowloom.tune(kb, QUESTIONS, **options)
    assert message in str(caught.value)


def test_too_few_questions_are_rejected(kb):
    with pytest.raises(Invalid, match=f"needs at least {MIN_QUESTIONS} questions, got 11"):
        knowloom.tune(kb, QUESTIONS[:11])


def test_every_number_of_the_table_may_be_set_and_differs_from_the_default():
    plain = [RetrievalSettings().apply(recipe) for recipe in KNOWLEDGE]
    for choices in TABLE.values():
        for choice in choices:
            assert [resolve_settings(choice).apply(recipe) for recipe in KNOWLEDGE] != plain


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with knowledge, s.jsonl, and questions about it, q.jsonl."""
    monkeypatch.chdir(tmp_path)
    items = [{"id": f"a{n}", "text": f"alpha{n} beta{n}"} for n in range(14)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in items))
    rows = [{"question": f"alpha{n}", "expected": [f"a{n}"]} for n in range(14)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args, prog_name="knowloom", env={"KNOWLOOM_EMBEDDER": "none"})


def test_the_command_writes_a_patch_that_knowloom_eval_measures(place: Path):
    result = run("tune", "s.jsonl", "q.jsonl", "--write", "p.toml", "--measure", "evidence@100")
    assert result.exit_code == 0, result.output
    assert "Nothing to change" in result.stdout and "KNOWLOOM_RETRIEVAL=p.toml" in result.stdout
    row = run("eval", "s.jsonl", "q.jsonl", "--with", "p.toml", "--json")
    assert json.loads(row.stdout)["configurations"][0]["measures"]["recall@2"]["mean"] == 1


def test_a_patch_on_standard_output_has_it_for_itself(place: Path):
    args = (
        "tune",
        "s.jsonl",
        "q.jsonl",
        "--only",
        "depth",
        "--measure",
        "evidence@100",
        "--write",
        "-",
    )
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert (
        tomllib.loads(result.stdout) == {"retrieval": {}} and "Nothing to change" in result.stderr
    )
    both = run(*args, "--json")
    assert (
        both.exit_code,
        both.stdout,
        "--write - and --json cannot share standard output" in both.stderr,
    ) == (2, "", True), both.output


def test_an_unwritable_patch_is_rejected_before_the_work(place: Path):
    result = run("tune", "no-such.db", "q.jsonl", "--write", "nowhere/p.toml")
    assert (
        result.exit_code,
        "error: cannot write 'nowhere/p.toml': No such file or directory" in result.stderr,
    ) == (1, True), result.output
