"""The tables of a schema: created once, migrated, and marked as knowloom's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg

from knowloom.errors import Corrupt, Unavailable
from knowloom.stores.postgresql.address import Address
from knowloom.text import words
from knowloom.text.passages import PASSAGE_SIZE, SEGMENTER

MIN_SERVER = 15
MAX_CLOCK_SKEW_S = 60.0  # times of changes come from the clients, and are compared with each other
PROGRAM = "knowloom"  # the value of the row 'program' in `meta`: the mark of our schemas
LOCK_CLASS = 0x4B4E4C4D  # of advisory locks: "KNLM"

# One entry per version. Never edit a released one: add the next. All texts are compared by code
# points (COLLATE "C"), as Python compares them.
MIGRATIONS = (
    f"""
    CREATE TABLE meta(key text COLLATE "C" PRIMARY KEY, value text NOT NULL);
    INSERT INTO meta VALUES
        ('program', '{PROGRAM}'), ('version', '0'), ('analyser', '{words.ANALYSER}'),
        ('segmenter', '{SEGMENTER}:{PASSAGE_SIZE}'), ('embedder', ''), ('dimensions', '0'),
        ('link_rules', '');
    CREATE TABLE calibration(fingerprint text COLLATE "C" PRIMARY KEY, data bytea NOT NULL);

    -- Items have numbers that last as long as they do, and passages have slots, which a changed
    -- item gives up for new ones. Neither is used again, until `epoch` changes: the version at
    -- which all slots were numbered anew. `version` grows with each write. Slots from `tail_slot`
    -- on are in small segments of postings, those from `block_slot` on in medium ones.
    CREATE TABLE space(
        no integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE, version bigint NOT NULL DEFAULT 0,
        next_no integer NOT NULL DEFAULT 0, next_slot integer NOT NULL DEFAULT 0,
        items integer NOT NULL DEFAULT 0, documents integer NOT NULL DEFAULT 0,
        length bigint NOT NULL DEFAULT 0, edges integer NOT NULL DEFAULT 0,
        links integer NOT NULL DEFAULT 0, digest text NOT NULL DEFAULT '0',
        links_digest text NOT NULL DEFAULT '0', tail_slot integer NOT NULL DEFAULT 0,
        block_slot integer NOT NULL DEFAULT 0, epoch bigint NOT NULL DEFAULT 0,
        retention_days integer);

    -- `attributes` is JSON with what conditions of filters can name, `body` with the rest.
    CREATE TABLE item(
        space integer, no integer, id text COLLATE "C" NOT NULL, body text NOT NULL,
        attributes text NOT NULL, PRIMARY KEY(space, no));
    CREATE UNIQUE INDEX item_by_id ON item(space, id) INCLUDE (no);
    -- A fixed-size record for filters, and the length of each passage as 32-bit integers.
    CREATE TABLE record(
        space integer, no integer, version bigint NOT NULL, data bytea NOT NULL,
        lengths bytea NOT NULL, PRIMARY KEY(space, no));
    CREATE INDEX record_by_version ON record(space, version);
    CREATE TABLE removed(
        space integer, version bigint, no integer, PRIMARY KEY(space, version, no));

    -- The vectors of all passages of an item as 16-bit floats, and their sign bits.
    CREATE TABLE vector(
        space integer, no integer, version bigint NOT NULL, signs bytea NOT NULL,
        data bytea NOT NULL, PRIMARY KEY(space, no));
    ALTER TABLE vector ALTER data SET STORAGE EXTERNAL, ALTER signs SET STORAGE EXTERNAL;
    CREATE INDEX vector_by_version ON vector(space, version);

    -- A segment of the postings of a term: ascending slots (32-bit) and counts (8-bit). The slots
    -- of changed and deleted items stay until the segment is cleaned.
    CREATE TABLE posting(
        space integer, term text COLLATE "C", first integer, last integer NOT NULL,
        slots bytea NOT NULL, counts bytea NOT NULL, PRIMARY KEY(space, term, first));
    ALTER TABLE posting ALTER slots SET STORAGE EXTERNAL, ALTER counts SET STORAGE EXTERNAL;
    CREATE INDEX posting_by_slot ON posting(space, first);

    -- `key` is a hash of the columns that identify an edge: an entry of an index has at most 2,700
    -- bytes, and three names may have 6,000. `body` is JSON, NULL when the columns say all.
    -- `origin` is '' for explicit edges.
    CREATE TABLE edge(
        key bytea PRIMARY KEY, space integer NOT NULL, source text COLLATE "C" NOT NULL,
        target_space integer NOT NULL, target text COLLATE "C" NOT NULL,
        type text COLLATE "C" NOT NULL, weight double precision NOT NULL, body text,
        origin text COLLATE "C" NOT NULL);
    CREATE INDEX edge_out ON edge(space, source, weight DESC, left(target, 64));
    CREATE INDEX edge_in ON edge(target_space, target, weight DESC, left(source, 64));

    -- `target_space`, `target` and `type` identify the edge of 'link' and 'unlink'. An action on
    -- the whole store has the space 0, and as id its subject. `erased`: `before` was deleted.
    CREATE TABLE change(
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, space integer NOT NULL,
        at timestamptz NOT NULL, id text COLLATE "C" NOT NULL, action text NOT NULL, before text,
        target_space integer, target text COLLATE "C", type text COLLATE "C",
        actor text NOT NULL, erased boolean NOT NULL DEFAULT false);
    CREATE INDEX change_by_space ON change(space, number);
    CREATE INDEX change_by_item ON change(space, id, number);
    CREATE INDEX change_by_target ON change(target_space, target, number)
        WHERE target IS NOT NULL;

    -- Items whose automatic edges must be recomputed. `before` is the item when they were last
    -- computed: NULL for a new item, '' for one that has not changed since.
    CREATE TABLE dirty(
        space integer, id text COLLATE "C", before text, PRIMARY KEY(space, id));
    CREATE TABLE dirty_name(space integer, id text COLLATE "C", PRIMARY KEY(space, id));
    CREATE TABLE frequent_label(space integer, label text COLLATE "C", PRIMARY KEY(space, label));
    -- The name index: items by label, and the labels of each item (JSON), to remove them again.
    CREATE TABLE name_index(
        space integer, label text COLLATE "C", id text COLLATE "C",
        PRIMARY KEY(space, label, id));
    CREATE TABLE name_labels(
        space integer, id text COLLATE "C", labels text NOT NULL, PRIMARY KEY(space, id));
    CREATE TABLE nearest(
        space integer, no integer, version bigint NOT NULL, data bytea NOT NULL,
        PRIMARY KEY(space, no));
    CREATE INDEX nearest_by_version ON nearest(space, version);
    """,
    """
    -- Keys of servers as JSON, with the hash of the secret.
    CREATE TABLE api_key(id text COLLATE "C" PRIMARY KEY, data text NOT NULL);
    -- The approximate vector index of a space is the table "vector_index_<no>". It has the vectors
    -- up to a version of the space.
    CREATE TABLE vector_index(
        space integer PRIMARY KEY, dimensions integer NOT NULL, version bigint NOT NULL);
    """,
    """
    -- The table of an approximate vector index is "vector_index_<space>_<build>": a build makes
    -- another table, so that searches go on meanwhile.
    ALTER TABLE vector_index ADD COLUMN build bigint NOT NULL DEFAULT 0;
    """,
)
VERSION = len(MIGRATIONS)


def prepare_schema(
    connection: psycopg.Connection[Any], address: Address, clock: Callable[[], float] = time.time
) -> None:
    """Create or migrate the tables; raise, without any change, if the schema is not knowloom's."""
    _check_server(connection, address)
    _check_clock(connection, address, clock)
    if _stored_version(connection, address) == VERSION:
        return
    with connection.transaction():
        # Another process may be creating the same schema.
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK_CLASS,))
        version = _stored_version(connection, address)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        for script in MIGRATIONS[version:]:
            connection.execute(script)
        connection.execute("UPDATE meta SET value = %s WHERE key = 'version'", (str(VERSION),))


