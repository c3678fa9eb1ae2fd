"""Questions, knowledge and configurations that `knowloom eval` and `knowloom tune` read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.options import combine, parse_time, parse_where, repeated
from knowloom.cli.session import Session
from knowloom.errors import Invalid, NotFound, Unavailable, unknown_name

if TYPE_CHECKING:
    from knowloom.engine import Engine
    from knowloom.evaluation.questions import Question
    from knowloom.ports import Progress

# Suffixes of files that are loaded; other files are stores.
LOADABLE = [".jsonl", ".ndjson", ".json", ".md", ".markdown", ".txt", ".rst"]
DEFAULT = "default"  # the configuration without any settings
CURRENT = "what is set"  # the configuration of the settings
BATCH = 2000  # items per write

input_options = combine(
    click.argument("paths", nargs=-1, required=True, metavar="[KNOWLEDGE] QUESTIONS"),
    repeated("--space", "spaces", "S", "Space of questions that name none. Default: all."),
    click.option(
        "--space-by",
        default="",
        metavar="FIELD",
        help="In a folder: field with the space of an item or a question.",
    ),
    click.option("--split", default="", metavar="NAME", help="In a folder: only this split."),
    click.option(
        "--seed",
        default=0,
        type=click.IntRange(min=0),
        metavar="N",
        help="Random seed. Default: 0.",
    ),
    click.option(
        "--now", type=parse_time, metavar="TIME", help="Time of the questions. Default: now."
    ),
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to ask: its name, the options of `evaluate`, and what it does without.

    `ignores_settings`: the retrieval settings do not apply.
    """

    name: str
    options: Mapping[str, Any]
    needs_embedder: bool = True
    ignores_settings: bool = False

    @contextmanager
    def open(self, inputs: EvaluationInputs) -> Iterator[Engine]:
        from knowloom.retrieval_settings import DEFAULT_SETTINGS

        with inputs.open(self.needs_embedder) as kb:
            yield kb.with_retrieval(DEFAULT_SETTINGS) if self.ignores_settings else kb


def parse_configuration(session: Session, arguments: Sequence[str]) -> Configuration:
    """Parse NAME=VALUE options, TOML files with a table [retrieval], and the word default.

    Options apply on top of the settings; files and `default` replace the settings, so that a file
    measures as it would when put into use.
    """
    from knowloom.evaluation.evaluate import OPTIONS
    from knowloom.retrieval_settings import load_settings

    options: dict[str, Any] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if argument == DEFAULT:
            continue
        if not equals:
            options |= load_settings(argument).changes
        elif name == "where":
            options[name] = [*options.get(name, ()), parse_where(value)]
        elif name in (*OPTIONS, "embedder"):
            options[name] = _parse_value(value)
        else:
            error = unknown_name("option", name, (*OPTIONS, "embedder"))
            raise Invalid(f"{error}; or a TOML file, or {DEFAULT}")
    embedder = options.pop("embedder", "")
    if embedder not in ("", "none"):
        raise Invalid(f"embedder must be none, got {embedder!r}: the vectors are of another one")
    name = ", ".join(arguments) or (CURRENT if session.settings().retrieval else DEFAULT)
    ignores_settings = any("=" not in argument for argument in arguments)
    return Configuration(name, options, not embedder, ignores_settings)


def _parse_value(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    """The questions, and a function that opens the knowledge with or without its embedder."""

    questions: Sequence[Question]
    open: Callable[[bool], Engine]
    notes: tuple[str, ...] = ()


@contextmanager
def open_inputs(
    session: Session, paths: Sequence[str], space_by: str, split: str, progress: Progress | None
) -> Iterator[EvaluationInputs]:
    """Read the questions and prepare the knowledge; temporary stores last until the block ends."""
    from knowloom.evaluation import datasets, questions

    if len(paths) > 2 or (len(paths) == 2 and session.db is not None):
        raise click.UsageError(
            "pass [KNOWLEDGE] QUESTIONS; the knowledge is either the first argument or --db"
        )
    path = paths[-1]
    if datasets.is_dataset(path):
        if len(paths) == 2:
            raise click.UsageError(f"{path} contains its knowledge: pass the folder alone")
        data = datasets.read_dataset(path, space_by=space_by, split=split)
        notes = tuple(f"{path}: {note}" for note in data.notes)
        with _temporary_session(session) as temporary:
            _store_items(temporary, data.items, progress)
            yield EvaluationInputs(data.questions, _opener(temporary), notes)
        return
    if Path(path).is_dir():
        raise NotFound(
            f"no {datasets.CORPUS} in folder {path!r}; for other knowledge, pass a question file",
            "no_file",
        )
    if space_by or split:
        raise click.UsageError(f"--space-by and --split need a folder with a {datasets.CORPUS}")
    items = questions.read_questions(path)
    with _open_knowledge(session, paths[0] if len(paths) == 2 else None, progress) as opener:
        yield EvaluationInputs(items, opener)


def _store_items(session: Session, items: Sequence[Any], progress: Progress | None) -> None:
    with session.open(create=True) as kb:
        for start in range(0, len(items), BATCH):
            session.warn(*kb.add(items[start : start + BATCH]).problems)
            if progress is not None:
                progress("items", min(start + BATCH, len(items)), len(items))


@contextmanager
def _open_knowledge(
    session: Session, path: str | None, progress: Progress | None
) -> Iterator[Callable[[bool], Engine]]:
    """Open a store, or load files and folders into a temporary one."""
    file = Path(path or "")
    is_loadable = file.is_dir() or (file.is_file() and file.suffix.lower() in LOADABLE)
    if path is None or not is_loadable:
        yield _opener(session if path is None else replace(session, db=path))
        return
    with _temporary_session(session) as temporary:
        with temporary.open(create=True) as kb:
            space = file.stem if file.is_file() else None
            report = kb.load(path, space=space, progress=progress)
        session.warn(*report.problems)
        if report.skipped:
            session.warn(f"{path}: {len(report.skipped):,} rows were skipped")
        yield _opener(temporary)


def _opener(session: Session) -> Callable[[bool], Engine]:
    return lambda needs_embedder: session.open(needs_embedder=needs_embedder)


@contextmanager
def _temporary_session(session: Session) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="knowloom-eval-") as folder:
        yield replace(session, db=str(Path(folder) / "knowledge.db"))


def validate_output(session: Session, option: str, path: str | None) -> None:
    """Raise now if the output file cannot be written, rather than after the work."""
    if path == "-" and session.as_json:
        raise click.UsageError(
            f"{option} - and --json cannot share standard output: pass a file to {option}"
        )
    if path is None or path == "-":
        return
    file = Path(path).resolve()
    try:
        if file.is_dir():
            raise Unavailable(f"cannot write {path!r}: it is a folder")
        if file.is_file() or not file.exists():  # opening a device or a pipe may have effects
            tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise Unavailable(f"cannot write {path!r}: {error.strerror}") from error


def print_result(
    session: Session, row: dict[str, Any], render: Callable[[], Sequence[Any]], path: str | None
) -> None:
    """Print the tables or the JSON; tables go to standard error if the file is standard output."""
    if path == "-":
        session.print(*render(), stderr=True)
    else:
        session.output(row, lambda _: render())
