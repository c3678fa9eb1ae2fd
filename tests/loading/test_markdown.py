"""Pages are split into sections with edges to their parents."""

from __future__ import annotations

import json
from pathlib import Path

from loads import MAYA, counts, write_files

from knowloom.engine import Engine
from knowloom.loading import markdown
from knowloom.model import LINES
from paths import ROOT

PAGE = """---
title: Boats
tags: harbour, boats
owner: Ada
built: 2020-02-29
---
Above all headings.

# Hull *and* `keel`
Text of the hull.

```
# not a heading
```

## Paint
Red.

~~~text
## neither
~~~

    # nor this

Sail
====
White.

## Paint
Again, for the sail.
"""


class TestPages:
    def test_a_page_is_split_at_headings_and_code_stays_whole(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        assert counts(kb.load(write_files(tmp_path, boats_md=PAGE) / "boats.md", space="s")) == (
            5,
            0,
            0,
            0,
        )
        items = {item.id: item for item in kb.items()}
        assert {id: item.title for id, item in items.items()} == {
            "boats": "Boats",
            "boats#hull-and-keel": "Boats > Hull and keel",
            "boats#paint": "Boats > Hull and keel > Paint",
            "boats#paint-2": "Boats > Sail > Paint",
            "boats#sail": "Boats > Sail",
        }
        assert items["boats#hull-and-keel"].text == "Text of the hull.\n\n```\n# not a heading\n```"
        assert items["boats#paint"].text == "Red.\n\n~~~text\n## neither\n~~~\n\n    # nor this"
        assert items["boats"].shown_properties == {"owner": "Ada", "built": "2020-02-29"}
        assert {(item.source, item.tags) for item in items.values()} == {
            ("boats.md", ("harbour", "boats"))
        }
        assert {(edge.source, edge.target) for edge in kb.edges()} == {
            ("boats#hull-and-keel", "boats"),
            ("boats#paint", "boats#hull-and-keel"),
            ("boats#paint-2", "boats#sail"),
            ("boats#sail", "boats"),
        }
        assert {edge.type for edge in kb.edges()} == {"parent"}

    def test_items_know_their_lines_in_the_file(self, kb: Engine, tmp_path: Path) -> None:
        kb.load(write_files(tmp_path, boats_md=PAGE) / "boats.md", space="s")
        lines = PAGE.split("\n")
        for item in kb.items():
            first, last = item.properties[LINES]
            assert "\n".join(lines[first - 1 : last]) == item.text

    def test_parts_of_plain_text_know_their_lines(self, kb: Engine, tmp_path: Path) -> None:
        text = "\r\n\r\n".join(["\r\n", "word " * 300, "one\r\ntwo " + "x" * 1_990, "\r\nend"])
        kb.load(write_files(tmp_path, log_txt=text), space="s")
        lines = text.replace("\r\n", "\n").split("\n")
        items = {item.id: item for item in kb.items()}
        assert {id: item.properties[LINES] for id, item in items.items()} == {
            "log.txt": [4, 4],
            "log.txt/2": [6, 7],
            "log.txt/3": [10, 10],
        }
        for item in items.values():
            first, last = item.properties[LINES]
            assert "\n".join(lines[first - 1 : last]).rstrip() == item.text

    def test_text_that_moved_keeps_the_time_of_its_last_change(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        page = write_files(tmp_path, a_md="# A\nfirst\n# B\nsecond\n") / "a.md"
        kb.load(page, space="s")
        write_files(tmp_path, a_md="# A\nfirst\n\nadded\n# B\nsecond\n")
        kb.load(page, space="s")
        changed, moved = kb.get(["a#a", "a#b"], space="s")
        assert (changed.properties[LINES], changed.updated_at is None) == ([2, 4], False)
        assert (moved.properties[LINES], moved.updated_at) == ([6, 6], None)

    def test_front_matter_cannot_set_the_lines(self, kb: Engine, tmp_path: Path) -> None:
        text = f'---\n"{LINES}": [100, 200]\n---\nText.\n'
        kb.load(write_files(tmp_path, a_md=text), space="s")
        assert [item.properties for item in kb.items()] == [{LINES: [4, 4]}]

    def test_a_single_first_heading_is_the_title_of_the_page(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        kb.load(write_files(tmp_path, guide__a_md="# Guide\nHello.\n## Start\nGo.\n"), space="s")
        assert [(item.id, item.title, item.text) for item in kb.items()] == [
            ("guide/a", "Guide", "Hello."),
            ("guide/a#start", "Guide > Start", "Go."),
        ]

    def test_headings_in_lists_and_quotes_do_not_split(self) -> None:
        sections = markdown.split_markdown("- a\n\n  # b\n\n> # c\n\n# d\n")
        assert [section.title for section in sections] == ["", "d"]

    def test_a_long_section_is_split_between_paragraphs_but_not_in_code(self) -> None:
        paragraph, code = "word " * 150 + "end.", "```\n" + "line of code\n\n" * 300 + "```"
        (section,) = markdown.split_markdown(
            "\n\n".join([paragraph, paragraph, paragraph, code, paragraph])
        )
        assert section.parts == (f"{paragraph}\n\n{paragraph}", paragraph, code, paragraph)

    def test_a_long_list_is_split_between_its_entries(self) -> None:
        entries = [f"- entry {number} " + "x" * 90 + "\n  goes on" for number in range(50)]
        (section,) = markdown.split_markdown("\n".join(entries))
        assert "\n".join(section.parts) == "\n".join(entries)
        assert len(section.parts) > 2
        assert all(
            part.startswith("- entry") and len(part) <= markdown.MAX_PART for part in section.parts
        )

    def test_the_parts_of_a_long_section_are_items_that_belong_to_the_first(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        text = "\n\n".join(["word " * 300] * 3)
        kb.load(write_files(tmp_path, log_txt=text), space="s")
        assert [(item.id, item.title) for item in kb.items()] == [
            ("log.txt", "log"),
            ("log.txt/2", "log (2)"),
            ("log.txt/3", "log (3)"),
        ]
        assert [(edge.source, edge.target) for edge in kb.edges()] == [
            ("log.txt/2", "log.txt"),
            ("log.txt/3", "log.txt"),
        ]

    def test_no_text_of_a_page_is_lost(self) -> None:
        for page in sorted((ROOT / "docs").glob("*.md")):
            text = page.read_text("utf-8")
            sections = markdown.split_markdown(text)
            result = "".join("".join((section.title, *section.parts)) for section in sections)
            words = [
                word
                for line in text.splitlines()
                if not line.startswith("#")
                for word in line.split()
            ]
            assert [word for word in words if word not in result] == []

    def test_a_folder_of_pages_rows_and_layers_is_loaded(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(
            tmp_path / "mixed",
            a_md="# A\nx",
            deep__b_txt="y",
            rows_jsonl='{"id": "r", "text": "z"}',
            maya_json=json.dumps(MAYA),
        )
        write_files(folder, _hidden__c_md="hidden", _secret_md="hidden")
        (folder / "picture.png").write_bytes(b"\x89PNG\0")
        (folder / "broken.md").write_bytes(b"text\0more")
        report = kb.load(folder)
        assert [(space.name, space.items) for space in kb.maintenance.stats().spaces] == [
            ("maya", 7),
            ("mixed", 2),
            ("rows", 1),
        ]
        assert [(Path(skip.where).name, skip.why.partition(";")[0]) for skip in report.skipped] == [
            ("broken.md", "binary: byte 4 is 0"),
            ("mixed", "unsupported suffixes: .png (1)"),
        ]

    def test_the_example_pages_answer_a_question(self, kb: Engine) -> None:
        report = kb.load(ROOT / "examples" / "docs")
        assert report.skipped == ()
        assert (
            kb.search("restart checkout", spaces=["docs"])[0].item.id
            == "on-call#restart-the-checkout"
        )
