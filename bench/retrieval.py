"""How good retrieval is: recall, nDCG and evidence inside a token budget, on folders of {corpus,queries}.jsonl.

python -m bench.retrieval DATA_FOLDER --sets hotpotqa,2wiki,musique --cache /tmp/vectors
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import knowloom
from knowloom.embedders.minilm import MiniLM
from knowloom.evaluation import datasets
from knowloom.ports import Vector
from knowloom.recipes import KNOWLEDGE, Mode

SPLITS = {"scifact": "test"}  # sets that say which of their questions count
SPACES = {
    "locomo": "conv"
}  # sets whose questions are asked inside a part of the corpus, and the field that names it


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
        return [
            self._known[text] if text in self._known else self._inner.embed([text])[0]
            for text in texts
        ]


def load(
    folder: Path, embedder: CachedOnDisk
) -> tuple[knowloom.Engine, Sequence[knowloom.Question]]:
    """An engine that holds the corpus, and the questions that have an answer in it."""
    data = datasets.read_dataset(
        folder, space_by=SPACES.get(folder.name, ""), split=SPLITS.get(folder.name, "")
    )
    embedder.warm(folder.name, [item.embeddable for item in data.items])
    embedder.warm(folder.name + "-queries", [question.text for question in data.questions])
    kb = knowloom.open(tempfile.mkdtemp() + "/bench.db", embedder=embedder)
    for start in range(0, len(data.items), 2000):
        kb.add(data.items[start : start + 2000])
    return kb, data.questions


def searched(
    kb: knowloom.Engine, questions: Sequence[knowloom.Question], mode: Mode
) -> dict[str, float]:
    """Recall at 2, 5, 10 and nDCG at 10 of `search`, in percent."""
    found = knowloom.evaluate(kb, questions, mode=mode, budgets=())
    return {
        measure.replace("recall", "R"): _percent(found.mean(measure))
        for measure in found.measures
        if not measure.startswith("all")
    }


def evidence(
    kb: knowloom.Engine, questions: Sequence[knowloom.Question], sharpness: float
) -> dict[str, float]:
    """The share of the evidence that `context` shows whole inside a budget, and how much of the budget it uses."""
    found = knowloom.evaluate(kb, questions, ks=(), sharpness=sharpness)
    result: dict[str, float] = {}
    for budget in found.budgets:
        used = statistics.fmean(answer.tokens[budget] / budget for answer in found.answers)
        result |= {
            f"ev@{budget}": _percent(found.mean(f"evidence@{budget}")),
            f"used@{budget}": _percent(used),
        }
    return result


def _percent(share: float) -> float:
    return round(100 * share, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", type=Path, help="folder of sets, each with corpus.jsonl and queries.jsonl"
    )
    parser.add_argument("--sets", default="hotpotqa,2wiki,musique,locomo,scifact,stackfaq")
    parser.add_argument("--cache", type=Path, help="folder that keeps vectors between runs")
    parser.add_argument("--modes", default="bm25,vector,hybrid,walk")
    parser.add_argument("--questions", type=int, help="only the first N of each set")
    parser.add_argument(
        "--sharpness", type=float, nargs="*", help="try other values of the recipe's sharpness"
    )
    parser.add_argument(
        "--no-search", action="store_true", help="only measure evidence inside budgets"
    )
    arguments = parser.parse_args()
    embedder = CachedOnDisk(arguments.cache)
    for name in arguments.sets.split(","):
        started = time.perf_counter()
        kb, questions = load(arguments.data / name, embedder)
        questions = questions[: arguments.questions]
        spaces = kb.maintenance.stats().spaces
        print(
            f"{name}: {sum(info.items for info in spaces):,} items,"
            f" {sum(info.links for info in spaces):,} links, {len(questions):,} questions",
            flush=True,
        )
        for mode in () if arguments.no_search else arguments.modes.split(","):
            print(f"  search {mode:7}", searched(kb, questions, mode), flush=True)
        for sharpness in arguments.sharpness or [KNOWLEDGE[0].sharpness]:
            print(
                f"  context sharpness={sharpness:g}", evidence(kb, questions, sharpness), flush=True
            )
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
