"""Axioms: read from files with clear errors, executed on facts, checked over whole spaces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import knowloom
from knowloom.axioms import axiom_files, parsing
from knowloom.axioms.checker import AxiomChecker, find_contradictions
from knowloom.axioms.model import AxiomFact
from knowloom.cli.main import cli
from knowloom.errors import Invalid, NotFound
from knowloom.model import Edge, Item, Kind
from paths import ROOT

HARBOR = ROOT / "examples" / "harbor"


def check_rule(rule: dict, values: dict, *others: dict, stored: set = frozenset()) -> list[str]:
    """Return the messages about the last entity, checked after the others."""
    axiom = parsing.parse_axiom({"id": "a", "target_type": "T", "rules": [rule]}, "s")
    facts = [
        AxiomFact("entity", "s", f"e{number}", "E", ("T",), first)
        for number, first in enumerate([*others, values])
    ]
    return [
        fact.message
        for fact in AxiomChecker([axiom], lambda keys: set(keys) & set(stored)).check(facts)
        if fact.id == facts[-1].id
    ]


P = {"property": "p"}
CASES = [
    ({"constraint": "required"}, "x", None),
    ({"constraint": "required"}, 0, ""),
    ({"constraint": "required"}, False, []),
    ({"constraint": "one_of", "values": ["a", 1]}, 1.0, "b"),
    ({"constraint": "one_of", "values": ["a", "b"]}, ["a", "b"], ["a", "c"]),
    ({"constraint": "one_of", "values": [1]}, None, True),
    ({"constraint": "not_one_of", "values": ["a"]}, "b", "a"),
    ({"constraint": "range", "min": 1, "max": 5}, 5, 5.01),
    ({"constraint": "range", "min": 1}, 1, 0),
    ({"constraint": "range", "min": 1}, None, "one"),
    ({"constraint": "range", "min": "2026-01-01"}, "2026-02-01", "2025-12-31"),
    ({"constraint": "pattern", "pattern": "^HP-[0-9]+$"}, "HP-1", "HP-1\n"),
    ({"constraint": "cardinality", "min": 1, "max": 2}, ["a", "b"], ["a", "b", "c"]),
    ({"constraint": "cardinality", "min": 1}, "alone", None),
    ({"constraint": "equals", "value": 3}, 3.0, 4),
    ({"constraint": "not_equals", "value": "x"}, "y", "x"),
    ({"constraint": "type_valid", "value_type": "integer"}, 3.0, 3.5),
    ({"constraint": "type_valid", "value_type": "time"}, "2026-01-31", "soon"),
    ({"constraint": "type_valid", "value_type": "number"}, 3, True),
    ({"constraint": "type_valid", "value_type": "list"}, [1], {"a": 1}),
]


@pytest.mark.parametrize(("rule", "good", "bad"), CASES)
def test_a_constraint_accepts_valid_and_refuses_invalid_values(rule, good, bad):
    assert check_rule(P | rule, {"p": good}) == []
    assert len(check_rule(P | rule, {"p": bad})) == 1


def test_properties_may_exclude_or_require_each_other():
    both, together = (
        {"properties": ["a", "b"], "constraint": "not_both"},
        {"properties": ["a", "b"], "constraint": "requires_together"},
    )
    assert check_rule(both, {"a": 1}) == [] and check_rule(both, {"a": 1, "b": 2}) == [
        "a and b must not be given together"
    ]
    assert check_rule(together, {"a": 1, "b": 2}) == [] == check_rule(together, {})
    assert check_rule(together, {"a": 1}) == ["b must be given where a is"]


def test_a_unique_value_belongs_to_one_entity_alone():
    rule = P | {"constraint": "unique"}
    assert check_rule(rule, {"p": 2}, {"p": 1}) == []
    assert check_rule(rule, {"p": 1.0}, {"p": 1}) == [
        "p is 1.0, as it is of 'e0': it must be unique"
    ]


def test_a_reference_must_lead_to_a_stored_item():
    rule = P | {"constraint": "reference_exists"}
    assert check_rule(rule, {"p": ["x", "y"]}, stored={("s", "x"), ("s", "y")}) == []
    assert check_rule(rule, {"p": ["x", "y"]}, stored={("s", "x")}) == [
        'p is "y", and there is no such item'
    ]


OPERATORS = [
    ("equals", 1, 1, 2),
    ("not_equals", 1, 2, 1),
    ("in", [1, 2], 2, 3),
    ("not_in", [1, 2], 3, 2),
    ("exists", None, 0, None),
    ("not_exists", None, None, 0),
    ("contains", "b", "abc", "xyz"),
    ("contains", "b", ["a", "b"], ["ab"]),
    ("starts_with", "a", "abc", "cba"),
    ("ends_with", "c", "abc", "cba"),
    ("matches", "^a+$", "aaa", "ab"),
    ("greater_than", 1, 2, 1),
    ("less_than", 1, 0, 1),
    ("at_least", 1, 1, 0),
    ("at_most", 1, 1, 2),
]


@pytest.mark.parametrize(("operator", "value", "passing", "failing"), OPERATORS)
def test_a_rule_is_checked_only_if_its_condition_holds(operator, value, passing, failing):
    rule = {
        "property": "other",
        "constraint": "required",
        "when": {"property": "p", "operator": operator, "value": value},
    }
    assert check_rule(rule, {"p": passing}) == ["other is missing"]
    assert check_rule(rule, {"p": failing}) == []


def test_the_message_of_a_rule_precedes_the_problem():
    assert check_rule(P | {"constraint": "required", "message": "say p"}, {}) == [
        "say p (p is missing)"
    ]


WRONG = [
    (
        {"constraint": "pattern", "pattern": "(a"},
        "rules[0].pattern: must be an RE2 regular expression, got '(a': missing ): (a",
    ),
    (
        {"constraint": "pattern", "pattern": r"(a)\1"},
        "rules[0].pattern: must be an RE2 regular expression",
    ),
    ({"constraint": "pattern"}, "rules[0].pattern: must be a regular expression, got None"),
    ({"constraint": "range", "min": 5, "max": 1}, "rules[0].min: no value lies between 5 and 1"),
    (
        {"constraint": "range", "min": 5, "max": "2026-01-01"},
        "rules[0].min: no value lies between",
    ),
    ({"constraint": "range"}, "rules[0]: a range needs min or max"),
    ({"constraint": "range", "min": True}, "rules[0].min: must be a number or a time"),
    (
        {"constraint": "cardinality", "min": 2, "max": 1},
        "rules[0].min: no number lies between 2 and 1",
    ),
    ({"constraint": "cardinality", "max": -1}, "rules[0].max: must be an integer"),
    ({"constraint": "one_of"}, "rules[0].values: must name at least one value"),
    ({"constraint": "one_of", "values": "a"}, "rules[0].values: must be a list"),
    ({"constraint": "equals"}, "rules[0]: equals needs a value"),
    ({"constraint": "not_both"}, "rules[0]: not_both needs at least two `properties`"),
    (
        {"constraint": "type_valid", "value_type": "colour"},
        "rules[0].value_type: unknown value_type 'colour'; available: boolean, integer",
    ),
    (
        {"constraint": "even"},
        "rules[0].constraint: unknown constraint 'even'; available: cardinality, equals",
    ),
    (
        {"constraint": "required", "when": {"property": "q", "operator": "near"}},
        "rules[0].when.operator: unknown operator 'near'",
    ),
    (
        {"constraint": "required", "when": {"property": "q", "operator": "equals"}},
        "rules[0].when: the operator equals needs a value",
    ),
    (
        {"constraint": "required", "when": {"property": "q", "operator": "matches", "value": "["}},
        "rules[0].when.value: must be an RE2 regular expression, got '['",
    ),
    ({"constraint": "required", "wen": 1}, "rules[0].wen: unknown field 'wen'"),
]


@pytest.mark.parametrize(("rule", "message"), WRONG)
def test_an_invalid_rule_is_refused_with_its_field(rule, message):
    with pytest.raises(Invalid) as caught:
        parsing.parse_axiom({"id": "a", "target_type": "T", "rules": [P | rule]})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"target_type": None},
        {"severity": "bad"},
        {"target_kind": "x"},
        {"rules": {}},
        {"enabled": 1},
        {"x": 1},
    ],
)
def test_an_invalid_axiom_is_refused(change):
    with pytest.raises(Invalid):
        parsing.parse_axiom({"id": "a", "target_type": "T"} | change)


def test_no_pattern_can_hang():
    # Backtracking would take exponential time.
    assert (
        len(
            check_rule(
                P | {"constraint": "pattern", "pattern": "^(a+)+$"}, {"p": "a" * 50_000 + "b"}
            )
        )
        == 1
    )


def test_a_disabled_axiom_is_not_checked():
    axiom = parsing.parse_axiom(
        {
            "id": "a",
            "target_type": "T",
            "enabled": False,
            "rules": [P | {"constraint": "required"}],
        },
        "s",
    )
    assert (
        AxiomChecker([axiom], lambda _: set()).check(
            [AxiomFact("entity", "s", "e", "E", ("T",), {})]
        )
        == []
    )


def claim(
    id: str, value: object, predicate: str = "weight", active: bool = True, confidence: float = 0.5
) -> Item:
    return Item(
        id,
        "s",
        Kind.CLAIM,
        "statement",
        id,
        properties={"predicate": predicate, "object": value, "active": active},
        subject="e",
        confidence=confidence,
    )


def test_active_claims_that_disagree_are_reported_once():
    check = find_contradictions(
        [
            claim("a", 1),
            claim("b", 2, confidence=0.9),
            claim("c", 3, active=False),
            claim("d", 9, "height"),
        ]
    )
    assert [(entry.id, entry.others, entry.properties) for entry in check] == [
        ("b", ("a",), ("weight",))
    ]
    assert find_contradictions([claim("a", 60), claim("b", 60.0)]) == []


YAML = """axioms:
  - id: sku
    name: A SKU
    target_type: Product
    severity: warning
    tags: [identity]
    rules:
      - property: sku
        constraint: pattern
        pattern: "^HP-"
  - id: since
    target_type: Product
    rules:
      - {property: since, constraint: range, min: 2020-01-01}
  - id: broken
    target_type: Product
    rules:
      - property: sku
        constraint: pattern
        pattern: "(a"
  - just text
  - id: sku
    target_type: Product
