"""The Redis store: profiles on one server or on a cluster, for any number of processes."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt, Invalid, Unavailable
from knowloom.keyvalue.redis_address import parse_redis_address
from knowloom.keyvalue.redis_client import RedisClient
from knowloom.model import Change, Filter, Item, Key
from knowloom.ports import Batch, SpaceInfo
from knowloom.stores.redis.redis_upkeep import RedisUpkeep
from knowloom.stores.redis.space_keys import (
    FORMAT,
    SpaceKeys,
    escape,
    format_key,
    history_member,
    spaces_key,
)
from knowloom.stores.redis.space_plan import (
    META_FIELDS,
    SpaceMeta,
    SpacePlan,
    decode_change,
    decode_item,
    erase_line,
)
from knowloom.stores.redis.space_writer import SpaceWriter

CHUNK = 500  # items or changes read at a time


class RedisStore:
    """Items without edges: profiles have theirs in the store of the other items."""

    ROLES = ("metadata",)
    SCHEME = "redis"

    def __init__(
        self, client: RedisClient, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._prefix = client, client.address.prefix
        self._writer = SpaceWriter(client, monotonic)
        self._thread = local()  # `depth` of nested blocks that read
        self._check_format()

    @classmethod
    def open(cls, url: str) -> RedisStore:
        client = RedisClient(parse_redis_address(f"{cls.SCHEME}://{url}"))
        try:
            return cls(client)
        except BaseException:
            client.close()
            raise

    def _check_format(self) -> None:
        key = format_key(self._prefix)
        stored = self._client.read([("GET", key)])[0]
        if stored is None:
            self._client.write("SET", key, str(FORMAT), "NX")
            return
        if not stored.isdigit():
            raise Corrupt(
                f"{self._client.name}: {key!r} is a key of another program: use another prefix",
                "foreign_file",
            )
        if int(stored) > FORMAT:
            raise Unavailable(
                f"{self._client.name} was written by a newer knowloom (format {int(stored)}, "
                f"this one supports {FORMAT}): upgrade knowloom",
                "newer_version",
            )

    def close(self) -> None:
        self._client.close()

    def upkeep(self) -> RedisUpkeep:
        return RedisUpkeep(self, self._client.name)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise Unavailable if the server is down; each call reads a state of its own."""
        depth = getattr(self._thread, "depth", 0)
        if not depth:
            self._client.read([("EXISTS", format_key(self._prefix))])
        self._client.require_open()
        self._thread.depth = depth + 1
        try:
            yield
        finally:
            self._thread.depth = depth

    # writing

    def apply(self, batch: Batch) -> None:
        if batch.edges or batch.deleted_edges:
            raise Invalid("Redis stores profiles only; edges belong in the store of the items")
        self._client.require_open()
        touched: dict[str, dict[str, None]] = {}
        keys = (*batch.deleted, *(item.key for item in batch.items))
        for space, id in (*keys, *(key for key, _ in batch.expected)):
            touched.setdefault(space, {})[id] = None
        ids = {space: list(names) for space, names in sorted(touched.items())}

        def plan(space: str, meta: SpaceMeta, stored: Mapping[str, Item]) -> SpacePlan:
            return SpacePlan.build(space, meta, stored, batch)

        if ids:
            self._writer.write(ids, plan)

    def log_purges(self, keys: Sequence[Key], batch: Batch) -> None:
        """Log that these items were purged."""
        spaces = {space: [id for name, id in keys if name == space] for space, _ in keys}

        def plan(space: str, meta: SpaceMeta, _: Mapping[str, Item]) -> SpacePlan:
            plan = SpacePlan.build(space, meta, {}, Batch(batch.at, actor=batch.actor))
            for id in spaces[space]:
                plan.add_line(id, "purge")
            return plan

        if spaces:
            self._writer.write(spaces, plan)

    def erase_states(self, space: str, numbers: Sequence[int]) -> None:
        """Erase what was before these changes."""
        keys = self._keys(space)
        for page in _pages(numbers):
            rows = self._client.read([("HMGET", keys.log, *page)])[0]
            lines = [erase_line(row) for row in rows if row]
            pairs = (part for pair in zip(page, lines, strict=True) for part in pair)
            self._client.write("HSET", keys.log, *pairs)

    # items

    def _keys(self, space: str) -> SpaceKeys:
        return self._writer.keys(space)

    def _read_metas(self, names: Sequence[str]) -> dict[str, SpaceMeta]:
        """Return the counters of the spaces that exist, after finishing their pending writes."""
        metas: dict[str, SpaceMeta] = {}
        missing = list(dict.fromkeys(names))
        while missing:
            rows = self._client.read(
                [("HMGET", self._keys(name).meta, *META_FIELDS) for name in missing]
            )
            current = {name: SpaceMeta.decode(row) for name, row in zip(missing, rows, strict=True)}
            metas |= current
            missing = [
                name
                for name, meta in current.items()
                if meta.pending and self._writer.resolve(name, meta.pending)
            ]
        return {name: meta for name, meta in metas.items() if meta.version}

    def _read_rows(self, space: str, ids: Sequence[str]) -> dict[str, Item]:
        """Return items of a space, after finishing its pending write."""
        return self._read_items({space: ids})[space]

    def _read_items(self, ids: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Item]]:
        items: dict[str, dict[str, Item]] = {}
        missing = {space: names for space, names in ids.items() if names}
        while missing:
            commands: list[tuple[str, ...]] = []
            for space, names in missing.items():
                commands.append(("HMGET", self._keys(space).items, *names))
                commands.append(("HGET", self._keys(space).meta, "pending"))
            answers = iter(self._client.read(commands))
            again = {}
            for space, names in missing.items():
                rows = zip(names, next(answers), strict=True)
                items[space] = {id: decode_item((space, id), row) for id, row in rows if row}
                pending = (next(answers) or b"").decode()
                if pending and self._writer.resolve(space, pending):
                    again[space] = names
            missing = again
        return items

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        if names is None:
            members = self._client.read([("SMEMBERS", spaces_key(self._prefix))])[0]
            names = [member.decode() for member in members]
        self._client.require_open()
        metas = self._read_metas(names)
        return [metas[name].info(name) for name in sorted(metas)]

    def get(self, keys: Sequence[Key]) -> list[Item]:
        self._client.require_open()
        ids: dict[str, dict[str, None]] = {}
        for space, id in keys:
            ids.setdefault(space, {})[id] = None
        items = self._read_items({space: list(names) for space, names in ids.items()})
        stored = (items[space].get(id) for space, id in keys)
        return [codec.copy_value(item) for item in stored if item is not None]

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        allowed = {item.key for item in self.get(list(dict.fromkeys(keys))) if only.allows(item)}
        return [key for key in keys if key in allowed]

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        self._client.require_open()
        result: list[Item] = []
        for space in sorted(set(only.spaces)):
            if after is not None and space < after[0]:
                continue
            start = after[1] if after is not None and space == after[0] else None
            for item in self._scan(space, only, start):
                if len(result) >= limit:
                    return result
                result.append(item)
        return result

    def _scan(self, space: str, only: Filter, after: str | None) -> Iterator[Item]:
        """Yield the allowed items of a space by id."""
        pages = self._subject_ids(space, only, after) if only.subjects else self._ids(space, after)
        for ids in pages:
            items = self._read_rows(space, ids)
            yield from (items[id] for id in ids if id in items and only.allows(items[id]))

    def _ids(self, space: str, after: str | None) -> Iterator[list[str]]:
        self._read_metas([space])
        key = self._keys(space).ids
        start: str | bytes = "-" if after is None else b"(" + after.encode()
        while page := self._client.read([("ZRANGEBYLEX", key, start, "+", "LIMIT", 0, CHUNK)])[0]:
            yield [id.decode() for id in page]
            start = b"(" + page[-1]

    def _subject_ids(self, space: str, only: Filter, after: str | None) -> Iterator[list[str]]:
        self._read_metas([space])
        key = self._keys(space).subjects
        names = [escape(subject) for subject in dict.fromkeys(only.subjects)]
        answers = self._client.read(
            [("ZRANGEBYLEX", key, f"[{name} ", f"({name}!") for name in names]
        )
        members = (member.decode() for answer in answers for member in answer)
        ids = sorted({member.partition(" ")[2] for member in members})
        yield from _pages([id for id in ids if after is None or id > after])

    def count(self, only: Filter) -> int:
        if only == Filter(only.spaces):
            return sum(info.items for info in self.spaces(only.spaces))
        return sum(1 for space in set(only.spaces) for _ in self._scan(space, only, None))

    # changes

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        self._client.require_open()
        meta = self._read_metas([space]).get(space, SpaceMeta())
        numbers = range(max(0, after) + 1, min(meta.changes, after + limit) + 1)
        return self.read_changes(space, numbers)

    def read_changes(self, space: str, numbers: Sequence[int]) -> list[Change]:
        changes: list[Change] = []
        for page in _pages(numbers):
            rows = self._client.read([("HMGET", self._keys(space).log, *page)])[0]
            pairs = zip(page, rows, strict=True)
            changes += [decode_change(space, number, row) for number, row in pairs]
        return changes

    def read_log(self) -> list[Change]:
        """Return the change logs of all spaces by time."""
        logs = (
            self.read_changes(name, range(1, meta.changes + 1))
            for name, meta in sorted(self._read_metas(self._space_names()).items())
        )
        return sorted((change for log in logs for change in log), key=lambda change: change.at)

    def _space_names(self) -> list[str]:
        return [info.name for info in self.spaces()]

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        self._client.require_open()
        numbers: dict[str, set[int]] = {}
        unique = list(dict.fromkeys(keys))
        self._read_metas([space for space, _ in unique])
        ranges = [_history_range(self._keys(space), id) for space, id in unique]
        for (space, _), members in zip(
            unique, self._client.read(ranges) if ranges else [], strict=True
        ):
            numbers.setdefault(space, set()).update(int(m.rpartition(b" ")[2]) for m in members)
        logs = [self.read_changes(space, sorted(numbers[space])) for space in sorted(numbers)]
        return list(heapq.merge(*logs, key=lambda change: change.at))

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        """Read every item and every change, and compare them with the counters."""
        self._client.require_open()
        problems: list[str] = []
        for name, meta in sorted(self._read_metas(self._space_names()).items()):
            try:
                items = list(self._scan(name, Filter((name,)), None))
                changes = self.read_changes(name, range(1, meta.changes + 1))
            except Corrupt as error:
                problems.append(str(error))
                continue
            digest = sum(codec.fingerprint(codec.item_to_dict(item)) for item in items)
            last = {change.id: change.action for change in changes if change.action != "purge"}
            logged = sorted(id for id, action in last.items() if action != "delete")
            if codec.format_digest(digest) != codec.format_digest(meta.digest):
                problems.append(f"the items of space {name!r} differ from its digest")
            if logged != [item.id for item in items] or len(items) != meta.items:
                problems.append(f"the items of space {name!r} differ from its change log")
        return problems


class EncryptedRedisStore(RedisStore):
    """The same over TLS."""

    SCHEME = "rediss"


def _history_range(keys: SpaceKeys, id: str) -> tuple[Any, ...]:
    return ("ZRANGEBYLEX", keys.history, f"[{history_member(id, 0)}", f"({escape(id)}!")


def _pages(values: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(values), CHUNK):
        yield list(values[start : start + CHUNK])
