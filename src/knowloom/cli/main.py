"""The command `knowloom`. Heavy modules are imported when a command runs, so that help and errors of usage come at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from knowloom import __version__, codec
from knowloom.cli import (
    agents,
    assemble,
    axioms,
    check_answer,
    evaluate,
    graph,
    history,
    ingest,
    links,
    memory,
    provide,
    serve,
)
from knowloom.cli.session import (
    Command,
    Group,
    Session,
    asking,
    bounded,
    filters,
    json_or_text,
    one_space,
    several_spaces,
    some_spaces,
    tier,
    time,
)
from knowloom.cli.streams import drop_output, output_to, stdin
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.embedding import Progress
    from knowloom.engine import Engine
    from knowloom.report import Report


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="knowloom")
def cli() -> None:
    """knowloom keeps what an organisation knows and weaves the best of it into each prompt, within the token budget.

    \b
    Start with these three:
      knowloom load examples/harbor
      knowloom context "How do I process a refund request?" --space support --space shared
      knowloom explain "How do I process a refund request?" --space support --space shared

    The knowledge is in knowledge.db unless --db (after the command) or KNOWLOOM_STORE says otherwise. `knowloom COMMAND --help` has examples.

    Exit status: 0 done, 1 it could not be done or something is wrong, 2 wrong usage.
    """


def _command(*examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    return cli.command(
        cls=Command, epilog="\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
    )


@_command(
    "knowloom load examples/docs",
    "knowloom load examples/harbor/support.jsonl --space support --no-vectors",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH...")
@click.option(
    "--space",
    metavar="S",
    help="The space of rows that name none. Default: in a folder, the name of each JSON file; for pages, of the folder.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Do not remove what an earlier load of the same path brought and is no longer there.",
)
@click.option("--no-vectors", is_flag=True, help="Do not embed now; knowloom embed does it later.")
@click.pass_obj
def load(
    session: Session, paths: Sequence[str], space: str | None, keep: bool, no_vectors: bool
) -> None:
    """Store what files and folders hold.

    They may be Markdown, text, JSON and JSON Lines. Loading a path again changes only what changed there and removes what vanished. What
    is not right is skipped and listed; the exit status is 1 only if nothing was stored.
    """
    with session.open(create=True, meaning=not no_vectors) as kb, session.progress() as tell:
        report = _loaded(kb, list(dict.fromkeys(paths)), space, keep, tell)
    session.warn(*report.problems)
    session.answer(encoding.report(report), lambda screen: [screen.report(report)])
    stored = report.added + report.updated + report.unchanged + report.removed + report.edges
    if report.skipped and not session.as_json:
        session.warn(f"{len(report.skipped):,} rows were skipped") if stored else session.say(
            "error: nothing was stored", "red"
        )
    sys.exit(1 if report.skipped and not stored else 0)


@_command(
    'knowloom add --space support --id late-parcels --type faq --title "Where is my parcel?" --text "Ask the carrier after 5 days."',
    "knowloom add --space support --id ada --kind entity --title Ada --tag vip --property orders=12 --property city=Hamburg",
)
@one_space
@click.option(
    "--id", required=True, help="Its name in the space. What had this id before is replaced."
)
@click.option(
    "--kind",
    default="node",
    metavar="KIND",
    help="node, entity, profile, rule, claim or memory. Default: node.",
)
@click.option("--type", default="", metavar="T", help="Any word to filter by later, such as faq.")
@click.option("--title", default="")
@click.option("--text", default="", help="The text; - reads it from standard input.")
@click.option("--summary", default="", help="Shown where the whole text does not fit.")
@click.option("--tag", "tags", multiple=True, metavar="T", help="May be given several times.")
@click.option(
    "--section",
    default="context",
    metavar="NAME",
    help="Where it goes in a prompt. Default: context.",
)
@click.option("--subject", metavar="ID", help="The entity it is about.")
@click.option("--confidence", type=float, metavar="X", help="How sure it is, from 0 to 1.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    type=json_or_text,
    metavar="NAME=VALUE",
    help="A value that is JSON is taken as such, else as text.",
)
@click.option("--source", metavar="TEXT", help="Where it comes from.")
@click.pass_obj
def add(
    session: Session, /, text: str, kind: str, properties: Sequence[tuple[str, Any]], **values: Any
) -> None:
    """Store one item."""
    from knowloom import validation

    text = stdin() if text == "-" else text
    item = validation.item_from_row(
        values | {"kind": kind, "text": text, "properties": dict(properties)}, None
    )
    with session.open(create=True) as kb:
        report = kb.add(item)
    session.warn(*report.problems)
    done = "added" if report.added else "updated" if report.updated else "unchanged"
    session.answer(encoding.report(report), lambda _: [f"{done}: {item.id} in {item.space}"])


@_command(
    'knowloom search "refund over 100 dollars" --space support',
    "knowloom search refund --space support --space shared --type faq --limit 5 --json",
)
@click.argument("query")
@several_spaces
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only node, entity, profile, rule, claim or memory; may be given several times.",
)
@click.option("--subject", metavar="ID", help="Only what is about this entity.")
@filters
@click.option(
    "--created-from", type=time, metavar="TIME", help="Only what was created then or later."
)
@click.option(
    "--created-to", type=time, metavar="TIME", help="Only what was created then or earlier."
)
@tier
@click.option(
    "--min-confidence",
    type=float,
    metavar="X",
    help="Only what is at least this sure, from 0 to 1.",
)
@click.pass_obj
def search(session: Session, /, query: str, spaces: Sequence[str], **asked: Any) -> None:
    """Find items by words and meaning, best first."""
    with session.open(meaning=asked["mode"] != "bm25") as kb:
        found = kb.search(query, spaces=spaces, **_given(asked))
    session.warn(*session.notes.seen)
    session.answer(encoding.hits(found, session.notes.seen), lambda screen: [screen.hits(found)])


@_command(
    'knowloom context "How do I process a refund request?" --space support --space shared > prompt.md',
    'knowloom context "How to query order data" --space analytics --max-tokens 600 --format yaml',
)
@asking
@click.pass_obj
def context(session: Session, /, query: str, spaces: Sequence[str], **asked: Any) -> None:
    """Print the best context for a request, within the budget.

    Nothing but the text goes to standard output; on a terminal, the tokens used and what each part gave are shown on standard error.
    """
    given = _request(session, asked)
    with session.open(meaning=asked["mode"] != "bm25") as kb:
        found = kb.context(query, spaces=spaces, **given)
    session.warn(*(f"{one.part}: {one.reason}" for one in found.degraded), *bounded(given))
    if session.as_json:
        session.write(encoding.context(found))
        return
    session.write_text(found.text)
    if sys.stderr.isatty():
        from knowloom.cli import console

        session.print("", console.token_bar(found), console.parts(found), stderr=True)


@_command(
    'knowloom explain "How do I process a refund request?" --space support --space shared --max-tokens 800',
    'knowloom explain "How do I process a refund request?" --space support --item gift-card-refunds',
)
@asking
@click.option(
    "--item",
    "ids",
    multiple=True,
    metavar="ID",
    help="Show only this item, in the text or not; may be given several times.",
)
@click.pass_obj
def explain(
    session: Session, /, query: str, spaces: Sequence[str], ids: Sequence[str], **asked: Any
) -> None:
    """Show why each item is in a context, or is not.

    What was left out comes with what would bring it in.
    """
    given = _request(session, asked)
    with session.open(meaning=asked["mode"] != "bm25") as kb:
        found = kb.explain(query, spaces=spaces, ids=ids, **given)
    session.warn(*(f"{one.part}: {one.reason}" for one in found.degraded), *bounded(given))
    session.answer(encoding.context(found), lambda screen: screen.explanation(found, ids))


@_command(
    "knowloom get refund-approval-limits --space support",
    "knowloom get refund-policy warranty-policy --space shared --json",
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@one_space
@click.pass_obj
def get(session: Session, ids: Sequence[str], space: str) -> None:
    """Show items by id. The exit status is 1 only if none of them exists."""
    with session.open(meaning=False) as kb:
        found = kb.get(list(dict.fromkeys(ids)), space=space)
    missing = _missing(session, ids, space, [item.id for item in found])
    session.answer(
        encoding.items(found, missing), lambda screen: [screen.item(item) for item in found]
    )
    sys.exit(0 if found else 1)


@_command("knowloom stats", "knowloom stats --json")
@click.pass_obj
def stats(session: Session) -> None:
    """Show the spaces, what they hold, and whose vectors they have."""
    with session.open(meaning=False) as kb:
        found = kb.stats()
    counted = memory.summaries(session)
    shown = {"asked": [asdict(one) for one in counted]} if counted else {}
    session.answer(
        encoding.statistics(found) | shown,
        lambda screen: [screen.statistics(found), *([screen.asked(counted)] if counted else [])],
    )


@_command("knowloom verify", "knowloom verify --json")
@click.pass_obj
def verify(session: Session) -> None:
    """Check that what is stored is whole. The exit status is 1 if anything is wrong."""
    with session.open(meaning=False) as kb:
        wrong = kb.verify()
    session.answer({"ok": not wrong, "problems": wrong}, lambda screen: [screen.verdict(wrong)])
    sys.exit(1 if wrong else 0)


@_command("knowloom export -o backup.jsonl", "knowloom export --space support > support.jsonl")
@some_spaces
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="The file to write: complete, or not at all. Default: standard output.",
)
@click.pass_obj
def export(session: Session, spaces: Sequence[str], output: str | None) -> None:
    """Write everything as JSON Lines.

    knowloom load reads it back exactly. A link into a space that is not exported can be loaded where that space is.
    """
    with session.open(meaning=False) as kb, output_to(output) as file:
        items = sum(
            file.write(codec.to_json(encoding.item(item)) + "\n") > 0
            for item in kb.items(spaces or None)
        )
        edges = sum(
            file.write(codec.to_json(encoding.edge(edge)) + "\n") > 0
            for edge in kb.edges(spaces or None)
        )
    if output not in (None, "-"):
        session.answer(
            {"file": output, "items": items, "edges": edges},
            lambda _: [f"{items:,} items and {edges:,} edges are in {output}"],
        )


@_command("knowloom delete gift-card-refunds --space support --yes")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@one_space
@click.option("--yes", is_flag=True, help="Do not ask. Required where nobody can be asked.")
@click.pass_obj
def delete(session: Session, ids: Sequence[str], space: str, yes: bool) -> None:
    """Forget items with their words, vectors and links. The exit status is 1 if nothing was deleted."""
    if not (yes or sys.stdin.isatty()):
        raise click.UsageError("nobody can be asked here: --yes is required")
    with session.open(meaning=False) as kb:
        found = [item.id for item in kb.get(list(dict.fromkeys(ids)), space=space)]
        missing = _missing(session, ids, space, found)
        agreed = bool(found) and (
            yes
            or click.confirm(f"Delete {', '.join(found)} from {space}, with all links?", err=True)
        )
        deleted = kb.delete(found, space=space) if agreed else 0
    if found and not deleted:
        session.say("error: nothing was deleted", "red")
    session.answer({"deleted": deleted, "missing": missing}, lambda _: [f"deleted: {deleted}"])
    sys.exit(0 if deleted else 1)


@_command("knowloom embed", "knowloom embed --space support --json")
@some_spaces
@click.pass_obj
def embed(session: Session, spaces: Sequence[str]) -> None:
    """Make the vectors that are missing."""
    if (session.embedder or session.settings().embedder) == "none":
        raise click.UsageError("there is no embedder: name one with --embedder, such as minilm")
    with session.open() as kb, session.progress() as tell:
        made = kb.embed(spaces or None, tell)
    session.answer({"vectors": made}, lambda _: [f"vectors made: {made:,}"])


@_command("knowloom reindex", "knowloom reindex --embedder none")
@click.pass_obj
def reindex(session: Session) -> None:
    """Make words and vectors anew.

    For another embedder or a newer knowloom. With --embedder none only the words: vectors stay as they are.
    """
    with session.open() as kb, session.progress() as tell:
        made = kb.reindex(tell)
    session.answer({"vectors": made}, lambda _: [f"words made anew; vectors made: {made:,}"])


@_command("knowloom recipes", "knowloom recipes --json")
@click.pass_obj
def recipes(session: Session) -> None:
    """List the ways to gather a context, for --recipe."""
    from knowloom.recipes import RECIPES

    session.answer(encoding.recipes(RECIPES), lambda screen: [screen.recipes(RECIPES)])


PARTS = (
    assemble,
    check_answer,
    agents,
    graph,
    axioms,
    ingest,
    history,
    links,
    provide,
    memory,
    evaluate,
    serve,
)
for command in (command for part in PARTS for command in part.COMMANDS):
    cli.add_command(command)


def main() -> None:
    """Answers are UTF-8 with plain line ends on every machine."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        cli(prog_name="knowloom")
    except OSError as error:  # help that cannot be written; commands translate their own
        drop_output()
        click.echo(f"error: {error.strerror or error}", err=True)
        sys.exit(1)


