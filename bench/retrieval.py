"""Quality of retrieval: recall, nDCG, and evidence shown inside a token budget.

A set is a folder with corpus.jsonl and queries.jsonl.

python -m bench.retrieval DATA_FOLDER --sets hotpotqa,2wiki,musique --cache /tmp/vectors
python -m bench.retrieval DATA_FOLDER --sets hotpotqa --join 12 --shuffle 1 --json joined.json
python -m bench.retrieval --compare before.json after.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import knowloom
from bench.evidence import Shown
from bench.long_documents import Place
from bench.sets import BenchSet, Join, Task, read_set
from bench.vectors import open_embedder
from knowloom.errors import Invalid
from knowloom.evaluation.compare import format_p, format_points
from knowloom.evaluation.evaluate import BUDGETS, resolve_retrieval
from knowloom.evaluation.significance import Difference, compare_paired
from knowloom.ports import Embedder
from knowloom.recipes import KNOWLEDGE, Mode

HALF = 0.5  # of a gold passage's characters
BATCH = 2000  # items added at a time

Values = dict[str, float]
Results = dict[str, Values]  # values by measure, by question id
Json = dict[str, Any]


def load(bench_set: BenchSet, embedder: Embedder) -> knowloom.Engine:
    """Return an engine with the items of a set."""
    kb = knowloom.open(tempfile.mkdtemp() + "/bench.db", embedder=embedder)
    for start in range(0, len(bench_set.items), BATCH):
        kb.add(bench_set.items[start : start + BATCH])
    return kb


def measure_search(kb: knowloom.Engine, tasks: Sequence[Task], mode: Mode) -> Results:
    """Return recall at 2, 5, 10 and nDCG at 10 of `search` for each question."""
    questions = [task.question for task in tasks]
    evaluation = knowloom.evaluate(kb, questions, mode=mode, budgets=())
    return {
        answer.question.id: {
            f"{mode} {measure}": value
            for measure, value in answer.values.items()
            if not measure.startswith("all")
        }
        for answer in evaluation.answers
    }


def measure_contexts(
    kb: knowloom.Engine, bench_set: BenchSet, tasks: Sequence[Task], sharpness: float
) -> Results:
    """Return what `context` shows for each question, per budget."""
    tuned = kb.with_retrieval(resolve_retrieval(kb, {"sharpness": sharpness}))
    now = kb.reader.now()
    kb.reader.embed_texts([task.question.text for task in tasks], queries=True)
    results: Results = {}
    unconfirmed, problems = 0, dict[str, int]()
    for task in tasks:
        values = results[task.question.id] = {}
        for budget in BUDGETS:
            context = tuned.context(
                task.question.text, spaces=task.question.spaces, max_tokens=budget, now=now
            )
            shown = Shown(context)
            unconfirmed += shown.unconfirmed
            for problem in context.degraded:
                problems[problem.reason] = problems.get(problem.reason, 0) + 1
            shares = measure_shown(task, shown, bench_set.is_joined)
            shares["used"] = context.tokens / budget
            values |= {f"{name}@{budget}": value for name, value in shares.items()}
    for reason, count in problems.items():
        print(f"  {count:,} contexts are degraded: {reason}")
    if unconfirmed:
        print(f"  {unconfirmed:,} ranges are not in the text of their block, and not counted")
    return results


def measure_shown(task: Task, shown: Shown, is_joined: bool) -> Values:
    """Return the shares of the evidence, of the gold passages and of the answer that are shown."""
    values = {
        "evidence": _mean([part.is_shown(shown) for part in task.evidence]),
        "gold": _mean([shown.share(place) >= HALF for place in task.golds]),
    }
    if not is_joined:
        values["whole"] = _mean([_is_whole(place, shown) for place in task.golds])
    if task.answer is not None:
        values["answer"] = float(task.answer.is_shown(shown))
    return values


def _is_whole(place: Place, shown: Shown) -> bool:
    return place.key in shown.whole


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def average(results: Results) -> Values:
    """Return the mean of each measure over the questions that have it, in percent."""
    columns: dict[str, list[float]] = {}
    for values in results.values():
        for measure, value in values.items():
            columns.setdefault(measure, []).append(value)
    return {
        measure: round(100 * statistics.fmean(column), 1) for measure, column in columns.items()
    }


def describe_contexts(means: Mapping[str, float]) -> list[str]:
    """Return a line per measure with its values at each budget."""
    families = dict.fromkeys(measure.partition("@")[0] for measure in means)
    return [
        f"{family:9}" + " / ".join(f"{means[f'{family}@{budget}']:5.1f}" for budget in BUDGETS)
        for family in families
    ]


def compare_files(before: Path, after: Path) -> None:
    """Print the paired test of each measure that two runs share, set by set."""
    first, second = (json.loads(path.read_text("utf-8"))["sets"] for path in (before, after))
    names = [name for name in first if name in second]
    if not names:
        raise SystemExit(f"no set in common: {', '.join(first)} and {', '.join(second)}")
    for name in names:
        differences = compare_results(first[name]["questions"], second[name]["questions"])
        print(f"{name}: {len(next(iter(differences.values()))[0]):,} questions")
        for measure, (_, means, difference) in differences.items():
            print(f"  {format_difference(measure, means, difference)}")


def compare_results(
    before: Results, after: Results
) -> dict[str, tuple[list[str], tuple[float, float], Difference]]:
    """Return the questions that both have, both means and the paired difference of each measure."""
    shared = [id for id in before if id in after]
    if not shared:
        raise Invalid("the two runs have no question in common")
    measures = dict.fromkeys(measure for id in shared for measure in before[id])
    differences = {}
    for measure in measures:
        ids = [id for id in shared if measure in before[id] and measure in after[id]]
        if ids:
            first, second = ([run[id][measure] for id in ids] for run in (before, after))
            difference = compare_paired(first, second, np.random.default_rng(0))
            means = statistics.fmean(first), statistics.fmean(second)
            differences[measure] = (ids, means, difference)
    return differences


def format_difference(measure: str, means: tuple[float, float], difference: Difference) -> str:
    before, after = (f"{100 * mean:5.1f}" for mean in means)
    interval = f"{format_points(difference.low)} to {format_points(difference.high)}"
    verdict = "may be chance"
    if difference.real:
        verdict = "better" if difference.mean > 0 else "WORSE"
    elif not difference.better and not difference.worse:
        verdict = "the same"
    return (
        f"{measure:18} {before} -> {after} {format_points(difference.mean):>6} ({interval},"
        f" {format_p(difference.p)}; {difference.better} better, {difference.worse} worse)"
        f" {verdict}"
    )


def run_set(arguments: argparse.Namespace, name: str, embedder: Embedder) -> Json:
    """Measure a set, print the means and return the values of each question."""
    started = time.perf_counter()
    join = Join(arguments.join, arguments.shuffle, arguments.sessions)
    bench_set = read_set(arguments.data / name, join)
    kb = load(bench_set, embedder)
    tasks = bench_set.tasks[: arguments.questions]
    links = sum(info.links for info in kb.maintenance.stats().spaces)
    details = f" ({join})" if str(join) else ""
    print(
        f"{name}{details}: {len(bench_set.items):,} items, {links:,} links,"
        f" {len(tasks):,} questions, loaded in {time.perf_counter() - started:.0f} s",
        flush=True,
    )
    results: Results = {task.question.id: {} for task in tasks}
    for mode in () if arguments.no_search else arguments.modes.split(","):
        values = measure_search(kb, tasks, mode)
        _merge(results, values)
        print(f"  search {mode:7}", average(values), flush=True)
    for number, sharpness in enumerate(arguments.sharpness or [KNOWLEDGE[0].sharpness]):
        values = measure_contexts(kb, bench_set, tasks, sharpness)
        if number == 0:  # further values of the sharpness are printed only
            _merge(results, values)
        print(f"  context sharpness={sharpness:g}, {' / '.join(map(str, BUDGETS))} tokens")
        for line in describe_contexts(average(values)):
            print(f"    {line}", flush=True)
    print(f"  {time.perf_counter() - started:.0f} s", flush=True)
    return {"join": str(join), "means": average(results), "questions": results}


def _merge(results: Results, more: Results) -> None:
    for id, values in more.items():
        results[id] |= values


def main() -> None:
    arguments = parse_arguments()
    if arguments.compare:
        compare_files(*arguments.compare)
        return
    embedder = open_embedder(arguments.cache)
    sets: Json = {}
    for name in arguments.sets.split(","):
        sets[name] = run_set(arguments, name, embedder)
        if arguments.json:  # after each set: a long run may be interrupted
            arguments.json.write_text(json.dumps({"sets": sets}), "utf-8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("data", type=Path, nargs="?", help="folder of sets")
    add("--sets", default="hotpotqa,2wiki,musique,locomo,scifact,stackfaq")
    add("--cache", type=Path, help="folder to cache vectors in")
    add("--modes", default="bm25,vector,hybrid,walk")
    add("--questions", "--limit", type=int, help="only the first N of each set")
    add("--join", type=int, default=0, metavar="N", help="join each N passages to a document")
    add("--shuffle", type=int, metavar="SEED", help="join them in a random order")
    add("--sessions", action="store_true", help="join the turns of each session of locomo")
    add("--sharpness", type=float, nargs="*", help="try other values of the recipe's sharpness")
    add("--no-search", action="store_true", help="only measure contexts")
    add("--json", type=Path, metavar="FILE", help="write the values of each question")
    add(
        "--compare",
        type=Path,
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="compare two files of --json by the paired test",
    )
    arguments = parser.parse_args()
    if not arguments.compare and arguments.data is None:
        parser.error("pass the folder of the sets, or --compare with two files")
    if arguments.shuffle is not None and not arguments.join:
        parser.error("--shuffle needs --join")
    if arguments.join and arguments.sessions:
        parser.error("--join and --sessions exclude each other")
    if arguments.join < 0:
        parser.error("--join must not be negative")
    return arguments


if __name__ == "__main__":
    main()
