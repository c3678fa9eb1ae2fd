"""Confidence of answers: fit its constants, and check them on questions with and without evidence.

Each question is asked twice: of the whole set, and after the deletion of its gold texts.

python -m bench.confidence DATA_FOLDER --cache /tmp/vectors           # compare with a new fit
python -m bench.confidence DATA_FOLDER --cache /tmp/vectors --write   # write the new constants
python -m bench.confidence DATA_FOLDER --check multihop_rag,hotpotqa --limit 200
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import knowloom
from bench.retrieval import load
from bench.sets import BenchSet, Join, read_set
from bench.vectors import open_embedder
from knowloom.context import confidence
from knowloom.context.confidence import CALIBRATIONS, Measures, measure_hits
from knowloom.evaluation.datasets import QUERIES
from knowloom.evaluation.questions import read_rows
from knowloom.model import Filter, Key
from knowloom.ports import Embedder
from knowloom.recipes import Mode, Recipe
from knowloom.retrieval.sources import find_hits

TRAIN = ("hipporag_hotpotqa_train", "hipporag_musique_train")
MODES: Mapping[str, tuple[Mode, bool]] = {  # by calibration: the mode, and whether with vectors
    "bm25": ("bm25", False),
    "hybrid": ("hybrid", True),
    "vector": ("vector", True),
    "walk": ("walk", True),
    "walk_bm25": ("walk", False),
}
SINGLE = 2_500  # texts; in larger sets the gold texts of a tenth of the questions go together
FOLDS = 10
RIDGE = 1e-2  # pull of the coefficients towards 0, for measures that say the same
STEPS = 50
BINS = 10

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """The measures of one answer, by calibration, and whether its evidence was stored."""

    measures: Mapping[str, Measures | None]  # None: nothing matched
    has_evidence: bool


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    space: str
    golds: tuple[Key, ...]


def read_questions(folder: Path, bench_set: BenchSet, limit: int) -> list[Asked]:
    """Return the questions of a set, evenly spaced, and all of those without gold texts."""
    tasks = bench_set.tasks[:: max(1, len(bench_set.tasks) // limit)]
    questions = [
        Asked(
            task.question.text,
            task.question.spaces[0],
            tuple(dict.fromkeys(place.key for place in task.golds)),
        )
        for task in tasks
    ]
    if folder.name != "multihop_rag":  # elsewhere, an empty list means that nobody looked
        return questions
    rows = [row for _, row in read_rows(folder / QUERIES[0])]
    space = bench_set.items[0].space
    return questions + [Asked(row["text"], space, ()) for row in rows if not row["gold"]]


def collect(folder: Path, embedder: Embedder, limit: int) -> list[Sample]:
    """Ask every question with its gold texts and, unless the set has such questions, without."""
    bench_set = read_set(folder, Join())
    questions = read_questions(folder, bench_set, limit)
    items = {item.key: item for item in bench_set.items}
    samples = []
    with load(bench_set, embedder) as kb:
        samples += [ask(kb, question, bool(question.golds)) for question in questions]
        if not all(question.golds for question in questions):
            return samples  # the set has questions without an answer
        for part in split(questions, len(items)):
            golds = sorted({key for question in part for key in question.golds})
            for space in sorted({space for space, _ in golds}):
                kb.delete([id for name, id in golds if name == space], space=space)
            samples += [ask(kb, question, False) for question in part]
            kb.add([items[key] for key in golds])
    return samples


def split(questions: Sequence[Asked], size: int) -> Iterator[Sequence[Asked]]:
    """Yield groups of questions whose gold texts are deleted together."""
    count = len(questions) if size <= SINGLE else FOLDS
    yield from (part for place in range(count) if (part := questions[place::count]))


def ask(kb: knowloom.Engine, question: Asked, has_evidence: bool) -> Sample:
    measures: dict[str, Measures | None] = {}
    hybrid = [Recipe("search")]
    with kb.reader.request(question.text, spaces=[question.space], recipes=hybrid) as request:
        for name, (mode, has_vector) in MODES.items():
            searched = request if has_vector else replace(request, vector=None)
            recipe, only = Recipe("search", mode=mode), Filter(request.query.spaces)
            result = find_hits(searched, recipe, only)
            hits, best = result.hits, result.best_score
            measures[name] = measure_hits(question.text, hits, best) if hits else None
    return Sample(measures, has_evidence)


def design(samples: Sequence[Sample], name: str) -> tuple[Vector, Vector]:
    """Return the measures, a row each with a leading 1, and the truth."""
    rows = [
        (measures, sample.has_evidence)
        for sample in samples
        if (measures := sample.measures[name]) is not None
    ]
    values = [(1.0, *astuple(measures)) for measures, _ in rows]
    return np.array(values), np.array([float(has_evidence) for _, has_evidence in rows])


def fit(values: Vector, truth: Vector) -> Vector:
    """Return the coefficients of a logistic regression without negative ones.

    The measure with the most negative coefficient is left out until none is left.
    """
    columns = list(range(values.shape[1]))
    weights = fit_columns(values, truth)
    while weights[1:].min(initial=0.0) < 0:
        del columns[1 + int(weights[1:].argmin())]
        weights = fit_columns(values[:, columns], truth)
    result = np.zeros(values.shape[1])
    result[columns] = weights
    return result


def fit_columns(values: Vector, truth: Vector) -> Vector:
    """Return the coefficients of a logistic regression, by Newton's method."""
    weights = np.zeros(values.shape[1])
    penalty = RIDGE * np.diag([0.0, *[1.0] * (values.shape[1] - 1)])
    for _ in range(STEPS):
        expected = predict(values, weights)
        gradient = values.T @ (expected - truth) + penalty @ weights
        hessian = (values.T * (expected * (1 - expected))) @ values + penalty
        weights -= np.linalg.solve(hessian, gradient)
    return weights


