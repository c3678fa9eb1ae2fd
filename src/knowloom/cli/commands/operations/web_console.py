"""The command `knowloom console`."""

from __future__ import annotations

import logging
import os
import socket
import webbrowser

import click

from knowloom.cli.commands.operations.serve import echo, import_server, keys_location, with_store
from knowloom.cli.options import examples
from knowloom.cli.program import Command
from knowloom.cli.session import Session

LOOPBACK = "127.0.0.1"


@click.command(
    "console",
    cls=Command,
    epilog=examples("knowloom console knowledge.db", "knowloom console --no-browser --port 8080"),
)
@click.argument("store", required=False, metavar="[PATH_OR_URL]")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Port of loopback to listen on. Default: a free one.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.pass_obj
def console(
    session: Session, store: str | None = None, port: int | None = None, no_browser: bool = False
) -> None:
    """Open the web console of the knowledge in the browser.

    Runs a server for this machine alone until Ctrl-C. The console asks for an API key once there
    is one (`knowloom keys add`).
    """
    session = with_store(session, store)
    import_server(processes=1)
    from knowloom.server import process, settings

    address = (LOOPBACK, port or _free_port(), keys_location(session, None))
    limits = settings.ServerLimits(**session.server_settings())
    # The collector keeps every warning, and a server runs for long.
    logging.getLogger("knowloom").removeHandler(session.warnings)

    def show() -> None:
        url = f"http://{settings.format_address(*address[:2])}/"
        if not no_browser and not webbrowser.open(url):
            echo(f"no browser found: open {url} in one")

    with session.open(create=True) as kb:
        workers = os.cpu_count() or 1
        process.serve(kb, *address, workers=workers, limits=limits, say=echo, on_ready=show)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
