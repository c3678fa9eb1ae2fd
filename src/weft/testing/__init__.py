"""Contract suites: what every adapter promises. Shipped for plug-ins: subclass one and give it a fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore.open(str(tmp_path / "knowledge"))

They need pytest and hypothesis: pip install 'weft[testing]'.
"""

from __future__ import annotations

from weft.testing.embedders import EmbedderContract
from weft.testing.graph import GraphStoreContract
from weft.testing.history import HistoryContract
from weft.testing.items import ItemStoreContract
from weft.testing.links import LinkStoreContract
from weft.testing.texts import TextIndexContract
from weft.testing.vectors import VectorIndexContract

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
