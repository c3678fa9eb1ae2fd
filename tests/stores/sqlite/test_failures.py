"""Failures that pass: a read error, a full disk after the items, a forked process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
import pytest

import knowloom
from knowloom import Corrupt, Item, Unavailable
from knowloom.stores.sqlite.damage.page_checksums import ChecksumFile
from knowloom.stores.sqlite.store import SqliteStore
from letters import Letters


def test_a_transient_read_error_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, failures = tmp_path / "k.db", [1]
    with knowloom.open(path, embedder=None) as kb:
        kb.add(Item("a", "s", text="refund"))
    read = ChecksumFile.xRead

    def fail_once(self: ChecksumFile, amount: int, offset: int) -> bytes:
        if offset > 8192 and failures:
            failures.pop()
            raise apsw.exception_for(apsw.SQLITE_IOERR_READ)
        return read(self, amount, offset)

    with knowloom.open(path, embedder=None) as kb:
        monkeypatch.setattr(ChecksumFile, "xRead", fail_once)
        with pytest.raises(Unavailable, match="try again") as raised:
            list(kb.items())
        assert raised.value.code == "io_error" and not isinstance(raised.value, Corrupt)
        assert [item.id for item in kb.items()] == ["a"]


def test_a_full_disk_after_the_items_reports_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise Unavailable("no space left: this step was rolled back", "disk_full")

    monkeypatch.setattr(SqliteStore, "put_vectors", full)
    with knowloom.open(tmp_path / "k.db", embedder=Letters()) as kb:
        ready = kb.add(Item("a", "s", text="refund"), vectors=[[1.0] + [0.0] * 25])
        computed = kb.add(Item("b", "s", text="parcel"))
        assert [item.id for item in kb.items()] == ["a", "b"]
    assert "1 items are stored, but their vectors are not: no space left" in ready.problems[0]
    assert "2 items are stored but not embedded: no space left" in computed.problems[0]


def test_an_engine_is_refused_in_a_forked_process(tmp_path: Path) -> None:
    with knowloom.open(tmp_path / "k.db", embedder=None) as kb:
        kb.add(Item("a", "s", text="refund"))
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            codes = []
            for call in (lambda: kb.get("a", space="s"), lambda: kb.add(Item("b", "s", text="b"))):
                try:
                    call()
                except Unavailable as error:
                    codes.append(error.code)
            os.write(writing, " ".join(codes).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100) == b"forked forked"
        assert kb.get("a", space="s")
