"""The commands `knowloom eval` and `knowloom tune`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.session import Command, Session, options, time
from knowloom.cli.streams import output_to
from knowloom.errors import Invalid, NotFound, Unavailable, unknown

if TYPE_CHECKING:
    from knowloom.embedding import Progress
    from knowloom.engine import Engine
    from knowloom.evaluation.compare import Comparison
    from knowloom.evaluation.questions import Question
    from knowloom.evaluation.results import Evaluation
    from knowloom.evaluation.tune import Tuning

LOADED = (
    ".jsonl",
    ".ndjson",
    ".json",
    ".md",
    ".markdown",
    ".txt",
    ".rst",
)  # ends of files that are knowledge to load, not a store
DEFAULT, SET = "default", "what is set"  # names of ways to ask
BATCH = 2000  # items stored at a time


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _numbers(text: str) -> tuple[int, ...]:
    with suppress(ValueError):
        return tuple(int(part) for part in text.split(",")) if text else ()
    raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 2,5,10")


sources = options(
    click.argument("paths", nargs=-1, required=True, metavar="[KNOWLEDGE] QUESTIONS"),
    click.option(
        "--space",
        "spaces",
        multiple=True,
        metavar="S",
        help="Where questions look that name no space; may be given several times. Default: all.",
    ),
    click.option(
        "--space-by",
        default="",
        metavar="FIELD",
        help="Of a folder: the field that names the space of an item and of a question.",
    ),
    click.option(
        "--split", default="", metavar="NAME", help="Of a folder: only questions with this split."
    ),
    click.option(
        "--seed",
        default=0,
        type=click.IntRange(min=0),
        metavar="N",
        help="Of chance: the same seed gives the same answer. Default: 0.",
    ),
    click.option(
        "--now", type=time, metavar="TIME", help="The time of the questions. Default: now."
    ),
)


@click.command(
    "eval",
    cls=Command,
    epilog=_examples(
        "knowloom eval examples/questions.jsonl",
        "knowloom eval examples/harbor examples/questions.jsonl --with mode=walk --against mode=bm25 --html report.html",
    ),
)
@sources
@click.option(
    "--k",
    "ks",
    default="2,5,10",
    type=_numbers,
    metavar="N,N",
    help="The best so many of a search are looked at. Default: 2,5,10.",
)
@click.option(
    "--budgets",
    default="512,1024,2048",
    type=_numbers,
    metavar="N,N",
    help="Of contexts, in tokens. Default: 512,1024,2048.",
)
@click.option(
    "--with",
    "with_",
    multiple=True,
    metavar="NAME=VALUE",
    help="How to ask: mode=walk, depth=0, a TOML file …; may be given several times.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="NAME=VALUE",
    help="Compare with this way to ask, in the same form; default is knowloom's own way.",
)
@click.option(
    "--measure",
    default="",
    metavar="NAME",
    help="What the verdict goes by, such as recall@5. Default: nDCG@10, else the first that differs.",
)
@click.option(
    "--html",
    metavar="FILE",
    help="Write a page with plots and every question that changed; - for standard output.",
)
@click.pass_obj
def evaluate(
    session: Session,
    /,
    paths: Sequence[str],
    with_: Sequence[str],
    against: Sequence[str],
    html: str | None,
    **asked: Any,
) -> None:
    """Measure how well questions are answered, or compare two ways.

    QUESTIONS is a file of lines such as {"question": "…", "expected": ["id"], "spaces": ["support"]}, or a folder with corpus.jsonl and
    queries.jsonl. KNOWLEDGE is a store, or a file or folder that is loaded for the occasion; default: as for every command, --db.
    """
    from knowloom.evaluation import compare, json_report

    _check_output(session, "--html", html)
    ways = [_way(session, given) for given in ([against, with_] if against else [with_])]
    with (
        session.progress() as tell,
        _source(session, paths, asked["space_by"], asked["split"], tell) as source,
    ):
        found = [_evaluated(session, source, way, asked, tell) for way in ways]
    compared = (
        compare.compare(*found, measure=asked["measure"], seed=asked["seed"]) if against else None
    )
    if asked["measure"]:
        found[0].values(asked["measure"])  # an unknown one is refused without a comparison, too
    session.warn(
        *source.notes, *dict.fromkeys(problem for one in found for problem in one.problems)
    )
    if html is not None:
        _write_page(html, found[-1], compared, asked["seed"])
    row: dict[str, Any] = {"comparison": json_report.comparison(compared)} if compared else {}
    row |= {
        "configurations": [
            json_report.evaluation(one, asked["seed"]) | {"answers": json_report.answers(one)}
            for one in found
        ]
    }
    _answer(session, row, lambda: _shown(found[-1], compared, html), html)


def _check_output(session: Session, option: str, path: str | None) -> None:
    """What cannot be written is refused before the work, not after it."""
    if path == "-" and session.as_json:
        raise click.UsageError(
            f"{option} - and --json cannot share standard output: name a file after {option}"
        )
    if path is None or path == "-":
        return
    file = Path(path).resolve()
    try:
        if file.is_dir():
            raise Unavailable(f"cannot write {path!r}: it is a folder")
        if (
            file.is_file() or not file.exists()
        ):  # a device or a pipe is only opened to be written to
            tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise Unavailable(f"cannot write {path!r}: {error.strerror}") from error


def _answer(
    session: Session, row: dict[str, Any], shown: Callable[[], Sequence[Any]], path: str | None
) -> None:
    """Tables make room on standard output for a file that goes there."""
    if path == "-":
        session.print(*shown(), stderr=True)
    else:
        session.answer(row, lambda _: shown())


def _shown(found: Evaluation, compared: Comparison | None, html: str | None) -> list[Any]:
    from knowloom.cli import evaluate_tables

    page = [f"\nthe page is in {html}"] if html and html != "-" else []
    return [
        *(evaluate_tables.comparison(compared) if compared else evaluate_tables.evaluation(found)),
        *page,
    ]


def _write_page(path: str, found: Evaluation, compared: Comparison | None, seed: int) -> None:
    from knowloom.evaluation import html_report

    with output_to(path) as file:
        file.write(html_report.page(compared or found, seed))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask: its name, the options of `evaluate`, whether meaning counts, and whether numbers that are set do not."""

    name: str
    options: Mapping[str, Any]
    meaning: bool = True
    own: bool = False

    @contextmanager
    def opened(self, source: Source) -> Iterator[Engine]:
        from knowloom.options import AS_RECIPES_SAY

        with source.opener(self.meaning) as kb:
            yield kb.with_retrieval(AS_RECIPES_SAY) if self.own else kb


