"""Items by the names that a reader has for them: an id, "space/id" or a title."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, Unpack, runtime_checkable

from knowloom.context.item_pages import ItemPage
from knowloom.errors import Invalid, NotFound
from knowloom.model import Hit, Key
from knowloom.options import ReadArguments

log = logging.getLogger(__name__)


@runtime_checkable
class ReadableKnowledge(Protocol):
    """The calls of an Engine and a Client that reading items by name uses."""

    @property
    def search(self) -> Callable[..., list[Hit]]: ...

    @property
    def read(self) -> Callable[..., ItemPage]: ...


def read_by_name(
    kb: ReadableKnowledge, name: str, spaces: Sequence[str], **options: Unpack[ReadArguments]
) -> ItemPage:
    """Read a page of an item by its id, by "space/id" as pages name it, or by its title."""
    try:
        return kb.read(name, space=list(spaces), **options)
    except (Invalid, NotFound) as error:
        key = find_key(kb, name, spaces)
        if key is None:
            raise
        log.debug("read %s: by another name", error.code)
        return kb.read(key[1], space=key[0], **options)


def find_key(kb: ReadableKnowledge, name: str, spaces: Sequence[str]) -> Key | None:
    """Return the key that a name other than an id stands for, None without one."""
    space, _, id = name.partition("/")
    if id and space in spaces:
        return space, id
    hits = kb.search(name, spaces=spaces, mode="bm25") if any(map(str.isalnum, name)) else []
    titles = [hit.item.key for hit in hits if hit.item.title.casefold() == name.casefold()]
    return titles[0] if titles else None
