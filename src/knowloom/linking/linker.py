"""Links in the life of an engine: those knowloom makes itself are kept true after every write; people's are listed, and may forbid knowloom's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from knowloom.construction import maker
from knowloom.errors import Conflict, Invalid, Unavailable
from knowloom.linking.name_finders import remembered
from knowloom.linking.name_index import Concerned, Read, by_role, enter, mention, told
from knowloom.linking.name_keys import Text
from knowloom.linking.name_rules import ByName
from knowloom.linking.tag_rules import (
    COMMON,
    EVERYONE,
    RULES,
    Lists,
    Rule,
    chosen,
    common_labels,
    stored_labels,
)
from knowloom.model import MADE, Edge, EdgeKey, Filter, Item, Key, Links
from knowloom.ports import LinkStore, NameFinder, Stores

log = logging.getLogger(__name__)

PAGE = 512  # items linked in one write
FULL = 1_000_000  # words and keys in the texts of a page (`Text.size`): about 4 million characters, half a million where there are no spaces
ROUND = (
    4 * FULL
)  # in texts that are entered in the index of names before they are searched for names; kept in memory, 100 to 200 MB
TRIES = 100  # a page is worked out again when somebody else wrote to its space meanwhile
NONE = "none"  # what is stored when no rule was chosen
BUILTIN = "builtin"  # names are found by knowloom alone
NAMES = "names="  # what stands before the fingerprint of a finder of names, among the rules that are stored
Progress = Callable[[str, int, int], None]
Rules = tuple[Rule | ByName, ...]
_edge = maker(Edge)


class Naming:
    """What finds names in texts besides knowloom itself: a finder, BUILTIN for none, or None for the one that the knowledge was linked with
    last, which `open` opens by its name."""

    def __init__(
        self, given: NameFinder | str | None = None, open: Callable[[str], NameFinder] | None = None
    ) -> None:
        if isinstance(given, str) and given != BUILTIN:
            raise Invalid(f"names are found by a NameFinder or by {BUILTIN!r}, not by {given!r}")
        self._given, self._open = given, open
        self._opened: dict[str, NameFinder] = {}

    def finder(self, rules: Rules, stored: str) -> NameFinder | None:
        """The one to link with by these rules; `stored` is what the knowledge was linked by."""
        last = next(
            (part.removeprefix(NAMES) for part in stored.split() if part.startswith(NAMES)), ""
        )
        if (
            not any(isinstance(rule, ByName) for rule in rules)
            or self._given == BUILTIN
            or (self._given is None and not last)
        ):
            return None
        if self._given is not None and not isinstance(self._given, str):
            return self._given
        name = unquote(last.rpartition("@")[0])
        if name not in self._opened:
            if self._open is None:
                raise Unavailable(
                    f"the links were made with names of {name!r}, which is not at hand: open the knowledge with it, or with names={BUILTIN!r}"
                )
            self._opened[name] = self._open(name)
        return self._opened[name]


class Linker:
    """Makes links by rules. `names` are the rules to link by; None: those the knowledge was linked by last, at first all.

    Every item is linked to the `lists.KEPT` nearest of those that come before it in the order of ids; of equally near ones to those that
    stand closest before it. So an edge goes from the smaller id to the larger, and belongs to the list of its target: when an item
    changes, only its own list and those it stands in, or would now stand in, are made anew. A store without the methods of
    `LinkStore`, or roles that are spread over several stores, get no links of knowloom's own."""

    def __init__(
        self, stores: Stores, names: Sequence[str] | None, naming: Naming | None = None
    ) -> None:
        self._naming = naming or Naming()
        self._names = None if names is None else tuple(rule.type for rule in chosen(names))
        self._store = (
            stores.items
            if len(stores.each()) == 1 and isinstance(stores.items, LinkStore)
            else None
        )

    def linked(self, spaces: Sequence[str], progress: Progress | None = None) -> tuple[str, ...]:
        """Catch up after a write; what could not be done, in words. What was written stays written."""
        try:
            self.link(spaces, progress)
            return ()
        except (Unavailable, Conflict) as error:
            log.warning("links are not up to date: %s", error)
            return (f"links are not up to date: {error}",)

    def link(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Make the links that wait to be made; how many items were looked at."""
        if self._store is None:
            return 0
        rules, finder = self._agreed(self._store)
        return (
            sum(self._link_space(self._store, space, rules, finder, progress) for space in spaces)
            if rules
            else 0
        )

    def relink(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Forget every link that knowloom made, in all spaces, and make them anew; how many items were looked at."""
        if self._store is None:
            return 0
        rules = self._wanted(self._store)
        self._store.forget_links(_named(rules, self._naming.finder(rules, self._store.linked_by())))
        return self.link(spaces, progress)

    def _wanted(self, store: LinkStore) -> Rules:
        stored = store.linked_by()
        if self._names is not None:
            return chosen(self._names)
        return chosen(
            [
                name
                for name in RULES
                if not stored or name in (part.partition("/")[0] for part in stored.split())
            ]
        )

    def _agreed(self, store: LinkStore) -> tuple[Rules, NameFinder | None]:
        """The rules and the finder of names, after what was linked by others is forgotten."""
        rules, stored = self._wanted(store), store.linked_by()
        finder = self._naming.finder(rules, stored)
        if stored != _named(rules, finder):
            store.forget_links(_named(rules, finder))
        return rules, finder

    def _link_space(
        self,
        store: LinkStore,
        space: str,
        rules: Rules,
        finder: NameFinder | None,
        progress: Progress | None,
    ) -> int:
        """Page by page, in rounds: all items of a round are entered in the index of names before their texts are searched for names, and
        links by names come last, so that each is made once."""
        looked_at = 0
        near = [rule for rule in rules if not isinstance(rule, ByName)]
        by_name = [rule for rule in rules if isinstance(rule, ByName)]
        while (waiting := store.unlinked(space)) or (by_name and store.stale(space)):
            for pages, seen in (
                _rounds(store, space, waiting, finder)
                if by_name
                else [(_pages(waiting, PAGE), None)]
            ):
                for page in pages:
                    _link_page(store, space, page, near, seen, finder)
                    looked_at += len(page)
                    if progress is not None and len(waiting) > PAGE:
                        progress("links", looked_at, max(looked_at, len(waiting)))
            # Not while texts wait to be read again: what they mention gives the same links another weight.
            for page in _pages(
                store.stale(space) if by_name and not store.unlinked(space) else [], PAGE
            ):
                _put(store, space, lambda page=page: _renewed(store, space, page, by_name))  # type: ignore[misc]
        return looked_at


def _pages(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _rounds(
    store: LinkStore, space: str, waiting: Sequence[str], finder: NameFinder | None
) -> Iterator[tuple[list[Sequence[str]], dict[str, Read]]]:
    """Pages whose items are entered in the index of names, with the items. The fewer rounds, the fewer texts are read again for names that
    come later."""
    round: list[Sequence[str]] = []
    seen: dict[str, Read] = {}
    size = 0
    begin = 0
    while begin < len(waiting):
        page, entered = _enter(store, space, waiting[begin : begin + PAGE], finder, FULL)
        begin += len(page)
        seen.update(entered)
        round.append(page)
        size += sum(read.text.size for read in entered.values())
        if size >= ROUND:
            yield round, seen
            round, size = [], 0
            seen.clear()  # else two rounds are in memory
    if round:
        yield round, seen


def _named(rules: Rules, finder: NameFinder | None) -> str:
    return (
        " ".join(
            [f"{rule.type}/{rule.version}" for rule in rules]
            + ([f"{NAMES}{finder.fingerprint}"] if finder is not None else [])
        )
        or NONE
    )


def _put(store: LinkStore, space: str, work_out: Callable[[], Links]) -> Links:
    """Work out and write; again when somebody else wrote to the space meanwhile."""
    for _ in range(TRIES):
        with store.reading():
            links = work_out()
        if store.put_links(links):
            return links
    raise Conflict(
        f"space {space!r} changes too fast to be linked: links follow with the next write", "busy"
    )


def _enter(
    store: LinkStore,
    space: str,
    page: Sequence[str],
    finder: NameFinder | None,
    most: int = EVERYONE,
) -> tuple[Sequence[str], dict[str, Read]]:
    """Enter items of a page in the index of names, up to the one with whose text they have the size `most`: their ids, and as they are there."""
    done, seen = page, dict[str, Read]()

    def work_out() -> Links:
        nonlocal done
        done, size = page, 0
        seen.clear()
        held = {} if finder is None else store.entries(space, page)
        for id, item in _now(store, space, page).items():
            seen[id] = Read(
                item,
                Text(item.text),
                None if finder is None else remembered(finder, item.text, held.get(id, ())),
            )
            size += seen[id].text.size
            if size >= most:
                done = page[: page.index(id) + 1]
                break
        version, found = store.marks(space, []).version, enter(store, space, done, seen)
        return Links(
            space,
            version,
            entered=found.entered,
            marked=tuple(sorted(found.marked)),
            stale=tuple(sorted(found.stale)),
        )

    _put(store, space, work_out)
    return done, seen


def _now(store: LinkStore, space: str, page: Sequence[str]) -> dict[str, Item]:
    return {item.id: item for item in store.get([(space, id) for id in page])}


def _link_page(
    store: LinkStore,
    space: str,
    page: Sequence[str],
    rules: Sequence[Rule],
    seen: Mapping[str, Read] | None,
    finder: NameFinder | None,
) -> None:
    for _ in range(TRIES):
        with store.reading():
            now = _now(store, space, page)
            changed = seen is not None and now != {id: seen[id].item for id in page if id in seen}
            links = (
                Links(space, 0) if changed else _worked_out(store, space, page, now, rules, seen)
            )
        if changed:
            seen = _enter(store, space, page, finder)[1]
        elif store.put_links(links) and links.done:
            return
    raise Conflict(
        f"space {space!r} changes too fast to be linked: links follow with the next write", "busy"
    )


def _worked_out(
    store: LinkStore,
    space: str,
    page: Sequence[str],
    now: dict[str, Item],
    rules: Sequence[Rule],
    seen: Mapping[str, Read] | None,
) -> Links:
    """What must be written to be done with the page. Labels that became common, or no longer are, come first and alone: all who
    carry them must be looked at again, even if this process ends in between."""
    marks = store.marks(space, page)
    for rule in rules:
        both = [item for item in (*now.values(), *marks.before.values()) if item is not None]
        labels = sorted({label for item in both for label in rule.labels(item)})
        hushed, heard = _turned(store, space, rule, labels)
        if hushed or heard:
            concerned = {
                id
                for ids in rule.carriers(space, [*hushed, *heard], EVERYONE, store=store).values()
                for id in ids
            }
            return Links(
                space,
                marks.version,
                common=stored_labels(rule, hushed),
                rare=stored_labels(rule, heard),
                marked=tuple(sorted(concerned)),
            )
    made: list[Edge] = []
    dropped: list[EdgeKey] = []
    for rule in rules:
        lists = Lists(store, space, rule)
        lists.change(now)
        made += lists.made
        dropped += lists.dropped
    found = Concerned({}) if seen is None else mention(store, space, {id: seen[id] for id in now})
    return Links(
        space,
        marks.version,
        tuple(made),
        tuple(dropped),
        done=tuple(page),
        entered=found.entered,
        stale=tuple(sorted(found.stale)),
    )


def _renewed(store: LinkStore, space: str, page: Sequence[str], rules: Sequence[ByName]) -> Links:
    """The links by names of these items: those that go out from them."""
    version = store.marks(space, []).version
    keys = store.visible([(space, id) for id in page], Filter((space,)))
    entered = {
        id: by_role(told(held)) for id, held in store.entries(space, [id for _, id in keys]).items()
    }
    touching = store.edges_of(keys, [space], [rule.type for rule in rules], EVERYONE)
    stored = {edge.key: edge for edge in touching if edge.origin == MADE and edge.source in entered}
    settled = {
        (*ends, edge.type)
        for edge in touching
        if edge.origin != MADE
        for ends in ((edge.source, edge.target), (edge.target, edge.source))
    }
    links = {rule.type: rule.wanted(store, space, entered) for rule in rules}
    targets = sorted({target for pairs in links.values() for _, target in pairs})
    there = {id for _, id in store.visible([(space, id) for id in targets], Filter((space,)))}
    wanted: dict[EdgeKey, Edge] = {}
    for type, pairs in links.items():
        for (source, target), (weight, name) in pairs.items():
            if target in there and (source, target, type) not in settled:
                wanted[(space, source), (space, target), type] = _edge(
                    source, target, type, weight, space, None, {"name": name}, "", MADE
                )
    made = tuple(edge for key, edge in wanted.items() if stored.get(key) != edge)
    return Links(
        space, version, made, tuple(key for key in stored if key not in wanted), renewed=tuple(page)
    )


def _turned(
    store: LinkStore, space: str, rule: Rule, labels: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The labels that became common and those that no longer are."""
    known = common_labels(store, space, rule, labels)
    few = rule.carriers(space, labels, COMMON, store=store)
    many = set(
        rule.carriers(space, [label for label in labels if label not in few], EVERYONE, store=store)
    )
    return sorted(many - known), sorted(known - many)


def ends(edges: Sequence[EdgeKey]) -> Iterator[Key]:
    """The items whose own links a person's edges may change."""
    for source, target, type in edges:
        if type in RULES:
            yield from (source, target)
