"""Connections handed out to several processes: each in turn, none lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from knowloom.server.connections import HandoverSocket, distribute_connections

Given = tuple[socket.socket, list[socket.socket], list[HandoverSocket], Thread]


@pytest.fixture
def given() -> Iterator[Given]:
    """A listening socket, the ends that connections go in at, and those where they come out."""
    listening = socket.create_server(("127.0.0.1", 0))
    pairs = [socket.socketpair() for _ in range(2)]
    for end, _ in pairs:
        end.setblocking(False)
    taken = [HandoverSocket(fileno=end.detach()) for _, end in pairs]
    for handed in taken:
        handed.settimeout(30)
    thread = Thread(
        target=distribute_connections, args=(listening, [end for end, _ in pairs]), daemon=True
    )
    thread.start()
    yield listening, [end for end, _ in pairs], taken, thread
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    for one in (listening, *(end for end, _ in pairs), *taken):
        one.close()


def connected(listening: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(listening.getsockname()) for _ in range(count)]


def test_each_process_gets_as_many_as_the_others(given: Given) -> None:
    listening, _, taken, _ = given
    clients = connected(listening, 8)
    for end in taken:
        for connection, peer in (end.accept() for _ in range(4)):
            assert peer in [client.getsockname() for client in clients]
            connection.sendall(b"hello")
            connection.close()
    assert [client.recv(10) for client in clients] == [b"hello"] * 8
    for client in clients:
        client.close()


def test_a_server_takes_them_as_from_a_listening_socket(given: Given) -> None:
    listening, _, taken, _ = given
    clients = connected(listening, 2)

    async def serve() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(str(writer.get_extra_info("peername")[1]).encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, sock=taken[0])
        said = await asyncio.to_thread(clients[0].recv, 10)
        server.close()
        assert said == str(clients[0].getsockname()[1]).encode()

    asyncio.run(serve())
    for client in clients:
        client.close()


def test_what_one_cannot_take_another_gets(given: Given) -> None:
    listening, ends, taken, _ = given
    ends[0].close()
    clients = connected(listening, 3)
    for _ in clients:
        taken[1].accept()[0].close()
    for client in clients:
        client.close()


def test_a_connection_that_nobody_hands_out_any_more_is_an_aborted_one(given: Given) -> None:
    _, ends, taken, _ = given
    ends[0].close()
    with pytest.raises(ConnectionAbortedError):
        taken[0].accept()


def test_it_ends_when_nobody_listens_any_more(given: Given) -> None:
    listening, _, _, thread = given
    listening.shutdown(socket.SHUT_RDWR)
    thread.join(30)
    assert not thread.is_alive()
