"""Batches of items to embed, and their embedding on several threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np

from knowloom.model import Item, Key
from knowloom.ports import Vector
from knowloom.text.passages import embedding_texts

BATCH_SIZE = 64  # passages embedded at a time
QUEUED_BATCHES = 2  # per thread: one is ready when another one ends

Embed = Callable[[Sequence[str]], list[Vector]]


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """Items with the texts of their passages."""

    items: tuple[tuple[Item, tuple[str, ...]], ...]

    @property
    def texts(self) -> list[str]:
        return [text for _, texts in self.items for text in texts]

    def assign(self, rows: Sequence[Vector]) -> dict[Key, Vector]:
        """Return the vectors of each item, given those of all texts in order."""
        vectors: dict[Key, Vector] = {}
        first = 0
        for item, texts in self.items:
            part = rows[first : first + len(texts)]
            vectors[item.key] = part[0] if len(texts) == 1 else np.stack(part)
            first += len(texts)
        return vectors


def build_batches(items: Iterable[Item], passage_size: int) -> Iterator[EmbeddingBatch]:
    """Group items by the number of their passages; a long item may exceed a batch."""
    batch: list[tuple[Item, tuple[str, ...]]] = []
    count = 0
    for item in items:
        texts = tuple(embedding_texts(item, passage_size))
        if batch and count + len(texts) > BATCH_SIZE:
            yield EmbeddingBatch(tuple(batch))
            batch, count = [], 0
        batch.append((item, texts))
        count += len(texts)
    if batch:
        yield EmbeddingBatch(tuple(batch))


def embed_batches(
    embed: Embed, batches: Iterable[EmbeddingBatch], threads: int
) -> Generator[tuple[EmbeddingBatch, list[Vector]]]:
    """Yield the batches in order with the vectors of their texts.

    While one batch is written, `threads` others are embedded. The first is embedded on the thread
    of the caller: a small write needs no other, and an embedder that fails does so before they run.
    """
    waiting = iter(batches)
    for batch in islice(waiting, 1):
        yield batch, _embed_texts(embed, batch)
    if threads == 1:
        yield from ((batch, _embed_texts(embed, batch)) for batch in waiting)
        return
    queue: deque[tuple[EmbeddingBatch, Future[list[Vector]]]] = deque()
    pool = ThreadPoolExecutor(threads, "knowloom-embedding")
    try:
        for batch in waiting:
            queue.append((batch, pool.submit(_embed_texts, embed, batch)))
            if len(queue) > threads * QUEUED_BATCHES:
                first, rows = queue.popleft()
                yield first, rows.result()
        for first, rows in queue:
            yield first, rows.result()
    finally:  # also if the caller stops early
        pool.shutdown(cancel_futures=True)


def count_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _embed_texts(embed: Embed, batch: EmbeddingBatch) -> list[Vector]:
    texts = batch.texts
    rows: list[Vector] = []
    for start in range(0, len(texts), BATCH_SIZE):  # a long item has more
        rows += embed(texts[start : start + BATCH_SIZE])
    return rows
