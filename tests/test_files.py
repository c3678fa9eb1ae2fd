"""Users' files: each reader rejects a missing, unreadable or non-UTF-8 file in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knowloom import config
from knowloom.agents import load_agents
from knowloom.axioms.axiom_files import read_axioms
from knowloom.cli.streams import read_document
from knowloom.errors import Invalid
from knowloom.evaluation.questions import read_questions
from knowloom.files import read_bytes, read_text, read_toml
from knowloom.retrieval_settings import load_settings
from knowloom.secrets.rules import open_policy

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "agents": ("agents.toml", load_agents),
    "axioms": ("axioms.json", lambda path: list(read_axioms(path))),
    "documents": ("document.md", lambda path: read_document(str(path))),
    "questions": ("questions.jsonl", lambda path: list(read_questions(path))),
    "retrieval": ("retrieval.toml", load_settings),
    "secret rules": ("rules.toml", lambda path: open_policy("refuse", path)),
    "settings": (
        "knowloom.toml",
        lambda path: config.load({"KNOWLOOM_CONFIG": str(path)}),
    ),
    "text": ("text.txt", read_text),
    "toml": ("table.toml", read_toml),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("defect", ["missing", "folder", "encoding"])
def test_a_file_that_cannot_be_read_is_invalid(reader: str, defect: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    if defect == "folder":
        path.mkdir()
    elif defect == "encoding":
        path.write_bytes(b"caf\xe9 = 1\n")
    with pytest.raises(Invalid, match=name) as caught:
        read(path)
    assert caught.value.status == 422


def test_a_byte_order_mark_is_removed_and_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffé\r\n".encode())
    assert read_text(path) == "é\r\n" and read_bytes(path)[:3] == b"\xef\xbb\xbf"


def test_a_path_with_a_nul_is_invalid() -> None:
    with pytest.raises(Invalid, match="cannot read"):
        read_text("a\0b")
