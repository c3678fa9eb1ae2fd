"""The folder of a file store: one JSON file per item, one per item with links, a log of changes, and a journal.

A write is first put down in the journal as a whole, then done file by file, then the journal is taken away. A process that finds a journal
does the rest: a write has happened from the moment its journal is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt, Unavailable
from knowloom.files import lock_file, safe_name, sync_folder, translate_errors, write_atomic
from knowloom.model import Key

FORMAT = 1
MARK, LOCK, JOURNAL, LOG = "knowloom.json", "knowloom.lock", "journal.json", "log.jsonl"


class Folder:
    """The files. Reads and writes belong inside `reading` or `writing`, which keep other processes away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with translate_errors(str(path)):
            path.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self._prepare()

    def _prepare(self) -> None:
        mark = self.path / MARK
        if not mark.exists():
            if any(one.name not in (LOCK, f"{MARK}.partial") for one in self.path.iterdir()):
                raise Corrupt(
                    f"the folder {str(self.path)!r} holds files of something else: name an empty or a new one",
                    "foreign_file",
                )
            write_atomic(mark, codec.to_json({"format": FORMAT}).encode())
        found = self.parsed(mark).get("format")
        if type(found) is not int:
            raise Corrupt(
                f"{str(mark)!r} does not say which format the folder has: restore it from a backup"
            )
        if found > FORMAT:
            raise Unavailable(
                f"{str(self.path)!r} was written by a newer knowloom (format {found}, this one knows {FORMAT}): upgrade knowloom",
                "newer_version",
            )
        self._finish()

    @contextmanager
    def _alone(self, shared: bool = False) -> Iterator[None]:
        with lock_file(self.path / LOCK, shared=shared):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Beside other readers; what a killed writer left is finished first."""
        while True:
            with self._alone(shared=True):
                if not (self.path / JOURNAL).exists():
                    yield
                    return
            with self._alone():
                self._finish()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._alone():
            self._finish()
            yield

    # files

    def item_file(self, key: Key) -> str:
        return f"items/{safe_name('s', key[0])}/{safe_name('i', key[1])}.json"

    def edges_file(self, key: Key) -> str:
        return f"edges/{safe_name('s', key[0])}/{safe_name('i', key[1])}.json"

    def files(self, kind: str) -> list[str]:
        """The names of all files of items or edges."""
        return sorted(
            str(file.relative_to(self.path).as_posix())
            for file in (self.path / kind).glob("*/*.json")
        )

    def row(self, name: str) -> dict[str, Any]:
        return self.parsed(self.path / name)

    def parsed(self, file: Path) -> dict[str, Any]:
        try:
            row = json.loads(file.read_bytes())
            if not isinstance(row, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            raise Corrupt(
                f"{str(file)!r} is not the JSON that knowloom wrote ({error}): repair it or restore it from a backup; nothing was changed"
            ) from error
        return row

    def log_size(self) -> int:
        file = self.path / LOG
        return file.stat().st_size if file.exists() else 0

    def log_rows(self, offset: int) -> list[dict[str, Any]]:
        """The lines of the log from this byte on."""
        if self.log_size() <= offset:
            return []
        with (self.path / LOG).open("rb") as file:
            file.seek(offset)
            lines = file.read().split(b"\n")[:-1]
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise Corrupt(
                f"{str(self.path / LOG)!r} has a line that is not JSON ({error}): restore it from a backup; nothing was changed"
            ) from error

    # writing

    def commit(self, files: Mapping[str, Mapping[str, Any] | None], log: str) -> None:
        """All of these files (None: removed) and the lines of the log, or nothing."""
        row = {"files": files, "log": log, "offset": self.log_size()}
        write_atomic(self.path / JOURNAL, json.dumps(row, allow_nan=False).encode())
        self._finish()

    def _finish(self) -> None:
        """Do what the journal says, if there is one; doing it twice does no harm."""
        journal = self.path / JOURNAL
        if not journal.exists():
            return
        row = self.parsed(journal)
        for name, content in row["files"].items():
            self._put(self.path / name, content)
        with (self.path / LOG).open("r+b" if (self.path / LOG).exists() else "w+b") as file:
            file.truncate(row["offset"])
            file.seek(row["offset"])
            file.write(row["log"].encode())
            file.flush()
            os.fsync(file.fileno())
        journal.unlink()
        sync_folder(self.path)

    def _put(self, file: Path, content: Mapping[str, Any] | None) -> None:
        if content is None:
            file.unlink(missing_ok=True)
            return
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(file.parent.parent)
        write_atomic(
            file, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode()
        )
