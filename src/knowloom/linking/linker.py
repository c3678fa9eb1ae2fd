"""The Linker: keep automatic edges up to date after every write."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from knowloom.errors import Conflict, Unavailable
from knowloom.linking.name_finders import FinderResolver
from knowloom.linking.name_rules import NameRule
from knowloom.linking.ports import LinkStore
from knowloom.linking.rules import LinkRule, format_rules, parse_finder, parse_rules, select_rules
from knowloom.linking.space_linker import SpaceLinker
from knowloom.ports import (
    NameFinder,
    Progress,
    Stores,
)

log = logging.getLogger(__name__)


class Linker:
    """Automatic edges of the stores, made by rules.

    `rules` are the names of the rules; None: those the knowledge was last linked by, at first all.

    Nearest rules link every item to the k nearest of those before it in the order of ids, ties to
    the closest before it. An edge thus goes from the smaller id to the larger and belongs to the
    list of its target: a change affects only the item's own list and those that contain it, or now
    should. A store that is no `LinkStore` has no automatic edges.
    """

    def __init__(
        self,
        stores: Stores,
        rules: Sequence[str] | None,
        finders: FinderResolver | None = None,
    ) -> None:
        self._finders = finders or FinderResolver()
        self._rules = None if rules is None else select_rules(rules)
        self._store = _find_link_store(stores)
        self._index = stores.words

    def catch_up(self, spaces: Sequence[str], progress: Progress | None = None) -> tuple[str, ...]:
        """Link after a write, which stays written if this fails; return the problems."""
        try:
            self.link(spaces, progress)
            return ()
        except (Unavailable, Conflict) as error:
            log.warning("links are not up to date: %s", error)
            return (f"links are not up to date: {error}",)

    def link(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Make the edges of dirty items; return how many items were visited."""
        if self._store is None:
            return 0
        rules, finder, stored = self._configuration(self._store)
        size = self._index.passage_size()
        if stored != format_rules(rules, finder, size):
            self._store.forget_links(format_rules(rules, finder, size))
        if not rules:
            return 0
        store = self._store
        return sum(SpaceLinker(store, space, rules, finder, size).run(progress) for space in spaces)

    def relink(self, spaces: Sequence[str], progress: Progress | None = None) -> int:
        """Delete all automatic edges, in all spaces, and rebuild them; return the items visited."""
        if self._store is None:
            return 0
        rules, finder, _ = self._configuration(self._store)
        self._store.forget_links(format_rules(rules, finder, self._index.passage_size()))
        return self.link(spaces, progress)

    def _configuration(self, store: LinkStore) -> tuple[Sequence[LinkRule], NameFinder | None, str]:
        """Return the rules and the name finder to link with, and the stored text of the last."""
        stored = store.link_rules()
        rules = parse_rules(stored) if self._rules is None else self._rules
        needs_finder = any(isinstance(rule, NameRule) for rule in rules)
        finder = self._finders.resolve(parse_finder(stored)) if needs_finder else None
        return rules, finder, stored


def _find_link_store(stores: Stores) -> LinkStore | None:
    """Return the store that keeps automatic edges: of several stores, that of the items."""
    if stores.composite is not None:
        return cast("LinkStore | None", stores.composite.link_store())
    store, has_all_roles = stores.items, len(stores.unique()) == 1
    return store if has_all_roles and isinstance(store, LinkStore) else None
