"""Check-in records: a folder per run with the raw input, the structured JSON and what led to it. It appears complete, or not at all.

20260131T120000000000Z-1a2b3c4d5e6f/
  input.txt         the text, byte for byte
  structured.json   the three layers; not there when the run failed
  record.json       time, space, entity, source, hash, model, prompt, entries left out, error
  artifacts/        answer-01-1.txt … (portion, attempt) and, once the store has it, loaded.json: what loading did
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knowloom import codec
from knowloom.errors import Corrupt, Invalid, NotFound, Unavailable
from knowloom.report import Report, Skipped
from knowloom.structuring import schema
from knowloom.structuring.merge import free
from knowloom.structuring.prompting import Answer
from knowloom.structuring.schema import Layers

VERSION = 1


@dataclass(frozen=True, slots=True)
class Record:
    """What a run was given, and what came of it. `layers` is None for a run that failed, and `error` says why."""

    text: str
    space: str
    entity: str | None
    time: datetime
    model: str
    prompt: str
    source: str = ""
    max_retries: int = 3
    layers: Layers | None = None
    skipped: tuple[Skipped, ...] = ()
    error: str = ""

    @property
    def hash(self) -> str:
        return content_hash(self.text, self.space, self.entity)


def content_hash(text: str, space: str, entity: str | None) -> str:
    """Names a text, where it goes and whom it is about."""
    return hashlib.sha256(codec.to_json([space, entity, text]).encode()).hexdigest()


def write(folder: Path, record: Record, answers: Sequence[Answer]) -> Path:
    """The new record's own folder. Readable by its owner alone: it has whatever the text had."""
    name = f"{record.time.astimezone(UTC):%Y%m%dT%H%M%S%fZ}-{record.hash[:12]}"
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".partial", dir=folder))
        try:
            _fill(partial, record, answers)
            own = folder / free(name, {path.name for path in folder.iterdir()})
            partial.rename(own)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return own


def _fill(folder: Path, record: Record, answers: Sequence[Answer]) -> None:
    facts = {
        name: getattr(record, name)
        for name in ("space", "entity", "source", "hash", "model", "prompt", "max_retries", "error")
    }
    wrong = [
        {"portion": one.portion, "attempt": one.attempt, "complaints": list(one.complaints)}
        for one in answers
    ]
    rows = {
        "version": VERSION,
        "time": codec.time_to_text(record.time),
        **facts,
        "skipped": [asdict(one) for one in record.skipped],
        "answers": wrong,
    }
    (folder / "artifacts").mkdir()
    for one in answers:
        _put(folder / "artifacts" / f"answer-{one.portion:02}-{one.attempt}.txt", one.text)
    _put(folder / "input.txt", record.text)
    if record.layers is not None:
        _put(folder / "structured.json", _json(record.layers))
    _put(folder / "record.json", _json(rows))


def loaded(folder: Path, report: Report) -> None:
    """Say in the record that the store has it now."""
    with _writable(folder):
        partial = folder / "artifacts" / ".loaded.json.partial"
        _put(partial, _json(asdict(report)))
        partial.replace(folder / "artifacts" / "loaded.json")


def is_loaded(folder: Path) -> bool:
    return (folder / "artifacts" / "loaded.json").is_file()


def read(folder: Path) -> Record:
    """A record as it was written; structured JSON that somebody edited since is checked again."""
    if not (folder / "record.json").is_file():
        raise NotFound(
            f"{str(folder)!r} is not a check-in record: it has no record.json", "no_record"
        )
    try:
        row = json.loads((folder / "record.json").read_text("utf-8"))
        text = (folder / "input.txt").read_bytes().decode()
        layers = (
            json.loads((folder / "structured.json").read_text("utf-8"))
            if (folder / "structured.json").is_file()
            else None
        )
        skipped = tuple(Skipped(**one) for one in row["skipped"])
        facts: dict[str, Any] = {
            name: row[name]
            for name in ("space", "entity", "source", "model", "prompt", "max_retries", "error")
        }
        time = codec.text_to_time(row["time"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(
            f"the check-in record {str(folder)!r} is damaged: {type(error).__name__}: {error}"
        ) from error
    except OSError as error:
        raise Unavailable(
            f"the check-in record {str(folder)!r} cannot be read: {error.strerror}"
        ) from error
    return Record(
        text,
        time=time,
        layers=None if layers is None else _valid(folder, layers, facts["entity"]),
        skipped=skipped,
        **facts,
    )


def same(folder: Path, hash: str) -> Iterator[tuple[Path, Record]]:
    """Good records of the same content, the latest first."""
    if folder.is_dir():
        for path in sorted(folder.glob(f"[0-9]*-{hash[:12]}*"), reverse=True):
            if (path / "structured.json").is_file() and (record := read(path)).hash == hash:
                yield path, record


def _valid(folder: Path, layers: object, entity: str | None) -> Layers:
    if not isinstance(layers, Mapping):
        raise Corrupt(
            f"{str(folder / 'structured.json')!r} must be an object with metadata, pieces and graph"
        )
    valid, wrong = schema.checked(layers, frozenset() if entity is None else frozenset([entity]))
    if wrong:
        raise Invalid(
            f"{str(folder / 'structured.json')!r}: {wrong[0].where}: {wrong[0].why} ({wrong[0].what})"
        )
    return valid


def _put(path: Path, text: str) -> None:
    with path.open("wb") as file:
        file.write(text.encode(errors="replace"))
        file.flush()
        os.fsync(file.fileno())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"cannot write a check-in record in {str(folder)!r}: {error.strerror}"
        ) from error
