"""The command read: items page by page, and the passages that search shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from cli_runs import run, run_json, run_on_terminal, run_program

SENTENCE = "The harbor master inspects every parcel before it is shipped. "
GUIDE = "".join(f"## Part {number}\n\n{SENTENCE * 20}\n\n" for number in range(6))


@pytest.fixture
def guide(store: Path, tmp_path: Path) -> Path:
    """The example company with a long item."""
    row = {"id": "the guide", "space": "docs", "title": "Harbor guide", "text": GUIDE}
    row |= {"summary": "In short", "tags": ["x"], "properties": {"pages": 3}, "source": "guide.md"}
    (tmp_path / "rows.jsonl").write_text(
        json.dumps(row) + "\n" + json.dumps({"id": "-x", "space": "docs", "text": GUIDE})
    )
    assert run("load rows.jsonl --space docs", db=store).exit_code == 0
    return store


def test_a_page_is_shown_with_its_fields_and_the_way_to_the_next(guide: Path) -> None:
    result = run("read 'the guide' --space docs --max-tokens 400", db=guide)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and lines[0].startswith("Harbor guide ─")
    assert {"id       docs/the guide", "summary  In short", "source   guide.md"} <= {
        line.strip() for line in lines
    }
    assert lines[-1].startswith("page 1 of 4, ")
    assert lines[-1].endswith(
        "; next: knowloom read --space docs --page 2 --max-tokens 400 'the guide'"
    )


def test_following_the_commands_reads_the_whole_text(guide: Path) -> None:
    command, texts = "read 'the guide' --max-tokens 400", []
    while command:
        output = run(command, db=guide).stdout
        body = output[output.index("\n\n") + 2 : output.rindex("\n\npage")]
        texts.append(body.strip())
        match = re.search(r"; next: knowloom (.+)$", output)
        command = match[1] if match else ""
    assert re.sub(r"\s+", " ", " ".join(texts)) == re.sub(r"\s+", " ", GUIDE).strip()


def test_the_text_is_not_wrapped(guide: Path) -> None:
    output = run("read 'the guide' --max-tokens none", db=guide).stdout
    assert GUIDE.strip() in output and output.splitlines()[-1].startswith("page 1 of 1, ")


def test_the_store_and_the_guard_are_part_of_the_next_command(guide: Path) -> None:
    result = run("read --space docs --max-tokens 400", "--db", str(guide), "--", "-x")
    command = result.stdout.splitlines()[-1].partition("; next: knowloom ")[2]
    assert shlex.split(command)[-2:] == ["--", "-x"] and f"--db {guide}" in command
    assert run(command).exit_code == 0


def test_a_page_as_json(guide: Path) -> None:
    page = run_json("read 'the guide' --max-tokens 400 --page 2", db=guide)
    assert (page["id"], page["page"], page["next"]) == ("the guide", 2, 3)
    assert page["text"] == GUIDE[page["start"] : page["end"]]
    assert "summary" not in page and page["headings"]


def test_a_passage_opens_its_page(guide: Path) -> None:
    page = run_json("read 'the guide' --max-tokens 400 --passage 5", db=guide)
    assert 5 in page["passages"]
    shown = run("read 'the guide' --max-tokens 400 --passage 5", db=guide).stdout
    assert f"page {page['page']} of" in shown
    assert f"section  {' > '.join(page['headings'])}" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'the giude' --space docs", "no item 'the giude' in space 'docs'; similar: 'the guide'"),
        ("'the guide' --space nowhere", "unknown space 'nowhere'"),
        ("'the guide' --page 9 --max-tokens 400", "page must be an integer from 1 to 4, got 9"),
        ("'the guide' --page 0", "page must be an integer >= 1, got 0"),
        ("'the guide' --passage 99", "passage must be an integer from 0 to "),
        ("'the guide' --max-tokens 0", "max_tokens must be an integer from 1 to "),
    ],
)
def test_errors_are_one_line(guide: Path, arguments: str, message: str) -> None:
    result = run(f"read {arguments}", db=guide)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {message}") and result.stderr.count("\n") == 1
    assert run_json(f"read {arguments}", db=guide)["error"]["message"].startswith(message)


def test_control_characters_do_not_reach_a_terminal(store: Path, tmp_path: Path) -> None:
    row = {"id": "evil", "space": "docs", "title": "\x1b[2Jx", "text": "\x1b[31mred\x1b[0m"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row | {"properties": {"\x1b[2J": "\x1b[2J"}}))
    run("load rows.jsonl", db=store)
    output, status = run_on_terminal("read", "evil", "--db", str(store))
    assert status == 0 and "red" in output
    assert "\x1b[2J" not in output and "\x1b[31mred" not in output


def test_the_real_program_reads_a_page(guide: Path) -> None:
    status, stdout, stderr = run_program("read", "the guide", "--db", str(guide), "--page", "1")
    assert (status, stderr) == (0, "")
    assert stdout.decode().splitlines()[-1].startswith("page 1 of 1, ")


def test_a_model_without_a_tokenizer_is_warned_about(guide: Path) -> None:
    result = run("read 'the guide' --model gpt4 --max-tokens 60", db=guide)
    assert "note: tokens: no tokenizer for model 'gpt4': its tokens are estimated" in result.stderr
    assert "--model gpt4 'the guide'" in result.stdout
    strict = run("read 'the guide' --model gpt4 --max-tokens 60 --strict", db=guide)
    assert "tokenizer" not in strict.stderr
    assert "--model gpt4 --strict 'the guide'" in strict.stdout


def test_search_shows_the_headings_or_the_start_of_the_passage_that_matched(guide: Path) -> None:
    text = GUIDE.replace("Part 4\n\n", "Part 4\n\nLobsters are weighed twice. ")
    run("add --space docs --id lobsters --title Crustaceans --text", text, db=guide)
    plain = "Lobsters are weighed twice. " + SENTENCE * 60
    run("add --space docs --id plain --title Shellfish --text", plain, db=guide)
    result = run("search 'lobsters weighed twice' --space docs", db=guide)
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "Part 4" in lines
    assert any(line.startswith("Lobsters are weighed twice. The harbor") for line in lines)
    hits = run_json("search 'lobsters weighed twice' --space docs", db=guide)["hits"]
    passages = {hit["item"]["id"]: hit["passage"] for hit in hits}
    passage = passages["lobsters"]
    assert passage["headings"] == ["Part 4"]
    assert "Lobsters" in text[passage["start"] : passage["end"]]
    assert passages["plain"]["number"] == 0
