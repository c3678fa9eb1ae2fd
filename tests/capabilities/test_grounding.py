"""What a check of an answer finds, what it leaves alone, and what it does with odd texts."""

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
    text="A refund over 100 dollars needs the approval of a team lead. A team lead may approve up to 500 dollars. Above 2,000 dollars a finance "
    "controller decides. Gift cards are not refundable. The policy began on 21 August 2026.",
    properties={"review period": "30 days", "status": "open"},
)
GEHRKE = Item(
    "gehrke",
    "s",
    title="Fred Gehrke",
    text="Fred Gehrke was an American football player. He played for the Los Angeles Rams from 1940 through 1950.",
)


def verdict(text: str, *items: Item) -> tuple[str, str | None]:
    found = check_answer(text, items or (LIMITS, GEHRKE)).sentences
    assert len(found) == 1
    return found[0].verdict, found[0].item.id if found[0].item else None


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
def test_what_the_context_says_is_supported_however_it_is_written(text):
    assert verdict(text)[0] == "supported"


@pytest.mark.parametrize(
    ("text", "item", "said"),
    [
        ("A refund over 200 dollars needs the approval of a team lead.", "limits", "200 dollars"),
        ("A team lead may approve up to 2,000 dollars.", "limits", "2,000 dollars"),
        ("The policy began on 22 August 2026.", "limits", "22 August 2026"),
        ("The review period of the refund approval limits is 45 days.", "limits", "45 days"),
        ("He played for the Los Angeles Rams from 1941 through 1950.", "gehrke", "1941"),
        ("He played for the Chicago Bears from 1940 through 1950.", "gehrke", "chicago"),
    ],
)
def test_another_value_is_a_contradiction_with_the_item_that_says_otherwise(text, item, said):
    found = check_answer(text, [LIMITS, GEHRKE]).sentences[0]
    assert (found.verdict, found.item and found.item.id) == ("contradicted", item)
    assert said in found.missing
    assert found.evidence


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Gift cards are refundable.", "denies it"),
        ("A team lead may not approve up to 500 dollars.", "it denies"),
    ],
)
def test_denials_are_noticed_both_ways(text, reason):
    found = check_answer(text, [LIMITS]).sentences[0]
    assert (found.verdict, reason in found.reason) == ("contradicted", True)


def test_a_property_with_another_text_is_a_contradiction():
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
def test_what_no_item_says_is_unsupported_and_not_a_contradiction(text):
    assert verdict(text)[0] == "unsupported"


@pytest.mark.parametrize(
    "text",
    ["Sure!", "Does a team lead approve 900 dollars?", "I hope this helps!", "Please let me know."],
)
def test_questions_and_courtesies_need_no_support(text):
    found = check_answer(text, [LIMITS])
    assert [one.verdict for one in found.sentences] == ["nothing_to_check"]
    assert (found.grounded, found.share) == (True, 1.0)


def test_numbers_and_names_must_be_in_one_item():
    one, other = (
        Item("a", "s", text="The Harbor tent weighs 3 kg."),
        Item("b", "s", text="The Kestrel lamp costs 40 dollars."),
    )
    assert verdict("The Kestrel lamp weighs 3 kg.", one, other)[0] != "supported"


def test_another_number_elsewhere_in_the_item_does_not_support_a_wrong_one():
    item = Item("a", "s", text="Standard delivery takes 5 days. Express delivery takes 2 days.")
    assert verdict("Standard delivery takes 2 days.", item)[0] == "contradicted"
    assert verdict("Express delivery takes 2 days.", item)[0] == "supported"


def test_only_what_a_context_shows_counts():
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


