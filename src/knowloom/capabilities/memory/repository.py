"""Where the memories of a workspace are kept: writing them, counting their use, getting them back."""

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


class Shelf:
    """The memories of one workspace in the engine. Items of other kinds are none of its business."""

    def __init__(self, kb: Engine, workspace: str) -> None:
        self._kb, self._workspace = kb, workspace

    def add(
        self,
        items: Sequence[Item],
        links: Sequence[Edge],
        ended: Sequence[tuple[Item, Item]],
        embed: bool,
    ) -> None:
        """One write; `ended` are memories before and after their end. What is stored already stays as it is; another memory of the
        same id is a Conflict."""
        stored = {item.id: item for item in self.all([item.id for item in items])}
        for item in items:
            if item.id in stored and not _same(item, stored[item.id]):
                raise Conflict(
                    f"memory {item.id!r} exists already in workspace {self._workspace!r}; a newer one takes its place with supersedes",
                    "exists",
                )
        new = [item for item in items if item.id not in stored]
        expected = {item.key: "" for item in new} | {
            before.key: self._kb.version(before) for before, _ in ended
        }
        report = self._kb.add(
            [*new, *(after for _, after in ended)], links, embed=embed, expected=expected
        )
        for problem in report.problems:
            log.warning("memory: %s", problem)

    def count(self, ids: Sequence[str], now: datetime) -> None:
        """Count that memories were used. One that changed meanwhile is not counted."""
        for item in self.stored(ids):
            used = {
                ACCESSED: codec.time_to_text(now),
                ACCESSES: int(item.properties.get(ACCESSES, 0)) + 1,
            }
            counted = replace(
                item,
                properties={**item.properties, **used},
                updated_at=item.updated_at or item.created_at,
            )
            try:
                self._kb.add(counted, embed=False, expected={item.key: self._kb.version(item)})
            except Conflict:
                log.info("memory %s changed while it was counted", item.id)

    def all(self, ids: Sequence[str]) -> list[Item]:
        """Items of any kind; none before the first was written."""
        try:
            return self._kb.get(ids, space=self._workspace)
        except NotFound:
            return []

    def stored(self, ids: Sequence[str]) -> list[Item]:
        return [item for item in self.all(ids) if item.kind is Kind.MEMORY]

    def known(self, ids: Sequence[str]) -> list[Item]:
        found = self.stored(ids)
        if missing := [id for id in ids if id not in {item.id for item in found}]:
            raise NotFound(f"no memory {missing[0]!r} in workspace {self._workspace!r}")
        return found


def _same(given: Item, stored: Item) -> bool:
    """Whether it was told before: it says the same of the same, whenever that was and whatever became of it since."""
    return _told(given) == _told(stored)


def _told(item: Item) -> tuple[object, ...]:
    metadata = item.shown_properties
    return (
        item.kind,
        item.text,
        item.type,
        item.subject,
        item.confidence,
        item.tags,
        item.valid_from,
        metadata,
    )
