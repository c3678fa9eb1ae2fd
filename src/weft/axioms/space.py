"""Checks all that a space holds against its axioms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from weft.axioms import read
from weft.axioms.judge import Judge, contradictions
from weft.axioms.values import FACTS, Axiom, Violation, relationship_fact
from weft.model import Edge, Filter, Item, Key, Kind
from weft.ports import Stores

PAGE = 1000


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


def usable(rules: Iterable[Item]) -> tuple[list[Axiom], list[tuple[str, str, str]]]:
    """The axioms in these items of kind rule, and what is wrong with those that are none. Rules of words alone are axioms
    without rules."""
    found: list[Axiom] = []
    wrong: list[tuple[str, str, str]] = []
    for item in rules:
        if not item.subject and "rules" not in item.properties:
            continue  # words that hold for everything
        try:
            found.append(read.from_item(item))
        except read.Wrong as error:
            wrong.append((item.space, item.id, str(error)))
    return found, wrong


def checked(spaces: Sequence[str], stores: Stores) -> Checked:
    """Every entity, relationship and claim of each space against the axioms of that space. Spaces do not see each other."""
    violations: list[Violation] = []
    counts = {"axioms": 0, "entities": 0, "relationships": 0, "claims": 0}
    unusable: list[tuple[str, str, str]] = []
    for space in spaces:
        axioms, wrong = usable(_items(space, Kind.RULE, stores))
        unusable += wrong
        counts["axioms"] += len(axioms)
        judge = Judge(axioms, lambda keys: {item.key for item in stores.items.get(keys)})
        for kind, name in ((Kind.ENTITY, "entities"), (Kind.CLAIM, "claims")):
            for page in _pages(space, kind, stores):
                counts[name] += len(page)
                violations += judge.violations([FACTS[kind](item) for item in page])
        for edges in _edge_pages(space, stores):
            counts["relationships"] += len(edges)
            violations += judge.violations([relationship_fact(edge) for edge in edges])
        violations += contradictions(_items(space, Kind.CLAIM, stores))
    return Checked(
        tuple(sorted(violations, key=lambda one: one.order)), **counts, unusable=tuple(unusable)
    )


def _items(space: str, kind: Kind, stores: Stores) -> Iterator[Item]:
    for page in _pages(space, kind, stores):
        yield from page


def _pages(space: str, kind: Kind, stores: Stores) -> Iterator[list[Item]]:
    after: Key | None = None
    while page := stores.items.find(Filter((space,), (kind,)), PAGE, after):
        yield page
        after = page[-1].key


def _edge_pages(space: str, stores: Stores) -> Iterator[list[Edge]]:
    """What people said, not what weft noticed; a weight of 0 forbids a link."""
    after: Edge | None = None
    while page := stores.graph.edges([space], PAGE, after, made=False):
        yield [edge for edge in page if edge.weight > 0]
        after = page[-1]