def _way(session: Session, given: Sequence[str]) -> Way:
    """NAME=VALUE beside what is set; the word default, or files with a table [retrieval], instead of it: so they count when they are put into use."""
    from knowloom.evaluation.evaluate import OPTIONS
    from knowloom.options import load

    found: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if one == DEFAULT:
            continue
        if not equals:
            found |= load(one).given
        elif name in (*OPTIONS, "embedder"):
            found[name] = _value(value)
        else:
            raise Invalid(
                f"{unknown('option', name, (*OPTIONS, 'embedder'))}; or a TOML file, or {DEFAULT}"
            )
    embedder = found.pop("embedder", "")
    if embedder not in ("", "none"):
        raise Invalid(
            f"embedder={embedder} cannot be compared on vectors of another: only embedder=none"
        )
    name = ", ".join(given) or (SET if session.settings().retrieval else DEFAULT)
    return Way(name, found, meaning=not embedder, own=any("=" not in one for one in given))


def _value(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


@dataclass(frozen=True, slots=True)
class Source:
    """What is asked, and what opens the knowledge that answers."""

    questions: Sequence[Question]
    opener: Callable[[bool], Engine]
    notes: tuple[str, ...] = ()


@contextmanager
def _source(
    session: Session, paths: Sequence[str], space_by: str, split: str, tell: Progress | None
) -> Iterator[Source]:
    from knowloom.evaluation import datasets, questions

    if len(paths) > 2 or (len(paths) == 2 and session.db is not None):
        raise click.UsageError(
            "give [KNOWLEDGE] QUESTIONS, and the knowledge once: as the first of two arguments or as --db"
        )
    asked = paths[-1]
    if not datasets.is_folder(asked):
        if Path(asked).is_dir():
            raise NotFound(
                f"the folder {asked!r} has no {datasets.CORPUS}; for questions about other knowledge, name a file of questions",
                "no_file",
            )
        if space_by or split:
            raise click.UsageError(
                f"--space-by and --split are for folders with a {datasets.CORPUS}"
            )
        read = questions.read(asked)
        with _knowledge(session, paths[0] if len(paths) == 2 else None, tell) as opener:
            yield Source(read, opener)
        return
    if len(paths) == 2:
        raise click.UsageError(f"{asked} brings its knowledge along: give the folder alone")
    data = datasets.read(asked, space_by=space_by, split=split)
    with _temporary(session) as built:
        with built.open(create=True) as kb:
            for start in range(0, len(data.items), BATCH):
                session.warn(*kb.add(data.items[start : start + BATCH]).problems)
                if tell is not None:
                    tell("items", min(start + BATCH, len(data.items)), len(data.items))
        yield Source(
            data.questions,
            lambda meaning: built.open(meaning=meaning),
            tuple(f"{asked}: {note}" for note in data.notes),
        )


@contextmanager
def _knowledge(
    session: Session, given: str | None, tell: Progress | None
) -> Iterator[Callable[[bool], Engine]]:
    """A store as it is, or files and folders loaded into one that is gone afterwards."""
    if given is None or not (
        Path(given).is_dir() or (Path(given).is_file() and Path(given).suffix.lower() in LOADED)
    ):
        named = session if given is None else replace(session, db=given)
        yield lambda meaning: named.open(meaning=meaning)
        return
    with _temporary(session) as built:
        with built.open(create=True) as kb:
            report = kb.load(
                given, space=Path(given).stem if Path(given).is_file() else None, progress=tell
            )
        session.warn(
            *report.problems,
            *([f"{given}: {len(report.skipped):,} rows were skipped"] if report.skipped else []),
        )
        yield lambda meaning: built.open(meaning=meaning)


@contextmanager
def _temporary(session: Session) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="knowloom-eval-") as folder:
        yield replace(session, db=str(Path(folder) / "knowledge.db"))


