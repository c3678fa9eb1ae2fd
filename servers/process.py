"""Programs on loopback: an installation that is made once, and instances of it as processes.

The programs and the data of instances are cached in KNOWLOOM_SERVERS, by default
~/.cache/knowloom-servers. Each instance has its own data, port and process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

WAIT_S = 240.0
INSTALL_S = 900.0
POLL_S = 0.05


class ServerError(Exception):
    """A server cannot be installed or started here; the message has the reason."""


class ProcessSettings(TypedDict, total=False):
    """Arguments of `subprocess.run`: a user and an environment."""

    user: int
    group: int
    extra_groups: list[int]
    env: dict[str, str]


def unprivileged_user() -> ProcessSettings:
    """Return the arguments for an unprivileged user; none unless this is root."""
    if os.geteuid() != 0:
        return {}
    import grp
    import pwd

    nobody = pwd.getpwnam("nobody")
    group = grp.getgrgid(nobody.pw_gid).gr_gid
    return {"user": nobody.pw_uid, "group": group, "extra_groups": []}


def hand_over(folder: Path) -> None:
    """Give a folder and its content to the unprivileged user, if there is one."""
    if user := unprivileged_user():
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user["user"], user["group"])


def cache_folder() -> Path:
    """Return the folder of the cache, one that `nobody` can reach if this is root."""
    folder = Path(os.environ.get("KNOWLOOM_SERVERS") or Path.home() / ".cache/knowloom-servers")
    folder.mkdir(parents=True, exist_ok=True)
    closed = any(not parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))
    if unprivileged_user() and closed:
        folder = Path("/var/cache/knowloom-servers")
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str | Path], cwd: Path, **settings: Unpack[ProcessSettings]) -> None:
    """Run a program to its end; raise ServerError if it fails."""
    try:
        result = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, **settings
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"cannot run {command[0]}: {error}") from error
    if result.returncode:
        output = (result.stderr or result.stdout).strip()[-500:]
        raise ServerError(f"{Path(command[0]).name} failed with {result.returncode}: {output}")


def require(*programs: str) -> None:
    """Raise ServerError for the first program that is not on the path."""
    for program in programs:
        if shutil.which(program) is None:
            raise ServerError(f"the program {program!r} is not installed")


def install_once(name: str, unpack: Callable[[Path], None]) -> Path:
    """Return the folder of an installation that `unpack` fills the first time."""
    cache = cache_folder()
    home = cache / name
    with locked(cache / f"{name}.lock"):
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            home.chmod(0o755)
            unpack(home)
            (home / "complete").touch()
    return home


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def accepts_http(url: str) -> bool:
    """Return True if a GET of this URL succeeds."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


class Instance:
    """One process of a server; its data and its port are kept between runs.

    Subclasses say how it is installed, launched and known to be ready. The command line of the
    process must name the folder of the instance: a process that is gone may have left its number
    to another program.
    """

    name: str
    scheme: str

    def __init__(self, instance: str = "default") -> None:
        self.instance = instance
        self.folder = cache_folder() / "run" / f"{self.name}-{instance}"
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def install(self) -> Path:
        raise NotImplementedError

    def command(self, home: Path, port: int) -> list[str | Path]:
        """Prepare the folder of the instance and return the command that starts it."""
        raise NotImplementedError

    def is_ready(self, port: int) -> bool:
        raise NotImplementedError

    def settings(self) -> ProcessSettings:
        return {}

    def choose_port(self) -> int:
        return free_port()

    @property
    def pid_file(self) -> Path:
        return self.folder / "pid"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int((self.folder / "port").read_text())

    def start(self) -> str:
        """Start the instance unless it runs; return its URL."""
        home = self.install()
        with locked(self.folder.with_suffix(".lock")):
            if not self.pid():
                self.data.mkdir(parents=True, exist_ok=True)
                if not (self.folder / "port").exists():
                    (self.folder / "port").write_text(str(self.choose_port()))
                self._launch(self.command(home, self.port))
                self._await(time.monotonic() + WAIT_S)
        return self.url

    def _launch(self, command: Sequence[str | Path]) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.settings(),
            )
        self.record_pid(self._process.pid)

    def record_pid(self, pid: int) -> None:
        """Store the process id, unless the server itself does."""
        self.pid_file.write_text(str(pid))

    def _await(self, deadline: float) -> None:
        while not self.is_ready(self.port):
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"{self.name} did not start: {self.log_end()}")
            time.sleep(POLL_S)

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def log_end(self) -> str:
        return self._log.read_text(errors="replace")[-500:]

    def pid(self) -> int:
        """Return the process id of the server, 0 if it does not run."""
        try:
            pid = int(self.pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return 0
        return pid if str(self.folder).encode() in command else 0

    def stop(self) -> None:
        """Shut down."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server as a crash would; its data stays."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the server: it accepts connections and answers nothing."""
        os.kill(self.pid(), signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid(), signal.SIGCONT)

    def erase(self) -> None:
        """Kill the server and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.with_suffix(".lock").unlink(missing_ok=True)

    def _end(self, number: signal.Signals) -> None:
        pid = self.pid()
        if not pid:
            return
        os.kill(pid, number)
        if self._process is not None:
            try:
                self._process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                os.kill(pid, signal.SIGKILL)
            self._process = None
        deadline = time.monotonic() + WAIT_S
        while self.pid() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def main(server: type[Instance], usage: str | None, arguments: Sequence[str]) -> int:
    """Run the command line of a server: a command and the name of an instance."""
    command, instance = [*arguments, *("start", "default")[len(arguments) :]][:2]
    actions: Mapping[str, Callable[[Instance], object]] = {
        "install": lambda instance: instance.install(),
        "start": lambda instance: instance.start(),
        "stop": lambda instance: instance.stop(),
        "kill": lambda instance: instance.kill(),
        "status": lambda instance: instance.url if instance.pid() else "stopped",
    }
    if command not in actions:
        print(usage, file=sys.stderr)
        return 2
    try:
        print(actions[command](server(instance)) or "")
    except ServerError as error:
        print(f"{server.name}: {error}", file=sys.stderr)
        return 1
    return 0
