"""The effect of a batch on a file store, computed before anything is written."""

from __future__ import annotations

import json
from typing import Any

from knowloom import codec
from knowloom.model import Change, Edge, EdgeKey, Item, Key
from knowloom.ports import Batch

ITEM_ACTIONS, EDGE_ACTIONS = ("add", "update", "delete"), ("link", "unlink")


class WritePlan:
    """The new state of each item and edge (None: deleted) and the lines to log.

    Raises for values that cannot be stored and for unexpected versions.
    """

    def __init__(
        self,
        items: dict[Key, Item],
        edges: dict[EdgeKey, Edge],
        incident: dict[Key, dict[EdgeKey, Edge]],
        batch: Batch,
        log_length: int,
    ) -> None:
        self.items: dict[Key, Item | None] = {}
        self.edges: dict[EdgeKey, Edge | None] = {}
        self.log: list[str] = []
        self._stored_items, self._stored_edges = items, edges
        self._log_length, self._at = log_length, codec.time_to_text(batch.at)
        self._actor = batch.actor
        for key, version in batch.expected:
            codec.check_version(key, version, items.get(key))
        for key in batch.deleted:
            for edge_key in sorted(incident.get(key, ())):
                self._delete_edge(edge_key)
            self._put(key, None)
        for edge_key in batch.deleted_edges:
            self._delete_edge(edge_key)
        for item in batch.items:
            self._put(item.key, codec.item_from_dict(_copy_row(codec.item_to_dict(item))))
        for edge in batch.edges:
            self._put_edge(codec.edge_from_dict(_copy_row(codec.edge_to_dict(edge))))

    def _put(self, key: Key, item: Item | None) -> None:
        before = self.items[key] if key in self.items else self._stored_items.get(key)
        if before is None and item is None:
            return
        self.items[key] = item
        action = "delete" if item is None else "add" if before is None else "update"
        self._log(key, action, None if before is None else codec.item_to_dict(before))

    def _put_edge(self, edge: Edge) -> None:
        before = self._current_edge(edge.key)
        self.edges[edge.key] = edge
        row = None if before is None else codec.edge_to_dict(before)
        self._log(edge.source_key, "link", row, edge.key)

    def _delete_edge(self, key: EdgeKey) -> None:
        before = self._current_edge(key)
        if before is not None:
            self.edges[key] = None
            self._log(key[0], "unlink", codec.edge_to_dict(before), key)

    def _current_edge(self, key: EdgeKey) -> Edge | None:
        return self.edges[key] if key in self.edges else self._stored_edges.get(key)

    def _log(
        self, key: Key, action: str, before: dict[str, Any] | None, link: EdgeKey | None = None
    ) -> None:
        self._log_length += 1
        row: dict[str, Any] = {"number": self._log_length, "at": self._at}
        row |= {"space": key[0], "id": key[1], "action": action, "before": before}
        if link is not None:
            row |= {"target": list(link[1]), "type": link[2]}
        if self._actor:
            row["actor"] = self._actor
        self.log.append(f"{codec.to_json(row)}\n")


def decode_change(row: dict[str, Any]) -> Change:
    """Return the change of a line of the log."""
    key, before = (row["space"], row["id"]), row["before"]
    time = codec.text_to_time(row["at"])
    decode = codec.item_from_dict if row["action"] in ITEM_ACTIONS else codec.edge_from_dict
    link: EdgeKey | None = None
    if "target" in row:
        link = (key, (row["target"][0], row["target"][1]), row["type"])
    stored = None if before is None else decode(before)
    number, action = row["number"], row["action"]
    author, erased = row.get("actor", ""), row.get("erased", False)
    return Change(number, time, *key, action, stored, link, author, erased)


def _copy_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row as read back from a file; raises for values that JSON cannot represent."""
    copy: dict[str, Any] = json.loads(codec.to_json(row))
    return copy
