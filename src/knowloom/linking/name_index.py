"""The index of names kept true: what a change of some items does to it, whose texts must be read again, whose links are out of date.

Three steps, each one write: items are entered under what can be told from them alone (`enter`); then under what their texts mention,
as then all names are known (`mention`); then links are made (`byname.py`). A step says who is concerned beyond the items it is about. Nobody
is, where so many share a label that it links nobody, before and after: so no change costs more than the caps allow, however large the space.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple

from knowloom.linking.name_edges import (
    FOREIGN_KEY,
    MAX_ADDRESSED,
    MAX_HOLDERS,
    MAX_MENTIONS,
    MAX_REFERRING,
    MAX_SAYING,
    MAX_SHARING,
    NOTHING,
    REFERS,
    addresses,
    called_by,
    references,
    shared,
)
from knowloom.linking.name_finders import Named, label
from knowloom.linking.name_keys import Runs, Text, key_of, mentioned
from knowloom.linking.unspaced_scripts import Places, beginnings, grown
from knowloom.model import Item
from knowloom.ports import LinkStore
from knowloom.text.mentions import folded, holds_one

Entries = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Concerned:
    """What a step asks for: the entries that change, the items whose texts must be read again, those whose links are out of date."""

    entered: dict[str, tuple[str, ...]]
    marked: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)


class Move(NamedTuple):
    """Who is entered under a label before and after a step; both None when they are more than matter, before and after."""

    before: set[str] | None
    after: set[str] | None

    def within(self, most: int) -> set[str]:
        """All concerned, if before or after no more than `most` are."""
        if (
            self.before is None
            or self.after is None
            or min(len(self.before), len(self.after)) > most
        ):
            return set()
        return self.before | self.after

    def crosses(self, most: int) -> bool:
        return (
            self.before is not None
            and self.after is not None
            and (len(self.before) > most) != (len(self.after) > most)
        )


class Read(NamedTuple):
    """An item and its text, as it was read, with what a finder of names found in it, if there is one."""

    item: Item
    text: Text
    named: Named | None = None


def enter(store: LinkStore, space: str, ids: Sequence[str], items: Mapping[str, Read]) -> Concerned:
    """Enter changed items under the labels they have by themselves; those that are gone, under none."""
    old = store.entries(space, ids)
    new = {
        id: (*_mentions(old.get(id, ())), *labels(*items[id])) if id in items else () for id in ids
    }
    moves = Moves(store, space, old, new)
    concerned = Concerned(moves.changed)
    _names_changed(moves, concerned)
    concerned.marked |= moves.turned(
        MAX_SAYING
    )  # names are looked for only if not too many texts have their key
    concerned.stale |= moves.under(SPAN, moves.names(SPAN), MAX_SHARING)
    concerned.stale |= moves.under(MENTIONS, moves.names(MENTIONS), MAX_MENTIONS)
    _addresses_changed(moves, concerned)
    concerned.marked.difference_update(ids)
    return concerned


def mention(store: LinkStore, space: str, items: Mapping[str, Read]) -> Concerned:
    """Enter items, which are entered as they are now, under the names their texts mention. Their links are out of date in any case."""
    old = store.entries(space, list(items))
    alone = {id: old.get(id, ())[len(_mentions(old.get(id, ()))) :] for id in items}
    found = _mentioned(store, space, {id: read.text for id, read in items.items()})
    moves = Moves(
        store,
        space,
        old,
        {id: (*[f"{MENTIONS}{name}" for name in found[id]], *alone[id]) for id in items},
    )
    concerned = Concerned(moves.changed, stale=set(items))
    concerned.stale |= moves.under(MENTIONS, moves.names(MENTIONS), MAX_MENTIONS)
    return concerned


def _mentions(entered: tuple[str, ...]) -> list[str]:
    """The labels of names that a text mentions: they come first."""
    return list(takewhile(lambda label: label.startswith(MENTIONS), entered))


class Moves:
    """Which labels gain or lose items in a step. Of the keys in texts, which are most of them, it is only counted how many."""

    def __init__(self, store: LinkStore, space: str, old: Entries, new: Entries) -> None:
        self._store, self._space, self._size = store, space, len(new)
        self.changed = {id: entered for id, entered in new.items() if entered != old.get(id, ())}
        self._gained: dict[str, tuple[str, ...]] = {}
        self._lost: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, list[str]] = {}
        self._gains: Counter[str] = Counter()  # of the keys in texts: how many gain them
        self._losses: Counter[str] = Counter()
        for id, entered in self.changed.items():
            held = old.get(id, ())
            before, after = told(held), told(entered)
            for label in set(after).difference(before) if before else after:
                self._gained[label] = (*self._gained[label], id) if label in self._gained else (id,)
            for label in set(before).difference(after):
                self._lost[label] = (*self._lost.get(label, ()), id)
            says, said = entered[len(after) :], held[len(before) :]
            if says != said:
                self._gains.update(set(says).difference(said) if said else says)
                self._losses.update(set(said).difference(says))

    def turned(self, most: int) -> set[str]:
        """Who says a key that more than `most` say before or after, and not both; of the keys that names have."""
        says = self._gains.keys() | self._losses.keys()
        stored = self._store.under(
            self._space, [f"{KEY}{label[len(SAYS) :]}" for label in sorted(says)], 1
        )
        named = says.intersection([f"{SAYS}{one}" for one in (*of(KEY, stored), *self.names(KEY))])
        held = self._store.under(self._space, sorted(named), most + 1 + self._size)
        found: set[str] = set()
        for label in named:
            before = held.get(label, [])
            after = len(before) + self._gains[label] - self._losses[label]
            if (len(before) > most) != (after > most):
                found.update(before)
        return found

    def saying(self, names: Iterable[str], most: int) -> set[str]:
        """Whose texts may hold one of these names: who says its key, if not more than `most` do, before or after, and has all its words. Not
        those who wait to be read in any case."""
        by_key: dict[str, list[str]] = {}
        for name in names:
            by_key.setdefault(f"{SAYS}{key_of(name)}", []).append(name)
        stored = self._store.under(self._space, sorted(by_key), most + 1 + self._size)
        few = {label: ids for label, ids in stored.items() if len(ids) <= most + self._size}
        ids = sorted(set().union(*few.values()))
        waiting = self._store.marks(self._space, ids).before if ids else {}
        keys = [(self._space, id) for id in ids if id not in waiting]
        texts = {item.id: folded(item.text) for item in (self._store.get(keys) if keys else ())}
        return {
            id
            for label, ids in few.items()
            for id in ids
            if id in texts and holds_one(texts[id], by_key[label])
        }

    def names(self, role: str) -> list[str]:
        """Of a role: what gains or loses items."""
        if not self._names:
            for label in sorted(self._gained.keys() | self._lost.keys()):
                self._names.setdefault(label[: len(role)], []).append(label[len(role) :])
        return self._names.get(role, [])

    def of(self, role: str, most: int) -> dict[str, Move]:
        """The names of a role that gain or lose items, without it. One under which more than `most` are, and stay, says only that."""
        stored = self._stored(role, self.names(role), most + 1)
        return {
            name: self._move(f"{role}{name}", stored.get(f"{role}{name}", []), most)
            for name in self.names(role)
        }

    def under(self, role: str, names: Iterable[str], most: int) -> set[str]:
        """All who are entered under one of the names now, and who will be there with them; not of names under which more than `most` are,
        and stay. A name under which nobody is yet concerns nobody but the items of this step."""
        found: set[str] = set()
        for label, held in self._stored(role, names, most + 1).items():
            if label in self._lost:
                found |= self._move(label, held, most).within(most)
            elif len(held) <= most:
                found.update(held, self._gained.get(label, ()))
        return found

    def _stored(self, role: str, names: Iterable[str], most: int) -> dict[str, list[str]]:
        """Who is under the labels now: the first `most`, and of labels that lose items so many more that `most` of them stay."""
        labels = [f"{role}{name}" for name in names]
        losing = [label for label in labels if label in self._lost] if self._lost else []
        found = self._store.under(
            self._space, [label for label in labels if label not in self._lost], most
        )
        return (
            {**found, **self._store.under(self._space, losing, most + self._size)}
            if losing
            else found
        )

    def _move(self, label: str, held: Sequence[str], most: int) -> Move:
        lost = self._lost.get(label, ())
        if len(held) > most + (self._size if lost else 0):
            return Move(None, None)
        before = set(held)
        return Move(before, before.difference(lost).union(self._gained.get(label, ())))

    def first(self, role: str, most: int) -> list[str]:
        """The names whose first `most` items, by id, change."""
        stored = self._stored(role, self.names(role), most)
        changed = []
        for name in self.names(role):
            label = f"{role}{name}"
            before = stored.get(label, [])
            after = sorted(
                set(before).difference(self._lost.get(label, ())).union(self._gained.get(label, ()))
            )
            if before[:most] != after[:most]:
                changed.append(name)
        return changed


def _names_changed(moves: Moves, concerned: Concerned) -> None:
    """A name that appears or vanishes is to be looked for in texts, and ties those that share it no longer, or again; one that more or
    fewer items go by gives its links another weight."""
    called = moves.of(CALLED, MAX_HOLDERS)
    turned = [name for name, move in called.items() if bool(move.before) != bool(move.after)]
    concerned.marked |= moves.saying(turned, MAX_SAYING)
    concerned.stale |= moves.under(SPAN, turned, MAX_SHARING)
    recounted = [name for name, move in called.items() if move.within(MAX_HOLDERS)]
    concerned.stale |= moves.under(MENTIONS, recounted, MAX_MENTIONS)


def _addresses_changed(moves: Moves, concerned: Concerned) -> None:
    moved = moves.first(AT, MAX_ADDRESSED)
    concerned.stale |= moves.under(
        REFERS_TO,
        [f"{type} {address}" for address in moved for type in (REFERS, FOREIGN_KEY)],
        MAX_REFERRING,
    )
    for move in moves.of(REFERS_TO, MAX_REFERRING).values():
        if move.crosses(MAX_REFERRING):
            concerned.stale |= (move.before or set()) | (move.after or set())


def _mentioned(store: LinkStore, space: str, texts: Mapping[str, Text]) -> dict[str, list[str]]:
    """The names that each text mentions. Only where a key of a name stands are the runs of words asked for."""
    live = _live(store, space, sorted(set().union(*[text.keys for text in texts.values()])))
    places = {id: text.places(live) for id, text in texts.items()}
    runs = {id: text.runs(places[id][0], live) for id, text in texts.items()}
    known = _known(
        store,
        space,
        CALLED,
        set().union(*[lengths for held in runs.values() for _, lengths in held]),
    )
    for id, held in _at_signs(
        store, space, texts, {id: signs for id, (_, signs) in places.items() if signs}, live
    ).items():
        known.update(*held.values())
        runs[id] = sorted([*runs[id], *held.items()], key=itemgetter(0))
    return {id: mentioned(held, known) if held else [] for id, held in runs.items()}


def _at_signs(
    store: LinkStore, space: str, texts: Mapping[str, Text], places: Places, live: AbstractSet[str]
) -> dict[str, dict[int, Runs]]:
    return grown(
        texts,
        places,
        begun=lambda runs: _known(store, space, BEGINS, runs),
        called=lambda runs: _known(
            store, space, CALLED, {run for run in runs if key_of(run) in live}
        ),
    )


def _known(store: LinkStore, space: str, role: str, names: Iterable[str]) -> set[str]:
    """Those of the names that somebody is entered under."""
    return set(of(role, store.under(space, [f"{role}{name}" for name in sorted(names)], 1)))


def _live(store: LinkStore, space: str, keys: Sequence[str]) -> set[str]:
    """The keys that names have and not too many texts."""
    named = of(KEY, store.under(space, [f"{KEY}{one}" for one in keys], 1))
    saying = store.under(space, [f"{SAYS}{one}" for one in named], MAX_SAYING + 1)
    return {one for one in named if len(saying.get(f"{SAYS}{one}", ())) <= MAX_SAYING}


# What the first letters of a label say. MENTIONS alone depends on other items: on the names they go by.
CALLED, KEY, BEGINS, SAYS, SPAN, AT, REFERS_TO, MENTIONS = (
    "c:",
    "k:",
    "b:",
    "s:",
    "p:",
    "a:",
    "r:",
    "m:",
)


def labels(item: Item, text: Text, named: Named | None = None) -> tuple[str, ...]:
    """All that can be told from the item alone, each once; `text` is its text, `named` what a finder of names found in it. What that
    mentions is not told: it depends on the names of others. The keys in the text, which are many, come last."""
    called = called_by(item, named or NOTHING)
    found = [f"{CALLED}{name}" for name in called]
    found += dict.fromkeys(f"{KEY}{key_of(name)}" for name in called)
    found += dict.fromkeys(f"{BEGINS}{one}" for name in called for one in beginnings(name))
    found += [f"{SPAN}{name}" for name in shared(item, named or NOTHING)]
    found += [f"{AT}{address}" for address in addresses(item)]
    found += [f"{REFERS_TO}{type} {address}" for type, address in references(item)]
    found += [] if named is None else [label(item.text, named)]
    return (*found, *[f"{SAYS}{one}" for one in text.keys])


def of(role: str, entered: Iterable[str]) -> list[str]:
    """Those of the labels that have a role, without it."""
    return [label[len(role) :] for label in entered if label.startswith(role)]


def told(entered: Sequence[str]) -> Sequence[str]:
    """The labels without the keys in the text, which come last."""
    return entered[: bisect_left(entered, True, key=_says)]


def by_role(entered: Iterable[str]) -> dict[str, list[str]]:
    """What stands behind the role of each label, by role."""
    found: dict[str, list[str]] = {}
    for one in entered:
        found.setdefault(one[:2], []).append(one[2:])
    return found


def _says(label: str) -> bool:
    return label.startswith(SAYS)
