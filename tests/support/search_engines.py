"""Elasticsearch and OpenSearch for the tests of this process, and empty indexes in them."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from knowloom.registry import open_store
from knowloom.stores.elasticsearch.layer import IndexedLayer
from servers.elasticsearch import Elasticsearch
from servers.opensearch import OpenSearch
from servers.process import Instance, ServerError

ENGINES: Mapping[str, type[Instance]] = {"elasticsearch": Elasticsearch, "opensearch": OpenSearch}
_numbers = itertools.count(1)


@cache
def _running(engine: str) -> Instance | ServerError:
    server = ENGINES[engine](os.environ.get("PYTEST_XDIST_WORKER", "main"))
    was_running = bool(server.pid())
    try:
        server.start()
    except ServerError as error:
        return error
    if not was_running:
        atexit.register(server.stop)
    return server


def require_engine(engine: str) -> Instance:
    """Return the server; skip the test, with the reason, if it cannot be started."""
    server = _running(engine)
    if isinstance(server, ServerError):
        pytest.skip(f"without {engine} its tests are skipped: {server}")
    server.start()  # a test may have stopped it
    return server


def address_of(server: Instance, index: str) -> str:
    return f"127.0.0.1:{server.port}/{index}"


@contextmanager
def empty_layer(engine: str, server: Instance) -> Iterator[IndexedLayer]:
    """Yield a layer of an index that has just been emptied: creating one takes longer."""
    layer = open_layer(engine, server, "contract")
    yield layer
    layer = open_layer(engine, server, "contract")
    spaces = layer.indexed_spaces()
    layer.remove([(space, id) for space in spaces for id, _ in layer.versions(space, "", 10_000)])
    layer.close()
    delete_index(server, "contract-vectors-*")


@contextmanager
def new_index(server: Instance) -> Iterator[str]:
    """Yield the name of an index that does not exist, and delete it afterwards."""
    name = f"test{next(_numbers)}x"
    yield name
    delete_index(server, f"{name}*")


def delete_index(server: Instance, pattern: str) -> None:
    """Delete indexes by their names; the engines refuse patterns unless they are told to."""
    names = read(server, f"/_cat/indices/{pattern}?h=index&expand_wildcards=all").split()
    for name in names:
        send(server, "DELETE", f"/{name}")


def read(server: Instance, path: str) -> str:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def send(server: Instance, method: str, path: str, body: str = "") -> None:
    """Send a request that must succeed."""
    request = urllib.request.Request(
        f"{server.url}{path}",
        data=body.encode() or None,
        method=method,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def open_layer(engine: str, server: Instance, index: str, options: str = "") -> IndexedLayer:
    layer = open_store(f"{engine}://{address_of(server, index)}{options}", ["words", "vectors"])
    assert isinstance(layer, IndexedLayer)
    return layer


@contextmanager
def refusing_server(reason: str) -> Iterator[int]:
    """Yield the port of a server that refuses every request with the status 401."""

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"error": {"reason": reason}, "status": 401}).encode()
            self.send_response(401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
