"""Link the dirty items of one space, in rounds of pages; each page is one write, with retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from knowloom.construction import fast_constructor
from knowloom.errors import Conflict
from knowloom.linking.name_finders import run_finder_cached
from knowloom.linking.name_index import IndexUpdate, index_items, index_mentions
from knowloom.linking.name_keys import KeyedText
from knowloom.linking.name_labels import ParsedItem, drop_text_keys, group_by_role
from knowloom.linking.name_rules import NameRule, RoleValues, WeightedName
from knowloom.linking.nearest_rules import (
    COMMON_LABEL,
    UNLIMITED,
    NearestLists,
    NearestRule,
    qualify_labels,
    read_common_labels,
)
from knowloom.linking.places import PassagePairs, PlaceReader
from knowloom.linking.ports import LinkStore
from knowloom.linking.rules import LinkRule
from knowloom.linking.similar_rule import SimilarRule, SimilarUpdate, update_similar
from knowloom.model import (
    AUTOMATIC,
    Edge,
    EdgeKey,
    Filter,
    Item,
)
from knowloom.ports import (
    LinkUpdate,
    NameFinder,
    Progress,
)
from knowloom.text.passages import split_passages

PAGE_ITEMS = 512  # items per write
# Sizes of texts (`KeyedText.size`): a page is about 4 million characters, half a million in scripts
# without spaces. The texts of a round are kept in memory, 100 to 200 MB.
PAGE_SIZE = 1_000_000
ROUND_SIZE = 4 * PAGE_SIZE
MAX_ATTEMPTS = 100  # to write a page while other processes change the space
_edge = fast_constructor(Edge)


class SpaceLinker:
    """One run over the dirty items of a space."""

    def __init__(
        self,
        store: LinkStore,
        space: str,
        rules: Sequence[LinkRule],
        finder: NameFinder | None,
        passage_size: int,
    ) -> None:
        self._store, self._space, self._finder = store, space, finder
        self._passage_size = passage_size
        self._nearest_rules = [
            rule for rule in rules if not isinstance(rule, NameRule | SimilarRule)
        ]
        self._similar_rules = [rule for rule in rules if isinstance(rule, SimilarRule)]
        self._name_rules = [rule for rule in rules if isinstance(rule, NameRule)]

    def run(self, progress: Progress | None = None) -> int:
        """Link until no item is dirty; return how many items were visited.

        All items of a round are indexed before their texts are searched for names, and edges by
        name come last, so that each is made once.
        """
        store, space, visited = self._store, self._space, 0
        while (dirty := store.dirty_ids(space)) or (self._name_rules and store.stale_ids(space)):
            for pages, parsed in self._rounds(dirty):
                for page in pages:
                    self._link_page(page, parsed)
                    visited += len(page)
                    if progress is not None and len(dirty) > PAGE_ITEMS:
                        progress("links", visited, max(visited, len(dirty)))
            # Not while texts are to be read: their mentions change the weights of these edges.
            if self._name_rules and not store.dirty_ids(space):
                for page in _split(store.stale_ids(space)):
                    self._commit(partial(self._compute_name_edges, page))
        return visited

    def _rounds(
        self, dirty: Sequence[str]
    ) -> Iterator[tuple[Sequence[Sequence[str]], dict[str, ParsedItem] | None]]:
        """Yield pages of items that are indexed, and the items parsed; None without name rules.

        The fewer rounds, the fewer texts are read again for names that come later.
        """
        if not self._name_rules:
            yield list(_split(dirty)), None
            return
        pages: list[Sequence[str]] = []
        parsed: dict[str, ParsedItem] = {}
        size = begin = 0
        while begin < len(dirty):
            page, items = self._index_page(dirty[begin : begin + PAGE_ITEMS], PAGE_SIZE)
            begin += len(page)
            parsed.update(items)
            pages.append(page)
            size += sum(item.text.size for item in items.values())
            if size >= ROUND_SIZE:
                yield pages, parsed
                pages, size = [], 0
                parsed.clear()  # else two rounds are in memory
        if pages:
            yield pages, parsed

    def _index_page(
        self, page: Sequence[str], max_size: int = UNLIMITED
    ) -> tuple[Sequence[str], dict[str, ParsedItem]]:
        """Index the items of a page until their texts reach `max_size`; return ids and items."""
        ids, parsed = page, dict[str, ParsedItem]()

        def compute() -> LinkUpdate:
            nonlocal ids
            ids = self._parse_items(page, parsed, max_size)
            version = self._store.dirty_items(self._space, []).version
            update = index_items(self._store, self._space, ids, parsed)
            return LinkUpdate(
                self._space,
                version,
                labels=update.entries,
                marked=tuple(sorted(update.dirty)),
                stale=tuple(sorted(update.stale)),
            )

        self._commit(compute)
        return ids, parsed

    def _parse_items(
        self, page: Sequence[str], parsed: dict[str, ParsedItem], max_size: int
    ) -> Sequence[str]:
        """Fill `parsed` with the items of a page up to a size; return the ids that are done."""
        parsed.clear()
        size, finder = 0, self._finder
        entries = {} if finder is None else self._store.labels_of(self._space, page)
        for id, item in self._read(page).items():
            names = None
            if finder is not None:
                names = run_finder_cached(finder, item.text, entries.get(id, ()))
            passages = split_passages(item.text, self._passage_size)
            several = passages if len(passages) > 1 else ()
            parsed[id] = ParsedItem(item, KeyedText(item.text, several), names, several)
            size += parsed[id].text.size
            if size >= max_size:
                return page[: page.index(id) + 1]
        return page

    def _read(self, page: Sequence[str]) -> dict[str, Item]:
        return {item.id: item for item in self._store.get([(self._space, id) for id in page])}

    def _link_page(self, page: Sequence[str], parsed: Mapping[str, ParsedItem] | None) -> None:
        for _ in range(MAX_ATTEMPTS):
            with self._store.reading():
                items = self._read(page)
                is_outdated = parsed is not None and items != {
                    id: parsed[id].item for id in page if id in parsed
                }
                links = LinkUpdate(self._space, 0)
                if not is_outdated:
                    links = self._compute_page(page, items, parsed)
            if is_outdated:
                _, parsed = self._index_page(page)
            elif self._store.put_links(links) and links.done:
                return
        raise self._conflict()

    def _compute_page(
        self,
        page: Sequence[str],
        items: dict[str, Item],
        parsed: Mapping[str, ParsedItem] | None,
    ) -> LinkUpdate:
        """Compute the edges of a page by nearest rules, and the names that its texts mention.

        Labels that became common or rare come first and alone: all items with them must be visited
        again, even if this process ends in between.
        """
        marks = self._store.dirty_items(self._space, page)
        versions = [item for item in (*items.values(), *marks.before.values()) if item is not None]
        for rule in self._nearest_rules:
            common, rare = self._find_crossings(rule, versions)
            if common or rare:
                return self._mark_carriers(rule, common, rare, marks.version)
        edges: list[Edge] = []
        deleted: list[EdgeKey] = []
        for rule in self._nearest_rules:
            lists = NearestLists(self._store, self._space, rule)
            lists.update(items)
            edges += lists.edges
            deleted += lists.deleted
        similar = SimilarUpdate()
        for similar_rule in self._similar_rules:
            similar = update_similar(self._store, self._space, similar_rule, page)
        update = IndexUpdate({})
        if parsed is not None:
            update = index_mentions(self._store, self._space, {id: parsed[id] for id in items})
        return LinkUpdate(
            self._space,
            marks.version,
            (*edges, *similar.edges),
            (*deleted, *similar.deleted),
            done=tuple(page),
            labels=update.entries,
            stale=tuple(sorted(update.stale)),
            nearest=similar.lists,
        )

    def _find_crossings(
        self, rule: NearestRule, items: Sequence[Item]
    ) -> tuple[list[str], list[str]]:
        """Return the labels of the items that became common, and those that no longer are."""
        store, space = self._store, self._space
        labels = sorted({label for item in items for label in rule.labels(item)})
        stored = read_common_labels(store, space, rule, labels)
        few = rule.holders(space, labels, COMMON_LABEL, store=store)
        others = [label for label in labels if label not in few]
        common = set(rule.holders(space, others, UNLIMITED, store=store))
        return sorted(common - stored), sorted(stored - common)

    def _mark_carriers(
        self, rule: NearestRule, common: Sequence[str], rare: Sequence[str], version: int
    ) -> LinkUpdate:
        carriers = rule.holders(self._space, [*common, *rare], UNLIMITED, store=self._store)
        return LinkUpdate(
            self._space,
            version,
            common=qualify_labels(rule, common),
            rare=qualify_labels(rule, rare),
            marked=tuple(sorted({id for ids in carriers.values() for id in ids})),
        )

    def _compute_name_edges(self, page: Sequence[str]) -> LinkUpdate:
        """Compute the outgoing edges by name of the items of a page."""
        store, space = self._store, self._space
        version = store.dirty_items(space, []).version
        keys = store.visible([(space, id) for id in page], Filter((space,)))
        entries = {
            id: group_by_role(drop_text_keys(labels))
            for id, labels in store.labels_of(space, [id for _, id in keys]).items()
        }
        types = [rule.type for rule in self._name_rules]
        touching = store.edges_of(keys, [space], types, UNLIMITED)
        automatic = [edge for edge in touching if edge.origin == AUTOMATIC]
        stored = {edge.key: edge for edge in automatic if edge.source in entries}
        edges = self._build_edges(entries, touching)
        changed = tuple(edge for key, edge in edges.items() if stored.get(key) != edge)
        deleted = tuple(key for key in stored if key not in edges)
        return LinkUpdate(space, version, changed, deleted, renewed=tuple(page))

    def _build_edges(
        self, entries: Mapping[str, RoleValues], touching: Sequence[Edge]
    ) -> dict[EdgeKey, Edge]:
        """Return the edges of name rules; pairs with an explicit edge of the type get none."""
        store, space = self._store, self._space
        explicit = {
            (*ends, edge.type)
            for edge in touching
            if edge.origin != AUTOMATIC
            for ends in ((edge.source, edge.target), (edge.target, edge.source))
        }
        links = {rule: rule.compute_links(store, space, entries) for rule in self._name_rules}
        targets = sorted({target for pairs in links.values() for _, target in pairs})
        keys = store.visible([(space, id) for id in targets], Filter((space,)))
        existing = {id for _, id in keys}
        places = PlaceReader(store, space, entries, [id for _, id in keys])
        edges: dict[EdgeKey, Edge] = {}
        for rule, pairs in links.items():
            for (source, target), names in pairs.items():
                if target in existing and (source, target, rule.type) not in explicit:
                    weight, name = names[0]
                    edges[(space, source), (space, target), rule.type] = _edge(
                        source,
                        target,
                        rule.type,
                        weight,
                        space,
                        None,
                        {"name": name, **_locate(places, rule, source, target, names)},
                        "",
                        AUTOMATIC,
                    )
        return edges

    def _commit(self, compute: Callable[[], LinkUpdate]) -> None:
        """Compute on a snapshot and write; again if the space changed in between."""
        for _ in range(MAX_ATTEMPTS):
            with self._store.reading():
                links = compute()
            if self._store.put_links(links):
                return
        raise self._conflict()

    def _conflict(self) -> Conflict:
        message = f"space {self._space!r} changes too fast to be linked; the next write retries"
        return Conflict(message, "busy")


def _locate(
    places: PlaceReader, rule: NameRule, source: str, target: str, names: Sequence[WeightedName]
) -> dict[str, PassagePairs]:
    """Return the passages that an edge connects, unless both ends have only one."""
    if not rule.source_places or not places.has_several(source, target):
        return {}
    ends = (source, rule.source_places), (target, rule.target_places)
    return {"passages": places.pair(*ends, [name for _, name in names])}


def _split(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + PAGE_ITEMS] for start in range(0, len(ids), PAGE_ITEMS))
