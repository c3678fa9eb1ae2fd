"""Backups, purges and the audit log as JSON, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from knowloom import codec
from knowloom.model import EdgeKey
from knowloom.ports import AuditEntry, Salvaged
from knowloom.wire import JsonObject

if TYPE_CHECKING:  # the command line loads this module at startup, without the engine
    from collections.abc import Sequence

    from knowloom.operations.backups import Backup, RecordedBackup, Restored
    from knowloom.operations.copying import Copied
    from knowloom.operations.purging import Purged


def backup_to_json(backup: Backup) -> JsonObject:
    return {
        "path": backup.path,
        "at": codec.time_to_text(backup.at),
        "size": backup.size,
        "has_keys": backup.has_keys,
        "removed": list(backup.removed),
        "problems": list(backup.problems),
    }


def backup_from_json(row: JsonObject) -> Backup:
    from knowloom.operations.backups import Backup

    at, lists = codec.text_to_time(row["at"]), (tuple(row["removed"]), tuple(row["problems"]))
    return Backup(row["path"], at, row["size"], row["has_keys"], *lists)


def backups_to_json(backups: Sequence[RecordedBackup]) -> JsonObject:
    return {
        "backups": [
            {"path": entry.path, "at": codec.time_to_text(entry.at), "exists": entry.exists}
            for entry in backups
        ]
    }


def backups_from_json(row: JsonObject) -> list[RecordedBackup]:
    from knowloom.operations.backups import RecordedBackup

    return [
        RecordedBackup(entry["path"], codec.text_to_time(entry["at"]), entry["exists"])
        for entry in row["backups"]
    ]


def copied_to_json(copied: Copied) -> JsonObject:
    return {
        "spaces": [asdict(space) for space in copied.spaces],
        "written": copied.written,
        "problems": list(copied.problems),
    }


def restored_to_json(restored: Restored) -> JsonObject:
    return {
        "path": restored.path,
        "at": codec.time_to_text(restored.at),
        "keys": restored.keys or None,
        "metadata": restored.metadata or None,
        "problems": list(restored.problems),
    }


def salvaged_to_json(salvaged: Salvaged) -> JsonObject:
    return {
        "items": salvaged.items,
        "edges": salvaged.edges,
        "is_complete": salvaged.is_complete,
        "changes": salvaged.changes,
        "lost_changes": salvaged.lost_changes,
        "lost_vectors": salvaged.lost_vectors,
        "lost": [{"space": space, "id": id} for space, id in salvaged.lost],
        "doubtful": [{"space": space, "id": id} for space, id in salvaged.doubtful],
    }


def purged_to_json(purged: Purged) -> JsonObject:
    return {
        "ids": list(purged.ids),
        "missing": list(purged.missing),
        "records": list(purged.records),
        "backups": [{"path": entry.path, "reason": entry.reason} for entry in purged.backups],
        "problems": list(purged.problems),
    }


def purged_from_json(row: JsonObject) -> Purged:
    from knowloom.operations.backups import Holder
    from knowloom.operations.purging import Purged

    holders = tuple(Holder(entry["path"], entry["reason"]) for entry in row["backups"])
    lists = (tuple(row["ids"]), tuple(row["missing"]), tuple(row["records"]))
    return Purged(*lists, holders, tuple(row["problems"]))


def audit_to_json(entries: Sequence[AuditEntry]) -> JsonObject:
    return {"entries": [_entry_to_json(entry) for entry in entries]}


def audit_from_json(row: JsonObject) -> list[AuditEntry]:
    return [_entry_from_json(entry) for entry in row["entries"]]


def _entry_to_json(entry: AuditEntry) -> JsonObject:
    row: JsonObject = {
        "number": entry.number,
        "at": codec.time_to_text(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "space": entry.space,
        "id": entry.id,
    }
    if entry.link is not None:
        _, (space, target), type = entry.link
        row["target"] = {"space": space, "id": target, "type": type}
    return row


def _entry_from_json(row: JsonObject) -> AuditEntry:
    names = ("actor", "action", "space", "id")
    actor, action, space, id = (row[name] for name in names)
    link: EdgeKey | None = None
    if "target" in row:
        target = row["target"]
        link = ((space, id), (target["space"], target["id"]), target["type"])
    at = codec.text_to_time(row["at"])
    return AuditEntry(row["number"], at, actor, action, space, id, link)
