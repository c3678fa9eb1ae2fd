"""Batches of items are embedded on several threads, with the vectors of a single one."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Barrier, get_ident

import numpy as np
import pytest

import knowloom
from knowloom.embedders import batches
from knowloom.embedders.batches import build_batches, embed_batches
from knowloom.model import Item
from knowloom.ports import Vector

ITEMS = [Item(f"i{number:03}", "s", text=f"text {number}") for number in range(640)]


def embed_numbers(texts: Sequence[str]) -> list[Vector]:
    return [np.array([float(text.split()[-1]), 1.0], np.float32) for text in texts]


def test_threads_embed_at_the_same_time():
    meeting = Barrier(3)
    main, threads = get_ident(), set()

    def embed(texts: Sequence[str]) -> list[Vector]:
        if get_ident() != main:
            threads.add(get_ident())
            meeting.wait(timeout=60)
        return embed_numbers(texts)

    parts = list(embed_batches(embed, build_batches(ITEMS, 800), threads=3))
    assert len(threads) == 3 and len(parts) == 10


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_item_has_its_own_vector_in_the_order_of_the_items(threads):
    stored = {}
    for batch, rows in embed_batches(embed_numbers, build_batches(ITEMS, 800), threads):
        stored |= batch.assign(rows)
    assert [(key[1], row[0]) for key, row in stored.items()] == [
        (item.id, float(number)) for number, item in enumerate(ITEMS)
    ]


def test_a_failure_on_a_thread_is_raised_after_the_batches_before_it():
    def embed(texts: Sequence[str]) -> list[Vector]:
        if "text 300" in texts:
            raise ValueError("no vector")
        return embed_numbers(texts)

    done = 0
    with pytest.raises(ValueError, match="no vector"):
        for batch, _ in embed_batches(embed, build_batches(ITEMS, 800), threads=2):
            done += len(batch.items)
    assert done == 256


def test_the_bundled_embedder_gives_the_same_bytes_on_every_number_of_threads(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_SIZE", 4)
    texts = [f"{word} of the {other}" for word in "refund order crane".split() for other in "abcd"]
    vectors = []
    for cores in (1, 4):
        monkeypatch.setattr("knowloom.embedding.count_cores", lambda cores=cores: cores)
        with knowloom.open("memory:") as kb:
            kb.add([Item(f"i{n}", "s", text=text) for n, text in enumerate(texts)])
            index = kb._stores.vectors
            hits = kb.search("order", spaces=["s"], mode="vector", limit=12)
            vectors.append([(hit.item.id, hit.signals["vector"]) for hit in hits])
            assert index.count_missing(["s"]) == 0
    assert vectors[0] == vectors[1] and len(vectors[0]) == 12
