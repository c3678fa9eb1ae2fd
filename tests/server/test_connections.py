"""Tests of the distribution of connections over processes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from knowloom.server.connections import HandoverSocket, distribute_connections

Distribution = tuple[socket.socket, list[socket.socket], list[HandoverSocket], Thread]


@pytest.fixture
def distribution() -> Iterator[Distribution]:
    """A listener, the ends that send connections, those that receive them, and the thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    pairs = [socket.socketpair() for _ in range(2)]
    for end, _ in pairs:
        end.setblocking(False)
    receivers = [HandoverSocket(fileno=end.detach()) for _, end in pairs]
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
        for connection, peer in (end.accept() for _ in range(4)):
            assert peer in [client.getsockname() for client in clients]
            connection.sendall(b"hello")
            connection.close()
    assert [client.recv(10) for client in clients] == [b"hello"] * 8
    for client in clients:
        client.close()


def test_a_server_accepts_from_a_handover_socket(distribution: Distribution) -> None:
    listener, _, receivers, _ = distribution
    clients = connect(listener, 2)

    async def serve() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(str(writer.get_extra_info("peername")[1]).encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, sock=receivers[0])
        received = await asyncio.to_thread(clients[0].recv, 10)
        server.close()
        assert received == str(clients[0].getsockname()[1]).encode()

    asyncio.run(serve())
    for client in clients:
        client.close()


def test_a_process_that_is_gone_is_skipped(distribution: Distribution) -> None:
    listener, ends, receivers, _ = distribution
    ends[0].close()
    clients = connect(listener, 3)
    for _ in clients:
        receivers[1].accept()[0].close()
    for client in clients:
        client.close()


def test_accept_raises_when_the_sender_is_gone(distribution: Distribution) -> None:
    _, ends, receivers, _ = distribution
    ends[0].close()
    with pytest.raises(ConnectionAbortedError):
        receivers[0].accept()


def test_distribution_ends_when_the_listener_is_shut_down(distribution: Distribution) -> None:
    listener, _, _, thread = distribution
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)
    assert not thread.is_alive()
