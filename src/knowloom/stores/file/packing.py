"""The folder of a file store as one archive, for the backup of the knowledge that it belongs to."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from knowloom.errors import Conflict, Corrupt, Invalid
from knowloom.files import sync_folder, translate_errors
from knowloom.model import Key
from knowloom.stores.file.folder import LOG, MARKER, Folder

_MAGIC = b"PK"
_NAME = re.compile(rf"(items|edges)/[^/\\]+/[^/\\.][^/\\]*\.json|{MARKER}|{re.escape(LOG)}")
_TIME = (1980, 1, 1, 0, 0, 0)  # of all files: the same state gives the same bytes

FindProblems = Callable[[Path], Sequence[str]]


def pack_folder(folder: Folder) -> bytes:
    """Return the files of a folder as an archive; the caller locks the folder."""
    buffer = io.BytesIO()
    names = [MARKER, *(LOG,) * folder.exists(LOG), *folder.files("items"), *folder.files("edges")]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, _TIME), (folder.path / name).read_bytes())
    return buffer.getvalue()


@contextmanager
def unpack_folder(
    data: bytes, path: str, overwrite: bool, find_problems: FindProblems
) -> Iterator[None]:
    """Replace a folder at the end of the block; raise before it if that is impossible."""
    target = Path(path)
    if not data.startswith(_MAGIC):
        raise Invalid(
            f"the backup has profiles of an SQLite file, got the folder {path!r}: name a file, "
            "such as profiles.db",
            "unsupported",
        )
    _check_target(target, overwrite)
    with translate_errors(path):
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".restoring-", dir=target.absolute().parent) as scratch:
            restored = Path(scratch, "new")
            _extract(data, restored)
            if problems := find_problems(restored):
                raise Corrupt(f"the profiles of the backup are damaged: {problems[0]}")
            yield
            if target.exists():
                target.replace(Path(scratch, "old"))
            restored.replace(target)
            sync_folder(target.absolute().parent)


def _check_target(target: Path, overwrite: bool) -> None:
    has_files = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if has_files and not overwrite:
        raise Conflict(f"{str(target)!r} exists: pass overwrite to replace it", "exists")
    if has_files and not (target / MARKER).is_file():
        raise Corrupt(f"{str(target)!r} is not a folder of knowloom: name another", "foreign_file")


def _extract(data: bytes, folder: Path) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if not _NAME.fullmatch(name):
                    raise Corrupt(f"the profiles of the backup have a file {name!r}")
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, path.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except (zipfile.BadZipFile, OSError) as error:
        raise Corrupt(f"the profiles of the backup cannot be read: {error}") from error


def has_packed_state(data: bytes, keys: Sequence[Key]) -> bool:
    """Return True if an archive has one of the items, or an earlier state of it."""
    requested = set(keys)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if LOG not in archive.namelist():
            return False
        rows = [json.loads(line) for line in archive.read(LOG).splitlines()]
    last = {(row["space"], row["id"]): row for row in rows if "target" not in row}
    is_stored = any(last[key]["action"] in ("add", "update") for key in requested & last.keys())
    return is_stored or any(
        row.get("before") is not None and (row["space"], row["id"]) in requested for row in rows
    )
