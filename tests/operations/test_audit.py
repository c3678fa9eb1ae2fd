"""The audit log, and the routes, commands and client calls of administration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from client_helpers import failure, node
from starlette.testclient import TestClient

import knowloom
from knowloom import Client, Edge, Engine, Forbidden, Invalid
from knowloom.cli.main import cli
from knowloom.server.app import create_app
from knowloom.server.auth import Keyring
from live_server import serving

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ROUTES = (
    ("/api/backup", {}),
    ("/api/backups", None),
    ("/api/purge", {"space": "s", "ids": ["a"]}),
    ("/api/retention", None),
    ("/api/retention", {"space": "s", "days": 30}),
    ("/api/audit", None),
)


def test_every_change_has_its_author(kb: Engine) -> None:
    kb.add([node("a", "private text"), node("b")], [Edge("a", "b", space="s")])
    ada = knowloom.act_as(kb, "ada")
    ada.add(node("a", "other text"))
    ada.delete("b", space="s")
    entries = kb.maintenance.audit()
    assert [(entry.actor, entry.action, entry.id) for entry in entries] == [
        ("ada", "delete", "b"),
        ("ada", "unlink", "a"),
        ("ada", "update", "a"),
        ("local", "link", "a"),
        ("local", "add", "b"),
        ("local", "add", "a"),
    ]
    assert "text" not in repr(entries)
    states = kb.history.states("a", space="s")
    assert [state.actor for state in states] == ["ada", "ada", "local", "local"]


def test_rollbacks_restores_and_loads_have_their_author(kb: Engine, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"id": "a", "text": "one"}\n')
    ada = knowloom.act_as(kb, "ada")
    ada.load(tmp_path / "s.jsonl", space="s")
    before = kb.reader.now()
    ada.add(node("b"))
    ada.history.rollback(before)
    ada.history.restore("b", space="s")
    assert {entry.actor for entry in kb.maintenance.audit()} == {"ada"}


def test_entries_are_filtered_and_paged(kb: Engine) -> None:
    kb.add([node("a"), node("b", space="t")], [Edge("a", "b", space="s", target_space="t")])
    knowloom.act_as(kb, "ada").add(node("a", "new"))
    audit = kb.maintenance.audit
    assert [entry.action for entry in audit(["t"])] == ["link", "add"]
    assert [entry.action for entry in audit(id="b")] == ["link", "add"]
    assert [entry.action for entry in audit(actor="ada")] == ["update"]
    assert [entry.id for entry in audit(actions=["add"])] == ["b", "a"]
    times = [entry.at for entry in audit()]
    assert len(audit(since=times[0])) == 1 and len(audit(until=times[-1])) == 3
    assert audit(since=times[0] + timedelta(days=1)) == []
    pages = [audit(limit=3), audit(limit=3, before=audit(limit=3)[-1].number)]
    assert [entry for page in pages for entry in page] == audit()
    for options in ({"limit": 0}, {"before": 0}, {"id": 3}, {"since": "monday"}):
        assert failure(lambda options=options: audit(**options))[0] is Invalid


def test_the_times_of_entries_compare_as_times(kb: Engine) -> None:
    whole = datetime(2026, 1, 1, tzinfo=UTC)
    kb.reader._clock = lambda: whole
    kb._commits._clock = lambda: whole + timedelta(microseconds=5)
    kb.add(node("a"))
    assert len(kb.maintenance.audit(since=whole)) == 1
    assert kb.maintenance.audit(until=whole) == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Engine, TestClient, Keyring]]:
    keyring = Keyring(tmp_path / "k.db.keys.json")
    with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
        yield kb, TestClient(create_app(kb, keyring), base_url="http://localhost"), keyring


def add_key(keyring: Keyring, name: str, role: str, spaces: tuple[str, ...] = ("*",)) -> str:
    _, secret = keyring.add(
        name, reads=spaces, writes=spaces, role=role, tier="enterprise", now=NOW
    )
    return secret


def test_the_server_logs_keys_and_admits_admins_only(
    served: tuple[Engine, TestClient, Keyring],
) -> None:
    kb, client, keyring = served
    admin, editor = add_key(keyring, "root", "admin"), add_key(keyring, "bot", "editor")
    bot = {"Authorization": f"Bearer {editor}"}
    client.put("/api/spaces/s/items/a", json={"id": "a", "text": "private"}, headers=bot)
    for path, body in ROUTES:
        method = "GET" if body is None else "POST"
        refused = client.request(method, path, json=body, headers=bot)
        assert refused.status_code == 403, path
        allowed = client.request(
            method, path, json=body, headers={"Authorization": f"Bearer {admin}"}
        )
        assert allowed.status_code == 200, (path, allowed.text)
    entries = kb.maintenance.audit()
    actors = {(entry.action, entry.actor.split(" (")[0]) for entry in entries}
    assert actors >= {("add", "bot"), ("backup", "root"), ("purge", "root"), ("retention", "root")}
    assert admin not in repr(entries) and "private" not in repr(entries)


def test_an_admin_of_some_spaces_sees_and_purges_only_those(
    served: tuple[Engine, TestClient, Keyring],
) -> None:
    kb, client, keyring = served
    kb.add([node("a"), node("b", space="t")], [Edge("a", "b", space="s", target_space="t")])
    headers = {"Authorization": f"Bearer {add_key(keyring, 'sub', 'admin', ('s',))}"}
    entries = client.get("/api/audit", headers=headers).json()["entries"]
    assert [(entry["action"], entry["id"]) for entry in entries] == [("add", "a")]
    assert client.get("/api/audit?space=t", headers=headers).status_code == 403
    body = {"space": "t", "ids": ["b"]}
    assert client.post("/api/purge", json=body, headers=headers).status_code == 403


def test_names_of_keys_are_for_admins(served: tuple[Engine, TestClient, Keyring]) -> None:
    kb, client, keyring = served
    knowloom.act_as(kb, "bot").add(node("a"))
    actors = []
    for role in ("viewer", "admin"):
        spaces = ((), ("*",))[role == "admin"]
        _, secret = keyring.add(
            role, reads=("*",), writes=spaces, role=role, tier="enterprise", now=NOW
        )
        headers = {"Authorization": f"Bearer {secret}"}
        response = client.get("/api/items/a/history?space=s", headers=headers).json()
        actors.append(response["history"][0]["actor"])
    assert actors == ["", "bot"]


def test_the_client_administers_as_the_engine_does(tmp_path: Path) -> None:
    with (
        knowloom.open(tmp_path / "k.db", embedder=None) as kb,
        serving(kb) as address,
        Client(address) as client,
    ):
        kb.add([node("a"), node("b")], [Edge("a", "b", space="s")])
        remote = client.maintenance
        backup = remote.backup(keep=3)
        assert Path(backup.path).is_file() and remote.backups() == kb.maintenance.backups()
        assert remote.set_retention("s", 30) == 0 and remote.retention() == {"s": 30}
        assert [holder.path for holder in remote.purge("a", space="s").backups] == [backup.path]
        assert remote.audit() == kb.maintenance.audit()
        options = {"id": "a", "actions": ["purge"], "since": NOW, "limit": 5}
        assert remote.audit(["s"], **options) == kb.maintenance.audit(["s"], **options)
        assert failure(lambda: remote.purge("b", space="none"))[1] == "unknown_space"


def test_a_restricted_engine_is_refused(kb: Engine) -> None:
    kb.add(node("a"))
    restricted = knowloom.restrict(kb, {"team": "x"}).maintenance
    for call in (restricted.backups, restricted.audit, restricted.retention):
        assert failure(call)[0] is Forbidden


def test_the_shell_backs_up_purges_and_restores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWLOOM_EMBEDDER", "none")

    def run(*arguments: str, status: int = 0) -> dict[str, object]:
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == status, result.output
        row: dict[str, object] = json.loads(result.stdout) if result.stdout else {}
        return row

    run("add", "--space", "s", "--id", "a", "--text", "private words")
    backup = str(run("backup", "--to", "b/", "--keep", "2")["path"])
    assert run("purge", "a", "--space", "s", "--yes")["backups"] == [{"path": backup, "reason": ""}]
    assert run("audit", "--action", "purge")["entries"][0]["actor"] == "local"
    assert run("retention", "--space", "s", "--days", "9")["retention"] == {"s": 9}
    assert run("restore", "--from", backup, status=1)["error"]["code"] == "exists"
    run("restore", "--from", backup, "--overwrite")
    assert run("get", "a", "--space", "s")["items"]
    assert len(run("backup", "--list")["backups"]) == 1
    for wrong in (["restore"], ["restore", "a", "--from", backup], ["purge", "a", "--space", "s"]):
        run(*wrong, status=2)


def test_changes_of_keys_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWLOOM_EMBEDDER", "none")

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    early = run("keys", "add", "early", "--read", "s")  # there is no knowledge yet
    run("add", "--space", "s", "--id", "a", "--text", "words")
    key = run("keys", "add", "bot", "--read", "s")
    run("keys", "rotate", key["id"])
    run("keys", "revoke", early["id"])
    entries = run("audit")["entries"]
    changes = [(row["action"], row["id"], row["actor"]) for row in reversed(entries)][1:]
    assert [row[0] for row in changes] == ["add key", "rotate key", "expire key", "revoke key"]
    assert changes[0][1:] == (key["id"], "local") and changes[-1][1:] == (early["id"], "local")
    assert key["secret"] not in (tmp_path / "knowledge.db").read_bytes().decode("latin-1")
