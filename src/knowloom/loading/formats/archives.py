"""Checks of the ZIP archives that office documents consist of."""

from __future__ import annotations

import io
import zipfile

from knowloom.errors import Invalid

MAX_UNPACKED = 500_000_000  # bytes
MAX_FILES = 20_000
_COMPOUND_FILE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def check_archive(raw: bytes) -> None:
    """Raise Invalid for an archive that is broken, encrypted or unpacks to far more than its size.

    Formats that are no archives, as the first two bytes say, pass.
    """
    if raw.startswith(_COMPOUND_FILE) and b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e" in raw:
        raise Invalid("encrypted: save it without a password")
    if not raw.startswith(b"PK"):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise Invalid(f"truncated or broken: {error}") from None
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > MAX_FILES:
        raise Invalid(f"must have <= {MAX_FILES:,} files inside, got {len(entries):,}")
    if unpacked > MAX_UNPACKED:
        raise Invalid(f"must unpack to <= {MAX_UNPACKED:,} bytes, got {unpacked:,}")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Invalid("encrypted: save it without a password")
