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
from knowloom.report import Skipped


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read, and its path relative to the loaded folder, with slashes."""

    path: Path
    name: str


def list_files(folder: Path, suffixes: Collection[str]) -> list[SourceFile | Skipped]:
    """Return the files below a folder that have one of the suffixes, by name, without hidden ones.

    Files with other suffixes are counted in one `Skipped`.
    """
    files: list[SourceFile | Skipped] = []
    others: Counter[str] = Counter()
    for file in _walk_folder(folder, "", {_inode(folder)}):
        if isinstance(file, Skipped) or file.path.suffix.lower() in suffixes:
            files.append(file)
        else:
            others[file.path.suffix.lower() or "no suffix"] += 1
    if others:
        counts = ", ".join(f"{suffix} ({count})" for suffix, count in sorted(others.items()))
        reason = f"unsupported suffixes: {counts}; available: {', '.join(suffixes)}"
        files.append(Skipped(str(folder), f"{others.total()} other files", reason))
    return files


def _walk_folder(
    folder: Path, prefix: str, seen: set[tuple[int, int]]
) -> Iterator[SourceFile | Skipped]:
    """Yield files depth first, by name. A folder is read once, however many links lead to it."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        yield Skipped(str(folder), "the whole folder", f"cannot be read: {error.strerror}")
        return
    for name in names:
        path = folder / name
        try:
            mode = path.stat().st_mode
        except OSError as error:
            yield Skipped(str(path), "the whole file", f"cannot be read: {error.strerror}")
            continue
        if not stat.S_ISDIR(mode):
            yield SourceFile(path, prefix + name)
        elif (inode := _inode(path)) in seen:
            yield Skipped(str(path), "a link", "leads to a folder that is read already")
        else:
            seen.add(inode)
            yield from _walk_folder(path, f"{prefix}{name}/", seen)


def _inode(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return (status.st_dev, status.st_ino)


def stat_regular_file(path: Path) -> os.stat_result:
    """Return the status of a file; reject pipes and devices, whose reading might never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise Invalid("not a regular file")
    return status


def read_regular_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the bytes of a regular file; reject one that is larger than `max_bytes`."""
    size = stat_regular_file(path).st_size
    if max_bytes is not None and size > max_bytes:
        raise Invalid(f"must have <= {max_bytes:,} bytes, got {size:,}: split the file")
    return path.read_bytes()


def starts_with_object(path: Path) -> bool:
    """Return True if a file begins like rows of JSON, whatever its suffix."""
    stat_regular_file(path)
    with path.open("rb") as file:
        start = file.read(1_000)
    encoding = detect_encoding(start)
    text = start.decode(encoding or "utf-8", errors="ignore")
    return text.lstrip()[:1] == "{"
