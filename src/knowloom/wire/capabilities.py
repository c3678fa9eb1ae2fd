"""Answers of capabilities back from plain dicts to values. The dicts are trusted to be what a server of knowloom wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowloom.axioms.checker import Checked
from knowloom.axioms.model import Axiom, Condition, Rule, Violation
from knowloom.capabilities.assembler.model import Assembly, StrategyReport
from knowloom.capabilities.graph.model import GraphAnswer, GraphEntity, Relationship
from knowloom.capabilities.provider.model import Provision, Relation, Retrieval, Unshown
from knowloom.model import Edge, Form, Hit, Item, Kind, LeftOut, Problem, Stats
from knowloom.wire import decoding

Row = Mapping[str, Any]


def graph(row: Row) -> GraphAnswer:
    """Of what was left out the names alone."""
    return GraphAnswer(
        text=row["text"],
        tokens=row["tokens"],
        query=row["query"],
        entities=tuple(_entity(one) for one in row["entities"]),
        relationships=tuple(
            Relationship(decoding.edge(one["edge"]), one["from"], one["to"], one["score"])
            for one in row["relationships"]
        ),
        axioms=tuple(_axiom(one) for one in row["axioms"]),
        claims=tuple(_claim(one) for one in row["claims"]),
        truncated=row["truncated"],
        violations=tuple(_violation(one) for one in row["violations"]),
        left_out=tuple(_left_out(one) for one in row["left_out"]),
        degraded=_problems(row),
        digest=row["digest"],
        stats=Stats(**row["stats"], timings=dict(row.get("timings_ms", {}))),
    )


def assembly(row: Row) -> Assembly:
    items = {one.key: one for one in map(decoding.item, row["items"])}
    return Assembly(
        text=row["text"],
        tokens=row["tokens"],
        strategies=tuple(
            StrategyReport(**{**one, "reasons": tuple(one["reasons"])}) for one in row["strategies"]
        ),
        fragments=tuple(decoding.fragment(one, items) for one in row["fragments"]),
        left_out=tuple(
            LeftOut(Hit(Item(one["id"], ""), 0.0), one["strategy"], one["reason"], one["tokens"])
            for one in row["left_out"]
        ),
        degraded=_problems(row),
        token_counter=row["token_counter"],
        optimality_gap=row["optimality_gap"],
        timings=dict(row["timings_ms"]),
    )


def provision(query: str, row: Row) -> Provision:
    pieces = tuple(_piece(one) for one in row["pieces"])
    relations = tuple(_relation(one) for one in row["graph_context"])
    found = Retrieval(
        query, row["entity_id"], pieces=pieces, graph_context=relations, degraded=_problems(row)
    )
    left_out = tuple(Unshown(**one) for one in row["left_out"])
    return Provision(
        dict(row["sections"]), row["tokens"], row["token_counter"], found, left_out, _problems(row)
    )


def checked(row: Row) -> Checked:
    counts = {name: row[name] for name in ("axioms", "entities", "relationships", "claims")}
    unusable = tuple((one["space"], one["id"], one["why"]) for one in row["unusable"])
    return Checked(tuple(_violation(one) for one in row["violations"]), **counts, unusable=unusable)


def _entity(row: Row) -> GraphEntity:
    hit = decoding.hit(row, decoding.item(row["item"]))
    return GraphEntity(
        hit,
        tuple(row["matched_terms"]),
        Form(row["form"]),
        row["tokens"],
        tuple(row["shown_properties"]),
    )


def _axiom(row: Row) -> Axiom:
    return Axiom(
        **{**row, "tags": tuple(row["tags"]), "rules": tuple(_rule(one) for one in row["rules"])}
    )


def _rule(row: Row) -> Rule:
    when = None if row["when"] is None else Condition(**row["when"])
    return Rule(
        **{
            **row,
            "properties": tuple(row["properties"]),
            "values": tuple(row["values"]),
            "when": when,
        }
    )


def _claim(row: Row) -> Hit:
    item = decoding.item(row["item"])
    return Hit(item, row["score"], dict(row["signals"]), ("subject",), (item.key,))


def _violation(row: Row) -> Violation:
    return Violation(
        **{**row, "properties": tuple(row["properties"]), "others": tuple(row["others"])}
    )


def _left_out(row: Row) -> LeftOut:
    item = Item(
        row["id"],
        row["space"],
        Kind(row["kind"]),
        row["type"],
        row["title"],
        section=row["section"],
    )
    return LeftOut(
        decoding.hit(row, item), row["fragment"], row["reason"], row["tokens"], row["remedy"]
    )


def _piece(row: Row) -> Hit:
    item = Item(row["id"], row["space"], type=row["type"], section=row["section"])
    return Hit(item, row["score"], {}, tuple(row["found_by"]), (item.key,))


def _relation(row: Row) -> Relation:
    """The server does not tell spaces of links; the weight is what makes its score."""
    edge = Edge(
        row["source"],
        row["target"],
        row["type"],
        round(row["score"] * row["depth"], 6),
        item_id=row["piece_id"],
    )
    return Relation(
        edge, row["depth"], row["score"], Item(row["source"], ""), Item(row["target"], "")
    )


def _problems(row: Row) -> tuple[Problem, ...]:
    return tuple(Problem(one["part"], one["reason"], one["code"]) for one in row["degraded"])
