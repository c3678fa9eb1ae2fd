"""The commands `knowloom serve` and `knowloom keys`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from knowloom import codec
from knowloom.cli.options import examples, repeated, where_option
from knowloom.cli.program import Command, Group
from knowloom.cli.session import Session
from knowloom.errors import Invalid, KnowloomError, MissingExtra
from knowloom.files import store_file
from knowloom.filters.condition_json import where_to_json

if TYPE_CHECKING:
    from knowloom.server.auth import Keyring
    from knowloom.server.keys.api_keys import ApiKey
    from knowloom.server.keys.key_sources import KeyLog

keys_option = click.option(
    "--keys",
    "keys",
    metavar="FILE",
    help="File of the API keys. Default: the store's path with .keys.json appended, or the "
    "database of the store.",
)


expiry_option = click.option(
    "--expires-in",
    type=click.FloatRange(0, 36_500, min_open=True),
    metavar="DAYS",
    help="Time until the key expires. Default: never.",
)


class LimitArguments(TypedDict):
    """The options that limit requests, by the fields of the server's limits."""

    requests_per_minute: int
    concurrent_requests: int
    query_timeout_s: float
    max_body: int
    body_timeout_s: float


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom serve knowledge.db",
        "knowloom serve --host 0.0.0.0 --port 8080 --allow-host knowloom.example.com",
    ),
)
@click.argument("store", required=False, metavar="[PATH_OR_URL]")
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on. Default: 127.0.0.1. Other addresses need an API key.",
)
@click.option(
    "--port", default=8000, type=click.IntRange(1, 65535), metavar="N", help="Default: 8000."
)
@keys_option
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of server processes. Default: one per core, at most 4.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Concurrent requests per process. Default: 2, or the cores for a single process.",
)
@repeated("--allow-host", "allowed", "NAME", "Host name to accept; * for any.")
@click.option(
    "--requests-per-minute",
    default=6000,
    type=click.IntRange(min=0),
    metavar="N",
    help="Rate limit per key; 20 kB of a body count as one more. 0 for none. Default: 6000.",
)
@click.option(
    "--concurrent-requests",
    default=64,
    type=click.IntRange(min=0),
    metavar="N",
    help="Requests of a key under way in a process; 0 for no limit. Default: 64.",
)
@click.option(
    "--query-timeout",
    "query_timeout_s",
    default=60.0,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time limit of a query; 0 for none. Default: 60.",
)
@click.option(
    "--max-body",
    default=20_000_000,
    type=click.IntRange(min=1000),
    metavar="BYTES",
    help="Maximum size of a request. Default: 20000000.",
)
@click.option(
    "--body-timeout",
    "body_timeout_s",
    default=60.0,
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Timeout of the headers, then of the body of a request. Default: 60.",
)
@click.pass_obj
def serve(
    session: Session,
    /,
    host: str,
    port: int,
    store: str | None = None,
    keys: str | None = None,
    processes: int | None = None,
    workers: int | None = None,
    allowed: Sequence[str] = (),
    **limits: Unpack[LimitArguments],
) -> None:
    """Run the HTTP server.

    The knowledge may be given as an argument or with --db.

    Local clients need an API key once there is one, remote clients always. Running requests are
    completed before the server stops.
    """
    session = with_store(session, store)
    cores = os.cpu_count() or 1
    count = _count_processes(session, processes, cores)
    import_server(count)
    from knowloom.server import settings, supervisor

    address = (host, port, keys_location(session, keys))
    settings.startup_lines(*address)  # raises before a store is created
    hosts = settings.accepted_hosts(host, allowed)
    server_limits = settings.ServerLimits(hosts=hosts, **session.server_settings(), **limits)
    # The collector keeps every warning, and a server runs for long.
    logging.getLogger("knowloom").removeHandler(session.warnings)
    # Opening the store here reports errors before any process starts.
    with session.open(create=True, needs_embedder=count == 1) as kb:
        if count == 1:
            from knowloom.server import process

            process.serve(kb, *address, workers=workers or cores, limits=server_limits, say=echo)
    if count > 1:
        workers = workers or 2
        opener = session.opener(create=True)
        supervisor.run_processes(
            opener, *address, processes=count, workers=workers, limits=server_limits, say=echo
        )


