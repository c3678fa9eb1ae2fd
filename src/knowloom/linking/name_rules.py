"""Rules for edges by name: mentions, refers_to, shares, foreign_key, computed from the name index.

For all items at once `name_edges.build_name_edges` gives the same edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from knowloom.linking.name_labels import (
    ADDRESS,
    HEADING,
    MENTION,
    NAME,
    REFERENCE,
    SPAN,
    select_values,
)
from knowloom.linking.name_weights import (
    FOREIGN_KEY,
    MAX_ADDRESSEES,
    MAX_HEADING_HOLDERS,
    MAX_HOLDERS,
    MAX_MENTIONS,
    MAX_REFERRERS,
    MAX_SHARING,
    MENTIONS,
    REFERS_TO,
    SHARES,
    is_linkable,
    mention_weight,
    shared_name_weight,
)
from knowloom.linking.places import (
    ADDRESS_PLACES,
    MENTION_PLACES,
    NAME_PLACES,
    REFERENCE_PLACES,
    SPAN_PLACES,
)
from knowloom.linking.ports import LinkStore

RoleValues = Mapping[str, Sequence[str]]
"""The values of an item's labels, by role."""

WeightedName = tuple[float, str]
"""The weight of an edge, and the name that it is made by."""


class LabelHolders:
    """The items indexed under the labels that matter for a page, read from the store once."""

    def __init__(self, store: LinkStore, space: str) -> None:
        self._store, self._space = store, space
        self._holders: dict[str, Sequence[str]] = {}

    def load(self, role: str, values: Iterable[str], limit: int) -> None:
        """Read the holders of each label, at most `limit` + 1."""
        labels = [f"{role}{value}" for value in dict.fromkeys(values)]
        self._holders.update(dict.fromkeys(labels, ()))
        self._holders.update(self._store.label_holders(self._space, labels, limit + 1))

    def get(self, role: str, value: str) -> Sequence[str]:
        return self._holders[f"{role}{value}"]


@dataclass(frozen=True, slots=True)
class NameRule:
    """A type of edges by name.

    `load` reads the holders that the labels of some items need; `propose` yields the links of one
    item as (target, weight and name). `version` is raised whenever the edges would change.
    `source_places` and `target_places` are the roles of the places of names at both ends; "" for a
    rule whose edges are not between passages.
    """

    type: str
    load: Callable[[LabelHolders, Sequence[RoleValues]], None]
    propose: Callable[[LabelHolders, str, RoleValues], Iterator[tuple[str, WeightedName]]]
    version: int
    source_places: str = ""
    target_places: str = ""

    def compute_links(
        self, store: LinkStore, space: str, entries: Mapping[str, RoleValues]
    ) -> dict[tuple[str, str], list[WeightedName]]:
        """Return the links of each (source, target): at least one, the heaviest first.

        Ties are ordered by name. A target may have been deleted.
        """
        holders = LabelHolders(store, space)
        self.load(holders, list(entries.values()))
        links: dict[tuple[str, str], list[WeightedName]] = {}
        for source, values in entries.items():
            for target, link in self.propose(holders, source, values):
                if target != source:
                    links.setdefault((source, target), []).append(link)
        for names in links.values():
            if len(names) > 1:
                names.sort(key=lambda link: (-link[0], link[1]))
        return links


def _load_mentions(holders: LabelHolders, entries: Sequence[RoleValues]) -> None:
    names = list(dict.fromkeys(name for values in entries for name in values.get(MENTION, ())))
    holders.load(NAME, names, MAX_HOLDERS)
    holders.load(HEADING, names, MAX_HEADING_HOLDERS)
    holders.load(MENTION, names, MAX_MENTIONS)


def _propose_mentions(
    holders: LabelHolders, _: str, values: RoleValues
) -> Iterator[tuple[str, WeightedName]]:
    for name in values.get(MENTION, ()):
        headings, texts = holders.get(HEADING, name), holders.get(MENTION, name)
        recurs = len(headings) > MAX_HEADING_HOLDERS
        targets = [*holders.get(NAME, name), *(() if recurs else headings)]
        if targets and is_linkable(len(targets), len(texts)):
            link = (mention_weight(len(targets), len(texts)), name)
            yield from [(target, link) for target in targets]


def _load_spans(holders: LabelHolders, entries: Sequence[RoleValues]) -> None:
    names = list(dict.fromkeys(name for values in entries for name in values.get(SPAN, ())))
    holders.load(SPAN, names, MAX_SHARING)
    shared = [name for name in names if 2 <= len(holders.get(SPAN, name)) <= MAX_SHARING]
    holders.load(NAME, shared, 0)
    holders.load(HEADING, shared, 0)


def _propose_shares(
    holders: LabelHolders, source: str, values: RoleValues
) -> Iterator[tuple[str, WeightedName]]:
    for name in values.get(SPAN, ()):
        texts = holders.get(SPAN, name)
        is_shared = 2 <= len(texts) <= MAX_SHARING
        if is_shared and not (holders.get(NAME, name) or holders.get(HEADING, name)):
            link = (shared_name_weight(len(texts)), name)
            yield from [(target, link) for target in texts if target > source]


def _reference_rule(
    type: str, version: int, source_places: str = "", target_places: str = ""
) -> NameRule:
    prefix = f"{type} "
    role = f"{REFERENCE}{prefix}"

    def load(holders: LabelHolders, entries: Sequence[RoleValues]) -> None:
        addresses = dict.fromkeys(
            address
            for values in entries
            for address in select_values(prefix, values.get(REFERENCE, ()))
        )
        holders.load(role, addresses, MAX_REFERRERS)
        holders.load(ADDRESS, addresses, MAX_ADDRESSEES - 1)

    def propose(
        holders: LabelHolders, _: str, values: RoleValues
    ) -> Iterator[tuple[str, WeightedName]]:
        for address in select_values(prefix, values.get(REFERENCE, ())):
            if len(holders.get(role, address)) <= MAX_REFERRERS:
                yield from ((target, (1.0, address)) for target in holders.get(ADDRESS, address))

    return NameRule(type, load, propose, version, source_places, target_places)


NAME_RULES = (
    NameRule(MENTIONS, _load_mentions, _propose_mentions, 6, MENTION_PLACES, NAME_PLACES),
    _reference_rule(REFERS_TO, 3, REFERENCE_PLACES, ADDRESS_PLACES),
    NameRule(SHARES, _load_spans, _propose_shares, 4, SPAN_PLACES, SPAN_PLACES),
    _reference_rule(FOREIGN_KEY, 2),
)
