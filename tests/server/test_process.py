"""Tests of server processes: startup, timeouts, shutdown and several processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

import knowloom
from http_api import (
    NOW,
    bearer,
    ids,
)
from knowloom.cli.main import cli
from knowloom.server import settings
from knowloom.server.auth import Keyring
from knowloom.server.readiness import wait_until_ready
from paths import ROOT
from server_process import (
    free_port,
    is_alive,
    running_server,
    serve_error,
    start_server,
    stop_server,
    worker_pids,
)

SEARCH_HEADERS = (
    b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)


def test_an_open_server_warns_logs_json_and_stops_cleanly(store_file: Path) -> None:
    process, base = start_server(store_file)
    response = httpx.post(
        f"{base}/api/context", json={"query": "measles", "tenant_ids": ["support"]}
    )
    status, output = stop_server(process)
    assert (response.status_code, "server" in response.headers, status) == (200, False, 0)
    assert (
        f"{base}/docs" in output
        and f"{base}/healthz" in output
        and "warning: no API keys" in output
    )
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    logged = next(line for line in lines if line.get("route") == "/api/context")
    assert set(logged) == {
        "time",
        "level",
        "message",
        "id",
        "method",
        "route",
        "status",
        "ms",
        "key",
    }
    assert "measles" not in output


def test_two_servers_share_one_file(store_file: Path) -> None:
    with running_server(store_file) as first, running_server(store_file) as second:
        httpx.post(f"{first}/api/spaces/t/items", json={"id": "a", "type": "faq", "text": "zebra"})
        assert httpx.get(f"{second}/api/spaces/t/items/a").status_code == 200
        body = httpx.post(
            f"{second}/api/context", json={"query": "zebra", "tenant_ids": ["t"]}
        ).json()
    assert ids(body["entry_points"]) == ["a"]


def test_a_running_request_is_finished_before_shutdown(store_file: Path) -> None:
    process, base = start_server(store_file)
    body = json.dumps({"query": "refund", "tenant_ids": ["support"]})
    connection = HTTPConnection(base.removeprefix("http://"), timeout=30)
    connection.putrequest("POST", "/api/context")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body[:10].encode())
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    connection.send(body[10:].encode())
    response = connection.getresponse()
    assert (response.status, len(json.loads(response.read())["entry_points"])) == (200, 10)
    connection.close()
    process.communicate(timeout=40)
    assert process.returncode == 0


def test_the_store_may_be_an_argument(store_file: Path) -> None:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "knowloom",
        "serve",
        str(store_file),
        "--port",
        str(port),
        "--processes",
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, cwd=store_file.parent
    )
    assert process.stderr is not None
    first_line = process.stderr.readline()
    try:
        response = httpx.get(f"http://127.0.0.1:{port}/api/spaces", timeout=30)
    finally:
        status, rest = stop_server(process)
    assert first_line == f"knowloom serves at http://127.0.0.1:{port}\n"
    assert "support" in [space["name"] for space in response.json()["spaces"]]
    assert (status, "/readyz" in rest) == (0, False)


@pytest.mark.parametrize("delay_s", [0.0, 0.4])
@pytest.mark.parametrize("stop_by", [signal.SIGTERM, signal.SIGINT])
def test_a_server_stopped_during_startup_exits_cleanly(
    store_file: Path, stop_by: signal.Signals, delay_s: float
) -> None:
    command = [
        sys.executable,
        "-m",
        "knowloom",
        "serve",
        str(store_file),
        "--port",
        str(free_port()),
        "--processes",
        "2",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KNOWLOOM_EMBEDDER": "none"}
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        cwd=store_file.parent,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "starting 2 server processes\n"
    time.sleep(delay_s)
    os.killpg(process.pid, stop_by) if stop_by is signal.SIGINT else process.send_signal(
        stop_by
    )  # Ctrl-C reaches all processes
    output = process.communicate(timeout=60)[1]
    assert (process.returncode, "Traceback" in output) == (0, False), output


def test_two_different_stores_are_refused() -> None:
    result = CliRunner().invoke(cli, ["serve", "a.db", "--db", "b.db"], prog_name="knowloom")
    assert (result.exit_code, "two stores: 'a.db' and --db 'b.db'" in result.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("trickling", [False, True])
def test_a_slow_body_closes_the_connection(store_file: Path, trickling: bool) -> None:
    with (
        running_server(store_file, "--body-timeout", "1", "--processes", "1") as base,
        socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as slow,
    ):
        slow.sendall(SEARCH_HEADERS + b"Content-Length: 1000\r\n\r\n{")
        slow.settimeout(0.2)
        output, ended, deadline = b"", False, time.monotonic() + 60
        while not ended and time.monotonic() < deadline:
            with suppress(BrokenPipeError, ConnectionResetError):
                if trickling and not output:
                    slow.sendall(b" ")
            try:
                part = slow.recv(10_000)
                output, ended = output + part, not part
            except TimeoutError:
                continue
            except ConnectionResetError:  # as it has not read all that was sent
                ended = True
    assert ended and b" 408 " in output.splitlines()[0] and b'"code":"body_too_slow"' in output


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"]
)
@pytest.mark.parametrize("used_before", [False, True])
def test_slow_headers_close_the_connection(
    store_file: Path, sent: bytes, used_before: bool
) -> None:
    with (
        running_server(store_file, "--body-timeout", "1", "--processes", "1") as base,
        socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as slow,
    ):
        slow.settimeout(60)
        if used_before:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            response = b""
            while not response.endswith(b"}"):
                response += slow.recv(10_000)
            assert b" 200 " in response.splitlines()[0]
        slow.sendall(sent)
        assert slow.recv(10_000) == b""


def test_headers_in_pieces_are_accepted_within_the_timeout(store_file: Path) -> None:
    with (
        running_server(store_file, "--body-timeout", "3", "--processes", "1") as base,
        socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as slow,
    ):
        slow.settimeout(60)
        for part in (b"GET /healthz HT", b"TP/1.1\r\nHost: local", b"host\r\n\r\n"):
            slow.sendall(part)
            time.sleep(0.5)
        assert b" 200 " in slow.recv(10_000)


def test_processes_share_metrics_and_rate_limits(store_file: Path) -> None:
    with running_server(store_file, "--processes", "2", "--requests-per-minute", "12") as base:
        statuses = [
            httpx.get(f"{base}/api/spaces").status_code for _ in range(20)
        ]  # each on a connection of its store_file
        time.sleep(6)  # one more request may come every 5 seconds
        counted = httpx.get(f"{base}/metrics").text
    assert statuses.count(200) in (12, 13), statuses  # 13 if the 20 took more than 5 seconds
    assert f'route="/api/spaces",status="200"}} {statuses.count(200)}.0' in counted


def test_a_dead_process_is_restarted_and_all_stop_with_the_parent(store_file: Path) -> None:
    process, base = start_server(store_file, "--processes", "2")
    time.sleep(6)  # one that ends sooner would end again
    victim = worker_pids(process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while len(worker_pids(process.pid)) < 2 or victim in worker_pids(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [httpx.get(f"{base}/healthz", timeout=30).status_code for _ in range(10)] == [200] * 10
    others = worker_pids(process.pid)
    process.kill()
    process.communicate()
    while any(is_alive(other) for other in others):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_stopping_processes_finish_requests_and_refuse_connections(store_file: Path) -> None:
    process, base = start_server(store_file, "--processes", "2")
    port, body = int(base.rpartition(":")[2]), b'{"query": "refund", "spaces": ["support"]}'
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(SEARCH_HEADERS + b"Expect: 100-continue\r\n")
        slow.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
        assert slow.recv(1000).startswith(b"HTTP/1.1 100 ")  # it is being answered
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        with pytest.raises(ConnectionRefusedError):
            while time.monotonic() < deadline:
                socket.create_connection(("127.0.0.1", port)).close()
                time.sleep(0.05)
        assert process.poll() is None
        slow.sendall(body)
        assert b" 200 " in slow.recv(10_000).splitlines()[0]
    process.communicate(timeout=40)
    assert process.returncode == 0


def test_a_store_in_memory_cannot_be_served_by_two_processes(store_file: Path) -> None:
    assert "processes do not share memory" in serve_error(Path("memory:"), "--processes", "2")


def test_no_second_server_listens_on_the_same_port(store_file: Path) -> None:
    with running_server(store_file) as base:
        for processes in ("1", "2"):
            assert "cannot listen" in serve_error(
                store_file, "--processes", processes, "--port", base.rpartition(":")[2]
            )


def test_serving_other_machines_requires_a_key(store_file: Path) -> None:
    assert "knowloom keys add" in serve_error(store_file, "--host", "0.0.0.0")


def test_keys_are_required_once_there_are_some(store_file: Path) -> None:
    keyring = Keyring(store_file.with_name("store.db.keys.json"))
    key, text = keyring.add("k", reads=["*"], writes=[], role="viewer", tier="teams", now=NOW)
    with running_server(store_file) as base:
        assert httpx.get(f"{base}/api/spaces").status_code == 401
        assert httpx.get(f"{base}/api/spaces", headers=bearer(text)).status_code == 200
    keyring.revoke(key.id, NOW)
    assert (
        settings.load_keyring("127.0.0.1", keyring.path) is not None
    )  # revoking the last key does not open the server
    with pytest.raises(knowloom.Invalid, match="knowloom keys add"):
        settings.load_keyring("0.0.0.0", keyring.path)


def test_missing_packages_are_reported_with_the_install_command() -> None:
    script = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['knowloom', 'serve']; "
        "from knowloom.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "pip install 'knowloom[server]'" in done.stderr) == (1, True)


def test_a_port_in_use_is_reported_in_one_line(store_file: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "error: cannot listen on 127.0.0.1:" in serve_error(
            store_file, "--port", str(taken.getsockname()[1])
        )


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("hidden", ["", "uvloop", "httptools", "uvloop httptools"])
def test_a_server_answers_on_each_event_loop_and_parser(
    store_file: Path, tmp_path: Path, processes: str, hidden: str
) -> None:
    for name in ("uvloop", "httptools"):
        pytest.importorskip(name)
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys; sys.modules.update(dict.fromkeys({hidden.split()!r}))\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    process, base = start_server(store_file, "--processes", processes, PYTHONPATH=path)
    body = {"query": "refund", "tenant_ids": ["support"]}
    statuses = [httpx.post(f"{base}/api/context", json=body).status_code for _ in range(6)]
    status, output = stop_server(process)
    assert (statuses, status) == ([200] * 6, 0)
    assert f"knowloom serves at {base}" in output


def test_a_server_that_never_answers_is_reported() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(knowloom.Unavailable, match=rf"127.0.0.1:{port} did not answer"):
            wait_until_ready("127.0.0.1", port, lambda: True, timeout_s=0.5)


def test_a_server_process_that_exits_at_startup_is_reported(
    store_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'multiprocessing.forkserver' in ' '.join(sys.orig_argv):\n"
        "    sys.modules['knowloom.server.process'] = None\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    error = serve_error(store_file, "--processes", "2", "--port", str(free_port()), PYTHONPATH=path)
    assert "server process exited with status 1" in error and "knowloom serves" not in error
