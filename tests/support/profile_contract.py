"""The contracts of item stores, with profiles only."""

from __future__ import annotations

from typing import Any

import pytest

from knowloom import Item, Kind
from knowloom.testing.knowledge import item

# Batches of the same microsecond in two logs have no order: these tests are left out.
MERGED_LOGS = (
    "test_the_change_log_records_each_action_and_the_state_before",
    "test_edges_of_a_deleted_item_are_logged_by_key",
    "test_an_unlinked_edge_is_logged",
)


class ProfilesOnly:
    """Run the contracts with profiles only, so that everything uses the other store."""

    @pytest.fixture(autouse=True)
    def profiles(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from knowloom.testing import changes, filters, graph, items, spaces

        def profile(id: str, text: str = "", *, space: str = "acme", **fields: Any) -> Item:
            return item(id, text, space=space, **{"kind": Kind.PROFILE, **fields})

        for module in (changes, filters, graph, items, spaces):
            monkeypatch.setattr(module, "item", profile)
