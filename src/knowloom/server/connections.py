"""Distribution of accepted connections over server processes, round-robin.

SO_REUSEPORT and a shared listening socket both distribute unevenly.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from threading import Thread

from knowloom.errors import Unavailable
from knowloom.server.settings import format_address

BACKLOG = 2048
CAN_PASS_SOCKETS = hasattr(socket, "send_fds")  # not on Windows
RETRY_S = 0.01  # if no process accepts more, or there are too many open files


def receive_connection(channel: socket.socket) -> socket.socket | None:
    """Return the next connection that was passed on; None if its sender is gone.

    Raises BlockingIOError if there is none yet and the channel does not block.
    """
    _, handles, _, _ = socket.recv_fds(channel, 1, 1)
    return socket.socket(fileno=handles[0]) if handles else None


@contextmanager
def open_listeners(
    host: str, port: int, count: int
) -> Iterator[tuple[list[socket.socket], Callable[[], None]]]:
    """Yield a socket per process, and a function that refuses new connections from then on.

    Where sockets cannot be passed, all processes accept from the same socket.
    """
    opened: list[socket.socket] = []
    try:
        listener = _open_listener(host, port)
        opened.append(listener)
        if not CAN_PASS_SOCKETS:
            yield opened * count, lambda: None
            return
        pairs = [socket.socketpair() for _ in range(count)]
        opened.extend(end for pair in pairs for end in pair)
        senders = [sender for sender, _ in pairs]
        for sender in senders:
            sender.setblocking(False)
        Thread(target=distribute_connections, args=(listener, senders), daemon=True).start()
        try:
            yield [receiver for _, receiver in pairs], lambda: _shut_down(listener)
        finally:
            _shut_down(listener)
    except OSError as error:
        address = format_address(host, port)
        raise Unavailable(f"cannot listen on {address}: {error.strerror}") from error
    finally:
        for end in opened:
            end.close()


def _open_listener(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def distribute_connections(listener: socket.socket, senders: Sequence[socket.socket]) -> None:
    """Pass accepted connections to the senders in turn until the listener is shut down.

    Senders must be non-blocking.
    """
    turns = cycle(senders)
    while True:
        try:
            connection, _ = listener.accept()
        except ConnectionAbortedError:
            continue
        except OSError:
            if is_shut_down(listener):
                return
            time.sleep(RETRY_S)  # too many open files: some will be closed
            continue
        with connection:
            while not any(_pass_on(connection, sender) for sender in islice(turns, len(senders))):
                time.sleep(RETRY_S)


def _pass_on(connection: socket.socket, sender: socket.socket) -> bool:
    """Return False if the process behind `sender` cannot take more connections."""
    try:
        socket.send_fds(sender, [b"c"], [connection.fileno()])
    except OSError:
        return False
    return True


def _shut_down(listener: socket.socket) -> None:
    with suppress(OSError):  # already shut down
        listener.shutdown(socket.SHUT_RDWR)


def is_shut_down(listener: socket.socket) -> bool:
    """Return True if the socket no longer listens.

    It is shut down, not closed: closing would not wake a thread that waits in `accept`.
    """
    if listener.fileno() < 0:
        return True
    return not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
