"""The contract of parsers of documents."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from knowloom.errors import Invalid
from knowloom.loading.parsed_documents import (
    ParsedDocument,
    Parser,
    document_from_json,
    document_to_json,
)
from knowloom.loading.sections import build_rows


class DocumentParserContract:
    """The promises of `Parser`: override the fixtures `parser` and `sample`.

    The same bytes give the same document. Headings, links and places are lines of its text, in
    order. Bytes that cannot be read raise Invalid and nothing else.
    """

    @pytest.fixture
    def parser(self) -> Parser:
        raise NotImplementedError("override the fixture `parser`")

    @pytest.fixture
    def sample(self) -> tuple[str, bytes]:
        """The name and the bytes of a file with text below at least one heading."""
        raise NotImplementedError("override the fixture `sample`")

    @pytest.fixture
    def document(self, parser: Parser, sample: tuple[str, bytes]) -> ParsedDocument:
        return parser(sample[1], sample[0])

    def test_the_same_bytes_give_the_same_document(
        self, parser: Parser, sample: tuple[str, bytes], document: ParsedDocument
    ) -> None:
        assert parser(sample[1], sample[0]) == document

    def test_a_document_survives_the_way_to_another_process(self, document: ParsedDocument) -> None:
        row = json.loads(json.dumps(document_to_json(document)))
        assert document_from_json(row) == document

    def test_headings_are_lines_of_the_text_in_order(self, document: ParsedDocument) -> None:
        lines = document.text.split("\n")
        assert document.headings
        for heading in document.headings:
            assert heading.level >= 1
            assert heading.title == " ".join(heading.title.split()) != ""
            assert 0 <= heading.start < heading.body <= len(lines)
        for first, second in pairwise(document.headings):
            assert first.body <= second.start

    def test_links_and_places_are_lines_of_the_text(self, document: ParsedDocument) -> None:
        count = document.text.count("\n") + 1
        assert all(0 <= link.line < count and link.target for link in document.links)
        assert all(0 <= line < count and place >= 1 for line, place in document.places)
        for first, second in pairwise(document.places):
            assert first[0] < second[0]

    def test_items_have_titles_sources_and_text(
        self, sample: tuple[str, bytes], document: ParsedDocument
    ) -> None:
        items = [row for _, row in self._rows(sample[0], document) if "target" not in row]
        assert items
        assert len({item["id"] for item in items}) == len(items)
        for item in items:
            assert item["title"].strip()
            assert item["source"] == sample[0]
            lines = [line for line in item["text"].split("\n") if line.strip()]
            assert any(not line.startswith("#") for line in lines)

    def _rows(self, name: str, document: ParsedDocument) -> list[tuple[int, dict[str, Any]]]:
        return list(build_rows(document, name, name).rows)

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
    def test_truncated_files_are_read_or_refused(
        self, parser: Parser, sample: tuple[str, bytes], share: float
    ) -> None:
        self._parse(parser, sample[1][: int(share * len(sample[1]))], sample[0])

    @pytest.mark.parametrize(
        "raw", [b"\0" * 100, bytes(range(256)), b"\xff\xfe\xfd", b"PK\x03\x04" + b"x" * 50]
    )
    def test_other_bytes_are_read_or_refused(
        self, parser: Parser, sample: tuple[str, bytes], raw: bytes
    ) -> None:
        self._parse(parser, raw, sample[0])

    def _parse(self, parser: Parser, raw: bytes, name: str) -> None:
        try:
            document = parser(raw, name)
        except Invalid as error:
            assert str(error)
        else:
            assert isinstance(document.text, str)
