"""Checks of answers: supported, contradicted and unsupported sentences, and unusual texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Edge, Invalid, Item, Kind, check_answer
from knowloom.capabilities.grounding.facts import split_sentences
from knowloom.capabilities.grounding.numbers import extract_numbers
from knowloom.cli.main import cli

LIMITS = Item(
    "limits",
    "s",
    title="Refund approval limits",
    text="A refund over 100 dollars needs the approval of a team lead. "
    "A team lead may approve up to 500 dollars. Above 2,000 dollars a finance controller decides. "
    "Gift cards are not refundable. The policy began on 21 August 2026.",
    properties={"review period": "30 days", "status": "open"},
)
GEHRKE = Item(
    "gehrke",
    "s",
    title="Fred Gehrke",
    text="Fred Gehrke was an American football player. "
    "He played for the Los Angeles Rams from 1940 through 1950.",
)


def verdict(text: str, *items: Item) -> tuple[str, str | None]:
    check = check_answer(text, items or (LIMITS, GEHRKE)).sentences
    assert len(check) == 1
    return check[0].verdict, check[0].item.id if check[0].item else None


@pytest.mark.parametrize(
    "text",
    [
        "A refund over 100 dollars needs the approval of a team lead.",
        "A refund over $100 needs approval by a team lead.",
        "Team leads may approve up to $500.00.",
        "Above 2k dollars a finance controller decides.",
        "Gift cards can not be refunded.",
        "The policy began on August 21, 2026.",
        "The policy began on 2026-08-21.",
        "The review period of refund approval limits is 30 days.",
        "Gehrke played for the Rams from 1940 through 1950.",
    ],
)
def test_statements_of_the_context_are_supported_in_any_spelling(text):
    assert verdict(text)[0] == "supported"


@pytest.mark.parametrize(
    ("text", "item", "statement"),
    [
        ("A refund over 200 dollars needs the approval of a team lead.", "limits", "200 dollars"),
        ("A team lead may approve up to 2,000 dollars.", "limits", "2,000 dollars"),
        ("The policy began on 22 August 2026.", "limits", "22 August 2026"),
        ("The review period of the refund approval limits is 45 days.", "limits", "45 days"),
        ("He played for the Los Angeles Rams from 1941 through 1950.", "gehrke", "1941"),
        ("He played for the Chicago Bears from 1940 through 1950.", "gehrke", "chicago"),
    ],
)
def test_another_value_contradicts_the_item(text, item, statement):
    check = check_answer(text, [LIMITS, GEHRKE]).sentences[0]
    assert (check.verdict, check.item and check.item.id) == ("contradicted", item)
    assert statement in check.missing
    assert check.evidence


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Gift cards are refundable.", "denies it"),
        ("A team lead may not approve up to 500 dollars.", "it denies"),
    ],
)
def test_negations_contradict_in_both_directions(text, reason):
    check = check_answer(text, [LIMITS]).sentences[0]
    assert (check.verdict, reason in check.reason) == ("contradicted", True)


def test_another_property_value_is_a_contradiction():
    assert verdict("The status of the refund approval limits is closed.") == (
        "contradicted",
        "limits",
    )
    assert verdict("The status of the refund approval limits is open.") == ("supported", "limits")


@pytest.mark.parametrize(
    "text",
    [
        "Refunds are always paid in Bitcoin.",
        "The moon is made of green cheese.",
        "Maria Lopez played for the Rams in 1940.",
        "A refund takes 17 weeks.",
    ],
)
def test_statements_of_no_item_are_unsupported_not_contradicted(text):
    assert verdict(text)[0] == "unsupported"


@pytest.mark.parametrize(
    "text",
    ["Sure!", "Does a team lead approve 900 dollars?", "I hope this helps!", "Please let me know."],
)
def test_questions_and_courtesies_need_no_support(text):
    check = check_answer(text, [LIMITS])
    assert [sentence.verdict for sentence in check.sentences] == ["nothing_to_check"]
    assert (check.grounded, check.share) == (True, 1.0)


def test_numbers_and_names_must_be_in_one_item():
    first, other = (
        Item("a", "s", text="The Harbor tent weighs 3 kg."),
        Item("b", "s", text="The Kestrel lamp costs 40 dollars."),
    )
    assert verdict("The Kestrel lamp weighs 3 kg.", first, other)[0] != "supported"


def test_another_number_elsewhere_in_the_item_does_not_support_a_wrong_one():
    item = Item("a", "s", text="Standard delivery takes 5 days. Express delivery takes 2 days.")
    assert verdict("Standard delivery takes 2 days.", item)[0] == "contradicted"
    assert verdict("Express delivery takes 2 days.", item)[0] == "supported"


def test_only_the_shown_part_of_an_item_counts():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(
            Item(
                "a",
                "s",
                type="faq",
                title="Delivery times",
                text="Express delivery takes 2 days. " + "It is a long story. " * 60,
            )
        )
        whole, pointer = (
            kb.context("delivery", spaces=["s"]),
            kb.context("delivery", spaces=["s"], max_tokens=25),
        )
    assert check_answer("Express delivery takes 2 days.", whole).grounded
    assert pointer.hits
    assert not check_answer("Express delivery takes 2 days.", pointer).grounded


def test_an_embedder_supports_paraphrases_but_not_other_numbers():
    embedder = knowloom.registry.open_embedder("minilm")
    item = Item("a", "s", text="Customers can send back their purchase within 30 days.")
    statement = "Buyers can return a purchase within 30 days."
    assert (
        verdict(statement, item)[0],
        check_answer(statement, [item], embedder=embedder).grounded,
    ) == (
        "unsupported",
        True,
    )
    assert not check_answer(
        "Buyers can return a purchase within 60 days.", [item], embedder=embedder
    ).grounded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith paid 3.5 million. He left.", ["Dr. Smith paid 3.5 million.", "He left."]),
        (
            "It is in the U.S. and J. K. Rowling knows. Yes!",
            ["It is in the U.S. and J. K. Rowling knows.", "Yes!"],
        ),
        ("- one thing\n2. another thing\n# Title", ["one thing", "another thing", "Title"]),
        ("Before.\n```\ncode = 1. Really\n```\nAfter.", ["Before.", "After."]),
        ('He said "no." Then he went.', ['He said "no."', "Then he went."]),
        ("", []),
    ],
)
def test_sentences_are_split_as_a_reader_would(text, expected):
    check = list(split_sentences(text))
    assert [sentence.text for sentence in check] == expected
    assert all(text[sentence.start : sentence.end] == sentence.text for sentence in check)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$1,200.50", [("1200.5", "usd")]),
        ("1.2k dollars", [("1200", "usd")]),
        ("1 234 km and 3,5 kg", [("1234", "km"), ("3.5", "kg")]),
        ("20 percent, 20%, 20 per cent", [("20", "%")] * 3),
        ("five days, 5 days, 3 business days", [("5", "day"), ("5", "day"), ("3", "business day")]),
        ("2.5 million", [("2500000", "")]),
        ("-4 and 1940–1950", [("-4", ""), ("1940", ""), ("1950", "")]),
        ("1st of May 2026", [("2026-05-01", "date")]),
        ("order HP-10511907", []),
    ],
)
def test_numbers_have_a_canonical_form(text, expected):
    assert [(number.value, number.unit) for number in extract_numbers(text)] == expected


@given(st.text(max_size=300), st.text(max_size=300))
@settings(max_examples=80, deadline=None)
def test_any_text_can_be_checked_against_any_text(answer, context):
    check = check_answer(answer, context)
    assert all(
        answer[sentence.start : sentence.end] == sentence.text for sentence in check.sentences
    )
    assert check == check_answer(answer, context)


def test_a_text_without_sentences_is_cut_at_spaces():
    text = "word " * 2000
    check = list(split_sentences(text))
    assert " ".join(sentence.text for sentence in check) == text.strip()
    assert max(len(sentence.text) for sentence in check) <= 2000
    assert [len(sentence.text) for sentence in split_sentences("x" * 5000)] == [2000, 2000, 1000]


def test_invalid_input_is_refused():
    for answer, context, message in (
        (3, [], "got int"),
        ("x" * 1_000_001, [], "at most 1,000,000"),
        ("A b c.", [3], "got a list with a int"),
    ):
        with pytest.raises(Invalid, match=message):
            check_answer(answer, context)  # type: ignore[arg-type]
    assert check_answer("", "").sentences == ()
    assert check_answer("A refund takes 3 days.", []).unsupported


def test_the_cli_checks_answers_against_files_and_knowledge(tmp_path):
    (tmp_path / "c.txt").write_text("Express delivery takes 2 days.")
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(LIMITS)
    run = CliRunner().invoke
    good = run(
        cli,
        ["check-answer", "Express delivery takes 2 days.", "--context", str(tmp_path / "c.txt")],
    )
    assert (good.exit_code, good.stdout) == (0, "supported: Express delivery takes 2 days.\n")
    where = [
        "--recipe",
        "search",
        "--space",
        "s",
        "--db",
        str(tmp_path / "k.db"),
        "--embedder",
        "none",
        "--json",
    ]
    bad = run(
        cli,
        [
            "check-answer",
            "A team lead may approve up to 900 dollars.",
            "--question",
            "team lead refund",
            *where,
        ],
    )
    check = json.loads(bad.stdout)
    assert (bad.exit_code, check["grounded"], check["sentences"][0]["item"]) == (
        1,
        False,
        {"space": "s", "id": "limits"},
    )
    missing = run(cli, ["check-answer", "x", "--db", str(Path("nowhere.db"))])
    assert missing.exit_code == 1 and "nowhere.db" in missing.stderr
    assert run(cli, ["check-answer", "x", "--context", str(Path("nowhere"))]).exit_code == 1


class TestContexts:
    """Results of requests are contexts: only what they show counts."""

    @pytest.fixture
    def kb(self):
        items = [
            Item(
                "gangway",
                "s",
                Kind.ENTITY,
                "System",
                "Gangway",
                "Gangway pays refunds within 3 days.",
                properties={"owner": "Ada", "tier": "gold"},
            ),
            Item("tidewater", "s", Kind.ENTITY, "System", "Tidewater"),
            Item(
                "rule",
                "s",
                Kind.RULE,
                "axiom",
                "Owners",
                "Every system has exactly 2 owners.",
                subject="System",
            ),
            Item(
                "claim",
                "s",
                Kind.CLAIM,
                "speed",
                subject="gangway",
                confidence=0.9,
                properties={"predicate": "speed", "object": "40 requests"},
            ),
        ]
        with knowloom.open("memory:", embedder=None) as kb:
            kb.add(items, [Edge("tidewater", "gangway", "CALLS", space="s")])
            yield kb

    def verdicts(self, context, *statement):
        return [
            knowloom.check_answer(statement, context).sentences[0].verdict
            for statement in statement
        ]

    def test_an_assembly(self, kb):
        check = knowloom.Assembler(
            [knowloom.KnowledgeStrategy(kb, recipe="search"), knowloom.DocumentStrategy()]
        ).assemble("Gangway refunds", spaces=("s",), document="The harbor opened in 1987.")
        statement = (
            "Gangway pays refunds within 3 days.",
            "The harbor opened in 1987.",
            "Gangway pays refunds within 9 days.",
        )
        assert self.verdicts(check, *statement) == ["supported", "supported", "contradicted"]

    def test_a_graph_context(self, kb):
        check = knowloom.GraphContext(kb, ["s"]).for_query(
            "Gangway", include_claims=True, max_properties_per_entity=1
        )
        statement = (
            "Gangway pays refunds within 3 days.",
            "The owner of Gangway is Ada.",
            "Tidewater calls Gangway.",
            "Every system has exactly 2 owners.",
        )
        assert (
            self.verdicts(check, *statement, "The speed of Gangway is 40 requests.")
            == ["supported"] * 5
        )
        assert self.verdicts(check, "The tier of Gangway is gold.") == [
            "unsupported"
        ]  # it is not shown
        assert (
            knowloom.check_answer("Gangway pays refunds within 9 days.", check).sentences[0].item.id
            == "gangway"
        )

    def test_a_pointer_supports_only_the_name(self, kb):
        check = knowloom.GraphContext(kb, ["s"]).for_entities(
            ["gangway"], max_tokens=20, relationship_depth=0
        )
        assert [entity.form.value for entity in check.entities] == ["pointer"] and self.verdicts(
            check, "Gangway pays refunds within 3 days."
        ) == ["unsupported"]

    @pytest.mark.parametrize("wrong", [None, 5, b"bytes", {"a": 1}, [5], object()])
    def test_other_values_are_refused(self, wrong):
        with pytest.raises(
            knowloom.Invalid,
            match="a context must be the result of a request, a text, or a list of items",
        ):
            knowloom.check_answer("The sky is blue.", wrong)


def test_long_numbers_are_compared_to_the_last_digit():
    check = knowloom.check_answer(
        f"The account is {'123456789' * 5}1.", [f"The account is {'123456789' * 5}2."]
    )
    assert [sentence.verdict for sentence in check.sentences] == ["contradicted"]


def test_repeated_sentences_are_reported_with_their_positions():
    check = knowloom.check_answer(
        "Gift cards are paid. Gift cards are paid.", ["Gift cards are paid."]
    )
    assert [(sentence.start, sentence.end, sentence.verdict) for sentence in check.sentences] == [
        (0, 20, "supported"),
        (21, 41, "supported"),
    ]


def test_all_of_many_numbers_in_a_sentence_are_checked():
    many = ", ".join(str(number) for number in range(400))
    check = knowloom.check_answer(
        f"The parts are {many}.", [f"The parts are {many.replace(' 399', ' 777')}."]
    )
    assert [(sentence.verdict, sentence.missing) for sentence in check.sentences] == [
        ("contradicted", ("399",))
    ]
