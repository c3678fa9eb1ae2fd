"""Texts are split into chunks at headings and paragraphs."""

from __future__ import annotations

from knowloom.structuring.chunking import split_chunks


class TestChunks:
    def test_a_short_text_is_one_chunk(self) -> None:
        assert split_chunks("# A\n\none\n\n# B\n\ntwo\n", 1000) == ["# A\n\none\n\n# B\n\ntwo"]

    def test_a_long_text_is_split_at_headings(self) -> None:
        text = "\n".join(f"# {name}\n\n{'word ' * 12}\n" for name in "ABC")
        assert [chunk[:3] for chunk in split_chunks(text, 100)] == ["# A", "# B", "# C"]

    def test_a_code_block_stays_whole_whatever_is_in_it(self) -> None:
        code = "```python\n# no heading\n\n" + "x = 1\n\n" * 50 + "```"
        assert code in split_chunks(f"before\n\n{code}\n\nafter " + "word " * 50, 100)

    def test_nothing_is_lost(self) -> None:
        text = "# A\none\n\n" + "line\n" * 100 + "\n~~~\ncode\n~~~\nend"
        assert "".join("".join(split_chunks(text, 50)).split()) == "".join(text.split())
        assert max(len(chunk) for chunk in split_chunks(text, 50)) <= 50
