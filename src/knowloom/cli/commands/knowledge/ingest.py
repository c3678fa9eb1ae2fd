"""The commands `knowloom ingest` and `knowloom replay`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from knowloom.cli.language_models import llm_option, open_llm
from knowloom.cli.options import examples, no_vectors_option, parse_time, space_option
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_document
from knowloom.errors import KnowloomError
from knowloom.files import RECORDS_SUFFIX
from knowloom.wire.knowledge import ingested_to_json, report_to_json

if TYPE_CHECKING:
    from knowloom.engine import Engine
    from knowloom.ports import LLM
    from knowloom.report import Report
    from knowloom.structuring.pipeline import Ingested


class IngestFlags(TypedDict, total=False):
    """The options passed on to `Engine.ingest`."""

    space: str
    entity: str
    max_retries: int
    again: bool
    dry_run: bool
    now: datetime


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom ingest notes.txt --as user:alice --space team --llm openai:gpt-4o-mini",
        "knowloom ingest notes.txt --space team --dry-run",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@space_option("Space to store in.")
@click.option("--as", "entity", metavar="ID", help="Entity the text is about, such as user:alice.")
@llm_option
@click.option(
    "--max-retries",
    default=3,
    type=click.IntRange(0, 20),
    metavar="N",
    help="Retries after an invalid answer of the LLM. Default: 3.",
)
@click.option(
    "--record-dir",
    metavar="FOLDER",
    help="Folder of check-in records. Default: the store's path with .checkins appended.",
)
@click.option("--again", is_flag=True, help="Call the LLM even for a text that is stored already.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the structured JSON and store only the record, for knowloom replay.",
)
@click.option("--now", type=parse_time, metavar="TIME", help="Time of the records. Default: now.")
@no_vectors_option
@click.pass_obj
def ingest(
    session: Session,
    /,
    files: Sequence[str],
    no_vectors: bool,
    llm: str | None = None,
    record_dir: str | None = None,
    **options: Unpack[IngestFlags],
) -> None:
    """Structure free text with an LLM and store it.

    The file - is standard input. Every run leaves a check-in record. A text that was ingested
    before is skipped. The exit status is 1 if a text could not be ingested.
    """
    dry_run = options.get("dry_run", False)
    if dry_run and len(files) > 1:
        raise click.UsageError("--dry-run prints one JSON document: pass one file")
    # Read all files before the first call to the LLM.
    texts = {name: read_document(name) for name in dict.fromkeys(files)}
    folder = session.sibling_path("beside" if record_dir is None else record_dir, RECORDS_SUFFIX)
    with open_llm(session, llm) as model, _open(session, dry_run, no_vectors) as kb:
        results = _ingest_texts(session, kb, texts, llm=model, record_dir=Path(folder), **options)
    if dry_run:
        session.write_json(dict(results[0].layers))
        return
    session.output(
        {"texts": [ingested_to_json(result) for result in results]},
        lambda tables: [
            part
            for result in results
            for part in (_format_result(result), tables.render_report(result.report))
        ],
    )
    is_complete = len(results) == len(texts) and all(map(_is_stored, results))
    sys.exit(0 if is_complete else 1)


@click.command(
    cls=Command,
    epilog=examples("knowloom replay knowledge.db.checkins/20260131T120000000000Z-1a2b3c4d5e6f"),
)
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option("--space", metavar="S", help="Space to store in. Default: that of the record.")
@no_vectors_option
@click.pass_obj
def replay(
    session: Session, folders: Sequence[str], no_vectors: bool, space: str | None = None
) -> None:
    """Load check-in records again, without an LLM. The exit status is 1 if nothing was stored."""
    from knowloom.report import Report

    with session.open(create=True, needs_embedder=not no_vectors) as kb:
        reports = (kb.replay(folder, space=space) for folder in dict.fromkeys(folders))
        report = sum(reports, Report())
    session.warn(*report.problems)
    session.output(report_to_json(report), lambda tables: [tables.render_report(report)])
    sys.exit(0 if _count_stored(report) else 1)


def _ingest_texts(
    session: Session,
    kb: Engine,
    texts: Mapping[str, str],
    *,
    llm: LLM,
    record_dir: Path,
    **options: Unpack[IngestFlags],
) -> list[Ingested]:
    """Ingest the texts. Failures are reported and skipped, unless there is only one text."""
    results = []
    with session.progress() as progress:
        for name, text in texts.items():
            source = "" if name == "-" else name
            try:
                result = kb.ingest(
                    text,
                    llm=llm,
                    record_dir=record_dir,
                    source=source,
                    progress=progress,
                    **options,
                )
            except KnowloomError as error:
                session.warn(*getattr(error, "__notes__", ()))
                if len(texts) == 1:
                    raise
                session.error(f"{name}: {error}")
                continue
            session.warn(*result.report.problems)
            results.append(result)
    return results


def _open(session: Session, dry_run: bool, no_vectors: bool) -> Engine:
    """Open the knowledge; an empty one for a dry run, so that no file is created."""
    import knowloom

    if not dry_run:
        return session.open(create=True, needs_embedder=not no_vectors)
    settings = session.settings()
    return knowloom.open(
        "memory:", embedder=None, secrets=settings.secrets, secret_rules=settings.secret_rules
    )


def _count_stored(report: Report) -> int:
    return report.added + report.updated + report.unchanged + report.edges


def _is_stored(result: Ingested) -> bool:
    return result.duplicate or bool(_count_stored(result.report))


def _format_result(result: Ingested) -> str:
    if result.duplicate:
        return f"already ingested, nothing changed (--again calls the LLM again): {result.record}"
    return f"{'loaded from an earlier record' if result.reused else 'record'}: {result.record}"
