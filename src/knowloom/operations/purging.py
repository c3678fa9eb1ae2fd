"""Purging items: from the stores, the history, the caches and the check-in records."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowloom.errors import KnowloomError
from knowloom.files import translate_errors
from knowloom.model import Item, Key
from knowloom.operations.backups import Holder
from knowloom.ports import Stores
from knowloom.structuring import records
from knowloom.text.passages import embedding_texts


@dataclass(frozen=True, slots=True)
class Purged:
    """The ids that were purged, and those that were never stored.

    `records` are the check-in records that were deleted, `backups` those that still have an item,
    `problems` the reasons why something may be left.
    """

    ids: tuple[str, ...]
    missing: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    backups: tuple[Holder, ...] = ()
    problems: tuple[str, ...] = ()


def collect_texts(keys: Sequence[Key], stores: Stores) -> list[str]:
    """Return the texts that were embedded for the items, in all of their states."""
    size = stores.words.passage_size()
    states: Iterable[Item] = (
        *stores.items.get(keys),
        *(
            change.before
            for change in stores.items.changes_of(keys)
            if isinstance(change.before, Item) and change.before.key in keys
        ),
    )
    return list(dict.fromkeys(text for item in states for text in embedding_texts(item, size)))


def find_stored(keys: Sequence[Key], stores: Stores) -> list[Key]:
    """Return those items that are stored, or were."""
    logged = {(change.space, change.id) for change in stores.items.changes_of(keys)}
    stored = {item.key for item in stores.items.get(keys)}
    return [key for key in keys if key in stored or key in logged]


def delete_records(
    folder: Path | None, keys: Sequence[Key]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Delete the check-in records from which one of the items came.

    Return their folders, and the reasons why others could not be read.
    """
    if folder is None or not folder.is_dir():
        return (), ()
    deleted: list[str] = []
    problems: list[str] = []
    with translate_errors(str(folder)):
        for path in sorted(folder.iterdir()):
            try:
                if records.mentions_items(path, keys):
                    shutil.rmtree(path)
                    deleted.append(str(path))
            except KnowloomError as error:
                problems.append(str(error))
    return tuple(deleted), tuple(problems)
