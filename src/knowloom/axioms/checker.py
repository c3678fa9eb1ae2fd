"""Facts against axioms: what is violated, and which claims contradict each other. Pure: what else exists comes in as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowloom import codec
from knowloom.axioms import parsing
from knowloom.axioms.constraints import (
    CHECKED_WHEN_ABSENT,
    FACT_CHECKS,
    VALUE_CHECKS,
    abbreviate,
    as_list,
    condition_holds,
    has_value,
)
from knowloom.axioms.model import (
    CONTRADICTION,
    FACT_BUILDERS,
    Axiom,
    AxiomFact,
    AxiomRule,
    Violation,
    relationship_fact,
)
from knowloom.model import Edge, Filter, Item, Key, Kind
from knowloom.ports import Stores

KeyLookup = Callable[[Sequence[Key]], set[Key]]
"""Which of the keys are those of stored items: one call for all references of a check."""


class AxiomChecker:
    """Remembers what `unique` and `reference_exists` need, so that facts may come in any number of portions."""

    def __init__(self, axioms: Iterable[Axiom], exists: KeyLookup) -> None:
        self._axioms: dict[tuple[str, str, str], list[Axiom]] = {}
        for axiom in sorted(axioms, key=lambda one: (one.space, one.id)):
            if axiom.enabled and axiom.rules:
                self._axioms.setdefault(
                    (axiom.space, axiom.target_kind, axiom.target_type), []
                ).append(axiom)
        self._exists = exists
        self._spaces = sorted({space for space, _, _ in self._axioms})
        self._first: dict[
            tuple[str, int, str, str], str
        ] = {}  # axiom, rule, property, value -> the id that had it first

    def violations(self, facts: Iterable[AxiomFact], spaces: Sequence[str] = ()) -> list[Violation]:
        """What is wrong with these facts, the worst first. An axiom of one space holds in all `spaces` that are asked about
        together (none: in its own space alone)."""
        found: list[Violation] = []
        references: list[tuple[AxiomFact, Axiom, AxiomRule, str, Any]] = []
        holding: dict[tuple[str, str, tuple[str, ...]], list[Axiom]] = {}
        for fact in facts:
            about = (fact.space, fact.kind, fact.types)
            if about not in holding:
                holding[about] = self._of(fact, spaces)
            for axiom in holding[about]:
                for number, rule in enumerate(axiom.rules):
                    if rule.when is not None and not condition_holds(rule.when, fact.values):
                        continue
                    if rule.constraint == "reference_exists":
                        references += [
                            (fact, axiom, rule, name, one)
                            for name in rule.properties
                            for one in _present_values(fact, name)
                        ]
                    elif rule.constraint == "unique":
                        found += self._repeated(fact, axiom, number, rule)
                    else:
                        found += [
                            _make_violation(fact, axiom, rule, said, names)
                            for names, said in _find_breaches(rule, fact.values)
                        ]
        return sorted([*found, *self._dangling(references, spaces)], key=lambda one: one.order)

    def _of(self, fact: AxiomFact, spaces: Sequence[str]) -> list[Axiom]:
        places = dict.fromkeys((fact.space, *(space for space in self._spaces if space in spaces)))
        return [
            axiom
            for place in places
            for type in fact.types
            for axiom in self._axioms.get((place, fact.kind, type), ())
        ]

    def _repeated(
        self, fact: AxiomFact, axiom: Axiom, number: int, rule: AxiomRule
    ) -> Iterable[Violation]:
        for name in rule.properties:
            for value in _present_values(fact, name):
                place = (
                    f"{axiom.space}\n{axiom.id}\n{fact.space}",
                    number,
                    name,
                    _canonical(value),
                )
                first = self._first.setdefault(place, fact.id)
                if first != fact.id:
                    yield _make_violation(
                        fact,
                        axiom,
                        rule,
                        f"{name} is {abbreviate(value)}, as it is of {first!r}: it must be unique",
                        (name,),
                        (first,),
                    )

    def _dangling(
        self,
        references: Sequence[tuple[AxiomFact, Axiom, AxiomRule, str, Any]],
        spaces: Sequence[str],
    ) -> Iterable[Violation]:
        asked = {
            (space, str(value))
            for fact, _, _, _, value in references
            for space in _candidate_spaces(fact, spaces)
        }
        stored = self._exists(sorted(asked)) if asked else set()
        for fact, axiom, rule, name, value in references:
            if not any((space, str(value)) in stored for space in _candidate_spaces(fact, spaces)):
                yield _make_violation(
                    fact,
                    axiom,
                    rule,
                    f"{name} is {abbreviate(value)}, and there is no such item",
                    (name,),
                )


def find_contradictions(claims: Iterable[Item]) -> list[Violation]:
    """Claims of the same subject and predicate with different objects, all of them active. One violation for each such group."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for claim in claims:
        if (
            claim.subject
            and claim.properties.get("predicate")
            and claim.properties.get("active", True) is not False
        ):
            groups.setdefault(
                (claim.space, claim.subject, str(claim.properties["predicate"])), []
            ).append(claim)
    found = []
    for (space, subject, predicate), members in sorted(groups.items()):
        if len({_canonical(one.properties.get("object")) for one in members}) < 2:
            continue
        first, *others = sorted(members, key=lambda one: (-(one.confidence or 0.0), one.id))
        said = "; ".join(
            f"{abbreviate(one.properties.get('object'))} ({one.id})" for one in (first, *others)
        )
        ids = tuple(one.id for one in others)
        message = f"claims about {subject} disagree on {predicate}: {said}"
        found.append(
            Violation(
                "warning",
                "claim",
                space,
                first.id,
                first.name,
                CONTRADICTION,
                message,
                (predicate,),
                others=ids,
            )
        )
    return sorted(found, key=lambda one: one.order)


