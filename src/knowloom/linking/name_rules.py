"""Links by names, of some items, from the index of names alone: what `links.links` makes of all items, each type on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from knowloom.linking.name_edges import (
    FOREIGN_KEY,
    MAX_ADDRESSED,
    MAX_HOLDERS,
    MAX_MENTIONS,
    MAX_REFERRING,
    MAX_SHARING,
    REFERS,
    SHARES,
    closeness,
    leads,
    strength,
)
from knowloom.linking.name_edges import MENTIONS as MENTIONING
from knowloom.linking.name_index import AT, CALLED, MENTIONS, REFERS_TO, SPAN, of
from knowloom.ports import LinkStore

Told = Mapping[str, Sequence[str]]  # what an item is entered under, by role
Link = tuple[float, str]  # what a link weighs, and the name it is made by


class Groups:
    """Who is entered under the labels that matter, read once for a page."""

    def __init__(self, store: LinkStore, space: str) -> None:
        self._store, self._space = store, space
        self._held: dict[str, Sequence[str]] = {}

    def read(self, role: str, names: Iterable[str], most: int) -> None:
        """All under each name, unless they are more than `most`: then one more than that."""
        asked = [f"{role}{name}" for name in dict.fromkeys(names)]
        self._held.update(dict.fromkeys(asked, ()))
        self._held.update(self._store.under(self._space, asked, most + 1))

    def under(self, role: str, name: str) -> Sequence[str]:
        return self._held[f"{role}{name}"]


@dataclass(frozen=True, slots=True)
class ByName:
    """A type of link by names: which groups it needs of an item's labels, and the links of the item, by target."""

    type: str
    needs: Callable[[Groups, Sequence[Told]], None]
    links: Callable[[Groups, str, Told], Iterator[tuple[str, Link]]]
    version: int = 1

    def wanted(
        self, store: LinkStore, space: str, entered: Mapping[str, Told]
    ) -> dict[tuple[str, str], Link]:
        """(source, target) -> the heaviest link, of equal ones that by the first name. A target may be gone."""
        groups = Groups(store, space)
        self.needs(groups, list(entered.values()))
        best: dict[tuple[str, str], Link] = {}
        for source, held in entered.items():
            for target, link in self.links(groups, source, held):
                known = best.get((source, target))
                if target != source and (
                    known is None or (-link[0], link[1]) < (-known[0], known[1])
                ):
                    best[source, target] = link
        return best


def _need_mentions(groups: Groups, entered: Sequence[Told]) -> None:
    names = list(dict.fromkeys(name for told in entered for name in told.get(MENTIONS, ())))
    groups.read(CALLED, names, MAX_HOLDERS)
    groups.read(MENTIONS, names, MAX_MENTIONS)


def _mentions(groups: Groups, _: str, told: Told) -> Iterator[tuple[str, Link]]:
    for name in told.get(MENTIONS, ()):
        holders, texts = groups.under(CALLED, name), groups.under(MENTIONS, name)
        if holders and leads(len(holders), len(texts)):
            link = (strength(len(holders), len(texts)), name)
            yield from [(target, link) for target in holders]


def _need_spans(groups: Groups, entered: Sequence[Told]) -> None:
    names = list(dict.fromkeys(name for told in entered for name in told.get(SPAN, ())))
    groups.read(SPAN, names, MAX_SHARING)
    groups.read(
        CALLED, [name for name in names if 2 <= len(groups.under(SPAN, name)) <= MAX_SHARING], 0
    )


def _shares(groups: Groups, source: str, told: Told) -> Iterator[tuple[str, Link]]:
    for name in told.get(SPAN, ()):
        texts = groups.under(SPAN, name)
        if 2 <= len(texts) <= MAX_SHARING and not groups.under(CALLED, name):
            link = (closeness(len(texts)), name)
            yield from [(target, link) for target in texts if target > source]


def _referring(type: str) -> ByName:
    own = f"{type} "
    role = f"{REFERS_TO}{own}"

    def needs(groups: Groups, entered: Sequence[Told]) -> None:
        addresses = list(
            dict.fromkeys(
                address for told in entered for address in of(own, told.get(REFERS_TO, ()))
            )
        )
        groups.read(role, addresses, MAX_REFERRING)
        groups.read(AT, addresses, MAX_ADDRESSED - 1)

    def links(groups: Groups, _: str, told: Told) -> Iterator[tuple[str, Link]]:
        for address in of(own, told.get(REFERS_TO, ())):
            if len(groups.under(role, address)) <= MAX_REFERRING:
                yield from ((target, (1.0, address)) for target in groups.under(AT, address))

    return ByName(type, needs, links, version=2)


BY_NAME = (
    ByName(MENTIONING, _need_mentions, _mentions, version=4),
    _referring(REFERS),
    ByName(SHARES, _need_spans, _shares, version=2),
    _referring(FOREIGN_KEY),
)
