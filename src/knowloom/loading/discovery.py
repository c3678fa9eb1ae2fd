"""Find the files of a folder, and read their bytes."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowloom.errors import Invalid
from knowloom.loading.decoding import detect_encoding
from knowloom.loading.sources.ignore_rules import IgnoreRules
from knowloom.report import Skipped

READ_ATTEMPTS = 3  # of a file that changes


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read, and its path relative to the loaded folder, with slashes."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The files of a folder by name, what cannot be read, and the number of ignored entries."""

    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...]
    ignored: int = 0  # files and folders that .gitignore excludes


def list_files(
    folder: Path, suffixes: Collection[str], follow_links: bool = False
) -> FolderListing:
    """Return the files below a folder that have one of the suffixes, without hidden ones.

    Files with other suffixes are counted in one `Skipped`. In a git repository, .gitignore holds.
    Links out of the folder are followed only on request.
    """
    walk = _FolderWalk(folder.resolve(), follow_links)
    files: list[SourceFile] = []
    others: Counter[str] = Counter()
    for file in walk.list_files(folder):
        if file.path.suffix.lower() in suffixes:
            files.append(file)
        else:
            others[file.path.suffix.lower() or "no suffix"] += 1
    skipped = sorted(walk.skipped, key=lambda skip: (skip.where, skip.why))
    if others:
        counts = ", ".join(f"{suffix} ({count})" for suffix, count in sorted(others.items()))
        reason = f"unsupported suffixes: {counts}; available: {', '.join(suffixes)}"
        skipped.append(Skipped(str(folder), f"{others.total()} other files", reason))
    return FolderListing(tuple(files), tuple(skipped), walk.ignored)


class _FolderWalk:
    """A walk through a folder. Each folder is read once, however many links lead to it."""

    def __init__(self, root: Path, follow_links: bool) -> None:
        self._root, self._follow_links = root, follow_links
        self._seen: set[tuple[int, int]] = set()
        self.skipped: list[Skipped] = []
        self.ignored = 0

    def list_files(self, folder: Path) -> Iterator[SourceFile]:
        """Yield the files depth first, by name."""
        rules = IgnoreRules.above(self._root)
        waiting: list[tuple[str, str, IgnoreRules | None]] = [(str(folder), "", rules)]
        while waiting:
            path, name, rules = waiting.pop()
            entries = self._read_folder(path) if not name or name.endswith("/") else None
            if entries is None:
                yield SourceFile(Path(path), name)
                continue
            place = self._root / name
            rules = rules.enter(place) if rules is not None else None
            for entry in entries:
                is_folder = self._is_folder(entry, place / entry.name, rules)
                if is_folder is not None:
                    slash = "/" if is_folder else ""
                    waiting.append((entry.path, f"{name}{entry.name}{slash}", rules))

    def _read_folder(self, path: str) -> list[os.DirEntry[str]]:
        """Return the entries of a folder that are not hidden, in reverse order of their names."""
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in self._seen:
                self._skip(path, "a link", "leads to a folder that is read already")
                return []
            self._seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                visible = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            self._skip(path, "the whole folder", f"cannot be read: {error.strerror}")
            return []
        return sorted(visible, key=lambda entry: entry.name, reverse=True)

    def _is_folder(
        self, entry: os.DirEntry[str], place: Path, rules: IgnoreRules | None
    ) -> bool | None:
        """Return True for a folder, False for a file, None for an entry that is left out."""
        try:
            is_folder = entry.is_dir()
            if not is_folder:
                entry.stat()  # raises for a link to nothing
            is_outside = entry.is_symlink() and not self._is_inside(entry.path)
        except OSError as error:
            self._skip(entry.path, "the whole file", f"cannot be read: {error.strerror}")
            return None
        if rules is not None and rules.ignores(place, is_folder):
            self.ignored += 1
            return None
        if is_outside and not self._follow_links:
            reason = "leads out of the folder; follow_links=True reads it"
            self._skip(entry.path, "a link", reason)
            return None
        return is_folder

    def _is_inside(self, path: str) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self._root)

    def _skip(self, path: str, what: str, why: str) -> None:
        self.skipped.append(Skipped(path, what, why))


def stat_regular_file(path: Path) -> os.stat_result:
    """Return the status of a file; reject pipes and devices, whose reading might never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise Invalid("not a regular file")
    return status


def read_regular_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the bytes of a regular file; reject one that is larger than `max_bytes`.

    A file that is written at the same time is read again.
    """
    for _ in range(READ_ATTEMPTS):
        stat_regular_file(path)
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            if max_bytes is not None and before.st_size > max_bytes:
                size = f"{before.st_size:,}"
                raise Invalid(f"must have <= {max_bytes:,} bytes, got {size}: split the file")
            raw = file.read() if max_bytes is None else file.read(max_bytes + 1)
            after = os.fstat(file.fileno())
        if len(raw) == before.st_size and before.st_mtime_ns == after.st_mtime_ns:
            return raw
    raise Invalid("changes while it is read: load it again when it is written")


def starts_with_object(path: Path) -> bool:
    """Return True if a file begins like rows of JSON, whatever its suffix."""
    stat_regular_file(path)
    with path.open("rb") as file:
        start = file.read(1_000)
    encoding = detect_encoding(start)
    text = start.decode(encoding or "utf-8", errors="ignore")
    return text.lstrip()[:1] == "{"
