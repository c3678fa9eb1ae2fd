"""The commands of the service: `knowloom serve` and `knowloom keys`."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.session import Command, Group, Session
from knowloom.errors import Invalid, MissingExtra
from knowloom.files import file_of

if TYPE_CHECKING:
    from knowloom.server.auth import Key, Keyring


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


keys_file = click.option(
    "--keys",
    "keys",
    metavar="FILE",
    help="The file of the keys. Default: where the knowledge is, with .keys.json at its end.",
)


@click.command(
    cls=Command,
    epilog=_examples(
        "knowloom serve knowledge.db",
        "knowloom serve --host 0.0.0.0 --port 8080 --allow-host knowloom.example.com",
    ),
)
@click.argument("store", required=False, metavar="[PATH_OR_URL]")
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Where to listen. Default: 127.0.0.1. Other machines need a key.",
)
@click.option(
    "--port", default=8000, type=click.IntRange(1, 65535), metavar="N", help="Default: 8000."
)
@keys_file
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Processes that serve together. Default: one for each core, at most 4.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Requests one process works on at the same time. Default: 2, alone as many as cores.",
)
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="A host name to answer to, * for any; may be given several times.",
)
@click.option(
    "--requests-per-minute",
    default=6000,
    type=click.IntRange(min=0),
    metavar="N",
    help="Of one key; 0 for no limit. Default: 6000.",
)
@click.option(
    "--max-body",
    default=20_000_000,
    type=click.IntRange(min=1000),
    metavar="BYTES",
    help="Of one request. Default: 20000000.",
)
@click.option(
    "--body-timeout",
    default=60.0,
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="For the headers, then the body, to arrive. Default: 60.",
)
@click.pass_obj
def serve(
    session: Session,
    /,
    store: str | None,
    keys: str | None,
    processes: int | None,
    workers: int | None,
    allowed: Sequence[str],
    **asked: Any,
) -> None:
    """Answer over HTTP until told to stop.

    The knowledge may be named here as well as by --db.

    On this machine no key is needed until there is one; from other machines always. Running requests are finished before it ends.
    """
    session = _named(session, store)
    cores = os.cpu_count() or 1
    count = _processes(session, processes, cores)
    try:
        from knowloom.server import settings
        from knowloom.server import supervisor as together

        if count > 1:
            together.warm_up()  # first of all: the rest is done meanwhile
        together.needed()
    except ImportError as error:
        raise MissingExtra(
            f"the service needs a package that is not installed ({error.name}): pip install 'knowloom[server]'"
        ) from error
    limits = settings.Limits(
        asked["max_body"],
        asked["requests_per_minute"],
        settings.hosts(asked["host"], allowed),
        asked["body_timeout"],
    )
    where = (asked["host"], asked["port"], _path(session, keys))
    settings.keyring_for(where[0], where[2])  # refused before a file is made
    logging.getLogger("knowloom").removeHandler(
        session.notes
    )  # it keeps every warning, and a server runs for long
    with session.open(
        create=True, meaning=count == 1
    ) as kb:  # a file that cannot be opened is told before anything starts
        if count == 1:
            from knowloom.server import process as alone

            alone.serve(kb, *where, workers=workers or cores, limits=limits, say=_say)
    if count > 1:
        together.run(
            session.opener(create=True),
            *where,
            processes=count,
            workers=workers or 2,
            limits=limits,
            say=_say,
        )


def _named(session: Session, store: str | None) -> Session:
    if None not in (store, session.db) and store != session.db:
        raise click.UsageError(f"the knowledge is named twice: {store!r} and --db {session.db!r}")
    return replace(session, db=store or session.db)


def _processes(session: Session, asked: int | None, cores: int) -> int:
    """What is only in the memory of one process cannot be served by two."""
    shared = all(_shared(url) for url in session.urls())
    if asked is not None and asked > 1 and not shared:
        raise Invalid(
            f"--processes {asked} needs knowledge in a file: each process would have a memory of its own"
        )
    return asked or (min(cores, 4) if shared else 1)


def _shared(url: str) -> bool:
    return file_of(url) is not None or (
        url.startswith(("file:", "networkx:")) and url != "networkx:"
    )


@click.group(
    cls=Group,
    epilog=_examples(
        "knowloom keys add reporting --read analytics --read shared", "knowloom keys list"
    ),
)
def keys() -> None:
    """Make, list and revoke the keys of the service."""


@keys.command(
    cls=Command, epilog=_examples("knowloom keys add reporting --read analytics --read shared")
)
@click.argument("name")
@click.option(
    "--read",
    "reads",
    multiple=True,
    metavar="S",
    help="A space it may read, * for all; may be given several times.",
)
@click.option(
    "--write",
    "writes",
    multiple=True,
    metavar="S",
    help="A space it may read and write, * for all; may be given several times.",
)
@click.option(
    "--role",
    default="viewer",
    metavar="ROLE",
    help="viewer, editor (may write) or admin (also metrics and upkeep). Default: viewer.",
)
@click.option(
    "--tier",
    default="teams",
    metavar="TIER",
    help="core, writer_pro, teams or enterprise. Default: teams.",
)
@keys_file
@click.pass_obj
def add(session: Session, /, name: str, keys: str | None, **asked: Any) -> None:
    """Make a key. Its secret is shown once and stored nowhere."""
    key, secret = _keyring(session, keys).add(name, now=datetime.now(UTC), **asked)
    session.answer(
        _row(key) | {"secret": secret},
        lambda _: [f"key {key.id}; its secret, which is not shown again:", secret],
    )


@keys.command("list", cls=Command, epilog=_examples("knowloom keys list"))
@keys_file
@click.pass_obj
def list_keys(session: Session, keys: str | None) -> None:
    """Show the keys, without their secrets."""
    found = _keyring(session, keys).keys()
    shown = [_line(key) for key in found] or [
        "no keys: the service is open to this machine and closed to others"
    ]
    session.answer({"keys": [_row(key) for key in found]}, lambda _: shown)


@keys.command(cls=Command, epilog=_examples("knowloom keys revoke 1a2b3c4d"))
@click.argument("id")
@keys_file
@click.pass_obj
def revoke(session: Session, id: str, keys: str | None) -> None:
    """Take a key back, at once on every running server."""
    key = _keyring(session, keys).revoke(id, datetime.now(UTC))
    session.answer(_row(key), lambda _: [f"revoked: {key.id} ({key.name})"])


def _keyring(session: Session, given: str | None) -> Keyring:
    from knowloom.server.auth import Keyring

    return Keyring(_path(session, given))


def _path(session: Session, given: str | None) -> Path:
    """Beside the knowledge; for a store that is not a file, in this folder."""
    return Path(session.beside("beside" if given is None else given, ".keys.json"))


def _row(key: Key) -> dict[str, Any]:
    names = ("id", "name", "role", "tier", "reads", "writes", "created_at", "revoked_at")
    return {
        name: list(value) if isinstance(value := getattr(key, name), tuple) else value
        for name in names
    }


def _line(key: Key) -> str:
    state = f"revoked {key.revoked_at}" if key.revoked_at else f"since {key.created_at}"
    return f"{key.id}  {key.name}  {key.role}, {key.tier}  reads {', '.join(key.reads) or '-'}  writes {', '.join(key.writes) or '-'}  {state}"


def _say(text: str) -> None:
    click.echo(text, err=True)


COMMANDS: tuple[click.Command, ...] = (serve, keys)
