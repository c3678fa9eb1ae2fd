"""Hand connections out to several processes in turn: the system's own ways give one process many and another one few."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from itertools import cycle, islice

POSSIBLE = hasattr(socket, "send_fds")  # not on Windows
PAUSE_S = 0.01  # before trying again, when nobody takes more, or there are no more files


class Handed(socket.socket):
    """Where a process is handed connections that another one accepted. To a server it is a listening socket."""

    def listen(self, backlog: int = 0) -> None:
        """Another process does."""

    def accept(self) -> tuple[socket.socket, object]:
        _, handles, _, _ = socket.recv_fds(self, 1, 1)
        if not handles:
            raise ConnectionAbortedError("nobody hands out connections any more")
        connection = socket.socket(fileno=handles[0])
        try:
            return connection, connection.getpeername()
        except OSError as error:  # gone before it was answered
            connection.close()
            raise ConnectionAbortedError from error


def hand_out(listening: socket.socket, ends: Sequence[socket.socket]) -> None:
    """Accept connections, and give one after the other to the next end, until the socket is shut down. Ends do not block."""
    turns = cycle(ends)
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:
            continue
        except OSError:
            if is_shut_down(listening):
                return
            time.sleep(PAUSE_S)  # too many open files: some will be closed
            continue
        with connection:
            while not any(_given(connection, end) for end in islice(turns, len(ends))):
                time.sleep(PAUSE_S)


def _given(connection: socket.socket, end: socket.socket) -> bool:
    try:
        socket.send_fds(end, [b"c"], [connection.fileno()])
    except OSError:  # it has as many as it can take
        return False
    return True


def is_shut_down(listening: socket.socket) -> bool:
    """Whether it listens no more; closing it would not wake who waits for the next connection."""
    return listening.fileno() < 0 or not listening.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN
    )
