"""How good retrieval is: recall, nDCG and evidence inside a token budget, on folders of {corpus,queries}.jsonl.

python -m bench.retrieval DATA_FOLDER --sets hotpotqa,2wiki,musique --cache /tmp/vectors
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.embedders.minilm import MiniLM
from weft.model import Form
from weft.ports import Vector
from weft.recipes import KNOWLEDGE, Recipe, resolved

BUDGETS = (512, 1024, 2048)
SPLITS = {"scifact": "test"}  # sets that say which of their questions count
SPACES = {"locomo": "conv"}  # sets whose questions are asked inside a part of the corpus, and the field that names it


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    space: str
    gold: frozenset[str]


class CachedOnDisk:
    """The bundled embedder with its vectors kept in a folder, as embedding a set takes minutes and never changes."""

    name, dimensions = "minilm", MiniLM.dimensions

    def __init__(self, folder: Path | None) -> None:
        self._inner = MiniLM()
        self._folder = folder
        self._known: dict[str, Vector] = {}
        self.fingerprint = self._inner.fingerprint

    def warm(self, set_name: str, texts: Sequence[str]) -> None:
        """Load or make the vectors of a set."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        name = hashlib.sha256(json.dumps([self.fingerprint, missing]).encode()).hexdigest()[:16]
        path = self._folder / f"{set_name}-{name}.npy" if self._folder else None
        if path is not None and path.exists():
            vectors = list(np.load(path))
        else:
            vectors = self._inner.embed(missing)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, np.array(vectors))
        self._known.update(zip(missing, vectors, strict=True))

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._known[text] if text in self._known else self._inner.embed([text])[0] for text in texts]


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load(folder: Path, embedder: CachedOnDisk) -> tuple[weft.Engine, list[Question]]:
    """An engine that holds the corpus, and the questions that have an answer in it."""
    field = SPACES.get(folder.name)
    rows = read(folder / "corpus.jsonl")
    items = [weft.Item(row["id"], row[field] if field else "all", title=row.get("title", ""), text=row["text"]) for row in rows]
    asked = [row for row in read(folder / "queries.jsonl") if row["gold"] and row.get("split") == SPLITS.get(folder.name, row.get("split"))]
    questions = [Question(row["text"], row[field] if field else "all", frozenset(row["gold"])) for row in asked]
    embedder.warm(folder.name, [item.embeddable for item in items])
    embedder.warm(folder.name + "-queries", [question.text for question in questions])
    items = [item for item in items if item.title or item.text]
    kb = weft.open(tempfile.mkdtemp() + "/bench.db", embedder=embedder)
    for start in range(0, len(items), 2000):
        kb.add(items[start : start + 2000])
    return kb, questions


def searched(kb: weft.Engine, questions: Iterable[Question], mode: str) -> dict[str, float]:
    """Recall at 2, 5, 10 and nDCG at 10 of `search`, in percent."""
    found = [([hit.item.id for hit in kb.search(q.text, spaces=[q.space], limit=10, mode=mode)], q.gold) for q in questions]  # type: ignore[arg-type]
    result = {f"R@{k}": _mean(len(gold & set(ids[:k])) / len(gold) for ids, gold in found) for k in (2, 5, 10)}
    return result | {"nDCG@10": _mean(_ndcg(ids, gold) for ids, gold in found)}


def evidence(kb: weft.Engine, questions: Sequence[Question], recipes: Sequence[Recipe]) -> dict[str, float]:
    """The share of the evidence that `context` shows whole inside a budget, and how much of the budget it uses."""
    result: dict[str, float] = {}
    for budget in BUDGETS:
        recalls, used = [], []
        for question in questions:
            context = kb.context(question.text, spaces=[question.space], max_tokens=budget, recipe=[resolved(one, budget) for one in recipes])
            shown = {one.hit.item.id for part in context.fragments for one in part.chosen if one.form is Form.WHOLE}
            recalls.append(len(question.gold & shown) / len(question.gold))
            used.append(context.tokens / budget)
        result |= {f"ev@{budget}": _mean(recalls), f"used@{budget}": _mean(used)}
    return result


def _ndcg(ids: Sequence[str], gold: frozenset[str]) -> float:
    gain = sum(1 / math.log2(place + 2) for place, id in enumerate(ids[:10]) if id in gold)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(gold))))


def _mean(values: Iterable[float]) -> float:
    return round(100 * statistics.fmean(values), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of sets, each with corpus.jsonl and queries.jsonl")
    parser.add_argument("--sets", default="hotpotqa,2wiki,musique,locomo,scifact,stackfaq")
    parser.add_argument("--cache", type=Path, help="folder that keeps vectors between runs")
    parser.add_argument("--modes", default="bm25,vector,hybrid,walk")
    parser.add_argument("--questions", type=int, help="only the first N of each set")
    parser.add_argument("--sharpness", type=float, nargs="*", help="try other values of the recipe's sharpness")
    parser.add_argument("--no-search", action="store_true", help="only measure evidence inside budgets")
    arguments = parser.parse_args()
    embedder = CachedOnDisk(arguments.cache)
    for name in arguments.sets.split(","):
        started = time.perf_counter()
        kb, questions = load(arguments.data / name, embedder)
        questions = questions[: arguments.questions]
        spaces = kb.stats().spaces
        print(f"{name}: {sum(info.items for info in spaces):,} items, {sum(info.links for info in spaces):,} links, {len(questions):,} questions", flush=True)
        for mode in () if arguments.no_search else arguments.modes.split(","):
            print(f"  search {mode:7}", searched(kb, questions, mode), flush=True)
        for sharpness in arguments.sharpness or [KNOWLEDGE[0].sharpness]:
            recipes = [replace(recipe, sharpness=sharpness) for recipe in KNOWLEDGE]
            print(f"  context sharpness={sharpness:g}", evidence(kb, questions, recipes), flush=True)
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
