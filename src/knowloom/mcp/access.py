"""Access of one connection to the knowledge: its spaces, its rights and its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from knowloom import tiers
from knowloom.capabilities.memory.memory import Memory
from knowloom.capabilities.reading import find_key, read_by_name
from knowloom.capabilities.related import find_related
from knowloom.client.client import Client
from knowloom.context.item_pages import ItemPage
from knowloom.conversation.shown_record import ShownRecord
from knowloom.engine import Engine
from knowloom.errors import Forbidden, Invalid, NotFound, list_names
from knowloom.filters.condition_json import WhereArgument
from knowloom.model import Context, Hits, Item, Key
from knowloom.options import ContextArguments, SearchArguments
from knowloom.tiers import Tier
from knowloom.validation import choose_space

ALL = None  # instead of a list of spaces
ID_LENGTH = 12  # hexadecimal digits of a memory's id


@dataclass(frozen=True, slots=True)
class KnowledgeAccess:
    """The calls that tools make, on an engine or on a server through its client.

    `readable` and `writable` select spaces among the stored ones; `granted` may be written before
    they are stored. Queries run inside of `reading`, and contexts are passed to `record`.
    """

    kb: Engine | Client
    spaces: tuple[str, ...] | None = ALL
    read_only: bool = False
    model: str = "gpt-4"
    tier: Tier | None = None
    readable: Callable[[Sequence[str]], list[str]] = list
    writable: Callable[[Sequence[str]], list[str]] = list
    granted: tuple[str, ...] = ()
    reading: Callable[[], AbstractContextManager[None]] = nullcontext
    record: Callable[[Context], None] = lambda _: None
    shown: ShownRecord | None = None  # of a connection that remembers what it showed

    # Spaces

    def list_spaces(self) -> list[str]:
        """Return the spaces that are served: those of the connection, or all readable ones."""
        return list(self.count_items() if self.spaces is ALL else self.spaces)

    def count_items(self) -> dict[str, int]:
        """Return the readable stored spaces with their numbers of items."""
        counts = (
            self.kb.spaces()
            if isinstance(self.kb, Client)
            else {info.name: info.items for info in self.kb.reader.spaces()}
        )
        allowed = set(self.readable(sorted(counts)))
        if self.spaces is not ALL:
            allowed &= set(self.spaces)
        return {name: items for name, items in sorted(counts.items()) if name in allowed}

    def choose(self, space: str | None) -> list[str]:
        """Return the spaces of a request: the one that it names, or all that are served."""
        served = self.list_spaces()
        if space is None:
            if not served:
                raise NotFound("nothing is stored yet: call remember, or load files first")
            return served
        if space not in served:
            raise NotFound(f"no space {space!r}; available: {list_names(served)}")
        return [space]

    def choose_writable(self, space: str | None) -> str:
        """Return the space to write to: the one named, the only one, or "default"."""
        if self.read_only:
            raise Forbidden("this connection is read-only")
        if space is not None and self.spaces is not ALL and space not in self.spaces:
            raise NotFound(f"no space {space!r}; available: {list_names(self.spaces)}")
        stored = self.writable(self.list_spaces())
        target = space or choose_space(stored or sorted(self.granted))
        if not self.writable([target]):
            raise Forbidden(f"the key may not write space {target!r}")
        return target

    # Reading

    def context(self, question: str, spaces: Sequence[str], max_tokens: int) -> Context:
        options: ContextArguments = {"max_tokens": max_tokens, "model": self.model}
        options["citations"] = True
        if self.shown is not None:
            options["seen"] = self.shown.entries()
        if self.tier is not None:
            options["tier"] = self.tier
        with self.reading():
            context = self.kb.context(question, spaces=spaces, **options)
        self.record(context)
        return context

    def search(self, query: str, spaces: Sequence[str], limit: int) -> Hits:
        options: SearchArguments = {"limit": limit}
        if self.tier is not None:
            options["tier"] = self.tier
        with self.reading():
            return self.kb.search(query, spaces=spaces, **options)

    def read(self, name: str, spaces: Sequence[str], page: int, max_tokens: int) -> ItemPage:
        self._check_full("reading items")
        with self.reading():
            return read_by_name(
                self.kb, name, spaces, page=page, max_tokens=max_tokens, model=self.model
            )

    def related(self, name: str, spaces: Sequence[str], limit: int) -> Hits:
        """Return the neighbours of an item, given by its id or another name."""
        self._check_full("reading links")
        with self.reading():
            try:
                return self._related(name, spaces, limit)
            except (Invalid, NotFound):
                key = find_key(self.kb, name, spaces)
                if key is None:
                    raise
                return self._related(key[1], [key[0]], limit)

    def _related(self, id: str, spaces: Sequence[str], limit: int) -> Hits:
        if isinstance(self.kb, Client):
            return self.kb.related(id, space=spaces, limit=limit)
        return find_related(self.kb, id, space=spaces, limit=limit)

    def items(
        self,
        spaces: Sequence[str],
        *,
        kinds: Sequence[str] = (),
        where: WhereArgument = None,
        limit: int | None = None,
        after: Key | None = None,
    ) -> Iterator[Item]:
        self._check_full("reading items")
        return self.kb.items(spaces, kinds=kinds, where=where, limit=limit, after=after)

    # Writing

    def remember(self, text: str, space: str, replaces: str | None, pinned: bool) -> str:
        """Store a memory and return its id; storing the same text again changes nothing."""
        id = f"m-{sha256(text.encode(errors='replace')).hexdigest()[:ID_LENGTH]}"
        if replaces == id:
            raise Invalid(f"memory {id!r} cannot replace itself: the text is the same")
        if not self._has_memory(id, space) or replaces or pinned:
            values: dict[str, Any] = {"id": id, "pinned": pinned, "supersedes": replaces or ()}
            self._memory(space).remember(text, **values)
        return id

    def forget(self, id: str, space: str) -> None:
        if not self._memory(space).forget(id):
            raise NotFound(f"no memory {id!r} in space {space!r}; only memories can be forgotten")

    def _has_memory(self, id: str, space: str) -> bool:
        try:
            return bool(self.kb.get(id, space=space))
        except NotFound:  # the space is new
            return False

    def _memory(self, space: str) -> Any:
        return (
            self.kb.memory(space)
            if isinstance(self.kb, Client)
            else Memory(self.kb, space, tier=self.tier)
        )

    def _check_full(self, feature: str) -> None:
        if self.tier is not None:
            tiers.check_full(self.tier, feature)
