"""A TCP relay on loopback in front of a server: counts round trips, delays, stalls and cuts."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from threading import Event, Lock, Thread

CHUNK = 1 << 16
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Relay:
    """Forwards connections to a port until it is closed. Use it as a context manager."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.round_trips = 0  # times that the client sent something after an answer
        self.delay_s = 0.0  # of each answer
        # Cut when the client sends this: after the server got it, or before.
        self.cut_after: bytes | None = None
        self.cut_before: bytes | None = None
        self._lock = Lock()
        self._open = Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._answered: dict[socket.socket, bool] = {}
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.resume()
        self.cut()

    def stall(self) -> None:
        """Forward nothing more, in either direction, until `resume`."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """Reset all connections, as a router that restarts does."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._sockets += [client, server]
                    self._answered[client] = True
                Thread(target=self._pump, args=(client, server, True), daemon=True).start()
                Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        client = source if is_request else target
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self._open.wait()
                if not is_request and self.delay_s:
                    time.sleep(self.delay_s)
                with self._lock:
                    if is_request and self._answered[client]:
                        self.round_trips += 1
                    self._answered[client] = not is_request
                if is_request and self.cut_before is not None and self.cut_before in data:
                    self.cut_before = None
                    self.cut()
                    return
                target.sendall(data)
                if is_request and self.cut_after is not None and self.cut_after in data:
                    self.cut_after = None
                    self.cut()
                    return
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
