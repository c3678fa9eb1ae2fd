"""The items that a request may see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from knowloom.model.condition import ItemCondition
from knowloom.model.item import Item, Kind


@dataclass(frozen=True, slots=True)
class Filter:
    """The items that a request may see. An empty field does not restrict; no spaces, no items."""

    spaces: tuple[str, ...]
    kinds: tuple[Kind, ...] = ()
    types: tuple[str, ...] = ()
    exclude_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # at least one of them
    subjects: tuple[str, ...] = ()
    created_from: datetime | None = None
    created_to: datetime | None = None
    valid_at: datetime | None = None  # inside [valid_from, valid_to)
    min_confidence: float = 0.0
    where: tuple[ItemCondition, ...] = ()  # all of them

    def rejection_reason(self, item: Item) -> str:
        """Return why the item is not visible; "" if it is. Every index must agree with this."""
        return next(self._reasons(item), "")

    def allows(self, item: Item) -> bool:
        return not self.rejection_reason(item)

    def _reasons(self, item: Item) -> Iterator[str]:
        if item.space not in self.spaces:
            yield f"space {item.space!r} was not requested"
        if self.kinds and item.kind not in self.kinds:
            yield f"kind {item.kind.value!r} was not requested"
        if self.types and item.type not in self.types:
            yield f"type {item.type!r} was not requested"
        if item.type in self.exclude_types:
            yield f"type {item.type!r} was excluded"
        if self.tags and not any(tag in item.tags for tag in self.tags):
            yield f"has none of the tags {', '.join(self.tags)}"
        if self.subjects and item.subject not in self.subjects:
            yield f"subject {item.subject!r} was not requested"
        if self.min_confidence > (item.confidence or 0.0):
            yield f"confidence {item.confidence or 0.0:g} is below {self.min_confidence:g}"
        if self.created_from and item.created_at and item.created_at < self.created_from:
            yield "was created before the requested dates"
        if self.created_to and item.created_at and item.created_at > self.created_to:
            yield "was created after the requested dates"
        if self.valid_at and item.valid_from and item.valid_from > self.valid_at:
            yield "was not valid yet"
        if self.valid_at and item.valid_to and item.valid_to <= self.valid_at:
            yield "was no longer valid"
        for condition in self.where:
            if reason := condition.rejection_reason(item):
                yield reason
