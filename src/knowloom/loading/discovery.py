"""Files on disk: which ones a folder holds, and the text of one. What cannot be used is reported with its place."""

from __future__ import annotations

import os
import stat
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowloom.errors import Invalid
from knowloom.report import Skipped

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (BOM_UTF32_LE, "utf-32"),
    (BOM_UTF32_BE, "utf-32"),
    (BOM_UTF8, "utf-8-sig"),
    (BOM_UTF16_LE, "utf-16"),
    (BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class File:
    """A file to read, and its path in the folder it was found in, with slashes."""

    path: Path
    name: str


def listed(folder: Path, suffixes: Collection[str]) -> list[File | Skipped]:
    """The files of a folder and of those in it that end in one of the suffixes, by name; hidden ones are left out. What is none of
    them is counted in one report."""
    found: list[File | Skipped] = []
    others: Counter[str] = Counter()
    for one in _walked(folder, "", {_identity(folder)}):
        if isinstance(one, Skipped) or one.path.suffix.lower() in suffixes:
            found.append(one)
        else:
            others[one.path.suffix.lower() or "no suffix"] += 1
    if others:
        kinds = ", ".join(f"{suffix} ({count})" for suffix, count in sorted(others.items()))
        found.append(
            Skipped(
                str(folder),
                f"{others.total()} other files",
                f"not of a kind that can be loaded: {kinds}; known: {', '.join(suffixes)}",
            )
        )
    return found


def _walked(folder: Path, below: str, seen: set[tuple[int, int]]) -> Iterator[File | Skipped]:
    """Depth first, by name. A folder is read once, however many links lead to it."""
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
            yield File(path, below + name)
        elif (identity := _identity(path)) in seen:
            yield Skipped(str(path), "a link", "leads to a folder that is read already")
        else:
            seen.add(identity)
            yield from _walked(path, f"{below}{name}/", seen)


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return (found.st_dev, found.st_ino)


def regular(path: Path) -> os.stat_result:
    """What is known of a file. A pipe or a device is refused: reading it might never end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise Invalid("not a regular file")
    return found


def content(path: Path, most: int | None = None) -> bytes:
    found = regular(path)
    if most is not None and found.st_size > most:
        raise Invalid(f"{found.st_size:,} bytes; the most is {most:,}: split it")
    return path.read_bytes()


def marked(raw: bytes) -> str:
    """The encoding that a mark at the start names; "" without one."""
    return next((encoding for mark, encoding in _MARKS if raw.startswith(mark)), "")


def decoded(raw: bytes) -> str:
    """The text, as its byte order mark says, else as UTF-8."""
    encoding = marked(raw)
    if not encoding and (zero := raw.find(0)) >= 0:
        raise Invalid(f"binary: byte {zero} is 0")
    try:
        return raw.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        wanted = "UTF-8" if encoding in ("", "utf-8-sig") else encoding.upper()
        raise Invalid(
            f"not {wanted}: byte {error.start} is 0x{raw[error.start]:02x} ({error.reason}); save it as UTF-8"
        ) from None
