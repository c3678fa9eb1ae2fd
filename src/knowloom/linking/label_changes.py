"""Changes of the name index in one step: which labels gain or lose items, and whom that affects.

Labels that more items hold than the caps of `name_weights` allow link nothing, before and after, so
their holders are not affected: no change costs more than the caps allow, however large the space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from knowloom.linking.name_keys import blocking_key
from knowloom.linking.name_labels import NAME_KEY, TEXT_KEY, drop_text_keys, select_values
from knowloom.linking.ports import LinkStore
from knowloom.text.mentions import fold_text, may_mention

IndexEntries = Mapping[str, tuple[str, ...]]
"""The labels of each item, by id."""


class HolderChange(NamedTuple):
    """The holders of a label before and after a step; both None if over the limit in both."""

    before: set[str] | None
    after: set[str] | None

    def affected(self, limit: int) -> set[str]:
        """Return all holders, unless they are more than `limit` both before and after."""
        if self.before is None or self.after is None:
            return set()
        if min(len(self.before), len(self.after)) > limit:
            return set()
        return self.before | self.after

    def crosses(self, limit: int) -> bool:
        """Return True if the label has more than `limit` holders either before or after."""
        if self.before is None or self.after is None:
            return False
        return (len(self.before) > limit) != (len(self.after) > limit)


class LabelChanges:
    """The labels that gain or lose items in a step.

    Of text keys, which are most of the labels, only the number of gains and losses is kept.
    """

    def __init__(self, store: LinkStore, space: str, old: IndexEntries, new: IndexEntries) -> None:
        self._store, self._space, self._size = store, space, len(new)
        self.entries = {id: labels for id, labels in new.items() if labels != old.get(id, ())}
        self._gained: dict[str, tuple[str, ...]] = {}
        self._lost: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, list[str]] = {}
        self._key_gains: Counter[str] = Counter()
        self._key_losses: Counter[str] = Counter()
        for id, labels in self.entries.items():
            old_labels = old.get(id, ())
            before, after = drop_text_keys(old_labels), drop_text_keys(labels)
            for label in set(after).difference(before) if before else after:
                self._gained[label] = (*self._gained[label], id) if label in self._gained else (id,)
            for label in set(before).difference(after):
                self._lost[label] = (*self._lost.get(label, ()), id)
            keys, old_keys = labels[len(after) :], old_labels[len(before) :]
            if keys != old_keys:
                self._key_gains.update(set(keys).difference(old_keys) if old_keys else keys)
                self._key_losses.update(set(old_keys).difference(keys))

    def names(self, role: str) -> list[str]:
        """Return the values of the labels of a role that gain or lose items."""
        if not self._names:
            for label in sorted(self._gained.keys() | self._lost.keys()):
                self._names.setdefault(label[: len(role)], []).append(label[len(role) :])
        return self._names.get(role, [])

    def by_name(self, role: str, limit: int) -> dict[str, HolderChange]:
        """Return the change of each label of a role, by its value."""
        stored = self._stored(role, self.names(role), limit + 1)
        return {
            name: self._change(f"{role}{name}", stored.get(f"{role}{name}", []), limit)
            for name in self.names(role)
        }

    def affected(self, role: str, names: Iterable[str], limit: int) -> set[str]:
        """Return the old and new holders of the labels, except where more than `limit` stay.

        A label without a holder so far affects nothing but the items of this step.
        """
        ids: set[str] = set()
        for label, holders in self._stored(role, names, limit + 1).items():
            if label in self._lost:
                ids |= self._change(label, holders, limit).affected(limit)
            elif len(holders) <= limit:
                ids.update(holders, self._gained.get(label, ()))
        return ids

    def names_with_new_head(self, role: str, limit: int) -> list[str]:
        """Return the values of the labels of a role whose first `limit` holders change."""
        stored = self._stored(role, self.names(role), limit)
        changed = []
        for name in self.names(role):
            label = f"{role}{name}"
            before = stored.get(label, [])
            remaining = set(before).difference(self._lost.get(label, ()))
            after = sorted(remaining.union(self._gained.get(label, ())))
            if before[:limit] != after[:limit]:
                changed.append(name)
        return changed

    def texts_crossing(self, limit: int) -> set[str]:
        """Return the items with a text key, also of a name, whose count crosses `limit`."""
        keys = self._key_gains.keys() | self._key_losses.keys()
        name_keys = [f"{NAME_KEY}{label[len(TEXT_KEY) :]}" for label in sorted(keys)]
        stored = select_values(NAME_KEY, self._store.label_holders(self._space, name_keys, 1))
        live = keys.intersection([f"{TEXT_KEY}{key}" for key in (*stored, *self.names(NAME_KEY))])
        holders = self._store.label_holders(self._space, sorted(live), limit + 1 + self._size)
        ids: set[str] = set()
        for label in live:
            before = holders.get(label, [])
            after = len(before) + self._key_gains[label] - self._key_losses[label]
            if (len(before) > limit) != (after > limit):
                ids.update(before)
        return ids

    def texts_with(self, names: Iterable[str], limit: int) -> set[str]:
        """Return the clean items whose texts may mention one of the names.

        Candidates have the key of the name, if not more than `limit` have it before or after, and
        all its words. Dirty items are read again in any case.
        """
        by_key: dict[str, list[str]] = {}
        for name in names:
            by_key.setdefault(f"{TEXT_KEY}{blocking_key(name)}", []).append(name)
        stored = self._store.label_holders(self._space, sorted(by_key), limit + 1 + self._size)
        rare = {label: ids for label, ids in stored.items() if len(ids) <= limit + self._size}
        ids = sorted(set().union(*rare.values()))
        dirty = self._store.dirty_items(self._space, ids).before if ids else {}
        keys = [(self._space, id) for id in ids if id not in dirty]
        texts = {item.id: fold_text(item.text) for item in (self._store.get(keys) if keys else ())}
        return {
            id
            for label, ids in rare.items()
            for id in ids
            if id in texts and may_mention(texts[id], by_key[label])
        }

    def _stored(self, role: str, names: Iterable[str], limit: int) -> dict[str, list[str]]:
        """Return the first `limit` holders now; more where items are lost, so that `limit` stay."""
        labels = [f"{role}{name}" for name in names]
        losing = [label for label in labels if label in self._lost] if self._lost else []
        other = [label for label in labels if label not in self._lost]
        holders = self._store.label_holders(self._space, other, limit)
        if not losing:
            return holders
        return {**holders, **self._store.label_holders(self._space, losing, limit + self._size)}

    def _change(self, label: str, holders: Sequence[str], limit: int) -> HolderChange:
        lost = self._lost.get(label, ())
        if len(holders) > limit + (self._size if lost else 0):
            return HolderChange(None, None)
        before = set(holders)
        return HolderChange(before, before.difference(lost).union(self._gained.get(label, ())))
