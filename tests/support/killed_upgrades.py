"""Upgrades of old SQLite files that are killed at a chosen write."""

from __future__ import annotations

import gzip
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from knowloom.stores.sqlite.store import SqliteStore

OLD_FILES = Path(__file__).parent.parent / "stores" / "sqlite" / "old_files"
SCHEMAS = (1, 2, 3, 4, 5)
EVENTS = ("os.rename", "os.remove", "os.truncate")  # outside of SQLite


def unpack(schema: int, folder: Path) -> Path:
    """Write the old file of a schema to a folder."""
    path = folder / "old.db"
    path.write_bytes(gzip.decompress((OLD_FILES / f"schema-{schema}.db.gz").read_bytes()))
    return path


def count_writes(path: Path) -> int:
    """Upgrade a file in another process and return the number of its writes."""
    read, write = os.pipe()

    def upgrade() -> None:
        steps = _Steps(None)
        steps.install()
        SqliteStore.open(str(path)).close()
        os.write(write, str(steps.number).encode())

    assert _run(upgrade) == 0
    os.close(write)
    with os.fdopen(read) as pipe:
        return int(pipe.read())


def kill_at(path: Path, number: int) -> bool:
    """Upgrade a file in another process, which is killed at its n-th write; True if it was."""

    def upgrade() -> None:
        _Steps(number).install()
        SqliteStore.open(str(path)).close()

    return _run(upgrade) == -signal.SIGKILL


def _run(work: Callable[[], None]) -> int:
    """Run a function in a fork of this process; return its exit status."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(f"upgrade failed: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Steps:
    """Counts writes, and kills this process at one of them, half of it done."""

    def __init__(self, last: int | None) -> None:
        self.number, self._last = 0, last

    def install(self) -> None:
        steps = self

        class File(apsw.VFSFile):
            def xWrite(self, data: Any, offset: int) -> None:
                steps.count(lambda: super(File, self).xWrite(bytes(data[: len(data) // 2]), offset))
                super().xWrite(data, offset)

            def xSync(self, flags: int) -> None:
                steps.count()
                super().xSync(flags)

            def xTruncate(self, size: int) -> None:
                steps.count()
                super().xTruncate(size)

        class System(apsw.VFS):
            def __init__(self) -> None:
                super().__init__("counting", "unix", makedefault=True)

            def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
                return File("unix", name, flags)

        self._system = System()
        sys.addaudithook(lambda event, _: steps.count() if event in EVENTS else None)

    def count(self, tear: Callable[[], None] = lambda: None) -> None:
        self.number += 1
        if self.number == self._last:
            if self.number % 2:
                tear()
            os.kill(os.getpid(), signal.SIGKILL)
