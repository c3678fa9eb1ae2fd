"""Sample items, edges and an embedder for tests of the engine."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from knowloom import (
    Context,
    Edge,
    Engine,
    Item,
    Kind,
    Unavailable,
)

EXAMPLES = int(os.environ.get("KNOWLOOM_EXAMPLES", "60"))
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
THEN = NOW - timedelta(days=30)
LATER = NOW + timedelta(days=1)


def node(id: str, text: str = "some text", space: str = "s", **fields: Any) -> Item:
    return Item(id, space, text=text, created_at=fields.pop("created_at", THEN), **fields)


def link(source: str, target: str, weight: float = 1.0, **fields: Any) -> Edge:
    return Edge(source, target, weight=weight, space=fields.pop("space", "s"), **fields)


def ids(values: Sequence[Any]) -> list[str]:
    return [getattr(value, "item", value).id for value in values]


def request_context(kb: Engine, text: str = "refund", **options: Any) -> Context:
    return kb.context(text, **{"spaces": ["s"], "now": NOW} | options)


class AxisEmbedder:
    """An embedder with a dimension for each of a few words: texts that share a word are similar."""

    name = "axes"
    is_calibrated = True

    def __init__(
        self, words: Sequence[str] = ("refund", "money", "car", "food"), fingerprint: str = "axes-1"
    ) -> None:
        self.words, self.fingerprint, self.dimensions = words, fingerprint, len(words) + 1
        self.down = False

    def embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        if self.down:
            raise Unavailable("axes: connection refused")
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> np.ndarray:
        vector = np.array([*(float(word in text) for word in self.words), 0.1], np.float32)
        return vector / np.linalg.norm(vector)


def random_refund(chance: random.Random, number: int) -> Item:
    return node(
        f"i{number}",
        "refund " * chance.choice([1, 1, 30]),
        type=chance.choice(["common"] * 8 + ["rare", ""]),
        kind=chance.choice([Kind.NODE] * 8 + [Kind.MEMORY]),
        tags=tuple(chance.sample(["x", "y", "z", "v", "w", "u"], chance.choice([0, 1, 1]))),
        subject=chance.choice([None] * 8 + ["maya"]),
        confidence=chance.choice([None, 0.1, 0.9]),
        created_at=THEN + timedelta(days=chance.choice([-9, -9, 0])),
    )


def comparable_parts(context: Context) -> tuple[Any, ...]:
    return (
        context.text,
        context.digest,
        [(hit.item.key, hit.score) for hit in context.hits],
        context.degraded,
        context.left_out,
        context.stats.searched,
    )


def random_memory(chance: random.Random, number: int) -> Item:
    text = "refund " * chance.randint(1, 5) + "word " * chance.randint(1, 400)
    return node(
        f"i{number}",
        text,
        kind=Kind.MEMORY,
        confidence=chance.random(),
        created_at=NOW - timedelta(days=chance.random() * 5),
    )


def vector_problems(kb: Engine, text: str) -> list[str]:
    """Return the codes of what a context says about vectors."""
    return [
        problem.code for problem in request_context(kb, text).degraded if problem.part == "vectors"
    ]