def _evaluated(
    session: Session, source: Source, way: Way, asked: Mapping[str, Any], tell: Progress | None
) -> Evaluation:
    from knowloom.evaluation.evaluate import evaluate

    now: datetime | None = asked["now"]
    with way.opened(source) as kb:
        missing = kb.stats().without_vector if kb.dimensions is not None else 0
        session.warn(
            *(
                [
                    f"{missing:,} items have no vector yet and are found by words alone: knowloom embed makes them"
                ]
                if missing
                else []
            )
        )
        return evaluate(
            kb,
            source.questions,
            ks=asked["ks"],
            budgets=asked["budgets"],
            spaces=asked["spaces"],
            name=way.name,
            now=now,
            progress=tell,
            **way.options,
        )


@click.command(
    cls=Command,
    epilog=_examples(
        "knowloom tune examples/questions.jsonl --only walk_onward --measure recall@5 --with mode=walk --write patch.toml",
    ),
)
@sources
@click.option(
    "--write",
    metavar="FILE",
    help="Write the numbers as a TOML file, for the setting retrieval (KNOWLOOM_RETRIEVAL); - for standard output.",
)
@click.option(
    "--measure",
    default="evidence@1024",
    metavar="NAME",
    help="What is made better. Default: evidence@1024.",
)
@click.option(
    "--folds",
    default=4,
    type=click.IntRange(min=2),
    metavar="N",
    help="Parts of the questions that are left out in turn. Default: 4.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Tune only shares (words and meaning), sharpness, depth, walk_onward …; may be given several times.",
)
@click.option(
    "--with",
    "with_",
    multiple=True,
    metavar="NAME=VALUE",
    help="How to ask, such as mode=walk; as for knowloom eval.",
)
@click.pass_obj
def tune(
    session: Session,
    /,
    paths: Sequence[str],
    write: str | None,
    only: Sequence[str],
    with_: Sequence[str],
    **asked: Any,
) -> None:
    """Search for better numbers of retrieval on training questions.

    They are kept only if they are better on questions left out, by more than chance; else what is set stays. Takes minutes.
    """
    from knowloom.evaluation import json_report
    from knowloom.evaluation.tune import TABLE, tune

    _check_output(session, "--write", write)
    for name in only:
        if name not in TABLE:
            raise unknown("row of what is tuned", name, TABLE)
    way, table = (
        _way(session, with_),
        {name: choices for name, choices in TABLE.items() if not only or name in only},
    )
    source_of = (asked.pop("space_by"), asked.pop("split"))
    with (
        session.progress() as tell,
        _source(session, paths, *source_of, tell) as source,
        way.opened(source) as kb,
    ):
        found = tune(kb, source.questions, table=table, progress=tell, **asked, **way.options)
    session.warn(*source.notes)
    if write is not None:
        with output_to(write) as file:
            file.write(found.patch())
    _answer(session, json_report.tuning(found), lambda: _tuned(found, write), write)


def _tuned(found: Tuning, write: str | None) -> list[Any]:
    from knowloom.cli import evaluate_tables

    return [
        *evaluate_tables.tuning(found),
        *(
            [f"\nthe numbers are in {write}: KNOWLOOM_RETRIEVAL={write} uses them"]
            if write and write != "-"
            else []
        ),
    ]


COMMANDS: tuple[click.Command, ...] = (evaluate, tune)
