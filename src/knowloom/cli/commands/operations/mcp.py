"""The command `knowloom mcp`, and `knowloom mcp config`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING

import click

from knowloom.cli.options import examples, repeated
from knowloom.cli.program import Command, Group
from knowloom.cli.session import Session
from knowloom.errors import MissingExtra, NotFound
from knowloom.files import store_file

if TYPE_CHECKING:
    from knowloom.client.client import Client
    from knowloom.engine import Engine
    from knowloom.mcp.access import KnowledgeAccess

CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex")

store_argument = click.argument("store", required=False, metavar="[PATH_OR_URL]")
served_spaces = repeated("--space", "spaces", "S", "Space to serve. Default: all.")
read_only_option = click.option(
    "--read-only", is_flag=True, help="Offer no tools that change the knowledge."
)


class DefaultGroup(Group):
    """A group that runs its first command if none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = [*self.commands, *ctx.help_option_names]
        if not args or args[0] not in names:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=DefaultGroup,
    epilog=examples(
        "knowloom mcp knowledge.db --space support --read-only",
        "knowloom mcp --cost",
        "knowloom mcp config --client claude-code",
    ),
)
def mcp() -> None:
    """Serve the knowledge to agents over the Model Context Protocol.

    `knowloom mcp` is short for `knowloom mcp run`.
    """


@mcp.command(
    cls=Command,
    epilog=examples(
        "knowloom mcp run knowledge.db --space support",
        "KNOWLOOM_API_KEY=knowloom_… knowloom mcp run https://knowloom.example.com",
    ),
)
@store_argument
@served_spaces
@read_only_option
@click.option("--cost", is_flag=True, help="Print the tokens of the tools, and do not serve.")
@click.pass_obj
def run(
    session: Session,
    /,
    store: str | None = None,
    spaces: Sequence[str] = (),
    read_only: bool = False,
    cost: bool = False,
) -> None:
    """Serve on standard input and output until the client disconnects.

    The knowledge is a file or another store; http://… is a server of knowloom, whose API key is in
    the setting api_key (KNOWLOOM_API_KEY).
    """
    session = replace(session, db=store or session.db)
    if cost:
        return _print_cost(session, spaces, read_only)
    _check_store(session)
    opening: Future[KnowledgeAccess] = Future()
    # The embedder loads while the packages of the protocol are imported.
    Thread(target=_open, args=(opening, session, spaces, read_only), daemon=True).start()
    try:
        from knowloom.mcp.stdio import serve_stdio
    except ImportError as error:
        raise MissingExtra(
            f"package {error.name!r} is not installed: pip install 'knowloom[mcp]'"
        ) from error
    logging.getLogger("knowloom").removeHandler(session.warnings)
    try:
        serve_stdio(opening)
    finally:
        opening.result().kb.close()
    return None


def _check_store(session: Session) -> None:
    """Raise NotFound for a file that does not exist, before the client waits for an answer."""
    file = None if _is_server(session.url()) else store_file(session.url())
    if file is not None and not file.exists():
        raise NotFound(f"no file {str(file)!r}; load some first: knowloom load PATH", "no_file")


def _is_server(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _open(
    opening: Future[KnowledgeAccess], session: Session, spaces: Sequence[str], read_only: bool
) -> None:
    try:
        from knowloom.conversation.shown_record import ShownRecord
        from knowloom.mcp.access import KnowledgeAccess

        kb, served = _open_knowledge(session), tuple(spaces) or None
        model, shown = session.settings().model, ShownRecord()
        opening.set_result(KnowledgeAccess(kb, served, read_only, model, shown=shown))
    except BaseException as error:  # every request of the client reports it
        opening.set_exception(error)


def _open_knowledge(session: Session) -> Engine | Client:
    if not _is_server(session.url()):
        return session.open()
    import knowloom

    settings = session.settings()
    return knowloom.Client(session.url(), key=settings.api_key, timeout_s=settings.timeout_s)


def _print_cost(session: Session, spaces: Sequence[str], read_only: bool) -> None:
    from knowloom.mcp.surface import MAX_SURFACE, measure_surface

    cost = measure_surface(spaces or ("", ""), read_only=read_only)
    lines = [f"{tokens:5}  {part}" for part, tokens in cost.parts.items()]
    row = {"parts": dict(cost.parts), "total": cost.total, "limit": MAX_SURFACE}
    total = f"{cost.total:5}  tokens (cl100k_base), of at most {MAX_SURFACE}"
    session.output(row, lambda _: [*lines, total])


@mcp.command(cls=Command, epilog=examples("knowloom mcp config --client cursor --space support"))
@store_argument
@click.option(
    "--client",
    required=True,
    type=click.Choice(CLIENTS),
    help=f"Client to configure: {', '.join(CLIENTS)}.",
)
@served_spaces
@read_only_option
@click.pass_obj
def config(
    session: Session,
    /,
    client: str,
    store: str | None = None,
    spaces: Sequence[str] = (),
    read_only: bool = False,
) -> None:
    """Print the block to paste into the settings of a client."""
    from knowloom.mcp.client_config import format_config

    session = replace(session, db=store or session.db)
    flags = [word for space in spaces for word in ("--space", space)]
    flags += ["--read-only"] if read_only else []
    program = [sys.executable, "-m", "knowloom", "mcp"]
    block = format_config(client, [*program, session.location(), *flags])
    if session.as_json:
        return session.write_json({"file": block.file, "text": block.text})
    session.info(f"for {block.file}:")
    return session.write_text(block.text)
