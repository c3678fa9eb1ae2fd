"""The folder of a file store: JSON files of items and edges, a change log, and a journal.

A write is first stored in the journal, then done file by file, then the journal is deleted. A
process that opens a folder with a journal completes it: a write is committed once its journal is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt, Unavailable
from knowloom.files import lock_file, safe_name, sync_folder, translate_errors, write_atomic
from knowloom.model import Key

FORMAT = 2
MARKER, LOCK, JOURNAL, LOG = "knowloom.json", "knowloom.lock", "journal.json", "log.jsonl"
LEGACY_MARKER = "weft.json"  # of pre-release versions, with another format


class Folder:
    """The files. Use it inside `reading` or `writing`, which lock out other processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with translate_errors(str(path)):
            if (path / LEGACY_MARKER).exists():
                raise self._pre_release()
            path.mkdir(parents=True, exist_ok=True)
            with lock_file(path / LOCK):
                self._prepare()

    def _prepare(self) -> None:
        marker = self.path / MARKER
        if not marker.exists():
            if any(file.name not in (LOCK, f"{MARKER}.partial") for file in self.path.iterdir()):
                raise Corrupt(
                    f"the folder {str(self.path)!r} has files of another program: "
                    "name a new or an empty folder",
                    "foreign_file",
                )
            write_atomic(marker, codec.to_json({"format": FORMAT}).encode())
        version = self.read_json(marker).get("format")
        if type(version) is not int:
            raise Corrupt(f"{str(marker)!r} has no integer as format: restore it from a backup")
        if version > FORMAT:
            raise Unavailable(
                f"{str(self.path)!r} was written by a newer knowloom (format {version}, "
                f"this one supports {FORMAT}): upgrade knowloom",
                "newer_version",
            )
        if version < FORMAT:
            raise self._pre_release()
        self._replay_journal()

    def _pre_release(self) -> Corrupt:
        return Corrupt(
            f"{str(self.path)!r} was written by a pre-release version with another file format; "
            "export it with that version and load it again",
            "foreign_file",
        )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Share the folder with other readers, after completing the write of a killed process."""
        while True:
            with lock_file(self.path / LOCK, shared=True):
                if not (self.path / JOURNAL).exists():
                    yield
                    return
            with lock_file(self.path / LOCK):
                self._replay_journal()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with lock_file(self.path / LOCK):
            self._replay_journal()
            yield

    # reading

    def item_file(self, key: Key) -> str:
        return f"items/{safe_name('s', key[0])}/{safe_name('i', key[1])}.json"

    def edges_file(self, key: Key) -> str:
        return f"edges/{safe_name('s', key[0])}/{safe_name('i', key[1])}.json"

    def files(self, kind: str) -> list[str]:
        """Return the names of all files of "items" or "edges"."""
        files = (self.path / kind).glob("*/*.json")
        return sorted(str(file.relative_to(self.path).as_posix()) for file in files)

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def read_row(self, name: str) -> dict[str, Any]:
        return self.read_json(self.path / name)

    def read_json(self, file: Path) -> dict[str, Any]:
        try:
            row = json.loads(file.read_bytes())
            if not isinstance(row, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            raise Corrupt(
                f"{str(file)!r} is not the JSON that knowloom wrote ({error}): "
                "repair it or restore it from a backup; nothing was changed"
            ) from error
        return row

    def log_size(self) -> int:
        file = self.path / LOG
        return file.stat().st_size if file.exists() else 0

    def read_log(self, offset: int) -> list[dict[str, Any]]:
        """Return the lines of the log from this byte offset on."""
        if self.log_size() <= offset:
            return []
        with (self.path / LOG).open("rb") as file:
            file.seek(offset)
            lines = file.read().split(b"\n")[:-1]
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise Corrupt(
                f"{str(self.path / LOG)!r} has a line that is not JSON ({error}): "
                "restore it from a backup; nothing was changed"
            ) from error

    # writing

    def erase_log(self, numbers: Container[int]) -> None:
        """Erase what was before these changes; spaces fill the lines up.

        The offsets of the other lines, which processes remember, stay the same.
        """
        lines: list[bytes] = []
        for line in (self.path / LOG).read_bytes().split(b"\n")[:-1]:
            row = json.loads(line)
            if row["number"] in numbers:
                row |= {"before": None, "erased": True}
                line = codec.to_json(row).encode().ljust(len(line))
            lines.append(line + b"\n")
        write_atomic(self.path / LOG, b"".join(lines))

    def commit(self, files: Mapping[str, Mapping[str, Any] | None], log: str) -> None:
        """Write the files (None: delete) and append to the log, all or nothing."""
        row = {"files": files, "log": log, "offset": self.log_size()}
        write_atomic(self.path / JOURNAL, json.dumps(row, allow_nan=False).encode())
        self._replay_journal()

    def _replay_journal(self) -> None:
        """Complete the write in the journal, if there is one; replaying twice is harmless."""
        journal = self.path / JOURNAL
        if not journal.exists():
            return
        row = self.read_json(journal)
        for name, content in row["files"].items():
            _write_file(self.path / name, content)
        log = self.path / LOG
        with log.open("r+b" if log.exists() else "w+b") as file:
            file.truncate(row["offset"])
            file.seek(row["offset"])
            file.write(row["log"].encode())
            file.flush()
            os.fsync(file.fileno())
        journal.unlink()
        sync_folder(self.path)


def _write_file(file: Path, content: Mapping[str, Any] | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
        return
    if not file.parent.is_dir():
        file.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(file.parent.parent)
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(file, text.encode())
