"""Each server of the tests answers on its port, and a killed one starts again with its data."""

from __future__ import annotations

import pytest

from servers.process import Instance
from servers.redis import Cluster, Redis, send

SERVERS = ("redis", "neo4j", "opensearch", "elasticsearch", "chroma")


@pytest.mark.parametrize("name", SERVERS)
def test_a_started_server_is_ready(name: str, request: pytest.FixtureRequest) -> None:
    server: Instance = request.getfixturevalue(f"{name}_server")
    assert server.pid() and server.is_ready(server.port)


def test_a_killed_redis_has_what_it_acknowledged(redis_server: Redis) -> None:
    send(redis_server.port, "SET", "canary", "alive")
    redis_server.kill()
    redis_server.start()
    assert send(redis_server.port, "GET", "canary").endswith("alive")


def test_the_nodes_of_a_redis_cluster_share_the_slots(redis_cluster: Cluster) -> None:
    assert len({node.port for node in redis_cluster.nodes}) == 3
    assert all(
        "cluster_slots_ok:16384" in send(node.port, "CLUSTER", "INFO")
        for node in redis_cluster.nodes
    )
