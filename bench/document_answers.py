"""Answers in the contexts of real documents: questions that people asked in public threads.

The texts of public projects are read from local copies of their repositories, at the commits of
questions/test.json or development.json, and loaded with the defaults. A context of 1,000 tokens
answers a question if it shows the sentence or symbol that was written down before the first run.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import knowloom
from bench.vectors import open_embedder
from knowloom.engine import Engine
from knowloom.model import Citation, Context

QUESTIONS = Path(__file__).parent / "questions"
SETS = ("test", "development")
MAX_TOKENS = 1_000
_IGNORED = re.compile(r"[`*\\]")
_HEADING = re.compile(r"\\?#{1,6} ")
_POINTER = re.compile(r"- .* \(id: .*\)$|\[…\]$")
_LINES = re.compile(r"^(?P<file>.+?), lines? (?P<ranges>\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)")


@dataclass(frozen=True, slots=True)
class Project:
    """A public project: the paths of its repository that are loaded, and where they come from."""

    name: str
    written_in: str
    repository: str
    commit: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    question: str
    thread: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a question: `structure` is the share of headings, pointers and gaps."""

    project: str
    question: str
    is_answered: bool
    tokens: int
    structure: float
    blocks: int
    problems: tuple[str, ...]  # of the sources
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a project: files, items and seconds, with vectors and automatic edges."""

    project: str
    files: int
    mb: float
    items: int
    skipped: int
    seconds: float


def read_projects(name: str) -> list[Project]:
    """Return the projects of one of the sets."""
    rows = json.loads((QUESTIONS / f"{name}.json").read_text("utf-8"))
    return [Project(**{**row, "paths": tuple(row["paths"])}) for row in rows]


def read_questions(project: str) -> list[Question]:
    lines = (QUESTIONS / f"{project}.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [Question(row["question"], row["thread"], tuple(row["answers"])) for row in rows]


def extract(project: Project, repository: Path, folder: Path) -> None:
    """Write the paths of a project at its commit into a folder."""
    command = ["git", "-C", str(repository), "archive", project.commit, *project.paths]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def fold(text: str) -> str:
    """Return a text without the differences that do not matter in the comparison."""
    return " ".join(_IGNORED.sub("", text).split()).casefold()


def is_answered(question: Question, text: str) -> bool:
    shown = fold(text)
    return any(fold(answer) in shown for answer in question.answers)


def measure_structure(context: Context) -> float:
    """Return the share of the characters in headings, pointers and gaps; sources do not count."""
    sources = {f"[{citation.number}] {citation.source}" for citation in context.citations}
    lines = [line for line in context.text.splitlines() if line.strip() and line not in sources]
    structure = [line for line in lines if _HEADING.match(line) or _POINTER.match(line)]
    return sum(map(len, structure)) / max(1, sum(map(len, lines)))


def check_source(citation: Citation, folder: Path) -> str:
    """Return why the source of a block does not open, "" if it does."""
    match = _LINES.match(citation.source)
    name = match["file"] if match else citation.source
    try:
        text = (folder / name).read_text("utf-8")
    except (OSError, ValueError) as error:
        return f"{citation.source}: {error}"
    last = max(map(int, re.findall(r"\d+", match["ranges"])), default=0) if match else 0
    count = len(text.splitlines())
    return f"{citation.source}: the file has {count} lines" if last > count else ""


def ask(kb: Engine, project: str, question: Question, folder: Path) -> tuple[Outcome, Context]:
    start = time.perf_counter()
    context = kb.context(question.question, spaces=[project], max_tokens=MAX_TOKENS, citations=True)
    milliseconds = 1000 * (time.perf_counter() - start)
    problems = [check_source(citation, folder) for citation in context.citations]
    outcome = Outcome(
        project,
        question.question,
        is_answered(question, context.text),
        context.tokens,
        round(measure_structure(context), 3),
        len(context.citations),
        tuple(problem for problem in problems if problem),
        round(milliseconds, 1),
    )
    return outcome, context


def run_project(
    project: Project, repository: Path, cache: Path | None, show: Path | None
) -> tuple[Load, list[Outcome]]:
    """Load a project into a new store and ask its questions; `show` is a folder for contexts."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / project.name
        extract(project, repository, folder)
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        with knowloom.open(f"{place}/k.db", embedder=open_embedder(cache)) as kb:
            start = time.perf_counter()
            report = kb.load(folder, space=project.name)
            seconds = time.perf_counter() - start
            outcomes = []
            for number, question in enumerate(read_questions(project.name), 1):
                outcome, context = ask(kb, project.name, question, folder)
                outcomes.append(outcome)
                if show:
                    mark = "answered" if outcome.is_answered else "missed"
                    file = show / f"{project.name}-{number:02}-{mark}.md"
                    file.write_text(f"{question.question}\n\n{context.text}\n", "utf-8")
    mb = round(sum(sizes) / 1e6, 2)
    load = Load(project.name, len(sizes), mb, report.added, len(report.skipped), round(seconds, 1))
    return load, outcomes


def report_outcomes(loads: Sequence[Load], outcomes: Sequence[Outcome]) -> None:
    for load in loads:
        rows = [outcome for outcome in outcomes if outcome.project == load.project]
        print(
            f"{load.project}: {load.files} files, {load.mb} MB, {load.items} items in "
            f"{load.seconds} s; answered {sum(row.is_answered for row in rows)} of {len(rows)}"
        )
        for row in rows:
            if not row.is_answered:
                print(f"  missed: {row.question}")
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    print(f"answered: {sum(outcome.is_answered for outcome in outcomes)} of {len(outcomes)}")
    print(f"mostly headings or pointers: {sum(outcome.structure > 0.5 for outcome in outcomes)}")
    print(f"blocks: {sum(outcome.blocks for outcome in outcomes)}")
    print(f"sources that do not open: {len(problems)}", *problems, sep="\n  ")


def run(
    repositories: Path, set_name: str, cache: Path | None, show: Path | None, output: Path | None
) -> None:
    loads, outcomes = [], []
    if show:
        show.mkdir(parents=True, exist_ok=True)
    for project in read_projects(set_name):
        load, results = run_project(project, repositories / project.name, cache, show)
        loads.append(load)
        outcomes.extend(results)
    report_outcomes(loads, outcomes)
    if output:
        rows = {"loads": list(map(asdict, loads)), "outcomes": list(map(asdict, outcomes))}
        output.write_text(json.dumps(rows, indent=1, ensure_ascii=False), "utf-8")
