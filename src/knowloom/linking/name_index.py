"""Updates of the name index: what a change of items does to it, and which items it makes dirty.

Linking by name takes three steps, each one write: items are indexed under the labels that depend on
them alone (`index_items`), then under the names that their texts mention, as all names are known by
then (`index_mentions`), then edges are computed from the index (`name_rules`). Each step returns
the other items that it affects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter

from knowloom.linking.label_changes import IndexEntries, LabelChanges
from knowloom.linking.name_keys import KeyedText, RunLengths, blocking_key, locate_mentions
from knowloom.linking.name_labels import (
    ADDRESS,
    HEADING,
    MENTION,
    NAME,
    NAME_KEY,
    NAME_PREFIX,
    REFERENCE,
    SPAN,
    TEXT_KEY,
    ParsedItem,
    build_labels,
    drop_text_keys,
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
    MAX_TEXTS_PER_KEY,
    REFERS_TO,
)
from knowloom.linking.places import (
    ADDRESS_PLACES,
    MENTION_PLACES,
    NAME_PLACES,
    SPAN_PLACES,
    drop_own_names,
    encode_places,
    find_moved,
)
from knowloom.linking.ports import LinkStore
from knowloom.linking.unspaced_scripts import Positions, match_names
from knowloom.text.item_names import list_own_names
from knowloom.text.mentions import MAX_NAMES_PER_TEXT
from knowloom.text.passages import locate_headings

# The places of targets: their role, the role of the labels of the sources, the limit of these, and
# a prefix of their values.
_PLACES_OF_TARGETS = (
    (NAME_PLACES, MENTION, MAX_MENTIONS, ""),
    (SPAN_PLACES, SPAN, MAX_SHARING, ""),
    (ADDRESS_PLACES, REFERENCE, MAX_REFERRERS, f"{REFERS_TO} "),
)


@dataclass(slots=True)
class IndexUpdate:
    """The result of a step: new entries, items to read again, and items with outdated edges."""

    entries: dict[str, tuple[str, ...]]
    dirty: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)


def index_items(
    store: LinkStore, space: str, ids: Sequence[str], items: Mapping[str, ParsedItem]
) -> IndexUpdate:
    """Index changed items under the labels they have by themselves, deleted ones under none."""
    old = store.labels_of(space, ids)
    new = {
        id: (*_mention_labels(old.get(id, ())), *build_labels(items[id])) if id in items else ()
        for id in ids
    }
    changes = LabelChanges(store, space, old, new)
    update = IndexUpdate(changes.entries)
    _update_names(changes, update)
    # Names are searched for only while not too many texts have their key.
    update.dirty |= changes.texts_crossing(MAX_TEXTS_PER_KEY)
    update.stale |= changes.affected(SPAN, changes.names(SPAN), MAX_SHARING)
    update.stale |= changes.affected(MENTION, changes.names(MENTION), MAX_MENTIONS)
    _update_addresses(changes, update)
    _update_places(changes, update, old, new)
    update.dirty.difference_update(ids)
    return update


def index_mentions(store: LinkStore, space: str, items: Mapping[str, ParsedItem]) -> IndexUpdate:
    """Index items, which `index_items` has seen, under the names that their texts mention.

    Their own edges are outdated in any case.
    """
    old = store.labels_of(space, list(items))
    mentions = _find_mentions(store, space, {id: parsed.text for id, parsed in items.items()})
    new = {}
    for id, parsed in items.items():
        labels = old.get(id, ())
        others = labels[len(_mention_labels(labels)) :]
        new[id] = (*_format_mentions(parsed, mentions[id]), *others)
    changes = LabelChanges(store, space, old, new)
    update = IndexUpdate(changes.entries, stale=set(items))
    update.stale |= changes.affected(MENTION, changes.names(MENTION), MAX_MENTIONS)
    return update


def _mention_labels(labels: tuple[str, ...]) -> list[str]:
    """Return the labels of mentions, which come first."""
    return list(takewhile(lambda label: label.startswith((MENTION, MENTION_PLACES)), labels))


def _format_mentions(parsed: ParsedItem, mentions: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the labels of the names that a text mentions, from their word numbers."""
    if not parsed.passages:
        return [f"{MENTION}{name}" for name in list(mentions)[:MAX_NAMES_PER_TEXT]]
    located = {name: parsed.text.passages_of(words) for name, words in mentions.items()}
    headings = locate_headings(parsed.item.text, parsed.passages)
    places = drop_own_names(located, list_own_names(headings))
    return [*[f"{MENTION}{name}" for name in places], encode_places(MENTION_PLACES, places)]


