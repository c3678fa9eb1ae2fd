"""API keys in the database: shared by servers, seen at once, audited, never as secrets."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest

import knowloom
from cli_runs import run, run_json
from http_api import NOW, serve_app
from knowloom.server.auth import Keyring
from knowloom.stores.postgresql.store import PostgresqlStore
from postgresql_server import SCHEMA, execute, url_of
from servers.postgresql import Server


@pytest.fixture
def url(server: Server, store: PostgresqlStore) -> str:
    """The URL of the emptied schema, with a timeout that tests can wait for."""
    return f"postgresql://{url_of(server)}&connect_timeout=2"


def ask(client: Any, secret: str, space: str = "acme") -> Any:
    header = {"authorization": f"Bearer {secret}"}
    request = {"tenant_ids": [space], "query": "water"}
    return client.post("/api/context", json=request, headers=header)


def test_a_key_is_valid_and_revoked_at_once_on_every_server(server: Server, url: str) -> None:
    first, second, third = Keyring(url), Keyring(url), Keyring(url)
    assert not second.exists()
    key, secret = first.add(
        "maya", reads=["acme"], writes=(), role="viewer", tier="teams", now=NOW, where=None
    )
    with knowloom.open(url, embedder=None) as kb, serve_app(kb, second) as client:
        kb.add(knowloom.Item("a", "acme", text="water"))
        assert ask(client, secret).status_code == 200
        assert ask(client, secret, "zoo").status_code == 403
        first.revoke(key.id, NOW)
        assert ask(client, secret).status_code == 401
        actions = [(entry.action, entry.id) for entry in kb.maintenance.audit() if not entry.space]
        assert actions == [("revoke key", key.id), ("add key", key.id)]
    assert third.exists() and third.active() == []
    first.close()
    third.close()
    with psycopg.connect(server.url) as connection:
        rows = connection.execute(f"SELECT data FROM {SCHEMA}.api_key".encode()).fetchall()
    assert secret not in str(rows) and key.hash in str(rows)


def test_a_key_that_cannot_be_read_lets_nobody_in(server: Server, url: str) -> None:
    ring = Keyring(url)
    _, secret = ring.add("a", reads=["*"], writes=(), role="viewer", tier="teams", now=NOW)
    with knowloom.open("memory:", embedder=None) as kb, serve_app(kb, ring) as client:
        execute(server, f"UPDATE {SCHEMA}.api_key SET data = '{{}}'")
        assert ask(client, secret).status_code == 500
        server.stop()
        answer = ask(client, secret)
        assert (answer.status_code, "127.0.0.1" in answer.text) == (503, False)
        server.start()


def test_the_shell_keeps_keys_in_the_database_of_the_store(url: str) -> None:
    created = run_json("keys add maya --read acme", db=url)
    with closing(Keyring(url)) as ring:
        assert ring.find(created["secret"]) is not None
    assert [key["id"] for key in run_json("keys list", db=url)["keys"]] == [created["id"]]
    assert "revoked" in run(f"keys revoke {created['id']}", db=url).output
    with closing(Keyring(url)) as ring:
        assert ring.find(created["secret"]) is None
