"""Words in the SQLite file: writing postings, and BM25 over them with the statistics of the asked spaces alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import apsw
import numpy as np
import numpy.typing as npt

from knowloom.stores.sqlite.space_view import BLOCK, SpaceView
from knowloom.text import words

DELTA_LIMIT = (
    1024  # items that may wait outside the postings: reading them costs a new process about 10 ms
)

Scores = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]


def score_all(
    connection: apsw.Connection, views: Sequence[SpaceView], text: str
) -> tuple[list[Scores], float]:
    """For each view the score of every place, 0 where no word is shared; and the best that any text could have, by which scores are to be divided:
    few of them are looked at."""
    query = list(dict.fromkeys(words.words(text)))
    documents = sum(view.items for view in views)
    length = sum(view.length for view in views)
    result = [np.zeros(view.next) for view in views]
    if not query or not documents or not length:
        return result, 1.0
    norms = [view.norms(documents / length) for view in views]
    best = 0.0
    for held in zip(*(view.held(connection, query) for view in views), strict=True):
        rarity = words.rarity(documents, sum(len(places) for places, _ in held))
        best += rarity
        for (places, counts), norm, score in zip(held, norms, result, strict=True):
            # score[places] += rarity * counts / (counts + norm[places]), step by step in place: six tenths of the time.
            said = counts.astype(np.float64)
            lengths = norm.take(places)
            lengths += said
            said *= rarity
            said /= lengths
            said += score.take(places)
            score[places] = said
    return result, best


def score_places(
    connection: apsw.Connection, views: Sequence[SpaceView], text: str, places: Sequence[Positions]
) -> list[Scores]:
    """For each view the scores of these places alone: the same numbers for a fraction of the work."""
    query = list(dict.fromkeys(words.words(text)))
    documents = sum(view.items for view in views)
    length = sum(view.length for view in views)
    result = [np.zeros(len(some)) for some in places]
    if not query or not documents or not length:
        return result
    held = [_held(connection, view, query, some) for view, some in zip(views, places, strict=True)]
    rarity = np.array(
        [
            words.rarity(documents, sum(holders))
            for holders in zip(*(holders for holders, _ in held), strict=True)
        ]
    )
    for score, view, some, (_, counts) in zip(result, views, places, held, strict=True):
        # Word after word, as `scores` adds them up: the same numbers to the last digit.
        score += np.add.reduce(
            rarity[:, None] * counts / (counts + view.norms(documents / length)[some]), axis=0
        )
        score /= sum(rarity.tolist())
    return result


def _held(
    connection: apsw.Connection, view: SpaceView, query: Sequence[str], places: Positions
) -> tuple[list[int], Scores]:
    """How many items hold each word; and, a row for each word, how often the items at these places do."""
    held = view.held(connection, query)
    counts = np.zeros((len(query), len(places)))
    for row, (holders, often) in zip(counts, held, strict=True):
        if len(holders):
            at = np.minimum(holders.searchsorted(places), len(holders) - 1)
            np.multiply(often.take(at), holders.take(at) == places, out=row)
    return [len(holders) for holders, _ in held], counts


def add_items(
    connection: apsw.Connection, space: int, version: int, found: Mapping[int, Mapping[str, int]]
) -> None:
    """Index items (place -> word -> count). Few wait in `fresh`; when many have gathered they are merged into the postings."""
    base = space << 32
    ((waiting,),) = connection.execute(
        "SELECT count(*) FROM fresh WHERE row BETWEEN ? AND ?", (base, base + 0xFFFFFFFF)
    )
    if waiting + len(found) < DELTA_LIMIT:
        capped = (
            (place, {word: _capped(count) for word, count in counts.items()})
            for place, counts in found.items()
        )
        rows = (
            (base + place, version, json.dumps(counts, ensure_ascii=False))
            for place, counts in capped
        )
        connection.executemany("INSERT INTO fresh VALUES (?, ?, ?)", rows)
        return
    merge_postings(connection, space, {**drain_delta(connection, space, version), **found}, {})


def remove_items(
    connection: apsw.Connection, space: int, version: int, found: Mapping[int, Iterable[str]]
) -> None:
    """Forget items (place -> words), wherever their words are."""
    base = space << 32
    settled: dict[int, Iterable[str]] = {}
    for place, held in found.items():
        connection.execute("DELETE FROM fresh WHERE row = ?", (base + place,))
        if not connection.changes():
            settled[place] = held
    if len(settled) < len(found):
        connection.execute("UPDATE space SET reset = ? WHERE no = ?", (version, space))
    merge_postings(connection, space, {}, settled)


def drain_delta(connection: apsw.Connection, space: int, version: int) -> dict[int, dict[str, int]]:
    base = space << 32
    rows = list(
        connection.execute(
            "SELECT row, words FROM fresh WHERE row BETWEEN ? AND ?", (base, base + 0xFFFFFFFF)
        )
    )
    connection.execute("DELETE FROM fresh WHERE row BETWEEN ? AND ?", (base, base + 0xFFFFFFFF))
    connection.execute("UPDATE space SET reset = ? WHERE no = ?", (version, space))
    return {row - base: json.loads(counts) for row, counts in rows}


def merge_postings(
    connection: apsw.Connection,
    space: int,
    added: Mapping[int, Mapping[str, int]],
    removed: Mapping[int, Iterable[str]],
) -> None:
    """Rewrite the postings of every word concerned, once each."""
    steps = [
        (word, place // BLOCK, place % BLOCK, count)
        for place, counts in added.items()
        for word, count in counts.items()
    ]
    steps += [
        (word, place // BLOCK, place % BLOCK, 0) for place, held in removed.items() for word in held
    ]
    steps.sort()
    for (word, block), group in groupby(steps, key=lambda step: step[:2]):
        _rewrite(connection, space, word, block, {place: count for _, _, place, count in group})


def _rewrite(
    connection: apsw.Connection, space: int, word: str, block: int, changes: Mapping[int, int]
) -> None:
    """Give places of one posting, in ascending order, a new count; 0 takes them out."""
    stored = list(
        connection.execute(
            "SELECT id, data FROM posting WHERE space = ? AND word = ? AND block = ?",
            (space, word, block),
        )
    )
    data = _changed(stored[0][1] if stored else b"", changes)
    if stored and data:
        connection.execute("UPDATE posting SET data = ? WHERE id = ?", (data, stored[0][0]))
    elif stored:
        connection.execute("DELETE FROM posting WHERE id = ?", (stored[0][0],))
    elif data:
        connection.execute(
            "INSERT INTO posting(space, word, block, data) VALUES (?, ?, ?, ?)",
            (space, word, block, data),
        )


def _changed(old: bytes, changes: Mapping[int, int]) -> bytes:
    middle = len(old) // 3 * 2
    behind = not old or int.from_bytes(old[middle - 2 : middle], "little") < next(iter(changes))
    if behind and all(changes.values()):
        # New items come behind the stored ones: nothing to look for, and five times as fast as the general way.
        return (
            old[:middle]
            + struct.pack(f"<{len(changes)}H", *changes)
            + old[middle:]
            + bytes(map(_capped, changes.values()))
        )
    return (
        _one_changed(old, middle, *next(iter(changes.items())))
        if len(changes) == 1
        else _many_changed(old, middle, changes)
    )


# A posting of a common word has tens of thousands of places: they are moved as a whole, never one by one.
def _one_changed(old: bytes, middle: int, place: int, count: int) -> bytes:
    places = np.frombuffer(old, "<u2", middle // 2)
    at = int(places.searchsorted(place))
    end = at + (at < len(places) and int(places[at]) == place)
    new = (struct.pack("<H", place), bytes([_capped(count)])) if count else (b"", b"")
    return b"".join(
        (
            old[: 2 * at],
            new[0],
            old[2 * end : middle],
            old[middle : middle + at],
            new[1],
            old[middle + end :],
        )
    )


def _many_changed(old: bytes, middle: int, changes: Mapping[int, int]) -> bytes:
    places, counts = (
        np.frombuffer(old, "<u2", middle // 2),
        np.frombuffer(old, np.uint8, offset=middle),
    )
    kept = np.isin(places, np.fromiter(changes, "<u2", len(changes)), invert=True)
    places, counts = places[kept], counts[kept]
    added = {place: _capped(count) for place, count in changes.items() if count}
    new = np.fromiter(added, "<u2", len(added))
    where = places.searchsorted(new)
    return bytes(
        np.insert(places, where, new).tobytes()
        + np.insert(counts, where, list(added.values())).tobytes()
    )


def _capped(count: int) -> int:
    return min(count, words.MAX_COUNT)