def _loaded(
    kb: Engine, paths: Sequence[str], space: str | None, keep: bool, tell: Progress | None
) -> Report:
    """What loading the paths did. A link may point into a later file: what was skipped is tried again when all are there."""
    from knowloom.report import Report

    reports = {path: kb.load(path, space=space, keep=keep, progress=tell) for path in paths}
    for path, first in reports.items():
        if first.skipped and len(paths) > 1:
            again = kb.load(path, space=space, embed=False, keep=keep)
            reports[path] = replace(first, edges=first.edges + again.edges, skipped=again.skipped)
    return sum(reports.values(), Report())


def _given(asked: dict[str, Any]) -> dict[str, Any]:
    """Only what the user said: the engine has its own defaults."""
    return {name: value for name, value in asked.items() if value not in (None, ())}


def _request(session: Session, asked: dict[str, Any]) -> dict[str, Any]:
    settings = session.settings()
    own = (
        {} if asked.get("agent") else {"max_tokens": settings.max_tokens, "format": settings.format}
    )
    given = own | {"model": settings.model} | _given(asked)
    return given | ({"max_tokens": None} if given.get("max_tokens") == "none" else {})


def _missing(session: Session, ids: Sequence[str], space: str, found: Sequence[str]) -> list[str]:
    """The ids that are not there, and told: an error where none is."""
    missing = [id for id in dict.fromkeys(ids) if id not in found]
    if found:
        session.warn(*(f"no item {id!r} in space {space!r}" for id in missing))
    else:
        session.say(f"error: no item {', '.join(map(repr, missing))} in space {space!r}", "red")
    return missing