def import_server(processes: int) -> None:
    """Import the server's packages; several processes start importing in the background."""
    try:
        from knowloom.server import supervisor

        if processes > 1:
            supervisor.warm_up()
        supervisor.require_packages()
    except ImportError as error:
        raise MissingExtra(
            f"the server needs {error.name}, which is not installed: pip install 'knowloom[server]'"
        ) from error


def with_store(session: Session, store: str | None) -> Session:
    if None not in (store, session.db) and store != session.db:
        raise click.UsageError(f"two stores: {store!r} and --db {session.db!r}; pass one")
    return replace(session, db=store or session.db)


def _count_processes(session: Session, processes: int | None, cores: int) -> int:
    """Return the number of processes; a store in memory can be served by one only."""
    is_shareable = all(_is_shareable(url) for url in session.urls())
    if processes is not None and processes > 1 and not is_shareable:
        raise Invalid(
            f"--processes {processes} needs a store in a file: processes do not share memory"
        )
    return processes or (min(cores, 4) if is_shareable else 1)


def _is_shareable(url: str) -> bool:
    """Return True for a store that several processes can use: a file, a folder or a database."""
    from knowloom.registry import has_key_table

    is_folder = url.startswith(("file:", "networkx:")) and url != "networkx:"
    is_server = url.startswith(("redis:", "rediss:", "neo4j:", "bolt:"))
    return store_file(url) is not None or is_folder or is_server or has_key_table(url)


@click.group(
    cls=Group,
    epilog=examples(
        "knowloom keys add reporting --read analytics --read shared",
        "knowloom keys add sales --read support --where 'groups any sales,all'",
        "knowloom keys list",
    ),
)
def keys() -> None:
    """Create, list, rotate and revoke the API keys of the server."""


@keys.command(
    cls=Command, epilog=examples("knowloom keys add reporting --read analytics --read shared")
)
@click.argument("name")
@repeated("--read", "reads", "S", "Space the key may read; * for all.")
@repeated("--write", "writes", "S", "Space the key may read and write; * for all.")
@click.option(
    "--role",
    default="viewer",
    metavar="ROLE",
    help="viewer, editor (may write) or admin (also metrics and maintenance). Default: viewer.",
)
@click.option(
    "--tier",
    default="teams",
    metavar="TIER",
    help="core, writer_pro, teams or enterprise. Default: teams.",
)
@where_option
@expiry_option
@keys_option
@click.pass_obj
def add(
    session: Session,
    name: str,
    role: str,
    tier: str,
    keys: str | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    where: Sequence[Mapping[str, Any]] = (),
    expires_in: float | None = None,
) -> None:
    """Create a key. Its secret is printed once and not stored."""
    now = datetime.now(UTC)
    with _open_keyring(session, keys) as keyring:
        key, secret = keyring.add(
            name,
            reads=reads,
            writes=writes,
            role=role,
            tier=tier,
            where=where,
            now=now,
            expires_at=_after(now, expires_in),
        )
    _show_secret(session, key, secret)


@keys.command(cls=Command, epilog=examples("knowloom keys rotate 1a2b3c4d --overlap 7"))
@click.argument("id")
@click.option(
    "--overlap",
    default=7.0,
    type=click.FloatRange(0, 36_500),
    metavar="DAYS",
    help="Time until the old key expires. Default: 7.",
)
@expiry_option
@keys_option
@click.pass_obj
def rotate(
    session: Session,
    id: str,
    overlap: float,
    keys: str | None = None,
    expires_in: float | None = None,
) -> None:
    """Create a key with the rights of another one, which expires after the overlap."""
    now = datetime.now(UTC)
    with _open_keyring(session, keys) as keyring:
        key, secret = keyring.rotate(id, now, timedelta(days=overlap), _after(now, expires_in))
    _show_secret(session, key, secret)