"""


def write_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_mistakes_in_a_yaml_file_have_line_numbers(tmp_path):
    path = write_file(tmp_path, "rules.yaml", YAML)
    check = list(axiom_files.read_axioms(path))
    assert [entry.axiom.id for entry in check if isinstance(entry, axiom_files.ParsedAxiom)] == [
        "sku",
        "since",
    ]
    assert [
        (entry.where, entry.what) for entry in check if isinstance(entry, axiom_files.RejectedAxiom)
    ] == [
        (f"{path}:20", "broken"),
        (f"{path}:21", "just text"),
        (f"{path}:22", "sku"),
    ]
    assert (
        "duplicate id"
        in [entry for entry in check if isinstance(entry, axiom_files.RejectedAxiom)][-1].why
    )


def test_mistakes_in_a_json_file_have_line_numbers(tmp_path):
    path = write_file(
        tmp_path,
        "rules.json",
        '[\n\t{"id": "a", "target_type": "T", "name": "\\ud83d\\ude00"},\n'
        '\t{"id": "b", "target_type": "T",\n\t "severity": "bad"}\n]',
    )
    good, bad = axiom_files.read_axioms(path)
    assert good.axiom.name == "😀" and bad.where == f"{path}:4"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "axioms: [", ":1: not YAML"),
        ("a.yaml", "a: &x [1]\nb: *x\n", ":1: aliases are not allowed here"),
        ("a.yaml", "id: a\nid: b\n", ":2: duplicate field 'id'"),
        ("a.yaml", "5", "must be a list of axioms"),
        ("a.yaml", "- !!python/object:os.system {}", "not YAML"),
        ("a.yaml", "- " * 5000, "not YAML"),
        ("a.json", '[\n{"id": }]', ":2: not JSON"),
        ("a.json", '[{"id": NaN}]', "not JSON"),
        ("a.txt", "", "an axiom file must end in .json, .yaml, .yml"),
    ],
)
def test_an_unreadable_file_is_refused_with_the_reason(tmp_path, name, text, message):
    with pytest.raises(Invalid) as caught:
        list(axiom_files.read_axioms(write_file(tmp_path, name, text)))
    assert message in str(caught.value)


def test_missing_and_non_utf8_files_are_refused(tmp_path):
    with pytest.raises(Invalid, match="no file"):
        list(axiom_files.read_axioms(tmp_path / "none.yaml"))
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="must be UTF-8 text"):
        list(axiom_files.read_axioms(tmp_path / "a.yaml"))


@pytest.fixture
def kb():
    with knowloom.open("memory:", embedder=None) as engine:
        yield engine


def test_loaded_axioms_are_stored_as_rules_and_round_trip(kb, tmp_path):
    path = write_file(tmp_path, "rules.yaml", YAML)
    report = knowloom.load_axioms(kb, path, space="s")
    assert (report.added, len(report.skipped)) == (2, 3)
    (item,) = kb.get("sku", space="s")
    assert (item.kind, item.type, item.subject, item.section, item.source) == (
        Kind.RULE,
        "axiom",
        "Product",
        "instructions",
        "rules.yaml",
    )
    assert parsing.axiom_from_item(item) == parsing.parse_axiom(
        {
            **item.properties,
            "id": "sku",
            "name": "A SKU",
            "target_type": "Product",
            "tags": ["identity"],
            "description": item.text,
        },
        "s",
    )
    assert kb.get("since", space="s")[0].properties["rules"][0]["min"] == "2020-01-01"
    assert knowloom.load_axioms(kb, path, space="s").unchanged == 2


def test_a_space_is_checked_as_a_whole(kb):
    kb.load(HARBOR)
    check = kb.check("shared")
    assert [
        (violation.id, violation.axiom or violation.constraint) for violation in check.violations
    ] == [
        ("claim-kestrel-warranty-60", "contradiction"),
        ("are-wool-blanket", "axiom-product-origin"),
    ]
    assert check.ok and (check.axioms, check.claims) == (5, 6) and check.entities > 20
    assert kb.check(["support"]).violations == ()


def test_relationships_and_claims_are_checked_too(kb):
    def rule(id: str, kind: str, subject: str, **rule: object) -> Item:
        return Item(
            id,
            "s",
            Kind.RULE,
            "axiom",
            id,
            subject=subject,
            properties={"target_kind": kind, "rules": [rule]},
        )

    items = [
        Item("x", "s", Kind.ENTITY, "T", "X"),
        Item("y", "s", Kind.ENTITY, "T", "Y"),
        claim("c", 1),
        rule("heavy", "relationship", "OWNS", property="weight", constraint="range", min=0.5),
        rule("sure", "claim", "weight", property="confidence", constraint="range", min=0.8),
        rule("documented", "claim", "statement", property="document", constraint="required"),
    ]
    kb.add(
        items,
        [
            Edge("x", "y", "OWNS", 0.4, "s"),
            Edge("y", "x", "OWNS", 0.6, "s"),
            Edge("x", "x", "USES", 0.1, "s"),
        ],
    )
    assert [
        (violation.kind, violation.id, violation.axiom) for violation in kb.check("s").violations
    ] == [
        ("claim", "c", "documented"),
        ("claim", "c", "sure"),
        ("relationship", "x -[OWNS]-> y", "heavy"),
    ]


def test_axioms_do_not_apply_to_other_spaces(kb):
    kb.add([Item("x", "one", Kind.ENTITY, "T", "X"), Item("x", "two", Kind.ENTITY, "T", "X")])
    kb.add(
        Item(
            "r",
            "one",
            Kind.RULE,
            "axiom",
            "R",
            subject="T",
            properties={"rules": [{"property": "p", "constraint": "required"}]},
        )
    )
    assert [violation.space for violation in kb.check().violations] == ["one"]


def test_an_unusable_stored_rule_is_reported_and_the_rest_is_checked(kb):
    kb.add(
        Item(
            "bad",
            "s",
            Kind.RULE,
            "axiom",
            "B",
            subject="T",
            properties={"rules": [{"property": "p", "constraint": "pattern", "pattern": "("}]},
        )
    )
    kb.add(
        [Item("words", "s", Kind.RULE, "policy", "Be kind"), Item("x", "s", Kind.ENTITY, "T", "X")]
    )
    check = kb.check("s")
    assert [id for _, id, _ in check.unusable] == ["bad"] and not check.ok
    with pytest.raises(NotFound, match="unknown space 'nowhere'"):
        kb.check("nowhere")


class TestCli:
    @pytest.fixture
    def db(self, tmp_path: Path) -> list[str]:
        options = ["--db", str(tmp_path / "k.db"), "--embedder", "none"]
        assert CliRunner().invoke(cli, ["load", str(HARBOR), *options]).exit_code == 0
        return options

    def test_check_prints_a_table_and_exits_with_0_for_warnings(self, db):
        done = CliRunner().invoke(cli, ["check", *db])
        assert (
            done.exit_code == 0
            and "axiom-product-origin" in done.stdout
            and "5 axioms, 38 entities" in done.stdout
        )

    def test_axioms_are_stored_and_an_error_exits_with_1(self, db, tmp_path):
        path = write_file(
            tmp_path,
            "r.yaml",
            "- id: cheap\n  target_type: Product\n"
            "  rules: [{property: price_usd, constraint: range, max: 300}]\n- id: bad\n",
        )
        done = CliRunner().invoke(cli, ["axioms", str(path), "--space", "shared", "--json", *db])
        assert done.exit_code == 0 and json.loads(done.stdout)["skipped"] == [
            {"where": f"{path}:4", "what": "bad", "why": "target_type is missing"}
        ]
        done = CliRunner().invoke(cli, ["check", "--space", "shared", "--json", *db])
        answer = json.loads(done.stdout)
        assert (
            done.exit_code,
            answer["ok"],
            answer["violations"][0]["id"],
            answer["violations"][0]["severity"],
        ) == (1, False, "kestrel-2-tent", "error")

    def test_a_file_without_valid_axioms_exits_with_1(self, db, tmp_path):
        assert (
            CliRunner()
            .invoke(
                cli,
                ["axioms", str(write_file(tmp_path, "r.yaml", "- id: bad\n")), "--space", "s", *db],
            )
            .exit_code
            == 1
        )


def test_changed_rules_are_not_served_from_the_cache():
    def read_with(value: object, **fields: Any) -> parsing.Axiom:
        return parsing.axiom_from_item(
            replace(
                Item("a", "s", Kind.RULE, subject="T", properties={"rules": [_equal(value)]}),
                **fields,
            )
        )

    assert [type(read_with(value).rules[0].value) for value in (1, True, 1.0, "1")] == [
        int,
        bool,
        float,
        str,
    ]
    assert (
        read_with(1) == read_with(1)
        and read_with(1, text="x").description == "x"
        and read_with(1, space="z").space == "z"
    )
    assert (
        read_with(1, subject="U").target_type == "U"
        and read_with(1, title="N").name == "N"
        and read_with(1, tags=("t",)).tags == ("t",)
    )


def test_axioms_read_twice_share_no_list():
    item = Item("a", "s", Kind.RULE, subject="T", properties={"rules": [_equal(["x"])]})
    first, other = (
        parsing.axiom_from_item(replace(item, properties={"rules": [_equal(["x"])]})).rules[0].value
        for _ in range(2)
    )
    assert first == other and first is not other


def _equal(value: object) -> dict[str, object]:
    return {"property": "p", "constraint": "equals", "value": value}
