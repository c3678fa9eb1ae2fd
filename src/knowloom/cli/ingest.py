"""The commands that take free text in: `knowloom ingest` and `knowloom replay`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.session import Command, Session, time
from knowloom.cli.streams import stdin
from knowloom.errors import Invalid, KnowloomError, NotFound, Unavailable
from knowloom.files import CHECKINS
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.engine import Engine
    from knowloom.ports import LLM
    from knowloom.report import Report
    from knowloom.structuring.pipeline import Ingested

EMBEDDING = click.option(
    "--no-vectors", is_flag=True, help="Do not embed now; knowloom embed does it later."
)


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.command(
    cls=Command,
    epilog=_examples(
        "knowloom ingest notes.txt --as user:alice --space team --llm openai:gpt-4o-mini",
        "knowloom ingest notes.txt --space team --dry-run",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--space", required=True, metavar="S", help="The space it goes to.")
@click.option("--as", "entity", metavar="ID", help="The entity it is about, such as user:alice.")
@click.option(
    "--llm",
    metavar="NAME",
    help="openai:MODEL or openai:MODEL@URL. Default: the setting llm (KNOWLOOM_LLM).",
)
@click.option(
    "--max-retries",
    default=3,
    type=click.IntRange(0, 20),
    metavar="N",
    help="How often a wrong answer is asked for again. Default: 3.",
)
@click.option(
    "--record-dir",
    metavar="FOLDER",
    help="Where check-in records go. Default: where the knowledge is, with .checkins at its end.",
)
@click.option(
    "--again", is_flag=True, help="Ask the LLM even if the same text was taken in before."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the structured JSON and store nothing. The record is kept: knowloom replay stores it.",
)
@click.option("--now", type=time, metavar="TIME", help="The time of the records. Default: now.")
@EMBEDDING
@click.pass_obj
def ingest(session: Session, /, files: Sequence[str], **asked: Any) -> None:
    """Structure free text with an LLM and store it.

    A file called - is standard input. Every run leaves a check-in record. A text that was taken in before is left alone. The exit
    status is 1 if a text could not be taken in.
    """
    if asked["dry_run"] and len(files) > 1:
        raise click.UsageError("--dry-run prints one JSON document: give it one file")
    texts = {
        name: _read(name) for name in dict.fromkeys(files)
    }  # all can be read, or nothing is asked
    with closing(_llm(session, asked.pop("llm"))) as llm:
        done = _ingested(session, texts, llm, **asked)
    if asked["dry_run"]:
        session.write(dict(done[0].layers))
        return
    session.answer(
        {"texts": [_row(one) for one in done]},
        lambda screen: [part for one in done for part in (_line(one), screen.report(one.report))],
    )
    sys.exit(1 if len(done) < len(texts) or any(_nothing_stored(one) for one in done) else 0)


@click.command(
    cls=Command,
    epilog=_examples("knowloom replay knowledge.db.checkins/20260131T120000000000Z-1a2b3c4d5e6f"),
)
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option("--space", metavar="S", help="The space to load into. Default: that of the record.")
@EMBEDDING
@click.pass_obj
def replay(session: Session, folders: Sequence[str], space: str | None, no_vectors: bool) -> None:
    """Load check-in records again, without an LLM. The exit status is 1 if nothing was stored."""
    from knowloom.report import Report

    with session.open(create=True, meaning=not no_vectors) as kb:
        report = sum(
            (kb.replay(folder, space=space) for folder in dict.fromkeys(folders)), Report()
        )
    session.warn(*report.problems)
    session.answer(encoding.report(report), lambda screen: [screen.report(report)])
    sys.exit(0 if _stored(report) else 1)


def _ingested(
    session: Session,
    texts: Mapping[str, str],
    llm: LLM,
    *,
    record_dir: str | None,
    no_vectors: bool,
    **asked: Any,
) -> list[Ingested]:
    """What became of each text. One that fails is told of; if it is the only one, it is the error of the whole run."""
    done = []
    folder = Path(record_dir) if record_dir is not None else _beside(session)
    with _opened(session, asked["dry_run"], no_vectors) as kb, session.progress() as tell:
        for name, text in texts.items():
            try:
                found = kb.ingest(
                    text,
                    llm=llm,
                    record_dir=folder,
                    source="" if name == "-" else name,
                    progress=tell,
                    **asked,
                )
            except KnowloomError as error:
                session.warn(*getattr(error, "__notes__", ()))
                if len(texts) == 1:
                    raise
                session.say(f"error: {name}: {' '.join(str(error).split())}", "red")
                continue
            session.warn(*found.report.problems)
            done.append(found)
    return done


def _opened(session: Session, dry_run: bool, no_vectors: bool) -> Engine:
    """The knowledge; for a dry run an empty one, so that no file is made."""
    import knowloom

    if not dry_run:
        return session.open(create=True, meaning=not no_vectors)
    settings = session.settings()
    return knowloom.open(
        "memory:", embedder=None, secrets=settings.secrets, secret_rules=settings.secret_rules
    )


def _llm(session: Session, given: str | None) -> Any:
    import knowloom

    settings = session.settings()
    name = given or settings.llm
    if not name:
        raise click.UsageError(
            "no LLM: name one with --llm, such as openai:gpt-4o-mini or openai:llama3@http://127.0.0.1:11434/v1, or set KNOWLOOM_LLM"
        )
    return knowloom.open_llm(
        name,
        api_key=settings.llm_api_key or settings.openai_api_key,
        timeout_s=settings.llm_timeout_s,
    )


def _beside(session: Session) -> Path:
    """Beside the knowledge; for a store that is not a file, in this folder."""
    return Path(session.beside("beside", CHECKINS))


def _read(name: str) -> str:
    if name == "-":
        return stdin()
    try:
        return Path(name).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name!r} is not a UTF-8 text: {error}") from None
    except (FileNotFoundError, ValueError):
        raise NotFound(f"no file {name!r}", "no_file") from None
    except OSError as error:
        raise Unavailable(f"{name!r} cannot be read: {error.strerror}") from error


def _stored(report: Report) -> int:
    return report.added + report.updated + report.unchanged + report.edges


def _nothing_stored(one: Ingested) -> bool:
    return not (one.duplicate or _stored(one.report))


def _row(one: Ingested) -> encoding.Row:
    return {
        "record": str(one.record),
        "duplicate": one.duplicate,
        "reused": one.reused,
        "report": encoding.report(one.report),
    }


def _line(one: Ingested) -> str:
    if one.duplicate:
        return f"taken in before, nothing changed (--again asks anew): {one.record}"
    return f"{'loaded from an earlier record' if one.reused else 'record'}: {one.record}"


COMMANDS: tuple[click.Command, ...] = (ingest, replay)
