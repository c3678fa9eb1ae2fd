"""The effect of a batch on one space, computed before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt
from knowloom.model import Change, Item, Key
from knowloom.ports import Batch, SpaceInfo
from knowloom.stores.redis.space_keys import history_member, subject_member

META_FIELDS = ("version", "items", "digest", "changes", "pending")


@dataclass(frozen=True, slots=True)
class SpaceMeta:
    """The counters of a space; `pending` names a write to several spaces that is not finished."""

    version: int = 0
    items: int = 0
    digest: int = 0
    changes: int = 0
    pending: str = ""

    @classmethod
    def decode(cls, row: Sequence[bytes | None]) -> SpaceMeta:
        version, items, digest, changes, pending = (value or b"" for value in row)
        try:
            numbers = (int(version or 0), int(items or 0), int(digest or b"0", 16))
            return cls(*numbers, int(changes or 0), pending.decode())
        except ValueError as error:
            raise Corrupt(f"the counters of a space in Redis are damaged: {error}") from error

    def info(self, name: str) -> SpaceInfo:
        return SpaceInfo(name, self.items, 0, codec.format_digest(self.digest))


@dataclass(slots=True)
class SpacePlan:
    """The new state of each item (None: deleted) and the lines to log."""

    space: str
    meta: SpaceMeta
    stored: Mapping[str, Item]
    at: datetime
    actor: str
    items: dict[str, Item | None]
    log: list[tuple[int, str, str]]  # number, id, JSON

    @classmethod
    def build(
        cls, space: str, meta: SpaceMeta, stored: Mapping[str, Item], batch: Batch
    ) -> SpacePlan:
        """Plan the part of a batch; raise for values that cannot be stored."""
        plan = cls(space, meta, stored, batch.at, batch.actor, {}, [])
        for key, version in batch.expected:
            if key[0] == space:
                codec.check_version(key, version, stored.get(key[1]))
        for key in batch.deleted:
            if key[0] == space:
                plan._put(key[1], None)
        for item in batch.items:
            if item.space == space:
                plan._put(item.id, copy_item(item))
        return plan

    def _put(self, id: str, item: Item | None) -> None:
        before = self.items[id] if id in self.items else self.stored.get(id)
        if before is None and item is None:
            return
        self.items[id] = item
        self.add_line(id, "delete" if item is None else "update" if before else "add", before)

    def add_line(self, id: str, action: str, before: Item | None = None) -> None:
        number = self.meta.changes + len(self.log) + 1
        row = {"at": codec.time_to_text(self.at), "id": id, "action": action}
        state = None if before is None else codec.item_to_dict(before)
        line = codec.to_json(row | {"before": state, "actor": self.actor})
        self.log.append((number, id, line))

    def encode(self) -> str:
        """Return the plan for a script; all of its values are texts."""
        count, digest = self.meta.items, self.meta.digest
        removed: list[str] = []
        added: list[str] = []
        for id, item in self.items.items():
            for state, sign, members in ((self.stored.get(id), -1, removed), (item, 1, added)):
                if state is not None:
                    count += sign
                    digest += sign * codec.fingerprint(codec.item_to_dict(state))
                    if state.subject is not None:
                        members.append(subject_member(state.subject, id))
        rows = {id: item for id, item in self.items.items() if item is not None}
        return codec.to_json(
            {
                "put": [[id, codec.to_json(codec.item_to_dict(item))] for id, item in rows.items()],
                "delete": [id for id in self.items if id not in rows],
                "removed_subjects": removed,
                "added_subjects": added,
                "log": [[str(number), line] for number, _, line in self.log],
                "history": [history_member(id, number) for number, id, _ in self.log],
                "items": str(count),
                "digest": codec.format_digest(digest),
                "changes": str(self.meta.changes + len(self.log)),
            }
        )


def copy_item(item: Item) -> Item:
    """Return the item as it is read back; raises for values that JSON cannot represent."""
    return codec.item_from_dict(json.loads(codec.to_json(codec.item_to_dict(item))))


def decode_item(key: Key, data: bytes) -> Item:
    try:
        return codec.item_from_dict(json.loads(data))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise Corrupt(
            f"item {key[1]!r} of space {key[0]!r} in Redis is not what knowloom wrote ({error}): "
            "restore it from a backup"
        ) from error


def decode_change(space: str, number: int, data: bytes | None) -> Change:
    try:
        row: dict[str, Any] = json.loads(data or b"")
        before = None if row["before"] is None else codec.item_from_dict(row["before"])
        at, erased = codec.text_to_time(row["at"]), row.get("erased", False)
        return Change(
            number, at, space, row["id"], row["action"], before, None, row["actor"], erased
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise Corrupt(
            f"change {number} of space {space!r} in Redis is damaged ({error}): "
            "restore it from a backup"
        ) from error


def erase_line(data: bytes) -> str:
    """Return a line of the log without the state before the change."""
    row: dict[str, Any] = json.loads(data)
    return codec.to_json(row | {"before": None, "erased": True})