def _after(now: datetime, days: float | None) -> datetime | None:
    return None if days is None else now + timedelta(days=days)


def _show_secret(session: Session, key: ApiKey, secret: str) -> None:
    session.output(
        _key_to_json(key) | {"secret": secret},
        lambda _: [f"key {key.id}; its secret, which is not shown again:", secret],
    )


@keys.command("list", cls=Command, epilog=examples("knowloom keys list"))
@keys_option
@click.pass_obj
def list_keys(session: Session, keys: str | None = None) -> None:
    """List the keys and their last use, without their secrets."""
    with _open_keyring(session, keys) as keyring:
        entries = keyring.keys()
        uses = {key.id: keyring.uses.last_used(key.id) for key in entries}
    lines = [_format_key(key, uses[key.id]) for key in entries]
    empty = "no keys: the service is open to this machine and closed to others"
    rows = [_key_to_json(key) | {"last_used_at": _to_text(uses[key.id])} for key in entries]
    session.output({"keys": rows}, lambda _: lines or [empty])


@keys.command(cls=Command, epilog=examples("knowloom keys revoke 1a2b3c4d"))
@click.argument("id")
@keys_option
@click.pass_obj
def revoke(session: Session, id: str, keys: str | None = None) -> None:
    """Revoke a key, immediately on every running server."""
    with _open_keyring(session, keys) as keyring:
        key = keyring.revoke(id, datetime.now(UTC))
    session.output(_key_to_json(key), lambda _: [f"revoked: {key.id} ({key.name})"])


def _open_keyring(session: Session, path: str | None) -> closing[Keyring]:
    from knowloom.server.auth import Keyring

    return closing(Keyring(keys_location(session, path), log=_audit_log(session)))


def _audit_log(session: Session) -> KeyLog:
    """Return the log of changes of a key file: the audit log of the knowledge, once it exists."""
    from knowloom.commit import LOCAL
    from knowloom.registry import open_store

    def log(at: datetime, action: str, id: str) -> None:
        file = store_file(session.url())
        if file is None or not file.exists():
            return
        try:
            with closing(open_store(session.url())) as store:
                store.upkeep().record(at, LOCAL, action, id)
        except KnowloomError as error:
            session.warn(f"{action} {id}: done, but not recorded in the audit log: {error}")

    return log


def keys_location(session: Session, path: str | None) -> Path | str:
    """Return the file of the keys, or the URL of the store if it has them."""
    from knowloom.registry import has_key_table

    if path is None and has_key_table(session.url()):
        return session.url()
    return Path(session.sibling_path("beside" if path is None else path, ".keys.json"))


def _key_to_json(key: ApiKey) -> dict[str, Any]:
    names = ("id", "name", "role", "tier", "reads", "writes", "created_at", "revoked_at")
    values = {name: getattr(key, name) for name in names}
    row = {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }
    row |= {"expires_at": key.expires_at} if key.expires_at else {}
    return row | ({"where": where_to_json(key.where)} if key.where else {})


def _to_text(time: datetime | None) -> str:
    return "" if time is None else codec.time_to_text(time.replace(microsecond=0))


def _format_key(key: ApiKey, last_used: datetime | None) -> str:
    reads, writes = (", ".join(spaces) or "-" for spaces in (key.reads, key.writes))
    state = f"revoked {key.revoked_at}" if key.revoked_at else f"since {key.created_at}"
    rights = f"{key.role}, {key.tier}  reads {reads}  writes {writes}"
    if key.expires_at and not key.revoked_at:
        state += f", expires {key.expires_at}"
    state += f", last used {_to_text(last_used) or 'never'}"
    if key.where:
        rights += f"  where {codec.to_json(where_to_json(key.where))}"
    return f"{key.id}  {key.name}  {rights}  {state}"


def echo(text: str) -> None:
    click.echo(text, err=True)
