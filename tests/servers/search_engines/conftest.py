"""Fixtures of the tests with a real Elasticsearch and a real OpenSearch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowloom.stores.elasticsearch.layer import IndexedLayer
from search_engines import ENGINES, empty_layer, new_index, require_engine
from servers.process import Instance


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def search_server(engine: str) -> Instance:
    return require_engine(engine)


@pytest.fixture
def index(search_server: Instance) -> Iterator[str]:
    with new_index(search_server) as name:
        yield name


@pytest.fixture
def layer(engine: str, search_server: Instance) -> Iterator[IndexedLayer]:
    with empty_layer(engine, search_server) as layer:
        yield layer
        layer.close()
