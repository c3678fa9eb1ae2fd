"""Servers of the tests in this folder, each started on its first use and removed at the end.

Request a fixture such as `redis_server`; it yields an instance that runs. Tests that stop or kill a
server need not start it again: the next test that requests it does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from postgresql_server import require_server
from servers.chroma import Chroma
from servers.elasticsearch import Elasticsearch
from servers.neo4j import Neo4j, SecuredNeo4j
from servers.opensearch import OpenSearch
from servers.postgresql import Server
from servers.process import Instance, ServerError
from servers.redis import Cluster, Redis, SecuredRedis

I = TypeVar("I", bound=Instance)  # noqa: E741

# Runs of several checkouts at the same time must not share a server.
RUN = f"tests-{os.getpid()}"


@contextmanager
def temporary_instance(server: type[I]) -> Iterator[I]:
    """Yield a new instance that runs; skip the test, with the reason, if it cannot be started."""
    instance = server(RUN)
    try:
        instance.start()
    except ServerError as error:
        pytest.skip(f"without {server.name} its tests are skipped: {error}")
    try:
        yield instance
    finally:
        instance.erase()


@pytest.fixture(scope="session")
def _redis() -> Iterator[Redis]:
    with temporary_instance(Redis) as instance:
        yield instance


@pytest.fixture
def redis_server(_redis: Redis) -> Redis:
    _redis.start()
    return _redis


@pytest.fixture(scope="session")
def secured_redis() -> Iterator[SecuredRedis]:
    with temporary_instance(SecuredRedis) as instance:
        yield instance


@pytest.fixture(scope="session")
def _redis_cluster() -> Iterator[Cluster]:
    cluster = Cluster(RUN)
    try:
        cluster.start()
    except ServerError as error:
        cluster.erase()
        pytest.skip(f"without redis its tests are skipped: {error}")
    yield cluster
    cluster.erase()


@pytest.fixture
def redis_cluster(_redis_cluster: Cluster) -> Cluster:
    for node in _redis_cluster.nodes:
        node.start()
    _redis_cluster.await_ok()
    return _redis_cluster


@pytest.fixture(scope="session")
def _neo4j() -> Iterator[Neo4j]:
    with temporary_instance(Neo4j) as instance:
        yield instance


@pytest.fixture
def neo4j_server(_neo4j: Neo4j) -> Neo4j:
    _neo4j.start()
    return _neo4j


@pytest.fixture(scope="session")
def secured_neo4j() -> Iterator[SecuredNeo4j]:
    with temporary_instance(SecuredNeo4j) as instance:
        yield instance


@pytest.fixture(scope="session")
def _opensearch() -> Iterator[OpenSearch]:
    with temporary_instance(OpenSearch) as instance:
        yield instance


@pytest.fixture
def opensearch_server(_opensearch: OpenSearch) -> OpenSearch:
    _opensearch.start()
    return _opensearch


@pytest.fixture(scope="session")
def _elasticsearch() -> Iterator[Elasticsearch]:
    with temporary_instance(Elasticsearch) as instance:
        yield instance


@pytest.fixture
def elasticsearch_server(_elasticsearch: Elasticsearch) -> Elasticsearch:
    _elasticsearch.start()
    return _elasticsearch


@pytest.fixture(scope="session")
def _chroma() -> Iterator[Chroma]:
    with temporary_instance(Chroma) as instance:
        yield instance


@pytest.fixture
def chroma_server(_chroma: Chroma) -> Chroma:
    _chroma.start()
    return _chroma


@pytest.fixture
def postgresql_server() -> Server:
    return require_server()