def _check_server(connection: psycopg.Connection[Any], address: Address) -> None:
    major = connection.info.server_version // 10_000
    if major < MIN_SERVER:
        raise Unavailable(
            f"{address.name} is PostgreSQL {major}: {MIN_SERVER} or newer is required",
            "server_too_old",
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise Unavailable(
            f"{address.name} has the encoding {encoding}: a database with UTF8 is required",
            "wrong_encoding",
        )


def _check_clock(
    connection: psycopg.Connection[Any], address: Address, clock: Callable[[], float]
) -> None:
    before = clock()
    query = "SELECT extract(epoch FROM clock_timestamp())::double precision"
    ((at,),) = connection.execute(query).fetchall()
    skew = max(before - at, at - clock(), 0.0)  # the answer may have taken long
    if skew > MAX_CLOCK_SKEW_S:
        raise Unavailable(
            f"the clocks of {address.name} and of this machine differ by {skew:.0f} s, allowed are "
            f"{MAX_CLOCK_SKEW_S:.0f}: set them by NTP, or the history would be out of order",
            "clock_skew",
        )


def _stored_version(connection: psycopg.Connection[Any], address: Address) -> int:
    """Return the version of the tables, 0 without any; raise if they are another program's."""
    query = """SELECT relation.relname FROM pg_class AS relation
        JOIN pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = %s AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')"""
    tables = {name for (name,) in connection.execute(query, (address.schema,))}
    if not tables:
        return 0
    foreign = Corrupt(
        f"the schema {address.schema!r} of {address.name} is of another program "
        f"(it has {', '.join(sorted(tables)[:3])}): choose another with ?schema=NAME",
        "foreign_schema",
    )
    if "meta" not in tables:
        raise foreign
    try:
        query = "SELECT key, value FROM meta WHERE key IN ('program', 'version')"
        values = dict(connection.execute(query).fetchall())
        version = int(values["version"])
    except (psycopg.errors.UndefinedColumn, LookupError, ValueError):
        raise foreign from None
    if values.get("program") != PROGRAM:
        raise foreign
    if version > VERSION:
        raise Unavailable(
            f"{address.name} was written by a newer knowloom (schema {version}, "
            f"this one supports {VERSION}): upgrade knowloom",
            "newer_version",
        )
    return version
