"""Tests of the distribution of connections over processes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from knowloom.server.connections import distribute_connections, receive_connection

Distribution = tuple[socket.socket, list[socket.socket], list[socket.socket], Thread]


@pytest.fixture
def distribution() -> Iterator[Distribution]:
    """A listener, the ends that send connections, those that receive them, and the thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    pairs = [socket.socketpair() for _ in range(2)]
    for end, _ in pairs:
        end.setblocking(False)
    receivers = [end for _, end in pairs]
    for receiver in receivers:
        receiver.settimeout(30)
    thread = Thread(
        target=distribute_connections, args=(listener, [end for end, _ in pairs]), daemon=True
    )
    thread.start()
    yield listener, [end for end, _ in pairs], receivers, thread
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    for end in (listener, *(sender for sender, _ in pairs), *receivers):
        end.close()


def connect(listener: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(listener.getsockname()) for _ in range(count)]


def test_connections_are_distributed_evenly(distribution: Distribution) -> None:
    listener, _, receivers, _ = distribution
    clients = connect(listener, 8)
    for end in receivers:
        for connection in [receive_connection(end) for _ in range(4)]:
            assert connection is not None
            assert connection.getpeername() in [client.getsockname() for client in clients]
            connection.sendall(b"hello")
            connection.close()
    assert [client.recv(10) for client in clients] == [b"hello"] * 8
    for client in clients:
        client.close()


def test_a_process_that_is_gone_is_skipped(distribution: Distribution) -> None:
    listener, ends, receivers, _ = distribution
    ends[0].close()
    clients = connect(listener, 3)
    for _ in clients:
        connection = receive_connection(receivers[1])
        assert connection is not None
        connection.close()
    for client in clients:
        client.close()


def test_no_connection_is_received_when_the_sender_is_gone(distribution: Distribution) -> None:
    _, ends, receivers, _ = distribution
    ends[0].close()
    assert receive_connection(receivers[0]) is None


def test_distribution_ends_when_the_listener_is_shut_down(distribution: Distribution) -> None:
    listener, _, _, thread = distribution
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)
    assert not thread.is_alive()
