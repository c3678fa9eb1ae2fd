"""Under which labels an item is entered in the index of names: what it is called, what its text may name, where it is, what it refers to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from weft.ingest.finding import Named, label
from weft.ingest.keys import Text, key_of
from weft.ingest.links import NOTHING, addresses, called_by, references, shared
from weft.ingest.signs import beginnings
from weft.model import Item

# What the first letters of a label say. MENTIONS alone depends on other items: on the names they go by.
CALLED, KEY, BEGINS, SAYS, SPAN, AT, REFERS_TO, MENTIONS = (
    "c:",
    "k:",
    "b:",
    "s:",
    "p:",
    "a:",
    "r:",
    "m:",
)


def labels(item: Item, text: Text, named: Named | None = None) -> tuple[str, ...]:
    """All that can be told from the item alone, each once; `text` is its text, `named` what a finder of names found in it. What that
    mentions is not told: it depends on the names of others. The keys in the text, which are many, come last."""
    called = called_by(item, named or NOTHING)
    found = [f"{CALLED}{name}" for name in called]
    found += dict.fromkeys(f"{KEY}{key_of(name)}" for name in called)
    found += dict.fromkeys(f"{BEGINS}{one}" for name in called for one in beginnings(name))
    found += [f"{SPAN}{name}" for name in shared(item, named or NOTHING)]
    found += [f"{AT}{address}" for address in addresses(item)]
    found += [f"{REFERS_TO}{type} {address}" for type, address in references(item)]
    found += [] if named is None else [label(item.text, named)]
    return (*found, *[f"{SAYS}{one}" for one in text.keys])


def of(role: str, entered: Iterable[str]) -> list[str]:
    """Those of the labels that have a role, without it."""
    return [label[len(role) :] for label in entered if label.startswith(role)]


def told(entered: Sequence[str]) -> Sequence[str]:
    """The labels without the keys in the text, which come last."""
    return entered[: bisect_left(entered, True, key=_says)]


def by_role(entered: Iterable[str]) -> dict[str, list[str]]:
    """What stands behind the role of each label, by role."""
    found: dict[str, list[str]] = {}
    for one in entered:
        found.setdefault(one[:2], []).append(one[2:])
    return found


def _says(label: str) -> bool:
    return label.startswith(SAYS)
