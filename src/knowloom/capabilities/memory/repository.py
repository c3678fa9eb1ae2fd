"""Storage of the memories of a workspace: writes, access counts, reads by id."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from knowloom import codec
from knowloom.capabilities.memory.model import ACCESSED, ACCESSES
from knowloom.engine import Engine
from knowloom.errors import Conflict, NotFound
from knowloom.model import Edge, Item, Kind

log = logging.getLogger(__name__)


class MemoryRepository:
    """The items of kind memory in one space of the engine."""

    def __init__(self, kb: Engine, workspace: str) -> None:
        self._kb, self._workspace = kb, workspace

    def add(
        self,
        items: Sequence[Item],
        edges: Sequence[Edge],
        superseded: Sequence[tuple[Item, Item]],
        embed: bool,
    ) -> None:
        """Store everything in one write.

        `superseded` are memories before and after their end. A memory that is stored already stays
        unchanged; another one under the same id is a Conflict.
        """
        stored = {item.id: item for item in self._get_items([item.id for item in items])}
        for item in items:
            if item.id in stored and _content(item) != _content(stored[item.id]):
                raise Conflict(
                    f"memory {item.id!r} already exists in workspace {self._workspace!r}; "
                    "pass supersedes to replace it",
                    "exists",
                )
        new = [item for item in items if item.id not in stored]
        expected = {item.key: "" for item in new}
        expected |= {before.key: codec.version(before) for before, _ in superseded}
        changed = [*new, *(after for _, after in superseded)]
        report = self._kb.add(changed, edges, embed=embed, expected=expected)
        for problem in report.problems:
            log.warning("memory: %s", problem)

    def count_access(self, ids: Sequence[str], now: datetime) -> None:
        """Increment the access counts. A memory that changed concurrently is skipped."""
        for item in self.get(ids):
            access = {
                ACCESSED: codec.time_to_text(now),
                ACCESSES: int(item.properties.get(ACCESSES, 0)) + 1,
            }
            counted = replace(
                item,
                properties={**item.properties, **access},
                updated_at=item.updated_at or item.created_at,
            )
            try:
                self._kb.add(counted, embed=False, expected={item.key: codec.version(item)})
            except Conflict:
                log.info("memory %s changed while its access was counted", item.id)

    def get(self, ids: Sequence[str]) -> list[Item]:
        """Return the stored memories; unknown ids are left out."""
        return [item for item in self._get_items(ids) if item.kind is Kind.MEMORY]

    def require(self, ids: Sequence[str]) -> list[Item]:
        """Return the memories; raise NotFound if an id is unknown."""
        items = self.get(ids)
        stored = {item.id for item in items}
        for id in ids:
            if id not in stored:
                raise NotFound(f"no memory {id!r} in workspace {self._workspace!r}")
        return items

    def _get_items(self, ids: Sequence[str]) -> list[Item]:
        """Return items of any kind; none if the workspace does not exist yet."""
        try:
            return self._kb.get(ids, space=self._workspace)
        except NotFound:
            return []


def _content(item: Item) -> tuple[object, ...]:
    """Return the fields that make two memories the same, regardless of later bookkeeping."""
    described = (item.kind, item.text, item.type, item.subject, item.confidence, item.tags)
    return (*described, item.valid_from, item.shown_properties)
