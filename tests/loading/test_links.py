"""Links between documents become edges between their items."""

from __future__ import annotations

from pathlib import Path

from loads import write_files

from knowloom.engine import Engine
from knowloom.loading.parsed_documents import ITEM_SIZE

LONG = "A sentence that fills the section.\n" * (ITEM_SIZE // 50)


def links(kb: Engine) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in kb.edges() if edge.type == "links"}


class TestMarkdown:
    def test_links_lead_to_pages_and_sections(self, kb: Engine, tmp_path: Path) -> None:
        long = f"# Guide\n{LONG}\n## Set up {{#setup}}\n{LONG}\n## Run it\n{LONG}\n"
        folder = write_files(
            tmp_path,
            guide_md=long,
            sub__a_md="[one](../guide.md#setup) [two](../guide.md#run-it) [three][3]\n\n[3]: b.md",
            sub__b_md="[[guide#Run it]] [up](/guide) <a href='a.md'>a</a> [web](https://x.org)",
            sub__index_md="[self](#x) [gone](gone.md) `[code](b.md)`\n\n```\n[code](a.md)\n```",
            c_md="[folder](sub/) [page](sub/a.html)",
        )
        kb.load(folder, space="s")
        assert links(kb) == {
            ("sub/a", "guide#set-up"),
            ("sub/a", "guide#run-it"),
            ("sub/a", "sub/b"),
            ("sub/b", "guide#run-it"),
            ("sub/b", "guide"),
            ("sub/b", "sub/a"),
            ("c", "sub/index"),
            ("c", "sub/a"),
        }

    def test_a_link_that_vanishes_is_deleted(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(tmp_path, a_md="[b](b.md)", b_md="text")
        assert kb.load(folder, space="s").edges == 1
        write_files(tmp_path, a_md="no link")
        assert (kb.load(folder, space="s").edges, links(kb)) == (1, set())

    def test_links_to_documents_that_were_not_stored_are_not_reported(
        self, kb: Engine, tmp_path: Path
    ) -> None:
        secret = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA7\n" * 20
        folder = write_files(tmp_path, a_md="[b](b.md)", b_md=f"{secret}\n")
        report = kb.load(folder, space="s")
        assert all("b.md" in skip.where for skip in report.skipped)

    def test_the_links_of_a_file_that_cannot_be_read_stay(self, kb: Engine, tmp_path: Path) -> None:
        folder = write_files(tmp_path, a_md="[b](b.md)", b_md="text")
        kb.load(folder, space="s")
        (folder / "a.md").write_bytes(b"\xff")
        kb.load(folder, space="s")
        assert links(kb) == {("a", "b")}
