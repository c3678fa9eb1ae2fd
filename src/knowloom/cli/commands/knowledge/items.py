"""The commands `knowloom add`, `get`, `read`, `delete` and `export`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from knowloom.cli.options import (
    KINDS,
    examples,
    max_tokens_option,
    model_option,
    optional_spaces,
    parse_property,
    repeated,
    secrets_option,
    space_option,
    where_option,
)
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import open_output, read_stdin
from knowloom.wire.knowledge import (
    items_to_json,
    page_to_json,
    report_to_json,
)

if TYPE_CHECKING:
    from knowloom.context.item_pages import ItemPage
    from knowloom.options import ReadArguments


class ItemArguments(TypedDict, total=False):
    """The fields of an item that `knowloom add` passes on unchanged."""

    id: str
    space: str
    kind: str
    type: str
    title: str
    summary: str
    tags: tuple[str, ...]
    section: str
    subject: str
    confidence: float
    source: str
    trust: str


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom add --space support --id late-parcels --type faq --title "Where is my parcel?" '
        '--text "Ask the carrier after 5 days."',
        "knowloom add --space support --id ada --kind entity --title Ada --tag vip "
        "--property orders=12 --property city=Hamburg",
    ),
)
@space_option()
@click.option(
    "--id", required=True, metavar="ID", help="Id in the space; an item with this id is replaced."
)
@click.option("--kind", default="node", metavar="KIND", help=f"{KINDS}. Default: node.")
@click.option("--type", default="", metavar="T", help="Any word to filter by, such as faq.")
@click.option("--title", default="", metavar="TEXT")
@click.option("--text", default="", metavar="TEXT", help="The text; - reads standard input.")
@click.option("--summary", default="", metavar="TEXT", help="Used where the text does not fit.")
@repeated("--tag", "tags", "T", "A tag.")
@click.option(
    "--section", default="context", metavar="NAME", help="Prompt section. Default: context."
)
@click.option("--subject", metavar="ID", help="Entity that the item is about.")
@click.option("--confidence", type=float, metavar="X", help="Confidence, from 0 to 1.")
@repeated(
    "--property",
    "properties",
    "NAME=VALUE",
    "A property; the value is JSON if it can be decoded, text otherwise.",
    type=parse_property,
)
@click.option("--source", metavar="TEXT", help="Where the item comes from.")
@click.option(
    "--trust",
    type=click.Choice(("trusted", "untrusted")),
    default="trusted",
    help="Untrusted text is never shown as instructions. Default: trusted.",
)
@secrets_option
@click.pass_obj
def add(
    session: Session,
    /,
    text: str,
    properties: Sequence[tuple[str, Any]] = (),
    secrets: str | None = None,
    **fields: Unpack[ItemArguments],
) -> None:
    """Store one item."""
    from knowloom import validation

    text = read_stdin() if text == "-" else text
    row = {**fields, "text": text, "properties": dict(properties)}
    with session.open(create=True) as kb:
        row["space"] = kb.reader.choose_space(fields.get("space"))
        item = validation.item_from_row(row, None)
        report = kb.add(item, secrets=secrets)
    session.warn(*report.problems)
    action = "added" if report.added else "updated" if report.updated else "unchanged"
    session.output(report_to_json(report), lambda _: [f"{action}: {item.id} in {item.space}"])


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom get refund-approval-limits --space support",
        "knowloom get refund-policy warranty-policy --space shared --json",
    ),
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@space_option("Space of the items.")
@click.pass_obj
def get(session: Session, ids: Sequence[str], space: str | None = None) -> None:
    """Show items by id. The exit status is 1 only if none exists."""
    with session.open(needs_embedder=False) as kb:
        name = kb.reader.resolve_space(space)
        items = kb.get(list(dict.fromkeys(ids)), space=name)
    missing = _report_missing(session, ids, name, [item.id for item in items])
    session.output(
        items_to_json(items, missing),
        lambda tables: [tables.render_item(item) for item in items],
    )
    sys.exit(0 if items else 1)


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom read process-a-refund --space support",
        "knowloom read process-a-refund --space support --max-tokens 200 --page 2",
    ),
)
@click.argument("id", metavar="ID")
@repeated("--space", "spaces", "S", "Space to look in. Default: all.")
@click.option("--page", type=int, metavar="N", help="Page to show. Default: 1.")
@click.option(
    "--passage", type=int, metavar="N", help="Show the page where this passage begins, from 0."
)
@max_tokens_option("the setting, else 2000", "Token budget of a page; none for no limit.")
@model_option
@click.pass_obj
def read(
    session: Session,
    /,
    id: str,
    spaces: Sequence[str] | None = None,
    **options: Unpack[ReadArguments],
) -> None:
    """Show an item page by page.

    Pages end between passages, and together they have the whole text of the item.
    """
    arguments = session.with_defaults(options, "max_tokens", "model")
    with session.open(needs_embedder=False) as kb:
        page = kb.read(id, space=spaces, **arguments)
    session.warn_degraded(page.degraded)
    if session.as_json:
        session.write_json(page_to_json(page))
        return
    from knowloom.cli import tables

    session.print(*tables.render_page_head(page))
    command = _next_command(session, page, options)
    following = f"; next: {command}" if command else ""
    text = page.text.strip("\n")
    place = f"page {page.page} of {page.pages}, {page.tokens:,} tokens{following}\n"
    # Not as a table: lines must not be wrapped, so that they can be copied.
    session.write_text(f"{text}\n\n{place}" if text else place)


def _next_command(session: Session, page: ItemPage, options: Mapping[str, Any]) -> str:
    """Return the command that shows the next page, "" on the last one."""
    if page.next is None:
        return ""
    values = {"db": session.db, "space": page.space, "page": page.next}
    values |= {"max-tokens": options.get("max_tokens"), "model": options.get("model")}
    flags = [part for name, value in values.items() if value for part in (f"--{name}", str(value))]
    flags += ["--strict"] if options.get("strict") else []
    guard = ["--"] if page.id.startswith("-") else []
    return shlex.join(["knowloom", "read", *flags, *guard, page.id])


@click.command(
    cls=Command, epilog=examples("knowloom delete gift-card-refunds --space support --yes")
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@space_option("Space of the items.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def delete(session: Session, ids: Sequence[str], yes: bool, space: str | None = None) -> None:
    """Delete items and their links. The exit status is 1 if nothing was deleted."""
    if not (yes or sys.stdin.isatty()):
        raise click.UsageError("not a terminal: pass --yes to confirm")
    with session.open(needs_embedder=False) as kb:
        space = kb.reader.resolve_space(space)
        existing = [item.id for item in kb.get(list(dict.fromkeys(ids)), space=space)]
        missing = _report_missing(session, ids, space, existing)
        question = f"Delete {', '.join(existing)} from {space}, with all links?"
        is_confirmed = bool(existing) and (yes or click.confirm(question, err=True))
        deleted = kb.delete(existing, space=space) if is_confirmed else 0
    if existing and not deleted:
        session.error("nothing was deleted")
    session.output({"deleted": deleted, "missing": missing}, lambda _: [f"deleted: {deleted}"])
    sys.exit(0 if deleted else 1)


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom export -o backup.jsonl", "knowloom export --space support > support.jsonl"
    ),
)
@optional_spaces
@where_option
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="File to write, atomically. Default: standard output.",
)
@click.pass_obj
def export(
    session: Session,
    spaces: Sequence[str] = (),
    where: Sequence[Mapping[str, Any]] = (),
    output: str | None = None,
) -> None:
    """Write everything, or the items of a filter, as JSON Lines.

    It is the state of one moment. Of the items of a filter, the links between them are written.
    knowloom load reads it back exactly. Links into spaces that are not exported need those spaces
    to be loaded.
    """
    from knowloom.engine import restrict

    with session.open(needs_embedder=False) as kb, open_output(output) as file:
        visible = restrict(kb, where) if where else kb
        counts = visible.maintenance.export(file, spaces=spaces or None)
    if output not in (None, "-"):
        session.output(
            {"file": output, "items": counts.items, "edges": counts.edges},
            lambda _: [f"{counts.items:,} items and {counts.edges:,} edges are in {output}"],
        )


def _report_missing(
    session: Session, ids: Sequence[str], space: str, existing: Sequence[str]
) -> list[str]:
    """Return the ids that do not exist; warn about them, or report an error if none exists."""
    missing = [id for id in dict.fromkeys(ids) if id not in existing]
    if existing:
        session.warn(*(f"no item {id!r} in space {space!r}" for id in missing))
    else:
        session.error(f"no item {', '.join(map(repr, missing))} in space {space!r}")
    return missing
