"""Check-in records: a folder per run with its input and result. It appears complete or not at all.

20260131T120000000000Z-1a2b3c4d5e6f/
  input.txt         the text, byte for byte
  structured.json   the three layers; missing if the run failed
  record.json       time, space, entity, source, hash, model, prompt, skipped entries, error
  artifacts/        answer-01-1.txt … (chunk, attempt) and, once it is stored, loaded.json
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
from knowloom.model import Key
from knowloom.report import Report, Skipped
from knowloom.structuring import schema
from knowloom.structuring.merge import list_ids, unique_id
from knowloom.structuring.prompting import ModelAnswer
from knowloom.structuring.schema import Layers

VERSION = 1
_WRITTEN_FIELDS = ("space", "entity", "source", "hash", "model", "prompt", "max_retries", "error")


@dataclass(frozen=True, slots=True)
class IngestRecord:
    """The input and result of a run. `layers` is None if it failed, and `error` says why."""

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
    """Return a hash of a text, its space and its entity."""
    return hashlib.sha256(codec.to_json([space, entity, text]).encode()).hexdigest()


def write_record(folder: Path, record: IngestRecord, answers: Sequence[ModelAnswer]) -> Path:
    """Write a record and return its folder, which only its owner can read, as texts are private."""
    name = f"{record.time.astimezone(UTC):%Y%m%dT%H%M%S%fZ}-{record.hash[:12]}"
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".partial", dir=folder))
        try:
            _fill(partial, record, answers)
            complete = folder / unique_id(name, {path.name for path in folder.iterdir()})
            partial.rename(complete)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return complete


def _fill(folder: Path, record: IngestRecord, answers: Sequence[ModelAnswer]) -> None:
    row = {
        "version": VERSION,
        "time": codec.time_to_text(record.time),
        **{name: getattr(record, name) for name in _WRITTEN_FIELDS},
        "skipped": [asdict(entry) for entry in record.skipped],
        "answers": [
            {
                "portion": answer.chunk,
                "attempt": answer.attempt,
                "complaints": list(answer.problems),
            }
            for answer in answers
        ],
    }
    (folder / "artifacts").mkdir()
    for answer in answers:
        name = f"answer-{answer.chunk:02}-{answer.attempt}.txt"
        _write_text(folder / "artifacts" / name, answer.text)
    _write_text(folder / "input.txt", record.text)
    if record.layers is not None:
        _write_text(folder / "structured.json", _to_json(record.layers))
    _write_text(folder / "record.json", _to_json(row))


def mark_loaded(folder: Path, report: Report) -> None:
    """Add the report of loading a record to it."""
    with _writable(folder):
        partial = folder / "artifacts" / ".loaded.json.partial"
        _write_text(partial, _to_json(asdict(report)))
        partial.replace(folder / "artifacts" / "loaded.json")


def is_loaded(folder: Path) -> bool:
    return (folder / "artifacts" / "loaded.json").is_file()


def read_record(folder: Path) -> IngestRecord:
    """Read a record; its structured JSON, which a user may have edited, is validated again."""
    if not (folder / "record.json").is_file():
        raise NotFound(
            f"{str(folder)!r} is not a check-in record: it has no record.json", "no_record"
        )
    try:
        row = json.loads((folder / "record.json").read_text("utf-8"))
        text = (folder / "input.txt").read_bytes().decode()
        structured = folder / "structured.json"
        layers = json.loads(structured.read_text("utf-8")) if structured.is_file() else None
        skipped = tuple(Skipped(**entry) for entry in row["skipped"])
        values: dict[str, Any] = {name: row[name] for name in _WRITTEN_FIELDS if name != "hash"}
        time = codec.text_to_time(row["time"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise Corrupt(f"the check-in record {str(folder)!r} is damaged: {problem}") from error
    except OSError as error:
        raise Unavailable(
            f"the check-in record {str(folder)!r} cannot be read: {error.strerror}"
        ) from error
    valid = None if layers is None else _validate(structured, layers, values["entity"])
    return IngestRecord(text, time=time, layers=valid, skipped=skipped, **values)


def find_records(folder: Path, hash: str) -> Iterator[tuple[Path, IngestRecord]]:
    """Yield the records of successful runs with this content, the latest first."""
    if folder.is_dir():
        for path in sorted(folder.glob(f"[0-9]*-{hash[:12]}*"), reverse=True):
            if (path / "structured.json").is_file() and (record := read_record(path)).hash == hash:
                yield path, record


def mentions_items(folder: Path, keys: Sequence[Key]) -> bool:
    """Return True for a record of one of the items: it is in its result, or its entity."""
    if not (folder / "record.json").is_file():
        return False
    record = read_record(folder)
    ids = {record.entity, *(list_ids(record.layers) if record.layers else ())}
    return any(space == record.space and id in ids for space, id in keys)


def _validate(path: Path, layers: object, entity: str | None) -> Layers:
    if not isinstance(layers, Mapping):
        raise Corrupt(f"{str(path)!r} must be an object with metadata, pieces and graph")
    external = frozenset() if entity is None else frozenset([entity])
    valid, invalid = schema.validate_layers(layers, external)
    if invalid:
        entry = invalid[0]
        raise Invalid(f"{str(path)!r}: {entry.where}: {entry.why} ({entry.what})")
    return valid


def _write_text(path: Path, text: str) -> None:
    with path.open("wb") as file:
        file.write(text.encode(errors="replace"))
        file.flush()
        os.fsync(file.fileno())


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"cannot write a check-in record in {str(folder)!r}: {error.strerror}"
        ) from error
