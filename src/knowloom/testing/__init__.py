"""Contract suites: what every adapter promises. Shipped for plug-ins: subclass one and give it a fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore.open(str(tmp_path / "knowledge"))

They need pytest and hypothesis: pip install 'knowloom[testing]'.
"""

from __future__ import annotations

from knowloom.testing.embedders import EmbedderContract
from knowloom.testing.graph import GraphStoreContract
from knowloom.testing.history import HistoryContract
from knowloom.testing.items import ItemStoreContract
from knowloom.testing.links import LinkStoreContract
from knowloom.testing.texts import TextIndexContract
from knowloom.testing.vectors import VectorIndexContract

__all__ = [
    "EmbedderContract",
    "GraphStoreContract",
    "HistoryContract",
    "ItemStoreContract",
    "LinkStoreContract",
    "StoreContract",
    "TextIndexContract",
    "VectorIndexContract",
]


class StoreContract(
    ItemStoreContract, HistoryContract, TextIndexContract, VectorIndexContract, GraphStoreContract
):
    """For a store that plays all four roles: override `store`."""
