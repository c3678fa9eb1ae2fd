"""Decode the bytes of text files."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE

from knowloom.errors import Invalid

# UTF-32 first: its byte order mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (BOM_UTF32_LE, "utf-32"),
    (BOM_UTF32_BE, "utf-32"),
    (BOM_UTF8, "utf-8-sig"),
    (BOM_UTF16_LE, "utf-16"),
    (BOM_UTF16_BE, "utf-16"),
)


def detect_encoding(raw: bytes) -> str:
    """Return the encoding of the byte order mark, "" without one."""
    marks = (encoding for mark, encoding in _BYTE_ORDER_MARKS if raw.startswith(mark))
    return next(marks, "")


def decode_text(raw: bytes) -> str:
    """Decode as the byte order mark says, else as UTF-8."""
    encoding = detect_encoding(raw)
    if not encoding and (zero := raw.find(0)) >= 0:
        raise Invalid(f"binary: byte {zero} is 0")
    try:
        return raw.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        expected = "UTF-8" if encoding in ("", "utf-8-sig") else encoding.upper()
        place = f"byte {error.start} is 0x{raw[error.start]:02x} ({error.reason})"
        raise Invalid(f"not {expected}: {place}; save it as UTF-8") from None


def unify_line_breaks(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
