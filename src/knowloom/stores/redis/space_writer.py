"""Writes to spaces: a script for one space, and a two-phase commit for several.

A plan is computed from a version of the space, and its script does nothing if the space has another
one by then. A write to several spaces, which may be on different nodes, is first staged in each of
them. It is committed by one key, its decision; then each space is finished. Whoever finds a staged
write of a process that was killed finishes or cancels it, as the decision says.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from knowloom.errors import Unavailable
from knowloom.keyvalue.redis_client import RedisClient
from knowloom.model import Item
from knowloom.stores.redis import scripts
from knowloom.stores.redis.space_keys import SpaceKeys, spaces_key
from knowloom.stores.redis.space_plan import META_FIELDS, SpaceMeta, SpacePlan, decode_item

WAIT_S = 30.0  # for other writers of a space
ABANDONED_S = 5  # after which an undecided write of another process is cancelled
DECISION_S = 86_400  # that a cancelled write is remembered

Planner = Callable[[str, SpaceMeta, Mapping[str, Item]], SpacePlan]


class SpaceWriter:
    """Reads the current state, plans and commits, until no other writer comes in between."""

    def __init__(self, client: RedisClient, monotonic: Callable[[], float]) -> None:
        self._client, self._monotonic = client, monotonic
        self._prefix = client.address.prefix

    def keys(self, space: str) -> SpaceKeys:
        return SpaceKeys(self._prefix, space)

    def write(self, ids: Mapping[str, Sequence[str]], plan: Planner) -> None:
        """Write plans for the spaces of `ids`, all or none; those without changes are left out."""
        deadline = self._monotonic() + WAIT_S
        pause_s = 0.001
        while True:
            plans = [plan(*state) for state in self._read(ids)]
            plans = [plan for plan in plans if plan.log]
            if not plans or self._commit(plans):
                return
            if self._monotonic() > deadline:
                raise Unavailable(
                    f"{self._client.name}: other writers hold the space for more than "
                    f"{WAIT_S:g} s: retry",
                    "busy",
                )
            time.sleep(pause_s * random.random())
            pause_s = min(0.1, pause_s * 2)

    def _read(
        self, ids: Mapping[str, Sequence[str]]
    ) -> list[tuple[str, SpaceMeta, dict[str, Item]]]:
        commands: list[tuple[str, ...]] = []
        for space, touched in ids.items():
            keys = self.keys(space)
            commands.append(("HMGET", keys.meta, *META_FIELDS))
            commands.append(("HMGET", keys.items, *(touched or [""])))
        answers = iter(self._client.read(commands))
        states = []
        for space, touched in ids.items():
            meta = SpaceMeta.decode(next(answers))
            rows = zip(touched, next(answers), strict=False)
            states.append(
                (space, meta, {id: decode_item((space, id), row) for id, row in rows if row})
            )
        return states

    def _commit(self, plans: Sequence[SpacePlan]) -> bool:
        """Return False if another writer came first."""
        for plan in plans:
            if plan.meta.pending:
                self.resolve(plan.space, plan.meta.pending, is_writer=True)
                return False
        new = [plan.space for plan in plans if not plan.meta.version]
        if new:  # a space that is listed and has no counters does not exist
            self._client.write("SADD", spaces_key(self._prefix), *new)
        if len(plans) > 1:
            return self._commit_several(sorted(plans, key=lambda plan: plan.space))
        (plan,) = plans
        keys = self.keys(plan.space)
        arguments = (str(plan.meta.version), plan.encode())
        return bool(
            self._client.run_script(scripts.COMMIT, keys.written, *arguments) == scripts.DONE
        )

    def _commit_several(self, plans: Sequence[SpacePlan]) -> bool:
        decision = self.keys(plans[0].space).decision(uuid4().hex)
        for number, plan in enumerate(plans):
            arguments = (str(plan.meta.version), decision, plan.encode())
            answer = self._client.run_script(
                scripts.PREPARE, [self.keys(plan.space).meta], *arguments
            )
            if answer != scripts.DONE:
                self._decide(decision, scripts.ABORTED)
                for prepared in plans[:number]:
                    self._cancel(prepared.space, decision)
                return False
        if self._decide(decision, scripts.COMMITTED) != scripts.COMMITTED:
            for plan in plans:
                self._cancel(plan.space, decision)
            return False
        for plan in plans:
            self._finish(plan.space, decision)
        self._client.write("DEL", decision)
        return True

    def _decide(self, decision: str, outcome: str) -> str:
        """Decide a write unless it is decided; return the outcome."""
        expiry = ("EX", DECISION_S) if outcome == scripts.ABORTED else ()
        if self._client.write("SET", decision, outcome, "NX", *expiry):
            return outcome
        return self._read_decision(decision)

    def _read_decision(self, decision: str) -> str:
        answer: bytes | None = self._client.read([("GET", decision)])[0]
        return (answer or b"").decode()

    def _finish(self, space: str, decision: str) -> None:
        self._client.run_script(scripts.FINISH, self.keys(space).written, decision)

    def _cancel(self, space: str, decision: str) -> None:
        self._client.run_script(scripts.CANCEL, [self.keys(space).meta], decision)

    def resolve(self, space: str, decision: str, *, is_writer: bool = False) -> bool:
        """Finish the staged write of a space if it is committed; return True if it was changed.

        A writer cancels one that was abandoned without a decision.
        """
        outcome = self._read_decision(decision)
        if not outcome and is_writer:
            age = self._client.run_script(scripts.AGE, [self.keys(space).meta])
            if int(age) >= ABANDONED_S:
                outcome = self._decide(decision, scripts.ABORTED)
        if outcome == scripts.COMMITTED:
            self._finish(space, decision)
        elif outcome == scripts.ABORTED:
            self._cancel(space, decision)
        return bool(outcome)
