"""PDF through PDFium: text with page numbers, headings of the outline, and columns of tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pypdfium2 as pdfium

from knowloom.errors import Invalid
from knowloom.loading.parsed_documents import DocumentBuilder, ParsedDocument

MAX_PAGES = 5_000
MAX_OUTLINE = 2_000
COLUMN_GAP = 1.6  # heights of a line between two columns of a table
PARAGRAPH_GAP = 1.7  # heights of a line between two paragraphs
MARGIN_LINES = 1  # lines at the top and the bottom that may be running titles
_HYPHEN = re.compile("[\\x02\\ufffe\\xad](?:\r?\n)?")  # PDFium joins some lines itself
_NUMBER = re.compile(r"\d+")


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return the text of a file with its pages; running titles and page numbers are left out."""
    document = _open(raw)
    try:
        count = len(document)
        if count > MAX_PAGES:
            raise Invalid(f"must have <= {MAX_PAGES:,} pages, got {count:,}: split the file")
        pages = [list(_read_page(document, number)) for number in range(count)]
        outline = list(_read_outline(document))
        metadata = document.get_metadata_dict()
    except pdfium.PdfiumError as error:
        raise Invalid(f"broken PDF: {error}") from None
    finally:
        document.close()
    if not any(any(lines) for lines in pages):
        raise Invalid(f"has no text in its {count:,} pages: scanned pages need OCR first")
    builder = DocumentBuilder("page")
    for number, lines in enumerate(_drop_running_titles(pages), 1):
        _add_page(builder, number, lines, [entry for entry in outline if entry[1] == number])
    fields = {name.lower(): metadata[name] for name in ("Author", "Keywords") if metadata.get(name)}
    return builder.build((metadata.get("Title") or "").strip(), fields)


def _open(raw: bytes) -> Any:
    if b"%PDF-" not in raw[:1_024]:
        raise Invalid("not PDF: it does not begin with %PDF-")
    try:
        return pdfium.PdfDocument(raw)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise Invalid("encrypted: save it without a password") from None
        raise Invalid(f"truncated or broken PDF: {error}") from None


def _read_outline(document: Any) -> Iterator[tuple[str, int, int]]:
    """Yield the title, page and level of the bookmarks."""
    for number, entry in enumerate(document.get_toc(max_depth=6)):
        if number == MAX_OUTLINE:
            return
        target = entry.get_dest()
        index = target.get_index() if target is not None else None
        title = " ".join((entry.get_title() or "").split())
        if index is not None and title:
            yield title, index + 1, entry.level + 1


def _read_page(document: Any, number: int) -> Iterator[str]:
    """Yield the lines of a page; paragraphs are separated by an empty one."""
    page = document[number]
    text_page = page.get_textpage()
    try:
        text = text_page.get_text_range()
        boxes = _Boxes(text_page, text)
        bottom = 0.0
        start = 0
        for line in text.split("\n"):
            box = boxes.line(start, line)
            if box is not None:
                top, height = box
                if bottom and abs(bottom - top) > (PARAGRAPH_GAP - 1) * height:
                    yield ""
                bottom = top - height
                yield boxes.split_columns(start, line, height)
            start += len(line) + 1
    finally:
        text_page.close()
        page.close()


class _Boxes:
    """The boxes of the characters of a page."""

    def __init__(self, text_page: Any, text: str) -> None:
        self._page = text_page
        # Characters beyond the first plane count twice in PDFium: their places are unknown then.
        self._is_reliable = max(text, default="") <= "\uffff"

    def line(self, start: int, line: str) -> tuple[float, float] | None:
        """Return the top and the height of a line, None if it is blank."""
        offset = len(line) - len(line.lstrip())
        if offset == len(line):
            return None
        if not self._is_reliable:
            return (0.0, 0.0)
        try:
            boxes = [
                self._page.get_charbox(start + i, loose=True)
                for i in range(offset, min(offset + 3, len(line.rstrip())))
            ]
        except pdfium.PdfiumError:
            return (0.0, 0.0)
        top = max(box[3] for box in boxes)
        return (top, max(1.0, top - min(box[1] for box in boxes)))

    def split_columns(self, start: int, line: str, height: float) -> str:
        """Return the line with ` | ` where a space is as wide as between columns."""
        text = line.rstrip()
        if not height or not self._is_reliable or " " not in text.strip():
            return text.strip()
        parts, begin = [], 0
        for match in re.finditer(r"\s+", text):
            if match.start() == 0 or match.end() == len(text):
                continue
            try:
                left = self._page.get_charbox(start + match.start() - 1)
                right = self._page.get_charbox(start + match.end())
            except pdfium.PdfiumError:
                continue
            if right[0] - left[2] > COLUMN_GAP * height:
                parts.append(text[begin : match.start()].strip())
                begin = match.end()
        return " | ".join([*parts, text[begin:].strip()]) if parts else text.strip()


def _drop_running_titles(pages: Sequence[list[str]]) -> Iterator[list[str]]:
    """Yield the pages without first and last lines that most pages have, but for a number."""

    def margins(lines: Sequence[str]) -> list[int]:
        visible = [index for index, line in enumerate(lines) if line]
        return [*visible[:MARGIN_LINES], *visible[MARGIN_LINES:][-MARGIN_LINES:]]

    keys = [{_NUMBER.sub("#", lines[index]) for index in margins(lines)} for lines in pages]
    counts = Counter(key for page in keys for key in page)
    limit = max(3, len(pages) // 2)
    for lines in pages:
        running = {
            index for index in margins(lines) if counts[_NUMBER.sub("#", lines[index])] >= limit
        }
        yield [line for index, line in enumerate(lines) if index not in running]


def _add_page(
    builder: DocumentBuilder,
    number: int,
    lines: Sequence[str],
    outline: Sequence[tuple[str, int, int]],
) -> None:
    """Add the text of a page, with the titles of the outline above the lines that repeat them."""
    waiting = list(outline)
    block: list[str] = []

    def flush() -> None:
        text = _HYPHEN.sub("", "\n".join(block)).strip("\n")
        if text:
            builder.add_block(text, number)
        block.clear()

    titles = {_letters(title) for title, _, _ in waiting}
    if not titles & {_letters(line) for line in lines}:
        for title, _, level in waiting:
            builder.add_heading(level, title, number)
        waiting = []
    for line in lines:
        if waiting and _letters(line) in {_letters(title) for title, _, _ in waiting}:
            flush()
            while waiting:
                title, _, level = waiting.pop(0)
                builder.add_heading(level, title, number)
                if _letters(title) == _letters(line):
                    break
        elif not line:
            flush()
        else:
            block.append(line)
    flush()
    for title, _, level in waiting:
        builder.add_heading(level, title, number)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
