"""Ingest free text: reuse its record or structure it, write a record, load the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TypedDict

from knowloom.errors import Conflict, Invalid
from knowloom.model import Item
from knowloom.options import check_option_names
from knowloom.ports import LLM
from knowloom.report import Report
from knowloom.structuring import merge, prompting, records
from knowloom.structuring.records import IngestRecord
from knowloom.structuring.schema import Layers
from knowloom.validation import validate_int, validate_name

MAX_TEXT = 2_000_000  # characters
MAX_RETRIES = 20
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of `ingest`."""

    source: str = ""  # where the text comes from
    max_retries: int = 3  # after an invalid answer of the model
    max_chars: int = prompting.MAX_CHARS  # of a chunk
    again: bool = False  # ask the model even if the text has a record
    dry_run: bool = False  # write a record, but store nothing


class IngestArguments(TypedDict, total=False):
    """The fields of `IngestOptions` as keyword arguments."""

    source: str
    max_retries: int
    max_chars: int
    again: bool
    dry_run: bool


INGEST_OPTIONS = tuple(option.name for option in fields(IngestOptions))


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of ingesting a text: its three layers, and the folder of its check-in record."""

    report: Report
    layers: Layers
    record: Path | None = None
    duplicate: bool = False  # the same text is stored already: no call to the model, no change
    reused: bool = False  # loaded from an earlier record, without a call to the model


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """A text, its target and its options."""

    text: str
    space: str
    entity: str | None
    record_dir: Path | None
    now: datetime
    options: IngestOptions


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """The engine's functions: get stored items by id, load three layers, remove secrets."""

    get_items: Callable[[Sequence[str], str], Sequence[Item]]
    load: Callable[[Layers, str], Report]
    screen_text: Callable[[str], str]


def build_request(
    text: str,
    space: str,
    entity: str | None,
    record_dir: str | Path | None,
    now: datetime,
    arguments: IngestArguments,
) -> IngestRequest:
    """Return a validated request."""
    check_option_names(arguments, INGEST_OPTIONS)
    folder = None if record_dir is None else _validate_path("record_dir", record_dir)
    request = IngestRequest(text, space, entity, folder, now, IngestOptions(**arguments))
    _validate(request)
    return request


def ingest(
    request: IngestRequest, llm: LLM, target: IngestTarget, progress: Progress | None = None
) -> Ingested:
    """Structure a text, unless it has a record, and load the result."""
    if not callable(getattr(llm, "complete", None)):
        example = "knowloom.open_llm('openai:MODEL')"
        raise Invalid(f"llm must be an LLM such as {example}, got {type(llm).__name__}")
    # Before it goes to a server and into a record.
    request = replace(request, text=target.screen_text(request.text))
    options = request.options
    if request.record_dir is not None and not options.again:
        digest = records.content_hash(request.text, request.space, request.entity)
        earlier = next(records.find_records(request.record_dir, digest), None)
        if earlier is not None:
            return _reuse(request, *earlier, target)
    layers, report, folder = _structure(request, llm, progress)
    if not options.dry_run:
        report += _load(layers, request.space, options.source, folder, target)
    return Ingested(report, layers, folder)


def replay(record_dir: str | Path, space: str | None, target: IngestTarget) -> Report:
    """Load a record again, into its own space or another."""
    folder = _validate_path("record", record_dir)
    record = records.read_record(folder)
    if record.layers is None:
        message = f"the run of {str(folder)!r} failed, so there is nothing to load: {record.error}"
        raise Conflict(message, "failed_record")
    space = record.space if space is None else space
    report = Report(skipped=record.skipped)
    return report + _load(record.layers, space, record.source, folder, target)


def _reuse(
    request: IngestRequest, folder: Path, record: IngestRecord, target: IngestTarget
) -> Ingested:
    """Return the result of an earlier record, and load it if it is not stored already."""
    layers, report = record.layers, Report(skipped=record.skipped)
    assert layers is not None
    if request.options.dry_run:
        return Ingested(report, layers, folder, reused=True)
    if records.is_loaded(folder) and target.get_items(merge.list_ids(layers), request.space):
        return Ingested(report, layers, folder, duplicate=True)
    report += _load(layers, request.space, record.source, folder, target)
    return Ingested(report, layers, folder, reused=True)


def _structure(
    request: IngestRequest, llm: LLM, progress: Progress | None
) -> tuple[Layers, Report, Path | None]:
    """Ask the model; write the record before anything is stored, and also if the run fails."""
    options, record_dir = request.options, request.record_dir
    run = prompting.StructuringRun(llm, request.entity, options.max_retries, progress)
    record = IngestRecord(
        request.text,
        request.space,
        request.entity,
        request.now,
        llm.name,
        prompting.prompt_version(),
        options.source,
        options.max_retries,
    )
    try:
        layers, skipped = run.run(request.text, options.max_chars)
    except BaseException as error:  # also Ctrl-C, and whatever a plug-in raises
        if record_dir is not None:
            failed = replace(record, error=str(error) or type(error).__name__)
            folder = records.write_record(record_dir, failed, run.answers)
            error.add_note(f"the record of the run is {folder}")
        raise
    report = Report(skipped=tuple(skipped))
    if record_dir is None:
        return layers, report, None
    record = replace(record, layers=layers, skipped=report.skipped)
    return layers, report, records.write_record(record_dir, record, run.answers)


def _load(
    layers: Layers, space: str, source: str, folder: Path | None, target: IngestTarget
) -> Report:
    stored = {item.id: item for item in target.get_items(merge.list_ids(layers), space)}
    merged, skipped = merge.merge_with_stored(layers, stored, source)
    report = Report(skipped=tuple(skipped)) + target.load(merged, space)
    if folder is not None:
        records.mark_loaded(folder, report)
    return report


def _validate_path(name: str, value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise Invalid(f"{name} must be a path, got {value!r}")
    return Path(value)


def _validate(request: IngestRequest) -> None:
    text = request.text
    if not isinstance(text, str):
        raise Invalid(f"text must be text, got {type(text).__name__}")
    if not text.strip():
        raise Invalid("text must not be empty")
    if len(text) > MAX_TEXT:
        raise Invalid(f"text must have <= {MAX_TEXT:,} characters, got {len(text):,}: split it")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid("text must not contain NUL characters or lone surrogates: it looks binary")
    options = request.options
    names = ("space", request.space), ("entity", request.entity), ("source", options.source)
    for name, value in names:
        if value is not None and not validate_name(name, value) and name != "source":
            raise Invalid(f"{name} must not be empty")
    validate_int("max_retries", options.max_retries, 0, MAX_RETRIES)
    validate_int("max_chars", options.max_chars, 500, 200_000)