def _candidate_spaces(fact: AxiomFact, spaces: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((fact.space, *spaces)))


def _present_values(fact: AxiomFact, name: str) -> list[Any]:
    return [one for one in as_list(fact.values.get(name)) if has_value(one)]


def _find_breaches(rule: AxiomRule, values: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    if rule.constraint in FACT_CHECKS:
        said = FACT_CHECKS[rule.constraint](values, rule)
        return [(rule.properties, said)] if said else []
    check, absent_too = VALUE_CHECKS[rule.constraint], rule.constraint in CHECKED_WHEN_ABSENT
    found: list[tuple[tuple[str, ...], str]] = []
    for name in rule.properties:
        value = values.get(name)
        if (absent_too or has_value(value)) and (said := check(value, rule)):
            found.append(((name,), f"{name} {said}"))
    return found


def _make_violation(
    fact: AxiomFact,
    axiom: Axiom,
    rule: AxiomRule,
    said: str,
    names: tuple[str, ...],
    others: tuple[str, ...] = (),
) -> Violation:
    message = f"{rule.message} ({said})" if rule.message else said
    return Violation(
        axiom.severity,
        fact.kind,
        fact.space,
        fact.id,
        fact.name,
        rule.constraint,
        message,
        names,
        axiom.id,
        axiom.name,
        others,
    )


def _canonical(value: Any) -> str:
    """Equal for what JSON calls equal: 60 is 60.0."""
    return codec.to_json(_normalise(value))


def _normalise(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normalise(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_normalise(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found. `unusable` are rules whose definition is wrong, with what is wrong: they were not checked."""

    violations: tuple[Violation, ...]
    axioms: int = 0
    entities: int = 0
    relationships: int = 0
    claims: int = 0
    unusable: tuple[tuple[str, str, str], ...] = ()  # space, id, what is wrong

    @property
    def ok(self) -> bool:
        """Nothing of the severity `error`, and every rule could be checked."""
        return not self.unusable and not any(one.severity == "error" for one in self.violations)


def parse_rules(rules: Iterable[Item]) -> tuple[list[Axiom], list[tuple[str, str, str]]]:
    """The axioms in these items of kind rule, and what is wrong with those that are none. Rules of words alone are axioms
    without rules."""
    found: list[Axiom] = []
    wrong: list[tuple[str, str, str]] = []
    for item in rules:
        if not item.subject and "rules" not in item.properties:
            continue  # words that hold for everything
        try:
            found.append(parsing.axiom_from_item(item))
        except parsing.InvalidAxiom as error:
            wrong.append((item.space, item.id, str(error)))
    return found, wrong


def check_spaces(spaces: Sequence[str], stores: Stores) -> Checked:
    """Every entity, relationship and claim of each space against the axioms of that space. Spaces do not see each other."""
    violations: list[Violation] = []
    counts = {"axioms": 0, "entities": 0, "relationships": 0, "claims": 0}
    unusable: list[tuple[str, str, str]] = []
    for space in spaces:
        axioms, wrong = parse_rules(_iterate_items(space, Kind.RULE, stores))
        unusable += wrong
        counts["axioms"] += len(axioms)
        judge = AxiomChecker(axioms, lambda keys: {item.key for item in stores.items.get(keys)})
        for kind, name in ((Kind.ENTITY, "entities"), (Kind.CLAIM, "claims")):
            for page in _item_pages(space, kind, stores):
                counts[name] += len(page)
                violations += judge.violations([FACT_BUILDERS[kind](item) for item in page])
        for edges in _edge_pages(space, stores):
            counts["relationships"] += len(edges)
            violations += judge.violations([relationship_fact(edge) for edge in edges])
        violations += find_contradictions(_iterate_items(space, Kind.CLAIM, stores))
    return Checked(
        tuple(sorted(violations, key=lambda one: one.order)), **counts, unusable=tuple(unusable)
    )


def _iterate_items(space: str, kind: Kind, stores: Stores) -> Iterator[Item]:
    for page in _item_pages(space, kind, stores):
        yield from page


def _item_pages(space: str, kind: Kind, stores: Stores) -> Iterator[list[Item]]:
    after: Key | None = None
    while page := stores.items.find(Filter((space,), (kind,)), PAGE_SIZE, after):
        yield page
        after = page[-1].key


def _edge_pages(space: str, stores: Stores) -> Iterator[list[Edge]]:
    """What people said, not what knowloom noticed; a weight of 0 forbids a link."""
    after: Edge | None = None
    while page := stores.graph.edges([space], PAGE_SIZE, after, made=False):
        yield [edge for edge in page if edge.weight > 0]
        after = page[-1]
