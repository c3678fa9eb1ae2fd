"""Contract suites for adapters: subclass the contract of a port and override its fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore.open(str(tmp_path / "knowledge"))

An adapter that passes the contracts of its ports can replace a built-in one. Each test needs a new,
empty store. The suites need pytest and hypothesis: pip install 'knowloom[testing]'.
"""

from __future__ import annotations

from knowloom.testing.changes import HistoryContract
from knowloom.testing.document_parsers import DocumentParserContract
from knowloom.testing.embedders import EmbedderContract
from knowloom.testing.graph import GraphStoreContract
from knowloom.testing.items import ItemStoreContract
from knowloom.testing.layers.contract import TextLayerContract, VectorLayerContract
from knowloom.testing.links import LinkStoreContract
from knowloom.testing.nearest import NearestItemsContract
from knowloom.testing.rerankers import RerankerContract
from knowloom.testing.texts import TextIndexContract
from knowloom.testing.vectors import VectorIndexContract

__all__ = [
    "DocumentParserContract",
    "EmbedderContract",
    "GraphStoreContract",
    "HistoryContract",
    "ItemStoreContract",
    "LinkStoreContract",
    "NearestItemsContract",
    "RerankerContract",
    "StoreContract",
    "TextIndexContract",
    "TextLayerContract",
    "VectorIndexContract",
    "VectorLayerContract",
]


class StoreContract(
    ItemStoreContract, HistoryContract, TextIndexContract, VectorIndexContract, GraphStoreContract
):
    """The contracts of a store that plays all four roles: override the fixture `store`.

    A store that also implements `LinkStore` adds `LinkStoreContract` and `NearestItemsContract`.
    """
