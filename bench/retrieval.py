"""Quality of retrieval: recall, nDCG and evidence inside a token budget.

A set is a folder with corpus.jsonl and queries.jsonl.

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

SPLITS = {"scifact": "test"}  # the split to measure, of sets that have several
# The field that names a question's space, of sets whose questions concern a part of the corpus.
SPACES = {"locomo": "conv"}


class CachedOnDisk:
    """The bundled embedder with its vectors cached in a folder: embedding a set takes minutes."""

    name, dimensions = "minilm", MiniLM.dimensions

    def __init__(self, folder: Path | None) -> None:
        self._inner = MiniLM()
        self._folder = folder
        self._vectors: dict[str, Vector] = {}
        self.fingerprint = self._inner.fingerprint

    def warm(self, set_name: str, texts: Sequence[str]) -> None:
        """Load the vectors of a set, or embed its texts and store them."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        name = hashlib.sha256(json.dumps([self.fingerprint, missing]).encode()).hexdigest()[:16]
        path = self._folder / f"{set_name}-{name}.npy" if self._folder else None
        if path is not None and path.exists():
            vectors = list(np.load(path))
        else:
            vectors = self._inner.embed(missing)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, np.array(vectors))
        self._vectors.update(zip(missing, vectors, strict=True))

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [
            self._vectors[text] if text in self._vectors else self._inner.embed([text])[0]
            for text in texts
        ]


def load(
    folder: Path, embedder: CachedOnDisk
) -> tuple[knowloom.Engine, Sequence[knowloom.Question]]:
    """Return an engine with the corpus, and the questions that have an answer in it."""
    data = datasets.read_dataset(
        folder, space_by=SPACES.get(folder.name, ""), split=SPLITS.get(folder.name, "")
    )
    embedder.warm(folder.name, [item.embeddable for item in data.items])
    embedder.warm(folder.name + "-queries", [question.text for question in data.questions])
    kb = knowloom.open(tempfile.mkdtemp() + "/bench.db", embedder=embedder)
    for start in range(0, len(data.items), 2000):
        kb.add(data.items[start : start + 2000])
    return kb, data.questions


def measure_search(
    kb: knowloom.Engine, questions: Sequence[knowloom.Question], mode: Mode
) -> dict[str, float]:
    """Return recall at 2, 5, 10 and nDCG at 10 of `search`, in percent."""
    evaluation = knowloom.evaluate(kb, questions, mode=mode, budgets=())
    return {
        measure.replace("recall", "R"): _percent(evaluation.mean(measure))
        for measure in evaluation.measures
        if not measure.startswith("all")
    }


def measure_evidence(
    kb: knowloom.Engine, questions: Sequence[knowloom.Question], sharpness: float
) -> dict[str, float]:
    """Return the share of evidence that `context` shows whole, and of the budget it uses."""
    evaluation = knowloom.evaluate(kb, questions, ks=(), sharpness=sharpness)
    result: dict[str, float] = {}
    for budget in evaluation.budgets:
        used = statistics.fmean(answer.tokens[budget] / budget for answer in evaluation.answers)
        result |= {
            f"ev@{budget}": _percent(evaluation.mean(f"evidence@{budget}")),
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
    parser.add_argument("--cache", type=Path, help="folder to cache vectors in")
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
            print(f"  search {mode:7}", measure_search(kb, questions, mode), flush=True)
        for sharpness in arguments.sharpness or [KNOWLEDGE[0].sharpness]:
            print(
                f"  context sharpness={sharpness:g}",
                measure_evidence(kb, questions, sharpness),
                flush=True,
            )
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
