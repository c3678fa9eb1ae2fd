"""History, restore and rollback on every store with a log, and verification of deletions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from knowloom import Client, Conflict, Edge, Engine, Invalid, Item, NotFound
from knowloom.cli.main import cli
from knowloom.registry import open_stores
from knowloom.server import app as application
from knowloom.server.auth import Keyring
from knowloom.server.settings import ServerLimits
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from live_server import serving

START = datetime(2026, 1, 1, tzinfo=UTC)


def moment(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def engine(url: str) -> Engine:
    """Return an engine with a clock that advances by a minute for each write."""
    minutes = count()
    return Engine(open_stores(url, {}), None, clock=lambda: moment(next(minutes)))


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with engine("memory:" if request.param == "memory" else str(tmp_path / "knowledge.db")) as kb:
        yield kb


def node(id: str, text: str = "some text", space: str = "s", **fields: Any) -> Item:
    return Item(id, space, text=text, **fields)


def link(source: str, target: str, weight: float = 1.0, **fields: Any) -> Edge:
    return Edge(source, target, weight=weight, **{"space": "s", **fields})


class TestHistory:
    def test_every_state_comes_newest_first_with_its_time_and_version(self, kb: Engine) -> None:
        kb.add(node("a", "one"))
        kb.add(node("a", "two"))
        kb.delete("a", space="s")
        kb.add(node("a", "three"))
        states = kb.history.states("a", space="s")
        assert [(state.at, state.action, state.item and state.item.text) for state in states] == [
            (moment(3), "add", "three"),
            (moment(2), "delete", None),
            (moment(1), "update", "two"),
            (moment(0), "add", "one"),
        ]
        assert (
            states[0].version == kb.history.version(kb.get("a", space="s")[0])
            and states[1].version == ""
        )

    def test_history_includes_edges_in_both_directions(self, kb: Engine) -> None:
        kb.add([node("a"), node("b")], [link("b", "a", 0.5)])
        kb.add([], [link("b", "a", 0.7)])
        kb.delete("b", space="s")
        states = [
            (state.action, state.edge and state.edge.weight)
            for state in kb.history.states("a", space="s")
        ]
        assert states == [("unlink", 0.7), ("link", 0.7), ("link", 0.5), ("add", None)]

    def test_a_limit_keeps_the_newest(self, kb: Engine) -> None:
        for number in range(5):
            kb.add(node("a", f"{number}"))
        assert [
            state.item and state.item.text for state in kb.history.states("a", space="s", limit=2)
        ] == [
            "4",
            "3",
        ]
        with pytest.raises(Invalid, match="limit"):
            kb.history.states("a", space="s", limit=0)

    def test_an_item_that_never_existed_has_no_history(self, kb: Engine) -> None:
        kb.add(node("a"))
        with pytest.raises(NotFound, match="'x' was ever in space 's'"):
            kb.history.states("x", space="s")
        with pytest.raises(NotFound, match="unknown space 'nowhere'"):
            kb.history.states("a", space="nowhere")


class TestRestore:
    def test_a_restored_item_has_its_edges_and_is_searchable(self, kb: Engine) -> None:
        kb.add(
            [node("a", "refund"), node("b"), node("c")],
            [link("a", "b", 0.5), link("c", "a", properties={"why": "x"}), link("b", "c")],
        )
        before, edges = kb.maintenance.stats().spaces, list(kb.edges())
        kb.delete("a", space="s")
        assert kb.search("refund", spaces=["s"]) == []
        report = kb.history.restore("a", space="s")
        assert (report.added, report.edges, report.skipped) == (1, 2, ())
        assert (
            kb.maintenance.stats().spaces,
            list(kb.edges()),
            [hit.item.id for hit in kb.search("refund", spaces=["s"])],
        ) == (before, edges, ["a"])
        assert kb.verify() == []

    def test_an_older_state_is_restored_by_time_or_version(self, kb: Engine) -> None:
        for text in ("one", "two", "three"):
            kb.add(node("a", text))
        oldest = kb.history.states("a", space="s")[-1]
        assert kb.history.restore("a", space="s", at=moment(1)).updated == 1
        assert kb.get("a", space="s")[0].text == "two"
        kb.history.restore("a", space="s", version=oldest.version)
        assert kb.history.version(kb.get("a", space="s")[0]) == oldest.version
        assert [state.action for state in kb.history.states("a", space="s")] == ["update"] * 4 + [
            "add"
        ]

    def test_restoring_the_current_state_changes_nothing(self, kb: Engine) -> None:
        kb.add(node("a", "one"))
        assert kb.history.restore("a", space="s", at=moment(5)).unchanged == 1
        assert len(kb.history.states("a", space="s")) == 1

    def test_an_edge_with_a_missing_end_is_reported(self, kb: Engine) -> None:
        kb.add([node("a"), node("b")], [link("a", "b")])
        kb.delete("a", space="s")
        kb.delete("b", space="s")
        report = kb.history.restore("a", space="s")
        assert (report.added, report.edges, [omission.why for omission in report.skipped]) == (
            1,
            0,
            ["no item 'b' in space 's'"],
        )

    def test_restore_keeps_newer_edges(self, kb: Engine) -> None:
        kb.add([node("a", "one"), node("b")], [link("a", "b", 0.5)])
        kb.add(node("a", "two"), [link("b", "a")])
        kb.history.restore("a", space="s", at=moment(0))
        assert [(edge.source, edge.weight) for edge in kb.edges()] == [("a", 0.5), ("b", 1.0)]

    def test_restore_ignores_edges_of_other_spaces(self, kb: Engine) -> None:
        kb.add(
            [node("a"), node("z", space="zoo")],
            [
                Edge("z", "a", space="zoo", target_space="s"),
                Edge("a", "z", space="s", target_space="zoo"),
            ],
        )
        kb.delete("a", space="s")
        assert kb.history.restore("a", space="s", edges_of=["s"]).edges == 1
        assert [edge.space for edge in kb.edges()] == ["s"]

    def test_bad_requests_are_refused(self, kb: Engine) -> None:
        kb.add(node("a"))
        version = kb.history.states("a", space="s")[0].version
        for options, error, words in (
            ({}, Invalid, "is not deleted: pass at or version"),
            ({"at": moment(0), "version": version}, Invalid, "exclude each other"),
            ({"at": "yesterday"}, Invalid, "'yesterday'"),
            ({"at": moment(-1)}, NotFound, "did not exist then"),
            ({"version": "abc"}, NotFound, f"has no version 'abc'; available: {version}"),
        ):
            with pytest.raises(error, match=words):
                kb.history.restore("a", space="s", **options)


class TestRollback:
    def test_a_rollback_restores_the_spaces_and_appends_to_the_log(self, kb: Engine) -> None:
        kb.add([node("a", "one"), node("b")], [link("a", "b", 0.5)])
        before = kb.maintenance.stats().spaces
        kb.add([node("a", "two"), node("c")], [link("a", "b", 0.7), link("c", "a")])
        kb.delete("b", space="s")
        preview = kb.history.rollback(moment(0), dry_run=True)
        assert [(step.action, step.id) for step in preview.steps] == [
            ("update", "a"),
            ("add", "b"),
            ("delete", "c"),
            ("link", "a"),
            ("unlink", "c"),
        ]
        assert kb.maintenance.stats().spaces != before
        done = kb.history.rollback(moment(0))
        assert (done.steps, done.dry_run, kb.maintenance.stats().spaces) == (
            preview.steps,
            False,
            before,
        )
        assert [state.action for state in kb.history.states("b", space="s")][:2] == ["link", "add"]
        assert kb.verify() == []

    def test_a_rollback_can_be_rolled_back(self, kb: Engine) -> None:
        kb.add(node("a", "one"))
        kb.add([node("a", "two"), node("b")], [link("a", "b")])
        later = kb.maintenance.stats().spaces
        kb.history.rollback(moment(0))
        kb.history.rollback(moment(1))
        assert kb.maintenance.stats().spaces == later

    def test_a_rollback_before_the_first_write_empties_the_spaces(self, kb: Engine) -> None:
        kb.add([node("a"), node("b")], [link("a", "b")])
        kb.history.rollback(moment(-1))
        assert [
            (info.items, info.edges, int(info.digest, 16)) for info in kb.maintenance.stats().spaces
        ] == [(0, 0, 0)]

    def test_a_rollback_changes_only_its_spaces_and_reports_lost_edges(self, kb: Engine) -> None:
        kb.add([node("a"), node("z", space="zoo")], [Edge("a", "z", space="s", target_space="zoo")])
        kb.delete("z", space="zoo")
        zoo = kb.maintenance.stats().spaces[1]
        done = kb.history.rollback(moment(0), spaces=["s"])
        assert (done.steps, [omission.why for omission in done.skipped]) == (
            (),
            ["no item 'z' in space 'zoo'"],
        )
        assert kb.maintenance.stats().spaces[1] == zoo

    def test_a_rollback_reports_edges_it_removes_from_other_spaces(self, kb: Engine) -> None:
        kb.add(node("z", space="zoo"))
        kb.add(node("a"), [Edge("z", "a", space="zoo", target_space="s")])
        preview = kb.history.rollback(moment(0), spaces=["s"], dry_run=True)
        assert [(step.action, step.space, step.id) for step in preview.steps] == [
            ("delete", "s", "a"),
            ("unlink", "zoo", "z"),
        ]

    def test_an_empty_rollback_writes_nothing(self, kb: Engine) -> None:
        kb.add(node("a"))
        assert kb.history.rollback(moment(9)).steps == ()
        assert len(kb.history.states("a", space="s")) == 1

    def test_a_clock_set_back_loses_no_history(self, tmp_path: Path) -> None:
        times = iter([9, 1, 2, 3, 4])
        with Engine(open_stores("memory:", {}), None, clock=lambda: moment(next(times))) as kb:
            for name in "abc":
                kb.add(node(name))
            kb.history.rollback(moment(1))
            assert [item.id for item in kb.items()] == ["a", "b"]

    def test_bad_requests_are_refused(self, kb: Engine) -> None:
        kb.add(node("a"))
        with pytest.raises(Invalid, match="to must be a time"):
            kb.history.rollback("yesterday")  # type: ignore[arg-type]
        with pytest.raises(NotFound, match="unknown space 'x'"):
            kb.history.rollback(moment(0), spaces=["x"])


_keys = st.tuples(st.sampled_from(["s", "zoo"]), st.sampled_from("abcd"))
_writes = st.lists(
    st.fixed_dictionaries(
        {
            "put": st.lists(
                st.tuples(_keys, st.sampled_from(["refund", "parcel refund", "monday"])), max_size=3
            ),
            "links": st.lists(st.tuples(_keys, _keys, st.sampled_from([0.5, 1.0])), max_size=3),
            "gone": st.lists(_keys, max_size=2),
            "unlinked": st.lists(st.tuples(_keys, _keys), max_size=2),
        }
    ),
    min_size=1,
    max_size=8,
)


def visible_state(kb: Engine) -> list[Any]:
    """Return all that a user can see: items, edges, digests and the hits of a search."""
    spaces = [info.name for info in kb.maintenance.stats().spaces]
    full = [info for info in kb.maintenance.stats().spaces if info.items]
    return [
        full,
        list(kb.items()),
        list(kb.edges()),
        kb.search("refund monday", spaces=spaces) if spaces else [],
    ]


def write(kb: Engine, step: dict[str, Any]) -> None:
    stored_keys = {item.key for item in kb.items()} | {key for key, _ in step["put"]}
    edges = {
        (source, target): Edge(
            source[1], target[1], weight=w, space=source[0], target_space=target[0]
        )
        for source, target, w in step["links"]
    }
    kb.add(
        {key: node(key[1], text, key[0]) for key, text in step["put"]}.values(),
        [edge for ends, edge in edges.items() if stored_keys.issuperset(ends)],
    )
    kb.delete_edges(
        [
            Edge(source[1], target[1], space=source[0], target_space=target[0])
            for source, target in step["unlinked"]
        ]
    )
    for space, id in step["gone"]:
        if space in {info.name for info in kb.maintenance.stats().spaces}:
            kb.delete(id, space=space)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(_writes, st.data())
def test_a_rollback_restores_the_visible_state_of_any_moment(
    store: str, tmp_path_factory: pytest.TempPathFactory, steps: list[Any], data: Any
) -> None:
    now = START
    url = "memory:" if store == "memory" else str(tmp_path_factory.mktemp("life") / "knowledge.db")
    with Engine(open_stores(url, {}), None, clock=lambda: now) as kb:
        moments = []
        for step in steps:
            now += timedelta(seconds=1)
            write(kb, step)
            moments.append((now, visible_state(kb)))
        back, expected = data.draw(st.sampled_from(moments))
        now += timedelta(seconds=1)
        kb.history.rollback(back)
        assert visible_state(kb) == expected
        assert kb.verify() == []


def test_a_write_between_plan_and_rollback_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine(str(tmp_path / "k.db")) as kb, engine(str(tmp_path / "k.db")) as other:
        kb.add(node("a", "one"))
        kb.add(node("a", "two"))
        apply = kb._commits.apply

        def late(batch: Any) -> None:
            other.add(node("a", "three"))
            apply(batch)

        monkeypatch.setattr(kb._commits, "apply", late)
        with pytest.raises(Conflict):
            kb.history.rollback(moment(0))
        assert kb.get("a", space="s")[0].text == "three"


# Old files and damage


def execute_sql(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path), vfs=register_vfs())
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


DAMAGE = {
    "a deleted item that is still there": (
        "INSERT INTO item SELECT row + 50, space, 'gone', replace(body, '\"a\"', '\"gone\"') FROM"
        " item WHERE id = 'a'"
    ),
    "an item that vanished": "DELETE FROM item WHERE id = 'a'",
    "an edge of a deleted item": (
        "INSERT INTO edge VALUES (1, 'gone', 1, 'a', 'related', 1.0, NULL, '')"
    ),
    "a posting of a deleted item": "INSERT INTO delta VALUES ((1 << 32) + 2, 9, '{\"refund\": 1}')",
    "a vector of a deleted item": "INSERT INTO vector VALUES ((1 << 32) + 2, x'0000')",
    "a line of the log that is no JSON": (
        "UPDATE change_log SET before = '{' WHERE action = 'delete'"
    ),
    "a line of the log without what was there": (
        "UPDATE change_log SET before = NULL WHERE action = 'delete'"
    ),
    "a line of the log that happened to nothing": (
        "UPDATE change_log SET action = 'delete' WHERE id = 'a' AND action = 'add'"
    ),
    "lines missing in the middle of the log": "DELETE FROM change_log WHERE number = 2",
    "an item whose line is missing at the end": (
        "DELETE FROM change_log WHERE number >= (SELECT max(number) FROM change_log WHERE id = 'b')"
    ),
    "a link that the log forgot": "DELETE FROM edge WHERE source = 'a'",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_verify_reports_leftovers_of_deletions_and_missing_rows(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "k.db"
    with engine(str(path)) as kb:
        kb.add(
            [node("a", "x"), node("b"), node("gone", "refund")], [link("a", "b"), link("gone", "a")]
        )
        kb.delete("gone", space="s")
        assert kb.verify() == []
        execute_sql(path, damage)
        assert kb.verify() != []


def test_verify_misses_the_last_line_of_the_log(tmp_path: Path) -> None:
    with engine(str(tmp_path / "k.db")) as kb:
        kb.add([node("a"), node("b")])
        kb.add([], [link("a", "b")])
        execute_sql(tmp_path / "k.db", "DELETE FROM change_log WHERE action = 'link'")
        assert kb.verify() == [
            "space 's': the edge a -[related]-> b is stored, but the change log did not link it"
        ]


# The shell and the service


def run(*words: str, path: Path) -> Any:
    return CliRunner().invoke(cli, [*words, "--db", str(path), "--embedder", "none"])


def test_the_shell_shows_restores_and_rolls_back(tmp_path: Path) -> None:
    path = tmp_path / "k.db"
    with engine(str(path)) as kb:
        kb.add([node("a", "one", title="First\x1b[31m"), node("b", "x")], [link("a", "b")])
        kb.add(node("a", "two"))
        before = kb.maintenance.stats().spaces
        kb.delete("a", space="s")
    shown = run("history", "a", "--space", "s", path=path).stdout.splitlines()
    assert shown[0].split()[:2] == ["2026-01-01T00:02:00Z", "delete"] and "\x1b" not in "".join(
        shown
    )
    assert (
        run("restore", "a", "--space", "s", path=path).stdout
        == "added: a in s; links brought back: 1\n"
    )
    with engine(str(path)) as kb:
        assert kb.maintenance.stats().spaces == before
    preview = run("rollback", "--to", "2026-01-01T00:00:30Z", "--dry-run", path=path)
    assert (preview.exit_code, preview.stdout.splitlines()) == (
        0,
        ["update  s  a", "would do: 1 update"],
    )
    assert run("rollback", "--to", "2026-01-01", path=path).exit_code == 2
    done = json.loads(run("rollback", "--to", "2026-01-01", "--yes", "--json", path=path).stdout)
    assert (done["dry_run"], done["counts"]["update"]) == (False, 1)
    assert run("history", "x", "--space", "s", path=path).exit_code == 1


@pytest.fixture
def kb_client_and_keys() -> Iterator[tuple[Engine, TestClient, Keyring]]:
    with engine("memory:") as kb, tempfile.TemporaryDirectory() as folder:
        keys = Keyring(Path(folder) / "keys.json")
        keys.add("admin", reads=(), writes=("*",), role="admin", tier="teams", now=START)
        with TestClient(application.create_app(kb, keys, ServerLimits(hosts=("*",)))) as client:
            yield kb, client, keys


def ask(client: TestClient, secret: str, path: str, body: Any = None) -> Any:
    headers = {"authorization": f"Bearer {secret}"}
    return (
        client.get(path, headers=headers)
        if body is None
        else client.post(path, json=body, headers=headers)
    )


def test_the_service_shows_only_links_that_the_key_may_read(
    kb_client_and_keys: tuple[Engine, TestClient, Keyring],
) -> None:
    kb, client, keys = kb_client_and_keys
    kb.add([node("a/1"), node("z", space="zoo")], [Edge("z", "a/1", space="zoo", target_space="s")])
    _, narrow = keys.add("narrow", reads=("s",), writes=(), role="viewer", tier="teams", now=START)
    _, wide = keys.add(
        "wide", reads=("s", "zoo"), writes=(), role="viewer", tier="teams", now=START
    )
    actions = [
        [
            state["action"]
            for state in ask(client, secret, "/api/items/a/1/history?space=s").json()["history"]
        ]
        for secret in (narrow, wide)
    ]
    assert actions == [["add"], ["link", "add"]]
    assert ask(client, narrow, "/api/items/z/history?space=zoo").status_code == 403


def test_the_service_writes_only_where_the_key_may(
    kb_client_and_keys: tuple[Engine, TestClient, Keyring],
) -> None:
    kb, client, keys = kb_client_and_keys
    kb.add(
        [node("a"), node("z", space="zoo")],
        [
            Edge("z", "a", space="zoo", target_space="s"),
            Edge("a", "z", space="s", target_space="zoo"),
        ],
    )
    kb.delete("a", space="s")
    _, secret = keys.add(
        "editor", reads=("zoo",), writes=("s",), role="editor", tier="teams", now=START
    )
    for path, body in (
        ("restore", {"space": "zoo", "id": "z"}),
        ("restore", {"space": "s", "id": "a", "edges_of": ["zoo"]}),
        ("rollback", {"to": "2026-01-01"}),
        ("rollback", {"to": "2026-01-01", "spaces": ["zoo"]}),
    ):
        assert ask(client, secret, f"/api/{path}", body).status_code == 403
    assert ask(client, secret, "/api/restore", {"space": "s", "id": "a"}).json()["edges"] == 1
    assert [edge.space for edge in kb.edges()] == ["s"]
    assert (
        ask(
            client, secret, "/api/rollback", {"to": "2025-01-01", "spaces": ["s"], "dry_run": True}
        ).json()["counts"]["delete"]
        == 1
    )


def test_the_client_answers_as_the_engine_does() -> None:
    with engine("memory:") as kb, serving(kb) as address, Client(address) as client:
        kb.add([node("a", "one"), node("b")], [link("a", "b", properties={"x": 1})])
        kb.add(node("a", "two"))
        assert client.history.states("a", space="s") == kb.history.states("a", space="s")
        assert client.history.rollback(moment(0), dry_run=True) == kb.history.rollback(
            moment(0), dry_run=True
        )
        assert client.history.rollback(moment(0), spaces=["s"]).count("update") == 1
        kb.delete("a", space="s")
        assert (client.history.restore("a", space="s").edges, kb.get("a", space="s")[0].text) == (
            1,
            "one",
        )
        for call in (
            lambda on: on.history.states("x", space="s"),
            lambda on: on.history.restore("a", space="s"),
            lambda on: on.history.rollback("nonsense"),
        ):
            errors = []
            for on in (kb, client):
                with pytest.raises((NotFound, Invalid)) as caught:
                    call(on)
                errors.append((type(caught.value), str(caught.value)))
            assert errors[0] == errors[1]
