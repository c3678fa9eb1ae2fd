"""Pages become one item, or one for each section if they are long."""

from __future__ import annotations

import json
from pathlib import Path

from loads import MAYA, counts, write_files

from knowloom.engine import Engine
from knowloom.loading.formats import markdown_pages
from knowloom.loading.parsed_documents import ITEM_SIZE
from knowloom.model import LINES, METADATA
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
LONG = "A sentence that fills the section.\n" * (ITEM_SIZE // 50)  # two are too long for an item


def long_page() -> str:
    """The page with so much text in its sections that each becomes an item."""
    page = PAGE.replace("Red.", f"Red.\n\n{LONG}")
    return page.replace("Again, for the sail.", f"Again, for the sail.\n\n{LONG}{LONG}")


def texts(kb: Engine) -> dict[str, str]:
    return {item.id: item.text for item in kb.items()}


class TestPages:
    def test_a_short_page_is_one_item_with_its_headings(self, kb: Engine, tmp_path: Path) -> None:
        report = kb.load(write_files(tmp_path, boats_md=PAGE) / "boats.md", space="s")
        assert counts(report) == (1, 0, 0, 0)
        (item,) = kb.items()
        assert (item.id, item.title, item.source) == ("boats", "Boats", "boats.md")
        assert item.text == PAGE[PAGE.index("Above") :].rstrip("\n")
        assert item.tags == ("harbour", "boats")

    def test_a_long_page_is_split_at_headings_and_code_stays_whole(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        kb.load(write_files(tmp_path, boats_md=long_page()), space="s")
        items = {item.id: item for item in kb.items()}
        assert {id: item.title for id, item in items.items()} == {
            "boats": "Boats",
            "boats#hull-and-keel": "Boats > Hull and keel",
            "boats#sail": "Boats > Sail",
            "boats#paint": "Boats > Sail > Paint",
        }
        assert "# not a heading" in items["boats#hull-and-keel"].text
        assert "## Paint\nRed." in items["boats#hull-and-keel"].text
        assert {(item.source, item.tags) for item in items.values()} == {
            ("boats.md", ("harbour", "boats"))
        }
        assert {(edge.source, edge.target, edge.type) for edge in kb.edges()} == {
            ("boats#hull-and-keel", "boats", "parent"),
            ("boats#sail", "boats", "parent"),
            ("boats#paint", "boats#sail", "parent"),
        }

    def test_items_know_their_lines_in_the_file(self, kb: Engine, tmp_path: Path) -> None:
        page = long_page()
        kb.load(write_files(tmp_path, boats_md=page) / "boats.md", space="s")
        lines = page.split("\n")
        for item in kb.items():
            first, last = item.properties[LINES]
            assert "\n".join(lines[first - 1 : last]) == item.text

    def test_headings_without_text_are_no_items(self, kb: Engine, tmp_path: Path) -> None:
        page = f"# Guide\n## Part\n### Start\n{LONG}\n### Empty\n## Other\n### End\n{LONG}\n"
        kb.load(write_files(tmp_path, guide_md=page), space="s")
        assert {item.id: item.title for item in kb.items()} == {
            "guide#part": "Guide > Part",
            "guide#other": "Guide > Other",
        }
        assert list(kb.edges()) == []  # what encloses them has no text

    def test_a_page_of_headings_is_reported(self, kb: Engine, tmp_path: Path) -> None:
        report = kb.load(write_files(tmp_path, a_md="# A\n## B\n\n## C\n"), space="s")
        assert [(skip.what, skip.why) for skip in report.skipped] == [
            ("the whole file", "empty: it has no text")
        ]

    def test_a_repeated_heading_has_that_above_it_in_its_id(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        versions = "".join(f"## {n}.0\n### Fixed\n{LONG}\n### Added\n{LONG}\n" for n in (3, 2, 1))
        folder = write_files(tmp_path, changes_md=f"# Changes\n{versions}")
        kb.load(folder, space="s")
        before = texts(kb)
        assert sorted(before) == sorted(
            f"changes#{n}-0/{name}" for n in (1, 2, 3) for name in ("added", "fixed")
        )
        write_files(
            tmp_path, changes_md=f"# Changes\n## 4.0\n### Fixed\nx {LONG}\n{LONG}\n{versions}"
        )
        report = kb.load(folder, space="s")
        assert counts(report) == (1, 6, 0, 0)  # only lines changed
        assert {id: text for id, text in texts(kb).items() if id in before} == before

    def test_text_that_moved_keeps_the_time_of_its_last_change(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        page = write_files(tmp_path, a_md=f"# A\nfirst {LONG}\n# B\nsecond {LONG}\n") / "a.md"
        kb.load(page, space="s")
        write_files(tmp_path, a_md=f"# A\nfirst {LONG}\n\nadded\n# B\nsecond {LONG}\n")
        kb.load(page, space="s")
        changed, moved = kb.get(["a#a", "a#b"], space="s")
        assert (changed.properties[LINES], changed.updated_at is None) == ([2, 244], False)
        assert (moved.properties[LINES], moved.updated_at) == ([246, 485], None)

    def test_front_matter_is_searched_but_not_shown(self, kb: Engine, tmp_path: Path) -> None:
        page = (
            "---\ntoc_depth: 2\nreviewer: Quillfeather\nday: 2020-02-29\n---\n# Boats\nBig ones.\n"
        )
        kb.load(write_files(tmp_path, boats_md=page), space="s")
        (item,) = kb.items()
        assert item.properties[METADATA] == {
            "toc_depth": 2,
            "reviewer": "Quillfeather",
            "day": "2020-02-29",
        }
        context = kb.context("Quillfeather", spaces=["s"])
        assert "Big ones." in context.text
        assert "toc_depth" not in context.text
        assert "Quillfeather" not in context.text

    def test_front_matter_cannot_set_the_lines(self, kb: Engine, tmp_path: Path) -> None:
        text = f'---\n"{LINES}": [100, 200]\n---\nText.\n'
        kb.load(write_files(tmp_path, a_md=text), space="s")
        assert [item.properties[LINES] for item in kb.items()] == [[4, 4]]

    def test_a_single_first_heading_is_the_title_of_the_page(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        kb.load(write_files(tmp_path, guide__a_md="# Guide\nHello.\n## Start\nGo.\n"), space="s")
        assert [(item.id, item.title, item.text) for item in kb.items()] == [
            ("guide/a", "Guide", "Hello.\n## Start\nGo."),
        ]

    def test_headings_in_lists_and_quotes_do_not_split(self) -> None:
        document = markdown_pages.parse_text("- a\n\n  # b\n\n> # c\n\n# d {#the-d}\n")
        assert [(heading.title, heading.anchors) for heading in document.headings] == [
            ("d", ("the-d",))
        ]

    def test_the_targets_of_links_are_added_to_the_sections_that_use_them(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        page = f"# A\nSee [one][1].\n{LONG}\n# B\n{LONG}\n\n[1]: https://example.com/x\n"
        kb.load(write_files(tmp_path, a_md=page), space="s")
        first, second = kb.items()
        assert first.text.endswith("\n\n[1]: https://example.com/x")
        assert second.text.count("https://example.com/x") == 1

    def test_no_text_of_a_page_is_lost(self, kb: Engine) -> None:
        kb.load(ROOT / "docs", space="s", secrets="flag")
        stored = "\n".join(f"{item.title}\n{item.text}" for item in kb.items())
        for page in sorted((ROOT / "docs").glob("*.md")):
            words = [
                word
                for line in page.read_text("utf-8").splitlines()
                if not line.startswith("#")
                for word in line.split()
            ]
            assert [word for word in words if word not in stored] == []

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
        assert kb.search("restart checkout", spaces=["docs"])[0].item.id == "on-call"


class TestPlainText:
    def test_a_long_text_is_cut_between_paragraphs(self, kb: Engine, tmp_path: Path) -> None:
        paragraph = "word " * 400
        text = "\r\n\r\n".join([paragraph] * 110)
        kb.load(write_files(tmp_path, log_txt=text), space="s")
        items = {item.id: item for item in kb.items()}
        assert {id: item.title for id, item in items.items()} == {
            "log.txt": "log",
            "log.txt/2": "log (2)",
            "log.txt/3": "log (3)",
        }
        lines = text.replace("\r\n", "\n").split("\n")
        for item in items.values():
            first, last = item.properties[LINES]
            assert "\n".join(lines[first - 1 : last]) == item.text
        assert [(edge.source, edge.target) for edge in kb.edges()] == [
            ("log.txt/2", "log.txt"),
            ("log.txt/3", "log.txt"),
        ]

    def test_a_long_text_with_underlined_headings_is_cut_at_them(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        text = f"Title\n=====\n\nStart\n-----\n\n{LONG}\nEnd\n---\n\n{LONG}\n"
        kb.load(write_files(tmp_path, guide_txt=text), space="s")
        assert {item.id: item.title for item in kb.items()} == {
            "guide.txt#start": "Title > Start",
            "guide.txt#end": "Title > End",
        }
