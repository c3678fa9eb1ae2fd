"""Rows of JSON and JSONL sources: forms, broken lines, repeated loads."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from engine_samples import ids, link

import knowloom
from knowloom import (
    Invalid,
    NotFound,
)


def test_only_a_line_that_is_too_long_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr("knowloom.loading.json_rows.MAX_LINE", 100)
    rows = [
        json.dumps({"id": name, "text": text})
        for name, text in (("a", "refund"), ("b", "x" * 350), ("c", "refund"))
    ]
    (tmp_path / "knowledge.jsonl").write_text("\n".join(rows))
    kb = knowloom.open("memory:", embedder=None)
    report = kb.load(tmp_path / "knowledge.jsonl", space="one")
    assert [item.id for item in kb.items()] == ["a", "c"]
    assert [row.where.rpartition(":")[2] for row in report.skipped] == ["2"]


ROWS = [{"id": "a", "text": "zebra"}, {"id": "b", "text": "giraffe", "tags": ["x"]}]
LINK = {"source": "a", "target": "b", "weight": 0.5}


def join_lines(*rows: Any) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", join_lines(*ROWS, LINK)),
        ("x.ndjson", join_lines(LINK, *ROWS)),
        ("x.jsonl", "\ufeff" + join_lines(*ROWS, LINK)),
        ("x.jsonl", join_lines("", *ROWS, "   ", LINK, "", "")),
        ("x.jsonl", join_lines(*ROWS, LINK).replace("\n", "\r\n")),
        ("x.json", json.dumps({"items": ROWS, "edges": [LINK]})),
        ("x.json", "\ufeff" + json.dumps({"edges": [LINK], "items": ROWS})),
    ],
)
def test_every_form_of_file_is_loaded(kb, tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    report = kb.load(tmp_path / name, space="s")
    assert (report.added, report.edges, report.skipped) == (2, 1, ())
    assert ids(kb.search("zebra", spaces=["s"])) == ["a"]
    assert list(kb.edges()) == [link("a", "b", 0.5)]


def test_a_dict_and_a_list_in_a_file_are_loaded(kb, tmp_path):
    (tmp_path / "list.json").write_text(json.dumps(ROWS))
    assert kb.load({"items": ROWS, "edges": [LINK]}, space="s").added == 2
    assert kb.load(str(tmp_path / "list.json"), space="t").added == 2


def test_a_folder_is_loaded_file_by_file_each_into_its_space(kb, tmp_path):
    (tmp_path / "one.jsonl").write_text(join_lines(*ROWS))
    (tmp_path / "two.json").write_text(json.dumps(ROWS))
    (tmp_path / "notes.pdf").write_text("not knowledge")
    assert kb.load(tmp_path).added == 4
    assert [info.name for info in kb.maintenance.stats().spaces] == ["one", "two"]


def test_a_row_can_set_its_space(kb):
    kb.load(
        {"items": [{"id": "a", "text": "x", "space": "mine"}, {"id": "b", "text": "x"}]}, space="s"
    )
    assert [item.key for item in kb.items()] == [("mine", "a"), ("s", "b")]


def test_integer_ids_become_text_and_nulls_become_defaults(kb):
    kb.load(
        {"items": [{"id": 7, "text": "x", "title": None}], "edges": [{"source": 7, "target": 7}]},
        space="s",
    )
    assert ids(kb.get("7", space="s")) == ["7"]


def test_loading_again_changes_nothing(kb):
    kb.load({"items": ROWS, "edges": [LINK]}, space="s")
    digest = kb.maintenance.stats().spaces[0].digest
    report = kb.load({"items": ROWS, "edges": [LINK]}, space="s")
    assert (report.added, report.updated, report.unchanged, report.edges) == (0, 0, 2, 0)
    assert kb.maintenance.stats().spaces[0].digest == digest


def test_loading_again_updates_only_changed_rows(kb):
    kb.load({"items": ROWS}, space="s")
    before = {item.id: item for item in kb.items()}
    report = kb.load({"items": [ROWS[0], {**ROWS[1], "text": "elephant"}]}, space="s")
    after = {item.id: item for item in kb.items()}
    assert (report.updated, report.unchanged) == (1, 1)
    assert after["a"] == before["a"]
    assert after["b"].created_at == before["b"].created_at < after["b"].updated_at


BROKEN_LINES = [
    ('{"id": "x", "text": ', "not JSON"),
    ("[1, 2]", "not an object"),
    ('{"text": "no id"}', "an item must have an id"),
    ('{"id": "x"}', "is empty"),
    (
        '{"id": "x", "text": "t", "colour": "red"}',
        "unknown field 'colour'; available: confidence, created_at",
    ),
    ('{"id": "x", "text": "t", "confidence": NaN}', "NaN is not a number"),
    ('{"id": "x", "text": "t", "created_at": "31.12.2025"}', "created_at must be a time"),
    ('{"id": "x", "text": "t", "kind": "animal"}', "unknown kind 'animal'"),
    ('{"id": "x", "text": 5}', "text must be text, got int"),
    ('{"id": "a", "text": "again"}', "duplicate id 'a' in space 's'"),
    ('{"source": "a", "target": "nowhere"}', "no item 'nowhere' in space 's'"),
    ('{"source": "a", "target": "b", "weight": 7}', "weight must be a number from 0 to 1, got 7"),
    ("[" * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("line", "reason"), BROKEN_LINES)
def test_a_broken_line_is_reported_with_its_place_and_the_rest_is_stored(
    kb, tmp_path, line, reason
):
    path = tmp_path / "x.jsonl"
    path.write_text(join_lines(ROWS[0], line, ROWS[1], LINK))
    report = kb.load(path, space="s")
    assert (report.added, report.edges) == (2, 1)
    assert [(row.where, reason in row.why) for row in report.skipped] == [(f"{path}:2", True)]


def test_a_line_that_is_not_utf_8_is_reported_and_the_rest_is_stored(kb, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(
        join_lines(ROWS[0]).encode()
        + b'\n{"id": "caf\xe9", "text": "x"}\n'
        + join_lines(ROWS[1]).encode()
    )
    report = kb.load(path, space="s")
    assert report.added == 2
    assert [(row.where, "not UTF-8" in row.why) for row in report.skipped] == [(f"{path}:2", True)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.json", b'{"items": [', "not JSON"),
        ("x.json", b"", "not JSON"),
        ("x.jsonl", b"", "empty: it has no rows"),
        ("x.json", b"5", "must be a list of items or an object"),
        ("x.json", b'{"things": []}', "must be a list of items or an object"),
        ("x.json", b'{"items": 5}', "not a list"),
        ("x.json", b'{"items": null}', "not a list"),
        ("x.json", b'{"items": [5]}', "not an object"),
        ("x.json", '{"items": []}'.encode("utf-16-le"), "binary"),
        ("x.json", '{"items": ["é"]}'.encode("latin-1"), "not UTF-8: byte 12 is 0xe9"),
        ("x.jsonl", '{"id": "a", "text": "é"}'.encode("utf-16-le"), "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported(kb, tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    report = kb.load(tmp_path / name, space="s")
    assert report.added == 0
    assert [reason in row.why for row in report.skipped] == [True]


def test_a_file_of_empty_lines_loads_nothing(kb, tmp_path):
    (tmp_path / "x.jsonl").write_text("\n")
    assert kb.load(tmp_path / "x.jsonl", space="s") == knowloom.Report()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nowhere.jsonl", NotFound, "no file or folder 'nowhere.jsonl'"),
        ("x" * 5000, NotFound, "no file or folder"),
        ("a\0b", NotFound, "no file or folder"),
        (["a"], Invalid, "source must be a path or a dict with `items` and `edges`, got list"),
        (None, Invalid, "got NoneType"),
    ],
)
def test_a_missing_source_is_refused(kb, source, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kb.load(source, space="s")


def test_a_folder_without_knowledge_is_refused(kb, tmp_path):
    with pytest.raises(Invalid, match=r"no .json, .jsonl, .ndjson, .*\.md, .* file in"):
        kb.load(tmp_path)


def test_rows_without_any_space_are_of_the_default_space(kb):
    report = kb.load({"items": ROWS})
    assert (report.added, report.skipped) == (len(ROWS), ())
    assert {item.space for item in kb.items()} == {"default"}


def test_rows_beyond_the_size_of_a_batch_are_loaded_with_progress(kb, tmp_path):
    rows = [{"id": f"i{number:04}", "text": "x"} for number in range(2500)]
    links = [{"source": f"i{number:04}", "target": f"i{number + 1:04}"} for number in range(2499)]
    steps: list[tuple[str, int, int]] = []
    report = kb.load(
        {"items": rows, "edges": links}, space="s", progress=lambda *step: steps.append(step)
    )
    assert (report.added, report.edges) == (2500, 2499)
    assert ("edges", 2499, 2499) in steps and ("items", 2500, 2500) in steps


def test_a_json_file_has_a_limit_and_json_lines_have_none(tmp_path, monkeypatch):
    monkeypatch.setattr("knowloom.loading.json_rows.MAX_FILE", 100)
    row = {"id": "a", "text": "x" * 100}
    (tmp_path / "whole.json").write_text(json.dumps([row]))
    (tmp_path / "lines.jsonl").write_text(json.dumps(row))
    with knowloom.open("memory:", embedder=None) as kb:
        report = kb.load(tmp_path, space="s")
    assert report.added == 1
    assert [skip.why for skip in report.skipped] == [
        "must have <= 100 bytes, got 125: split the file"
    ]


def test_a_file_of_foreign_rows_is_reported_once(kb, tmp_path):
    lines = [json.dumps({"level": "info", "message": f"event {n}"}) for n in range(30)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.md").write_text("# A\n\nText.")
    report = kb.load(tmp_path, space="s")
    assert report.added == 1
    [skip] = report.skipped
    assert skip.where.endswith("log.jsonl:1")
    assert skip.what == "30 rows"
    assert skip.why.startswith("no row of the file is valid; the first: unknown field 'level'")


def test_the_report_of_a_file_with_many_invalid_rows_is_bounded(kb, tmp_path, monkeypatch):
    monkeypatch.setattr("knowloom.loading.source_rows.MAX_SKIPPED", 40)
    rows = ['{"id": "a", "text": "x"}', *["nonsense"] * 100]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    report = kb.load(tmp_path / "rows.jsonl", space="s")
    assert (report.added, len(report.skipped)) == (1, 41)
    assert report.skipped[-1].what == "60 rows below"
    assert report.skipped[-1].why == "more than 40 rows of the file are invalid"
