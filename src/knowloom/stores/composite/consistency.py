"""Listing the content of stores page by page, and merging their change logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from knowloom.model import Change, Filter, Item, Key
from knowloom.ports import ItemStore

PAGE_SIZE = 1000
# The order of a batch's steps, to merge the changes of one batch from two logs.
_STEPS = {"unlink": 0, "delete": 1, "add": 2, "update": 2, "link": 3, "purge": 4}


class Scannable(Protocol):
    """A store whose items can be listed."""

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]: ...


def scan_items(store: Scannable, spaces: Sequence[str]) -> Iterator[Item]:
    after: Key | None = None
    while page := store.find(Filter(tuple(spaces)), PAGE_SIZE, after):
        yield from page
        after = page[-1].key


def scan_changes(store: ItemStore, space: str) -> Iterator[Change]:
    after = 0
    while page := store.changes(space, after, PAGE_SIZE):
        yield from page
        after = page[-1].number


def describe_duplicates(items: Sequence[Item]) -> list[str]:
    """Report the items that are profiles, too."""
    return [
        f"item {item.id!r} of space {item.space!r} is in two stores: run reindex" for item in items
    ]


def merge_logs(first: Sequence[Change], second: Sequence[Change]) -> list[Change]:
    """Merge two logs by time and number the lines anew.

    Lines of both logs with the same time are one batch, ordered by the steps of a batch.
    """
    both = [(change, 0) for change in first] + [(change, 1) for change in second]
    both.sort(key=lambda pair: pair[0].at)
    merged: list[Change] = []
    for _, group in groupby(both, key=lambda pair: pair[0].at):
        batch = list(group)
        if len({log for _, log in batch}) > 1:
            batch.sort(key=lambda pair: _STEPS[pair[0].action])
        merged += [change for change, _ in batch]
    return [replace(change, number=number) for number, change in enumerate(merged, 1)]
