"""The rules by which weft links items itself. A rule says who is near an item and how near; how many links are kept is not its matter.
Links by names have rules of another shape (`byname.py`): they are directed, and made from the index of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from weft.errors import Invalid, unknown
from weft.ingest.byname import BY_NAME, ByName
from weft.model import Item
from weft.ports import LinkStore

Near = dict[str, list[tuple[float, str]]]
"""For each id the others it may be linked to, in any order: (weight, id)."""

EVERYONE = 1 << 31
COMMON = (
    200  # a label that more items of a space carry links nobody: it says nothing about any of them
)
LEAST_TAGS = 2
TAGS_FOR_1 = 5  # so many common tags weigh 1
SIMILAR = 0.85  # cosine


class Rule(Protocol):
    """Nearness must be mutual: if a is near b with a weight, b is near a with the same. It may depend on the two items, their vectors,
    and on which labels are common; on nothing else, so that only what changed must be looked at again."""

    @property
    def type(self) -> str:
        """Of its edges."""

    @property
    def version(self) -> int:
        """Raised whenever the rule would make other links: knowledge linked by an older one is linked anew."""

    def labels(self, item: Item) -> set[str]:
        """What may tie the item to others and may become common."""

    def carriers(
        self, space: str, labels: Sequence[str], most: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        """Who carries each label, in order of id; labels that nobody or more than `most` items carry are left out."""

    def near(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Near:
        """Everyone near these items. Common labels count for nothing."""


class SharedTag:
    """Two items with two or more tags in common."""

    type, version = "shared_tag", 1

    def labels(self, item: Item) -> set[str]:
        return set(item.tags)

    def carriers(
        self, space: str, labels: Sequence[str], most: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        return store.carriers(space, labels, most)

    def near(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Near:
        telling = {
            id: [tag for tag in item.tags if tag not in common] for id, item in items.items()
        }
        asked = sorted(
            {tag for tags in telling.values() if len(tags) >= LEAST_TAGS for tag in tags}
        )
        carried = store.carriers(space, asked, EVERYONE)
        near: Near = {}
        for id, tags in telling.items():
            shared = Counter(other for tag in tags for other in carried.get(tag, ()) if other != id)
            near[id] = [
                (min(1.0, count / TAGS_FOR_1), other)
                for other, count in shared.items()
                if count >= LEAST_TAGS
            ]
        return near


class Similar:
    """Two items whose vectors point the same way."""

    type, version = "similar", 1

    def labels(self, item: Item) -> set[str]:
        return set()

    def carriers(
        self, space: str, labels: Sequence[str], most: int, *, store: LinkStore
    ) -> dict[str, list[str]]:
        return {}

    def near(
        self, space: str, items: Mapping[str, Item], common: set[str], *, store: LinkStore
    ) -> Near:
        return store.alike(space, list(items), SIMILAR)


RULES: dict[str, Rule | ByName] = {rule.type: rule for rule in (SharedTag(), Similar(), *BY_NAME)}


def chosen(names: Sequence[str]) -> tuple[Rule | ByName, ...]:
    """The rules of these names, each once, in the order of the table."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise Invalid(f"links must be a list of rules, not {names!r}; known: {', '.join(RULES)}")
    for name in names:
        if name not in RULES:
            raise unknown("link rule", name, RULES)
    return tuple(rule for name, rule in RULES.items() if name in names)
