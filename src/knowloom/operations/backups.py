"""Backups: their names, rotation and recorded places; restoring is up to the kind of store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from knowloom.errors import Invalid, Unavailable
from knowloom.files import KEYS_SUFFIX, read_bytes, sync_folder, translate_errors
from knowloom.model import Key
from knowloom.ports import BackupHeader, Upkeep
from knowloom.validation import validate_int

SUFFIX = ".backup"
FOLDER_SUFFIX = ".backups"  # of the default folder, beside the knowledge


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete, verified backup. `removed` are older ones that were rotated away."""

    path: str
    at: datetime
    size: int  # bytes
    has_keys: bool = False
    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """The file that was restored, the time of its backup, and the file of the API keys, if any.

    `problems` are layers that could not be written anew; until they are, the items answer.
    """

    path: str
    at: datetime
    keys: str = ""
    metadata: str = ""  # the store of the profiles, if they have one of their own
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedBackup:
    """A backup that was written earlier; `exists` is False if its file is gone."""

    path: str
    at: datetime
    exists: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """A backup with a purged item; with a reason if it could not be read."""

    path: str
    reason: str = ""


def write_backup(
    upkeep: Upkeep,
    now: datetime,
    to: str | Path | None,
    keep: int | None,
    keys: str | Path | None,
) -> Backup:
    """Write a verified backup to a file or into a folder, and rotate those in the folder."""
    source = upkeep.location().absolute()
    if keep is not None:
        validate_int("keep", keep, 1)
    header = BackupHeader(now, source.name, 0, _read_keys(source, keys))
    target, is_named = _resolve_target(source, to, now)
    if is_named and keep is not None:
        raise Invalid(f"keep needs a folder of backups, got the file {str(target)!r}")
    upkeep.copy_to(target, header)
    removed = [] if keep is None else _rotate(upkeep, source, target.parent, keep)
    problems = _record(upkeep, {str(target): now}, removed)
    size = target.stat().st_size
    return Backup(str(target), now, size, "keys" in header.files, tuple(removed), problems)


def _resolve_target(source: Path, to: str | Path | None, now: datetime) -> tuple[Path, bool]:
    """Return the absolute path of the new backup, and True if the caller chose its name."""
    name = f"{source.name}.{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}{SUFFIX}"
    if to is None:
        folder = source.with_name(f"{source.name}{FOLDER_SUFFIX}")
    else:
        is_folder = str(to).endswith(("/", os.sep)) or Path(to).is_dir()
        if not is_folder:
            return _check_file(Path(to).absolute()), True
        folder = Path(to).absolute()
    with translate_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / name, False


def _check_file(path: Path) -> Path:
    if path.exists():
        raise Invalid(f"{str(path)!r} exists: name a new file or a folder", "exists")
    if not path.parent.is_dir():
        raise Invalid(f"the folder of {str(path)!r} does not exist", "no_folder")
    return path


def _read_keys(source: Path, keys: str | Path | None) -> dict[str, bytes]:
    """Return the file of the API keys: the named one, or the one beside the knowledge."""
    path = source.with_name(f"{source.name}{KEYS_SUFFIX}") if keys is None else Path(keys)
    if keys is None and not path.exists():
        return {}
    return {"keys": read_bytes(path)}


def _rotate(upkeep: Upkeep, source: Path, folder: Path, keep: int) -> list[str]:
    """Delete all but the newest backups of a folder that this store has recorded."""
    recorded = upkeep.backups()
    candidates = [path for path in list_backups(source, folder) if str(path) in recorded]
    removed = candidates[: max(0, len(candidates) - keep + 1)]  # the new one is not recorded yet
    with translate_errors(str(folder)):
        for path in removed:
            path.unlink()
    return [str(path) for path in removed]


def list_backups(source: Path, folder: Path) -> list[Path]:
    """Return the files of a folder that are named like backups of this store, oldest first."""
    pattern = re.compile(rf"{re.escape(source.name)}\.\d{{8}}T\d{{12}}Z{re.escape(SUFFIX)}")
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def _record(upkeep: Upkeep, added: dict[str, datetime], removed: Sequence[str]) -> tuple[str, ...]:
    """Record the backups; a file that cannot be written has its backup all the same."""
    try:
        upkeep.update_backups(added, removed)
    except Unavailable as error:
        if error.code != "read_only":
            raise
        return (f"the backup is complete but not recorded: {error}",)
    return ()


def find_holders(upkeep: Upkeep, keys: Sequence[Key]) -> tuple[Holder, ...]:
    """Return the backups that still have one of the items, or cannot be read."""
    recorded = [Path(path) for path in upkeep.backups()]
    paths = {str(path) for path in recorded}
    if recorded:
        source = upkeep.location().absolute()
        for folder in {path.parent for path in recorded}:
            paths.update(map(str, list_backups(source, folder)))
    reasons = upkeep.find_backups_with(keys, sorted(paths))
    return tuple(Holder(path, reason) for path, reason in sorted(reasons.items()))


def write_keys(path: Path, data: bytes) -> None:
    """Replace the file of the API keys; only its owner can read it."""
    partial = path.with_name(f".{path.name}.partial")
    with translate_errors(str(path)):
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
