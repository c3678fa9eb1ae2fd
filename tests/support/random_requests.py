"""Requests to stores of random knowledge; the same seed gives the same requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import knowloom
from knowloom import Context, Edge, Item, Kind, Recipe, Weights
from knowloom.embedders import minilm
from knowloom.formats.layout import FORMATS
from knowloom.model import Form
from knowloom.options import ContextArguments

MINILM = str(Path(minilm.FILES) / "tokenizer.json")
MODELS = ["gpt-4", "gpt-4o", MINILM, "some-other-model"]
NOW = "2026-03-01T12:00:00Z"

_WORDS = "refund order customer invoice payment shipping policy agent ticket approve the a of to"
VOCABULARY = [*_WORDS.split(), "返金", "注文", "возврат", "заказ", "استرداد", "🙂"]
VOCABULARY += ["café", "naïve", "42"]
SPECIALS = ["# x", "- y", "* z", "> q", "```", "~~~", "---", "===", "...", "key: value", "a #b"]
SPECIALS += ["[a]: /u", "<!--", "-->", "<div>", "{{score}}", '"', "'", "\\", "%", "&a", "*a"]
SPECIALS += ["!t", "@", "`c`", "null", "yes", "1e3", "/", "//", "| a | b |", "\t", "\n", "\n\n"]
SPECIALS += ["\r\n", "\u2028", "\x85", "\ufeff", "  ", "e\u0301", "👩\u200d👩\u200d👧"]
LENGTHS = [0, 1, 3, 10, 10, 40, 40, 40, 150, 400]
RECIPES: list[str | tuple[Recipe, ...]] = [
    "search",
    "knowledge",
    "memories",
    "profile",
    (
        Recipe("first", limit=30, share=0.5, max_share=0.6),
        Recipe("linked", "neighbours", depth=3, share=0.2, max_share=0.5),
    ),
    (
        Recipe("only whole", limit=40, forms=(Form.WHOLE,)),
        Recipe("rest", "neighbours", depth=1, forms=(Form.POINTER,)),
    ),
    (
        Recipe("a: b", limit=15, sharpness=1.0, weights=Weights(match=1, recency=1)),
        Recipe("# c", "subjects", limit=5),
    ),
]


@dataclass(frozen=True)
class Case:
    """One request with its options, and the context that was returned."""

    kb: knowloom.Engine
    text: str
    options: dict[str, Any]
    context: Context

    def request(self, **options: Unpack[ContextArguments]) -> Context:
        """Repeat the request with other options."""
        return self.kb.context(self.text, spaces=["s"], **self.options | options)


def cases(seed: int, count: int) -> Iterator[Case]:
    chance = random.Random(seed)
    kb = _random_knowledge(chance)
    for _ in range(count):
        options = {
            "recipe": chance.choice(RECIPES),
            "format": chance.choice(list(FORMATS)),
            "model": chance.choice(MODELS),
        }
        options |= {
            "max_tokens": _random_budget(chance),
            "now": NOW,
            "entity": chance.choice([None, "i1"]),
        }
        text = " ".join(chance.choices(VOCABULARY, k=chance.choice([1, 3, 8])))
        yield Case(kb, text, options, kb.context(text, spaces=["s"], **options))


def random_text(chance: random.Random, length: int) -> str:
    words = [
        chance.choice(SPECIALS) if chance.random() < 0.15 else chance.choice(VOCABULARY)
        for _ in range(length)
    ]
    return "".join(word + chance.choice([" ", " ", " ", " ", "\n", ", ", ""]) for word in words)


def random_item(chance: random.Random, number: int) -> Item:
    names = [random_text(chance, 1).strip() or "name" for _ in range(chance.choice([0, 0, 1, 3]))]
    id = chance.choice(["i{}", "# i{}", "yes {}", "i: {}", "項目{}", "🙂{}"]).format(number)
    kind, type = chance.choice(list(Kind)), chance.choice(["", "faq", "a: b", "# t", "手順"])
    title = random_text(chance, chance.choice([0, 1, 3, 8, 60]))
    return Item(
        id=id,
        space="s",
        kind=kind,
        type=type,
        title=title if title.strip() else "untitled",
        text=random_text(chance, 4000 if chance.random() < 0.01 else chance.choice(LENGTHS)),
        summary=random_text(chance, chance.choice([0, 0, 2, 8])),
        properties={name: _random_value(chance) for name in names},
        tags=tuple(f"t{n}" for n in range(chance.choice([0, 0, 2]))),
        subject=chance.choice([None, "i1", "i2"]),
        confidence=chance.choice([None, 0.1, 0.9]),
    )


def _random_value(chance: random.Random) -> Any:
    nested, text = {"a": random_text(chance, 2)}, random_text(chance, 4)
    return chance.choice([1, 2.5e30, True, None, [1, "x"], nested, text])


def _random_knowledge(chance: random.Random) -> knowloom.Engine:
    kb = knowloom.open("memory:", embedder=None)
    items = [random_item(chance, number) for number in range(chance.choice([1, 5, 20, 60]))]
    weights = {
        (chance.choice(items).id, chance.choice(items).id): chance.choice([0.1, 0.5, 1.0])
        for _ in items
    }
    edges = [
        Edge(source, target, weight=weight, space="s")
        for (source, target), weight in weights.items()
    ]
    kb.add(items, edges)
    return kb


def _random_budget(chance: random.Random) -> int | None:
    ranges = [(1, 30), (30, 300), (300, 1000), (300, 4000)]
    budgets = [chance.randint(*bounds) for bounds in ranges]
    return chance.choice([None, 0, *budgets, 100_000])
