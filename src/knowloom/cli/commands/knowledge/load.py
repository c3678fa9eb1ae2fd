"""The command `knowloom load`, and the report of a load."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from knowloom.cli.options import examples, no_vectors_option, repeated, secrets_option
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.errors import list_names
from knowloom.wire.knowledge import report_to_json

if TYPE_CHECKING:
    from pathlib import Path

    from knowloom.loading.readers import LoadSource
    from knowloom.loading.sources.folder_watch import Snapshot
    from knowloom.ports import Progress
    from knowloom.report import Report

STANDARD_INPUT = "-"
STEP_S = 0.1  # until an interruption is noticed


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom load examples/docs",
        "knowloom load examples/harbor/support.jsonl --space support --no-vectors",
        "git log -n 50 | knowloom load - --name history.txt --space project",
    ),
)
@click.argument(
    "paths",
    nargs=-1,
    type=click.Path(exists=True, allow_dash=True),
    metavar="PATH...",
)
@click.option(
    "--space",
    metavar="S",
    help="Space of rows that name none. Default: the name of the JSON file in a folder, or of the "
    "folder of a document.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Keep items of an earlier load of the same path that are no longer there.",
)
@click.option("--follow-links", is_flag=True, help="Read links that lead out of a folder.")
@secrets_option
@repeated("--web", "urls", "URL", "Read this page and those it links to, or a sitemap (.xml).")
@click.option("--max-pages", type=int, metavar="N", help="Pages of each --web. Default: 50.")
@click.option("--watch", is_flag=True, help="Load again whenever a file changes, until Ctrl-C.")
@click.option(
    "--name",
    default="stdin.md",
    metavar="FILE",
    help="Name of standard input (the path -); its suffix tells the kind. Default: stdin.md.",
)
@no_vectors_option
@click.pass_obj
def load(
    session: Session,
    keep: bool,
    follow_links: bool,
    watch: bool,
    name: str,
    no_vectors: bool,
    paths: Sequence[str] = (),
    urls: Sequence[str] = (),
    max_pages: int | None = None,
    space: str | None = None,
    secrets: str | None = None,
) -> None:
    """Store the contents of files and folders.

    Documents, source code and JSON are read; - is standard input. Loading a path again applies only
    the changes and removes what is gone. What cannot be read is skipped and listed; the exit status
    is 1 only if nothing was stored.
    """
    unique = list(dict.fromkeys(paths))
    if not (unique or urls):
        raise click.UsageError("Missing argument 'PATH...'.")
    if watch and (STANDARD_INPUT in unique or urls):
        raise click.UsageError("--watch needs files and folders only")
    sources = [*_read_sources(unique, name), *_web_pages(urls, max_pages)]
    before = _take_snapshot(unique, follow_links) if watch else {}
    with session.open(create=True, needs_embedder=not no_vectors) as kb:
        load_source = partial(
            kb.load, space=space, keep=keep, follow_links=follow_links, secrets=secrets
        )
        with session.progress() as progress:
            report = _load_sources(load_source, sources, progress)
            spaces = kb.reader.filled_spaces()
        print_report(session, report, "rows", spaces)
        if watch:
            _watch(session, load_source, unique, follow_links, before)
    stored = report.added + report.updated + report.unchanged + report.removed + report.edges
    sys.exit(1 if report.skipped and not stored else 0)


def _read_sources(paths: Sequence[str], name: str) -> Iterator[LoadSource]:
    from knowloom.loading.source_rows import NamedBytes

    for path in paths:
        is_input = path == STANDARD_INPUT
        yield NamedBytes(name, sys.stdin.buffer.read()) if is_input else path


def _web_pages(urls: Sequence[str], max_pages: int | None) -> Iterator[LoadSource]:
    from knowloom.loading.sources.web_source import WebPages

    for url in dict.fromkeys(urls):
        yield WebPages(url) if max_pages is None else WebPages(url, max_pages)


def _load_sources(
    load_source: Callable[..., Report],
    sources: Sequence[LoadSource],
    progress: Progress | None,
) -> Report:
    """Load the sources. Skipped rows are retried at the end: links may point into a later file."""
    from knowloom.report import Report

    reports = [load_source(source, progress=progress) for source in sources]
    for number, source in enumerate(sources):
        first = reports[number]
        if first.skipped and len(sources) > 1:
            again = load_source(source, embed=False)
            edges = first.edges + again.edges
            reports[number] = replace(first, edges=edges, skipped=again.skipped)
    return sum(reports, Report())


def _take_snapshot(paths: Sequence[str], follow_links: bool) -> Snapshot:
    from knowloom.loading.readers import supported_suffixes
    from knowloom.loading.sources.folder_watch import take_snapshot

    return take_snapshot(paths, supported_suffixes(), follow_links)


def _watch(
    session: Session,
    load_source: Callable[..., Report],
    paths: Sequence[str | Path],
    follow_links: bool,
    loaded: Snapshot,
) -> None:
    """Load the paths again after each change, until the user interrupts it."""
    from knowloom.errors import KnowloomError
    from knowloom.loading.readers import supported_suffixes
    from knowloom.loading.sources.folder_watch import watch_changes

    with Interruption() as interruption:
        changes = watch_changes(
            paths, supported_suffixes(), loaded, interruption.sleep, follow_links
        )
        session.info(f"watching {', '.join(map(str, paths))}; Ctrl-C ends it")
        for _ in changes:
            try:
                report = _load_sources(load_source, [str(path) for path in paths], None)
            except KnowloomError as error:  # as while a folder is replaced
                session.warn(str(error))
                continue
            session.warn(*(f"{skip.where}: {skip.why}" for skip in report.skipped))
            session.info(f"{time.strftime('%H:%M:%S')} {report}")


class Interruption:
    """A block that Ctrl-C ends at its next `sleep`; a second Ctrl-C ends it at once.

    A load is finished first, and no callback or finalizer can swallow the exception.
    """

    def __init__(self) -> None:
        self._interrupted = False

    def __enter__(self) -> Interruption:
        self._previous = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        signal.signal(signal.SIGINT, self._previous)
        return kind is KeyboardInterrupt

    def _interrupt(self, *_: object) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def sleep(self, seconds: float) -> None:
        """Sleep in short steps, as a handler that returns does not end a sleep."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and not self._interrupted:
            time.sleep(min(rest, STEP_S))
        if self._interrupted:
            raise KeyboardInterrupt


def _format_place(location: str, spaces: Sequence[str]) -> str:
    names = "space" if len(spaces) == 1 else "spaces"
    return f"\nstored in {location}; {names}: {list_names(spaces)}"


def print_report(
    session: Session, report: Report, noun: str, spaces: Sequence[str] | None = None
) -> None:
    """Print a report of a load, and a warning or an error about what was skipped.

    With `spaces` it says where the knowledge is.
    """
    session.warn(*report.problems)
    where = {} if spaces is None else {"store": session.location(), "spaces": list(spaces)}
    lines = [] if spaces is None else [_format_place(session.location(), spaces)]
    session.output(
        report_to_json(report) | where, lambda tables: [tables.render_report(report), *lines]
    )
    if not report.skipped or session.as_json:
        return
    if any("what looks like" in skipped.why for skipped in report.skipped):
        session.info("note: --secrets redact stores the rest of such a row: docs/secrets.md")
    counts = (report.added, report.updated, report.unchanged, report.removed, report.edges)
    if any(counts):
        session.warn(f"{len(report.skipped):,} {noun} were skipped")
    else:
        session.error("nothing was stored")