def test_an_embedder_finds_support_in_other_words_but_never_for_other_numbers():
    embedder = knowloom.registry.open_embedder("minilm")
    item = Item("a", "s", text="Customers can send back their purchase within 30 days.")
    said = "Buyers can return a purchase within 30 days."
    assert (verdict(said, item)[0], check_answer(said, [item], embedder=embedder).grounded) == (
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
def test_sentences_end_where_a_reader_would_end_them(text, expected):
    found = list(split_sentences(text))
    assert [one.text for one in found] == expected
    assert all(text[one.start : one.end] == one.text for one in found)


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
def test_numbers_are_the_same_however_they_are_written(text, expected):
    assert [(one.value, one.unit) for one in extract_numbers(text)] == expected


@given(st.text(max_size=300), st.text(max_size=300))
@settings(max_examples=80, deadline=None)
def test_any_text_can_be_checked_against_any_text(answer, context):
    found = check_answer(answer, context)
    assert all(answer[one.start : one.end] == one.text for one in found.sentences)
    assert found == check_answer(answer, context)


def test_a_text_without_sentences_is_cut_at_spaces():
    text = "word " * 2000
    found = list(split_sentences(text))
    assert " ".join(one.text for one in found) == text.strip()
    assert max(len(one.text) for one in found) <= 2000
    assert [len(one.text) for one in split_sentences("x" * 5000)] == [2000, 2000, 1000]


def test_wrong_input_is_refused():
    for answer, context, told in (
        (3, [], "not int"),
        ("x" * 1_000_001, [], "at most 1,000,000"),
        ("A b c.", [3], "not one of int"),
    ):
        with pytest.raises(Invalid, match=told):
            check_answer(answer, context)  # type: ignore[arg-type]
    assert check_answer("", "").sentences == ()
    assert check_answer("A refund takes 3 days.", []).unsupported


def test_the_shell_checks_answers_against_files_and_knowledge(tmp_path):
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
    found = json.loads(bad.stdout)
    assert (bad.exit_code, found["grounded"], found["sentences"][0]["item"]) == (
        1,
        False,
        {"space": "s", "id": "limits"},
    )
    assert run(cli, ["check-answer", "x"]).exit_code == 2
    assert run(cli, ["check-answer", "x", "--context", str(Path("nowhere"))]).exit_code == 1


class TestWhatIsAContext:
    """Whatever a request gave is one: what it shows counts, and nothing else."""

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

    def verdicts(self, context, *said):
        return [knowloom.check_answer(one, context).sentences[0].verdict for one in said]

    def test_an_assembly(self, kb):
        found = knowloom.Assembler(
            [knowloom.KnowledgeStrategy(kb, recipe="search"), knowloom.DocumentStrategy()]
        ).assemble("Gangway refunds", spaces=("s",), document="The harbor opened in 1987.")
        said = (
            "Gangway pays refunds within 3 days.",
            "The harbor opened in 1987.",
            "Gangway pays refunds within 9 days.",
        )
        assert self.verdicts(found, *said) == ["supported", "supported", "contradicted"]

    def test_a_graph_context(self, kb):
        found = knowloom.GraphContext(kb, ["s"]).for_query(
            "Gangway", include_claims=True, max_properties_per_entity=1
        )
        said = (
            "Gangway pays refunds within 3 days.",
            "The owner of Gangway is Ada.",
            "Tidewater calls Gangway.",
            "Every system has exactly 2 owners.",
        )
        assert (
            self.verdicts(found, *said, "The speed of Gangway is 40 requests.") == ["supported"] * 5
        )
        assert self.verdicts(found, "The tier of Gangway is gold.") == [
            "unsupported"
        ]  # it is not shown
        assert (
            knowloom.check_answer("Gangway pays refunds within 9 days.", found).sentences[0].item.id
            == "gangway"
        )

    def test_of_an_entity_shown_by_name_its_name_counts(self, kb):
        found = knowloom.GraphContext(kb, ["s"]).for_entities(
            ["gangway"], max_tokens=20, relationship_depth=0
        )
        assert [one.form.value for one in found.entities] == ["pointer"] and self.verdicts(
            found, "Gangway pays refunds within 3 days."
        ) == ["unsupported"]

    @pytest.mark.parametrize("wrong", [None, 5, b"bytes", {"a": 1}, [5], object()])
    def test_anything_else_is_refused(self, wrong):
        with pytest.raises(
            knowloom.Invalid,
            match="a context is what a request gave, a text, or a list of items and texts, not",
        ):
            knowloom.check_answer("The sky is blue.", wrong)


def test_long_numbers_are_compared_to_their_last_digit():
    found = knowloom.check_answer(
        f"The account is {'123456789' * 5}1.", [f"The account is {'123456789' * 5}2."]
    )
    assert [one.verdict for one in found.sentences] == ["contradicted"]


def test_what_is_said_twice_is_told_twice_with_its_places():
    found = knowloom.check_answer(
        "Gift cards are paid. Gift cards are paid.", ["Gift cards are paid."]
    )
    assert [(one.start, one.end, one.verdict) for one in found.sentences] == [
        (0, 20, "supported"),
        (21, 41, "supported"),
    ]


def test_the_numbers_of_a_sentence_are_all_looked_at_however_many_there_are():
    many = ", ".join(str(number) for number in range(400))
    found = knowloom.check_answer(
        f"The parts are {many}.", [f"The parts are {many.replace(' 399', ' 777')}."]
    )
    assert [(one.verdict, one.missing) for one in found.sentences] == [("contradicted", ("399",))]
