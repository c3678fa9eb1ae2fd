"""Front matter is parsed as plain JSON, or reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from loads import ids, write_files

from knowloom.engine import Engine
from knowloom.loading import front_matter


class TestFrontMatter:
    @pytest.mark.parametrize(
        ("head", "reason"),
        [
            ("a: &x [1]\nb: *x", "line 3: aliases (*x) are not allowed"),
            ("a: " + "[" * 500 + "]" * 500, "nested more than 16 deep"),
            ("a: [1", "not YAML: line"),
            ("- a\n- b", "must be names with values, got list"),
            ("a: " + "x" * 70_000, "must have <= 64,000 characters"),
            ("a: !!python/object/apply:os.system [ls]", "not YAML"),
            ("a: 2026-02-30", "not YAML"),
        ],
    )
    def test_unsupported_yaml_is_reported_and_the_page_is_loaded(
        self, kb: Engine, tmp_path: Path, head: str, reason: str
    ) -> None:
        report = kb.load(write_files(tmp_path, p_md=f"---\n{head}\n---\nBody.\n"), space="s")
        assert (ids(kb), [item.text for item in kb.items()]) == (["p"], ["Body."])
        assert [skip.what for skip in report.skipped] == ["front matter"]
        assert reason in report.skipped[0].why

    def test_values_that_json_lacks_become_text(self) -> None:
        values = front_matter.parse_front_matter(
            "a: .nan\nb: 2026-01-02T03:04:05Z\nc: !!set {x, y}\n7: yes\nd: {e: null}"
        )
        assert values == {
            "a": "nan",
            "b": "2026-01-02T03:04:05Z",
            "c": ["x", "y"],
            "7": True,
            "d": {"e": None},
        }

    def test_dashes_below_a_text_are_not_front_matter(self) -> None:
        assert front_matter.split_front_matter("text\n---\nmore\n---\n") == (
            "",
            "text\n---\nmore\n---\n",
        )
