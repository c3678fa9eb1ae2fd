"""Axioms, violations and checks of a space as JSON, and back."""

from __future__ import annotations

from dataclasses import asdict

from knowloom.axioms.checker import Checked
from knowloom.axioms.model import Axiom, AxiomRule, Condition, Violation
from knowloom.wire import JsonObject

COUNTS = ("axioms", "entities", "relationships", "claims")


def check_to_json(check: Checked) -> JsonObject:
    return {
        "ok": check.ok,
        "violations": [violation_to_json(violation) for violation in check.violations],
        "unusable": [{"space": space, "id": id, "why": why} for space, id, why in check.unusable],
        "axioms": check.axioms,
        "entities": check.entities,
        "relationships": check.relationships,
        "claims": check.claims,
    }


def check_from_json(row: JsonObject) -> Checked:
    return Checked(
        tuple(violation_from_json(violation) for violation in row["violations"]),
        **{name: row[name] for name in COUNTS},
        unusable=tuple((rule["space"], rule["id"], rule["why"]) for rule in row["unusable"]),
    )


def violation_to_json(violation: Violation) -> JsonObject:
    return {
        "severity": violation.severity,
        "kind": violation.kind,
        "space": violation.space,
        "id": violation.id,
        "name": violation.name,
        "axiom": violation.axiom,
        "axiom_name": violation.axiom_name,
        "constraint": violation.constraint,
        "properties": list(violation.properties),
        "message": violation.message,
        "others": list(violation.others),
    }


def violation_from_json(row: JsonObject) -> Violation:
    lists = {name: tuple(row[name]) for name in ("properties", "others")}
    return Violation(**row | lists)


def axiom_to_json(axiom: Axiom) -> JsonObject:
    return {
        "id": axiom.id,
        "space": axiom.space,
        "name": axiom.name,
        "description": axiom.description,
        "target_kind": axiom.target_kind,
        "target_type": axiom.target_type,
        "severity": axiom.severity,
        "category": axiom.category,
        "tags": list(axiom.tags),
        "enabled": axiom.enabled,
        "rules": [
            asdict(rule) | {"properties": list(rule.properties), "values": list(rule.values)}
            for rule in axiom.rules
        ],
    }


def axiom_from_json(row: JsonObject) -> Axiom:
    rules = tuple(_rule_from_json(rule) for rule in row["rules"])
    return Axiom(**row | {"tags": tuple(row["tags"]), "rules": rules})


def _rule_from_json(row: JsonObject) -> AxiomRule:
    lists = {name: tuple(row[name]) for name in ("properties", "values")}
    when = None if row["when"] is None else Condition(**row["when"])
    return AxiomRule(**row | lists | {"when": when})
