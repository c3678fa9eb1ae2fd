"""A client of Redis that raises knowloom's errors, fails in time and connects again by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from os import getpid
from threading import Lock
from typing import Any, TypeVar

from knowloom.errors import Corrupt, Invalid, KnowloomError, MissingExtra, Unavailable
from knowloom.keyvalue.redis_address import RedisAddress
from knowloom.ports.views import require_process

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.cluster import ClusterNode
    from redis.retry import Retry
except ImportError as missing:
    raise MissingExtra(
        f"redis needs a package that is not installed ({missing.name}): "
        "pip install 'knowloom[redis]'"
    ) from missing

T = TypeVar("T")
Command = tuple[str | bytes | int | float, ...]

PAUSE_S = 1.0  # after a timeout, calls fail at once for so long
# By the first word of an error of the server: the code of the error, and advice.
_REPLIES: Mapping[str, tuple[str, str]] = {
    "NOAUTH": ("access_denied", "add user:password@ to the URL"),
    "WRONGPASS": ("access_denied", "check the user and the password"),
    "NOPERM": ("access_denied", "grant the user its commands and keys"),
    "READONLY": ("read_only", "the server is a replica: write to the primary"),
    "NOREPLICAS": ("read_only", "the primary has too few replicas: start them"),
    "MISCONF": ("read_only", "the server cannot write to its disk: free some space"),
    "OOM": ("memory_full", "nothing of this write is stored: raise maxmemory"),
    "LOADING": ("unreachable", "the server is starting: retry"),
    "CLUSTERDOWN": ("unreachable", "a part of the cluster is down: start it"),
    "TRYAGAIN": ("busy", "slots of the cluster are moving: retry"),
    "BUSY": ("busy", "a script blocks the server: retry"),
}
_KINDS: Mapping[type[Exception], str] = {
    redis.exceptions.OutOfMemoryError: "OOM",
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.NoPermissionError: "NOPERM",
    redis.exceptions.BusyLoadingError: "LOADING",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
    redis.exceptions.AuthenticationWrongNumberOfArgsError: "WRONGPASS",
    redis.exceptions.AuthenticationError: "WRONGPASS",
}
_FOREIGN = "WRONGTYPE"


class RedisClient:
    """Commands to one server or cluster; safe to share between threads.

    Nothing is sent twice except by `read`.
    """

    def __init__(
        self, address: RedisAddress, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        require_unicode(address)
        self.address, self._monotonic = address, monotonic
        self._client: Any = None
        self._lock, self._closed = Lock(), False
        self._paused: tuple[float, Unavailable] | None = None  # until when, and why

    @property
    def name(self) -> str:
        return self.address.name

    def read(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers of reading commands, in one round trip per node.

        A connection that was lost is replaced, and the commands are sent again.
        """
        return self._run(lambda client: _send(client, commands), attempts=2)

    def write(self, *command: str | bytes | int | float) -> Any:
        """Return the answer of one command."""
        return self._run(lambda client: _send(client, [command])[0], attempts=1)

    def write_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers of several commands, which are not one transaction."""
        return self._run(lambda client: _send(client, commands), attempts=1)

    def run_script(self, script: str, keys: Sequence[str], *arguments: str | int | float) -> Any:
        """Run a script on keys of one slot: all of its writes are done, or none."""
        return self._run(lambda client: client.eval(script, len(keys), *keys, *arguments), 1)

    def scan(self, pattern: str) -> list[bytes]:
        """Return the keys that match a pattern, of all nodes."""
        return self._run(lambda client: list(client.scan_iter(match=pattern, count=1000)), 2)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()

    def require_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self.name!r} was closed", "closed")

    def _run(self, work: Callable[[Any], T], attempts: int) -> T:
        self.require_open()
        if self._paused is not None and self._monotonic() < self._paused[0]:
            raise Unavailable(str(self._paused[1]), self._paused[1].code)
        for attempt in range(1, attempts + 1):
            try:
                return work(self._connect())
            except (redis.RedisError, OSError) as error:
                if attempt < attempts and isinstance(error, redis.ConnectionError):
                    continue
                raise self._note(describe(self.address, error)) from error
            except UnicodeEncodeError as error:
                text = error.object[error.start : error.end]
                raise Invalid(f"text must be valid Unicode, got {text!r}") from None
        raise AssertionError("unreachable")

    def _note(self, error: KnowloomError) -> KnowloomError:
        if isinstance(error, Unavailable) and error.code == "timeout":
            self._paused = (self._monotonic() + PAUSE_S, error)
        return error

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _open(self.address)
                self._process = getpid()
        require_process(self._process)
        return self._client


def require_unicode(address: RedisAddress) -> None:
    """Raise Invalid for a user or a password that cannot be sent."""
    try:
        f"{address.user}{address.password}".encode()
    except UnicodeEncodeError:
        raise Invalid("the user and the password of a Redis URL must be valid Unicode") from None


def _open(address: RedisAddress) -> Any:
    options: dict[str, Any] = {
        "username": address.user or None,
        "password": address.password or None,
        "socket_timeout": address.timeout_s,
        "socket_connect_timeout": address.connect_timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "ssl": address.is_encrypted,
        "client_name": "knowloom",
        "protocol": 2,
    }
    if address.ca_file:
        options["ssl_ca_certs"] = address.ca_file
    if address.is_cluster:
        nodes: Any = [ClusterNode(*node) for node in address.hosts]  # type: ignore[no-untyped-call]
        return redis.RedisCluster(startup_nodes=nodes, **options)
    host, port = address.hosts[0]
    return redis.Redis(host, port, address.database, **options)


def _send(client: Any, commands: Sequence[Command]) -> list[Any]:
    if len(commands) == 1:
        return [client.execute_command(*commands[0])]
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = pipeline.execute()
    return answers


def describe(address: RedisAddress, error: Exception) -> KnowloomError:
    """Return the error that a caller sees, with the hosts and never the password."""
    reason = " ".join((str(error) or type(error).__name__).split())[:300]
    if address.password:
        reason = reason.replace(address.password, "***")
    word = next((word for kind, word in _KINDS.items() if isinstance(error, kind)), "")
    word = next((word for word in _REPLIES if f"{word} " in f"{reason} "), word)
    if _FOREIGN in reason:
        return Corrupt(
            f"{address.name}: keys of another program have the names of knowloom's ({reason}): "
            "use another prefix or database",
            "foreign_file",
        )
    if word:
        code, advice = _REPLIES[word]
        return Unavailable(f"{address.name}: {reason} ({advice})", code)
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return Unavailable(f"{address.name}: {reason} (it may be paused, or cut off)", "timeout")
    if isinstance(error, redis.ConnectionError | redis.exceptions.RedisClusterException | OSError):
        advice = "check the address and that the server runs"
        return Unavailable(f"{address.name}: {reason} ({advice})", "unreachable")
    return Unavailable(f"{address.name}: {reason}", "unavailable")