def _update_names(changes: LabelChanges, update: IndexUpdate) -> None:
    """Mark the items that names affect.

    A name that appears or vanishes must be searched for in texts, and stops or starts to link the
    texts that share it; one with more or fewer holders changes the weights of its edges.
    """
    for role, limit in ((NAME, MAX_HOLDERS), (HEADING, MAX_HEADING_HOLDERS)):
        by_name = changes.by_name(role, limit)
        toggled = [name for name, (before, after) in by_name.items() if bool(before) != bool(after)]
        update.dirty |= changes.texts_with(toggled, MAX_TEXTS_PER_KEY)
        update.stale |= changes.affected(SPAN, toggled, MAX_SHARING)
        recounted = [name for name, change in by_name.items() if change.affected(limit)]
        update.stale |= changes.affected(MENTION, recounted, MAX_MENTIONS)


def _update_addresses(changes: LabelChanges, update: IndexUpdate) -> None:
    moved = changes.names_with_new_head(ADDRESS, MAX_ADDRESSEES)
    references = [f"{type} {address}" for address in moved for type in (REFERS_TO, FOREIGN_KEY)]
    update.stale |= changes.affected(REFERENCE, references, MAX_REFERRERS)
    for change in changes.by_name(REFERENCE, MAX_REFERRERS).values():
        if change.crosses(MAX_REFERRERS):
            update.stale |= (change.before or set()) | (change.after or set())


def _update_places(
    changes: LabelChanges, update: IndexUpdate, old: IndexEntries, new: IndexEntries
) -> None:
    """Mark the items that name or refer to, or share a name with, an item whose passages change."""
    for role, target_role, limit, prefix in _PLACES_OF_TARGETS:
        moved: set[str] = set()
        for id in changes.entries if changes.names(role) else ():
            moved |= find_moved(role, drop_text_keys(old.get(id, ())), drop_text_keys(new[id]))
        names = [f"{prefix}{name}" for name in sorted(moved)]
        update.stale |= changes.affected(target_role, names, limit)


def _find_mentions(
    store: LinkStore, space: str, texts: Mapping[str, KeyedText]
) -> dict[str, dict[str, list[int]]]:
    """Return the names that each text mentions, and at which words.

    Only runs with the key of a name are looked up.
    """
    live = _live_keys(store, space, sorted(set().union(*[text.keys for text in texts.values()])))
    positions = {id: text.positions(live) for id, text in texts.items()}
    runs = {id: text.runs(positions[id][0], live) for id, text in texts.items()}
    candidates = set().union(*[lengths for pairs in runs.values() for _, lengths in pairs])
    names = _existing_names(store, space, candidates)
    unspaced = {id: starts for id, (_, starts) in positions.items() if starts}
    for id, matches in _match_unspaced(store, space, texts, unspaced, live).items():
        names.update(*matches.values())
        runs[id] = sorted([*runs[id], *matches.items()], key=itemgetter(0))
    return {id: locate_mentions(pairs, names) if pairs else {} for id, pairs in runs.items()}


def _match_unspaced(
    store: LinkStore,
    space: str,
    texts: Mapping[str, KeyedText],
    positions: Positions,
    live: AbstractSet[str],
) -> dict[str, dict[int, RunLengths]]:
    def select_prefixes(runs: AbstractSet[str]) -> set[str]:
        return _existing(store, space, NAME_PREFIX, runs)

    def select_names(runs: AbstractSet[str]) -> set[str]:
        return _existing_names(store, space, {run for run in runs if blocking_key(run) in live})

    return match_names(texts, positions, select_prefixes, select_names)


def _existing_names(store: LinkStore, space: str, values: AbstractSet[str]) -> set[str]:
    return _existing(store, space, NAME, values) | _existing(store, space, HEADING, values)


def _existing(store: LinkStore, space: str, role: str, values: Iterable[str]) -> set[str]:
    """Return the values of a role that at least one item is indexed under."""
    labels = [f"{role}{value}" for value in sorted(values)]
    return set(select_values(role, store.label_holders(space, labels, 1)))


def _live_keys(store: LinkStore, space: str, keys: Sequence[str]) -> set[str]:
    """Return the keys that a name has and that not too many texts contain."""
    of_names = select_values(
        NAME_KEY, store.label_holders(space, [f"{NAME_KEY}{key}" for key in keys], 1)
    )
    text_keys = [f"{TEXT_KEY}{key}" for key in of_names]
    texts = store.label_holders(space, text_keys, MAX_TEXTS_PER_KEY + 1)
    return {key for key in of_names if len(texts.get(f"{TEXT_KEY}{key}", ())) <= MAX_TEXTS_PER_KEY}
