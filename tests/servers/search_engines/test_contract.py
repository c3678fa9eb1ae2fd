"""The contracts of layers on real Elasticsearch and OpenSearch servers."""

from __future__ import annotations

import pytest

from knowloom.stores.elasticsearch.layer import IndexedLayer
from knowloom.stores.memory.store import MemoryStore
from knowloom.testing import TextLayerContract, VectorLayerContract


class TestTextLayer(TextLayerContract):
    """Words."""

    @pytest.fixture
    def reference(self) -> MemoryStore:
        return MemoryStore.open("")

    @pytest.fixture
    def layer(self, layer: IndexedLayer) -> IndexedLayer:
        return layer


class TestVectorLayer(VectorLayerContract):
    """Vectors."""

    @pytest.fixture
    def reference(self) -> MemoryStore:
        return MemoryStore.open("")

    @pytest.fixture
    def layer(self, layer: IndexedLayer) -> IndexedLayer:
        return layer