def predict(values: Vector, weights: Sequence[float] | Vector) -> Vector:
    result: Vector = 1 / (1 + np.exp(-(values @ np.asarray(weights))))
    return result


def area(truth: Vector, expected: Vector) -> float:
    """Return the probability that an answer with evidence has the higher confidence."""
    with_evidence, without = expected[truth == 1], expected[truth == 0]
    if not len(with_evidence) or not len(without):
        return float("nan")
    higher = (with_evidence[:, None] > without).mean()
    return float(higher + (with_evidence[:, None] == without).mean() / 2)


def calibration_error(truth: Vector, expected: Vector) -> float:
    """Return the mean distance of confidence and truth over BINS bins, weighted by their size."""
    bins = np.minimum((expected * BINS).astype(int), BINS - 1)
    return sum(
        float((bins == place).mean())
        * abs(float(truth[bins == place].mean() - expected[bins == place].mean()))
        for place in sorted(set(bins.tolist()))
    )


def describe(samples: Sequence[Sample], name: str, weights: Sequence[float] | Vector) -> str:
    values, truth = design(samples, name)
    expected = predict(values, weights)
    return (
        f"{name:10} {len(truth):5}  AUC {area(truth, expected):.3f}  "
        f"Brier {((expected - truth) ** 2).mean():.3f}  "
        f"ECE {calibration_error(truth, expected):.3f}  "
        f"mean {expected.mean():.2f} of {truth.mean():.2f}"
    )


def reliability(samples: Sequence[Sample], name: str) -> Iterator[str]:
    """Yield a line per bin: answers, mean confidence, and the share that had evidence."""
    values, truth = design(samples, name)
    expected = predict(values, astuple(CALIBRATIONS[name]))
    bins = np.minimum((expected * BINS).astype(int), BINS - 1)
    for place in sorted(set(bins.tolist())):
        inside = bins == place
        yield (
            f"  {place / BINS:.1f}-{(place + 1) / BINS:.1f}  {int(inside.sum()):5}  "
            f"confidence {expected[inside].mean():.2f}  evidence {truth[inside].mean():.2f}"
        )


def losses(samples: Sequence[Sample], name: str, floors: Sequence[float]) -> Iterator[str]:
    """Yield, per floor, the shares of answers with and without evidence that are below it."""
    values, truth = design(samples, name)
    expected = predict(values, astuple(CALIBRATIONS[name]))
    for floor in floors:
        below = expected < floor
        yield (
            f"  below {floor:.2f}: {below[truth == 1].mean():.1%} of answers with evidence, "
            f"{below[truth == 0].mean():.1%} of those without"
        )


def write_constants(weights: Mapping[str, Vector]) -> None:
    """Replace the constants of the module."""
    path = Path(confidence.__file__)
    rows = "".join(
        f'    "{name}": LogisticModel({", ".join(f"{value:.2f}" for value in values)}),\n'
        for name, values in weights.items()
    )
    start = "CALIBRATIONS: Mapping[str, LogisticModel] = {\n"
    before, _, rest = path.read_text("utf-8").partition(start)
    _, _, after = rest.partition("}\n")
    path.write_text(f"{before}{start}{rows}}}\n{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--check", default="", help="sets to check instead of fitting")
    parser.add_argument("--limit", type=int, default=300, help="questions of a set to check")
    parser.add_argument("--write", action="store_true", help="write the constants of the fit")
    parser.add_argument("--json", type=Path, help="also write the measures of every answer")
    arguments = parser.parse_args()
    embedder = open_embedder(arguments.cache)
    names = arguments.check.split(",") if arguments.check else TRAIN
    sets = {name: collect(arguments.folder / name, embedder, arguments.limit) for name in names}
    if arguments.json:
        arguments.json.write_text(json.dumps(to_json(sets)), "utf-8")
    if not arguments.check:
        fit_sets(sets, arguments.write)
    for name, samples in sets.items():
        print(f"{name}, with the constants of the module")
        for mode in CALIBRATIONS:
            print(f"  {describe(samples, mode, astuple(CALIBRATIONS[mode]))}")
        print("  reliability of hybrid")
        print("\n".join(reliability(samples, "hybrid")))
        print("\n".join(losses(samples, "hybrid", (0.05, 0.1, 0.2, 0.3, 0.4, 0.5))))


def fit_sets(sets: Mapping[str, Sequence[Sample]], write: bool) -> None:
    """Fit every calibration on all sets, and describe it on each of them."""
    together = [sample for samples in sets.values() for sample in samples]
    weights = {mode: fit(*design(together, mode)) for mode in CALIBRATIONS}
    for name, samples in sets.items():
        print(f"{name}, with the new fit")
        for mode in CALIBRATIONS:
            print(f"  {describe(samples, mode, weights[mode])}")
    for mode, values in weights.items():
        print(f'    "{mode}": LogisticModel({", ".join(f"{value:.2f}" for value in values)}),')
    if write:
        write_constants(weights)


def to_json(sets: Mapping[str, Sequence[Sample]]) -> dict[str, list[object]]:
    return {
        name: [
            {
                "evidence": sample.has_evidence,
                "measures": {
                    mode: None if measures is None else astuple(measures)
                    for mode, measures in sample.measures.items()
                },
            }
            for sample in samples
        ]
        for name, samples in sets.items()
    }


if __name__ == "__main__":
    main()
